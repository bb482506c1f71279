// Selects among several solutions of each problem, with one warp for each problem. Independent of
// the robot. (`SolutionArrays` has the same layout as `SolutionPointers` in request.py.)
#include "supple/ik/policy.hpp"

namespace supple {
namespace {

__device__ int problem_of_warp() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
__device__ int lane_of_thread() { return threadIdx.x % 32; }

// Copies a solution of n coordinates from one row to another.
__device__ void copy(const SolutionArrays& from, long long row, const SolutionArrays& to,
                     long long place, int n) {
  for (int j = 0; j < n; ++j) to.q[place * n + j] = from.q[row * n + j];
  for (int k = 0; k < 2; ++k) to.error[2 * place + k] = from.error[2 * row + k];
  if (!to.outcome) return;
  to.outcome[place] = from.outcome[row];
  for (int k = 0; k < 2; ++k) to.effort[2 * place + k] = from.effort[2 * row + k];
}

// Marks a row without a solution.
__device__ void clear(const SolutionArrays& to, long long place, int n) {
  const double nowhere = __longlong_as_double(0x7ff8000000000000ll);
  const double infinite = __longlong_as_double(0x7ff0000000000000ll);
  for (int j = 0; j < n; ++j) to.q[place * n + j] = nowhere;
  for (int k = 0; k < 2; ++k) to.error[2 * place + k] = infinite;
  if (!to.outcome) return;
  to.outcome[place] = Outcome::not_converged;
  for (int k = 0; k < 2; ++k) to.effort[2 * place + k] = 0;
}

// A cost that is not a number counts as infinite.
__device__ double cost_at(const void* costs, int floats, long long row) {
  const double cost =
      floats ? static_cast<const float*>(costs)[row] : static_cast<const double*>(costs)[row];
  return cost == cost ? cost : __longlong_as_double(0x7ff0000000000000ll);
}

}  // namespace

// Writes the solutions to `to`, sorted by their costs (count, capacity), as many as it has room
// for.
extern "C" __global__ void __launch_bounds__(128)
    rank(SolutionArrays from, const void* costs, int floats, int n, SolutionArrays to, int count) {
  const int problem = problem_of_warp(), lane = lane_of_thread();
  if (problem >= count) return;
  const int found = from.found[problem];
  const long long first = static_cast<long long>(problem) * from.capacity;
  const long long place = static_cast<long long>(problem) * to.capacity;
  for (int i = lane; i < found; i += 32) {
    const double mine = cost_at(costs, floats, first + i);
    int before = 0;
    for (int k = 0; k < found; ++k) {
      const double other = cost_at(costs, floats, first + k);
      before += other < mine || (other == mine && k < i);
    }
    if (before < to.capacity) copy(from, first + i, to, place + before, n);
  }
  for (int i = found + lane; i < to.capacity; i += 32) clear(to, place + i, n);
  if (lane == 0 && to.found) to.found[problem] = found < to.capacity ? found : to.capacity;
}

// Fills the rows after the last solution with the first one, so that a function of the caller can
// be evaluated for all rows.
extern "C" __global__ void __launch_bounds__(128) fill(SolutionArrays all, int n, int count) {
  const int problem = problem_of_warp(), lane = lane_of_thread();
  if (problem >= count) return;
  const long long first = static_cast<long long>(problem) * all.capacity;
  for (int i = all.found[problem] + lane; i < all.capacity; i += 32) {
    for (int j = 0; j < n; ++j) all.q[(first + i) * n + j] = all.q[first * n + j];
  }
}

}  // namespace supple
