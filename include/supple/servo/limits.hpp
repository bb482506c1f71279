// Joint limits in a control loop: from a step, state.dq, to joint speeds that respect all limits.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/limits/constrained.hpp"
#include "supple/limits/packed_box.hpp"
#include "supple/servo/direction.hpp"
#include "supple/servo/halting.hpp"
#include "supple/servo/norm_bound.hpp"
#include "supple/servo/state.hpp"

namespace supple::inline SUPPLE_ISA {

// Lanes of scratch memory that `limit_cost` needs with joint weights.
SUPPLE_FN constexpr int weighted_cost_scratch(int m, int n) { return (m + n) * n + n + n * n; }

// Whether the step is the minimizer of ‖J q̇ - e‖² + λ²‖q̇‖² for the unweighted J and e.
template <class T>
SUPPLE_FN bool is_plain_dls(const Servo<T>& servo) {
  const Step<T>& how = *servo.step;
  return servo.mode == ControlMode::step && !servo.in_python && is_damped(how) &&
         !servo.second_order && !how.task_scale && !how.joint_scale && !how.direction &&
         !how.error_clamps && !(how.max_angle < Number<T>::huge);
}

// Weight of a task relative to the task one priority above it, if limits make the two compete.
template <class T>
inline constexpr T priority_weight = T(1e-2);

// Returns the J that measures how far a step within limits is from the step before limits: with the
// row weights of the step, or with smaller weights for lower priorities.
template <class L, class T>
SUPPLE_FN const L* limit_metric(const Servo<T>& servo, const L* J, L* weighted) {
  const int m = servo.rows, n = servo.chain.nv;
  if (servo.mode == ControlMode::step) {
    if (!servo.step->task_scale) return J;
    scale_jacobian(*servo.step, m, n, J, weighted);
    return weighted;
  }
  if (servo.mode != ControlMode::priority) return J;
  T weight(1);
  for (int k = 0, i = 0; k < servo.tasks; ++k, weight *= priority_weight<T>) {
    for (const int end = i + servo.task_rows[k] * n; i < end; ++i) weighted[i] = J[i] * L(weight);
  }
  return weighted;
}

// The smallest λ² that is used with joint weights, relative to the square of the weighted J. It is
// above that of `boxed_step` (`ridge`), so that the weights determine the part of the motion that
// the task leaves free.
template <class T>
inline constexpr T weighted_ridge = sizeof(T) == 8 ? T(1e-9) : T(1e-4);

// Whether the step minimizes a norm of q̇ of its own: with joint weights, or in Python.
template <class L, class T>
SUPPLE_FN bool has_joint_norm(const Servo<T>& servo, const ServoState<L>& state) {
  return state.metric || (servo.mode == ControlMode::step && servo.step->joint_scale);
}

// The cost ‖J (x - x0)‖² + λ²‖x - x0‖² of a change of the step x0 by limits.
template <class L>
struct LimitCost {
  int m;
  const L* J;  // (m, n)
  L lambda2;
};

// Returns the cost of a change of the step by limits: with J and λ² of the step or, for a step with
// weights on the joints or in Python, with the norm ‖N q̇‖ that the step minimizes and λ² = 0. N is
// state.metric or, if that is null, [W J; λ S⁻¹] with row weights W and joint weights S. `memory`
// holds J.
template <class L, class T>
SUPPLE_FN LimitCost<L> limit_cost(const Servo<T>& servo, int m, int n, const ServoState<L>& state,
                                  const L& lambda2, L* memory) {
  if (state.metric) return {n, state.metric, L(0)};
  if (!has_joint_norm(servo, state)) {
    return {m, limit_metric(servo, state.J, memory), lambda2};
  }
  L *norm = memory, *rows = norm + n * n, *tau = rows + (m + n) * n;
  const T* const joint = servo.step->joint_scale;
  scale_jacobian(*servo.step, m, n, state.J, rows);
  L square(0);
  for (int i = 0; i < m * n; ++i) square = fma(rows[i], rows[i], square);
  const L lambda = sqrt(max(state.lambda2, square * L(weighted_ridge<T>)));
  for (int i = 0; i < m + n; ++i) {
    for (int j = 0; j < n; ++j) {
      const L entry = i < m ? rows[i * n + j] : i - m == j ? lambda : L(0);
      rows[i * n + j] = entry / L(joint[j]);
    }
  }
  // The factor R of the QR factorization defines the same norm with only n rows.
  qr(m + n, n, rows, tau);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) norm[i * n + j] = i <= j ? rows[i * n + j] : L(0);
  }
  return {n, norm, L(0)};
}

