// What the threads of a warp find out together about one problem: the starts nearest to it, and
// what starts that have failed have come to.
#pragma once

#include "problem.hpp"

namespace supple {
namespace {

// The least of a warp's numbers.
template <class T>
__device__ T least_of(T x) {
  for (int step = 16; step; step /= 2) {
    const T other = __shfl_xor_sync(everyone, x, step);
    x = other < x ? other : x;
  }
  return x;
}

// The first thread of a warp for which something holds, -1 if for none.
__device__ int first_of(bool holds) { return __ffs(__ballot_sync(everyone, holds)) - 1; }

// Of the table's entries that are this thread's, four in every 128, the one that is least along a
// direction (numbers,); with `halves`, half its square is added. What it is goes to `best`.
__device__ int least_entry(const Request& request, const float* along, bool halves, float& best) {
  const float4* const table = reinterpret_cast<const float4*>(request.table);
  const int blocks = request.entries / 4;
  int entry = 0;
  best = huge_cost;
  for (int block = threadIdx.x % 32; block < blocks; block += 32) {
    float4 far = {0, 0, 0, 0};
    if (halves) far = table[numbers * blocks + block];
    for (int k = 0; k < numbers; ++k) {
      if (RobotConstants<float>::feature_scale[k] == 0) continue;  // (so is what is in the table)
      const float4 reached = table[k * blocks + block];
      far.x = fma(reached.x, along[k], far.x);
      far.y = fma(reached.y, along[k], far.y);
      far.z = fma(reached.z, along[k], far.z);
      far.w = fma(reached.w, along[k], far.w);
    }
    const float each[4] = {far.x, far.y, far.z, far.w};
    for (int t = 0; t < 4; ++t) {
      if (each[t] < best) best = each[t], entry = 4 * block + t;
    }
  }
  return entry;
}

// The nearest of those to a target.
__device__ int nearest(const Request& request, const SearchReal* target, float& best) {
  float along[numbers];
  for (int k = 0; k < numbers; ++k)
    along[k] = -float(target[k]) * RobotConstants<float>::feature_scale[k];
  return least_entry(request, along, true, best);
}

// Of what is left at the closest pose found, q, the part that is left at any: see
// ik/reachability.hpp. And how much is left. Every second thread climbs from the closest pose of
// its own, if there is one.
__device__ float unreachable_fraction(const Request& request, int problem, const SearchReal* q,
                                      const SearchReal* closest, float& far) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  SearchReal along[rows], number[numbers];
  for (int j = 0; j < n; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i)
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  evaluate(at);
  for (int r = 0; r < rows; ++r) along[r] = own.e[r];
  const ErrorLength<SearchReal> length = position_part(ik, along, number);
  far = float(sqrt(length.whole));
  if (!(length.part >= separation_threshold * length.whole)) return 0;
  float direction[numbers], best;  // (positions are not scaled in the table)
  for (int k = 0; k < numbers; ++k) direction[k] = -float(number[k]);
  const int entry = least_entry(request, direction, false, best);
  const bool near = closest && threadIdx.x % 2;
  for (int j = 0; j < n; ++j)
    own.q[j] = near ? closest[j] : SearchReal(request.seeds[entry * n + j]);
  converge_to_minimum(request, problem, own.q, along, length.part, best);
  return least_of(best) / float(length.whole);
}

// What the failed starts of a warp's problem have come to: in each thread the best of its own.
struct FailedStarts {
  SearchReal q[n], closest[n];      // since they were looked at; of all that have come to rest
  float cost, closest_cost, least;  // of those, and the least of all threads'

  __device__ void clear(const SearchReal* from) {
    for (int j = 0; j < n; ++j) q[j] = closest[j] = from[j];
    cost = closest_cost = least = huge_cost;
  }
  __device__ void store(const SearchReal* from, float its_cost) {
    if (!(its_cost < cost)) return;
    cost = its_cost;
    for (int j = 0; j < n; ++j) q[j] = from[j];
  }
};

// Looks at what starts have come to, at the latest when they are the last ones. As
// `decide_unreachable` in src/core/drivers/closest.hpp. Returns the thread that has an
// record_first, in `polished`, which may be the closest pose, or -1: there is none yet.
__device__ __noinline__ int decide_unreachable(const Request& request, int problem,
                                               FailedStarts& failures, int starts, bool last,
                                               Polished& polished) {
  bool arriving = false;
  if (failures.cost < huge_cost) {
    arriving =
        converge_to_minimum(request, problem, failures.q, nullptr, SearchReal(0), failures.cost);
    if (failures.cost < failures.closest_cost) {
      failures.closest_cost = failures.cost;
      for (int j = 0; j < n; ++j) failures.closest[j] = failures.q[j];
    }
  }
  arriving = __any_sync(everyone, arriving);
  failures.least = least_of(failures.closest_cost);
  failures.cost = huge_cost;
  const RestartBudget budget = restart_budget(request.max_starts, request.nearest);
  bool over = last || exhausted(budget, starts, failures.least,
                                float(RobotConstants<SearchReal>::ik.newton_gain));
  if (!over && !arriving) {
    const int best = ::max(0, first_of(failures.closest_cost == failures.least));
    SearchReal q[n];
    for (int j = 0; j < n; ++j) q[j] = __shfl_sync(everyone, failures.closest[j], best);
    float far;
    const bool known = failures.closest_cost < huge_cost;
    const float part =
        unreachable_fraction(request, problem, q, known ? failures.closest : nullptr, far);
    over = is_unreachable(part, far, float(RobotConstants<SearchReal>::ik.newton_gain), starts);
  }
  if (!over && !arriving) return -1;
  double from[n];
  for (int j = 0; j < n; ++j) from[j] = failures.closest[j];
  settle(request, problem, from, min_gain_factor, polished);
  const int winner = first_of(polished.solved);
  if (winner >= 0 || !over) return winner;
  const double least = least_of(polished.cost);
  return ::max(0, first_of(polished.cost == least));
}

}  // namespace
}  // namespace supple
