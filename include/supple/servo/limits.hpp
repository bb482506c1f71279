// Joint limits in a control loop: from a step, state.dq, to joint speeds that respect all limits.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/servo/direction.hpp"
#include "supple/servo/halting.hpp"
#include "supple/servo/closing.hpp"
#include "supple/servo/holding.hpp"
#include "supple/servo/norm_bound.hpp"
#include "supple/servo/state.hpp"

namespace supple::inline SUPPLE_ISA {

// Marks stopped joints in state.active_set as held at their limits.
template <class T>
SUPPLE_FN void mark_stopped(int n, ServoState<T>& state) {
  for (int j = 0; j < n; ++j) {
    if (state.active_set[j] == 0) state.active_set[j] = state.stopped[j];
  }
}

// Narrows a box so that joints with a jerk limit approach the speeds that the step x (n) would have
// without limits on acceleration and jerk, and neither pass these speeds nor turn away from them.
// Otherwise a joint that compensates for a braking one would have to brake later, and the two would
// oscillate. If `narrows` is false, the box is narrowed only where joints share the bound on the
// norm (`share_bound`).
template <class T, class M, class N>
SUPPLE_FN void settle_speeds(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* x,
                             T* low, T* high, bool narrows, T* scratch) {
  T *slowest = scratch, *fastest = slowest + n, *goal = fastest + n, *rest = goal + n;
  for (int j = 0; j < n; ++j) {
    speed_box(servo.limit[j], state.q[j], servo.dt, slowest[j], fastest[j]);
    goal[j] = x[j];
  }
  fit_in_held_rows(servo, m, n, state, slowest, fastest, goal, rest);
  if (shares_bound(servo)) share_bound(servo, n, state, goal, low, high);
  for (int j = 0; j < n && narrows; ++j) {
    if (!(servo.limit[j].jerk < Number<T>::huge)) continue;
    const T ramp = servo.limit[j].jerk * servo.dt * servo.dt;
    narrow_to(goal[j], state.qd[j], ramp, low[j], high[j]);
  }
}

// Slows a step x (n) down as a whole, so that it keeps its direction and can stop along it (see
// direction.hpp). Returns false if there is no such step: a joint is outside its limits, or its
// current speed does not come from this function. `condition` is the condition number of J in mode
// "halt", else zero. `by_rows` becomes true if constraints determine how much it slows down.
template <class T, class M, class N>
SUPPLE_FN bool keep_direction(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* low,
                              const T* high, T condition, T* x, bool& by_rows, T* scratch) {
  T *d = scratch, *along = d + m, *slow = along + n, *fast = slow + n, *rest = fast + n;
  const Stopper<T> stopper{rows_of(servo, state), servo.limit, servo.dt, servo.max_norm,
                           max(servo.halt_condition, condition)};
  const T ramp = state.halting;
  T size(0), off(0);
  for (int i = 0; i < m; ++i) {
    d[i] = dot(n, state.J + i * n, x);
    size = fma(d[i], d[i], size);
    off += square(d[i] - state.halting * state.e[i]);
  }
  const bool whole = !servo.whole ||
                     off <= square(T(same_direction<T>) * state.halting) * dot(m, state.e, state.e);
  if (!whole) state.course = Course::stopped;
  if (size > 0 && whole) {
    bool halts = false;
    const T most = state.constraints ? share_in_rows(*state.constraints, n, x) : T(1);
    const T s = servo.halt_condition > 0 ? halting_step(servo, state, stopper, d, state.halting,
                                                        condition, most, x, low, high, halts, rest)
                                         : stoppable_factor(stopper, d, most, x, low, high, state.q,
                                                            state.qd, halts, rest);
    if (halts) state.halting = T(0);
    if (s >= 0) {
      for (int i = 0; i < m; ++i) state.direction[i] = s * d[i];
      put_scaled(n, s, low, high, x, s != most, x, state.active_set);
      by_rows = most < 1 && s == most;
      return true;
    }
  }
  // The command is zero or cannot be followed: continue the stop that was found in an earlier step.
  bool moves = false, rests = true;
  for (int j = 0; j < n; ++j) {
    stopping_box(servo.limit[j], state.q[j], state.qd[j], state.change[j], servo.dt, slow[j],
                 fast[j]);
    moves = moves || state.qd[j] != T(0);
    rests = rests && slow[j] <= T(0) && fast[j] >= T(0);
    along[j] = T(0);
  }
  Factors<T> found{T(0), T(0)};
  if (!rests) {
    if (!moves || !along_direction(m, n, state.J, state.direction, along, rest)) return false;
    found = factors_in_box(n, slow, fast, along, servo.max_norm);
    if (!has_any(found)) return false;
    // A motion that leads away from a singularity is not halting while limits force it to become
    // faster.
    if (found.least > same_speed<T>) state.halting = ramp;
  }
  for (int i = 0; i < m; ++i) state.direction[i] = found.least * state.direction[i];
  put_scaled(n, found.least, slow, fast, along, true, x, state.active_set);
  return true;
}

// Computes the admissible speeds of all joints, low and high (n), and the step before limits, x0
// (n), as speeds. If `bounded`, the boxes contain speeds whose norm is within the bound on ‖q̇‖.
template <class L, class T, class N>
SUPPLE_FN void all_boxes(const Servo<T>& servo, N n, const ServoState<L>& state, bool bounded,
                         L* low, L* high, L* x0) {
  const L dt(servo.dt), rest_rate(servo.rest_gain);
  L nearest(0);
  for (int j = 0; j < n; ++j) {
    joint_box(servo.limit[j], state.q[j], state.qd[j], state.change ? state.change[j] : L(0), dt,
              low[j], high[j], servo.later, servo.later_count);
    const L speed = state.qd[j], change = fma(-rest_rate, speed, state.dq[j]);
    x0[j] = servo.second_order ? fma(change, dt, speed) : state.dq[j];
    const L near = max(low[j], min(high[j], L(0)));
    nearest = fma(near, near, nearest);
  }
  if (!bounded) return;
  // Joints that return from outside their limits must not raise ‖q̇‖ above its bound.
  const L most = L(servo.max_norm) * L(just_below<T>);
  const mask_t<L> exceeds = nearest > most * most;
  if (any(exceeds)) slow_return(servo, n, state, most, exceeds, low, high);
}

// Moves the joints at the speeds x (n) for one step. x0 (n) are the speeds of the step before
// limits; state.limited becomes 1 if they differ.
template <class L, class T, class N>
SUPPLE_FN void move_joints(const Servo<T>& servo, N n, ServoState<L>& state, const L* x,
                           const L* x0) {
  // Rounding must not move a joint past a limit that it has not passed.
  const auto clip = [&](int j, const L& from, const L& to) {
    const L lower(servo.limit[j].lower), upper(servo.limit[j].upper);
    const L not_above = select(from <= upper, min(to, upper), to);
    return select(from >= lower, max(not_above, lower), not_above);
  };
  integrate(servo.chain, n, state.q, x, L(servo.dt), state.q, clip);
  state.limited = L(0);
  for (int j = 0; j < n; ++j) {
    const L noise = L(T(64) * Number<T>::epsilon) * abs(x0[j]);
    state.limited = select(abs(x[j] - x0[j]) > noise, L(1), state.limited);
    if (state.change) state.change[j] = x[j] - state.qd[j];
    state.qd[j] = x[j];
  }
}

// Applies the limits without regard to other steps: state.dq -> state.qd and state.q, for m rows
// and n coordinates.
template <class L, class T, class M, class N>
SUPPLE_FN void advance(const Servo<T>& servo, M m, N n, ServoState<L>& state, L* scratch) {
  L *low = scratch, *high = low + n, *x = high + n, *x0 = x + n, *rest = x0 + n;
  all_boxes(servo, n, state, true, low, high, x0);
  for (int j = 0; j < n; ++j) x[j] = x0[j];
  fit_in_box(servo, m, n, state, low, high, x, rest);
  move_joints(servo, n, state, x, x0);
}

// Applies the limits in a control loop, where speeds settle and directions are kept over many
// steps: state.dq -> state.qd and state.q. After the step of yielding.hpp, state.J becomes J at the
// start of the step again, and state.e the command.
template <class T>
SUPPLE_FN void advance(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
  T *low = scratch, *high = low + n, *x = high + n, *x0 = x + n, *rest = x0 + n;
  const bool shares = shares_bound(servo);
  if (state.holding && !servo.second_order && !(servo.curvature > 0)) {
    for (int j = 0; j < n; ++j) state.dq[j] += state.holding->x[j];
  }
  all_boxes(servo, n, state, !shares, low, high, x0);
  if (state.holding) leave_room_to_stop(servo, state, low, high);
  state.course = Course::kept;
  T condition(0);
  state.halting =
      servo.halt_condition > 0 ? halting_factor(servo, state, x0, condition, rest) : T(1);
  for (int j = 0; j < n; ++j) {
    x0[j] = x0[j] * state.halting;
    x[j] = x0[j];
  }
  const bool keeps = servo.keep_direction && !servo.second_order;
  bool settles = false;  // whether rows must yield to boxes that are narrower than the limits
  if (keeps) {
    for (int j = 0; j < n; ++j) {
      const T ramp = servo.limit[j].jerk * servo.dt * servo.dt;
      if (ramp < Number<T>::huge) approach(x0[j], state.qd[j], ramp, low[j], high[j]);
    }
  } else if (limits_jerk(servo)) {
    // With held tasks, boxes are not narrowed for speeds to settle: narrower boxes might not allow
    // the tasks to be held.
    settle_speeds(servo, m, n, state, x, low, high, !state.holding, rest);
    settles = state.constraints != nullptr && !state.holding;
  }
  state.applied_lambda2 = state.chosen_lambda2;
  bool by_rows = false;  // whether constraints determine how much the motion slows down
  const bool kept =
      keeps && keep_direction(servo, m, n, state, low, high, condition, x, by_rows, rest);
  if (kept && state.constraints) mark_rows(*state.constraints, n, x0, x, by_rows);
  if (keeps && !kept && shares) share_bound(servo, n, state, x0, low, high);
  if (!kept) fit_in_held_rows(servo, m, n, state, low, high, x, rest);
  if (settles && misses_rows(*state.constraints)) {
    all_boxes(servo, n, state, !shares, low, high, x0);
    for (int j = 0; j < n; ++j) x[j] = x0[j] = x0[j] * state.halting;
    settle_speeds(servo, m, n, state, x, low, high, false, rest);
    fit_in_rows(servo, m, n, state, low, high, x, rest);
  }
  if (keeps && !kept) {
    state.course = Course::lost;
    for (int i = 0; i < m; ++i) state.direction[i] = T(0);  // there is no stop to continue
  }
  bool closed_again = false;  // whether x has changed, so that the errors of held tasks have, too
  if (state.holding) {
    if (state.holding->count > 0) keep_stoppable(servo, state, low, high, x, rest);
    correct_held(servo, state, low, high, x);
    closed_again = servo.loops > 0 && keep_closed(servo, state, x);
    if (state.constraints) mark_rows(*state.constraints, n, x0, x, true);
  }
  move_joints(servo, n, state, x, x0);
  if (closed_again) measure_held(servo, state);
  if (!(servo.curvature > 0)) return;
  mark_stopped(n, state);
  const T more = state.applied_lambda2 - state.held_lambda2;
  state.applied_lambda2 = state.chosen_lambda2 + (state.limited != 0 ? max(more, T(0)) : T(0));
  T* const solved_J = state.J;
  state.J = state.exact_J, state.exact_J = solved_J;
  for (int r = 0; r < m; ++r) state.e[r] = state.desired[r];
}

}  // namespace supple::inline SUPPLE_ISA
