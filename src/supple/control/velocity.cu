// Velocity inverse kinematics of many robots, one thread for each (supple/servo/velocity.hpp). Each
// thread first tries the fast path, in registers. Robots that need the slow path (near a
// singularity, and some at joint limits) are collected until every thread of the block has one, so
// that the other warps need not wait for a few slow robots.
//
// Compiled at run time for one robot, its tasks, a step and limits: given.hpp holds their constants
// (src/core/drivers/gpu_constants.hpp) and the type `Real`.
#include "device_rows.hpp"
#include "supple/servo/velocity.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = RobotConstants<Real>;
constexpr int n = Constants::servo.chain.nv, nq = n + Constants::servo.chain.balls;
constexpr int m = Constants::servo.rows;
constexpr int twists = 6 * Constants::servo.tasks;
constexpr int threads = 128;  // number of threads in a block
// Minimum number of blocks on a multiprocessor, which limits the registers of a thread; small
// problems need few registers. Tuned constants are explained in docs/constants.md.
constexpr int small_problem = 42;  // rows times joints, in float
constexpr int small_blocks = 5, large_blocks = 2;
constexpr int blocks = sizeof(Real) == 4 && m * n <= small_problem ? small_blocks : large_blocks;

// Returns the step for the slow path, which computes singular values.
constexpr Step<Real> slow_path_step(Step<Real> step) {
  if (has_fast_path(step) && is_damped(step)) step.method = Method::damped_svd;
  return step;
}
constexpr Servo<Real> with_step(Servo<Real> servo, const Step<Real>* step) {
  servo.step = step;
  return servo;
}
struct SlowPath {
  static constexpr Step<Real> step = slow_path_step(Constants::step[0]);
  static constexpr Servo<Real> servo = with_step(Constants::servo, &step);
};

// The arguments of a call. (The same layout as `Request` in gpu_velocities.py.)
struct Request {
  const Real* q;      // (count, nq)
  const Real* qd;     // (count, n): current joint speeds; null if no limit depends on them
  const Real* twist;  // (count, tasks, 6)
  Real* result;       // (count, n); may be the same array as qd
  int count;
};

struct Robot {
  Real q[n], qd[n], twist[twists], dq[n];
  bool valid;  // whether all input is finite
};

__device__ __forceinline__ Robot read(const Request& request, long long row) {
  Robot robot;
  Real q[nq];
  read_row<nq>(request.q, row, q);
  robot.valid = to_kernel(Constants::servo.chain, q, robot.q);
  for (int j = 0; j < n; ++j) {
    robot.qd[j] = brakes(Constants::servo) ? request.qd[row * n + j] : Real(0);
    robot.valid = robot.valid && finite(robot.qd[j]);
  }
  for (int i = 0; i < twists; ++i) {
    robot.twist[i] = request.twist[row * twists + i];
    robot.valid = robot.valid && finite(robot.twist[i]);
  }
  return robot;
}

// Writes the result, or zeros if it is not finite.
__device__ __forceinline__ void write(const Request& request, long long row, const Real* speeds,
                                      bool valid) {
  for (int j = 0; j < n; ++j) valid = valid && finite(speeds[j]);
  for (int j = 0; j < n; ++j) request.result[row * n + j] = valid ? speeds[j] : Real(0);
}

__device__ __forceinline__ bool fast_path(Robot& robot) {
  Pose<Real> joint_poses[Constants::servo.chain.joints];
  Real J[m * n], scratch[fast_scratch(m, n)];
  return resolve_fast(Constants::servo, Fixed<Constants::servo.tasks>{}, Fixed<m>{}, Fixed<n>{},
                      robot.q, robot.qd, robot.twist, robot.dq, joint_poses, J, scratch);
}

__device__ __noinline__ void slow_path(const Request& request, int row) {
  constexpr int size = resolve_scratch(SlowPath::servo);
  Robot robot = read(request, row);
  Real J[m * n], e[2 * m], active_set[n], task_work[size], step_work[size], limit_work[size];
  ServoState<Real> state{robot.q,  robot.qd,   nullptr, J,        e,       e + m,
                         robot.dq, active_set, nullptr, nullptr,  nullptr, Real(-1),
                         Real(0),  Real(0),    Real(0), Real(-1), false};
  resolve_velocity(SlowPath::servo, Fixed<m>{}, Fixed<n>{}, robot.twist, state, task_work,
                   step_work, limit_work);
  write(request, row, robot.qd, robot.valid);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, blocks) step(Request request) {
  __shared__ int pending[2 * threads], pending_count;  // robots for the slow path
  if (threadIdx.x == 0) pending_count = 0;
  __syncthreads();
  for (int first = blockIdx.x * threads; first < request.count; first += gridDim.x * threads) {
    const int row = first + threadIdx.x;
    if (row < request.count) {
      Robot robot = read(request, row);
      if (!robot.valid || fast_path(robot)) {
        write(request, row, robot.dq, robot.valid);
      } else {
        pending[atomicAdd(&pending_count, 1)] = row;
      }
    }
    __syncthreads();
    const int rest = pending_count - threads;
    __syncthreads();
    if (rest < 0) continue;
    slow_path(request, pending[rest + threadIdx.x]);  // one robot for each thread
    if (threadIdx.x == 0) pending_count = rest;
    __syncthreads();
  }
  if (threadIdx.x < pending_count) slow_path(request, pending[threadIdx.x]);
}

}  // namespace supple
