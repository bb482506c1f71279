// Joint speeds of many robots, a thread for each: `follow` of velocity.hpp. The quick way first, in
// registers. What it does not lead to (singular robots, some at their limits) is gathered until
// there is one for every thread of the block: a few of them do not keep all warps waiting.
//
// Compiled when run, for a robot, its tasks, a step and limits: given.hpp is the text of their
// constants (src/core/drivers/gpu_constants.hpp), and says what `Real` is.
#include "supple/velocity.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = RobotConstants<Real>;
constexpr int n = Constants::servo.chain.coordinates;
constexpr int m = Constants::servo.rows;
constexpr int twists = 6 * Constants::servo.tasks;
constexpr int threads = 128;  // of a block
// At least so many blocks at a time: what is small fits into that many registers.
constexpr int blocks = sizeof(Real) == 4 && m * n <= 42 ? 5 : 2;

// The same servo where the quick way has not led to a step: it takes singular values.
constexpr Step<Real> careful(Step<Real> step) {
  if (has_quick_way(step)) step.method = Method::damped_svd;
  return step;
}
constexpr Servo<Real> with_step(Servo<Real> servo, const Step<Real>* step) {
  servo.step = step;
  return servo;
}
struct Careful {
  static constexpr Step<Real> step = careful(Constants::step[0]);
  static constexpr Servo<Real> servo = with_step(Constants::servo, &step);
};

// What a call is about. (The same layout as `Request` in velocity.py.)
struct Request {
  const Real* q;      // (count, n)
  const Real* qd;     // (count, n): how fast they went; null if that makes no difference
  const Real* twist;  // (count, tasks, 6)
  Real* result;       // (count, n), which may be qd
  int count;
};

struct Robot {
  Real q[n], qd[n], twist[twists], dq[n];
  bool sound;  // all given numbers are finite
};

__device__ __forceinline__ Robot read(const Request& request, long long row) {
  Robot robot;
  robot.sound = true;
  for (int j = 0; j < n; ++j) {
    robot.q[j] = request.q[row * n + j];
    robot.qd[j] = brakes(Constants::servo) ? request.qd[row * n + j] : Real(0);
    robot.sound = robot.sound && finite(robot.q[j]) && finite(robot.qd[j]);
  }
  for (int i = 0; i < twists; ++i) {
    robot.twist[i] = request.twist[row * twists + i];
    robot.sound = robot.sound && finite(robot.twist[i]);
  }
  return robot;
}

// Zeros for what is no number.
__device__ __forceinline__ void write(const Request& request, long long row, const Real* speeds,
                                      bool sound) {
  for (int j = 0; j < n; ++j) sound = sound && finite(speeds[j]);
  for (int j = 0; j < n; ++j) request.result[row * n + j] = sound ? speeds[j] : Real(0);
}

__device__ __forceinline__ bool quickly(Robot& robot) {
  Pose<Real> joint_poses[Constants::servo.chain.joints];
  Real J[m * n], scratch[quick_scratch(m, n)];
  return follow_quickly(Constants::servo, Fixed<Constants::servo.tasks>{}, Fixed<m>{}, Fixed<n>{},
                        robot.q, robot.qd, robot.twist, robot.dq, joint_poses, J, scratch);
}

__device__ __noinline__ void carefully(const Request& request, int row) {
  constexpr int size = follow_scratch(Careful::servo);
  Robot robot = read(request, row);
  Real J[m * n], e[2 * m], side[n], looking[size], stepping[size], acting[size];
  ServoState<Real> state{robot.q, robot.qd, J,        e,       e + m,   robot.dq, side,     nullptr,
                         nullptr, nullptr,  Real(-1), Real(0), Real(0), Real(0),  Real(-1), false};
  follow(Careful::servo, Fixed<m>{}, Fixed<n>{}, robot.twist, state, looking, stepping, acting);
  write(request, row, robot.qd, robot.sound);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, blocks) step(Request request) {
  __shared__ int left[2 * threads], lefts;  // robots that the quick way has not done
  if (threadIdx.x == 0) lefts = 0;
  __syncthreads();
  for (int first = blockIdx.x * threads; first < request.count; first += gridDim.x * threads) {
    const int row = first + threadIdx.x;
    if (row < request.count) {
      Robot robot = read(request, row);
      if (!robot.sound || quickly(robot)) {
        write(request, row, robot.dq, robot.sound);
      } else {
        left[atomicAdd(&lefts, 1)] = row;
      }
    }
    __syncthreads();
    const int rest = lefts - threads;
    __syncthreads();
    if (rest < 0) continue;
    carefully(request, left[rest + threadIdx.x]);  // enough for all threads
    if (threadIdx.x == 0) lefts = rest;
    __syncthreads();
  }
  if (threadIdx.x < lefts) carefully(request, left[threadIdx.x]);
}

}  // namespace supple
