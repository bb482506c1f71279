// The step of yielding.hpp for a robot with a floating base and a task for its posture, far from
// singularities: the step without damping, as in regular_step.hpp, on packs.
//
// Rows of a posture have one entry each, w_j in the column of a joint. With the other rows J_c and
// the diagonal matrix P of w_j², the normal equations are
//
//   (J_cᵀ J_c + P) x = Jᵀ e
//
// These equations are solved for the offset o and the velocity t of the target at once: the step is
// gain x_o + x_t. Iterative refinement with residuals of J itself restores the accuracy that J_cᵀ
// J_c loses, and verifies it: the last correction must be small. Constants are explained in
// docs/constants.md.
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
// Largest size of the last correction of a refined step, relative to the step. The error that
// remains is about the square of it.
inline constexpr double last_correction_double = 1e-8;
inline constexpr float last_correction_float = 1e-3;
template <class T>
inline constexpr T last_correction =
    sizeof(T) == 8 ? T(last_correction_double) : T(last_correction_float);
inline constexpr int most_corrections = 4;

// Finds the packs of J_c that are not zero, since joints move only the frames after them. The rows
// of each task form a run, and so do consecutive columns with the same packs. `column_packs` (n) is
// scratch memory.
template <class T>
SUPPLE_FN void find_runs(const StepRows<T>& of, int& row_runs, RowRun* row_run, int& column_runs,
                         RowRun* column_run, unsigned* column_packs) {
  constexpr int W = pack_width<T>;
  const int n = of.chain.nv;
  row_runs = column_runs = 0;
  for (int j = 0; j < n; ++j) column_packs[j] = 0;
  for (int k = 0, i = 0, row = 0; k < of.tasks; ++k) {
    const Task<T>& task = of.task[k];
    const int first = row;
    for (int own = 0; own < task.rows; ++own, ++i) {
      row += !traits_of(task).is_linear && !(of.held && !(of.held[i] < Number<T>::huge));
    }
    if (row == first) continue;
    unsigned rows = 0, packs = 0;
    for (int r = first / W; r <= (row - 1) / W; ++r) rows |= pack_bit(r);
    const auto mark = [&](int j) { packs |= pack_bit(j / W), column_packs[j] |= rows; };
    const auto mark_support = [&](const Frame<T>& frame) {
      for (int s = frame.support_begin; s < frame.support_end; ++s) {
        mark(of.chain.joint[of.chain.support[s].joint].v_index);
      }
    };
    if (traits_of(task).has_frame) {
      each_frame(task, [&](int frame) { mark_support(of.chain.frame[frame]); });
    } else {
      for (int j = 0; j < n; ++j) mark(j);
    }
    row_run[row_runs++] = {row, packs};
  }
  for (int j = 0; j < n; ++j) {
    const bool same = j > 0 && column_packs[j] == column_packs[j - 1];
    if (!same) column_run[column_runs++].packs = column_packs[j];
    column_run[column_runs - 1].end = j + 1;
  }
}

// Returns a bound on σ² as `near_square` does, but a sharper one if a posture is far from its
// target. The part of o along a direction u with the singular value σ is at most the length of o of
// the curved rows plus ‖Pᵀo‖/σ for those of the posture, whose part of u is P v/σ; the same holds
// for t + s o. A smaller bound on σ² is valid if `near_square`, with the lengths that follow for
// this σ, returns no larger value.
template <class T>
SUPPLE_FN T sharper_near_square(const Servo<T>& servo, int n, const JointLimit<T>* limit, T near,
                                T speed, T speed_pull, T offset, T offset_pull) {
  for (;;) {
    const T less = near / 2, root = sqrt(less);
    const T needed =
        near_square(servo, n, limit, T(speed + speed_pull / root), T(offset + offset_pull / root));
    if (!(needed <= less) || !(less > T(0))) return near;
    near = less;
  }
}

// Computes x (2, n), the solutions for the right-hand sides o and t (`sides` of them), by the
// factors A and B and iterative refinement. `inverse` (n) is the inverse of the factor's diagonal,
// and size (2) are the lengths of o and t. pull(side, x, to) computes Jᵀ(o - J x) or Jᵀ(t - J x).
// Returns false if it does not converge.
template <class T, class Pull>
SUPPLE_INLINE bool refine_sides(int n, const T* A, const T* B, const T* inverse, int sides,
                                const T* size, T* x, T* change, Pull&& pull) {
  const int s = padded<T>(n);
  // The change of x by rounding errors of e: where e is small, or out of reach, x need not be more
  // accurate.
  T softest(0);
  for (int j = 0; j < n; ++j) softest = max(softest, inverse[j]);
  const T noise = T(64) * Number<T>::epsilon * softest;
  for (int i = 0; i < 2 * s; ++i) x[i] = T(0);
  bool small = false;
  for (int round = 0; !small; ++round) {
    if (round == most_corrections) return false;
    for (int side = 0; side < sides; ++side) pull(side, x + side * s, change + side * s);
    factor_solve(n, A, B, sides, change);
    small = true;
    for (int side = 0; side < sides; ++side) {
      T most(0), moved(0);
      for (int j = side * s; j < side * s + n; ++j) {
        x[j] += change[j];
        most = max(most, abs(x[j])), moved = max(moved, abs(change[j]));
      }
      small = small && moved <= max(last_correction<T> * most, noise * size[side]);
    }
  }
  return true;
}

