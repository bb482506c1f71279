// Tasks that a control loop holds exactly: a foot on the ground, a hand at a rail.
//
// The rows of held tasks are equations of the step. Only the limits of the joints have precedence
// over them. The step before limits, x0, is replaced by the nearest one, in the norm that the step
// minimizes, that satisfies
//
//   A x = s e     e: error of the held tasks, A: their Jacobian, s: gain from which the joints brake
//
// Corrections remove what the curvature of the motion leaves: the shortest changes of x with which
// the configuration after the step has no error. They stay inside the box of the limits as well.
//
// While a task is switched on or off, its share α is between 0 and 1, and its rows move at 1 - α
// times their velocity in the step without them.
#pragma once

#include "supple/limits/equations.hpp"
#include "supple/servo/braking_gain.hpp"
#include "supple/servo/fitting.hpp"
#include "supple/servo/held_rows.hpp"

namespace supple {

// The held tasks of a step.
template <class T>
struct Holding {
  T* target;        // of all held tasks
  const T* share;   // (tasks,): 0 for a task that is free, 1 for one that is held
  const T* begins;  // (tasks,): 1 if the target is to be what the task meets now, else 0
  const T* aims;    // (tasks,): 1 if the task has a target while it is switched on
  T* error;         // (tasks,): result, the largest error of each held task after the step
  T *A, *e;         // (rows, n), (rows,): at the start of the step
  T gain;           // of the error, in this step
  T* memory;        // holding_memory() entries
  // Room for the rows of held tasks and constraints together; see `Constraints`.
  T *G, *h, *state, *search;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The error [m or rad] at which corrections end, and their largest number.
template <class T>
inline constexpr T held_tolerance = sizeof(T) == 8 ? T(1e-11) : T(1e-5);
inline constexpr int most_held_corrections = 6;

// Number of entries of `Holding::memory`.
template <class T>
SUPPLE_FN constexpr int holding_memory(const Servo<T>& servo) {
  const int n = servo.chain.nv, h = servo.held_rows, m = servo.rows > n ? servo.rows : n;
  return 2 * h * n + 3 * h + 4 * n + m * n + weighted_cost_scratch(servo.rows, n) +
         equation_scratch(m, n, h) + 12 * servo.chain.joints + 6 * n + 6;
}

// Calls visit(task, its index, its first row, its target) for each task that may be held.
template <class T, class Visit>
SUPPLE_INLINE void each_held(const Servo<T>& servo, const Holding<T>& held, Visit&& visit) {
  T* target = held.target;
  for (int k = 0, row = 0; k < servo.held_tasks; ++k) {
    const Task<T>& task = servo.held_task[k];
    visit(task, k, row, target);
    row += task.rows;
    target += target_size(task);
  }
}

// Evaluates A (rows, n) and e (rows) at q (nq), of the tasks with a share above zero.
template <class T>
SUPPLE_FN void evaluate_held(const Servo<T>& servo, const Holding<T>& held, const T* q, bool begins,
                             T* A, T* e, T* scratch) {
  const int n = servo.chain.nv;
  Pose<T>* const joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T* const rest = scratch + 12 * servo.chain.joints;
  forward(servo.chain, q, joint_poses);
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T* target) {
    if (!(held.share[k] > 0)) return;
    if (begins && held.begins[k] != 0) reached_target(servo.chain, task, joint_poses, q, target);
    held_task_rows(servo.chain, task, joint_poses, q, target, A + row * n, e + row, rest);
  });
}

// Moves the rows of the tasks for which `takes(index)` to the front of A, and their entries of e.
template <class T, class Takes>
SUPPLE_FN int pick_held(const Servo<T>& servo, const Holding<T>& held, const T* A, const T* e,
                        T* to_A, T* to_e, Takes&& takes) {
  const int n = servo.chain.nv;
  int count = 0;
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    for (int i = row; i < row + task.rows && takes(k); ++i, ++count) {
      copy_numbers(n, A + i * n, to_A + count * n);
      to_e[count] = e[i];
    }
  });
  return count;
}

// The memory of the functions below.
template <class T>
struct HoldingMemory {
  T *A, *b, *e, *x0, *y, *side, *q, *cost, *rest;
};
template <class T>
SUPPLE_FN HoldingMemory<T> memory_of(const Servo<T>& servo, const Holding<T>& held) {
  const int n = servo.chain.nv, h = servo.held_rows, m = servo.rows > n ? servo.rows : n;
  T* const A = held.memory;
  T *b = A + h * n, *e = b + h, *x0 = e + h, *y = x0 + n, *side = y + n, *q = side + n,
    *cost = q + n;
  T* const rest = cost + m * n + weighted_cost_scratch(servo.rows, n) + h * n + h;
  return {A, b, e, x0, y, side, q, cost, rest};
}

// Moves x (n) to the minimizer of the cost that satisfies A x = b (count rows), inside the box, the
// bound on the norm and the constraints. Where they conflict, the equations come after box and norm.
template <class T>
SUPPLE_FN void solve_equations(const Servo<T>& servo, const ServoState<T>& state,
                               const Equations<T>& of, T* x, T* active_set, T* y, T* scratch) {
  const int n = of.n, count = of.count;
  const Holding<T>& held = *state.holding;
  for (int j = 0; j < n; ++j) y[j] = x[j];
  bool solved = equation_step(of, y, active_set, scratch) &&
                sum_of_products(n, y, y) <= servo.bound * servo.bound;
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
  constrained_step(of.m, n, of.J, of.lambda2, of.low, of.high, servo.bound, rows, x, active_set);
}

