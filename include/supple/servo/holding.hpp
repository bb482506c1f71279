// Tasks that a control loop holds exactly: a foot on the ground, a hand at a rail.
//
// The rows of held tasks are equations of the step. Only the limits of the joints have precedence
// over them. The step before limits, x0, is replaced by the nearest one, in the norm that the step
// minimizes, that satisfies
//
//   A x = s e     e: error of the held tasks, A: their Jacobian, s: gain from which the joints
//   can brake
//
// Because motions are curved, an error remains after such a step. Corrections remove it: the
// shortest changes of x, inside the box of the limits, with which the configuration after the step
// has no error.
//
// While a task is switched on or off, its share α is between 0 and 1, and its rows move at 1 - α
// times the velocity that they have in the step without the task, plus α times the correction of
// its error if it has a target. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/servo/fitting.hpp"
#include "supple/servo/held_stop.hpp"

namespace supple::inline SUPPLE_ISA {

inline constexpr int most_held_corrections = 6;

// Moves x (n) to the minimizer of the cost that satisfies A x = b (count rows), inside the box, the
// bound on the norm and the constraints. Where they conflict, the equations come after box and
// norm.
template <class T>
SUPPLE_FN void solve_equations(const Servo<T>& servo, const ServoState<T>& state,
                               const Equations<T>& of, T* x, T* active_set, T* y, T* scratch) {
  const int n = of.n, count = of.count;
  const Holding<T>& held = *state.holding;
  bool fits = !state.constraints && sum_of_products(n, x, x) <= servo.max_norm * servo.max_norm;
  for (int j = 0; j < n && fits; ++j) fits = x[j] >= of.low[j] && x[j] <= of.high[j];
  for (int i = 0; i < count && fits; ++i) {
    fits = abs(of.b[i] - sum_of_packs(n, of.A + i * n, x)) <= T(0.01) * of.tolerance;
  }
  if (fits) {
    for (int j = 0; j < n; ++j) active_set[j] = T(0);
    return;
  }
  for (int j = 0; j < n; ++j) y[j] = x[j];
  bool solved = equation_step(of, y, active_set, scratch) &&
                sum_of_products(n, y, y) <= servo.max_norm * servo.max_norm;
  const int more = state.constraints ? state.constraints->count : 0;
  for (int i = 0; i < more && solved; ++i) {
    const Constraints<T>& rows = *state.constraints;
    solved = violation(n, rows.G + i * n, rows.h[i], y, x) == 0;
  }
  if (solved) return copy_numbers(n, y, x);
  copy_numbers(count * n, of.A, held.G);
  copy_numbers(count, of.b, held.h);
  if (more > 0) {
    copy_numbers(more * n, state.constraints->G, held.G + count * n);
    copy_numbers(more, state.constraints->h, held.h + count);
  }
  const Constraints<T> rows{count + more, held.G, held.h, held.state, held.search, count};
  constrained_step(of.m, n, of.J, of.lambda2, of.low, of.high, servo.max_norm, rows, x, active_set);
}

// Does what `fit_in_rows` does, and x (n) also moves the rows of held tasks as the shares of these
// tasks require.
template <class T, class M, class N>
SUPPLE_FN void fit_in_held_rows(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* low,
                                const T* high, T* x, T* scratch) {
  if (!state.holding) return fit_in_rows(servo, m, n, state, low, high, x, scratch);
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  T *A = memory.A, *b = memory.b, *e = memory.e, *x0 = memory.x0;
  copy_numbers(n, x, x0);
  const auto is_switched = [&](int k) { return held.share[k] > 0 && held.share[k] < 1; };
  bool switching = false;
  for (int k = 0; k < servo.held_tasks; ++k) switching = switching || is_switched(k);
  LimitCost<T> cost =
      limit_cost(servo, m, n, state,
                 state.held_lambda2 >= 0 ? state.held_lambda2 : state.chosen_lambda2, memory.cost);
  // Rows that are not those of the held space need the J at q (see `fit_in_rows`).
  const bool others = switching || state.constraints;
  if (others && servo.curvature > 0 && !state.metric) cost.J = state.exact_J;
  const auto solve = [&](int count) {
    const Equations<T> of{
        cost.m, n, count, cost.J, A, b, cost.lambda2, low, high, held_tolerance<T> / servo.dt};
    copy_numbers(n, x0, x);
    solve_equations(servo, state, of, x, state.active_set, memory.y, memory.rest);
    state.applied_lambda2 = state.chosen_lambda2;
  };
  const int fixed = held.count;
  copy_numbers(fixed * n, held.rows, A);
  copy_numbers(fixed, held.b, b);
  if (fixed > 0) {
    solve(fixed);
  } else {
    fit_in_rows(servo, m, n, state, low, high, x, scratch);
  }
  if (!switching) return;
  // Held rows come first: they have precedence over those that are being switched.
  const int more = pick_held(servo, held, held.A, held.e, A + fixed * n, e, is_switched);
  const T gain =
      min(held_gain(servo, more, A + fixed * n, e, memory.rest, memory.rest + 4 * n), servo.gain);
  for (int k = 0, i = 0; k < servo.held_tasks; ++k) {
    if (!is_switched(k)) continue;
    const T share = held.share[k], aim = held.aims[k] != 0 ? gain : T(0);
    for (const int end = i + servo.held_task[k].rows; i < end; ++i) {
      b[fixed + i] = (T(1) - share) * dot(n, A + (fixed + i) * n, x) + share * aim * e[i];
    }
  }
  solve(fixed + more);
}

// Writes the largest error of each held task, given the errors e (rows) of all.
template <class T>
SUPPLE_FN void write_errors(const Servo<T>& servo, const Holding<T>& held, const T* e) {
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    held.error[k] = T(0);
    for (int i = row; i < row + task.rows && held.share[k] == 1; ++i) {
      held.error[k] = max(held.error[k], abs(e[i]));
    }
  });
}

