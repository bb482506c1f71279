// Velocity inverse kinematics within limits, for each robot of a batch; nothing is kept between
// calls.
//
//   evaluate_tasks   kinematics and tasks: J, and the desired J q̇
//   step             q̇ and its damping
//   advance          limits, if there are any
//
// `resolve_velocity` computes the first step of a control loop (servo.hpp) on lanes. `resolve_fast`
// is a fast path that is valid for most robots of a batch, and needs so little memory that a CUDA
// thread keeps it in registers.
#pragma once

#include "supple/limits/limits.hpp"
#include "supple/servo/servo.hpp"
#include "supple/step/step.hpp"

namespace supple::inline SUPPLE_ISA {

// Whether the robot has limits on joints or on the norm of q̇.
template <class T>
SUPPLE_FN constexpr bool has_limits(const Servo<T>& servo) {
  constexpr T none = Number<T>::huge;
  bool limited = servo.max_norm < none;
  for (int j = 0; j < servo.chain.nv; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    limited = limited || limit.lower > -none || limit.upper < none || limit.speed < none ||
              limit.acceleration < none || limit.jerk < none;
  }
  return limited;
}

// Whether the result depends on the current joint speeds: some acceleration or jerk is limited.
template <class T>
SUPPLE_FN constexpr bool brakes(const Servo<T>& servo) {
  bool limited = false;
  for (int j = 0; j < servo.chain.nv; ++j) {
    limited = limited || servo.limit[j].acceleration < Number<T>::huge ||
              servo.limit[j].jerk < Number<T>::huge;
  }
  return limited;
}

// Number of lanes of scratch memory that `resolve_velocity` needs, in each of its three blocks.
template <class T>
SUPPLE_FN constexpr int resolve_scratch(const Servo<T>& servo) {
  const int m = servo.rows, n = servo.chain.nv, one = step_scratch(m, n);
  const int other = servo_scratch(servo);
  return one > other ? one : other;
}

// Computes q̇ (state.qd) at state.q for the commanded velocities of the tasks, concatenated. If
// accelerations are limited, state.qd is the current q̇ on entry. All m rows are resolved together
// in one step. The three blocks of scratch memory may be the same; if they differ, a GPU keeps the
// second in registers.
template <class L, class T, class M, class N>
SUPPLE_FN void resolve_velocity(const Servo<T>& servo, M m, N n, const L* velocity,
                                ServoState<L>& state, L* task_work, L* step_work, L* limit_work) {
  evaluate_tasks(servo, Command<L>{nullptr, velocity, nullptr}, state, task_work);
  state.chosen_lambda2 =
      step(*servo.step, m, n, state.J, state.e, L(-1), L(0), state.dq, step_work);
  if (has_limits(servo)) {
    advance(servo, m, n, state, limit_work);
  } else {
    for (int j = 0; j < n; ++j) state.qd[j] = state.dq[j];
  }
}

// Returns the lanes where the limits do not change a step dq (n).
template <class L, class T>
SUPPLE_FN mask_t<L> within_limits(const Servo<T>& servo, const L* q, const L* qd, const L* dq) {
  const int n = servo.chain.nv;
  const L most = L(servo.max_norm * (servo.keep_direction ? just_below<T> : T(1)));
  mask_t<L> inside = dot(n, dq, dq) <= most * most;
  for (int j = 0; j < n; ++j) {
    L low, high;
    joint_box(servo.limit[j], q[j], qd[j], L(0), L(servo.dt), low, high);
    inside = inside & (dq[j] >= low) & (dq[j] <= high);
  }
  return inside;
}

// Computes J and the desired velocity of task k; k may be a compile-time constant.
template <class L, class T>
struct TaskRows {
  const Servo<T>& servo;
  const Pose<L>* joint_poses;
  const L* velocity;
  L *J, *e;

  template <class K>
  SUPPLE_INLINE void operator()(K k) const {
    int rows = 0;
    for (int i = 0; i < k; ++i) rows += servo.task[i].rows;
    const int n = servo.chain.nv;
    task_jacobian(servo.chain, servo.task[k], joint_poses, J + rows * n);
    task_command(servo.chain, servo.task[k], joint_poses, velocity + 6 * k, e + rows);
  }
};

// The fast path of `resolve_velocity`, for `tasks` tasks with a total of m rows, none of them a
// posture. With compile-time sizes everything stays in registers. Returns the lanes where dq (n) is
// valid: no singular values are needed, no limit is active, and all angles are within the range of
// the polynomials for sine and cosine.
template <class L, class T, class K, class M, class N>
SUPPLE_FN mask_t<L> resolve_fast(const Servo<T>& servo, K tasks, M m, N n, const L* q, const L* qd,
                                 const L* velocity, L* dq, Pose<L>* joint_poses, L* J, L* scratch) {
  const Step<T>& how = *servo.step;
  if (!has_fast_path(how)) return L(0) != L(0);
  L *desired = scratch, *e = desired + m, *scaled = e + m, *rest = scaled + m * n, lambda2;
  const mask_t<L> near = joint_sines_in_range(servo.chain, q, joint_poses);
  place_joints(servo.chain, joint_poses);
  each(tasks, TaskRows<L, T>{servo, joint_poses, velocity, J, desired});
  const L* const seen = apply_weights(how, m, n, J, desired, e, scaled);
  mask_t<L> right = near & fast_step(how, m, n, seen, e, L(-1), L(0), L(0), dq, &lambda2, rest);
  unweight(how, n, dq);
  if (has_limits(servo)) right = right & within_limits(servo, q, qd, dq);
  return right;
}

// Number of lanes of scratch memory that `resolve_fast` needs.
SUPPLE_FN constexpr int fast_scratch(int m, int n) {
  const int one = optimal_scratch(m, n), other = cholesky_scratch(m);
  return 2 * m + m * n + (one > other ? one : other);
}

}  // namespace supple::inline SUPPLE_ISA