// `fit_in_rows` with held tasks: x (n) also moves their rows as their shares require.
template <class T, class M, class N>
SUPPLE_FN void fit_in_held_rows(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* low,
                                const T* high, T* x, T* scratch) {
  if (!state.holding) return fit_in_rows(servo, m, n, state, low, high, x, scratch);
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  T *A = memory.A, *b = memory.b, *e = memory.e, *x0 = memory.x0;
  copy_numbers(n, x, x0);
  LimitCost<T> cost = limit_cost(servo, m, n, state,
                                 state.held_lambda2 >= 0 ? state.held_lambda2 : state.lambda2,
                                 memory.cost);
  if (servo.curvature > 0 && !state.metric) cost.J = state.exact_J;
  bool switching = false, holding = false;
  for (int k = 0; k < servo.held_tasks; ++k) {
    holding = holding || held.share[k] == 1;
    switching = switching || (held.share[k] > 0 && held.share[k] < 1);
  }
  const auto solve = [&](int count) {
    const Equations<T> of{cost.m, n, count, cost.J, A, b, cost.lambda2, low, high,
                          held_tolerance<T> / servo.dt};
    copy_numbers(n, x0, x);
    solve_equations(servo, state, of, x, state.active_set, memory.y, memory.rest);
    state.applied_lambda2 = state.lambda2;
  };
  // The shortest motion that removes the errors, and the gain with which it does.
  const auto gain_of = [&](int count) {
    T largest(0);
    for (int i = 0; i < count; ++i) largest = max(largest, abs(e[i]));
    if (largest <= held_tolerance<T>) return T(1) / servo.dt;
    for (int j = 0; j < n; ++j) memory.y[j] = T(0), memory.q[j] = Number<T>::huge;
    for (int j = 0; j < n; ++j) memory.side[j] = -Number<T>::huge;
    const Equations<T> of{0, n, count, A, A, e, T(1), memory.side, memory.q, Number<T>::huge};
    equation_step(of, memory.y, state.active_set, memory.rest);
    return braking_gain(n, servo.limit, T(1) / servo.dt, servo.dt, memory.y);
  };
  const auto is_held = [&](int k) { return held.share[k] == 1; };
  if (holding) {
    const int count = pick_held(servo, held, held.A, held.e, A, e, is_held);
    const T gain = gain_of(count);
    state.holding->gain = gain;
    for (int i = 0; i < count; ++i) b[i] = gain * e[i];
    solve(count);
  } else {
    fit_in_rows(servo, m, n, state, low, high, x, scratch);
  }
  if (!switching) return;
  // Held rows first: they have precedence over those that are being switched.
  const int fixed = pick_held(servo, held, held.A, held.e, A, e, is_held);
  const auto is_switched = [&](int k) { return held.share[k] > 0 && held.share[k] < 1; };
  const int more = pick_held(servo, held, held.A, held.e, A + fixed * n, e + fixed, is_switched);
  const T gain = gain_of(fixed + more);
  int row = fixed;
  for (int i = 0; i < fixed; ++i) b[i] = state.holding->gain * e[i];
  for (int k = 0; k < servo.held_tasks; ++k) {
    if (!is_switched(k)) continue;
    const T share = held.share[k], aim = held.aims[k] != 0 ? min(gain, servo.gain) : T(0);
    for (int i = 0; i < servo.held_task[k].rows; ++i, ++row) {
      b[row] = (T(1) - share) * dot(n, A + row * n, x) + share * aim * e[row];
    }
  }
  solve(fixed + more);
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
  T* const all = memory.cost;
  const T left = max(T(0), T(1) - held.gain * servo.dt);
  T before = Number<T>::huge;
  for (int round = 0;; ++round) {
    integrate(servo.chain, state.q, x, servo.dt, memory.q);
    evaluate_held(servo, held, memory.q, false, all, all + servo.held_rows * n, memory.rest);
    const T* const off = all + servo.held_rows * n;
    T most(0);
    each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
      for (int i = row; i < row + task.rows && held.share[k] == 1; ++i) {
        most = max(most, abs(off[i] - left * held.e[i]));
      }
    });
    if (most <= held_tolerance<T> || round == most_held_corrections || !(most < before)) {
      if (!(most < before)) copy_numbers(n, best, x);
      return;
    }
    before = most;
    copy_numbers(n, x, best);
    const auto is_held = [&](int k) { return held.share[k] == 1; };
    pick_held(servo, held, all, held.e, A, b, is_held);
    const int count = pick_held(servo, held, all, off, A, e, is_held);
    for (int i = 0; i < count; ++i) {
      b[i] = dot(n, A + i * n, x) + (e[i] - left * b[i]) / servo.dt;
    }
    const Equations<T> of{0,    n,   count, A, A, b, T(1), low,
                          high, held_tolerance<T> / servo.dt};
    solve_equations(servo, state, of, x, memory.side, memory.y, memory.rest);
  }
}

// Evaluates the held tasks at the start of a step: A, e, and the targets of those that begin.
template <class T>
SUPPLE_FN void begin_holding(const Servo<T>& servo, ServoState<T>& state) {
  Holding<T>& held = *state.holding;
  held.gain = T(1) / servo.dt;
  evaluate_held(servo, held, state.q, true, held.A, held.e, memory_of(servo, held).rest);
}

// Writes the largest error of each held task at the configuration after the step.
template <class T>
SUPPLE_FN void measure_held(const Servo<T>& servo, const ServoState<T>& state) {
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  evaluate_held(servo, held, state.q, false, memory.cost, memory.e, memory.rest);
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    held.error[k] = T(0);
    for (int i = row; i < row + task.rows && held.share[k] == 1; ++i) {
      held.error[k] = max(held.error[k], abs(memory.e[i]));
    }
  });
}

}  // namespace supple::inline SUPPLE_ISA
