// The step of yielding.hpp for a robot that holds tasks: that of J projected onto their space.
//
// Where the tasks have more rows than the space has dimensions, rows κ Q are added, which ask for
// no motion out of the space. They make the normal equations regular, and change nothing else,
// because they are perpendicular to the projected rows.
#pragma once

#include "supple/servo/posture_step.hpp"

namespace supple::inline SUPPLE_ISA {

// Number of entries of scratch memory that `take_held_step` needs besides that of a step with the
// added rows.
SUPPLE_FN constexpr int held_step_scratch(int m, int n, int held) {
  return (m + held) * (2 * n + 6) + 2 * (m + held) + 2 * n + 4 * held + (m + held + 3) * (n + 16) +
         2 * (n + 16) * (n + 16);
}

// Computes the step of.dq for m > n rows, none of which belongs to a single joint. Returns false if
// J is not far from singular.
template <class T>
SUPPLE_NOINLINE_DEVICE bool dense_step(int m, int n, const StepProblem<T>& of, T* scratch) {
  const Servo<T>& servo = of.servo;
  int curved = 0;
  for (int r = 0; r < m; ++r) curved += of.bends[r] != 0;
  if (curved > n) return false;
  const int s = padded<T>(n), c = padded<T>(curved);
  T *J = aligned_rows(scratch), *A = J + m * s, *B = A + n * s, *x = B + n * s, *change = x + 2 * s,
    *left = change + 2 * s, *inverse = left + m, *turned = B;
  T speed(0), offset(0);
  for (int r = 0, i = 0; r < m; ++r) {
    copy_numbers(n, of.J + r * n, J + r * s);
    for (int j = n; j < s; ++j) J[r * s + j] = T(0);
    speed += square(fma(servo.gain, of.offset[r], of.rate[r]));
    offset += square(of.offset[r]);
    if (of.bends[r] == 0) continue;
    for (int j = 0; j < n; ++j) turned[j * c + i] = of.J[r * n + j];
    ++i;
  }
  for (int j = 0; j < n; ++j) {
    for (int i = curved; i < c; ++i) turned[j * c + i] = T(0);
  }
  const T near = near_square(servo, n, of.limit, sqrt(speed), sqrt(offset));
  upper_gram(n, curved, turned, A);
  for (int i = 0; i < curved; ++i) A[i * c + i] -= near;
  if (curved > 0 && !(upper_factor(curved, A) > fast_path_pivot<T>)) return false;
  upper_gram(m, n, J, A);
  for (int j = 0; j < n; ++j) {
    if (of.stopped[j] != 0) A[j * s + j] = A[0] + T(1);  // its row and column are zero
  }
  if (!(upper_factor(n, A, B, inverse) > least_posture_pivot<T>)) return false;
  const T size[2] = {length(m, of.offset), length(m, of.rate)};
  const auto pull_at = [&](int side, const T* at, T* to) {
    const T* const wanted = side == 0 ? of.offset : of.rate;
    for (int r = 0; r < m; ++r) left[r] = wanted[r] - padded_dot(0, s, J + r * s, at);
    rows_times(m, n, J, left, to);
  };
  if (!refine_sides(n, A, B, inverse, 2, size, x, change, pull_at)) return false;
  take_sides(m, n, of, x);
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
  T *J = scratch, *used_J = J + all * n, *offset = used_J + all * n, *rate = offset + all,
    *slope = rate + all, *bends = slope + all, *used_e = bends + all, *lost = used_e + all,
    *whole = lost + all, *rest = whole + 2 * (all + n) + 4 * servo.held_rows;
  copy_numbers(m * n, of.J, J);
  for (int r = 0; r < all; ++r) {
    const bool own = r < m;
    offset[r] = own ? of.offset[r] : T(0);
    rate[r] = own ? fma(T(-1), dot(n, J + r * n, held.x), of.rate[r]) : T(0);
    slope[r] = own ? of.slope[r] : T(0);
    bends[r] = own ? of.bends[r] : T(0);
    lost[r] = T(0);
  }
  project_rows(servo, held, m, J);
  const T kappa = servo.curvature / servo.dt;
  for (int k = 0; k < extra; ++k) {
    for (int j = 0; j < n; ++j) J[(m + k) * n + j] = kappa * held.Q[k * s + j];
  }
  StepProblem<T> some = of;
  some.J = J, some.offset = offset, some.rate = rate, some.slope = slope, some.bends = bends;
  some.linear = of.linear || extra > 0, some.avoids = false;
  some.used_J = used_J, some.used_e = used_e, some.lost = lost, some.whole = whole;
  some.holding = of.state.held ? nullptr : &held;
  bool taken = false;
  if constexpr (has_packs<T>) taken = all > n && dense_step(all, n, some, rest);
  if (!taken) take(all, n, some, rest);
  for (int j = 0; j < n; ++j) of.dq[j] += of.stopped[j] == 0 ? held.x[j] : T(0);
  copy_numbers(m * n, used_J, of.used_J);
  copy_numbers(m, used_e, of.used_e);
  copy_numbers(m, lost, of.lost);
}

}  // namespace supple::inline SUPPLE_ISA
