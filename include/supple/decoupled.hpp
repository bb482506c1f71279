// The step of several tasks, computed separately for parts of the robot that share no joint, such
// as the legs and the upper body of a humanoid. Its time grows with the sizes of the parts, not
// with those of J.
#pragma once

#include "supple/folds.hpp"

namespace supple::inline SUPPLE_ISA {

// Lanes of scratch memory that `decoupled_step` and `damped_step_by_parts` need.
SUPPLE_FN constexpr int decoupled_scratch(int m, int n) {
  const int k = m < n ? m : n;
  return 2 * (m + n) + 3 * n + m * n + m + 2 * k * k + 2 * m + n;
}

// Computes x (n), the minimizer of ‖J x - e‖² + s‖x - x0‖² for J (m x n), m <= n, or, if s = 0, the
// solution of J x = e nearest to x0:
//
//   x = x0 + Jᵀz,    (J Jᵀ + s) z = e - J x0
//
// x is x0 on entry. A (m x m) is the lower triangle of J Jᵀ, and is overwritten. Uses iterative
// refinement if J is badly conditioned. Returns false if J is too close to singular. `scratch` has
// 2 m + n lanes.
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

// Computes x (n), the minimizer of ‖J x - e‖² + λ²‖x‖² for J (m x n), or the shortest one. Uses
// iterative refinement if J is badly conditioned. Returns false if J is too close to singular.
// `scratch` has k² + 2 m + n lanes, k = min(m, n).
template <class T>
SUPPLE_FN bool least_squares(int m, int n, const T* J, const T* e, T lambda2, T* x, T* scratch) {
  const int count = m < n ? m : n;
  T *A = scratch, *z = A + count * count, *change = z + m;
  smaller_gram(m, n, J, A);
  for (int j = 0; j < n; ++j) x[j] = T(0);
  if (m <= n) return nearest_solution(m, n, J, e, lambda2, A, x, z);
  for (int i = 0; i < n; ++i) A[i * n + i] += lambda2;
  const T pivot = relative_pivot(n, A);
  if (!(pivot > fast_path_pivot<T>)) return false;
  for (int round = 0; round < 2; ++round) {
    for (int r = 0; r < m; ++r) z[r] = e[r] - dot(n, J + r * n, x);
    transpose_times(m, n, J, z, change);
    for (int j = 0; j < n; ++j) change[j] = fma(-lambda2, x[j], change[j]);
    cholesky_solve(n, A, change);
    for (int j = 0; j < n; ++j) x[j] += change[j];
    if (pivot >= refined_pivot<T>) break;
  }
  return true;
}

// A problem by parts (`find_parts`): the minimizer of ‖J x - e‖² + λ²‖x‖² for J (m x n). The rows
// of postures w x = e, and λ², add up to `square` x = `pull` for each coordinate.
template <class T>
struct Parts {
  int m, n;
  const T *J, *e;
  T lambda2;
  int *label, *row_label, *posture, *column;
  T *square, *pull;  // (n,): λ² + Σw² and Σw e
};

// Copies `count` columns of the rows of a part to J and e, with or without those of postures.
// Returns the number of rows.
template <class T>
SUPPLE_FN int copy_part(const Parts<T>& all, int part, int count, bool postures, T* J, T* e) {
  int rows = 0;
  for (int r = 0; r < all.m; ++r) {
    if (all.row_label[r] != part || (all.posture[r] >= 0 && !postures)) continue;
    e[rows++] = all.e[r];
    for (int c = 0; c < count; ++c) *J++ = all.J[r * all.n + all.column[c]];
  }
  return rows;
}

// Computes x (columns), the solution of a part. all.column are its coordinates, of which the first
// `free` are not stopped. Returns false if J is too close to singular, or not all σ² of the free
// columns, without postures, are above `least`, unless `least` is negative.
template <class T>
SUPPLE_FN bool part_step(const Parts<T>& all, int part, int free, int columns, T least, T* x,
                         T* scratch) {
  const int k = all.m < all.n ? all.m : all.n;
  T *J = scratch, *e = J + all.m * all.n, *A = e + all.m, *work = A + k * k;
  int rows = copy_part(all, part, free, false, J, e);
  const int count = rows < free ? rows : free;
  if (rows > 0) smaller_gram(rows, free, J, A);
  if (rows > 0 && least >= 0) {
    for (int i = 0; i < count * count; ++i) work[i] = A[i];
    for (int i = 0; i < count; ++i) work[i * count + i] -= least;
    if (!(relative_pivot(count, work) > fast_path_pivot<T>)) return false;
  }
  T lightest = Number<T>::huge, heaviest(0);
  for (int c = 0; c < columns; ++c) {
    const T square = all.square[all.column[c]];
    lightest = min(lightest, square), heaviest = max(heaviest, square);
    x[c] = square > 0 ? all.pull[all.column[c]] / square : T(0);
  }
  if (rows == 0) return true;
  if (rows > columns || (heaviest > 0 && !(lightest > 0))) {
    rows = copy_part(all, part, columns, true, J, e);
    return least_squares(rows, columns, J, e, all.lambda2, x, work);
  }
  if (free < columns) copy_part(all, part, columns, false, J, e);
  const bool scaled = lightest < heaviest;  // by the weights of the postures
  for (int c = 0; scaled && c < columns; ++c) {
    const T weight = sqrt(all.square[all.column[c]]);
    for (int r = 0; r < rows; ++r) J[r * columns + c] /= weight;
    x[c] *= weight;
  }
  if (scaled || free < columns) gram(rows, columns, J, A);
  if (!nearest_solution(rows, columns, J, e, scaled ? T(1) : heaviest, A, x, work)) return false;
  for (int c = 0; scaled && c < columns; ++c) x[c] /= sqrt(all.square[all.column[c]]);
  return true;
}

// Divides a problem with J (m x n) and e (m) into parts, in `scratch`. Returns false if some row
// depends on no coordinate.
template <class T>
SUPPLE_FN bool divide(const StepRows<T>& of, const T* J, const T* e, T lambda2, Parts<T>& all,
                      T* scratch) {
  const int m = of.count, n = of.chain.coordinates;
  int *label = reinterpret_cast<int*>(scratch), *column = label + n, *row_label = column + n;
  T* const square = scratch + 2 * (m + n);
  all = {m, n, J, e, lambda2, label, row_label, row_label + m, column, square, square + n};
  if (!find_parts(of, label, row_label, all.posture)) return false;
  for (int j = 0; j < n; ++j) all.square[j] = lambda2, all.pull[j] = T(0);
  for (int r = 0; r < m; ++r) {
    const int j = all.posture[r];
    if (j < 0) continue;
    const T weight = J[r * n + j];
    all.square[j] = fma(weight, weight, all.square[j]);
    all.pull[j] = fma(weight, e[r], all.pull[j]);
  }
  return true;
}

// Computes dq (n), the step without damping and without corrections for folds. Returns false if a
// part of J (m x n) is close to a fold: some σ² is at most `range` ‖left‖, not counting the rows of
// postures and the columns whose entry of `stopped` (n) is not zero. `left` (m) is the part of e
// that remains for the joints that are not stopped.
template <class T>
SUPPLE_NOINLINE_DEVICE bool decoupled_step(const StepRows<T>& of, const T* J, const T* e,
                                           const T* left, const T* stopped, T range, T* dq,
                                           T* scratch) {
  Parts<T> all;
  if (!divide(of, J, e, T(0), all, scratch)) return false;
  T *x = all.pull + all.n, *rest = x + all.n, size(0);
  for (int r = 0; r < all.m; ++r) {
    if (all.posture[r] < 0) size = fma(left[r], left[r], size);
  }
  const T least = range * sqrt(size);
  for (int part = 0; part < all.n; ++part) {
    if (all.label[part] != part) continue;
    int columns = members(all.n, all.label, part, stopped, all.column);
    const int free = columns;
    for (int j = 0; j < all.n; ++j) {
      if (all.label[j] == part && stopped[j] != 0) all.column[columns++] = j;
    }
    if (!part_step(all, part, free, columns, least, x, rest)) return false;
    for (int c = 0; c < columns; ++c) dq[all.column[c]] = x[c];
  }
  return true;
}

// Computes dq (n), the minimizer of ‖J dq - e‖² + λ²‖dq‖² for J (m x n) in which only columns of
// the same part are coupled. Columns whose entry of `stopped` (n; may be null) is not zero are
// zero, as their entries of dq. Returns false if J is too close to singular.
template <class T>
SUPPLE_NOINLINE_DEVICE bool damped_step_by_parts(const StepRows<T>& of, const T* J, const T* e,
                                                 T lambda2, const T* stopped, T* dq, T* scratch) {
  Parts<T> all;
  if (!divide(of, J, e, lambda2, all, scratch)) return false;
  T *x = all.pull + all.n, *rest = x + all.n;
  for (int j = 0; j < all.n; ++j) dq[j] = T(0);
  for (int part = 0; part < all.n; ++part) {
    if (all.label[part] != part) continue;
    const int columns = members(all.n, all.label, part, stopped, all.column);
    if (columns == 0) continue;
    if (!part_step(all, part, columns, columns, T(-1), x, rest)) return false;
    for (int c = 0; c < columns; ++c) dq[all.column[c]] = x[c];
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
