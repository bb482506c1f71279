// Tasks that a control loop holds exactly: a foot on the ground, a hand at a rail.
//
// The rows of held tasks are equations of the step. Only the limits of the joints have precedence
// over them. The step before limits, x0, is replaced by the nearest one, in the norm that the step
// minimizes, that satisfies
//
//   A x = s e     e: error of the held tasks, A: their Jacobian, s: gain from which the joints
//   brake
//
// Corrections remove what the curvature of the motion leaves: the shortest changes of x with which
// the configuration after the step has no error. They stay inside the box of the limits as well.
//
// While a task is switched on or off, its share α is between 0 and 1, and its rows move at 1 - α
// times their velocity in the step without them. Tuned constants are explained in
// docs/constants.md.
#pragma once

#include "supple/servo/fitting.hpp"
#include "supple/servo/held_space.hpp"

namespace supple::inline SUPPLE_ISA {

inline constexpr int most_held_corrections = 6;
// The share of the acceleration limits with which joints stop together; the rest is for the
// curvature of their motion.
template <class T>
inline constexpr T together_share = T(0.5);
// The time of a stop at nearly full acceleration, relative to that of a stop together.
template <class T>
inline constexpr T hard_share = T(0.55);

// Number of entries of `Holding::memory`.
template <class T>
SUPPLE_FN constexpr int holding_memory(const Servo<T>& servo) {
  const int n = servo.chain.nv, h = servo.held_rows, m = servo.rows > n ? servo.rows : n;
  return 2 * h * n + 3 * h + 4 * n + m * n + weighted_cost_scratch(servo.rows, n) +
         equation_scratch(m, n, h) + 12 * servo.chain.joints + 10 * n + 6;
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

// Calls visit(j, limit) for the joints with limits on acceleration that move held tasks.
template <class T, class Visit>
SUPPLE_INLINE void each_braking(const Servo<T>& servo, const Holding<T>& held, Visit&& visit) {
  for (int j = 0; j < servo.chain.nv; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    if (limit.acceleration < Number<T>::huge && held.moves[j] > 0) visit(j, limit);
  }
}

// Returns the time in which the joints that move held tasks stop together from the speeds x (n), in
// proportion to them: in such a stop, the tasks stay held.
template <class T>
SUPPLE_FN T time_to_stop(const Servo<T>& servo, const Holding<T>& held, const T* x) {
  T span(0);
  each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
    const T smooth = limit.jerk < Number<T>::huge ? limit.acceleration / limit.jerk : T(0);
    span = max(span, T(abs(x[j]) / (together_share<T> * limit.acceleration) + smooth));
  });
  return span;
}

// Narrows the box so that the joints that move held tasks can stop together before any of them
// comes to the end of its range. A joint that could only stop on its own would have to leave the
// others behind.
template <class T>
SUPPLE_FN void leave_room_to_stop(const Servo<T>& servo, const ServoState<T>& state, T* low,
                                  T* high) {
  const Holding<T>& held = *state.holding;
  const T span = time_to_stop(servo, held, static_cast<const T*>(state.qd)),
          kept = max(T(0), T(1) - servo.dt / max(span, servo.dt)),
          each = T(2) / (span + T(4) * servo.dt);
  each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
    const T slack = T(0.5) * (1 - together_share<T>)*limit.acceleration * servo.dt;
    const auto most = [&](T room, T own) {
      return room < Number<T>::huge ? max(T(max(room, T(0)) * each), T(own + slack))
                                    : Number<T>::huge;
    };
    const T stop = kept * state.qd[j],
            up = most(T(coordinate_difference(limit.upper, state.q[j])), stop),
            down = most(T(coordinate_difference(state.q[j], limit.lower)), T(-stop)),
            highest = high[j];
    high[j] = max(min(highest, up), low[j]);
    low[j] = min(max(low[j], T(-down)), highest);
  });
}

