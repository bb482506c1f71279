// A step that yields (supple.steps.Yielding): exact where the joints can follow, and giving way
// only along the singular directions in which they cannot.
//
// The command is the velocity t of the target plus a gain s times its offset o. An offset longer
// than κ, half the reach, is shortened to κ.
//
// Braking. The correction of the offset is never so fast that the joints could not brake before the
// target (braking_gain.hpp).
//
// Midpoint. J is that of the configuration which the joints reach in half a step at their present
// velocities, so that the step is accurate to second order, also where σ passes zero.
//
// Singular directions. Each nearly singular direction has its own damping, only as large as the
// limits on acceleration, the end of the reach, or a target beyond it require (singular_rules.hpp).
// Elsewhere the step is exact (regular_step.hpp).
//
// Self-motion. A redundant arm with one task moves away from singularities and from position limits
// (avoidance.hpp).
//
// Parts. Tasks that share no joint, such as those of the two legs of a humanoid, have steps of
// their own (parts.hpp).
//
// Joints at a position limit that the step would move beyond it, and slides at their speed limit,
// are left out, and the step is computed again for the others. Constants are explained in
// docs/constants.md.
#pragma once

#include "supple/servo/floating_step.hpp"
#include "supple/servo/held_step.hpp"
#include "supple/servo/parts.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr T slope_time = T(0.02);  // time constant of the estimated deceleration of t [s]

// λ² of the problem that the limits solve, in units of κ².
template <class T>
inline constexpr T held_ridge = T(1e-9);

// Number of entries of scratch memory that `yielding_step` needs.
template <class T>
SUPPLE_FN constexpr int yielding_scratch(const Chain<T>& chain, int m) {
  const int n = chain.nv, k = m < n ? m : n;
  return 16 * chain.joints + 7 * m * n + 4 * k * k + (m + 2 * n) * k + 28 * (m + n) + n + 13 * k +
         (is_floating(chain) ? sweep_memory(chain) + floating_scratch(m, n) : 0);
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
    slides = slides && (joint.v_index != coordinate || joint.motion == Motion::prismatic);
  }
  return slides;
}

// Writes 1 for each row of J that bends with q, and 0 for each row of a posture, to `bends` (m).
// Returns whether there are rows of postures.
template <class T>
SUPPLE_FN bool find_curved_rows(const Servo<T>& servo, const ServoState<T>& state, T* bends) {
  bool linear = false;
  for (int k = 0, i = 0, r = 0; k < servo.tasks; ++k) {
    const bool posture = traits_of(servo.task[k]).is_linear;
    linear = linear || posture;
    for (const int end = i + servo.task[k].rows; i < end; ++i) {
      if (state.held && !(state.held[i] < Number<T>::huge)) continue;
      bends[r++] = posture ? T(0) : T(1);
    }
  }
  return linear;
}

// Returns the speed toward `end` (1 or -1) above which a joint is left out of the step, and moves
// at that speed instead: zero at the end of its range; the speed limit of a prismatic joint that
// has reached it, because such a joint does not turn the joints after it; otherwise infinity.
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

// Computes the step of a problem with m rows and n joints.
template <class T, class M, class N>
SUPPLE_FN void take_sized_step(M m, N n, const StepProblem<T>& of, T* scratch) {
  // With postures, `posture_step` has found that J is not regular.
  const bool tried = has_packs<T> && is_floating(of.servo.chain) && of.linear && int(m) > int(n);
  if (!tried && regular_step(m, n, of, scratch)) return;
  if constexpr (has_packs<T>) {
    if (is_floating(of.servo.chain) && floating_step(m, n, of, scratch)) return;
  }
  singular_step(m, n, of, scratch);
}
template <class T>
SUPPLE_FN void take_problem_step(int m, int n, const StepProblem<T>& of, T* scratch) {
  if (m == 6 && n == 7) return take_sized_step(Fixed<6>{}, Fixed<7>{}, of, scratch);
  if (m == 6 && n == 6) return take_sized_step(Fixed<6>{}, Fixed<6>{}, of, scratch);
  if constexpr (has_packs<T>) {
    if (posture_step(m, n, of, scratch)) return;
  }
  take_sized_step(m, n, of, scratch);
}

