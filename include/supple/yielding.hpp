// A step that yields (supple.steps.Yielding): exact where the joints can follow, and giving way
// only along the singular directions in which they cannot.
//
// The command is the velocity t of the target plus a gain s times its offset o.
//
// Braking. The correction of the offset never asks for more speed than the joints can brake on the
// way (braking_gain.hpp).
//
// Midpoint. J is that of the configuration which the joints reach in half a step at their present
// velocities, so that the step is accurate to second order, also where σ passes zero.
//
// Singular directions. Each nearly singular direction has its own damping, only as large as the
// limits on acceleration, the end of the reach, or a target beyond it require (singular_step.hpp).
// Elsewhere the step is exact (regular_step.hpp).
//
// Self-motion. A redundant arm with one task moves away from singularities and from position limits
// (avoidance.hpp).
//
// Joints at a position limit that the step would move beyond it, and slides at their speed limit,
// are left out, and the step is computed again for the others. Constants are explained in
// docs/constants.md.
#pragma once

#include "supple/regular_step.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr T slope_time = T(0.02);  // time constant of the estimated deceleration of t [s]

// λ² of the problem that the limits solve, in units of κ².
template <class T>
inline constexpr T held_ridge = T(1e-9);

// Largest number of rounds in a step; each round leaves out more joints.
inline constexpr int stopping_rounds = 3;

// Number of entries of scratch memory that `yielding_step` needs.
template <class T>
SUPPLE_FN constexpr int yielding_scratch(const Chain<T>& chain, int m) {
  const int n = chain.coordinates, k = m < n ? m : n;
  return 12 * chain.joints + 5 * m * n + 4 * k * k + (m + 2 * n) * k + 14 * (m + n) + 13 * k;
}

// Whether a joint is at the upper end of its range (`end` = 1), or at the lower end (`end` = -1).
template <class T>
SUPPLE_FN bool is_at_end(const JointLimit<T>& limit, T q, T end) {
  const T tolerance = T(64) * Number<T>::epsilon * max(abs(q), T(1));
  return end > 0 ? q >= limit.upper - tolerance : q <= limit.lower + tolerance;
}

// Whether a coordinate moves only prismatic joints.
template <class T>
SUPPLE_FN bool is_slide(const Chain<T>& chain, int coordinate) {
  if (!chain.lengths) return false;
  bool slides = true;
  for (int k = 0; k < chain.joints; ++k) {
    const Joint<T>& joint = chain.joint[k];
    slides = slides && (joint.coordinate != coordinate || joint.motion == Motion::prismatic);
  }
  return slides;
}

// Returns the speed toward `end` (1 or -1) with which a joint is left out of the step if the step
// would move it faster: zero at the end of its range; for a prismatic joint at its speed limit that
// limit, because its motion does not turn the joints after it; else infinite.
template <class T>
SUPPLE_FN T end_speed(const Servo<T>& servo, const ServoState<T>& state, int j, T end) {
  const JointLimit<T>& limit = servo.limit[j];
  if (is_at_end(limit, state.q[j], end)) return T(0);
  const bool fast = end * state.qd[j] >= limit.speed * (1 - T(64) * Number<T>::epsilon);
  return fast && is_slide(servo.chain, j) ? limit.speed : Number<T>::huge;
}

// Updates state.slope, the rate of change of t (m) filtered over `slope_time`, and state.rate = t.
template <class T>
SUPPLE_FN void update_slope(const Servo<T>& servo, ServoState<T>& state, const T* rate) {
  if (state.held) {  // the rows that take part differ from step to step
    for (int r = 0; r < servo.rows; ++r) state.slope[r] = T(0);
    return;
  }
  const T share = servo.dt / max(T(slope_time<T>), servo.dt);
  for (int r = 0; r < servo.rows; ++r) {
    const T change = (rate[r] - state.rate[r]) / servo.dt;
    state.slope[r] =
        state.has_previous ? fma(share, change - state.slope[r], state.slope[r]) : T(0);
    state.rate[r] = rate[r];
  }
}

// Computes the step state.dq of `Yielding` from state.J, state.e and state.offset. state.exact_J
// becomes J, and state.J the J of the problem that the limits solve (servo_limits.hpp).
// state.stopped (n) marks the joints that are left out.
template <class T>
SUPPLE_FN void yielding_step(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T *J = scratch + 12 * servo.chain.joints, *rate = J + m * n, *rest = rate + m;
  for (int i = 0; i < m * n; ++i) state.exact_J[i] = J[i] = state.J[i];
  bool aims = false;  // whether J depends on the target
  for (int k = 0; k < servo.tasks; ++k) {
    aims = aims || servo.task[k].alternate || has_tilt(servo.task[k]);
  }
  for (int j = 0; j < n; ++j)
    rest[j] = fma(aims ? T(0) : T(0.5) * servo.dt, state.qd[j], state.q[j]);
  forward(servo.chain, rest, joint_poses);
  if (!aims) {
    rows_jacobian(rows_of(servo, state), joint_poses, rest);
    for (int i = 0; i < m * n; ++i) J[i] = rest[i];
  }
  for (int r = 0; r < m; ++r) rate[r] = fma(-servo.gain, state.offset[r], state.e[r]);
  for (int j = 0; j < n; ++j) state.stopped[j] = T(0);
  update_slope(servo, state, rate);
  const StepCommand<T> of{J, state.offset, rate, joint_poses};
  const T kappa = servo.curvature / servo.dt;
  state.held_lambda2 = held_ridge<T> * square(kappa);
  for (int round = 0; round < stopping_rounds; ++round) {
    state.lambda2 = state.beyond = T(0);
    for (int r = 0; r < m; ++r) state.lost[r] = T(0);
    state.self_moves = false;
    const auto stepped = [&](auto rows, auto columns) {
      if (!regular_step(rows, columns, servo, state, of, rest)) {
        singular_step(rows, columns, servo, state, of, rest);
      }
    };
    m == 6 && n == 7   ? stepped(Fixed<6>{}, Fixed<7>{})
    : m == 6 && n == 6 ? stepped(Fixed<6>{}, Fixed<6>{})
                       : stepped(m, n);
    bool changed = false;
    for (int j = 0; j < n; ++j) {
      const T end = state.dq[j] > 0 ? T(1) : T(-1), fast = end_speed(servo, state, j, end);
      if (state.stopped[j] != 0 || !(end * state.dq[j] > fast)) continue;
      state.stopped[j] = end;
      for (int r = 0; r < m; ++r) {
        rate[r] = fma(-end * fast, J[r * n + j], rate[r]);
        J[r * n + j] = T(0);
      }
      changed = true;
    }
    if (!changed) break;
  }
  for (int j = 0; j < n; ++j) {
    if (state.stopped[j] == 0) continue;
    const T fast = end_speed(servo, state, j, state.stopped[j]);
    if (fast < Number<T>::huge) state.dq[j] = state.stopped[j] * fast;
  }
}

}  // namespace supple::inline SUPPLE_ISA
