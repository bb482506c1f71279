// What becomes of starts that have failed: they come to rest, and the closest pose is found. For
// files that are compiled once for each instruction set.
#pragma once

#include <cmath>

#include "drivers/solutions.hpp"
#include "supple/ik/reachability.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

constexpr int hopeless_after = 8;  // iterations, and ...
constexpr float hopeless = 4;      // ... a start with so many times the least cost is given up

// Keeps where a start has got stuck, q (n,), if it is one of the best.
template <class T>
[[gnu::noinline]] void keep(int n, const T* q, float cost, Failures& failures) {
  if (!(cost < huge_cost)) return;
  int at = failures.count;
  if (at < kept) {
    ++failures.count;
  } else {
    at = int(std::max_element(failures.cost + failures.at_rest, failures.cost + kept) -
             failures.cost);
    if (!(cost < failures.cost[at])) return;
  }
  failures.cost[at] = cost;
  for (int j = 0; j < n; ++j) failures.q[at * n + j] = float(q[j]);
}

void keep(const SolveRequest& request, Room& room, int lane, Failures& failures) {
  const int n = request.wide->chain.coordinates;
  ++failures.since;
  keep(n, room.lane_q(lane, n), get(room.wide.cost, lane), failures);
}

// Lets a problem's failed starts come to rest, on lanes of floats. Returns whether the best of them
// seems to be a solution.
bool come_to_rest(const SolveRequest& request, Room& room, std::ptrdiff_t problem,
                  Failures& failures) {
  const Quest<float>& quest = *request.wide;
  const int n = quest.chain.coordinates, k = quest.targets;
  float least = failures.at_rest ? failures.cost[0] : huge_cost;
  Descent<Wide>& at = room.still;
  Rest<Wide> rest = rest_from(quest, at, room.still_work);
  int entry[lanes], iteration[lanes], open = 0;
  const auto load = [&](int lane) {
    iteration[lane] = 0;
    entry[lane] = failures.at_rest < failures.count ? failures.at_rest++ : -1;
    if (entry[lane] < 0) return;
    ++open;
    const float* const q = failures.q + entry[lane] * n;
    for (int j = 0; j < n; ++j) set(at.q[j], lane, q[j]), set(rest.q[j], lane, q[j]);
    set(rest.value, lane, huge_cost);
    set(rest.stiffness, lane, quest.stiffness);
  };
  for (int i = 0; i < k; ++i) at.target[i] = Wide(float(request.target[problem * k + i]));
  for (int j = 0; j < n; ++j) at.q[j] = Wide(failures.count ? failures.q[j] : 0.0f);
  for (int i = 0; i < lanes; ++i) load(i);
  bool solved = false;
  while (open && !solved && !stopped(request)) {
    measure(quest, at);
    const mask_t<Wide> there = arrived(quest, at);
    const mask_t<Wide> done = approach(quest, at, rest, at.cost, at.cost);
    for (int i = 0; i < lanes; ++i) {
      if (entry[i] < 0) continue;
      const float cost = get(rest.value, i);
      least = std::min(least, cost);
      solved |= bool(get(there, i));
      ++iteration[i];
      const bool over = get(done, i) || solved || iteration[i] == quest.pace * rest_iterations ||
                        (iteration[i] >= hopeless_after && cost > hopeless * least);
      if (!over) continue;
      failures.cost[entry[i]] = cost;
      for (int j = 0; j < n; ++j) failures.q[entry[i] * n + j] = get(rest.q[j], i);
      --open;
      load(i);
    }
  }
  float* const end = failures.cost + failures.count;
  const int few = std::min(failures.count, fine_lanes);  // the best first
  for (int i = 0; i < few; ++i) {
    const int best = int(std::min_element(failures.cost + i, end) - failures.cost);
    if (best == i) continue;
    std::swap(failures.cost[i], failures.cost[best]);
    std::swap_ranges(failures.q + i * n, failures.q + (i + 1) * n, failures.q + best * n);
  }
  failures.count = failures.at_rest = few;
  failures.since = 0;
  return solved;
}

// The least e·e(q) as a part of ‖e‖², e of the closest pose found: see supple/reach.hpp. Starts are
// what the table has farthest along e, and the closest poses themselves: from there a little is
// often enough to cross the plane.
float beyond(const SolveRequest& request, Room& room, std::ptrdiff_t problem,
             const Failures& failures) {
  const Quest<float>& quest = *request.wide;
  const int n = quest.chain.coordinates, k = quest.targets;
  if (!failures.at_rest) return 0;
  Descent<Wide>& at = room.still;
  for (int i = 0; i < k; ++i) at.target[i] = Wide(float(request.target[problem * k + i]));
  for (int j = 0; j < n; ++j) at.q[j] = Wide(failures.q[j]);
  measure(quest, at);
  float* const along = room.along;  // e (rows,), then what it is of a target's numbers (targets,)
  float* const number = along + quest.rows;
  for (int r = 0; r < quest.rows; ++r) along[r] = get(at.e[r], 0);
  const Length<float> length = keep_positions(quest, along, number);
  if (!(length.part >= surely_beyond * length.whole) || !request.table->blocks) return 0;
  // (positions are not scaled in the table)
  Wide farthest(-huge_cost), index(0.0f), block(0.0f);
  const Wide* entry = reinterpret_cast<const Wide*>(request.table->block);
  for (int b = 0; b < request.table->blocks; ++b, entry += k + 1) {
    Wide far(0.0f);
    for (int i = 0; i < k; ++i) {
      if (number[i] != 0) far = fma(entry[i], Wide(number[i]), far);
    }
    const mask_t<Wide> farther = far > farthest;
    farthest = select(farther, far, farthest);
    index = select(farther, block, index);
    block = block + Wide(1.0f);
  }
  for (int i = 0; i < lanes; ++i) {
    const std::ptrdiff_t place = std::ptrdiff_t(get(index, i)) * lanes + i;
    const float* const farthest_q = request.table->record + place * request.table->size;
    const float* const closest_q = failures.q + i / 2 % failures.at_rest * n;
    for (int j = 0; j < n; ++j) set(at.q[j], i, i % 2 ? closest_q[j] : farthest_q[j]);
  }
  Rest<Wide> rest = rest_from(quest, at, room.still_work);
  for (int i = 0; i < quest.pace * climb_iterations && !stopped(request); ++i) {
    measure(quest, at);
    const Wide value = remains(quest, at, along, length.part);
    if (all(approach(quest, at, rest, value, at.cost, true))) break;
  }
  float least = huge_cost;
  for (int i = 0; i < lanes; ++i) least = std::min(least, get(rest.value, i));
  return least / length.whole;
}

