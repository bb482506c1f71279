// Targets and velocities of a control loop in the kernel's layout.
#pragma once

#include <algorithm>
#include <cmath>

#include "bindings/arrays.hpp"
#include "bindings/specs.hpp"
#include "supple/task.hpp"

namespace supple {

inline constexpr int pose_size = 16;

// Residual of orthonormality |RᵀR - I| that rounding alone may cause.
inline constexpr double orthonormal_tolerance = 1e-14;

// Whether the matrix consists of a rotation, a position and the row 0 0 0 1. Other matrices are
// passed to Python, which orthonormalizes them or raises an error.
inline bool is_pose(const double* T) {
  double off = 0;
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b <= a; ++b) {
      const double product = T[a] * T[b] + T[4 + a] * T[4 + b] + T[8 + a] * T[8 + b];
      off = std::max(off, std::abs(product - (a == b)));
    }
  }
  const double volume = T[0] * (T[5] * T[10] - T[6] * T[9]) - T[1] * (T[4] * T[10] - T[6] * T[8]) +
                        T[2] * (T[4] * T[9] - T[5] * T[8]);
  return off < orthonormal_tolerance && volume > 0 && std::isfinite(T[3] + T[7] + T[11]) &&
         T[12] == 0 && T[13] == 0 && T[14] == 0 && T[15] == 1;
}

// Writes a pose (4, 4) as the columns of its rotation, then its position. Returns whether `given`
// is a C-contiguous float64 array of a pose.
inline bool put_pose(nb::handle given, double* to) {
  auto* array = reinterpret_cast<PyArrayObject*>(given.ptr());
  if (!PyArray_CheckExact(given.ptr()) || PyArray_TYPE(array) != NPY_DOUBLE ||
      PyArray_NDIM(array) != 2 || PyArray_DIM(array, 0) != 4 || PyArray_DIM(array, 1) != 4 ||
      !PyArray_ISCARRAY_RO(array)) {
    return false;
  }
  const auto* T = static_cast<const double*>(PyArray_DATA(array));
  if (!is_pose(T)) return false;
  for (int c = 0; c < 4; ++c) {
    for (int r = 0; r < 3; ++r) to[3 * c + r] = T[4 * r + c];
  }
  return true;
}

// Writes the target of one task to `to` or, if `target` is false, its velocity. Returns false if
// Python must convert the value instead. None is accepted only if `optional`, which is the case if
// there are other tasks.
inline bool put_values(nb::handle given, const Task<double>& task, const InputSpec& input,
                       bool target, bool optional, double* to) {
  const int size = target ? target_size(task) : velocity_size(task);
  const int count = target ? input.target : input.velocity;
  if (given.is_none()) {
    std::fill(to, to + size, target ? std::nan("") : 0.0);
    return optional;
  }
  if (target && input.target == pose_size) return put_pose(given, to);
  if (count == 0 || !contiguous_data(given, count)) return false;
  const auto* from =
      static_cast<const double*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(given.ptr())));
  const bool position = target && task.goal == Goal::frame;  // becomes a pose with R = I
  for (int i = 0; i < size; ++i) to[i] = position && i < 9 && i % 4 == 0;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(from[i])) return false;
    to[(target ? (position ? 9 : 0) : input.velocity_begin) + i] = from[i];
  }
  return true;
}

}  // namespace supple
