// The starts of a search: the sequence of their seeds, when they are abandoned, and how Newton's
// method continues a failed start to a local minimum of the error. Used on the lanes of a CPU
// (src/core/drivers) and in the threads of a GPU (src/supple/ik/gpu). Tuned constants are explained
// in docs/constants.md.
#pragma once

#include "supple/ik/iterate.hpp"

namespace supple {

// A start is abandoned if, within `window` iterations, its cost ‖e‖² has not fallen to `progress`
// times its value, or after `max_iterations`. The first starts are abandoned early because most
// targets have many solutions. From start `patient_after` on, the window is doubled and the number
// of iterations quadrupled, because convergence toward a singular pose is only linear.
inline constexpr int max_iterations = 16, window = 3, patient_after = 12;
inline constexpr float progress = 0.4f;
inline constexpr float huge_cost = 3e38f;  // larger than the cost of any configuration

// Default number of starts. A solution with most joints at their limits may be reached by only one
// start in 10,000, but then other starts come close to the target. So the search for a target ends
// after `far_starts` if no start has come near it, after `near_starts` if the error of one is below
// `near_target` (6 % of the reach), and after `nearly_met_starts` if the error of one is below
// `nearly_met` (0.06 %). `near_target` and `nearly_met` are multiples of newton_gain, which is 0.3
// times the reach.
inline constexpr int far_starts = 512, near_starts = 1024, nearly_met_starts = 16384;
inline constexpr float near_target = 0.2f, nearly_met = 2e-3f;

// Maximum number of starts: if none has come near the target (`far`), if one has (`near`), and if
// one has nearly met it (`all`).
struct RestartBudget {
  int far, near, all;
};

// Polishing in double precision ends when, within `polish_window` iterations, the cost has not
// fallen to `polish_progress` times its value.
inline constexpr int max_polish_iterations = 40;
inline constexpr double polish_progress = 0.8, polish_window = 3;

// Iterations of Newton's method from a failed start to a local minimum of the cost, in the
// precision of the search and in double precision.
inline constexpr int search_newton_iterations = 24, polish_newton_iterations = 80;
// Newton's method counts as converged only when its gain has fallen to this fraction of
// newton_gain.
inline constexpr float min_gain_factor = 0.03f;

// Few starts converge to solutions with joints at their limits. Therefore every second seed after
// the first `interior_seeds` is drawn from ranges that are wider by the fraction `overhang` on
// either side, and then clamped: about a third of its joints start at a limit. From seed
// `first_corner` on, every second one of these seeds is a corner of the ranges, where every joint
// is at a limit. Of `corner_candidates` corners, the one with the smallest cost is used.
inline constexpr int interior_seeds = 24, first_corner = 128, corner_candidates = 16;
inline constexpr double overhang = 0.3;

// Constants of the search for a solution near an initial guess q0. Distances between
// configurations are in rad, or in units of the robot's size for prismatic joints (`joint_unit`).
inline constexpr double seed_scatter = 0.6;  // largest distance from q0 of the seeds near q0
inline constexpr double near_q0 = 0.5;       // a solution this close to q0 is accepted
inline constexpr int max_compared = 8;       // number of solutions of which the nearest is chosen
inline constexpr double near_miss = 1e-4;    // ‖e‖² below which Newton's method is tried from q0
inline constexpr double distinct = 1e-2;     // least difference between solutions

// Constants of `approach_posture`. A gain is the length of a step relative to the gradient of half
// the squared distance to the posture.
inline constexpr int posture_iterations = 200;  // largest number of steps
// Largest number of steps toward q0 for robots with a long prismatic joint (`is_long`), such as
// those of a moving base.
inline constexpr int base_posture_iterations = 10;
inline constexpr double max_posture_gain = 32;     // largest gain of a step
inline constexpr double min_first_gain = 0.05;     // smallest gain of the first trial of a step
inline constexpr double min_posture_gain = 1e-4;   // smallest gain of any trial
inline constexpr double posture_tolerance = 1e-4;  // fraction of the gradient that may remain
inline constexpr double at_limit = 1e-9;           // distance below which a joint is at a limit
inline constexpr double limb_damping = 1e-10;      // λ² of steps of limbs, relative to ‖J‖²/m
inline constexpr int posture_rounds = 3;  // largest number of rounds, with 2π wraps after each

// To avoid jumps along a path, the closest pose found from q0 is preferred if its cost is at most
// this multiple of the smallest cost; `own_cost_near` applies if that pose is near q0.
inline constexpr double own_cost_far = 1.02, own_cost_near = 1.2;

inline constexpr double max_input = 1e9;  // bound on targets and initial guesses

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Returns the k-th value of an additive recurrence, which fills (0, 1) evenly. Each coordinate has
// its own increment `step`.
SUPPLE_FN double sequence_value(int k, double step) {
  const double value = 0.5 + k * step;
  return value - double(static_cast<long long>(value));
}

// Returns the position of a seed in the range of a coordinate, from 0 to 1. The first `used` values
// of the sequence were used for other seeds.
SUPPLE_FN double seed_fraction(int seed, int used, double step) {
  const double value = sequence_value(used + seed + 1, step);
  if (seed < interior_seeds || seed % 2 == 0) return value;
  const double wide = value + overhang * (2 * value - 1);
  return wide < 0 ? 0 : wide > 1 ? 1 : wide;
}

// Whether a seed is a corner of the joint ranges.
SUPPLE_FN bool is_corner_seed(int seed) { return seed >= first_corner && seed % 4 == 3; }

// Whether a start is abandoned after an iteration. `before` is its cost at the last check, and is
// updated.
SUPPLE_FN bool is_stalled(int start, int iteration, int iteration_factor, float cost,
                          float& before) {
  const int patience = start < patient_after ? 1 : 2;
  if (iteration >= patience * patience * iteration_factor * max_iterations) return true;
  if (iteration % (patience * iteration_factor * window)) return false;
  const bool slow = !(cost <= progress * before);
  before = cost;
  return slow;
}

// Returns the budget for a given maximum number of starts. 0 means the default, which is smaller
// for a search for the solution `nearest` to an initial guess.
SUPPLE_FN RestartBudget restart_budget(int max_seeds, bool nearest) {
  if (max_seeds) return {max_seeds, max_seeds, max_seeds};
  return {far_starts, near_starts, nearest ? near_starts : nearly_met_starts};
}

// Whether the budget is used up after a number of starts, given the smallest cost of a local
// minimum found so far.
SUPPLE_FN bool exhausted(const RestartBudget& budget, int starts, float cost, float newton_gain) {
  const float near = near_target * newton_gain, nearly = nearly_met * newton_gain;
  return starts >= budget.all || (starts >= budget.near && cost > nearly * nearly) ||
         (starts >= budget.far && cost > near * near);
}

// State of a minimization by Newton's method, with the best configuration of each lane so far.
template <class L>
struct Minimization {
  L *q, *work;           // best configuration (nq,); scratch of `newton_scratch` lanes
  L value, newton_gain;  // smallest value of the objective; current gain of the damping
};

// Starts a minimization at the current q. `work` has nq + `newton_scratch` lanes.
template <class L, class T>
SUPPLE_FN Minimization<L> start_minimization(const IkProblem<T>& ik, const IterateState<L>& at,
                                             L* work, float gain_factor = 1) {
  const int nq = ik.chain.nq;
  for (int j = 0; j < nq; ++j) work[j] = at.q[j];
  return {work, work + nq, L(T(huge_cost)), L(T(gain_factor) * ik.newton_gain)};
}

// Performs one iteration of Newton's method. A step that has increased the objective is undone and
// repeated with more damping. Call it after `evaluate`, with the objective `value` at q and its
// order of magnitude `size`. Returns the lanes that have converged to a local minimum.
template <class L, class T>
SUPPLE_FN mask_t<L> minimize(const IkProblem<T>& ik, IterateState<L>& at, Minimization<L>& minimum,
                             const L& value, const L& size) {
  constexpr bool is_double = sizeof(T) == sizeof(double);
  const L little = size * L(T(is_double ? 1e-11 : 1e-5));
  const L noise = size * L(T(is_double ? 1e-9 : 1e-6));
  const int nq = ik.chain.nq;
  const mask_t<L> better = value < minimum.value;
  const mask_t<L> done = ((abs(minimum.value - value) < little) &
                          (minimum.newton_gain <= L(T(min_gain_factor) * ik.newton_gain))) |
                         (minimum.newton_gain >= L(T(1e4) * ik.newton_gain));
  for (int j = 0; j < nq; ++j) minimum.q[j] = select(better, at.q[j], minimum.q[j]);
  minimum.value = select(better, value, minimum.value + noise);
  newton_step(ik, at, minimum.newton_gain, minimum.work);
  // Where the objective has increased, J and e are not those of minimum.q: discard the step, and
  // let the caller evaluate minimum.q again.
  for (int j = 0; j < nq; ++j) at.q[j] = select(better, at.q[j], minimum.q[j]);
  // In double precision the damping may nearly vanish: nearly parallel prismatic joints need long
  // steps for small errors.
  const L least(T(is_double ? 1e-9 : 1e-3) * ik.newton_gain);
  minimum.newton_gain =
      select(better, max(minimum.newton_gain * L(T(0.3)), least), minimum.newton_gain * L(T(16)));
  return done;
}

}  // namespace supple::inline SUPPLE_ISA
