// Reads the caller's arrays on a GPU, float or double with any strides, into targets in double. An
// invalid target becomes NaN, because reporting it would require a synchronization. Independent of
// the robot.
#include "supple/ik/target.hpp"

namespace supple {

// An array passed by the caller. (`View` has the same layout and `Kind` the same values as `View`
// and `KINDS` in targets.py.)
struct View {
  const void* data;
  int axes, floats, rows, columns;  // number of batch axes; whether float; shape of one target
  long long size[8], step[8];       // lengths and strides of the batch axes, the last one first
  long long row, column;            // strides inside a target
};
enum Kind : int { pose, position, direction, orientation, plain };

__device__ double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

// Reads the targets of one task. `to` points to the task's first value in the first problem, and
// `width` is the number of values of all tasks of a problem.
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
    const double length = ::sqrt(a * a + b * b + c * c);  // NaN for the zero vector, by 0 / 0
    number[0] = a / length, number[1] = b / length, number[2] = c / length;
    return;
  }
  if (kind == position) {
    for (int i = 0; i < 12; ++i) number[i] = i < 9 ? i % 4 == 0 : at(0, i - 9);
    return;
  }
  if (read_pose(at, view.rows == 4, view.floats ? 1e-5 : 1e-6, number)) return;
  for (int i = 0; i < 12; ++i) number[i] = not_a_number();
}

}  // namespace supple
