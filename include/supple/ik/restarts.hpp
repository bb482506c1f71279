// The life of a start: when it is given up, how what it found is finished, how it comes to rest.
// The same on a CPU's lanes (src/core) and in a GPU's threads (src/supple/solve/cuda).
#pragma once

#include "supple/ik/iterate.hpp"

namespace supple {

// The result of a problem, in order of severity: the values of `SolveStatus` in
// src/supple/ik/status.py.
enum class Outcome : signed char { solved, unreachable, timeout, nonfinite };

// A start that gets nowhere is given up: every `window` iterations its cost must have fallen to
// `progress` of what it was. The first starts are given up soon, for most targets have many ways;
// later ones have twice the window and four times the iterations, for towards a singular pose
// convergence is only linear.
inline constexpr int max_iterations = 16, window = 3, patient_from = 12;
inline constexpr float progress = 0.4f;
inline constexpr float huge_cost = 3e38f;

// Starts of a target, unless the caller says how many. A solution at the limits of most joints may
// be reached by one start in 10,000, and then others come close to it. So a target is given up
// after `usual_starts` if the best of them is still far, after `near_starts` if it is near, to this
// part of the newton_gain (6 % of the reach), and after `most_starts` if it is nearly met (0.06 %).
inline constexpr int usual_starts = 256, near_starts = 1024, most_starts = 16384;
inline constexpr float near_target = 0.2f, nearly_met = 2e-3f;

// How many starts a target may have if the best so far is far from it, near to it, or nearly there.
struct RestartBudget {
  int far, near, all;
};

inline constexpr int finish_iterations = 40;
inline constexpr double finishing = 0.8;  // what is to be finished must lower its cost to this ...
inline constexpr double waiting = 3;  // ... every so many iterations: near a singularity it swings

inline constexpr int rest_iterations = 24;   // to come to rest, in the numbers of the search
inline constexpr int fine_iterations = 80;   // likewise, in double
inline constexpr float least_stiff = 0.03f;  // part of the newton_gain that at rest counts as none

// Solutions with joints at their limits are reached from few places. So of the seeds beyond the
// first of these, every second one is drawn from ranges that are wider by `overhang` on either
// side, and clamped: about a third of its joints start at a limit.
inline constexpr int inside_seeds = 24;
inline constexpr double overhang = 0.3;

inline constexpr double scatter = 0.6;  // how far from the caller's start others begin [rad or m]
inline constexpr double near_start = 0.5;  // a solution within this of q0 is not compared ...
inline constexpr int compared = 8;         // ... with others: of so many the nearest is chosen
inline constexpr double near_miss = 1e-4;  // ‖e‖² from which a descent from q0 is worth going on
inline constexpr double apart = 1e-2;      // by so much, in some joint, solutions differ
inline constexpr int polish_iterations = 200;
// Of the gradient of a posture's distance: the longest step along it, the shortest of the first try
// and of any, and the part of it that may be left.
inline constexpr double most_polish = 32, usual_polish = 0.05, least_polish = 1e-4, polished = 1e-4;
inline constexpr double at_limit = 1e-9;  // [rad or m]: a joint this near to a limit is at it
inline constexpr int polish_rounds = 3;   // whole turns may lead to where there is more to polish
// Of closest poses q0's own may have these parts of the least cost: the latter if it is near q0, so
// that along a path there are no jumps for little.
inline constexpr double as_close = 1.02, as_good = 1.2;

inline constexpr double largest_number = 1e9;  // of a target or a start: no square overflows

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// A number of a sequence that fills (0, 1) evenly: the k-th, with a stride for each coordinate.
SUPPLE_FN double share_of(int k, double stride) {
  const double share = 0.5 + k * stride;
  return share - double(static_cast<long long>(share));
}

// Where a seed is in the range of a coordinate, from 0 to 1: the sequence goes on after the first
// `used` of its numbers.
SUPPLE_FN double seed_share(int seed, int used, double stride) {
  const double share = share_of(used + seed + 1, stride);
  if (seed < inside_seeds || seed % 2 == 0) return share;
  const double wide = share + overhang * (2 * share - 1);
  return wide < 0 ? 0 : wide > 1 ? 1 : wide;
}

// Whether a start is given up, after an iteration; `before` is its cost a few iterations ago.
SUPPLE_FN bool given_up(int start, int iteration, int pace, float cost, float& before) {
  const int patience = start < patient_from ? 1 : 2;
  if (iteration >= patience * patience * pace * max_iterations) return true;
  if (iteration % (patience * pace * window)) return false;
  const bool slow = !(cost <= progress * before);
  before = cost;
  return slow;
}

// As the caller says, or as usual with 0. Near a start of the caller's own it is not worth as many.
SUPPLE_FN RestartBudget start_budget(int max_starts, bool nearest) {
  if (max_starts) return {max_starts, max_starts, max_starts};
  return {usual_starts, near_starts, nearest ? near_starts : most_starts};
}

// Whether a target is given up after some starts, the best of which came to rest with this cost.
SUPPLE_FN bool exhausted(const RestartBudget& budget, int starts, float cost, float newton_gain) {
  const float near = near_target * newton_gain, nearly = nearly_met * newton_gain;
  return starts >= budget.all || (starts >= budget.near && cost > nearly * nearly) ||
         (starts >= budget.far && cost > near * near);
}

// Lanes that come to rest: the best so far of each.
template <class L>
struct Rest {
  L *q, *work;           // (n,), and settle_work
  L value, newton_gain;  // what becomes least; how much it is damped
};

template <class L, class T>
SUPPLE_FN Rest<L> rest_from(const IkProblem<T>& ik, const IterateState<L>& at, L* work,
                            float stiff = 1) {
  const int n = ik.chain.coordinates;
  for (int j = 0; j < n; ++j) work[j] = at.q[j];
  return {work, work + n, L(T(huge_cost)), L(T(stiff) * ik.newton_gain)};
}

// One step of Newton's method, damped more after one that made things worse: that one is taken
// back. Right after `measure`, with what has become of the value, and the size of it that counts.
// Returns where lanes have come to rest.
template <class L, class T>
SUPPLE_FN mask_t<L> approach(const IkProblem<T>& ik, IterateState<L>& at, Rest<L>& rest,
                             const L& value, const L& size, bool flat = false) {
  constexpr bool fine = sizeof(T) == sizeof(double);
  const L little = size * L(T(fine ? 1e-11 : 1e-5)), noise = size * L(T(fine ? 1e-9 : 1e-6));
  const int n = ik.chain.coordinates;
  const mask_t<L> better = value < rest.value;
  const mask_t<L> done = ((abs(rest.value - value) < little) &
                          (rest.newton_gain <= L(T(least_stiff) * ik.newton_gain))) |
                         (rest.newton_gain >= L(T(1e4) * ik.newton_gain));
  for (int j = 0; j < n; ++j) rest.q[j] = select(better, at.q[j], rest.q[j]);
  rest.value = select(better, value, rest.value + noise);
  settle_step(ik, at, rest.newton_gain, flat, rest.work);
  // (J and e are not those of rest.q where it got worse: no step from there yet)
  for (int j = 0; j < n; ++j) at.q[j] = select(better, at.q[j], rest.q[j]);
  rest.newton_gain = select(better, max(rest.newton_gain * L(T(0.3)), L(T(1e-3) * ik.newton_gain)),
                            rest.newton_gain * L(T(16)));
  return done;
}

}  // namespace supple::inline SUPPLE_ISA
