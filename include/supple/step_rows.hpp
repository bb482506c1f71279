// The rows of the tasks of a control loop that take part in a step.
//
// Rows with an allowed range take part only while the range restricts the motion (ranges.hpp).
#pragma once

#include "supple/task.hpp"

namespace supple {

template <class T>
struct StepRows {
  const Chain<T>& chain;
  int tasks;
  const Task<T>* task;
  int all, count;  // number of rows of all tasks, number of rows that take part
  const T* held;   // (all,): below `huge` for a row that takes part; null if all take part
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Moves the rows that take part to the front of `values` (all, width).
template <class T>
SUPPLE_FN void keep_rows(const StepRows<T>& of, int width, T* values) {
  if (of.count == of.all) return;
  for (int i = 0, to = 0; i < of.all; ++i) {
    if (!(of.held[i] < Number<T>::huge)) continue;
    for (int j = 0; j < width; ++j) values[to * width + j] = values[i * width + j];
    ++to;
  }
}

// Computes J (count, n) of the rows that take part. The array J has room for (all, n).
template <class T>
SUPPLE_FN void rows_jacobian(const StepRows<T>& of, const Pose<T>* joint_poses, T* J) {
  const int n = of.chain.coordinates;
  for (int k = 0, row = 0; k < of.tasks; row += of.task[k++].rows) {
    task_jacobian(of.chain, of.task[k], joint_poses, J + row * n);
  }
  keep_rows(of, n, J);
}

// Computes J̇(v) v (count,) of the rows that take part, for joint speeds v (n). The array `bias`
// has room for (all,).
template <class T>
SUPPLE_FN void rows_bias_acceleration(const StepRows<T>& of, const Pose<T>* joint_poses, const T* v,
                                      T* bias) {
  for (int k = 0, row = 0; k < of.tasks; row += of.task[k++].rows) {
    task_bias_acceleration(of.chain, of.task[k], joint_poses, v, bias + row);
  }
  keep_rows(of, 1, bias);
}

}  // namespace supple::inline SUPPLE_ISA
