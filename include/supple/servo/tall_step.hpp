// Damped least squares for a robot with a floating base and more rows than joints, on packs, where
// λ² needs no singular values:  (JᵀJ + λ²) x = Jᵀ e, with verified refinement as in
// posture_step.hpp.
#pragma once

#include "supple/servo/posture_step.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes the step dq (n) and its damping. Returns false if the step has another form, or if the
// normal equations are not regular enough; then nothing is computed. `scratch` is that of `step`.
template <class T>
SUPPLE_NOINLINE_DEVICE bool tall_step(const Step<T>& how, int m, int n, const T* J, const T* e,
                                      T* dq, T& lambda2, T* scratch) {
  const T p = how.damping.p[0];
  T damping(0);
  if (m <= n || how.method != Method::damped_quick) return false;
  if (how.damping.rule == Rule::constant) {
    damping = p;
  } else if (how.damping.rule == Rule::error) {
    damping = p * dot(m, e, e);
  } else if (how.damping.rule == Rule::error_norm) {
    damping = p * length(m, e);
  } else {
    return false;
  }
  const int s = padded<T>(n);
  T *rows = aligned_rows(scratch), *A = rows + m * s, *lower = A + n * s, *x = lower + n * s,
    *change = x + s, *left = change + s, *inverse = left + m;
  for (int i = 0; i < m; ++i) {
    copy_numbers(n, J + i * n, rows + i * s);
    for (int j = n; j < s; ++j) rows[i * s + j] = T(0);
  }
  upper_gram(m, n, rows, A);
  for (int j = 0; j < n; ++j) A[j * s + j] += damping;
  if (!(upper_factor(n, A, lower, inverse) > least_posture_pivot<T>)) return false;
  T softest(0);
  for (int j = 0; j < n; ++j) softest = max(softest, inverse[j]);
  const T noise = T(64) * Number<T>::epsilon * softest * length(m, e);
  for (int j = 0; j < s; ++j) x[j] = T(0);
  for (int round = 0; round < most_corrections; ++round) {
    for (int i = 0; i < m; ++i) left[i] = round ? e[i] - dot(n, J + i * n, x) : e[i];
    rows_times(m, n, rows, left, change);
    for (int j = 0; j < n; ++j) change[j] = fma(-damping, x[j], change[j]);
    factor_solve(n, A, lower, 1, change);
    T most(0), moved(0);
    for (int j = 0; j < n; ++j) {
      x[j] += change[j];
      most = max(most, abs(x[j])), moved = max(moved, abs(change[j]));
    }
    if (!(moved <= max(last_correction<T> * most, noise))) continue;
    copy_numbers(n, x, dq);
    lambda2 = damping;
    return true;
  }
  return false;
}

}  // namespace supple::inline SUPPLE_ISA
