// Steps toward targets of many robots, one thread for each (supple/servo/tree_step.hpp). Robots
// that a limit stops take several solutions: they are collected until every thread of the warp has
// one.
//
// Compiled at run time for one robot, its tasks and limits: given.hpp holds their constants
// (src/core/drivers/gpu_constants.hpp), the type `Real` of the arrays, and the places of targets.
// All numbers are computed in double precision: weights differ by factors of thousands, and their
// squares exceed the precision of float.
#include "device_rows.hpp"
#include "supple/servo/tree_step.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = RobotConstants<double>;
constexpr const Servo<double>& servo = Constants::servo;
constexpr int n = servo.chain.nv, nq = n + servo.chain.balls;
constexpr int joints = servo.chain.joints > 0 ? servo.chain.joints : 1;
constexpr int rows = servo.rows, tasks = servo.tasks;
constexpr int K = multipliers(tasks, servo.task);
constexpr int items = attachments(tasks, servo.task) > 0 ? attachments(tasks, servo.task) : 1;
constexpr int threads = 64;  // number of threads in a block
// Minimum number of blocks on a multiprocessor, which limits the registers of a thread. Tuned
// constants are explained in docs/constants.md.
constexpr int tree_blocks = 8;

struct Plan {
  int slot[joints] = {}, begin[joints + 1] = {};
  Attachment item[items] = {};
  int slots = 0;
  constexpr Plan() { slots = make_plan(servo.chain, tasks, servo.task, slot, begin, item).slots; }
};
struct Given {
  static constexpr Plan own = Plan();
  static constexpr TreePlan plan = {own.slots, own.slot, own.begin, own.item};
};
constexpr int slots = Given::own.slots;
constexpr int target_values = sizeof(Places::place) / sizeof(int);

// The arguments of a call. (The same layout as `Request` in gpu_targets.py.)
struct Request {
  const Real* q;              // (count, nq)
  const Real* qd;             // (count, n): current joint speeds; null if no limit depends on them
  const Real* target[tasks];  // of each task, in the caller's form (`Places`); null if none
  long long stride[tasks];    // between the targets of two robots; zero if they are the same
  Real* result;               // (count, n); may be the same array as qd
  int count;
};

struct Robot {
  double q[n], qd[n], target[target_values];
  double low[n], high[n], active_set[n], rest[5 * n];
  double memory[tree_scratch(joints, slots, tasks, rows, n)];
  TreeWork<double> work;
};

// Reads the targets of a robot in the order of the kernel. Returns whether they are finite.
__device__ __forceinline__ bool read_targets(const Request& request, int row, double* target) {
  bool valid = true;
  SUPPLE_UNROLL for (int k = 0; k < tasks; ++k) {
    const Task<double>& task = servo.task[k];
    const int size = target_size(task);
    const Real* const from = request.target[k] + row * request.stride[k];
    SUPPLE_UNROLL for (int i = 0; i < size; ++i) {
      double number = __longlong_as_double(0x7ff8000000000000);  // no target
      if (request.target[k]) {
        const int place = Places::place[Places::offset[k] + i];
        number = place >= 0 ? double(from[place]) : double(-1 - place);
        valid = valid && finite(number);
      }
      target[i] = number;
    }
    target += size;
  }
  return valid;
}

__device__ __forceinline__ bool read(const Request& request, int row, Robot& robot) {
  double q[nq];
  read_row<nq>(request.q, row, q);
  bool valid = to_kernel(servo.chain, q, robot.q);
  for (int j = 0; j < n; ++j) {
    robot.qd[j] = request.qd ? double(request.qd[(long long)row * n + j]) : 0.0;
    valid = valid && finite(robot.qd[j]);
  }
  return read_targets(request, row, robot.target) && valid;
}

__device__ __noinline__ bool solve(TreeWork<double>& work, const double* fixed) {
  return solve_tree(servo, Given::plan, Fixed<K>{}, work, fixed);
}

// Computes the step without limits. Returns whether it is valid; `inside` is whether it keeps them.
__device__ __noinline__ bool fast_path(Robot& robot, bool& inside) {
  prepare_tree(servo, Constants::step[0].damping.p[0], robot.q, robot.target, robot.work);
  bool valid = solve(robot.work, nullptr);
  inside = true;
  for (int j = 0; j < n; ++j) {
    const double x = robot.work.x[j];
    joint_box(servo.limit[j], robot.q[j], robot.qd[j], 0.0, double(servo.dt), robot.low[j],
              robot.high[j]);
    valid = valid && finite(x);
    inside = inside && x >= robot.low[j] && x <= robot.high[j];
  }
  return valid;
}

__device__ __forceinline__ void write(const Request& request, int row, const double* x,
                                      bool valid) {
  for (int j = 0; j < n; ++j) valid = valid && finite(x[j]);
  write_row<n>(x, valid, row, request.result);
}

__device__ __forceinline__ void start(Robot& robot) {
  robot.work = tree_work(joints, slots, tasks, rows, n, robot.memory);
}

__device__ __noinline__ void slow_path(const Request& request, int row, Robot& robot) {
  start(robot);
  bool inside, valid = read(request, row, robot);
  valid = valid && fast_path(robot, inside);
  if (valid) {
    limit_tree(
        servo, Constants::step[0].damping.p[0], robot.low, robot.high, robot.work, robot.active_set,
        robot.rest, [&](const double* fixed) { return solve(robot.work, fixed); },
        [&](double* to) { tree_gradient(servo, Given::plan, robot.work, to); });
  }
  write(request, row, robot.work.x, valid);
}

// Returns the number of the bit after `skipped` set ones, or -1 if there is none.
__device__ __forceinline__ int later_bit(unsigned bits, int skipped) {
  if (skipped < 0) return -1;
  for (; skipped > 0 && bits; --skipped) bits &= bits - 1;
  return __ffs(bits) - 1;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, tree_blocks) reach(Request request) {
  constexpr unsigned whole = 0xffffffffu;
  const int lane = threadIdx.x % 32;
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int stride = gridDim.x * blockDim.x;
  // A robot that limits stop, on the first `waiting` lanes.
  int pending = 0, waiting = 0;
  Robot robot;
  for (int first = 32 * warp; first < request.count; first += stride) {
    const int row = first + lane;
    bool stopped = false;
    if (row < request.count) {
      start(robot);
      bool inside = true, valid = read(request, row, robot);
      valid = valid && fast_path(robot, inside);
      stopped = valid && !inside;
      if (!stopped) write(request, row, robot.work.x, valid);
    }
    for (unsigned added = __ballot_sync(whole, stopped); added != 0;) {
      const int from = later_bit(added, lane - waiting);
      const int other = __shfl_sync(whole, row, from < 0 ? lane : from);
      if (from >= 0) pending = other;
      for (; added != 0 && waiting < 32; ++waiting) added &= added - 1;
      if (waiting < 32) break;
      slow_path(request, pending, robot);  // one robot on each lane
      waiting = 0;
    }
  }
  if (lane < waiting) slow_path(request, pending, robot);
}

}  // namespace supple
