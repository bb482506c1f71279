// The smallest and the largest eigenvalue of a symmetric matrix on lanes.
#pragma once

#include "supple/math/linalg/matrix.hpp"

namespace supple::inline SUPPLE_ISA {

// Reduces a symmetric A (n x n; the lower triangle is read, all of A is overwritten) to a
// tridiagonal matrix with the same eigenvalues, by Householder reflections. d (n) is its diagonal,
// off2 (n; the last is zero) the squares of the entries next to the diagonal. `v` (n) and `w` (n)
// are scratch memory.
template <class L, class N>
SUPPLE_FN void tridiagonal(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT d,
                           L* SUPPLE_RESTRICT off2, L* SUPPLE_RESTRICT v, L* SUPPLE_RESTRICT w) {
  const int n = size;
  SUPPLE_UNROLL_HOST for (int k = 0; k < n; ++k) {
    d[k] = a[k * n + k];
    if (k + 2 >= n) {
      off2[k] = k + 1 < n ? a[(k + 1) * n + k] * a[(k + 1) * n + k] : L(0);
      continue;
    }
    L sum(0);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      v[i] = a[i * n + k];
      sum = fma(v[i], v[i], sum);
    }
    off2[k] = sum;
    // H = I - tau v v^T reflects the column below the diagonal to (∓norm, 0, ...).
    const L norm = sqrt(sum);
    const mask_t<L> reflect = sum >= L(Number<scalar_t<L>>::tiny);
    const L head = norm + abs(v[k + 1]);
    const L tau = select(reflect, L(1) / select(reflect, norm * head, L(1)), L(0));
    v[k + 1] = copysign(head, v[k + 1]);
    // A <- A - v w^T - w v^T  with  w = p - (tau/2 p^T v) v  and  p = tau A v
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) w[i] = L(0);
    SUPPLE_UNROLL_HOST for (int j = k + 1; j < n; ++j) {
      SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
        w[i] = fma(i < j ? a[j * n + i] : a[i * n + j], v[j], w[i]);
      }
    }
    L along(0);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      w[i] = w[i] * tau;
      along = fma(w[i], v[i], along);
    }
    along = along * (tau * L(scalar_t<L>(0.5)));
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) w[i] = fma(-along, v[i], w[i]);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      SUPPLE_UNROLL_HOST for (int j = k + 1; j <= i; ++j) {
        a[i * n + j] = fma(-v[i], w[j], fma(-w[i], v[j], a[i * n + j]));
      }
    }
  }
}

// Returns the smallest eigenvalue of a positive semidefinite tridiagonal matrix (d and off2 as in
// `tridiagonal`) whose norm is near 1, to a few ulps of 1. Laguerre's method on the characteristic
// polynomial approaches the smallest root from below. Lanes that do not converge are removed from
// `valid`.
template <class L, class N>
SUPPLE_FN L smallest_eigenvalue(N size, const L* SUPPLE_RESTRICT d, const L* SUPPLE_RESTRICT off2,
                                mask_t<L>& valid) {
  using T = scalar_t<L>;
  constexpr int max_iterations = 40;
  constexpr T epsilon = Number<T>::epsilon;
  const int n = size;
  const L count((T(n)));
  L s(0), before(0);
  mask_t<L> open = valid;
  for (int k = 0; k < max_iterations; ++k) {
    // p, dp, ddp: leading principal minor of A - s I of size i, with its first and second
    // derivatives in s; p0, dp0, ddp0: those of size i - 1.
    L p(1), dp(0), ddp(0), p0(0), dp0(0), ddp0(0);
    SUPPLE_UNROLL_HOST for (int i = 0; i < n; ++i) {
      const L x = d[i] - s, b = i ? -off2[i > 0 ? i - 1 : 0] : L(0);
      const L p1 = fma(b, p0, x * p), dp1 = fma(b, dp0, fma(x, dp, -p)),
              ddp1 = fma(b, ddp0, fma(x, ddp, -(dp + dp)));
      p0 = p, dp0 = dp, ddp0 = ddp;
      p = p1, dp = dp1, ddp = ddp1;
    }
    open = open & (p > L(0)) & (dp < L(0));  // otherwise s is the root up to rounding
    if (!any(open)) return s;
    // Laguerre's step n p/(-p' + √((n - 1)((n - 1) p'² - n p p''))), which is positive.
    const L root = (count - L(1)) * fma((count - L(1)) * dp, dp, -(count * p * ddp));
    const L step = count * p / select(open, sqrt(max(root, L(0))) - dp, L(1));
    s = select(open, s + step, s);
    // Laguerre's method converges cubically: the next step is about step · (step/before)³. Stop
    // when that is negligible.
    const L less = step * step;
    open = open & (step > L(epsilon)) & (less * less > L(epsilon) * before * before * before);
    before = step;
    if (!any(open)) return s;
  }
  valid = valid & !open;
  return s;
}

// Computes the smallest and the largest eigenvalue (each only if its pointer is not null) of a
// symmetric positive semidefinite A (n x n; the lower triangle is read, all of A is overwritten),
// to a few ulps of the largest one. Returns the lanes with valid results: those where the iteration
// converged and the trace is neither too small nor too large. `work` has 4 n lanes.
template <class L, class N>
SUPPLE_FN mask_t<L> extreme_eigenvalues(N size, L* SUPPLE_RESTRICT a, L* smallest, L* largest,
                                        L* SUPPLE_RESTRICT work) {
  using T = scalar_t<L>;
  constexpr T lowest = T(sizeof(T) == 8 ? 0x1p-400 : 0x1p-32), highest = 1 / lowest;
  const int n = size;
  L *d = work, *off2 = d + n, trace(0);
  for (int i = 0; i < n; ++i) trace = trace + a[i * n + i];
  const mask_t<L> usable = (trace > L(lowest)) & (trace < L(highest));
  const L unit = power_of_two(select(usable, trace, L(1))), shrink = L(1) / unit;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) a[i * n + j] = a[i * n + j] * shrink;
  }
  tridiagonal(size, a, d, off2, off2 + n, off2 + 2 * n);
  mask_t<L> valid = usable;
  if (smallest) *smallest = smallest_eigenvalue(size, d, off2, valid) * unit;
  if (largest) {  // c minus the smallest eigenvalue of c - A, with c above all eigenvalues of A
    const L c = trace * shrink;
    for (int i = 0; i < n; ++i) d[i] = c - d[i];
    *largest = (c - smallest_eigenvalue(size, d, off2, valid)) * unit;
  }
  return valid;
}

// Calls `extreme_eigenvalues`. Common sizes are passed as compile-time constants, which gives the
// same result bit for bit.
template <class L>
SUPPLE_NOINLINE_DEVICE mask_t<L> extreme_eigenvalues_any_size(int n, L* a, L* smallest, L* largest,
                                                              L* work) {
  if (n == 6) return extreme_eigenvalues(Fixed<6>{}, a, smallest, largest, work);
  if (n == 3) return extreme_eigenvalues(Fixed<3>{}, a, smallest, largest, work);
  return extreme_eigenvalues(n, a, smallest, largest, work);
}
template <class L, int N>
SUPPLE_INLINE mask_t<L> extreme_eigenvalues_any_size(Fixed<N> n, L* a, L* smallest, L* largest,
                                                     L* work) {
  return extreme_eigenvalues(n, a, smallest, largest, work);
}

}  // namespace supple::inline SUPPLE_ISA