// Computes the steps of the parts of a problem, if there are several. Returns false if there is
// only one; then nothing is computed.
template <class T>
SUPPLE_FN bool take_steps_of_parts(const StepProblem<T>& all, T* scratch) {
  const Servo<T>& servo = all.servo;
  const int m = servo.rows, n = servo.chain.nv;
  if (is_one_part(servo.chain)) return false;
  int *label = reinterpret_cast<int*>(scratch), *row_label = label + n, *posture = row_label + m,
      *row = posture + m, *column = row + m;
  if (!find_parts(rows_of(servo, all.state), label, row_label, posture)) return false;
  bool several = false;
  for (int j = 0; j < n; ++j) several = several || label[j] != label[0];
  if (!several) return false;
  T *J = scratch + 3 * m + 2 * n, *used_J = J + m * n, *offset = used_J + m * n, *rate = offset + m,
    *slope = rate + m, *bends = slope + m, *used_e = bends + m, *lost = used_e + m, *q = lost + m,
    *qd = q + n, *stopped = qd + n, *dq = stopped + n, *limits = dq + n, *rest = limits + 6 * n;
  JointLimit<T>* const limit = reinterpret_cast<JointLimit<T>*>(limits);
  for (int part = 0; part < n; ++part) {
    if (label[part] != part) continue;
    int rows = 0, columns = 0;
    StepProblem<T> some = all;
    some.linear = false;
    for (int r = 0; r < m; ++r) {
      if (row_label[r] == part) row[rows++] = r;
    }
    for (int j = 0; j < n; ++j) {
      if (label[j] == part) column[columns++] = j;
    }
    for (int c = 0; c < columns; ++c) {
      const int j = column[c];
      q[c] = all.q[j], qd[c] = all.qd[j], stopped[c] = all.stopped[j], limit[c] = all.limit[j];
      dq[c] = T(0);
    }
    for (int i = 0; i < rows; ++i) {
      const int r = row[i];
      offset[i] = all.offset[r], rate[i] = all.rate[r], slope[i] = all.slope[r];
      bends[i] = all.bends[r], lost[i] = T(0);
      some.linear = some.linear || bends[i] == 0;
      for (int c = 0; c < columns; ++c) J[i * columns + c] = all.J[r * n + column[c]];
    }
    some.J = J, some.offset = offset, some.rate = rate, some.slope = slope, some.q = q;
    some.qd = qd, some.stopped = stopped, some.limit = limit, some.bends = bends;
    some.row = row, some.column = column, some.dq = dq, some.used_J = used_J;
    some.used_e = used_e, some.lost = lost;
    if (rows > 0) take_problem_step(rows, columns, some, rest);
    for (int c = 0; c < columns; ++c) all.dq[column[c]] = dq[c];
    for (int i = 0; i < rows; ++i) {
      const int r = row[i];
      for (int j = 0; j < n; ++j) all.used_J[r * n + j] = T(0);
      for (int c = 0; c < columns; ++c) all.used_J[r * n + column[c]] = used_J[i * columns + c];
      all.used_e[r] = used_e[i], all.lost[r] = lost[i];
    }
  }
  return true;
}

