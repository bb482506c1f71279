// The starts of a search on a CPU: seeds from the table, seeds that place a free base, the seed
// sequence, and the lanes on which they run. Included only by files that are compiled once for each
// instruction set. Tuned constants are explained in docs/constants.md.
#pragma once

#include <algorithm>

#include "drivers/free_base.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Returns the index of a start's seed, without counting the starts at and near q0. If the solution
// nearest to q0 is to be found, every second start is near q0.
int seed_number(const SolveRequest& request, int start) {
  if (!request.q0) return start;
  return request.nearest ? (start - 1) / 2 : start - 1;
}

// Like `seed_number`, but also without counting the starts that place a free base.
int listed_number(const SolveRequest& request, int start) {
  return seed_number(request, start) - (moves_base(request) ? base_starts : 0);
}

// Whether the seed of a start is near q0.
bool is_near_start(const SolveRequest& request, int start) {
  return start % 2 == 1 && request.q0 && request.nearest;
}

// Whether a start places a free base, as the first starts do, except for those at and near q0.
bool places_base(const SolveRequest& request, int start) {
  if (!moves_base(request) || (request.q0 && start == 0) || is_near_start(request, start))
    return false;
  return seed_number(request, start) < base_starts;
}

// Returns coordinate j of a start: q0 first, then the seeds from the table, then the seed sequence,
// which is the same in every call.
double start_coordinate(const SolveRequest& request, std::ptrdiff_t problem, int start,
                        const SeedList& listed, int j) {
  const IkProblem<double>& ik = *request.polish;
  const int n = ik.chain.nq, seed = listed_number(request, start);
  if (request.q0) {
    const double q0 = request.q0[problem * request.q0_stride + j];
    if (start == 0) return q0;
    if (request.nearest && start % 2 == 1)
      return seed_near(ik, q0, seed_number(request, start) + 1, j);
  }
  if (seed < listed.count) return listed.q[seed * n + j];
  return sequence_seed(ik, seed - listed.count, request.table->entries, j);
}

// Whether a start is at a corner of the joint ranges.
bool is_corner_start(const SolveRequest& request, int start, const SeedList& listed) {
  if (is_near_start(request, start)) return false;
  return is_corner_seed(listed_number(request, start) - listed.count);
}

void set_target(const SolveRequest& request, IterateState<SearchLanes>& at, int lane,
                std::ptrdiff_t problem) {
  const int k = request.search->targets;
  for (int i = 0; i < k; ++i) set(at.target[i], lane, float(request.target[problem * k + i]));
}

void load_corner(const SolveRequest& request, IterateState<SearchLanes>& at, int lane, int seed,
                 int candidate) {
  const IkProblem<double>& ik = *request.polish;
  for (int j = 0; j < ik.chain.nq; ++j) {
    const double q = corner_seed(ik, seed, candidate, request.table->entries, j);
    set(at.q[j], lane, float(clamped(q, ik.lower[j], ik.upper[j])));
  }
}

// Starts a lane at the corner with the smallest cost among the candidates of its seed.
void start_at_corner(const SolveRequest& request, Workspace& workspace, int lane, int seed) {
  const int n = request.search->chain.nq;
  IterateState<SearchLanes>& at = workspace.minimize;
  for (int i = 0; i < lanes; ++i) set_target(request, at, i, workspace.lane[lane].problem);
  float least = huge_cost;
  for (int first = 0; first < corner_candidates; first += lanes) {
    const int count = std::min(lanes, corner_candidates - first);
    for (int i = 0; i < lanes; ++i) {
      load_corner(request, at, i, seed, first + std::min(i, count - 1));
    }
    evaluate_error(*request.search, at);
    for (int i = 0; i < count; ++i) {
      if (!(get(at.cost, i) < least)) continue;
      least = get(at.cost, i);
      for (int j = 0; j < n; ++j) set(workspace.search.q[j], lane, get(at.q[j], i));
    }
  }
}

void start_lane(const SolveRequest& request, Workspace& workspace, int lane, SeedList& listed) {
  LaneState& state = workspace.lane[lane];
  const IkProblem<double>& ik = *request.polish;
  const bool placed = places_base(request, state.start);
  if (placed) {
    place_base(request, state.problem, workspace, seed_number(request, state.start));
  } else if (moves_base(request) && !listed.count) {
    nearest_seeds(request, state.problem, workspace, listed);
  }
  for (int j = 0; j < ik.chain.nq; ++j) {
    const double q = placed ? workspace.base_q[j]
                            : start_coordinate(request, state.problem, state.start, listed, j);
    set(workspace.search.q[j], lane, float(clamped(q, ik.lower[j], ik.upper[j])));
  }
  if (!placed && is_corner_start(request, state.start, listed)) {
    start_at_corner(request, workspace, lane, listed_number(request, state.start) - listed.count);
  }
  set(workspace.search.before, lane, -1.0f);
  state.iteration = 0;
  state.cost = huge_cost;
  state.is_new = false;
}

bool lane_stalled(const SolveRequest& request, const Workspace& workspace, int lane,
                  LaneState& state) {
  return is_stalled(state.start, state.iteration, request.search->iteration_factor,
                    get(workspace.search.cost, lane), state.cost);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
