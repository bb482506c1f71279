// A solution made to suit: joints turned back by whole turns, and drawn towards a posture.
// The same on a CPU (src/core/drivers/solutions.hpp) and in a GPU's threads
// (src/supple/solve/cuda).
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple::inline SUPPLE_ISA {

// ---- whole turns -------------------------------------------------------------------------------

SUPPLE_FN double rounded(double x) {
  return double(static_cast<long long>(x < 0 ? x - 0.5 : x + 0.5));
}

// How far a joint is from where another is, a whole turn counting nothing; 0: it has none.
SUPPLE_FN double difference(double turn, double one, double other) {
  const double away = one - other;
  return turn > 0 ? away - turn * rounded(away / turn) : away;
}

// The angle q, or of those that whole turns lead to inside the limits, the nearest to another.
SUPPLE_FN double nearest_wrap(double q, double to, double turn, double lower, double upper) {
  double next = q + turn * rounded((to - q) / turn);
  if (next > upper) next = q + turn * double(static_cast<long long>((upper - q) / turn));
  if (next < lower) next = q - turn * double(static_cast<long long>((q - lower) / turn));
  return next >= lower && next <= upper && abs(next - to) < abs(q - to) ? next : q;
}

// ---- towards a posture -------------------------------------------------------------------------

// The direction that is nearest to v (n,) among those that keep the target to first order and move
// no joint beyond a limit it is at:
//
//   min ‖d - v‖²  subject to  J d = e,  d_j >= 0 at a lower limit,  d_j <= 0 at an upper one
//
// by an active set: joints that would leave are fixed, and one is released where its multiplier has
// the wrong sign. Right after `evaluate_jacobian`; d (n,) is in the working memory. `fixed` (n,) is
// scratch.
SUPPLE_FN double* feasible_direction(const IkProblem<double>& ik, IterateState<double>& at,
                                     const double* v, double* fixed) {
  const int m = ik.rows, n = ik.chain.coordinates;
  double *A = at.work, *z = A + m * m, *d = z + m, *scratch = d + n;
  const double* const J = at.J;
  const auto leaves = [&](int j) {
    return (at.q[j] <= ik.lower[j] + at_limit && d[j] < 0) ||
           (at.q[j] >= ik.upper[j] - at_limit && d[j] > 0);
  };
  for (int j = 0; j < n; ++j) fixed[j] = 0;
  for (int pass = 0; pass < 4 * n; ++pass) {
    for (int i = 0; i < m; ++i) {
      for (int k = 0; k <= i; ++k) {
        double sum = 0;
        for (int j = 0; j < n; ++j) sum += fixed[j] != 0 ? 0 : J[i * n + j] * J[k * n + j];
        A[i * m + k] = A[k * m + i] = sum;
      }
      z[i] = at.e[i];
      for (int j = 0; j < n; ++j) z[i] -= fixed[j] != 0 ? 0 : J[i * n + j] * v[j];
    }
    ldl_solve(m, A, z, scratch);
    for (int j = 0; j < n; ++j) {
      d[j] = v[j];
      for (int i = 0; i < m; ++i) d[j] += J[i * n + j] * z[i];
    }
    bool more = false;
    for (int j = 0; j < n; ++j) {
      if (fixed[j] != 0 || !leaves(j)) continue;
      fixed[j] = 1;
      more = true;
    }
    if (more) continue;
    int released = -1;  // the one that would come back most
    for (int j = 0; j < n; ++j) {
      if (fixed[j] == 0 || leaves(j)) continue;
      if (released < 0 || abs(d[j]) > abs(d[released])) released = j;
    }
    if (released < 0 || pass >= 3 * n) break;
    fixed[released] = 0;
  }
  for (int j = 0; j < n; ++j) d[j] = fixed[j] != 0 ? 0 : d[j];
  return d;
}

// From a solution to the one nearest to a rest posture: minimises Σ weight (rest - q)² by moves
// that keep the target. Each follows the feasible part of the gradient, as far as the curvature
// along the last move suggests (Barzilai and Borwein's step) and at most to the first joint's
// limit, and then goes back to the target. One that does not help is taken back, and the next is
// shorter.
//
//   rest(j), weight(j)   the posture and its weights
//   ready()            brings J up to date; false to stop
//   arrive()           back to the target; whether it is met
//
// `work` has 5 n numbers.
template <class Rest, class Weight, class Ready, class Arrive>
SUPPLE_FN void approach_posture(const IkProblem<double>& ik, IterateState<double>& at, double* work,
                                Rest&& rest, Weight&& weight, Ready&& ready, Arrive&& arrive) {
  const int n = ik.chain.coordinates;
  double *v = work, *kept = v + n, *fixed = kept + n, *before = fixed + n, *moved = before + n;
  double gain = 1;
  bool known = false;  // whether `before` and `moved` are those of the last move
  const auto cost = [&] {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += weight(j) * (rest(j) - at.q[j]) * (rest(j) - at.q[j]);
    return sum;
  };
  double least = cost();
  for (int i = 0; i < posture_iterations && gain > min_posture_gain; ++i) {
    double whole = 0, feasible = 0;
    for (int j = 0; j < n; ++j) {
      kept[j] = at.q[j];
      v[j] = weight(j) * (rest(j) - at.q[j]);
      whole += v[j] * v[j];
    }
    if (!ready()) return;
    const double* const d = feasible_direction(ik, at, v, fixed);
    for (int j = 0; j < n; ++j) feasible += d[j] * d[j];
    if (feasible <= posture_tolerance * posture_tolerance * whole) return;
    if (known) {
      const double shortest = min_first_gain, longest = max_posture_gain;
      double along = 0, curve = 0;
      for (int j = 0; j < n; ++j) {
        along += moved[j] * moved[j];
        curve += moved[j] * (before[j] - d[j]);
      }
      gain = min(curve > 0 ? max(along / curve, shortest) : 2 * gain, longest);
    }
    double part = gain;  // of d, up to the first limit
    for (int j = 0; j < n; ++j) {
      const double size = abs(d[j]), room = (d[j] < 0 ? ik.lower[j] : ik.upper[j]) - at.q[j];
      if (part * size > abs(room)) part = abs(room) / size;
      if (part * size > ik.max_joint_step) part = ik.max_joint_step / size;
    }
    for (int j = 0; j < n; ++j) {
      before[j] = d[j];
      at.q[j] = min(max(at.q[j] + part * d[j], ik.lower[j]), ik.upper[j]);
    }
    const bool met = arrive();
    const double now = cost();
    known = met && now < least;
    if (known) {
      least = now;
      if (part < gain) gain = 1, known = false;  // at a limit the gradient is another one
      for (int j = 0; j < n; ++j) moved[j] = at.q[j] - kept[j];
      continue;
    }
    for (int j = 0; j < n; ++j) at.q[j] = kept[j];
    evaluate(ik, at);
    gain = 0.3 * min(gain, part);
  }
}

}  // namespace supple::inline SUPPLE_ISA
