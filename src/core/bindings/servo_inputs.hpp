// Targets and velocities of a control loop in the kernel's layout.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/specs.hpp"
#include "supple/ik/target.hpp"
#include "supple/task/task.hpp"

namespace supple {

inline constexpr int pose_size = 16, rotation_size = 9;

// Writes a pose (4, 4) as the columns of the nearest rotation, then its position. Returns whether
// `given` holds the numbers of a pose (`put_numbers`) or, if `rotation`, of a rotation (3, 3).
inline bool put_pose(nb::handle given, bool rotation, double* to) {
  double T[pose_size] = {}, R[rotation_size];
  if (rotation && put_numbers(given, 3, 3, R)) {
    for (int r = 0; r < 3; ++r) std::copy_n(R + 3 * r, 3, T + 4 * r);
    T[15] = 1;
  } else if (!put_numbers(given, 4, 4, T)) {
    return false;
  }
  const auto entry = [&](int r, int c) { return T[4 * r + c]; };
  return read_pose(entry, true, 1e-6, to) && std::isfinite(to[9] + to[10] + to[11]);
}

// Writes the entries `positions` of a configuration (nq,) to `to`. Returns false if `given` is not
// a configuration of finite numbers.
inline bool put_positions(nb::handle given, const InputSpec& input, double* to) {
  std::vector<double> q(input.nq);
  if (!put_numbers(given, 1, input.nq, q.data())) return false;
  for (std::size_t i = 0; i < input.positions.size(); ++i) to[i] = q[input.positions[i]];
  return std::all_of(q.begin(), q.end(), [](double x) { return std::isfinite(x); });
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
  if (target && input.target >= rotation_size && has_pose(task)) {
    return put_pose(given, input.target == rotation_size, to);
  }
  if (count == 0) return false;
  if (target && !input.positions.empty() && put_positions(given, input, to)) return true;
  const bool position = target && has_pose(task);  // becomes a pose with R = I
  for (int i = 0; i < size; ++i) to[i] = position && i < 9 && i % 4 == 0;
  double* const into = to + (target ? (position ? 9 : 0) : input.velocity_begin);
  if (!put_numbers(given, 1, count, into)) return false;
  return std::all_of(into, into + count, [](double x) { return std::isfinite(x); });
}

// Writes the values of all tasks from a list or tuple with one object for each task or, if they may
// be `stacked`, from an array (tasks, ...). Returns false if Python must convert them.
inline bool put_each(nb::handle given, std::span<const Task<double>> tasks,
                     std::span<const InputSpec> inputs, bool target, bool stacked, double* to) {
  const bool several = tasks.size() > 1;
  const bool is_array = several && stacked && PyArray_CheckExact(given.ptr()) &&
                        PyArray_NDIM(reinterpret_cast<PyArrayObject*>(given.ptr())) > 1;
  if (!is_array && !PyList_CheckExact(given.ptr()) && !PyTuple_CheckExact(given.ptr())) {
    return false;
  }
  if (PySequence_Size(given.ptr()) != Py_ssize_t(tasks.size())) return false;
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const nb::object one = nb::steal(PySequence_GetItem(given.ptr(), Py_ssize_t(k)));
    if (!put_values(one, tasks[k], inputs[k], target, several, to)) return false;
    to += target ? target_size(tasks[k]) : velocity_size(tasks[k]);
  }
  return true;
}

}  // namespace supple
