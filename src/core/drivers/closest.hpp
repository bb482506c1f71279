// Failed starts of a search on a CPU: local minima of the cost, the closest pose, unreachable
// targets. Included only by files that are compiled once for each instruction set. Tuned constants
// are explained in docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>

#include "drivers/reach_table.hpp"
#include "drivers/solutions.hpp"
#include "drivers/starts.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// A minimization is abandoned after `hopeless_after` iterations if its cost is more than
// `hopeless_factor` times the smallest cost found.
constexpr int hopeless_after = 8;
constexpr float hopeless_factor = 4;

// Keeps the final configuration q (n,) of a failed start if it is one of the best.
template <class T>
[[gnu::noinline]] void record_failure(int n, const T* q, float cost, FailedStarts& failures) {
  if (!(cost < huge_cost)) return;
  int at = failures.count;
  if (at < max_failures) {
    ++failures.count;
  } else {
    at = int(std::max_element(failures.cost + failures.minimized, failures.cost + max_failures) -
             failures.cost);
    if (!(cost < failures.cost[at])) return;
  }
  failures.cost[at] = cost;
  for (int j = 0; j < n; ++j) failures.q[at * n + j] = float(q[j]);
}

void record_failure(const SolveRequest& request, Workspace& workspace, int lane,
                    FailedStarts& failures) {
  const int n = request.search->chain.nq;
  ++failures.since_review;
  record_failure(n, workspace.lane_q(lane, n), get(workspace.search.cost, lane), failures);
}

// The failed starts of a problem on the lanes of a minimization (`converge_to_minima`).
struct FailuresOnLanes : LaneExecutor<float> {
  IterateState<SearchLanes>& at;
  FailedStarts& failures;
  float least;  // smallest cost found
  int entry[lanes];

  bool load(int lane) {
    if (failures.minimized == failures.count) return false;
    entry[lane] = failures.minimized++;
    const float* const q = failures.q + entry[lane] * ik.chain.nq;
    for (int j = 0; j < ik.chain.nq; ++j) set(at.q[j], lane, q[j]);
    return true;
  }
  bool is_hopeless(int count, float cost) {
    least = std::min(least, cost);
    return count >= hopeless_after && cost > hopeless_factor * least;
  }
  void keep(int lane, const Minimization<SearchLanes>& minimum) {
    const int n = ik.chain.nq, to = entry[lane];
    failures.cost[to] = get(minimum.value, lane);
    for (int j = 0; j < n; ++j) failures.q[to * n + j] = get(minimum.q[j], lane);
  }
};

// Minimizes the cost, with the weights of the closest pose, starting from the failed starts of a
// problem, on lanes of floats, and keeps the best results. Returns whether one of these results is
// a solution within the tolerances of the search.
bool converge_to_minimum(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
                         FailedStarts& failures) {
  const IkProblem<float>& ik = *request.minimized;
  const int n = ik.chain.nq, k = ik.targets;
  IterateState<SearchLanes>& at = workspace.minimize;
  for (int i = 0; i < k; ++i) at.target[i] = SearchLanes(float(request.target[problem * k + i]));
  for (int j = 0; j < n; ++j) at.q[j] = SearchLanes(failures.count ? failures.q[j] : 0.0f);
  const Minimization<SearchLanes> minimum = start_minimization(ik, at, workspace.minimize_work);
  const float least = failures.minimized ? failures.cost[0] : huge_cost;
  FailuresOnLanes on{{request, ik}, at, failures, least, {}};
  const bool solved = converge_to_minima(ik, at, minimum, on);
  float* const end = failures.cost + failures.count;
  const int kept = std::min(failures.count, polish_lanes);  // the best ones, sorted by cost
  for (int i = 0; i < kept; ++i) {
    const int best = int(std::min_element(failures.cost + i, end) - failures.cost);
    if (best == i) continue;
    std::swap(failures.cost[i], failures.cost[best]);
    std::swap_ranges(failures.q + i * n, failures.q + (i + 1) * n, failures.q + best * n);
  }
  failures.count = failures.minimized = kept;
  failures.since_review = 0;
  return solved;
}

// The table of heights, which one thread builds and reads (`unreachable_error`).
struct ReachOnLanes {
  const SolveRequest& request;

  const Reach* reach(int i) const {
    return request.reach->view(i + 1, request.stop, request.stop_context);
  }
  int first() const { return 0; }
  int stride() const { return 1; }
  double largest(double x) const { return x; }
};

