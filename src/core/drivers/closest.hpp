// What becomes of starts that have failed: they come to rest, and the closest pose is found. For
// files that are compiled once for each instruction set.
// Tuned constants and what chose them: docs/constants.md.
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
[[gnu::noinline]] void keep(int n, const T* q, float cost, FailedStarts& failures) {
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

void keep(const SolveRequest& request, Workspace& workspace, int lane, FailedStarts& failures) {
  const int n = request.wide->chain.coordinates;
  ++failures.since;
  keep(n, workspace.lane_q(lane, n), get(workspace.wide.cost, lane), failures);
}

// Lets a problem's failed starts come to rest, on lanes of floats. Returns whether the best of them
// seems to be a solution.
bool converge_to_minimum(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
                         FailedStarts& failures) {
  const IkProblem<float>& ik = *request.wide;
  const int n = ik.chain.coordinates, k = ik.targets;
  float least = failures.at_rest ? failures.cost[0] : huge_cost;
  IterateState<Wide>& at = workspace.still;
  Rest<Wide> rest = rest_from(ik, at, workspace.still_work);
  int entry[lanes], iteration[lanes], open = 0;
  const auto load = [&](int lane) {
    iteration[lane] = 0;
    entry[lane] = failures.at_rest < failures.count ? failures.at_rest++ : -1;
    if (entry[lane] < 0) return;
    ++open;
    const float* const q = failures.q + entry[lane] * n;
    for (int j = 0; j < n; ++j) set(at.q[j], lane, q[j]), set(rest.q[j], lane, q[j]);
    set(rest.value, lane, huge_cost);
    set(rest.newton_gain, lane, ik.newton_gain);
  };
  for (int i = 0; i < k; ++i) at.target[i] = Wide(float(request.target[problem * k + i]));
  for (int j = 0; j < n; ++j) at.q[j] = Wide(failures.count ? failures.q[j] : 0.0f);
  for (int i = 0; i < lanes; ++i) load(i);
  bool solved = false;
  while (open && !solved && !stopped(request)) {
    measure(ik, at);
    const mask_t<Wide> there = arrived(ik, at);
    const mask_t<Wide> done = approach(ik, at, rest, at.cost, at.cost);
    for (int i = 0; i < lanes; ++i) {
      if (entry[i] < 0) continue;
      const float cost = get(rest.value, i);
      least = std::min(least, cost);
      solved |= bool(get(there, i));
      ++iteration[i];
      const bool over = get(done, i) || solved || iteration[i] == ik.pace * rest_iterations ||
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
float beyond(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
             const FailedStarts& failures) {
  const IkProblem<float>& ik = *request.wide;
  const int n = ik.chain.coordinates, k = ik.targets;
  if (!failures.at_rest) return 0;
  IterateState<Wide>& at = workspace.still;
  for (int i = 0; i < k; ++i) at.target[i] = Wide(float(request.target[problem * k + i]));
  for (int j = 0; j < n; ++j) at.q[j] = Wide(failures.q[j]);
  measure(ik, at);
  float* const along = workspace.along;  // e (rows,), then what it is of a target's numbers (targets,)
  float* const number = along + ik.rows;
  for (int r = 0; r < ik.rows; ++r) along[r] = get(at.e[r], 0);
  const Length<float> length = keep_positions(ik, along, number);
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
  Rest<Wide> rest = rest_from(ik, at, workspace.still_work);
  for (int i = 0; i < ik.pace * climb_iterations && !stopped(request); ++i) {
    measure(ik, at);
    const Wide value = remains(ik, at, along, length.part);
    if (all(approach(ik, at, rest, value, at.cost, true))) break;
  }
  float least = huge_cost;
  for (int i = 0; i < lanes; ++i) least = std::min(least, get(rest.value, i));
  return least / length.whole;
}

// From the best of the failed starts, or from where the joints are (`failures` null), to the
// closest pose, in double: workspace.fine holds it, and which of its lanes is the best is returned.
int find_closest(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
                 const FailedStarts* failures) {
  const IkProblem<double>& ik = *request.closest;
  const int n = ik.chain.coordinates;
  IterateState<Fine>& at = workspace.fine;
  const int some = failures ? std::min(failures->count, fine_lanes) : 0;
  for (int i = 0; i < fine_lanes; ++i) {
    if (some) {
      put_in(request, at, i, problem, failures->q + i % some * n);
      continue;
    }
    for (int j = 0; j < n; ++j) set(at.q[j], i, resting(request, problem, j));
    aim_finely(request, at, i, problem);
  }
  Rest<Fine> rest = rest_from(ik, at, workspace.fine_work, some ? least_stiff : 1);
  mask_t<Fine> done = rest.value < Fine(0);
  for (int i = 0; i < ik.pace * fine_iterations; ++i) {
    measure(ik, at);
    if (any(arrived(ik, at))) break;
    done = done | approach(ik, at, rest, at.cost, at.cost);
    for (int j = 0; j < n; ++j) at.q[j] = select(done, rest.q[j], at.q[j]);
    if (all(done) || stopped(request)) break;
  }
  for (int j = 0; j < n; ++j) at.q[j] = select(at.cost < rest.value, at.q[j], rest.q[j]);
  measure(ik, at);
  int best = 0;
  for (int i = 1; i < fine_lanes; ++i) {
    if (get(at.cost, i) < get(at.cost, best)) best = i;
  }
  return best;
}

// The largest move of a joint from the caller's start to a lane of workspace.fine.
double own_move(const SolveRequest& request, const Workspace& workspace, std::ptrdiff_t problem,
                int lane) {
  double most = 0;
  for (int j = 0; j < request.fine->chain.coordinates; ++j) {
    most = std::max(most, size(get(workspace.fine.q[j], lane) - resting(request, problem, j)));
  }
  return most;
}

// Looks at what a problem's failed starts have come to, at the latest when they are the last ones.
// Returns whether there is an answer now: the closest pose, or the best so far when time is up.
// Many postures may be as close: with `nearest` it is the caller's own if that is.
bool conclude(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
              FailedStarts& failures, int iterations, int starts, bool last) {
  const bool early = request.fine->rows <= 6 && !failures.at_rest;
  if (!last && failures.since < (early ? first_look : next_looks)) return false;
  const bool arriving = converge_to_minimum(request, workspace, problem, failures);
  const float newton_gain = request.wide->newton_gain;
  last = last || exhausted(request.budget, starts, failures.cost[0], newton_gain);
  float bound = 0;  // no pose is closer than that, if a plane separates the target
  if (!arriving && !last) {
    const float part = beyond(request, workspace, problem, failures);
    const float left = std::sqrt(failures.cost[0]);
    if (!out_of_reach(part, left, newton_gain, starts)) return false;
    bound = part * left;
  }
  int best = find_closest(request, workspace, problem, &failures);
  bool solved = get(arrived(*request.fine, workspace.fine), best);
  if (arriving && !solved && !last) return false;
  // (what comes closer than the plane allows refutes it)
  const bool weighted_alike = request.fine->weight[0] == request.closest->weight[0];
  if (weighted_alike && std::sqrt(get(workspace.fine.cost, best)) < 0.9 * bound) return false;
  if (request.nearest) {
    const double cost = get(workspace.fine.cost, best);
    const int own = find_closest(request, workspace, problem, nullptr);
    const double part = own_move(request, workspace, problem, own) <= near_start ? as_good : as_close;
    best = get(workspace.fine.cost, own) <= part * cost
               ? own
               : find_closest(request, workspace, problem, &failures);
  }
  if (turns_count(request)) unwind(request, problem, workspace.fine, best);
  solved = get(arrived(*request.fine, workspace.fine), best);
  const Outcome outcome = solved             ? Outcome::solved
                          : stopped(request) ? Outcome::timeout
                                             : Outcome::unreachable;
  record(request, problem, 0, workspace.fine, best, outcome, iterations, starts);
  return true;
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