// Moves the speeds x (n) of the joints that move held tasks toward those of the stop that the step
// before allows, until they can stop together after this step as well.
template <class T>
SUPPLE_FN void keep_stoppable(const Servo<T>& servo, const ServoState<T>& state, const T* low,
                              const T* high, T* x, T* trial) {
  const Holding<T>& held = *state.holding;
  const int n = servo.chain.nv;
  const T before = time_to_stop(servo, held, static_cast<const T*>(state.qd));
  T kept = max(T(0), T(1) - servo.dt / max(before, servo.dt));
  const auto mix = [&](T share) {
    copy_numbers(n, x, trial);
    each_braking(servo, held, [&](int j, const JointLimit<T>&) {
      const T stop = min(max(T(kept * state.qd[j]), low[j]), high[j]);
      trial[j] = fma(share, x[j] - stop, stop);
    });
  };
  const auto stops = [&] {
    const T span = time_to_stop(servo, held, static_cast<const T*>(trial)),
            way = T(0.5) * span + T(1.5) * servo.dt;
    bool inside = true;
    each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
      const T to = integrate_coordinate(state.q[j], trial[j], way);
      inside = inside && (trial[j] > 0 ? !(to > limit.upper) : !(to < limit.lower));
    });
    return inside;
  };
  T share(1);
  for (mix(share); share > 0 && !stops(); mix(share)) {
    share = share > T(0.01) ? T(0.7) * share : T(0);
  }
  if (share == 0 && !stops()) {  // curvature has taken the room: stop as fast as possible
    kept = max(T(0), T(1) - servo.dt / max(T(hard_share<T> * before), servo.dt));
    mix(share);
  }
  if (share < 1) copy_numbers(n, trial, x);
}

// Moves x (n) to the minimizer of the cost that satisfies A x = b (count rows), inside the box, the
// bound on the norm and the constraints. Where they conflict, the equations come after box and
// norm.
template <class T>
SUPPLE_FN void solve_equations(const Servo<T>& servo, const ServoState<T>& state,
                               const Equations<T>& of, T* x, T* active_set, T* y, T* scratch) {
  const int n = of.n, count = of.count;
  const Holding<T>& held = *state.holding;
  bool fits = !state.constraints && sum_of_products(n, x, x) <= servo.bound * servo.bound;
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
  const auto is_switched = [&](int k) { return held.share[k] > 0 && held.share[k] < 1; };
  bool switching = false;
  for (int k = 0; k < servo.held_tasks; ++k) switching = switching || is_switched(k);
  LimitCost<T> cost =
      limit_cost(servo, m, n, state, state.held_lambda2 >= 0 ? state.held_lambda2 : state.lambda2,
                 memory.cost);
  // Rows that are not those of the held space need the J at q (see `fit_in_rows`).
  const bool others = switching || state.constraints;
  if (others && servo.curvature > 0 && !state.metric) cost.J = state.exact_J;
  const auto solve = [&](int count) {
    const Equations<T> of{
        cost.m, n, count, cost.J, A, b, cost.lambda2, low, high, held_tolerance<T> / servo.dt};
    copy_numbers(n, x0, x);
    solve_equations(servo, state, of, x, state.active_set, memory.y, memory.rest);
    state.applied_lambda2 = state.lambda2;
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
  T* const all = memory.cost;
  const T left = max(T(0), T(1) - held.gain * servo.dt);
  T before = Number<T>::huge;
  T* const off = all + servo.held_rows * n;
  for (int round = 0;; ++round) {
    integrate(servo.chain, state.q, x, servo.dt, memory.q);
    evaluate_held(servo, held, memory.q, false, all, off, memory.rest);
    write_errors(servo, held, off);
    T most(0);
    each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
      for (int i = row; i < row + task.rows && held.share[k] == 1; ++i) {
        most = max(most, abs(off[i] - left * held.e[i]));
      }
    });
    if (!(most < before)) {  // the last correction was of no use
      copy_numbers(n, best, x);
      integrate(servo.chain, state.q, x, servo.dt, memory.q);
      evaluate_held(servo, held, memory.q, false, all, off, memory.rest);
      return write_errors(servo, held, off);
    }
    if (most <= held_tolerance<T> || round == most_held_corrections) return;
    before = most;
    copy_numbers(n, x, best);
    const auto is_held = [&](int k) { return held.share[k] == 1; };
    pick_held(servo, held, all, held.e, A, b, is_held);
    const int count = pick_held(servo, held, all, off, A, e, is_held);
    for (int i = 0; i < count; ++i) {
      b[i] = dot(n, A + i * n, x) + (e[i] - left * b[i]) / servo.dt;
    }
    const Equations<T> of{0, n, count, A, A, b, T(1), low, high, held_tolerance<T> / servo.dt};
    solve_equations(servo, state, of, x, memory.side, memory.y, memory.rest);
  }
}

// Writes the largest error of each held task at the configuration after the step.
template <class T>
SUPPLE_FN void measure_held(const Servo<T>& servo, const ServoState<T>& state) {
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  evaluate_held(servo, held, state.q, false, memory.cost, memory.e, memory.rest);
  write_errors(servo, held, memory.e);
}

}  // namespace supple::inline SUPPLE_ISA
