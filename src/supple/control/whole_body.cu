// Steps toward targets of many robots, one thread for each (supple/servo/tree_step.hpp). Robots
// that a limit stops take much longer, and those that many limits stop longer still. Because a warp
// waits for its slowest robot, such robots are put on lists, and each list has its own launch.
//
// Compiled at run time for one robot, its tasks and limits: given.hpp holds their constants
// (src/core/drivers/gpu_constants.hpp), the type `Real` of the arrays, and the places of targets.
// All numbers are computed in double precision: weights differ by factors of thousands, and the
// ratios of their squares exceed the precision of float.
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
constexpr int K = multipliers(servo);
constexpr int items = attachments(tasks, servo.task) > 0 ? attachments(tasks, servo.task) : 1;
constexpr int threads = 64;  // number of threads in a block
// Minimum number of blocks on a multiprocessor, which limits the registers of a thread. Tuned
// constants are explained in docs/constants.md.
constexpr int tree_blocks = 8;

struct Plan {
  int slot[joints] = {}, leader[joints] = {}, begin[joints + 1] = {};
  Attachment item[items] = {};
  int slots = 0;
  constexpr Plan() {
    slots = make_plan(servo.chain, tasks, servo.task, slot, leader, begin, item).slots;
  }
};
struct Given {
  static constexpr Plan own = Plan();
  static constexpr TreePlan plan = {own.slots, own.slot, own.leader, own.begin, own.item};
};
constexpr int slots = Given::own.slots;
constexpr int target_values = sizeof(Places::place) / sizeof(int);
// Number of rounds of the search for the active set before a robot is put on list 1.
constexpr int few_rounds = 12;

// The arguments of a call. (The same layout as `Request` in gpu_targets.py.)
struct Request {
  const Real* q;              // (count, nq)
  const Real* qd;             // (count, n): current joint speeds; null if no limit depends on them
  const Real* target[tasks];  // targets of each task in the caller's form (`Places`), or null
  long long stride[tasks];    // between the targets of two robots; zero if they are the same
  Real* result;               // (count, n); may be the same array as qd
  int* listed;                // (2 + 2 count,): lengths of two lists of robots, then the lists
  int count;

  __device__ int& length(int list) const { return listed[list]; }
  __device__ int* rows_of(int list) const { return listed + 2 + list * count; }
  __device__ void add(int list, int row) const { rows_of(list)[atomicAdd(&length(list), 1)] = row; }
};

struct Robot {
  double q[n], qd[n], target[target_values], low[n], high[n];
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
  robot.work = tree_work(joints, slots, tasks, rows, n, robot.memory);
  double q[nq];
  read_row<nq>(request.q, row, q);
  bool valid = to_kernel(servo.chain, q, robot.q);
  for (int j = 0; j < n; ++j) {
    robot.qd[j] = request.qd ? double(request.qd[(long long)row * n + j]) : 0.0;
    valid = valid && finite(robot.qd[j]);
  }
  return read_targets(request, row, robot.target) && valid;
}

// The functions of the tree: each is compiled only once. Inlined where they are called, they would
// take four times as long to compile.
__device__ __noinline__ void factor(TreeWork<double>& work, const double* fixed) {
  factor_tree(servo, Given::plan, Fixed<K>{}, work, fixed);
}
__device__ __noinline__ bool solve(TreeWork<double>& work, const double* fixed) {
  return solve_tree(servo, Given::plan, Fixed<K>{}, work, fixed);
}
__device__ __noinline__ void gradient(TreeWork<double>& work, double* to) {
  tree_gradient(servo, Given::plan, work, to);
}
__device__ __noinline__ void inverse(TreeWork<double>& work, int begin, double* table,
                                     double* scratch) {
  tree_inverse(servo, Given::plan, Fixed<K>{}, work, begin, table, scratch);
}
struct Tree {
  // All robots that come here need several rounds, or wait for robots of their warp that do.
  static constexpr int guess_round = 0;
  TreeWork<double>& work;
  int few_rounds;

  __device__ void factor(const double* fixed) const { supple::factor(work, fixed); }
  __device__ bool solve(const double* fixed) const { return supple::solve(work, fixed); }
  __device__ void gradient(double* to) const { supple::gradient(work, to); }
  __device__ void inverse(int begin, double* table, double* scratch) const {
    supple::inverse(work, begin, table, scratch);
  }
};

// Computes the step without limits, and whether it is `inside` them. Returns whether it is valid.
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

}  // namespace

// Computes the steps of all robots; those that a limit stops are put on list 0.
extern "C" __global__ void __launch_bounds__(threads, tree_blocks) reach(Request request) {
  const int stride = gridDim.x * blockDim.x;
  for (int row = own_row(); row < request.count; row += stride) {
    Robot robot;
    bool inside = true, valid = read(request, row, robot);
    valid = valid && fast_path(robot, inside);
    if (valid && !inside) {
      request.add(0, row);
    } else {
      write(request, row, robot.work.x, valid);
    }
  }
}

// Computes the steps of the robots on a list inside the limits. Robots of list 0 that need more
// than a few rounds to find their active set are put on list 1.
extern "C" __global__ void __launch_bounds__(threads, tree_blocks)
    limit(Request request, int list) {
  const int stride = gridDim.x * blockDim.x, count = request.length(list);
  for (int i = own_row(); i < count; i += stride) {
    const int row = request.rows_of(list)[i];
    Robot robot;
    double active_set[n], rest[limit_scratch(joints, slots, n)];
    bool inside, valid = read(request, row, robot) && fast_path(robot, inside);
    const Tree tree{robot.work, list == 0 ? few_rounds : 0};
    if (valid && !limit_tree(servo, Constants::step[0].damping.p[0], robot.low, robot.high,
                             robot.work, active_set, rest, tree)) {
      request.add(1, row);
    } else {
      write(request, row, robot.work.x, valid);
    }
  }
}

}  // namespace supple
