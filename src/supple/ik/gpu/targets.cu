// Converts the caller's arrays on a GPU to targets and seeds, and solutions to configurations.
#include "device_rows.hpp"
//
#include "view.hpp"

namespace supple {

// Reads the targets of one task (`read_target`).
extern "C" __global__ void read(View view, TargetKind kind, double* to, int width, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem < count) read_target(view, kind, problem, width, to);
}

namespace {

// A robot of which only the places of ball joints (balls,) and the number of coordinates are known.
__device__ Chain<double> coordinates(const int* ball, int balls, int nv) {
  Chain<double> chain{};
  chain.nq = chain.nv = nv;
  chain.balls = balls;
  chain.ball = ball;
  return chain;
}

}  // namespace

// Converts configurations q (count, nv + balls) to coordinates x (count, nv) of the kernel; the
// coordinates of a quaternion that is zero or not finite become NaN.
extern "C" __global__ void to_coordinates(const double* q, const int* ball, int balls, int nv,
                                          double* x, int count) {
  const long long row = own_row();
  if (row >= count) return;
  to_kernel(coordinates(ball, balls, nv), q + row * (nv + balls), x + row * nv);
}

// Converts coordinates x (count, nv) of the kernel to configurations q (count, nv + balls).
extern "C" __global__ void to_configurations(const double* x, const int* ball, int balls, int nv,
                                             double* q, int count) {
  const long long row = own_row();
  if (row >= count) return;
  from_kernel(coordinates(ball, balls, nv), x + row * nv, q + row * (nv + balls));
}

}  // namespace supple
