// The step of several tasks away from singularities, computed separately for parts of the robot
// that share no joint, such as the legs and the upper body of a humanoid.
#pragma once

#include "supple/folds.hpp"

namespace supple::inline SUPPLE_ISA {

// Lanes of scratch memory that `decoupled_step` needs.
SUPPLE_FN constexpr int decoupled_scratch(int m, int n) {
  const int k = m < n ? m : n;
  return n + 3 * m + m * n + 2 * n + k * k + m + n;
}

// Gives the label `to` to all coordinates with the label `from`.
template <class T>
SUPPLE_FN void relabel(int n, T from, T to, T* label) {
  for (int j = 0; j < n; ++j) {
    if (label[j] == from) label[j] = to;
  }
}

// Merges the parts of all coordinates that move a frame: their coordinates get the label `part`.
// If `part` is -1, they get the label of the first of these coordinates. Returns the common label.
template <class T>
SUPPLE_FN T join_frame(const Chain<T>& chain, int frame, T part, T* label) {
  for (int k = chain.frame[frame].support_begin; k < chain.frame[frame].support_end; ++k) {
    const int j = chain.joint[chain.support[k].joint].coordinate;
    if (part < 0) part = label[j];
    relabel(chain.coordinates, T(label[j]), part, label);
  }
  return part;
}

// Divides rows and coordinates into parts. Two coordinates get the same `label` (n) if a task
// depends on both. `row_label` (count) is the label of the coordinates of each row, or -1 if it has
// none. `linear` (count) is 1 for the rows of postures, which are linear in q, else 0.
template <class T>
SUPPLE_FN void find_parts(const StepRows<T>& of, T* label, T* row_label, T* linear) {
  const Chain<T>& chain = of.chain;
  for (int j = 0; j < chain.coordinates; ++j) label[j] = T(j);
  for (int k = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    if (task.goal == Goal::posture) continue;
    const T part = join_frame(chain, task.frame, T(-1), label);
    if (task.base != task_world) join_frame(chain, task.base, part, label);
  }
  for (int k = 0, row = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    T part(-1);
    if (task.goal != Goal::posture) {
      part = join_frame(chain, task.frame, part, label);
      if (task.base != task_world) part = join_frame(chain, task.base, part, label);
    }
    for (int i = 0; i < task.rows; ++i) {
      linear[row] = task.goal == Goal::posture ? T(1) : T(0);
      row_label[row++] = task.goal == Goal::posture ? label[task.coordinate[i]] : part;
    }
  }
}

// Computes x (n), the minimizer of ‖J x - e‖² + λ²‖x‖² for J (m x n). If m <= n, λ² must be zero,
// and x is the shortest minimizer. Uses iterative refinement if J is badly conditioned. Returns
// false if J is too close to singular. `scratch` has k² + m + n lanes, k = min(m, n).
template <class T>
SUPPLE_FN bool least_squares(int m, int n, const T* J, const T* e, T lambda2, T* x, T* scratch) {
  const int count = m < n ? m : n;
  T *A = scratch, *z = A + count * count, *change = z + m;
  smaller_gram(m, n, J, A);
  for (int i = 0; i < count; ++i) A[i * count + i] += lambda2;
  const T pivot = relative_pivot(count, A);
  if (!(pivot > fast_path_pivot<T>)) return false;
  for (int j = 0; j < n; ++j) x[j] = T(0);
  for (int round = 0; round < 2; ++round) {
    for (int r = 0; r < m; ++r) z[r] = e[r] - dot(n, J + r * n, x);
    if (m <= n) cholesky_solve(m, A, z);
    transpose_times(m, n, J, z, change);
    for (int j = 0; m > n && j < n; ++j) change[j] = fma(-lambda2, x[j], change[j]);
    if (m > n) cholesky_solve(n, A, change);
    for (int j = 0; j < n; ++j) x[j] += change[j];
    if (pivot >= refined_pivot<T>) break;
  }
  return true;
}

// Computes dq (n), the step without damping and without corrections for folds, part by part. The
// time grows with the sizes of the parts, not with m and n. Returns false if a part of J (m x n) is
// close to a fold: some σ² is at most `range` ‖left‖, not counting the rows of postures and the
// columns whose entry of `stopped` (n) is not zero. `left` (m) is the part of e that remains for
// the joints that are not stopped.
template <class T>
SUPPLE_NOINLINE_DEVICE bool decoupled_step(const StepRows<T>& of, const T* J, const T* e,
                                           const T* left, const T* stopped, T range, T* dq,
                                           T* scratch) {
  const int m = of.count, n = of.chain.coordinates;
  T *label = scratch, *row_label = label + n, *linear = row_label + m, *part_e = linear + m,
    *part_J = part_e + m, *x = part_J + m * n, *rest = x + n, size(0);
  int* const column = reinterpret_cast<int*>(rest);
  rest += n;
  find_parts(of, label, row_label, linear);
  for (int r = 0; r < m; ++r) {
    if (row_label[r] < 0) return false;
    if (linear[r] == 0) size = fma(left[r], left[r], size);
  }
  const T least = range * sqrt(size);
  for (int part = 0; part < n; ++part) {
    if (label[part] != T(part)) continue;  // a label is the index of a coordinate of the part
    int rows = 0, columns = 0, free = 0;
    for (int j = 0; j < n; ++j) {
      if (label[j] == T(part) && stopped[j] == 0) column[columns++] = j;
    }
    free = columns;
    for (int j = 0; j < n; ++j) {
      if (label[j] == T(part) && stopped[j] != 0) column[columns++] = j;
    }
    // Copies `count` columns of the part's rows, with or without the rows of postures.
    const auto copy = [&](int count, bool postures) {
      rows = 0;
      T* to = part_J;
      for (int r = 0; r < m; ++r) {
        if (row_label[r] != T(part) || (linear[r] != 0 && !postures)) continue;
        part_e[rows++] = e[r];
        for (int c = 0; c < count; ++c) *to++ = J[r * n + column[c]];
      }
    };
    copy(free, false);
    if (rows > 0 && !is_regular(rows, free, part_J, least, rest)) return false;
    copy(columns, true);
    for (int c = 0; c < columns; ++c) x[c] = T(0);
    if (rows > 0 && !least_squares(rows, columns, part_J, part_e, T(0), x, rest)) return false;
    for (int c = 0; c < columns; ++c) dq[column[c]] = x[c];
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
