// The best step within a box, a bound on its norm, and constraints, which are rows G x >= h.
//
//   minimize  ‖J (x - x0)‖² + λ² ‖x - x0‖²   subject to   low <= x <= high,  ‖x‖ <= Δ,  G x >= h
//
// Where these conflict, the box has precedence over the norm, the norm over the rows, and each row
// over the rows after it. A row that cannot be met together with all that precedes it is met as
// well as possible: its violation is minimal, and is held at that value for the rows after it.
//
// Without rows, `limited_step` (box.hpp) solves this problem; with rows, `constrained_step` starts
// from its solution inside the box (row_search.hpp). For the bound on the norm, the same method
// computes the shortest x (J = 0, λ = 1, x0 = 0), whose length increases with each row. Where its
// length reaches Δ, this x is the only one within the bound, and it is the result. Otherwise
// additional damping shortens the step.
#pragma once

#include "supple/limits/box.hpp"
#include "supple/limits/row_search.hpp"

namespace supple::inline SUPPLE_ISA {

// Number of entries of scratch memory that `constrained_step` needs, of which `RowSearch` takes all
// but those of `limited_step`.
SUPPLE_FN constexpr int constraint_scratch(int m, int n, int count) {
  return count * (n + 5) + 2 * m * n + 3 * n * n + 16 * n + m + (m > n ? m : n) +
         limited_scratch(m, n);
}

// Sets J and λ of the cost, divided by the largest entry of J; λ is at least that of `boxed_step`.
template <class T>
SUPPLE_FN void set_cost(RowSearch<T>& s, int m, const T* J, const T& lambda2) {
  T largest(0), squares(0);
  for (int i = 0; i < m * s.n; ++i) largest = max(largest, abs(J[i]));
  const T unit = largest > 0 ? T(1) / largest : T(1);
  for (int i = 0; i < m * s.n; ++i) {
    s.J[i] = J[i] * unit;
    squares = fma(s.J[i], s.J[i], squares);
  }
  s.m = m;
  s.lambda = largest > 0 ? max(sqrt(lambda2) * unit, sqrt(T(ridge<T>) * squares)) : T(1);
}

// Computes the step within a box, a bound on its norm, and rows of constraints, for one robot. x
// (n) is x0 on entry and the step on return; active_set (n) is as in `boxed_step`, and rows.state
// receives the state of each row. Returns the damping applied.
template <class T>
SUPPLE_NOINLINE_DEVICE T constrained_step(int m, int n, const T* J, const T& lambda2, const T* low,
                                          const T* high, const T& bound, const Constraints<T>& rows,
                                          T* x, T* active_set) {
  T* memory = rows.scratch;
  RowSearch<T> s = row_search(m, n, rows, low, high, memory);
  T *x0 = memory, *best = x0 + n, *more = best + n, *rest = more + shortening_scratch(m, n);
  const auto solve = [&](const T& damping, T* step, T* set, bool) {
    for (int j = 0; j < n; ++j) s.x0[j] = s.x[j] = step[j];
    const T applied = boxed_step(m, n, J, damping, low, high, s.x, s.side, rest);
    set_cost(s, m, J, damping);
    raise_rows(s, T(Number<T>::huge));
    for (int j = 0; j < n; ++j) step[j] = s.x[j], set[j] = s.side[j];
    return applied;
  };
  for (int j = 0; j < n; ++j) x0[j] = x[j];
  T applied = solve(lambda2, x, active_set, false);
  if (sum_of_products(n, x, x) > bound * bound) {
    for (int j = 0; j < n; ++j) {  // the shortest step
      s.x0[j] = T(0);
      s.x[j] = min(max(T(0), low[j]), high[j]);
      s.side[j] = low[j] > 0 ? T(-1) : high[j] < 0 ? T(1) : T(0);
    }
    s.m = 0, s.lambda = T(1);
    const bool within = raise_rows(s, T(bound * (1 - T(8) * Number<T>::epsilon)));
    for (int j = 0; j < n; ++j) best[j] = s.x[j];
    if (within) {
      applied = shortened_step(m, n, J, lambda2, bound, T(T(64) * Number<T>::epsilon), x0, x, best,
                               active_set, applied, more, solve);
    } else {
      for (int j = 0; j < n; ++j) x[j] = s.x[j], active_set[j] = s.side[j];
    }
  }
  for (int i = 0; i < rows.count; ++i) {
    const bool missed = violation(n, s.G + i * n, s.h[i], x, x0, T(row_noise<T>)) > 0;
    RowState state = RowState(int(s.state[i]));
    if (state == RowState::waiting) state = missed ? RowState::given_up : RowState::met;
    if (state == RowState::given_up && !missed) state = RowState::held;
    rows.state[i] = T(int(state));
  }
  return applied;
}

// Writes the state of each row for a step x (n), which was x0 (n) before limits and constraints. If
// the constraints have changed the step (`acted`), rows that x meets and x0 misses become `held`.
// Returns whether x meets all rows.
template <class T>
SUPPLE_FN bool mark_rows(const Constraints<T>& rows, int n, const T* x0, const T* x, bool acted) {
  bool met = true;
  for (int i = 0; i < rows.count; ++i) {
    const T *const row = rows.G + i * n, h = rows.h[i];
    const bool missed = violation(n, row, h, x, x0) > 0,
               changed = acted && violation(n, row, h, x0, x0) > 0;
    const RowState state = missed ? RowState::given_up : changed ? RowState::held : RowState::met;
    rows.state[i] = T(int(state));
    met = met && !missed;
  }
  return met;
}

template <class T>
SUPPLE_FN bool misses_rows(const Constraints<T>& rows) {
  bool missed = false;
  for (int i = 0; i < rows.count; ++i) {
    missed = missed || rows.state[i] == T(int(RowState::given_up));
  }
  return missed;
}

// Returns the largest factor t <= 1 with which p + t (x - p) meets all rows, or misses them by no
// more than p does, for x (n) and p (n); a null p stands for zero.
template <class T>
SUPPLE_FN T share_in_rows(const Constraints<T>& rows, int n, const T* x, const T* p = nullptr) {
  T share(1);
  for (int i = 0; i < rows.count; ++i) {
    const T* const row = rows.G + i * n;
    const T at_p = p ? sum_of_products(n, row, p) : T(0), room = max(at_p - rows.h[i], T(0)),
            way = at_p - sum_of_products(n, row, x);
    if (way * share > room) share = room / way;
  }
  return share;
}

// Moves x, a point of the box, toward the point of the box nearest to zero until it meets the rows,
// or misses them by no more than this point does.
template <class T>
SUPPLE_FN void scale_into_rows(const Constraints<T>& rows, int n, const T* low, const T* high,
                               T* x) {
  T* const p = rows.scratch;
  for (int j = 0; j < n; ++j) p[j] = max(low[j], min(high[j], T(0)));
  const T share = share_in_rows(rows, n, x, p);
  for (int j = 0; j < n; ++j) x[j] = min(max(fma(share, x[j] - p[j], p[j]), low[j]), high[j]);
}

}  // namespace supple::inline SUPPLE_ISA
