// Arrays of the caller on a GPU, float or double with any strides, read as targets in double. An
// invalid target becomes NaN, because reporting it would require a synchronization. Independent of
// the robot.
#pragma once

#include "supple/ik/target.hpp"

namespace supple {

// An array passed by the caller. (The same layout as `View` in targets.py.)
struct View {
  const void* data;
  int axes, floats, rows, columns;  // number of batch axes; whether float; shape of one target
  long long size[8], step[8];       // lengths and strides of the batch axes, the last one first
  long long row, column;            // strides inside a target
};

__device__ inline double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

// Reads a pose (4, 4) of doubles that is C-contiguous, two numbers at a time.
__device__ inline void read_dense_pose(const double2* from, double2* to) {
  double in[16], out[12];
  for (int i = 0; i < 8; ++i) in[2 * i] = from[i].x, in[2 * i + 1] = from[i].y;
  const bool valid = read_pose([&](int r, int c) { return in[4 * r + c]; }, true, 1e-6, out);
  for (int i = 0; i < 6; ++i) {
    to[i] = valid ? double2{out[2 * i], out[2 * i + 1]} : double2{not_a_number(), not_a_number()};
  }
}

// Reads the target of one task and problem. `to` points to the task's first value in the first
// problem, and `width` is the number of values of all tasks of a problem.
__device__ inline void read_target(const View& view, TargetKind kind, int problem, int width,
                                   double* to) {
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
  const auto is_aligned = [](const void* p) {
    return reinterpret_cast<unsigned long long>(p) % sizeof(double2) == 0;
  };
  if (kind == TargetKind::pose && !view.floats && view.rows == 4 && view.row == 4 &&
      view.column == 1 && width % 2 == 0 && from % 2 == 0 && is_aligned(view.data) &&
      is_aligned(to)) {
    read_dense_pose(reinterpret_cast<const double2*>(static_cast<const double*>(view.data) + from),
                    reinterpret_cast<double2*>(number));
    return;
  }
  if (kind == TargetKind::numbers) {
    for (int c = 0; c < view.columns; ++c) number[c] = at(0, c);
    return;
  }
  if (kind == TargetKind::direction) {
    return read_direction(at(0, 0), at(0, 1), at(0, 2), number);
  }
  if (kind == TargetKind::position) {
    for (int i = 0; i < 12; ++i) number[i] = i < 9 ? i % 4 == 0 : at(0, i - 9);
    return;
  }
  if (read_pose(at, view.rows == 4, view.floats ? 1e-5 : 1e-6, number)) return;
  for (int i = 0; i < 12; ++i) number[i] = not_a_number();
}

}  // namespace supple
