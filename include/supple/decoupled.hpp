// The step of several tasks away from singularities, by parts that share no joint: the legs and
// the upper body of a humanoid, for example.
#pragma once

#include "supple/folds.hpp"

namespace supple::inline SUPPLE_ISA {

// Lanes of scratch memory that `decoupled_step` needs.
SUPPLE_FN constexpr int decoupled_scratch(int m, int n) {
  const int k = m < n ? m : n;
  return 2 * (m + n) + 4 * n + m * n + m + 2 * k * k + 2 * m + n;
}

// Returns the coordinate that stands for the part of coordinate j: the labels lead to it.
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
  return part_of(label, chain.joint[chain.support[of.support_begin].joint].coordinate);
}

// Divides coordinates and rows into parts. Coordinates get the same label (n), the index of one of
// them, if joints that they move are attached to each other, or some task depends on both; each row
// gets the label of its coordinates (`row_label`, count), or -1. Rows of postures, which are linear
// in q, get their coordinate in `posture` (count), other rows -1.
template <class T>
SUPPLE_FN void find_parts(const StepRows<T>& of, int* label, int* row_label, int* posture) {
  const Chain<T>& chain = of.chain;
  for (int j = 0; j < chain.coordinates; ++j) label[j] = j;
  for (int k = 0; k < chain.joints; ++k) {
    const Joint<T>& joint = chain.joint[k];
    if (joint.parent < 0) continue;
    label[part_of(label, joint.coordinate)] = part_of(label, chain.joint[joint.parent].coordinate);
  }
  for (int k = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    if (task.goal == Goal::posture || task.base == task_world) continue;
    const int part = frame_part(chain, task.frame, label);
    const int base = frame_part(chain, task.base, label);
    if (part >= 0 && base >= 0) label[base] = part;
  }
  for (int j = 0; j < chain.coordinates; ++j) label[j] = part_of(label, j);
  for (int k = 0, row = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    const bool linear = task.goal == Goal::posture;
    int part = linear ? -1 : frame_part(chain, task.frame, label);
    if (part < 0 && !linear && task.base != task_world) {
      part = frame_part(chain, task.base, label);
    }
    for (int i = 0; i < task.rows; ++i, ++row) {
      posture[row] = linear ? task.coordinate[i] : -1;
      row_label[row] = linear ? label[task.coordinate[i]] : part;
    }
  }
}

// Computes x (n), the minimizer of ‖J x - e‖² + λ²‖x‖² for J (m x n), or the shortest one if m < n,
// which requires λ² = 0. Uses iterative refinement where it is needed. Returns false if J is too
// close to singular. `scratch` has k² + m + n lanes, k = min(m, n).
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

// Computes x (n), the minimizer of ‖J x - e‖² + s‖x - x0‖² for J (m x n), m <= n, or, if s = 0, the
// solution of J x = e nearest to x0:
//
//   x = x0 + Jᵀz,    (J Jᵀ + s) z = e - J x0
//
// x is x0 on entry. A (m x m) is the lower triangle of J Jᵀ, and is overwritten. Uses iterative
// refinement where it is needed. Returns false if J is too close to singular. `scratch` has 2 m + n
// lanes.
template <class T>
SUPPLE_FN bool nearest_solution(int m, int n, const T* J, const T* e, T s, T* A, T* x, T* scratch) {
  T *z = scratch, *left = z + m, *change = left + m;
  for (int i = 0; i < m; ++i) A[i * m + i] += s, z[i] = T(0);
  const T pivot = relative_pivot(m, A);
  if (!(pivot > fast_path_pivot<T>)) return false;
  for (int round = 0; round < 2; ++round) {
    for (int r = 0; r < m; ++r) left[r] = fma(-s, z[r], e[r] - dot(n, J + r * n, x));
    cholesky_solve(m, A, left);
    for (int r = 0; r < m; ++r) z[r] += left[r];
    transpose_times(m, n, J, left, change);
    for (int j = 0; j < n; ++j) x[j] += change[j];
    if (pivot >= refined_pivot<T>) break;
  }
  return true;
}

// The rows and coordinates of a problem by parts (`find_parts`), with the postures of each
// coordinate: its rows w x = e add up to `square` x = `pull`.
template <class T>
struct Parts {
  int m, n;
  const T *J, *e;
  int *label, *row_label, *posture;
  T *square, *pull;  // (n,): Σw² and Σw e
};

