// The rows of the tasks of a control loop that take part in a step.
//
// Rows with an allowed range take part only while the range restricts the motion (ranges.hpp).
#pragma once

#include "supple/task/task.hpp"

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
  const int n = of.chain.nv;
  for (int k = 0, row = 0; k < of.tasks; row += of.task[k++].rows) {
    task_jacobian(of.chain, of.task[k], joint_poses, J + row * n);
  }
  keep_rows(of, n, J);
}

// Whether a task moves if the joints have the speeds v (n).
template <class T>
SUPPLE_FN bool moves(const Chain<T>& chain, const Task<T>& task, const T* v) {
  if (traits_of(task).is_linear) return false;
  const auto any = [&](const Frame<T>& frame) {
    for (int s = frame.support_begin; s < frame.support_end; ++s) {
      if (v[chain.joint[chain.support[s].joint].v_index] != 0) return true;
    }
    return false;
  };
  for (int k = 0; k < frame_count(task); ++k) {
    if (any(chain.frame[frame_of(task, k)])) return true;
  }
  return task.base != task_world && any(chain.frame[task.base]);
}

// Computes J̇(v) v (count,) of the rows that take part, for joint speeds v (n). The array `bias`
// has room for (all,).
template <class T>
SUPPLE_FN void rows_bias_acceleration(const StepRows<T>& of, const Pose<T>* joint_poses, const T* v,
                                      T* bias) {
  for (int k = 0, i = 0, row = 0; k < of.tasks; ++k) {
    T* const from = bias + row;  // not before the rows that are kept
    const bool moving = moves(of.chain, of.task[k], v);
    if (moving) task_bias_acceleration(of.chain, of.task[k], joint_poses, v, from);
    for (int c = 0; c < of.task[k].rows; ++c, ++i) {
      if (of.held && !(of.held[i] < Number<T>::huge)) continue;
      bias[row++] = moving ? from[c] : T(0);
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