// Takes the step gain x_o + x_t of the sides x (2, n).
template <class T>
SUPPLE_INLINE void take_sides(int m, int n, const StepProblem<T>& of, const T* x) {
  const Servo<T>& servo = of.servo;
  const int s = padded<T>(n);
  const T gain = braking_gain(n, of.limit, servo.gain, servo.dt, x);
  for (int j = 0; j < n; ++j) of.dq[j] = fma(gain, x[j], x[s + j]);
  for (int r = 0; r < m; ++r) of.used_e[r] = fma(gain, of.offset[r], of.rate[r]);
  if (of.used_J != of.J) copy_numbers(m * n, of.J, of.used_J);
}

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
  // The arrays of the sides o and t follow each other.
  T *Jc = aligned_rows(scratch), *turned = Jc + curved * s, *A = turned + s * c, *B = A + n * s,
    *x = B + n * s, *change = x + 2 * s, *pull = change + 2 * s, *stiff = pull + 2 * s,
    *lost = stiff + s, *e = lost + c, *inverse = e + 2 * c;
  int row_runs, column_runs;
  RowRun *row_run = reinterpret_cast<RowRun*>(inverse + n), *column_run = row_run + servo.tasks;
  find_runs(rows_of(servo, of.state), row_runs, row_run, column_runs, column_run,
            reinterpret_cast<unsigned*>(column_run + n));
  for (int j = 0; j < 3 * s; ++j) pull[j] = T(0);
  bool moves = false;  // whether the targets have velocities
  for (int k = 0, i = 0, r = 0, row = 0; k < servo.tasks; ++k) {
    const Task<T>& task = servo.task[k];
    const bool linear = traits_of(task).is_linear;
    for (int own = 0; own < task.rows; ++own, ++i) {
      if (of.state.held && !(of.state.held[i] < Number<T>::huge)) continue;
      moves = moves || of.rate[r] != 0;
      if (linear) {
        const int j = task.coordinate[own];
        const T entry = of.J[r * n + j];
        stiff[j] = fma(entry, entry, stiff[j]);
        pull[j] = fma(entry, of.offset[r], pull[j]);
        pull[s + j] = fma(entry, of.rate[r], pull[s + j]);
      } else {
        copy_numbers(n, of.J + r * n, Jc + row * s);
        for (int j = n; j < s; ++j) Jc[row * s + j] = T(0);
        e[row] = of.offset[r], e[c + row] = of.rate[r];
        ++row;
      }
      of.used_e[r] = fma(servo.gain, of.offset[r], of.rate[r]);
      ++r;
    }
  }
  const int sides = moves ? 2 : 1;
  const T size[2] = {sqrt(row_square(m, of.offset)), moves ? sqrt(row_square(m, of.rate)) : T(0)};
  padded_transpose(curved, n, Jc, turned);
  const auto is_far = [&](T near) {
    upper_gram(column_runs, column_run, curved, turned, A);
    for (int i = 0; i < curved; ++i) A[i * c + i] -= near;
    return upper_factor(curved, A) > fast_path_pivot<T>;
  };
  const T near = near_square(servo, n, of.limit, sqrt(row_square(m, of.used_e)), size[0]);
  if (!is_far(near)) {
    for (int i = 0; i < c; ++i) lost[i] = fma(servo.gain, e[i], e[c + i]);
    for (int j = 0; j < s; ++j) change[j] = fma(servo.gain, pull[j], pull[s + j]);
    const T sharper = sharper_near_square(servo, n, of.limit, near, sqrt(row_square(curved, lost)),
                                          sqrt(row_square(n, change)), sqrt(row_square(curved, e)),
                                          sqrt(row_square(n, pull)));
    if (!(sharper < near) || !is_far(sharper)) return false;
  }
  upper_gram(row_runs, row_run, n, Jc, A);
  for (int j = 0; j < n; ++j) {
    T& diagonal = A[j * s + j];
    diagonal = of.stopped[j] != 0 ? A[0] + T(1) : diagonal + stiff[j];  // else its row is zero
  }
  if (!(upper_factor(n, A, B, inverse) > least_posture_pivot<T>)) return false;
  const auto pull_at = [&](int side, const T* at, T* to) {
    rows_times(n, curved, turned, at, lost);
    for (int i = 0; i < curved; ++i) lost[i] = e[side * c + i] - lost[i];
    rows_times(curved, n, Jc, lost, to);
    for (int j = 0; j < n; ++j) to[j] += fma(-stiff[j], at[j], pull[side * s + j]);
  };
  if (!refine_sides(n, A, B, inverse, sides, size, x, change, pull_at)) return false;
  take_sides(m, n, of, x);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