// Returns the damping of the step, of which the limits report `applied` for a cost.
template <class L>
SUPPLE_FN L damping_with(const LimitCost<L>& cost, int n, const L& lambda2, const L& applied,
                         bool weighted) {
  using T = scalar_t<L>;
  if (!weighted) return applied;
  L square(0);
  for (int i = 0; i < n * n; ++i) square = fma(cost.J[i], cost.J[i], square);
  return lambda2 + max(applied - max(square * L(ridge<T>), L(Number<T>::tiny)), L(0));
}

// Moves the step x (n) into a box with ‖x‖ <= servo.bound: by scaling it as a whole if the
// direction is kept, else by the smallest change in the norm that the step minimizes. Writes
// state.active_set and state.applied_lambda2.
template <class L, class T, class M, class N>
SUPPLE_FN void fit_in_box(const Servo<T>& servo, M m, N n, ServoState<L>& state, const L* low,
                          const L* high, L* x, L* scratch) {
  L *weighted = scratch, *rest = weighted + m * n;
  const L bound(servo.bound),
      lambda2 = select(state.held_lambda2 >= L(0), state.held_lambda2, state.lambda2);
  state.applied_lambda2 = state.lambda2;
  if (servo.keep_direction) {
    scale_into_box(n, low, high, bound, x, state.active_set);
    shorten_in_box(n, low, high, bound, x);  // joints that must return add to ‖x‖
    return;
  }
  const mask_t<L> shorter = dot(n, x, x) <= bound * bound;
  mask_t<L> fits = shorter;
  for (int j = 0; j < n; ++j) {
    const L out = select(x[j] < low[j], L(-1), select(x[j] > high[j], L(1), L(0)));
    fits = fits & (out == L(0));
    // The active set of a step that is too long is unknown: a shorter step may be inside the box.
    state.active_set[j] = select(shorter, out, L(0));
  }
  if constexpr (has_packs<L>) {
    // Many rows and joints: on packs.
    const Rule rule = servo.step->damping.rule;
    const bool minimizes = servo.curvature > 0 || (is_plain_dls(servo) && rule != Rule::optimal &&
                                                   rule != Rule::optimal_newton);
    if (!fits && minimizes && is_floating(servo.chain) && m > n) {
      L *y = scratch, *active_set = y + n, *work = active_set + n, applied;
      for (int j = 0; j < n; ++j) y[j] = x[j];
      if (packed_boxed_step(m, n, state.J, lambda2, low, high, y, active_set, applied, work) &&
          dot(n, y, y) <= bound * bound) {
        for (int j = 0; j < n; ++j) x[j] = y[j], state.active_set[j] = active_set[j];
        state.applied_lambda2 = applied;
        return;
      }
    }
  }
  if (!all(fits) && !state.self_moves && is_plain_dls(servo)) {
    // Optimal damping only keeps ‖q̇‖ below a bound, which the limits may already do.
    const bool optimal = servo.step->damping.rule == Rule::optimal ||
                         servo.step->damping.rule == Rule::optimal_newton;
    L applied_lambda2, *y = weighted;
    const mask_t<L> right = bounded_step(m, n, state.J, state.e, optimal ? L(0) : lambda2, low,
                                         high, bound, y, state.active_set, &applied_lambda2, rest);
    for (int j = 0; j < n; ++j) x[j] = select(right & !fits, y[j], x[j]);
    state.applied_lambda2 = select(right & !fits, applied_lambda2, state.applied_lambda2);
    fits = fits | right;
  }
  if (all(fits)) return;
  L *const y = scratch, *const active_set = y + n, *const memory = active_set + n;
  for (int j = 0; j < n; ++j) y[j] = x[j];
  const bool by_norm = has_joint_norm(servo, state);
  const LimitCost<L> cost = limit_cost(servo, m, n, state, lambda2, memory);
  const L applied = limited_step(cost.m, n, cost.J, cost.lambda2, low, high, bound, y, active_set,
                                 memory + (by_norm ? weighted_cost_scratch(m, n) : m * n));
  const L applied_lambda2 = damping_with(cost, n, state.lambda2, applied, by_norm);
  for (int j = 0; j < n; ++j) {
    x[j] = select(fits, x[j], y[j]);
    state.active_set[j] = select(fits, state.active_set[j], active_set[j]);
  }
  state.applied_lambda2 = select(fits, state.applied_lambda2, applied_lambda2);
}

