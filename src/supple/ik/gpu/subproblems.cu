// Splits the targets of a search that is decoupled into subproblems (subproblems.py), and merges
// the solutions of the subproblems. Independent of the robot. (`SolutionArrays` has the same layout
// as `SolutionPointers` in request.py.)
#include "supple/ik/policy.hpp"

namespace supple {

// On a GPU, iterations and restarts are counted; the first start of a subproblem is not a restart.
constexpr int first_starts = 0;

// The joints of the whole problem; `limits` (2, n) holds the lower and the upper limits.
__device__ JointRange joint_range(int n, const double* limits) { return {n, limits, limits + n}; }

// Initializes the merged solutions. `q0_stride` is n, or 0 if all problems share one q0.
extern "C" __global__ void begin(const double* q0, int q0_stride, const double* limits, int n,
                                 SolutionArrays whole, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= count) return;
  begin_merge(whole, joint_range(n, limits), problem, q0 ? q0 + problem * q0_stride : nullptr,
              first_starts);
}

// Copies the columns `column` (columns,) of a matrix (count, width).
extern "C" __global__ void split(const double* whole, double* part, const int* column, int width,
                                 int columns, int count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (long long)count * columns) return;
  part[i] = whole[i / columns * width + column[i % columns]];
}

// Merges the solutions of a subproblem, whose joints are `column` (columns,), into those of the
// whole problem.
extern "C" __global__ void merge(SolutionArrays part, const int* column, int columns,
                                 const double* limits, int n, SolutionArrays whole, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= count) return;
  merge_part(part, columns, column, whole, joint_range(n, limits), problem, first_starts);
}

// Completes several solutions of a problem whose joints `column` (columns,) are in `part` (count,
// capacity, columns): the other joints stay where `begin` has moved them, `start`. A problem whose
// q0 is invalid becomes invalid.
extern "C" __global__ void spread(const double* part, const int* column, int columns,
                                  const double* limits, int n, SolutionArrays start,
                                  SolutionArrays whole, int count) {
  const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long problem = row / whole.capacity, first = problem * whole.capacity;
  if (problem >= count) return;
  const bool invalid =
      start.outcome[problem] == Outcome::nonfinite || whole.outcome[first] == Outcome::nonfinite;
  double* const q = whole.q + row * n;
  if (invalid && row == first) {
    const JointRange joints = joint_range(n, limits);
    return record_skipped(
        whole, n, problem, [&](int j) { return joints.clamped(0, j); }, Outcome::nonfinite);
  }
  const bool there = !invalid && row - first < whole.found[problem];
  const double nowhere = __longlong_as_double(0x7ff8000000000000ll);
  for (int j = 0; j < n; ++j) q[j] = there ? start.q[problem * n + j] : nowhere;
  for (int i = 0; there && i < columns; ++i) q[column[i]] = part[row * columns + i];
}

}  // namespace supple