// Copies `count` columns of the rows of a part to J and e, with or without those of postures.
// Returns the number of rows.
template <class T>
SUPPLE_FN int copy_part(const Parts<T>& all, int part, int count, const int* column, bool postures,
                        T* J, T* e) {
  int rows = 0;
  for (int r = 0; r < all.m; ++r) {
    if (all.row_label[r] != part || (all.posture[r] >= 0 && !postures)) continue;
    e[rows++] = all.e[r];
    for (int c = 0; c < count; ++c) *J++ = all.J[r * all.n + column[c]];
  }
  return rows;
}

// Computes x (columns), the step of a part without damping and corrections: the least-squares
// solution, or the shortest one. `column` are its coordinates, of which the first `free` are not
// stopped. Returns false if not all σ² of the free columns, without postures, are above `least`.
template <class T>
SUPPLE_FN bool part_step(const Parts<T>& all, int part, int free, int columns, const int* column,
                         T least, T* x, T* scratch) {
  const int k = all.m < all.n ? all.m : all.n;
  T *J = scratch, *e = J + all.m * all.n, *A = e + all.m, *work = A + k * k;
  int rows = copy_part(all, part, free, column, false, J, e);
  const int count = rows < free ? rows : free;
  if (rows > 0) {
    smaller_gram(rows, free, J, A);
    for (int i = 0; i < count * count; ++i) work[i] = A[i];
    for (int i = 0; i < count; ++i) work[i * count + i] -= least;
    if (!(relative_pivot(count, work) > fast_path_pivot<T>)) return false;
  }
  T lightest = Number<T>::huge, heaviest(0);
  for (int c = 0; c < columns; ++c) {
    const T square = all.square[column[c]];
    lightest = min(lightest, square), heaviest = max(heaviest, square);
    x[c] = square > 0 ? all.pull[column[c]] / square : T(0);
  }
  if (rows == 0) return true;
  if (rows > columns || (heaviest > 0 && !(lightest > 0))) {
    rows = copy_part(all, part, columns, column, true, J, e);
    return least_squares(rows, columns, J, e, T(0), x, work);
  }
  if (free < columns) copy_part(all, part, columns, column, false, J, e);
  const bool scaled = lightest < heaviest;  // by the weights of the postures
  for (int c = 0; scaled && c < columns; ++c) {
    const T weight = sqrt(all.square[column[c]]);
    for (int r = 0; r < rows; ++r) J[r * columns + c] /= weight;
    x[c] *= weight;
  }
  if (scaled || free < columns) gram(rows, columns, J, A);
  if (!nearest_solution(rows, columns, J, e, scaled ? T(1) : heaviest, A, x, work)) return false;
  for (int c = 0; scaled && c < columns; ++c) x[c] /= sqrt(all.square[column[c]]);
  return true;
}

// Computes dq (n), the step without damping and corrections, if no part of J (m x n) is close to a
// fold: without postures, and without the columns whose entry of `stopped` (n) is not zero, all σ²
// are above `range` ‖left‖. `left` (m) is the part of e that remains for the other columns. Returns
// false otherwise. Its time grows with the sizes of the parts, not with m and n.
template <class T>
SUPPLE_NOINLINE_DEVICE bool decoupled_step(const StepRows<T>& of, const T* J, const T* e,
                                           const T* left, const T* stopped, T range, T* dq,
                                           T* scratch) {
  const int m = of.count, n = of.chain.coordinates;
  int *label = reinterpret_cast<int*>(scratch), *column = label + n, *row_label = column + n,
      *posture = row_label + m;
  T *square = scratch + 2 * (m + n), *pull = square + n, *x = pull + n, *rest = x + n, size(0);
  find_parts(of, label, row_label, posture);
  for (int j = 0; j < n; ++j) square[j] = pull[j] = T(0);
  for (int r = 0; r < m; ++r) {
    if (row_label[r] < 0) return false;
    if (const int j = posture[r]; j >= 0) {
      const T weight = J[r * n + j];
      square[j] = fma(weight, weight, square[j]);
      pull[j] = fma(weight, e[r], pull[j]);
    } else {
      size = fma(left[r], left[r], size);
    }
  }
  const Parts<T> all{m, n, J, e, label, row_label, posture, square, pull};
  const T least = range * sqrt(size);
  for (int part = 0; part < n; ++part) {
    if (label[part] != part) continue;
    int columns = 0;
    for (int j = 0; j < n; ++j) {
      if (label[j] == part && stopped[j] == 0) column[columns++] = j;
    }
    const int free = columns;
    for (int j = 0; j < n; ++j) {
      if (label[j] == part && stopped[j] != 0) column[columns++] = j;
    }
    if (!part_step(all, part, free, columns, column, least, x, rest)) return false;
    for (int c = 0; c < columns; ++c) dq[column[c]] = x[c];
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
