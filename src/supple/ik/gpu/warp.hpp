// Functions that all threads of a warp run together on one problem: they find the nearest seeds,
// and decide whether the failed starts show that the target is unreachable.
#pragma once

#include "problem.hpp"

namespace supple {
namespace {

// The smallest value over the threads of a warp.
template <class T>
__device__ T least_of(T x) {
  for (int step = 16; step; step /= 2) {
    const T other = __shfl_xor_sync(everyone, x, step);
    x = other < x ? other : x;
  }
  return x;
}

// The index of the first thread of a warp for which a condition holds, or -1.
__device__ int first_of(bool holds) { return __ffs(__ballot_sync(everyone, holds)) - 1; }

// Returns the entry with the smallest value among this thread's entries of the table (four in every
// 128). The value is the entry's component along a direction (numbers,) plus, with `halves`, half
// its squared norm; `best` receives the smallest value.
__device__ int least_entry(const Request& request, const float* along, bool halves, float& best) {
  const float4* const table = reinterpret_cast<const float4*>(request.table);
  const int blocks = request.entries / 4;
  int entry = 0;
  best = huge_cost;
  for (int block = threadIdx.x % 32; block < blocks; block += 32) {
    float4 far = {0, 0, 0, 0};
    if (halves) far = table[numbers * blocks + block];
    for (int k = 0; k < numbers; ++k) {
      if (RobotConstants<float>::feature_scale[k] == 0) continue;  // the table has only zeros here
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

// Returns the entry nearest to a target among this thread's entries of the table.
__device__ int nearest(const Request& request, const SearchReal* target, float& best) {
  float along[numbers];
  for (int k = 0; k < numbers; ++k) {
    along[k] = -float(target[k]) * RobotConstants<float>::feature_scale[k];
  }
  return least_entry(request, along, true, best);
}

// Returns the fraction of the smallest error found that no pose can avoid (see
// supple/ik/reachability.hpp). q is the closest pose found and `far` its error. Every second thread
// starts its motion along the error from its own closest pose, if it has one.
__device__ float unreachable_fraction(const Request& request, int problem, const SearchReal* q,
                                      const SearchReal* closest, int starts, float& far) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  SearchReal along[rows], number[numbers];
  for (int j = 0; j < n; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i) {
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  }
  evaluate(at);
  for (int r = 0; r < rows; ++r) along[r] = own.e[r];
  const ErrorLength<SearchReal> length = position_part(ik, along, number);
  far = float(sqrt(length.whole));
  if (!(length.part >= separation_threshold * length.whole)) return 0;
  float direction[numbers], best;  // positions are not scaled in the table
  for (int k = 0; k < numbers; ++k) direction[k] = -float(number[k]);
  const int entry = least_entry(request, direction, false, best);
  const bool near = closest && threadIdx.x % 2;
  for (int j = 0; j < n; ++j) {
    own.q[j] = near ? closest[j] : SearchReal(request.seeds[entry * n + j]);
  }
  converge_to_minimum(request, problem, own.q, along, length.part, best);
  const float least = least_of(best), whole = float(length.whole);
  if (!is_unreachable(least / whole, far, float(ik.newton_gain), starts)) return least / whole;
  const float corner = least_of(least_at_corners(request, problem, starts, along, length.part));
  return ::fmin(least, corner) / whole;
}

// The best failed starts of a warp's problem; each thread keeps its own.
struct FailedStarts {
  SearchReal q[n], closest[n];      // best start since the last review; best local minimum
  float cost, closest_cost, least;  // their costs; smallest closest_cost of all threads

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

// Reviews the failed starts. The problem is decided at the latest when there are no more starts
// (`last`). Returns the thread whose `polished` is the result, a solution or the closest pose, or
// -1 if the problem is not decided. The counterpart of `decide_unreachable` in
// src/core/drivers/closest.hpp.
__device__ __noinline__ int decide_unreachable(const Request& request, int problem,
                                               FailedStarts& failures, int starts, bool last,
                                               Polished& polished) {
  bool promising = false;
  if (failures.cost < huge_cost) {
    promising =
        converge_to_minimum(request, problem, failures.q, nullptr, SearchReal(0), failures.cost);
    if (failures.cost < failures.closest_cost) {
      failures.closest_cost = failures.cost;
      for (int j = 0; j < n; ++j) failures.closest[j] = failures.q[j];
    }
  }
  promising = __any_sync(everyone, promising);
  failures.least = least_of(failures.closest_cost);
  failures.cost = huge_cost;
  const float newton_gain = float(RobotConstants<SearchReal>::ik.newton_gain);
  const RestartBudget budget = restart_budget(request.max_starts, request.nearest);
  bool over = last || exhausted(budget, starts, failures.least, newton_gain);
  if (!over && !promising) {
    const int best = ::max(0, first_of(failures.closest_cost == failures.least));
    SearchReal q[n];
    for (int j = 0; j < n; ++j) q[j] = __shfl_sync(everyone, failures.closest[j], best);
    float far;
    const bool known = failures.closest_cost < huge_cost;
    const float part =
        unreachable_fraction(request, problem, q, known ? failures.closest : nullptr, starts, far);
    over = is_unreachable(part, far, newton_gain, starts);
  }
  if (!over && !promising) return -1;
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
