// A step of a control loop for tasks whose rows have allowed ranges.
//
// A row with a range requires J q̇ to lie in an interval instead of having one value: with the
// offset o from the target, the range [lower, upper] of o and the gain k,
//
//   k (o - upper)  <=  J q̇  <=  k (o - lower)
//
// in addition to any commanded velocity of the row. Inside the range the interval contains zero, so
// the row requires no motion; it only slows down motion toward an end of the range, in proportion
// to the remaining distance. Outside, it requires motion toward the range, in proportion to the
// distance. Both velocities are zero at the end itself, so q̇ is continuous there.
//
// Rows outside their range take part in the step as equations. Then the rows whose interval is
// violated are added one at a time, the worst first, and rows whose multiplier has the wrong sign
// are removed. All other rows are left out of the step, including its damping rule.
//
// With priorities the result is the lexicographic optimum: each task misses its intervals by as
// little as the tasks above it allow, and a row inside its interval does not hinder other tasks.
// Multipliers would depend on all lower levels. Instead, a row that is held is left out on trial,
// and stays left out if its rate then lies inside its interval.
#pragma once

#include "supple/servo/servo.hpp"

namespace supple::inline SUPPLE_ISA {

// Whether rows may be left out of a step. Rows may not be left out if weights, clamps, or values
// kept from the previous step refer to rows by their index.
template <class T>
SUPPLE_FN bool rows_are_separable(const Servo<T>& servo) {
  const Step<T>& how = *servo.step;
  const Rule rule = how.damping.rule;
  return (servo.mode == ControlMode::step || servo.mode == ControlMode::secondary) &&
         !how.task_scale && !how.direction && !how.error_clamps &&
         how.method != Method::selective && how.method != Method::selective_soft &&
         rule != Rule::mayorga_rank && rule != Rule::manipulability_rate;
}

// Computes the multipliers z (rows,) of q̇ = Jᵀz from J Jᵀz = J q̇. `A` (rows²) and `rest` (rows)
// are scratch memory.
template <class T, class M, class N>
SUPPLE_FN void multipliers(M rows, N n, const T* J, const T* dq, T* z, T* A, T* rest) {
  gram(rows, n, J, A);
  for (int r = 0; r < rows; ++r) z[r] = dot(n, J + r * n, dq);
  ldl_solve(rows, A, z, rest);
}

// Returns the row of J (rows, n) to release, or -1 if there is none: the row with the largest
// multiplier z in q̇ = Jᵀz among those of the wrong sign. Such a row holds q̇ at the end of its
// interval although q̇ without the row would be inside it. `slack(r)` is -1 for a row at the
// lower end of its interval, 1 at the upper end and 0 without an interval. `scratch` has rows² + 2
// rows entries.
template <class T, class Slack>
SUPPLE_FN int wrongly_held(int rows, int n, const T* J, const T* dq, Slack&& slack, T* scratch) {
  T *A = scratch, *z = A + rows * rows, *rest = z + rows, most(0);
  if (rows == 6 && n == 7) {  // unrolled for the most common sizes
    multipliers(Fixed<6>{}, Fixed<7>{}, J, dq, z, A, rest);
  } else if (rows == 6 && n == 6) {
    multipliers(Fixed<6>{}, Fixed<6>{}, J, dq, z, A, rest);
  } else {
    multipliers(rows, n, J, dq, z, A, rest);
  }
  for (int r = 0; r < rows; ++r) most = max(most, abs(z[r]) * T(64) * Number<T>::epsilon);
  int worst = -1;
  for (int r = 0; r < rows; ++r) {
    const T wrong = z[r] * T(slack(r));
    if (wrong > most) most = wrong, worst = r;
  }
  return worst;
}

// Computes a step and applies the limits, for one robot, after `evaluate_tasks`. The results are
// state.q and state.qd.
template <class T>
SUPPLE_FN void run_in_ranges(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
  T *below = state.ranges, *above = below + m, *held = above + m, *e = held + m, *J = e + m,
    *offset = J + m * n, *direction = offset + m;
  const auto end_of = [&](int i) {  // 1 at the upper end of an interval, -1 at the lower
    if (!(below[i] < 0 || above[i] > 0)) return 0;
    return held[i] == state.e[i] + above[i] ? 1 : -1;
  };
  const bool separable = rows_are_separable(servo);
  const bool remembers =
      servo.mode == ControlMode::filtered || servo.mode == ControlMode::estimated;
  constexpr T open = Number<T>::huge;  // value of `held` for a row that does not take part
  for (int i = 0; i < m; ++i) {
    const T low = state.e[i] + below[i], high = state.e[i] + above[i];
    held[i] = low == high || low > 0 ? low : high < 0 ? high : open;
  }
  Servo<T> reduced = servo;
  ServoState<T> part = state;
  part.J = J, part.e = e;
  if (separable) part.held = held;
  if (state.offset) part.offset = offset;
  int rows = 0, holding = 0;
  const auto solve = [&] {  // the step of the rows that take part
    rows = holding = 0;
    for (int i = 0; i < m; ++i) {
      const bool counts = held[i] < open;
      if (separable && !counts) continue;
      for (int j = 0; j < n; ++j) J[rows * n + j] = counts ? state.J[i * n + j] : T(0);
      holding += counts && end_of(i) != 0;
      if (state.offset) offset[rows] = counts ? state.offset[i] : T(0);
      e[rows++] = counts ? held[i] : T(0);
    }
    reduced.rows = rows;
    part.J = J, part.exact_J = state.exact_J;  // the step exchanges them
    if (rows > 0) {
      part.chosen_lambda2 = state.chosen_lambda2;
      take_step(reduced, part, scratch);
    } else {
      part.chosen_lambda2 = T(0);
      for (int j = 0; j < n; ++j) {
        part.dq[j] = T(0);
        if (part.stopped) part.stopped[j] = T(0);
      }
    }
  };
  // By how much the rate of a row is outside of its interval, above rounding; `nearest` is the end.
  const auto outside = [&](int i, T& nearest) {
    const T rate = dot(n, state.J + i * n, part.dq), low = state.e[i] + below[i],
            high = state.e[i] + above[i];
    nearest = min(max(rate, low), high);
    const T size = abs(rate - nearest);
    return size <= T(64) * Number<T>::epsilon * (abs(rate) + abs(nearest)) ? T(0) : size;
  };
  const auto release = [&] {  // whether a row that is held need not be
    for (int i = 0; i < m; ++i) {
      const T before = held[i];
      if (!(before < open) || end_of(i) == 0) continue;
      held[i] = open;
      solve();
      T nearest;
      outside(i, nearest);
      if (nearest != before) return true;
      held[i] = before;
    }
    solve();
    return false;
  };
  for (int pass = 0;; ++pass) {
    solve();
    if (remembers || pass == 2 * m) break;
    int worst = -1;
    T most(0), bound(0);
    for (int i = 0; i < m; ++i) {
      if (held[i] < open) continue;
      T nearest;
      const T size = outside(i, nearest);
      if (size > most) most = size, worst = i, bound = nearest;
    }
    if (worst >= 0) {
      held[worst] = bound;
      continue;
    }
    if (holding > 0 && servo.mode == ControlMode::priority) {
      if (release()) continue;
      break;
    }
    if (!separable || holding == 0) break;
    const auto row_of = [&](int r) {
      int i = 0;
      for (int before = -1;; ++i) {
        if (held[i] < open && ++before == r) return i;
      }
    };
    const int wrong =
        wrongly_held(rows, n, part.J, part.dq, [&](int r) { return end_of(row_of(r)); }, scratch);
    if (wrong < 0) break;
    held[row_of(wrong)] = open;
  }
  const bool free = reduced.rows == 0;
  if (free) {  // no row takes part: the limits get one row of zeros
    reduced.rows = 1;
    if (part.exact_J) part.J = state.exact_J, part.exact_J = J;
    for (int j = 0; j < n; ++j) {
      part.J[j] = T(0);
      if (part.exact_J) part.exact_J[j] = T(0);
    }
    e[0] = T(0);
    reduced.keep_direction = false;
  }
  if (reduced.keep_direction) {
    part.direction = direction;
    for (int i = 0, r = 0; i < m; ++i) {
      if (!separable || held[i] < open) direction[r++] = state.direction[i];
    }
  }
  advance(reduced, part, scratch);
  T *const all = state.J, *const asked = state.e, *const from = state.offset,
           *const kept = state.direction;
  state = part;
  state.J = all, state.e = asked, state.offset = from, state.direction = kept, state.held = nullptr;
  if (state.lost) {  // `lost` of all rows, of which some did not take part in this step
    int r = reduced.rows - 1;
    for (int i = m - 1; i >= 0; --i) {
      const bool took_part = !separable || held[i] < open;
      state.lost[i] = took_part && !free && r >= 0 ? state.lost[r--] : T(0);
    }
  }
  if (kept) {  // the direction of all rows, not only of those that take part in this step
    for (int i = 0; i < m; ++i) kept[i] = dot(n, state.J + i * n, state.qd);
  }
  // The reported command of a row is the value at which it is held or, if it does not take part,
  // its resulting velocity.
  for (int i = 0; i < m; ++i) {
    const T low = state.e[i] + below[i], high = state.e[i] + above[i];
    const T rate = dot(n, state.J + i * n, servo.second_order ? state.dq : state.qd);
    const T moved = (held[i] < open ? held[i] : min(max(rate, low), high)) - state.e[i];
    state.e[i] = state.e[i] + moved;
    state.desired[i] = state.desired[i] + moved;
  }
}

}  // namespace supple::inline SUPPLE_ISA
