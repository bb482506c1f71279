// Joint speeds of many robots, a thread for each: `follow` of velocity.hpp, in registers where the
// quick way leads to the step, else with singular values, or limits, in local memory.
//
// Compiled when run, for a robot, its tasks, a step and limits: given.hpp is the text of their
// constants (src/core/constants.hpp), and says what `Real` is.
#include "velocity.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Known = Given<Real>;
constexpr int n = Known::servo.chain.coordinates;
constexpr int m = Known::servo.rows;
constexpr int twists = 6 * Known::servo.tasks;

// What a robot's thread works with.
struct Robot {
  Real q[n], qd[n], twist[twists];
};

__device__ __forceinline__ bool quickly(const Robot& robot, Real* dq) {
  Pose<Real> joint_poses[Known::servo.chain.joints];
  Real J[m * n], scratch[quick_scratch(m, n)];
  return follow_quickly(Known::servo, Fixed<Known::servo.tasks>{}, Fixed<m>{}, Fixed<n>{}, robot.q,
                        robot.qd, robot.twist, dq, joint_poses, J, scratch);
}

// A copy of a robot: its address shall not keep the other from registers.
__device__ __noinline__ void carefully(Robot robot, Real* dq) {
  Real J[m * n], e[2 * m], step[n], side[n], scratch[follow_scratch(Known::careful)];
  ServoState<Real> state{robot.q, robot.qd, J,        e,       e + m,   step,    side,     nullptr,
                         nullptr, nullptr,  Real(-1), Real(0), Real(0), Real(0), Real(-1), false};
  follow(Known::careful, robot.twist, state, scratch);
  for (int j = 0; j < n; ++j) dq[j] = robot.qd[j];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    step(const Real* q, const Real* qd, const Real* twist, Real* result, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= count) return;
  const long long row = index;
  Robot robot;
  bool sound = true;
  for (int j = 0; j < n; ++j) {
    robot.q[j] = q[row * n + j];
    robot.qd[j] = brakes(Known::servo) ? qd[row * n + j] : Real(0);
    sound = sound && finite(robot.q[j]) && finite(robot.qd[j]);
  }
  for (int i = 0; i < twists; ++i) {
    robot.twist[i] = twist[row * twists + i];
    sound = sound && finite(robot.twist[i]);
  }
  Real dq[n];
  if (!sound || !quickly(robot, dq)) {
    Real other[n];
    for (int j = 0; j < n; ++j) other[j] = Real(0);
    if (sound) carefully(robot, other);
    for (int j = 0; j < n; ++j) dq[j] = other[j];
  }
  for (int j = 0; j < n; ++j) sound = sound && finite(dq[j]);
  for (int j = 0; j < n; ++j) result[row * n + j] = sound ? dq[j] : Real(0);
}

}  // namespace supple