// Computes the step state.dq of `Yielding` from state.J, state.e and state.offset. state.exact_J
// becomes J, and state.J the J of the problem that the limits solve (servo/limits.hpp): the two
// exchange their memory until the limits are applied.
// state.stopped (n) marks the joints that are left out.
template <class T>
SUPPLE_FN void yielding_step(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T *J = scratch + 12 * servo.chain.joints, *rate = J + m * n, *bends = rate + m,
    *offset = bends + m, *whole = offset + m, *speed = whole + 2 * (m + n), *sweep = speed + n,
    *rest = sweep + (is_floating(servo.chain) ? sweep_memory(servo.chain) : 0);
  T* const start_J = state.J;
  state.J = state.exact_J, state.exact_J = start_J;
  // `posture_step` reads J from state.J. J is computed there, and copied only if another step is
  // needed.
  bool in_place =
      has_packs<T> && is_floating(servo.chain) && is_one_part(servo.chain) && !state.holding;
  T* const other_J = J;
  if (in_place) J = state.J;
  bool aims = false;  // whether J depends on the target
  for (int k = 0; k < servo.tasks; ++k) {
    aims = aims || servo.task[k].alternate || has_tilt(servo.task[k]);
  }
  integrate(servo.chain, state.q, state.qd, aims ? T(0) : T(0.5) * servo.dt, rest);
  forward(servo.chain, rest, joint_poses);
  if (!aims) {
    const StepRows<T> rows = rows_of(servo, state);
    T* const moment = is_floating(servo.chain) ? rest + rows.all * n : nullptr;
    T* const all = rows.all == m ? J : rest;
    rows_jacobian(rows, joint_poses, all, moment);
    if (all != J) copy_numbers(m * n, rest, J);
  } else {
    copy_numbers(m * n, state.exact_J, J);
  }
  for (int r = 0; r < m; ++r) rate[r] = fma(-servo.gain, state.offset[r], state.e[r]);
  if (is_floating(servo.chain)) {
    // If the target does not move, only the rounding error of e is left.
    for (int r = 0; r < m; ++r) {
      if (abs(rate[r]) <= Number<T>::epsilon * abs(state.e[r])) rate[r] = T(0);
    }
  }
  for (int j = 0; j < n; ++j) state.stopped[j] = T(0);
  update_slope(servo, state, rate);
  const bool linear = find_curved_rows(servo, state, bends);
  const T kappa = servo.curvature / servo.dt;
  T far(0);
  for (int r = 0; r < m; ++r) far = fma(bends[r] * state.offset[r], state.offset[r], far);
  const T nearer = far > square(kappa) ? kappa / sqrt(far) : T(1);
  for (int r = 0; r < m; ++r) offset[r] = state.offset[r] * (bends[r] != 0 ? nearer : T(1));
  StepProblem<T> of{
      servo,   state,    joint_poses,   J,           offset,  rate,       state.slope,
      state.q, state.qd, state.stopped, servo.limit, bends,   linear,     servo.tasks == 1 && m < n,
      nullptr, nullptr,  state.dq,      state.J,     state.e, state.lost, whole};
  if (is_floating(servo.chain)) of.sweep = sweep;
  state.held_lambda2 = held_ridge<T> * square(kappa);
  for (bool changed = true; changed;) {  // each round leaves out more joints
    changed = false;
    state.chosen_lambda2 = state.beyond = T(0);
    for (int r = 0; r < m; ++r) state.lost[r] = T(0);
    state.self_moves = false;
    if constexpr (has_packs<T>) {
      if (in_place && !posture_step(m, n, of, rest)) {
        copy_numbers(m * n, J, other_J);
        of.J = J = other_J;
        in_place = false;
      }
    }
    if (state.holding) {
      take_held_step(m, n, of, speed, rest, [](int rows, int, const auto& problem, T* memory) {
        take_sized_step(rows, problem.servo.chain.nv, problem, memory);
      });
    } else if (!in_place && (servo.tasks == 1 || !take_steps_of_parts(of, rest))) {
      take_problem_step(m, n, of, rest);
    }
    for (int j = 0; j < n; ++j) {
      const T end = state.dq[j] > 0 ? T(1) : T(-1), fast = end_speed(servo, state, j, end);
      if (state.stopped[j] != 0 || !(end * state.dq[j] > fast)) continue;
      state.stopped[j] = end;
      speed[j] = end * fast;
      for (int r = 0; r < m; ++r) {
        rate[r] = fma(-end * fast, J[r * n + j], rate[r]);
        J[r * n + j] = T(0);
      }
      changed = true;
    }
  }
  for (int j = 0; j < n; ++j) {
    if (state.stopped[j] == 0) continue;
    const T fast = end_speed(servo, state, j, state.stopped[j]);
    if (fast < Number<T>::huge) state.dq[j] = state.stopped[j] * fast;
  }
}

}  // namespace supple::inline SUPPLE_ISA
