// What becomes of a start that has converged: a solution that is finished and made to postprocess.
// For files that are compiled once for each instruction set.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include <limits>

#include "drivers/search.hpp"
#include "supple/ik/postprocess.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

constexpr int stop_interval = 8;   // after so many iterations: whether time is up
constexpr int table_attempts = 3;  // starts of the table that are tried before lanes are

// Where the joints are if nothing better is known: the caller's start, else the middle.
double fallback_coordinate(const SolveRequest& request, std::ptrdiff_t problem, int j) {
  const IkProblem<double>& ik = *request.polish;
  const double q = request.q0 ? request.q0[problem * request.q0_stride + j]
                              : clamped(0, ik.lower[j], ik.upper[j]);
  return clamped(q == q && magnitude(q) < 1e300 ? q : 0, ik.lower[j], ik.upper[j]);
}

template <class L>
void record(const SolveRequest& request, std::ptrdiff_t problem, int solution,
            const IterateState<L>& at, int lane, Outcome outcome, int iterations, int starts) {
  const int n = request.polish->chain.coordinates;
  const std::ptrdiff_t row = problem * request.max_solutions + solution;
  for (int j = 0; j < n; ++j) request.q[row * n + j] = get(at.q[j], lane);
  request.outcome[row] = outcome;
  request.error[2 * row] = get(at.position, lane);
  request.error[2 * row + 1] = get(at.rotation, lane);
  request.effort[2 * row] = iterations;
  request.effort[2 * row + 1] = starts;
  request.found[problem] = solution + 1;
}

// A problem that is not looked at.
void mark_skipped(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace,
                  Outcome outcome) {
  for (int j = 0; j < request.polish->chain.coordinates; ++j) {
    workspace.single.q[j] = outcome == Outcome::nonfinite
                                ? clamped(0, request.polish->lower[j], request.polish->upper[j])
                                : fallback_coordinate(request, problem, j);
  }
  workspace.single.position = workspace.single.rotation = std::numeric_limits<double>::infinity();
  record(request, problem, 0, workspace.single, 0, outcome, 0, 0);
}

// Whether a problem's numbers are such that no square of them overflows.
bool is_valid(const SolveRequest& request, std::ptrdiff_t problem) {
  const IkProblem<double>& ik = *request.polish;
  bool good = true;
  for (int i = 0; i < ik.targets; ++i) {
    good &= magnitude(request.target[problem * ik.targets + i]) <= max_input;
  }
  for (int j = 0; request.q0 && j < ik.chain.coordinates; ++j) {
    good &= magnitude(request.q0[problem * request.q0_stride + j]) <= max_input;
  }
  return good;
}

// Finishes in double what the search has found. Tells where it is a solution; a lane that has
// converged, or gets nowhere, stays where it is while others go on. (Towards a singular pose it
// takes many iterations: the error falls to a quarter in each, or even less.)
template <class L>
mask_t<L> polish(const SolveRequest& request, IterateState<L>& at) {
  const IkProblem<double>& ik = *request.polish;
  L least(1e300), idle(0);
  mask_t<L> open = least > L(0);
  for (int i = 0;; ++i) {
    evaluate_error(ik, at);
    const mask_t<L> there = converged(ik, at), lower = at.cost <= L(polish_progress) * least;
    least = select(lower, at.cost, least);
    idle = select(lower, L(0), idle + L(1));
    open = open & !there & (idle < L(polish_window * ik.iteration_factor));
    if (!any(open) || i == ik.iteration_factor * max_polish_iterations) return there;
    if (i % stop_interval == stop_interval - 1 && stopped(request)) return there;
    for (int r = 0; r < ik.rows; ++r) at.e[r] = select(open, at.e[r], L(0));
    evaluate_jacobian(ik, at);
    descend(ik, at);
  }
}