// `fit_in_box` for one robot, with constraints: x (n) also meets their rows, as far as the limits
// allow. If the direction is kept, x is only scaled. The rows are solved for where the step within
// limits does not meet them, so that others change nothing.
template <class T, class M, class N>
SUPPLE_FN void fit_in_rows(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* low,
                           const T* high, T* x, T* scratch) {
  if (!state.constraints) return fit_in_box(servo, m, n, state, low, high, x, scratch);
  const Constraints<T>& rows = *state.constraints;
  T *x0 = scratch, *rest = x0 + n;
  for (int j = 0; j < n; ++j) x0[j] = x[j];
  fit_in_box(servo, m, n, state, low, high, x, rest);
  if (mark_rows(rows, n, x0, x, false)) return;
  if (servo.keep_direction) {
    scale_into_rows(rows, n, low, high, x);
    mark_rows(rows, n, x0, x, true);
    return;
  }
  for (int j = 0; j < n; ++j) x[j] = x0[j];
  const T lambda2 = state.held_lambda2 >= 0 ? state.held_lambda2 : state.lambda2;
  LimitCost<T> cost = limit_cost(servo, m, n, state, lambda2, rest);
  // Rows are those at q. With a J of another configuration, as in yielding.hpp, they would not be
  // combinations of its rows, and fast motions of its null space would meet them at no cost.
  if (servo.curvature > 0) cost.J = state.exact_J;
  const T applied = constrained_step(cost.m, n, cost.J, cost.lambda2, low, high, servo.bound, rows,
                                     x, state.active_set);
  state.applied_lambda2 =
      damping_with(cost, n, state.lambda2, applied, has_joint_norm(servo, state));
}

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
// oscillate. Without `narrows`, the box only shares the bound on the norm.
template <class T, class M, class N>
SUPPLE_FN void settle_speeds(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* x,
                             T* low, T* high, bool narrows, T* scratch) {
  T *slowest = scratch, *fastest = slowest + n, *goal = fastest + n, *rest = goal + n;
  for (int j = 0; j < n; ++j) {
    speed_box(servo.limit[j], state.q[j], servo.dt, slowest[j], fastest[j]);
    goal[j] = x[j];
  }
  fit_in_rows(servo, m, n, state, slowest, fastest, goal, rest);
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
  const Stopper<T> stopper{rows_of(servo, state), servo.limit, servo.dt, servo.bound,
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
    found = factors_in_box(n, slow, fast, along, servo.bound);
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
// (n), as speeds. If `bounded`, the boxes have common speeds within the bound on ‖q̇‖.
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
  const L most = L(servo.bound) * L(just_below<T>);
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
// steps: state.dq -> state.qd and state.q. After the step of yielding.hpp, state.J and state.e
// become J at the start of the step and its command again.
template <class T>
SUPPLE_FN void advance(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
  T *low = scratch, *high = low + n, *x = high + n, *x0 = x + n, *rest = x0 + n;
  const bool shares = shares_bound(servo);
  all_boxes(servo, n, state, !shares, low, high, x0);
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
    settle_speeds(servo, m, n, state, x, low, high, true, rest);
    settles = state.constraints != nullptr;
  }
  state.applied_lambda2 = state.lambda2;
  bool by_rows = false;  // whether constraints determine how much the motion slows down
  const bool kept =
      keeps && keep_direction(servo, m, n, state, low, high, condition, x, by_rows, rest);
  if (kept && state.constraints) mark_rows(*state.constraints, n, x0, x, by_rows);
  if (keeps && !kept && shares) share_bound(servo, n, state, x0, low, high);
  if (!kept) fit_in_rows(servo, m, n, state, low, high, x, rest);
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
  move_joints(servo, n, state, x, x0);
  if (!(servo.curvature > 0)) return;
  mark_stopped(n, state);
  const T more = state.applied_lambda2 - state.held_lambda2;
  state.applied_lambda2 = state.lambda2 + (state.limited != 0 ? max(more, T(0)) : T(0));
  T* const solved_J = state.J;
  state.J = state.exact_J, state.exact_J = solved_J;
  for (int r = 0; r < m; ++r) state.e[r] = state.desired[r];
}

}  // namespace supple::inline SUPPLE_ISA
