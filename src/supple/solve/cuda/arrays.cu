// Arrays of a call, of any robot: poses as targets, parts of targets, and answers put together.
#include "starts.hpp"

namespace supple {

// Of a whole search, or of a part. (The same layout as `Answers` in parts.py.)
struct Answers {
  double* q;             // (count, n)
  double* error;         // (count, 2)
  int* effort;           // (count, 2)
  signed char* outcome;  // (count,)
  int n;
};

// Poses (count, 4, 4) as the numbers of targets: rotation columns, made orthonormal where they are
// not, and position. What is no pose is NaN. As `straight` in src/core/solve.cpp.
extern "C" __global__ void read_poses(const double* poses, double* target, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= count) return;
  const double* const T = poses + 16 * problem;
  double off = 0;
  const auto near = [&](double x, double y) { off = ::fmax(off, x == x ? ::fabs(x - y) : 1); };
  for (int i = 0; i < 4; ++i) near(T[12 + i], i == 3);
  bool good = off <= 1e-6;
  Rotation<double> R{{T[0], T[4], T[8]}, {T[1], T[5], T[9]}, {T[2], T[6], T[10]}};
  for (int pass = 0; pass < 3; ++pass) {
    const double xx = dot(R.x, R.x), yy = dot(R.y, R.y), zz = dot(R.z, R.z);
    const double xy = dot(R.x, R.y), xz = dot(R.x, R.z), yz = dot(R.y, R.z);
    off = 0;
    near(xx, 1), near(yy, 1), near(zz, 1), near(xy, 0), near(xz, 0), near(yz, 0);
    good = good && off <= 1e-6;
    if (off <= 1e-14 || pass == 2) break;
    R = {R.x * (1.5 - 0.5 * xx) + R.y * (-0.5 * xy) + R.z * (-0.5 * xz),
         R.x * (-0.5 * xy) + R.y * (1.5 - 0.5 * yy) + R.z * (-0.5 * yz),
         R.x * (-0.5 * xz) + R.y * (-0.5 * yz) + R.z * (1.5 - 0.5 * zz)};
  }
  good = good && dot(cross(R.x, R.y), R.z) > 0;
  const double number[12] = {R.x.x, R.x.y, R.x.z, R.y.x, R.y.y, R.y.z,
                             R.z.x, R.z.y, R.z.z, T[3],  T[7],  T[11]};
  for (int i = 0; i < 12; ++i) {
    target[12 * problem + i] = good ? number[i] : __longlong_as_double(0x7ff8000000000000ll);
  }
}

// A search that falls into parts (parts.py), before they are solved: every joint at rest, at q0 or
// as near to zero as it gets, and nothing done yet. `limits` are the lower and the upper ones (2,
// n).
extern "C" __global__ void begin(const double* q0, const double* limits, Answers whole, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x, n = whole.n;
  if (problem >= count) return;
  bool good = true;
  for (int j = 0; j < n; ++j) {
    const double x = q0 ? q0[problem * n + j] : 0;
    good &= abs(x) <= largest_number;
    whole.q[problem * n + j] = ::fmin(::fmax(x, limits[j]), limits[n + j]);
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

// The answers of a part into those of the whole: its joints, the larger errors, the worse outcome,
// the sum of efforts.
extern "C" __global__ void merge(Answers part, Answers whole, const int* column, int count) {
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
