// Rejects solutions that collide: one thread for each.
#include "problem.hpp"

namespace supple {
namespace {

// Whether there is a solution of a problem in a row, and it collides.
__device__ bool solution_collides(const Request& request, int row, int problem) {
  if (problem >= request.count || request.outcome[row] != Outcome::solved) return false;
  double q[nq];
  for (int j = 0; j < nq; ++j) q[j] = request.q[row * nq + j];
  return collides(request, problem, q);
}

}  // namespace

// Adds each problem whose solution from `finish` collides to the list `blocked` or, if it is null,
// to the list `left`, which `explore` solves.
extern "C" __global__ void __launch_bounds__(64) reject(Request request) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (!solution_collides(request, problem, problem)) return;
  request.outcome[problem] = Outcome::blocked;
  if (request.blocked) {
    request.blocked[take(request.counter + 2)] = problem;
  } else {
    request.left[take(request.counter + 1)] = problem;
  }
}

// Undoes what `postprocess` has done to solutions that collide after it.
extern "C" __global__ void __launch_bounds__(64) restore(Request request) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int problem = row / request.max_solutions, number = row % request.max_solutions;
  if (problem < request.count && request.solutions && number >= request.solutions[problem]) return;
  if (!solution_collides(request, row, problem)) return;
  const double* const before = request.before + row * (nq + 2);
  for (int j = 0; j < nq; ++j) request.q[row * nq + j] = before[j];
  for (int k = 0; k < 2; ++k) request.error[2 * row + k] = before[nq + k];
}

}  // namespace supple
