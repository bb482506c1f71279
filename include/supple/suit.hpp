// A solution made to suit: joints turned back by whole turns, and drawn towards a posture.
// The same on a CPU (src/core/answers.hpp) and in a GPU's threads (src/supple/solve/cuda).
#pragma once

#include "starts.hpp"

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
SUPPLE_FN double nearest_turn(double q, double to, double turn, double lower, double upper) {
  double next = q + turn * rounded((to - q) / turn);
  if (next > upper) next = q + turn * double(static_cast<long long>((upper - q) / turn));
  if (next < lower) next = q - turn * double(static_cast<long long>((q - lower) / turn));
  return next >= lower && next <= upper && abs(next - to) < abs(q - to) ? next : q;
}

// ---- towards a posture -------------------------------------------------------------------------

// From a solution to the one nearest to a rest posture: minimises Σ pull (rest - q)², moving in the
// null space and back to the target, as far as each step helps.
//
//   rest(j), pull(j)   the posture and its weights
//   move(v)            a step that is nearest to v (n,); false to stop before it
//   arrive()           back to the target; whether it is met
//
// `work` has 2 n numbers.
template <class Rest, class Pull, class Move, class Arrive>
SUPPLE_FN void polish(const Quest<double>& quest, Descent<double>& at, double* work, Rest&& rest,
                      Pull&& pull, Move&& move, Arrive&& arrive) {
  const int n = quest.chain.coordinates;
  double *v = work, *kept = v + n, gain = 1;
  const auto cost = [&] {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += pull(j) * (rest(j) - at.q[j]) * (rest(j) - at.q[j]);
    return sum;
  };
  double least = cost();
  for (int i = 0; i < polish_iterations && gain > 1e-3; ++i) {
    for (int j = 0; j < n; ++j) {
      kept[j] = at.q[j];
      v[j] = gain * pull(j) * (rest(j) - at.q[j]);
      if (held_at_limit(quest, at.q[j], j, v[j])) v[j] = 0;
    }
    if (!move(static_cast<const double*>(v))) return;
    const bool met = arrive();
    const double now = cost();
    if (met && now < least) {
      const bool done = now > (1 - 1e-10) * least;
      least = now;
      gain = gain < 0.5 ? 2 * gain : 1;
      if (done) return;
      continue;
    }
    for (int j = 0; j < n; ++j) at.q[j] = kept[j];
    measure(quest, at);
    gain *= 0.3;
  }
}

}  // namespace supple::inline SUPPLE_ISA