// Corrects the speeds x (n) so that the held tasks have no error after the step, except for the
// part that their gain leaves for later steps. Writes the errors after the step.
template <class T>
SUPPLE_FN void correct_held(const Servo<T>& servo, ServoState<T>& state, const T* low,
                            const T* high, T* x) {
  const int n = servo.chain.nv;
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  T *A = memory.A, *b = memory.b, *e = memory.e, *best = memory.x0;
  T *const all = memory.cost, *const off = all + servo.held_rows * n;
  Pose<T>* const joint_poses = reinterpret_cast<Pose<T>*>(memory.rest);
  const T left = max(T(0), T(1) - held.gain * servo.dt);
  T before = Number<T>::huge;
  const auto move = [&] {
    integrate(servo.chain, state.q, x, servo.dt, memory.q);
    held_errors(servo, held, static_cast<const T*>(memory.q), joint_poses, off);
    write_errors(servo, held, off);
  };
  for (int round = 0;; ++round) {
    move();
    T most(0);
    each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
      for (int i = row; i < row + task.rows && held.share[k] == 1; ++i) {
        most = max(most, abs(off[i] - left * held.e[i]));
      }
    });
    if (!(most < before)) {  // the last correction was of no use
      copy_numbers(n, best, x);
      return move();
    }
    if (most <= held_tolerance<T> || round == most_held_corrections) return;
    before = most;
    copy_numbers(n, x, best);
    evaluate_held(servo, held, joint_poses, static_cast<const T*>(memory.q), all, off,
                  memory.rest + 12 * servo.chain.joints);
    for (int i = 0; i < servo.held_rows; ++i) off[i] = fma(-left, held.e[i], off[i]);
    const int count =
        pick_held(servo, held, all, off, A, e, [&](int k) { return held.share[k] == 1; });
    for (int i = 0; i < count; ++i) b[i] = sum_of_packs(n, x, A + i * n) + e[i] / servo.dt;
    const Equations<T> of{0, n, count, A, A, b, T(1), low, high, held_tolerance<T> / servo.dt};
    solve_equations(servo, state, of, x, memory.side, memory.y, memory.rest);
  }
}

// Writes the largest error of each held task at the configuration after the step.
template <class T>
SUPPLE_FN void measure_held(const Servo<T>& servo, const ServoState<T>& state) {
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  held_errors(servo, held, static_cast<const T*>(state.q), reinterpret_cast<Pose<T>*>(memory.rest),
              memory.e);
  write_errors(servo, held, memory.e);
}

}  // namespace supple::inline SUPPLE_ISA