// Finds the closest pose in double precision, from the best failed starts or, if `failures` is
// null, from the initial guess (see `fallback_coordinate`). The results are in workspace.polish;
// returns the index of the best lane, a solution if there is one.
int find_closest(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
                 const FailedStarts* failures) {
  const IkProblem<double>& ik = *request.closest;
  const int n = ik.chain.nq;
  IterateState<PolishLanes>& at = workspace.polish;
  const int count = failures ? std::min(failures->count, polish_lanes) : 0;
  for (int i = 0; i < polish_lanes; ++i) {
    if (count) {
      load_configuration(request, at, i, problem, failures->q + i % count * n);
      continue;
    }
    for (int j = 0; j < n; ++j) set(at.q[j], i, fallback_coordinate(request, problem, j));
    set_polish_target(request, at, i, problem);
  }
  const Minimization<PolishLanes> minimum =
      start_minimization(ik, at, workspace.polish_work, count ? min_gain_factor : 1);
  const auto solved = minimize_error(ik, at, minimum, LaneExecutor<double>{request, ik});
  const PolishLanes cost = any(solved) ? select(solved, at.cost, PolishLanes(3e300)) : at.cost;
  int best = 0;
  for (int i = 1; i < polish_lanes; ++i) {
    if (get(cost, i) < get(cost, best)) best = i;
  }
  return best;
}

// Returns the largest joint displacement from the initial guess to a lane of workspace.polish.
double polish_displacement(const SolveRequest& request, const Workspace& workspace,
                           std::ptrdiff_t problem, int lane) {
  return max_displacement(
      *request.polish, [&](int j) { return get(workspace.polish.q[j], lane); },
      [&](int j) { return fallback_coordinate(request, problem, j); });
}

// Whether the configuration on a lane of workspace.polish is not rejected.
bool accepts(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem, int lane) {
  if (!request.rejects) return true;
  for (int j = 0; j < request.polish->chain.nq; ++j) {
    workspace.kept[j] = get(workspace.polish.q[j], lane);
  }
  return !rejects(request, problem, workspace.kept);
}

// Reviews the failed starts of a problem on lanes (`review_failed_starts`).
struct ReviewOnLanes {
  const SolveRequest& request;
  Workspace& workspace;
  std::ptrdiff_t problem;
  FailedStarts& failures;
  int best = 0;  // lane of workspace.polish with the closest pose

  bool converge() { return converge_to_minimum(request, workspace, problem, failures); }
  float least_cost() const { return failures.cost[0]; }
  float& bound() { return failures.bound; }
  float unreachable_error() const {
    const IkProblem<double>& ik = *request.polish;
    return supple::unreachable_error(request.reach->probes(), request.target + problem * ik.targets,
                                     ik.position_tolerance, ik.rotation_tolerance,
                                     ReachOnLanes{request});
  }
  bool settle(bool) {
    best = find_closest(request, workspace, problem, &failures);
    return get(converged(*request.polish, workspace.polish), best) &&
           accepts(request, workspace, problem, best);
  }
};

// Reviews the failed starts of a problem at intervals, and after the last start (`last`). Returns
// whether the problem is decided and its result recorded: the closest pose if the target is proven
// to be out of reach, or if there are no more starts or no more time, or a solution if a local
// minimum is one. If several configurations are about equally close, `nearest` prefers the one
// found from q0.
bool decide_failed(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
                   FailedStarts& failures, int iterations, int starts, bool last) {
  const bool early = request.polish->rows <= 6 && !failures.minimized;
  if (!last && failures.since_review < (early ? first_review : review_interval)) return false;
  ReviewOnLanes on{request, workspace, problem, failures};
  const float newton_gain = request.minimized->newton_gain;
  if (!review_failed_starts(on, request.budget, starts, last, newton_gain)) return false;
  int best = on.best;
  if (request.nearest) {
    const double cost = get(workspace.polish.cost, best);
    const int own = find_closest(request, workspace, problem, nullptr);
    const double displacement = polish_displacement(request, workspace, problem, own);
    best = prefers_own(get(workspace.polish.cost, own), displacement, cost)
               ? own
               : find_closest(request, workspace, problem, &failures);
  }
  unwind(request, workspace, problem, workspace.polish, best, [] { return true; });
  const bool solved = get(converged(*request.polish, workspace.polish), best);
  const bool rejected = solved && !accepts(request, workspace, problem, best);
  Outcome outcome = outcome_of(solved && !rejected, stopped(request), failures.bound);
  if (rejected && outcome != Outcome::timeout) outcome = Outcome::blocked;
  record(request, problem, 0, workspace.polish, best, outcome, iterations, starts);
  return true;
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
