// Targets and velocities of a control loop in the kernel's layout.
#pragma once

#include <algorithm>
#include <cmath>

#include "bindings/arrays.hpp"
#include "bindings/specs.hpp"
#include "supple/task/task.hpp"

namespace supple {

inline constexpr int pose_size = 16, rotation_size = 9;

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

// Writes a number to `to`. Returns whether `given` is a Python number, or a float64 of NumPy.
inline bool put_number(PyObject* given, double* to) {
  if (PyFloat_Check(given)) {
    *to = PyFloat_AS_DOUBLE(given);
    return true;
  }
  if (!PyLong_CheckExact(given)) return false;
  *to = PyLong_AsDouble(given);
  if (*to != -1.0 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

// Writes `rows` times `columns` numbers to `to`; a vector has one row. Returns whether `given` is a
// float64 array of this shape, with any strides, or a list or tuple of numbers, nested for a
// matrix. Python converts other objects, or raises an error.
inline bool put_numbers(nb::handle given, int rows, int columns, double* to) {
  if (PyArray_CheckExact(given.ptr())) {
    auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
    const int axes = rows > 1 ? 2 : 1;
    if (PyArray_TYPE(array) != NPY_DOUBLE || PyArray_NDIM(array) != axes ||
        !PyArray_ISBEHAVED_RO(array) || PyArray_DIM(array, axes - 1) != columns ||
        (axes == 2 && PyArray_DIM(array, 0) != rows)) {
      return false;
    }
    const npy_intp down = axes == 2 ? PyArray_STRIDE(array, 0) : 0,
                   right = PyArray_STRIDE(array, axes - 1);
    const char* const from = PyArray_BYTES(array);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        *to++ = *reinterpret_cast<const double*>(from + r * down + c * right);
      }
    }
    return true;
  }
  if (!PyList_CheckExact(given.ptr()) && !PyTuple_CheckExact(given.ptr())) return false;
  const int count = rows > 1 ? rows : columns;
  if (PySequence_Fast_GET_SIZE(given.ptr()) != count) return false;
  for (int i = 0; i < count; ++i) {
    PyObject* const one = PySequence_Fast_GET_ITEM(given.ptr(), i);
    if (rows > 1 ? !put_numbers(one, 1, columns, to + i * columns) : !put_number(one, to + i)) {
      return false;
    }
  }
  return true;
}

// Writes a pose (4, 4) as the columns of its rotation, then its position. Returns whether `given`
// holds the numbers of a pose (`put_numbers`) or, if `rotation`, of a rotation (3, 3).
inline bool put_pose(nb::handle given, bool rotation, double* to) {
  double T[pose_size] = {}, R[rotation_size];
  if (rotation && put_numbers(given, 3, 3, R)) {
    for (int r = 0; r < 3; ++r) std::copy_n(R + 3 * r, 3, T + 4 * r);
    T[15] = 1;
  } else if (!put_numbers(given, 4, 4, T)) {
    return false;
  }
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
  if (target && input.target >= rotation_size && traits_of(task).has_pose) {
    return put_pose(given, input.target == rotation_size, to);
  }
  if (count == 0) return false;
  const bool position = target && traits_of(task).has_pose;  // becomes a pose with R = I
  for (int i = 0; i < size; ++i) to[i] = position && i < 9 && i % 4 == 0;
  double* const into = to + (target ? (position ? 9 : 0) : input.velocity_begin);
  if (!put_numbers(given, 1, count, into)) return false;
  return std::all_of(into, into + count, [](double x) { return std::isfinite(x); });
}

}  // namespace supple
