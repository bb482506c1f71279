// How a step is changed so that it lies inside a box of joint speeds, and meets the rows of
// constraints: by the smallest change in the norm that the step minimizes. Tuned constants are
// explained in docs/constants.md.
#pragma once

#include "supple/limits/constrained.hpp"
#include "supple/limits/packed_box.hpp"
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

// The smallest λ² that is used with joint weights, relative to the square of the weighted J. This
// value is above that of `boxed_step` (`ridge`), so that the weights determine the part of the
// motion that the task leaves free.
template <class T>
inline constexpr T weighted_ridge = sizeof(T) == 8 ? T(1e-9) : T(1e-4);

// Whether the step minimizes a special norm of q̇: that of its joint weights, or that of a step in
// Python.
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
// is scratch memory that may hold the J of the result.
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
  const L lambda = sqrt(max(state.chosen_lambda2, square * L(weighted_ridge<T>)));
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

// Returns the damping of the step, from the damping `applied` that the limits used with a cost.
template <class L>
SUPPLE_FN L damping_with(const LimitCost<L>& cost, int n, const L& lambda2, const L& applied,
                         bool weighted) {
  using T = scalar_t<L>;
  if (!weighted) return applied;
  L square(0);
  for (int i = 0; i < n * n; ++i) square = fma(cost.J[i], cost.J[i], square);
  return lambda2 + max(applied - max(square * L(ridge<T>), L(Number<T>::tiny)), L(0));
}

// Moves the step x (n) into a box with ‖x‖ <= servo.max_norm: by scaling it as a whole if the
// direction is kept, else by the smallest change in the norm that the step minimizes. Writes
// state.active_set and state.applied_lambda2.
template <class L, class T, class M, class N>
SUPPLE_FN void fit_in_box(const Servo<T>& servo, M m, N n, ServoState<L>& state, const L* low,
                          const L* high, L* x, L* scratch) {
  L *weighted = scratch, *rest = weighted + m * n;
  const L bound(servo.max_norm),
      lambda2 = select(state.held_lambda2 >= L(0), state.held_lambda2, state.chosen_lambda2);
  state.applied_lambda2 = state.chosen_lambda2;
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
    // Problems with many rows and joints are solved on packs.
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
  const L applied_lambda2 = damping_with(cost, n, state.chosen_lambda2, applied, by_norm);
  for (int j = 0; j < n; ++j) {
    x[j] = select(fits, x[j], y[j]);
    state.active_set[j] = select(fits, state.active_set[j], active_set[j]);
  }
  state.applied_lambda2 = select(fits, state.applied_lambda2, applied_lambda2);
}

// `fit_in_box` for one robot, with constraints: x (n) also meets their rows, as far as the limits
// allow. If the direction is kept, x is only scaled. The problem with rows is solved only if the
// step within limits violates a row, so that rows that are met do not change the step.
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
  const T lambda2 = state.held_lambda2 >= 0 ? state.held_lambda2 : state.chosen_lambda2;
  LimitCost<T> cost = limit_cost(servo, m, n, state, lambda2, rest);
  // The rows of constraints are those at q, so J must be that at q, too. Relative to a J at another
  // configuration, as in yielding.hpp, they would not be combinations of the rows of J, and fast
  // motions in the null space of that J would meet them at no cost.
  if (servo.curvature > 0) cost.J = state.exact_J;
  const T applied = constrained_step(cost.m, n, cost.J, cost.lambda2, low, high, servo.max_norm,
                                     rows, x, state.active_set);
  state.applied_lambda2 =
      damping_with(cost, n, state.chosen_lambda2, applied, has_joint_norm(servo, state));
}

}  // namespace supple::inline SUPPLE_ISA
