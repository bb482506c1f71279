// What becomes of a start that has arrived: a solution that is finished and made to suit. For files
// that are compiled once for each instruction set.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include <limits>

#include "drivers/search.hpp"
#include "supple/ik/postprocess.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

constexpr int looks = 8;  // after so many iterations: whether time is up
constexpr int alone = 3;  // starts of the table that are tried before lanes are

// Where the joints are if nothing better is known: the caller's start, else the middle.
double resting(const SolveRequest& request, std::ptrdiff_t problem, int j) {
  const IkProblem<double>& ik = *request.fine;
  const double q = request.q0 ? request.q0[problem * request.q0_stride + j]
                              : clamped(0, ik.lower[j], ik.upper[j]);
  return clamped(q == q && size(q) < 1e300 ? q : 0, ik.lower[j], ik.upper[j]);
}

template <class L>
void record(const SolveRequest& request, std::ptrdiff_t problem, int solution,
            const IterateState<L>& at, int lane, Outcome outcome, int iterations, int starts) {
  const int n = request.fine->chain.coordinates;
  const std::ptrdiff_t row = problem * request.most + solution;
  for (int j = 0; j < n; ++j) request.q[row * n + j] = get(at.q[j], lane);
  request.outcome[row] = outcome;
  request.error[2 * row] = get(at.position, lane);
  request.error[2 * row + 1] = get(at.rotation, lane);
  request.effort[2 * row] = iterations;
  request.effort[2 * row + 1] = starts;
  request.found[problem] = solution + 1;
}

// A problem that is not looked at.
void leave(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace, Outcome outcome) {
  for (int j = 0; j < request.fine->chain.coordinates; ++j) {
    workspace.lone.q[j] = outcome == Outcome::nonfinite
                         ? clamped(0, request.fine->lower[j], request.fine->upper[j])
                         : resting(request, problem, j);
  }
  workspace.lone.position = workspace.lone.rotation = std::numeric_limits<double>::infinity();
  record(request, problem, 0, workspace.lone, 0, outcome, 0, 0);
}

// Whether a problem's numbers are such that no square of them overflows.
bool sound(const SolveRequest& request, std::ptrdiff_t problem) {
  const IkProblem<double>& ik = *request.fine;
  bool good = true;
  for (int i = 0; i < ik.targets; ++i) {
    good &= size(request.target[problem * ik.targets + i]) <= largest_number;
  }
  for (int j = 0; request.q0 && j < ik.chain.coordinates; ++j) {
    good &= size(request.q0[problem * request.q0_stride + j]) <= largest_number;
  }
  return good;
}

// Finishes in double what the search has found. Tells where it is a solution; a lane that has
// arrived, or gets nowhere, stays where it is while others go on. (Towards a singular pose it takes
// many iterations: the error falls to a quarter in each, or even less.)
template <class L>
mask_t<L> finish(const SolveRequest& request, IterateState<L>& at) {
  const IkProblem<double>& ik = *request.fine;
  L least(1e300), idle(0);
  mask_t<L> open = least > L(0);
  for (int i = 0;; ++i) {
    look(ik, at);
    const mask_t<L> there = arrived(ik, at), lower = at.cost <= L(finishing) * least;
    least = select(lower, at.cost, least);
    idle = select(lower, L(0), idle + L(1));
    open = open & !there & (idle < L(waiting * ik.pace));
    if (!any(open) || i == ik.pace * finish_iterations) return there;
    if (i % looks == looks - 1 && stopped(request)) return there;
    for (int r = 0; r < ik.rows; ++r) at.e[r] = select(open, at.e[r], L(0));
    differentiate(ik, at);
    descend(ik, at);
  }
}

