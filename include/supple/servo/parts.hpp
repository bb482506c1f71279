// The parts of a problem that share no joint: the legs and the upper body of a humanoid, for
// example.
#pragma once

#include "supple/servo/step_rows.hpp"

namespace supple::inline SUPPLE_ISA {

// Returns the coordinate that stands for the part of coordinate j, by following the labels.
SUPPLE_FN int part_of(const int* label, int j) {
  while (label[j] != j) j = label[j];
  return j;
}

// Returns the coordinate that stands for the part that a frame depends on, or -1 if it does not
// move. All its joints are in the part of the first one.
template <class T>
SUPPLE_FN int frame_part(const Chain<T>& chain, int frame, const int* label) {
  const Frame<T>& of = chain.frame[frame];
  if (of.support_begin == of.support_end) return -1;
  return part_of(label, chain.joint[chain.support[of.support_begin].joint].v_index);
}

// Gives coordinates the same label (n), the index of one of them, if joints that they move are
// attached to each other, or some task depends on both. A single task is a single part.
template <class T>
SUPPLE_FN void label_coordinates(const StepRows<T>& of, int* label) {
  const Chain<T>& chain = of.chain;
  for (int j = 0; j < chain.nv; ++j) label[j] = of.tasks == 1 ? 0 : j;
  if (of.tasks == 1) return;
  for (int k = 0; k < chain.joints; ++k) {
    const Joint<T>& joint = chain.joint[k];
    if (joint.parent < 0) continue;
    label[part_of(label, joint.v_index)] = part_of(label, chain.joint[joint.parent].v_index);
  }
  for (int k = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    int part = -1;
    const auto join = [&](int frame) {
      const int other = frame_part(chain, frame, label);
      if (other >= 0 && part >= 0) label[other] = part;
      if (part < 0) part = other;
    };
    each_frame(task, join);
    for (int j = 0; depends_on_all_joints(task) && j < chain.nv; ++j) {
      label[part_of(label, j)] = part_of(label, 0);
    }
  }
  for (int j = 0; j < chain.nv; ++j) label[j] = part_of(label, j);
}

// Whether all joints come after a single first one, as after a floating base, and each has its own
// coordinate. There is then only one part.
template <class T>
SUPPLE_FN bool is_one_part(const Chain<T>& chain) {
  int roots = 0;
  for (int k = 0; k < chain.joints; ++k) roots += chain.joint[k].parent < 0;
  return roots == 1 && !chain.mimics && chain.joints == chain.nv;
}

// Divides coordinates and rows into parts: each row that takes part in the step gets the label of
// its coordinates (`row_label`, count), or that of coordinate 0 if it depends on none. Rows of
// postures, which are linear in q, get their coordinate in `posture` (count), other rows -1.
// Returns whether all rows depend on coordinates.
template <class T>
SUPPLE_FN bool find_parts(const StepRows<T>& of, int* label, int* row_label, int* posture) {
  label_coordinates(of, label);
  bool all = true;
  for (int k = 0, i = 0, row = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    const bool linear = traits_of(task).is_linear;
    int part = linear || depends_on_all_joints(task) ? 0 : -1;
    each_frame(task, [&](int frame) {
      if (part < 0) part = frame_part(of.chain, frame, label);
    });
    all = all && part >= 0;
    for (int c = 0; c < task.rows; ++c, ++i) {
      if (of.held && !(of.held[i] < Number<T>::huge)) continue;
      posture[row] = linear ? task.coordinate[c] : -1;
      row_label[row++] = label[linear ? task.coordinate[c] : part < 0 ? 0 : part];
    }
  }
  return all;
}

// Lists the members of a part: the indices whose label is `part` and, if `left_out` is given, whose
// entry of it is zero. Returns the number of these indices.
template <class T>
SUPPLE_FN int members(int count, const int* label, int part, const T* left_out, int* member) {
  int found = 0;
  for (int i = 0; i < count; ++i) {
    if (label[i] == part && !(left_out && left_out[i] != 0)) member[found++] = i;
  }
  return found;
}

}  // namespace supple::inline SUPPLE_ISA