// From the best of the failed starts, or from where the joints are (`failures` null), to the
// closest pose, in double: room.fine holds it, and which of its lanes is the best is returned.
int come_closest(const SolveRequest& request, Room& room, std::ptrdiff_t problem,
                 const Failures* failures) {
  const Quest<double>& quest = *request.closest;
  const int n = quest.chain.coordinates;
  Descent<Fine>& at = room.fine;
  const int some = failures ? std::min(failures->count, fine_lanes) : 0;
  for (int i = 0; i < fine_lanes; ++i) {
    if (some) {
      put_in(request, at, i, problem, failures->q + i % some * n);
      continue;
    }
    for (int j = 0; j < n; ++j) set(at.q[j], i, resting(request, problem, j));
    aim_finely(request, at, i, problem);
  }
  Rest<Fine> rest = rest_from(quest, at, room.fine_work, some ? least_stiff : 1);
  mask_t<Fine> done = rest.value < Fine(0);
  for (int i = 0; i < quest.pace * fine_iterations; ++i) {
    measure(quest, at);
    if (any(arrived(quest, at))) break;
    done = done | approach(quest, at, rest, at.cost, at.cost);
    for (int j = 0; j < n; ++j) at.q[j] = select(done, rest.q[j], at.q[j]);
    if (all(done) || stopped(request)) break;
  }
  for (int j = 0; j < n; ++j) at.q[j] = select(at.cost < rest.value, at.q[j], rest.q[j]);
  measure(quest, at);
  int best = 0;
  for (int i = 1; i < fine_lanes; ++i) {
    if (get(at.cost, i) < get(at.cost, best)) best = i;
  }
  return best;
}

// The largest move of a joint from the caller's start to a lane of room.fine.
double own_move(const SolveRequest& request, const Room& room, std::ptrdiff_t problem, int lane) {
  double most = 0;
  for (int j = 0; j < request.fine->chain.coordinates; ++j) {
    most = std::max(most, size(get(room.fine.q[j], lane) - resting(request, problem, j)));
  }
  return most;
}

// Looks at what a problem's failed starts have come to, at the latest when they are the last ones.
// Returns whether there is an answer now: the closest pose, or the best so far when time is up.
// Many postures may be as close: with `nearest` it is the caller's own if that is.
bool conclude(const SolveRequest& request, Room& room, std::ptrdiff_t problem, Failures& failures,
              int iterations, int starts, bool last) {
  const bool early = request.fine->rows <= 6 && !failures.at_rest;
  if (!last && failures.since < (early ? first_look : next_looks)) return false;
  const bool arriving = come_to_rest(request, room, problem, failures);
  const float stiffness = request.wide->stiffness;
  last = last || exhausted(request.budget, starts, failures.cost[0], stiffness);
  float bound = 0;  // no pose is closer than that, if a plane separates the target
  if (!arriving && !last) {
    const float part = beyond(request, room, problem, failures);
    const float left = std::sqrt(failures.cost[0]);
    if (!out_of_reach(part, left, stiffness, starts)) return false;
    bound = part * left;
  }
  int best = come_closest(request, room, problem, &failures);
  bool solved = get(arrived(*request.fine, room.fine), best);
  if (arriving && !solved && !last) return false;
  // (what comes closer than the plane allows refutes it)
  const bool weighted_alike = request.fine->weight[0] == request.closest->weight[0];
  if (weighted_alike && std::sqrt(get(room.fine.cost, best)) < 0.9 * bound) return false;
  if (request.nearest) {
    const double cost = get(room.fine.cost, best);
    const int own = come_closest(request, room, problem, nullptr);
    const double part = own_move(request, room, problem, own) <= near_start ? as_good : as_close;
    best = get(room.fine.cost, own) <= part * cost
               ? own
               : come_closest(request, room, problem, &failures);
  }
  if (turns_count(request)) unwind(request, problem, room.fine, best);
  solved = get(arrived(*request.fine, room.fine), best);
  const Outcome outcome = solved             ? Outcome::solved
                          : stopped(request) ? Outcome::timeout
                                             : Outcome::unreachable;
  record(request, problem, 0, room.fine, best, outcome, iterations, starts);
  return true;
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