// The same by Newton's method, of one that came near and then hardly nearer: at a singular pose it
// gets on. Returns whether it is a solution.
bool polish_singular(const SolveRequest& request, Workspace& workspace) {
  const IkProblem<double>& ik = *request.polish;
  IterateState<double>& at = workspace.single;
  Minimization<double> minimum = start_minimization(ik, at, workspace.single_work);
  for (int i = 0; i < ik.iteration_factor * polish_newton_iterations && !stopped(request); ++i) {
    evaluate(ik, at);
    if (converged(ik, at)) return true;
    if (minimize(ik, at, minimum, at.cost, at.cost)) break;
  }
  for (int j = 0; j < ik.chain.coordinates; ++j) at.q[j] = minimum.q[j];
  evaluate(ik, at);
  return converged(ik, at);
}

// ---- whole turns -------------------------------------------------------------------------------

// Where joint j should be as far as whole turns go: at rest, near q0, or in the middle.
double wrap_reference(const SolveRequest& request, std::ptrdiff_t problem, int j) {
  const IkProblem<double>& ik = *request.polish;
  if (request.posture && request.posture[j] >= 0) {
    return request.target[problem * ik.targets + request.posture[j]];
  }
  if (request.q0) return request.q0[problem * request.q0_stride + j];
  return ik.seed_lower[j] + 0.5 * ik.seed_range[j];
}

// Whether whole turns are looked at: not where the first answer will do.
bool unwinding_matters(const SolveRequest& request) {
  return request.wrap && (request.posture || request.nearest || request.max_solutions > 1);
}

// The same posture, its joints turned back to where they should be, and measured again. Returns
// whether any was.
template <class L>
bool unwind(const SolveRequest& request, std::ptrdiff_t problem, IterateState<L>& at, int lane) {
  const IkProblem<double>& ik = *request.polish;
  bool turned = false;
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    if (!(request.wrap[j] > 0)) continue;
    const double q = get(at.q[j], lane);
    const double next = nearest_wrap(q, wrap_reference(request, problem, j), request.wrap[j],
                                     ik.lower[j], ik.upper[j]);
    if (next == q) continue;
    set(at.q[j], lane, next);
    turned = true;
  }
  if (turned) evaluate(ik, at);
  return turned;
}

// The same of a solution, which it stays: where rounding would spoil it, it is left table_attempts.
// Returns whether it is another one now.
bool unwind_solution(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  IterateState<double>& at = workspace.single;
  const int n = request.polish->chain.coordinates;
  double* const kept = workspace.posture_work;
  if (!unwinding_matters(request)) return false;
  for (int j = 0; j < n; ++j) kept[j] = at.q[j];
  if (!unwind(request, problem, at, 0)) return false;
  if (converged(*request.polish, at)) return true;
  for (int j = 0; j < n; ++j) at.q[j] = kept[j];
  evaluate(*request.polish, at);
  return false;
}

// From a solution to the one nearest to a rest posture.
template <class Rest, class Pull>
[[gnu::noinline]] void approach_posture(const SolveRequest& request, Workspace& workspace,
                                        Rest&& rest, Pull&& pull) {
  const IkProblem<double>& ik = *request.polish;
  IterateState<double>& at = workspace.single;
  const auto ready = [&] {
    if (stopped(request)) return false;
    evaluate_jacobian(ik, at);
    return true;
  };
  approach_posture(ik, at, workspace.posture_work, rest, pull, ready,
                   [&] { return polish(request, at); });
}

// A solution in workspace.single, made to postprocess the caller's wishes.
void postprocess(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  unwind_solution(request, workspace, problem);
  if (!request.posture && !(request.nearest && request.q0)) return;
  for (int round = 0; round < posture_rounds; ++round) {
    if (request.posture) {
      const double* const numbers = request.target + problem * request.polish->targets;
      approach_posture(
          request, workspace,
          [&](int j) { return request.posture[j] < 0 ? 0 : numbers[request.posture[j]]; },
          [&](int j) { return request.posture_weight[j]; });
    } else {
      const double* const start = request.q0 + problem * request.q0_stride;
      approach_posture(
          request, workspace, [&](int j) { return start[j]; }, [](int) { return 1.0; });
    }
    // (each joint for itself: all together came nearer)
    if (!unwind_solution(request, workspace, problem)) return;
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
