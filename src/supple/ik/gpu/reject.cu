// Rejects solutions that collide: one thread for each.
#include "problem.hpp"

namespace supple {
namespace {

// Whether a problem has a solution that collides.
__device__ bool solution_collides(const Request& request, int problem) {
  if (problem >= request.count || request.outcome[problem] != Outcome::solved) return false;
  double q[nq];
  for (int j = 0; j < nq; ++j) q[j] = request.q[problem * nq + j];
  return collides(request, problem, q);
}

}  // namespace

// Adds the problems whose solutions of `finish` collide to those that are blocked, or leaves them
// to `explore`.
extern "C" __global__ void __launch_bounds__(64) reject(Request request) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (!solution_collides(request, problem)) return;
  request.outcome[problem] = Outcome::blocked;
  if (request.blocked) {
    request.blocked[take(request.counter + 2)] = problem;
  } else {
    request.left[take(request.counter + 1)] = problem;
  }
}

// Undoes what `postprocess` has done to solutions that collide after it.
extern "C" __global__ void __launch_bounds__(64) restore(Request request) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (!solution_collides(request, problem)) return;
  const double* const before = request.before + problem * (nq + 2);
  for (int j = 0; j < nq; ++j) request.q[problem * nq + j] = before[j];
  for (int k = 0; k < 2; ++k) request.error[2 * problem + k] = before[nq + k];
}

}  // namespace supple
