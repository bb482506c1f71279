// Rejects solutions that collide, with the threads of a warp for each of them in turn.
#include "problem.hpp"

namespace supple {
namespace {

// Whether the solution of this thread's row collides. All threads of a warp call it; `there` tells
// whether the row has a solution.
__device__ bool row_collides(const Request& request, int row, bool there) {
  if (there) {
    double q[nq];
    for (int j = 0; j < nq; ++j) q[j] = request.q[row * nq + j];
    place(request, row, q);
  }
  bool hit = false;
  for (unsigned left = __ballot_sync(everyone, there); left; left &= left - 1) {
    const int own = __ffs(left) - 1;
    const bool found = collides(request, own);
    if (threadIdx.x % 32 == own) hit = found;
  }
  return hit;
}

}  // namespace

// Leaves the problems whose solutions of `finish` collide to `explore`.
extern "C" __global__ void __launch_bounds__(128) reject(Request request) {
  const int stride = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row - lane < request.count; row += stride) {
    const bool there = row < request.count && request.outcome[row] == Outcome::solved;
    if (!row_collides(request, row, there)) continue;
    request.outcome[row] = Outcome::blocked;
    request.left[take(request.counter + 1)] = row;
  }
}

// Undoes what `postprocess` has done to solutions that collide after it.
extern "C" __global__ void __launch_bounds__(128) restore(Request request) {
  const int stride = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row - lane < request.count; row += stride) {
    const bool there = row < request.count && request.outcome[row] == Outcome::solved;
    if (!row_collides(request, row, there)) continue;
    const double* const before = request.before + row * (nq + 2);
    for (int j = 0; j < nq; ++j) request.q[row * nq + j] = before[j];
    for (int k = 0; k < 2; ++k) request.error[2 * row + k] = before[nq + k];
  }
}

}  // namespace supple
