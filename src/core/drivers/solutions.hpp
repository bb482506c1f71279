// What becomes of a start that has arrived: a solution that is finished and made to suit. For files
// that are compiled once for each instruction set.
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
  const Quest<double>& quest = *request.fine;
  const double q = request.q0 ? request.q0[problem * request.q0_stride + j]
                              : clamped(0, quest.lower[j], quest.upper[j]);
  return clamped(q == q && size(q) < 1e300 ? q : 0, quest.lower[j], quest.upper[j]);
}

template <class L>
void record(const SolveRequest& request, std::ptrdiff_t problem, int solution, const Descent<L>& at,
            int lane, Outcome outcome, int iterations, int starts) {
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
void leave(const SolveRequest& request, std::ptrdiff_t problem, Room& room, Outcome outcome) {
  for (int j = 0; j < request.fine->chain.coordinates; ++j) {
    room.lone.q[j] = outcome == Outcome::nonfinite
                         ? clamped(0, request.fine->lower[j], request.fine->upper[j])
                         : resting(request, problem, j);
  }
  room.lone.position = room.lone.rotation = std::numeric_limits<double>::infinity();
  record(request, problem, 0, room.lone, 0, outcome, 0, 0);
}

// Whether a problem's numbers are such that no square of them overflows.
bool sound(const SolveRequest& request, std::ptrdiff_t problem) {
  const Quest<double>& quest = *request.fine;
  bool good = true;
  for (int i = 0; i < quest.targets; ++i) {
    good &= size(request.target[problem * quest.targets + i]) <= largest_number;
  }
  for (int j = 0; request.q0 && j < quest.chain.coordinates; ++j) {
    good &= size(request.q0[problem * request.q0_stride + j]) <= largest_number;
  }
  return good;
}

// Finishes in double what the search has found. Tells where it is a solution; a lane that has
// arrived, or gets nowhere, stays where it is while others go on. (Towards a singular pose it takes
// many iterations: the error falls to a quarter in each, or even less.)
template <class L>
mask_t<L> finish(const SolveRequest& request, Descent<L>& at) {
  const Quest<double>& quest = *request.fine;
  L least(1e300), idle(0);
  mask_t<L> open = least > L(0);
  for (int i = 0;; ++i) {
    look(quest, at);
    const mask_t<L> there = arrived(quest, at), lower = at.cost <= L(finishing) * least;
    least = select(lower, at.cost, least);
    idle = select(lower, L(0), idle + L(1));
    open = open & !there & (idle < L(waiting * quest.pace));
    if (!any(open) || i == quest.pace * finish_iterations) return there;
    if (i % looks == looks - 1 && stopped(request)) return there;
    for (int r = 0; r < quest.rows; ++r) at.e[r] = select(open, at.e[r], L(0));
    differentiate(quest, at);
    descend(quest, at);
  }
}

// The same by Newton's method, of one that came near and then hardly nearer: at a singular pose it
// gets on. Returns whether it is a solution.
bool finish_singular(const SolveRequest& request, Room& room) {
  const Quest<double>& quest = *request.fine;
  Descent<double>& at = room.lone;
  Rest<double> rest = rest_from(quest, at, room.lone_work);
  for (int i = 0; i < quest.pace * fine_iterations && !stopped(request); ++i) {
    measure(quest, at);
    if (arrived(quest, at)) return true;
    if (approach(quest, at, rest, at.cost, at.cost)) break;
  }
  for (int j = 0; j < quest.chain.coordinates; ++j) at.q[j] = rest.q[j];
  measure(quest, at);
  return arrived(quest, at);
}

// ---- whole turns -------------------------------------------------------------------------------

// Where joint j should be as far as whole turns go: at rest, near q0, or in the middle.
double preferred(const SolveRequest& request, std::ptrdiff_t problem, int j) {
  const Quest<double>& quest = *request.fine;
  if (request.rest && request.rest[j] >= 0) {
    return request.target[problem * quest.targets + request.rest[j]];
  }
  if (request.q0) return request.q0[problem * request.q0_stride + j];
  return quest.from[j] + 0.5 * quest.span[j];
}

// Whether whole turns are looked at: not where the first answer will do.
bool turns_count(const SolveRequest& request) {
  return request.turn && (request.rest || request.nearest || request.most > 1);
}

// The same posture, its joints turned back to where they should be, and measured again. Returns
// whether any was.
template <class L>
bool unwind(const SolveRequest& request, std::ptrdiff_t problem, Descent<L>& at, int lane) {
  const Quest<double>& quest = *request.fine;
  bool turned = false;
  for (int j = 0; j < quest.chain.coordinates; ++j) {
    if (!(request.turn[j] > 0)) continue;
    const double q = get(at.q[j], lane);
    const double next = nearest_turn(q, preferred(request, problem, j), request.turn[j],
                                     quest.lower[j], quest.upper[j]);
    if (next == q) continue;
    set(at.q[j], lane, next);
    turned = true;
  }
  if (turned) measure(quest, at);
  return turned;
}

// The same of a solution, which it stays: where rounding would spoil it, it is left alone. Returns
// whether it is another one now.
bool unwind_solution(const SolveRequest& request, Room& room, std::ptrdiff_t problem) {
  Descent<double>& at = room.lone;
  const int n = request.fine->chain.coordinates;
  double* const kept = room.v;
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
[[gnu::noinline]] void polish(const SolveRequest& request, Room& room, Rest&& rest, Pull&& pull) {
  const Quest<double>& quest = *request.fine;
  Descent<double>& at = room.lone;
  const auto ready = [&] {
    if (stopped(request)) return false;
    differentiate(quest, at);
    return true;
  };
  polish(quest, at, room.v, rest, pull, ready, [&] { return finish(request, at); });
}

// A solution in room.lone, made to suit the caller's wishes.
void suit(const SolveRequest& request, Room& room, std::ptrdiff_t problem) {
  unwind_solution(request, room, problem);
  if (!request.rest && !(request.nearest && request.q0)) return;
  for (int round = 0; round < polish_rounds; ++round) {
    if (request.rest) {
      const double* const numbers = request.target + problem * request.fine->targets;
      polish(
          request, room, [&](int j) { return request.rest[j] < 0 ? 0 : numbers[request.rest[j]]; },
          [&](int j) { return request.pull[j]; });
    } else {
      const double* const start = request.q0 + problem * request.q0_stride;
      polish(request, room, [&](int j) { return start[j]; }, [](int) { return 1.0; });
    }
    // (each joint for itself: all together came nearer)
    if (!unwind_solution(request, room, problem)) return;
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
