// The step of yielding.hpp for a robot with a floating base and a task for its posture, far from
// singularities: the exact one, as in regular_step.hpp, on packs.
//
// Rows of a posture have one entry each, w_j in the column of a joint. With the other rows J_c and
// the diagonal matrix P of w_j², the normal equations are
//
//   (J_cᵀ J_c + P) x = Jᵀ e
//
// They are solved for the offset o and the velocity t of the target at once: the step is gain x_o +
// x_t. Iterative refinement with residuals of J itself restores the accuracy that J_cᵀ J_c loses,
// and verifies it: the last correction must be small. Constants are explained in docs/constants.md.
#pragma once

#include "supple/math/linalg/padded.hpp"
#include "supple/servo/regular_step.hpp"

namespace supple::inline SUPPLE_ISA {

// The smallest pivot of J_cᵀ J_c + P, relative to its largest diagonal entry, with which refinement
// is tried.
inline constexpr double least_posture_pivot_double = 1e-12;
inline constexpr float least_posture_pivot_float = 1e-5;
template <class T>
inline constexpr T least_posture_pivot =
    sizeof(T) == 8 ? T(least_posture_pivot_double) : T(least_posture_pivot_float);
// The last correction of a refined step, relative to the step. The error that remains is about the
// square of it.
inline constexpr double last_correction_double = 1e-8;
inline constexpr float last_correction_float = 1e-3;
template <class T>
inline constexpr T last_correction =
    sizeof(T) == 8 ? T(last_correction_double) : T(last_correction_float);
inline constexpr int most_corrections = 4;

// Computes the step of.dq where J is far from singular. Returns false if it is not, or if the
// problem has another form.
template <class T>
SUPPLE_NOINLINE_DEVICE bool posture_step(int m, int n, const StepProblem<T>& of, T* scratch) {
  const Servo<T>& servo = of.servo;
  if (!is_floating(servo.chain) || !of.linear || of.row || of.avoids || m <= n) return false;
  int curved = 0;
  for (int r = 0; r < m; ++r) curved += of.bends[r] != 0;
  if (curved > n) return false;
  const int s = padded<T>(n), c = padded<T>(curved);
  T *Jc = aligned_rows(scratch), *turned = Jc + curved * s, *A = turned + n * c, *B = A + n * s,
    *x = B + n * s, *change = x + 2 * s, *rest = change + 2 * s, *e = rest + 2 * c,
    *entry = e + 2 * c, *left = entry + m, *inverse = left + 2 * m;
  int* const column = reinterpret_cast<int*>(inverse + n);  // of the entry of each row of a posture
  // J_c and its transpose.
  for (int i = 0; i < n * c; ++i) turned[i] = T(0);
  for (int r = 0, i = 0; r < m; ++r) {
    if (of.bends[r] == 0) continue;
    copy_numbers(n, of.J + r * n, Jc + i * s);
    for (int j = n; j < s; ++j) Jc[i * s + j] = T(0);
    for (int j = 0; j < n; ++j) turned[j * c + i] = Jc[i * s + j];
    e[i] = of.offset[r], e[c + i] = of.rate[r];
    ++i;
  }
  for (int k = 0, i = 0, r = 0; k < servo.tasks; ++k) {
    const Task<T>& task = servo.task[k];
    for (int own = 0; own < task.rows; ++own, ++i) {
      if (of.state.held && !(of.state.held[i] < Number<T>::huge)) continue;
      column[r] = traits_of(task).is_linear ? task.coordinate[own] : -1;
      entry[r] = column[r] < 0 ? T(0) : of.J[r * n + column[r]];
      ++r;
    }
  }
  T speed(0), offset(0);
  for (int r = 0; r < m; ++r) {
    speed += square(fma(servo.gain, of.offset[r], of.rate[r]));
    offset += square(of.offset[r]);
  }
  const T near = near_square(servo, n, of.limit, sqrt(speed), sqrt(offset));
  upper_gram(n, curved, turned, A);
  for (int i = 0; i < curved; ++i) A[i * c + i] -= near;
  if (!(upper_factor(curved, A) > fast_path_pivot<T>)) return false;
  upper_gram(curved, n, Jc, A);
  for (int r = 0; r < m; ++r) {
    if (column[r] >= 0) A[column[r] * (s + 1)] += square(entry[r]);
  }
  for (int j = 0; j < n; ++j) {
    if (of.stopped[j] != 0) A[j * s + j] = A[0] + T(1);  // its row and column are zero
  }
  if (!(upper_factor(n, A, B, inverse) > least_posture_pivot<T>)) return false;
  // What rounding e changes in x: an e that is small, or beyond reach, need not be more accurate.
  T softest(0);
  for (int j = 0; j < n; ++j) softest = max(softest, inverse[j]);
  const T noise = T(64) * Number<T>::epsilon * softest;
  for (int i = 0; i < 2 * s; ++i) x[i] = T(0);
  bool small = false;
  for (int round = 0; !small; ++round) {
    if (round == most_corrections) return false;
    for (int side = 0; side < 2; ++side) {
      const T* const wanted = side == 0 ? of.offset : of.rate;
      T *at = x + side * s, *to = change + side * s, *lost = rest + side * c;
      rows_times(n, curved, turned, at, lost);
      for (int i = 0; i < curved; ++i) lost[i] = e[side * c + i] - lost[i];
      rows_times(curved, n, Jc, lost, to);
      for (int r = 0; r < m; ++r) {
        if (column[r] < 0) continue;
        T& sum = to[column[r]];
        sum = fma(entry[r], fma(-entry[r], at[column[r]], wanted[r]), sum);
      }
    }
    factor_solve(n, A, B, inverse, 2, change);
    small = true;
    for (int side = 0; side < 2; ++side) {
      T most(0), moved(0);
      for (int j = side * s; j < side * s + n; ++j) {
        x[j] += change[j];
        most = max(most, abs(x[j])), moved = max(moved, abs(change[j]));
      }
      const T size = length(m, side == 0 ? of.offset : of.rate);
      small = small && moved <= max(last_correction<T> * most, noise * size);
    }
  }
  const T gain = braking_gain(n, of.limit, servo.gain, servo.dt, x);
  for (int j = 0; j < n; ++j) of.dq[j] = fma(gain, x[j], x[s + j]);
  for (int r = 0; r < m; ++r) of.used_e[r] = fma(gain, of.offset[r], of.rate[r]);
  copy_numbers(m * n, of.J, of.used_J);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
