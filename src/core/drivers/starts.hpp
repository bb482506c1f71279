// The starts of a search on a CPU: seeds from the table, seeds that place a free base, the seed
// sequence, and the lanes on which they run. Included only by files that are compiled once for each
// instruction set. Tuned constants are explained in docs/constants.md.
#pragma once

#include <algorithm>

#include "drivers/free_base.hpp"
#include "supple/ik/starts.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Returns the order of a problem's seeds, of which `listed` are from the table.
SeedOrder seed_order(const SolveRequest& request, int listed) {
  return {request.q0 != nullptr, request.nearest, moves_base(request) ? base_starts : 0, listed};
}

// Returns coordinate j of a seed that does not place a free base.
double seed_coordinate(const SolveRequest& request, std::ptrdiff_t problem, const StartSeed& seed,
                       const SeedList& listed, int j) {
  const IkProblem<double>& ik = *request.polish;
  if (seed.from == Seed::listed) return listed.q[seed.number * ik.chain.nq + j];
  if (seed.from == Seed::sequence) {
    return sequence_seed(ik, seed.number, request.table->entries, j);
  }
  const double q0 = request.q0[problem * request.q0_stride + j];
  return seed.from == Seed::own ? q0 : seed_near(ik, q0, seed.number, j);
}

void set_target(const SolveRequest& request, IterateState<SearchLanes>& at, int lane,
                std::ptrdiff_t problem) {
  const int k = request.search->targets;
  for (int i = 0; i < k; ++i) set(at.target[i], lane, float(request.target[problem * k + i]));
}

// Starts a lane at the corner of the joint ranges with the smallest cost among the candidates of a
// seed of the sequence. The lanes of another search evaluate the candidates.
void start_at_corner(const SolveRequest& request, Workspace& workspace, int lane, int seed) {
  IterateState<SearchLanes>& at = workspace.minimize;
  const IkProblem<double>& ik = *request.polish;
  const int n = ik.chain.nq;
  for (int i = 0; i < lanes; ++i) set_target(request, at, i, workspace.lane[lane].problem);
  float least = huge_cost;
  for (int first = 0; first < corner_candidates; first += lanes) {
    const int count = std::min(lanes, corner_candidates - first);
    for (int i = 0; i < lanes; ++i) {
      const int candidate = first + std::min(i, count - 1);
      for (int j = 0; j < n; ++j) {
        const double side = corner_side(seed, candidate, request.table->entries, ik.seed_stride[j]);
        const double q = ik.seed_lower[j] + side * ik.seed_range[j];
        set(at.q[j], i, float(clamped(q, ik.lower[j], ik.upper[j])));
      }
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
  StartSeed seed = seed_of(seed_order(request, listed.count), state.start);
  const bool placed = seed.from == Seed::placed;
  if (placed) {
    place_base(request, state.problem, workspace, seed.number);
  } else if (moves_base(request) && !listed.count) {
    nearest_seeds(request, state.problem, workspace, listed);
    seed = seed_of(seed_order(request, listed.count), state.start);
  }
  for (int j = 0; j < ik.chain.nq; ++j) {
    const double q =
        placed ? workspace.base_q[j] : seed_coordinate(request, state.problem, seed, listed, j);
    set(workspace.search.q[j], lane, float(clamped(q, ik.lower[j], ik.upper[j])));
  }
  if (seed.from == Seed::sequence && is_corner_seed(seed.number)) {
    start_at_corner(request, workspace, lane, seed.number);
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
