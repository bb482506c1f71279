// A search that falls into parts (parts.py): parts of targets, and solutions put together. For any
// robot.
#include "supple/ik/restarts.hpp"

namespace supple {

// Of a whole search, or of a part. (The same layout as `Solutions` in parts.py.)
struct Solutions {
  double* q;             // (count, n)
  double* error;         // (count, 2)
  int* effort;           // (count, 2)
  signed char* outcome;  // (count,)
  int n;
};

// Before parts are solved: every joint at rest, at q0 or as near to zero as it gets, and
// not_a_number done yet. From one q0 to the next it is `step` numbers; `limits` are the lower and
// the upper ones (2, n).
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

// Some columns (columns,) of a matrix (count, width).
extern "C" __global__ void split(const double* whole, double* part, const int* column, int width,
                                 int columns, int count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (long long)count * columns) return;
  part[i] = whole[i / columns * width + column[i % columns]];
}

// The solutions of a part into those of the whole: its joints, the larger errors, the worse
// outcome, the sum of efforts.
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
