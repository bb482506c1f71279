// A search that is decoupled into subproblems (subproblems.py): splits targets and merges
// solutions. Independent of the robot.
#include "supple/ik/restarts.hpp"

namespace supple {

// The solutions of a whole search or of a subproblem. (The same layout as `Answers` in
// subproblems.py.)
struct Solutions {
  double* q;             // (count, n)
  double* error;         // (count, 2)
  int* effort;           // (count, 2)
  signed char* outcome;  // (count,)
  int n;
};

// Initialises the merged solutions: every joint at q0, or as near to zero as its limits allow, and
// no effort. `step` is the distance between two q0; `limits` (2, n) are the lower and upper ones.
extern "C" __global__ void begin(const double* q0, int step, const double* limits, Solutions whole,
                                 int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x, n = whole.n;
  if (problem >= count) return;
  bool good = true;
  for (int j = 0; j < n; ++j) {
    const double x = q0 ? q0[problem * step + j] : 0;
    const bool valid = abs(x) <= max_input;
    good &= valid;
    whole.q[problem * n + j] = ::fmin(::fmax(valid ? x : 0, limits[j]), limits[n + j]);
  }
  for (int i = 0; i < 2; ++i) {
    whole.error[2 * problem + i] = good ? 0 : __longlong_as_double(0x7ff0000000000000ll);
    whole.effort[2 * problem + i] = 0;
  }
  whole.outcome[problem] = static_cast<signed char>(good ? Outcome::solved : Outcome::nonfinite);
}

// Copies some columns (columns,) of a matrix (count, width).
extern "C" __global__ void split(const double* whole, double* part, const int* column, int width,
                                 int columns, int count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (long long)count * columns) return;
  part[i] = whole[i / columns * width + column[i % columns]];
}

// Merges the solutions of a subproblem into those of the whole: its joints, the larger error, the
// worse outcome, the sum of the efforts.
extern "C" __global__ void merge(Solutions part, Solutions whole, const int* column, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= count) return;
  for (int j = 0; j < part.n; ++j) {
    whole.q[problem * whole.n + column[j]] = part.q[problem * part.n + j];
  }
  for (int i = 2 * problem; i < 2 * problem + 2; ++i) {
    whole.error[i] = ::fmax(whole.error[i], part.error[i]);
    whole.effort[i] += part.effort[i];
  }
  whole.outcome[problem] = ::max(whole.outcome[problem], part.outcome[problem]);
}

}  // namespace supple