// The same by Newton's method, of one that came near and then hardly nearer: at a singular pose it
// gets on. Returns whether it is a solution.
bool finish_singular(const SolveRequest& request, Workspace& workspace) {
  const IkProblem<double>& ik = *request.fine;
  IterateState<double>& at = workspace.lone;
  Rest<double> rest = rest_from(ik, at, workspace.lone_work);
  for (int i = 0; i < ik.pace * fine_iterations && !stopped(request); ++i) {
    measure(ik, at);
    if (arrived(ik, at)) return true;
    if (approach(ik, at, rest, at.cost, at.cost)) break;
  }
  for (int j = 0; j < ik.chain.coordinates; ++j) at.q[j] = rest.q[j];
  measure(ik, at);
  return arrived(ik, at);
}

// ---- whole turns -------------------------------------------------------------------------------

// Where joint j should be as far as whole turns go: at rest, near q0, or in the middle.
double preferred(const SolveRequest& request, std::ptrdiff_t problem, int j) {
  const IkProblem<double>& ik = *request.fine;
  if (request.rest && request.rest[j] >= 0) {
    return request.target[problem * ik.targets + request.rest[j]];
  }
  if (request.q0) return request.q0[problem * request.q0_stride + j];
  return ik.from[j] + 0.5 * ik.span[j];
}

// Whether whole turns are looked at: not where the first answer will do.
bool turns_count(const SolveRequest& request) {
  return request.turn && (request.rest || request.nearest || request.most > 1);
}

// The same posture, its joints turned back to where they should be, and measured again. Returns
// whether any was.
template <class L>
bool unwind(const SolveRequest& request, std::ptrdiff_t problem, IterateState<L>& at, int lane) {
  const IkProblem<double>& ik = *request.fine;
  bool turned = false;
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    if (!(request.turn[j] > 0)) continue;
    const double q = get(at.q[j], lane);
    const double next =
        nearest_turn(q, preferred(request, problem, j), request.turn[j], ik.lower[j], ik.upper[j]);
    if (next == q) continue;
    set(at.q[j], lane, next);
    turned = true;
  }
  if (turned) measure(ik, at);
  return turned;
}

// The same of a solution, which it stays: where rounding would spoil it, it is left alone. Returns
// whether it is another one now.
bool unwind_solution(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  IterateState<double>& at = workspace.lone;
  const int n = request.fine->chain.coordinates;
  double* const kept = workspace.v;
  if (!turns_count(request)) return false;
  for (int j = 0; j < n; ++j) kept[j] = at.q[j];
  if (!unwind(request, problem, at, 0)) return false;
  if (arrived(*request.fine, at)) return true;
  for (int j = 0; j < n; ++j) at.q[j] = kept[j];
  measure(*request.fine, at);
  return false;
}

// From a solution to the one nearest to a rest posture.
template <class Rest, class Pull>
[[gnu::noinline]] void polish(const SolveRequest& request, Workspace& workspace, Rest&& rest,
                              Pull&& pull) {
  const IkProblem<double>& ik = *request.fine;
  IterateState<double>& at = workspace.lone;
  const auto ready = [&] {
    if (stopped(request)) return false;
    differentiate(ik, at);
    return true;
  };
  polish(ik, at, workspace.v, rest, pull, ready, [&] { return finish(request, at); });
}

// A solution in workspace.lone, made to suit the caller's wishes.
void suit(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  unwind_solution(request, workspace, problem);
  if (!request.rest && !(request.nearest && request.q0)) return;
  for (int round = 0; round < polish_rounds; ++round) {
    if (request.rest) {
      const double* const numbers = request.target + problem * request.fine->targets;
      polish(
          request, workspace, [&](int j) { return request.rest[j] < 0 ? 0 : numbers[request.rest[j]]; },
          [&](int j) { return request.pull[j]; });
    } else {
      const double* const start = request.q0 + problem * request.q0_stride;
      polish(request, workspace, [&](int j) { return start[j]; }, [](int) { return 1.0; });
    }
    // (each joint for itself: all together came nearer)
    if (!unwind_solution(request, workspace, problem)) return;
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
