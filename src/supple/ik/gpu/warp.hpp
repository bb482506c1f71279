// Functions that all threads of a warp run together on one problem: they find the nearest seeds,
// and decide whether the failed starts show that the target is unreachable.
#pragma once

#include "problem.hpp"

namespace supple {
namespace {

// Largest number of iterations of Newton's method from a near miss. If the method does not converge
// within this number, the target needs another start. The number is small, because a batch takes as
// long as its slowest target (docs/constants.md).
constexpr int few_newton_iterations = 8;

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

// The table of heights, whose directions the threads of a warp share (`unreachable_error`).
struct ReachInWarp {
  Reach table;

  __device__ explicit ReachInWarp(const Request& request) {
    const double* const height = request.reach + 3 * request.directions;
    const double* const probe = height + request.probes * request.directions;
    table = {request.directions, request.probes, request.reach, height,
             reinterpret_cast<const ReachProbe*>(probe)};
  }
  __device__ const Reach* reach(int) const { return &table; }
  __device__ int first() const { return threadIdx.x % 32; }
  __device__ int stride() const { return 32; }
  __device__ double largest(double x) const { return -least_of(-x); }
};

// The best failed starts of a warp's problem; each thread keeps its own.
struct FailedStarts {
  SearchReal q[nq], closest[nq];  // best start since the last review; best local minimum
  float cost, closest_cost,
      least;    // costs of `q` and `closest`; smallest closest_cost of all threads
  float bound;  // see `unreachable_error`; negative until it is known

  __device__ void clear(const SearchReal* from) {
    for (int j = 0; j < nq; ++j) q[j] = closest[j] = from[j];
    cost = closest_cost = least = huge_cost;
    bound = -1;
  }
  __device__ void store(const SearchReal* from, float its_cost) {
    if (!(its_cost < cost)) return;
    cost = its_cost;
    for (int j = 0; j < nq; ++j) q[j] = from[j];
  }
};

// Reviews the failed starts of a problem in the threads of a warp (`review_failed_starts`).
struct ReviewInWarp {
  const Request& request;
  int problem;
  FailedStarts& failures;
  Polished& polished;
  int best = -1;  // the thread with the closest pose

  __device__ bool converge() {
    bool met = false;
    if (failures.cost < huge_cost) {
      met = converge_to_minimum(request, problem, failures.q, failures.cost);
      if (failures.cost < failures.closest_cost) {
        failures.closest_cost = failures.cost;
        for (int j = 0; j < nq; ++j) failures.closest[j] = failures.q[j];
      }
    }
    failures.least = least_of(failures.closest_cost);
    failures.cost = huge_cost;
    return __any_sync(everyone, met);
  }
  __device__ float least_cost() const { return failures.least; }
  __device__ float& bound() { return failures.bound; }
  __device__ float unreachable_error() const {
    return supple::unreachable_error(request.probes, request.target + problem * numbers,
                                     request.position, request.rotation, ReachInWarp(request));
  }
  __device__ bool settle(bool over) {
    double from[nq];
    for (int j = 0; j < nq; ++j) from[j] = failures.closest[j];
    const int most = over ? polish_newton_iterations : few_newton_iterations;
    supple::settle(request, problem, from, min_gain_factor, most, Company::starts, polished);
    best = first_of(polished.solved);
    const bool solved = best >= 0;
    const double least = least_of(polished.cost);
    if (!solved) best = ::max(0, first_of(polished.cost == least));
    return solved;
  }
};

// Reviews the failed starts. Returns the thread whose `polished` is the result, a solution or the
// closest pose, or -1 if the problem is not decided.
__device__ __noinline__ int decide_failed(const Request& request, int problem,
                                          FailedStarts& failures, int starts, bool last,
                                          Polished& polished) {
  ReviewInWarp on{request, problem, failures, polished};
  const RestartBudget budget = restart_budget(request.max_seeds, request.nearest);
  const float newton_gain = float(RobotConstants<SearchReal>::ik.newton_gain);
  return review_failed_starts(on, budget, starts, last, newton_gain) ? on.best : -1;
}

}  // namespace
}  // namespace supple
