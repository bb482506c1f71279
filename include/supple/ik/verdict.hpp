// How a search ends: polishing in double precision, local minima near failed starts, the closest
// pose, the verdict on a target, and the choice among solutions.
//
// Each loop is written once, over an executor that does the work: on the lanes of a CPU
// (src/core/drivers/solutions.hpp, closest.hpp) or in the threads of a GPU
// (src/supple/ik/gpu/problem.hpp, warp.hpp). The loops that iterate call
//
//   on.evaluate(at)             evaluates J, e and the errors at q
//   on.converged(at)            the lanes that meet the tolerances
//   on.minimize(at, minimum)    one iteration of Newton's method (`minimize`)
//   on.any(lanes)               whether one of all lanes that work together is in `lanes`
//   on.stopped()                whether time is up
//
// Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/ik/policy.hpp"
#include "supple/ik/reachability.hpp"

namespace supple {

inline constexpr int stop_interval = 8;  // iterations between two checks of the deadline

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// ---- polishing ---------------------------------------------------------------------------------

// Decides when polishing a start in double precision ends. Several iterations without progress are
// allowed, because convergence toward a singular pose is only linear, and the cost oscillates near
// a singular pose.
template <class L>
struct PolishProgress {
  L least = L(1e300), idle = L(0);

  // Call it once in each iteration. Returns the lanes that are still making progress.
  SUPPLE_INLINE mask_t<L> update(const L& cost, int iteration_factor) {
    const mask_t<L> lower = cost <= L(polish_progress) * least;
    least = select(lower, cost, least);
    idle = select(lower, L(0), idle + L(1));
    return idle < L(polish_window * iteration_factor);
  }
};

// Polishes configurations of the search as long as their cost falls. Returns the lanes that are
// solutions. A lane that has converged, or makes no progress, keeps its q while others continue.
// on.evaluate_error(at) evaluates e; on.descend(at) evaluates J and takes a step; on.enough(lanes)
// tells whether these solutions suffice. Lanes that are not `open` have no configuration.
template <class L, class Executor>
SUPPLE_FN mask_t<L> polish(const IkProblem<double>& ik, IterateState<L>& at, Executor&& on,
                           mask_t<L> open = L(0) == L(0)) {
  PolishProgress<L> progress;
  for (int i = 0;; ++i) {
    on.evaluate_error(at);
    const mask_t<L> solved = on.converged(at);
    const bool enough = on.enough(open & solved);
    open = open & !solved & progress.update(at.cost, ik.iteration_factor);
    if (enough || !on.any(open) || i == ik.iteration_factor * max_polish_iterations) return solved;
    if (i % stop_interval == stop_interval - 1 && on.stopped()) return solved;
    for (int r = 0; r < ik.rows; ++r) at.e[r] = select(open, at.e[r], L(0));
    on.descend(at);
  }
}

// ---- failed starts -----------------------------------------------------------------------------

// Continues failed starts to local minima of the cost, one on each lane, until one of them meets
// the target or none is left. Returns whether one of them meets the target.
//
//   on.load(lane)                  puts the next failed start on a lane; false if there is none
//   on.is_hopeless(count, cost)    whether a minimization is abandoned after `count` iterations
//   on.keep(lane, minimum)         keeps the minimum of a lane
template <class L, class T, class Executor>
SUPPLE_FN bool converge_to_minima(const IkProblem<T>& ik, IterateState<L>& at,
                                  Minimization<L> minimum, Executor& on) {
  const int most = ik.iteration_factor * search_newton_iterations;
  int iteration[width<L>], open = 0;  // a lane without a start has a negative number
  const auto load = [&](int lane) {
    const bool loaded = on.load(lane);
    iteration[lane] = loaded ? 0 : -1;
    if (!loaded) return;
    ++open;
    for (int j = 0; j < ik.chain.nq; ++j) set(minimum.q[j], lane, get(at.q[j], lane));
    set(minimum.value, lane, T(huge_cost));
    set(minimum.newton_gain, lane, ik.newton_gain);
  };
  for (int i = 0; i < width<L>; ++i) load(i);
  bool solved = false;
  while (open && !solved && !on.stopped()) {
    on.evaluate(at);
    const mask_t<L> met = on.converged(at);
    const mask_t<L> done = on.minimize(at, minimum);
    for (int i = 0; i < width<L>; ++i) {
      if (iteration[i] < 0) continue;
      ++iteration[i];
      const bool hopeless = on.is_hopeless(iteration[i], float(get(minimum.value, i)));
      solved |= bool(get(met, i));
      if (!get(done, i) && !solved && !hopeless && iteration[i] < most) continue;
      on.keep(i, minimum);
      --open;
      load(i);
    }
  }
  return solved;
}

// Minimizes the cost by Newton's method, which converges at a singular pose where damped steps
// stall, until a lane meets the tolerances or all are at local minima. Leaves each lane at its best
// configuration, evaluated, and returns the solutions. The largest number of iterations is `most`
// times `ik.iteration_factor`. Lanes that are `over` have no start.
template <class L, class Executor>
SUPPLE_FN mask_t<L> minimize_error(const IkProblem<double>& ik, IterateState<L>& at,
                                   Minimization<L> minimum, Executor&& on,
                                   int most = polish_newton_iterations,
                                   mask_t<L> over = L(0) != L(0)) {
  const mask_t<L> every = L(0) == L(0);
  for (int i = 1;; ++i) {
    on.evaluate(at);
    const mask_t<L> solved = on.converged(at);
    if (!on.any(!(over | solved))) return solved;
    const bool met = on.any(solved);
    if (!met) over = over | on.minimize(at, minimum);
    if (met || i == ik.iteration_factor * most || on.stopped()) {
      over = every;
    }
    for (int j = 0; j < ik.chain.nq; ++j) {
      at.q[j] = select(over & !solved, minimum.q[j], at.q[j]);
    }
  }
}

// Returns a lower bound on the weighted error of a target (targets,) over all configurations, or 0
// if the heights of its frames do not show that the target is out of reach.
//
//   on.reach(i)       the table of heights up to probe i; null if time is up
//   on.first(), on.stride()    the directions that this thread compares
//   on.largest(x)     the largest x of all threads
template <class Executor>
SUPPLE_FN float unreachable_error(int probes, const double* target, double position,
                                  double rotation, Executor&& on) {
  for (int i = 0; i < probes; ++i) {
    const Reach* const reach = on.reach(i);
    if (!reach) break;
    const double least = on.largest(least_distance(*reach, i, target, on.first(), on.stride()));
    if (is_out_of_reach(*reach, i, least, position, rotation)) {
      return float(reach->probe[i].weight * least);
    }
  }
  return 0;
}

// Reviews the failed starts of a problem. The problem is decided at the latest after its last start
// (`last`). Returns whether it is decided: by a solution, or by the closest pose if the target is
// proven to be out of reach or there are no more starts.
//
//   on.converge()            continues the failed starts to local minima of the cost; returns
//                            whether one of them meets the target
//   on.least_cost()          the smallest cost of a local minimum
//   on.bound()               the lower bound on the error, negative until it is known; assignable
//   on.unreachable_error()   computes the bound; 0 if the target is not proven to be out of reach
//   on.settle(over)          finds the closest pose in double precision; returns whether it is a
//                            solution. Poses that are not solutions count only if `over`
template <class Executor>
SUPPLE_FN bool review_failed_starts(Executor& on, const RestartBudget& budget, int starts,
                                    bool last, float newton_gain) {
  const bool promising = on.converge();
  bool over = last || exhausted(budget, starts, on.least_cost(), newton_gain);
  if (!promising && on.bound() < 0) on.bound() = on.unreachable_error();
  if (!promising && on.bound() > 0) {
    over = over || is_closest(sqrt(on.least_cost()), on.bound(), newton_gain, starts);
  }
  if (!promising && !over) return false;
  return on.settle(over) || over;
}

// Returns the outcome of a decided problem. `bound` is the lower bound on its error.
SUPPLE_FN Outcome outcome_of(bool solved, bool stopped, float bound) {
  return solved      ? Outcome::solved
         : stopped   ? Outcome::timeout
         : bound > 0 ? Outcome::unreachable
                     : Outcome::not_converged;
}

// ---- choice of solutions -----------------------------------------------------------------------

// The solutions of a problem that are kept: all distinct ones, or the one nearest to q0.
struct KeptSolutions {
  int found = 0;                  // number of solutions that are kept or were compared
  double least_displacement = 0;  // smallest displacement of these solutions from q0

  SUPPLE_INLINE bool enough(bool nearest, int max_solutions) const {
    return found >= (nearest ? max_compared : max_solutions);
  }

  // Adds a solution.
  //
  //   on.displacement()      its largest joint displacement from q0
  //   on.is_known(found)     whether it is one of the first `found` solutions
  //   on.write(number)       writes it
  template <class Executor>
  SUPPLE_INLINE void add(bool nearest, Executor&& on) {
    if (!nearest) {
      if (!on.is_known(found)) on.write(found++);
      return;
    }
    const double displacement = on.displacement();
    if (++found > 1 && !(displacement < least_displacement)) return;
    least_displacement = displacement;
    on.write(0);
  }
};

}  // namespace supple::inline SUPPLE_ISA
