// The life of a start: when it is given up, how what it found is finished, how it comes to rest.
// The same on a CPU's lanes (src/core) and in a GPU's threads (src/supple/solve/cuda).
// Tuned constants and what chose them: docs/constants.md.
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
inline constexpr int max_iterations = 16, window = 3, patient_after = 12;
inline constexpr float progress = 0.4f;
inline constexpr float huge_cost = 3e38f;

// Starts of a target, unless the caller says how many. A solution at the limits of most joints may
// be reached by one start in 10,000, and then others come close to it. So a target is given up
// after `far_starts` if the best of them is still far, after `near_starts` if it is near, to this
// part of the newton_gain (6 % of the reach), and after `nearly_met_starts` if it is nearly met
// (0.06 %).
inline constexpr int far_starts = 256, near_starts = 1024, nearly_met_starts = 16384;
inline constexpr float near_target = 0.2f, nearly_met = 2e-3f;

// How many starts a target may have if the best so far is far from it, near to it, or nearly there.
struct RestartBudget {
  int far, near, all;
};

inline constexpr int max_polish_iterations = 40;
inline constexpr double polish_progress =
    0.8;  // what is to be finished must lower its cost to this ...
inline constexpr double polish_window =
    3;  // ... every so many iterations: near a singularity it swings

inline constexpr int search_newton_iterations =
    24;  // to come to rest, in the numbers of the search
inline constexpr int polish_newton_iterations = 80;  // likewise, in double
inline constexpr float min_gain_factor =
    0.03f;  // part of the newton_gain that at rest counts as none

// Solutions with joints at their limits are reached from few places. So of the seeds beyond the
// first of these, every second one is drawn from ranges that are wider by `overhang` on either
// side, and clamped: about a third of its joints start at a limit.
inline constexpr int interior_seeds = 24;
inline constexpr double overhang = 0.3;

inline constexpr double seed_scatter =
    0.6;                                // how far from the caller's start others begin [rad or m]
inline constexpr double near_q0 = 0.5;  // a solution within this of q0 is not max_compared ...
inline constexpr int max_compared = 8;  // ... with others: of so many the nearest is chosen
inline constexpr double near_miss = 1e-4;  // ‖e‖² from which a descent from q0 is worth going on
inline constexpr double distinct = 1e-2;   // by so much, in some joint, solutions differ
inline constexpr int posture_iterations = 200;
// Of the gradient of a posture's distance: the longest step along it, the shortest of the first try
// and of any, and the part of it that may be left.
inline constexpr double max_posture_gain = 32, min_first_gain = 0.05, min_posture_gain = 1e-4,
                        posture_tolerance = 1e-4;
inline constexpr double at_limit = 1e-9;  // [rad or m]: a joint this near to a limit is at it
inline constexpr int posture_rounds = 3;  // whole turns may lead to where there is more to polish
// Of closest poses q0's own may have these parts of the least cost: the latter if it is near q0, so
// that along a path there are no jumps for little.
inline constexpr double own_cost_far = 1.02, own_cost_near = 1.2;

inline constexpr double max_input = 1e9;  // of a target or a start: no square overflows

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// A number of a sequence that fills (0, 1) evenly: the k-th, with a step for each coordinate.
SUPPLE_FN double sequence_value(int k, double step) {
  const double share = 0.5 + k * step;
  return share - double(static_cast<long long>(share));
}

// Where a seed is in the range of a coordinate, from 0 to 1: the sequence goes on after the first
// `used` of its numbers.
SUPPLE_FN double seed_fraction(int seed, int used, double step) {
  const double share = sequence_value(used + seed + 1, step);
  if (seed < interior_seeds || seed % 2 == 0) return share;
  const double wide = share + overhang * (2 * share - 1);
  return wide < 0 ? 0 : wide > 1 ? 1 : wide;
}

// Whether a start is given up, after an iteration; `before` is its cost a few iterations ago.
SUPPLE_FN bool is_stalled(int start, int iteration, int iteration_factor, float cost,
                          float& before) {
  const int patience = start < patient_after ? 1 : 2;
  if (iteration >= patience * patience * iteration_factor * max_iterations) return true;
  if (iteration % (patience * iteration_factor * window)) return false;
  const bool slow = !(cost <= progress * before);
  before = cost;
  return slow;
}

// As the caller says, or as usual with 0. Near a start of the caller's own it is not worth as many.
SUPPLE_FN RestartBudget restart_budget(int max_starts, bool nearest) {
  if (max_starts) return {max_starts, max_starts, max_starts};
  return {far_starts, near_starts, nearest ? near_starts : nearly_met_starts};
}

// Whether a target is given up after some starts, the best of which came to rest with this cost.
SUPPLE_FN bool exhausted(const RestartBudget& budget, int starts, float cost, float newton_gain) {
  const float near = near_target * newton_gain, nearly = nearly_met * newton_gain;
  return starts >= budget.all || (starts >= budget.near && cost > nearly * nearly) ||
         (starts >= budget.far && cost > near * near);
}

// Lanes that come to rest: the best so far of each.
template <class L>
struct Minimization {
  L *q, *work;           // (n,), and newton_scratch
  L value, newton_gain;  // what becomes least; how much it is damped
};

template <class L, class T>
SUPPLE_FN Minimization<L> start_minimization(const IkProblem<T>& ik, const IterateState<L>& at,
                                             L* work, float gain_factor = 1) {
  const int n = ik.chain.coordinates;
  for (int j = 0; j < n; ++j) work[j] = at.q[j];
  return {work, work + n, L(T(huge_cost)), L(T(gain_factor) * ik.newton_gain)};
}

// One step of Newton's method, damped more after one that made things worse: that one is taken
// back. Right after `measure`, with what has become of the value, and the size of it that counts.
// Returns where lanes have come to rest.
template <class L, class T>
SUPPLE_FN mask_t<L> minimize(const IkProblem<T>& ik, IterateState<L>& at, Minimization<L>& minimum,
                             const L& value, const L& size, bool flat = false) {
  constexpr bool fine = sizeof(T) == sizeof(double);
  const L little = size * L(T(fine ? 1e-11 : 1e-5)), noise = size * L(T(fine ? 1e-9 : 1e-6));
  const int n = ik.chain.coordinates;
  const mask_t<L> better = value < minimum.value;
  const mask_t<L> done = ((abs(minimum.value - value) < little) &
                          (minimum.newton_gain <= L(T(min_gain_factor) * ik.newton_gain))) |
                         (minimum.newton_gain >= L(T(1e4) * ik.newton_gain));
  for (int j = 0; j < n; ++j) minimum.q[j] = select(better, at.q[j], minimum.q[j]);
  minimum.value = select(better, value, minimum.value + noise);
  newton_step(ik, at, minimum.newton_gain, flat, minimum.work);
  // (J and e are not those of minimum.q where it got worse: no step from there yet)
  for (int j = 0; j < n; ++j) at.q[j] = select(better, at.q[j], minimum.q[j]);
  minimum.newton_gain =
      select(better, max(minimum.newton_gain * L(T(0.3)), L(T(1e-3) * ik.newton_gain)),
             minimum.newton_gain * L(T(16)));
  return done;
}

}  // namespace supple::inline SUPPLE_ISA
