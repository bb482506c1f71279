// The step of yielding.hpp for a robot that holds tasks: that of J projected onto their space.
//
// Where the tasks have more rows than the space has dimensions, rows κ Q with the command zero are
// added, which demand that no motion leaves the space. The added rows make the normal equations
// regular, and change nothing else, because they are perpendicular to the projected rows.
#pragma once

#include "supple/servo/posture_step.hpp"

namespace supple::inline SUPPLE_ISA {

// Number of entries of scratch memory that `take_held_step` needs besides that of a step with the
// added rows.
SUPPLE_FN constexpr int held_step_scratch(int m, int n, int held) {
  return (m + held) * (4 * n + 2 * 16 + 10) + 6 * n + 4 * held + projection_scratch(n, held) +
         row_factor_scratch(n, held) + (n + 16) * (3 * n + 2 * 16 + 8) + 10 * 16;
}

// Computes the step of.dq for m > n rows J, padded, none of which belongs to a single joint. Does
// not change of.used_J. Returns false if J is not far from singular.
template <class T>
SUPPLE_NOINLINE_DEVICE bool dense_step(int m, int n, const StepProblem<T>& of, const T* J,
                                       T* scratch) {
  const Servo<T>& servo = of.servo;
  int curved = 0;
  for (int r = 0; r < m; ++r) curved += of.bends[r] != 0;
  if (curved > n) return false;
  const int s = padded<T>(n), c = padded<T>(curved);
  T *A = aligned_rows(scratch), *B = A + n * s, *turned = B + n * s, *x = turned + s * c,
    *change = x + 2 * s, *left = change + 2 * s, *inverse = left + padded<T>(m), *Jc = B;
  T speed(0), offset(0);
  for (int r = 0, i = 0; r < m; ++r) {
    speed += square(fma(servo.gain, of.offset[r], of.rate[r]));
    offset += square(of.offset[r]);
    if (of.bends[r] != 0) copy_numbers(s, J + r * s, Jc + i++ * s);
  }
  padded_transpose(curved, n, Jc, turned);
  const T near = near_square(servo, n, of.limit, sqrt(speed), sqrt(offset));
  upper_gram(n, curved, turned, A);
  for (int i = 0; i < curved; ++i) A[i * c + i] -= near;
  if (curved > 0 && !(upper_factor(curved, A) > fast_path_pivot<T>)) return false;
  // Without limits on acceleration the gain is known, and a single right-hand side, the whole
  // command, is enough.
  bool brakes = false;
  for (int j = 0; j < n; ++j) brakes = brakes || of.limit[j].acceleration < Number<T>::huge;
  upper_gram(m, n, J, A);
  for (int j = 0; j < n; ++j) {
    if (of.stopped[j] != 0) A[j * s + j] = A[0] + T(1);  // its row and column are zero
  }
  if (!(upper_factor(n, A, B, inverse) > least_posture_pivot<T>)) return false;
  for (int r = 0; r < m; ++r) of.used_e[r] = fma(servo.gain, of.offset[r], of.rate[r]);
  const T size[2] = {sqrt(brakes ? offset : speed), length(m, of.rate)};
  const auto pull_at = [&](int side, const T* at, T* to) {
    const T* const wanted = !brakes ? of.used_e : side == 0 ? of.offset : of.rate;
    row_dots(m, n, J, at, left);
    for (int r = 0; r < m; ++r) left[r] = wanted[r] - left[r];
    rows_times(m, n, J, left, to);
  };
  if (!refine_sides(n, A, B, inverse, brakes ? 2 : 1, size, x, change, pull_at)) return false;
  if (brakes) {
    take_sides(m, n, of, x);
  } else {
    copy_numbers(n, x, of.dq);
  }
  return true;
}

// Computes the step of.dq with held tasks. `speed` (n) are the speeds of the joints that are
// stopped; `take(m, n, problem, scratch)` computes a step without held tasks.
template <class T, class Take>
SUPPLE_FN void take_held_step(int m, int n, const StepProblem<T>& of, const T* speed, T* scratch,
                              Take&& take) {
  const Servo<T>& servo = of.servo;
  Holding<T>& held = *of.state.holding;
  bool stops = false;
  for (int j = 0; j < n; ++j) stops = stops || of.stopped[j] != 0;
  if (stops || held.partial) find_held_space(servo, held, of.stopped, speed, scratch);
  held.partial = stops;
  const int extra = m + held.rank > n ? held.rank : 0, all = m + extra, s = padded<T>(n);
  T *rows = aligned_rows(scratch), *along = rows + all * s, *J = along + padded<T>(m),
    *used_J = J + all * n, *offset = used_J + all * n, *rate = offset + all, *slope = rate + all,
    *bends = slope + all, *used_e = bends + all, *lost = used_e + all, *whole = lost + all,
    *rest = whole + 2 * (all + n) + 4 * servo.held_rows;
  pad_rows(m, n, of.J, rows);
  row_dots(m, n, rows, held.x, along);
  for (int r = 0; r < all; ++r) {
    const bool own = r < m;
    offset[r] = own ? of.offset[r] : T(0);
    rate[r] = own ? of.rate[r] - along[r] : T(0);
    slope[r] = own ? of.slope[r] : T(0);
    bends[r] = own ? of.bends[r] : T(0);
    lost[r] = T(0);
  }
  project_rows(servo, held, m, rows, rest);
  const T kappa = servo.curvature / servo.dt;
  for (int i = 0; i < extra * s; ++i) rows[m * s + i] = kappa * held.Q[i];
  StepProblem<T> some = of;
  some.J = some.used_J = rows;
  some.offset = offset, some.rate = rate, some.slope = slope, some.bends = bends;
  some.linear = of.linear || extra > 0, some.avoids = false;
  some.used_e = used_e, some.lost = lost, some.whole = whole;
  some.holding = of.state.held ? nullptr : &held;
  bool taken = false;
  if constexpr (has_packs<T>) {
    taken = all > n && dense_step(all, n, some, static_cast<const T*>(rows), rest);
  }
  if (taken) {
    unpad_rows(m, n, rows, of.used_J);
  } else {
    unpad_rows(all, n, rows, J);
    some.J = J, some.used_J = used_J;
    take(all, n, some, rest);
    copy_numbers(m * n, used_J, of.used_J);
  }
  for (int j = 0; j < n; ++j) of.dq[j] += of.stopped[j] == 0 ? held.x[j] : T(0);
  copy_numbers(m, used_e, of.used_e);
  copy_numbers(m, lost, of.lost);
}

}  // namespace supple::inline SUPPLE_ISA
