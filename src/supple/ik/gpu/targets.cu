// Reads the caller's arrays on a GPU, float or double with any strides, into targets in double. An
// invalid target becomes NaN, because reporting it would require a synchronisation. Independent of
// the robot.
#include "supple/se3.hpp"

namespace supple {

// An array passed by the caller. (`View` has the same layout and `Kind` the same values as `View`
// and `KINDS` in targets.py.)
struct View {
  const void* data;
  int axes, floats, rows, columns;  // batch axes; whether float; shape of one element
  long long size[8], step[8];       // of the batch axes, the last one first
  long long row, column;            // strides inside an element
};
enum Kind : int { pose, position, direction, orientation, plain };

namespace {

__device__ double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

// Makes the columns of R orthonormal. Returns whether R was a rotation within a tolerance. The same
// iteration as that of the CPU in src/core/bindings/ik_solver.cpp.
__device__ bool orthonormalize(Rotation<double>& R, double tolerance) {
  bool good = true;
  for (int pass = 0; pass < 3; ++pass) {
    const double xx = dot(R.x, R.x), yy = dot(R.y, R.y), zz = dot(R.z, R.z);
    const double xy = dot(R.x, R.y), xz = dot(R.x, R.z), yz = dot(R.y, R.z);
    double off = 0;
    const auto near = [&](double x, double y) { off = ::fmax(off, x == x ? ::fabs(x - y) : 1); };
    near(xx, 1), near(yy, 1), near(zz, 1), near(xy, 0), near(xz, 0), near(yz, 0);
    good = good && off <= tolerance;
    if (off <= 1e-14 || pass == 2) break;
    R = {R.x * (1.5 - 0.5 * xx) + R.y * (-0.5 * xy) + R.z * (-0.5 * xz),
         R.x * (-0.5 * xy) + R.y * (1.5 - 0.5 * yy) + R.z * (-0.5 * yz),
         R.x * (-0.5 * xz) + R.y * (-0.5 * yz) + R.z * (1.5 - 0.5 * zz)};
  }
  return good && dot(cross(R.x, R.y), R.z) > 0;
}

}  // namespace

// Reads the targets of one task: `to` is its first value of the first problem, `width` the number
// of values of all tasks of a problem.
extern "C" __global__ void read(View view, int kind, double* to, int width, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= count) return;
  long long from = 0, rest = problem;
  for (int i = 0; i < view.axes; ++i) {
    from += rest % view.size[i] * view.step[i];
    rest /= view.size[i];
  }
  const auto at = [&](int r, int c) {
    const long long place = from + r * view.row + c * view.column;
    return view.floats ? double(static_cast<const float*>(view.data)[place])
                       : static_cast<const double*>(view.data)[place];
  };
  double* const number = to + static_cast<long long>(problem) * width;
  if (kind == plain) {
    for (int c = 0; c < view.columns; ++c) number[c] = at(0, c);
    return;
  }
  if (kind == direction) {
    const double x = at(0, 0), y = at(0, 1), z = at(0, 2);
    const double largest = ::fmax(::fabs(x), ::fmax(::fabs(y), ::fabs(z)));
    const double a = x / largest, b = y / largest, c = z / largest;
    const double length = ::sqrt(a * a + b * b + c * c);  // 0 / 0 is NaN
    number[0] = a / length, number[1] = b / length, number[2] = c / length;
    return;
  }
  Rotation<double> R{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  double p[3] = {0, 0, 0};
  bool good = true;
  if (kind == position) {
    for (int c = 0; c < 3; ++c) p[c] = at(0, c);
  } else {
    const double tolerance = view.floats ? 1e-5 : 1e-6;
    R = {{at(0, 0), at(1, 0), at(2, 0)},
         {at(0, 1), at(1, 1), at(2, 1)},
         {at(0, 2), at(1, 2), at(2, 2)}};
    for (int c = 0; c < view.columns && view.rows == 4; ++c) {
      good = good && ::fabs(at(3, c) - (c == 3)) <= tolerance;
      if (c < 3) p[c] = at(c, 3);
    }
    good = orthonormalize(R, tolerance) && good;
  }
  const double all[12] = {R.x.x, R.x.y, R.x.z, R.y.x, R.y.y, R.y.z,
                          R.z.x, R.z.y, R.z.z, p[0],  p[1],  p[2]};
  for (int i = 0; i < 12; ++i) number[i] = good ? all[i] : not_a_number();
}

}  // namespace supple
