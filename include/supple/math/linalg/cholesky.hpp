// Symmetric linear systems on lanes, by the factors C C^T (Cholesky) and L D L^T.
#pragma once

#include "supple/math/linalg/matrix.hpp"

namespace supple::inline SUPPLE_ISA {

// Factors a symmetric positive semidefinite A = C C^T (n x n; the lower triangle is read and
// replaced by C). A pivot that is zero to working precision, relative to its diagonal entry of A,
// gives a zero column instead of a division by zero; C C^T then equals A to the square root of
// working precision (to working precision if A is exactly rank deficient). Returns the lanes where
// all pivots are positive: there A has full rank to working precision.
template <class L, class N>
SUPPLE_FN mask_t<L> cholesky(N n, L* SUPPLE_RESTRICT a) {
  using T = scalar_t<L>;
  mask_t<L> full = L(0) == L(0);
  for (int k = 0; k < n; ++k) {
    const L floor = a[k * n + k] * L(T(n) * Number<T>::epsilon);
    L pivot = a[k * n + k];
    for (int j = 0; j < k; ++j) pivot = fma(-a[k * n + j], a[k * n + j], pivot);
    const mask_t<L> positive = (pivot > floor) & (pivot > L(0));
    full = full & positive;
    const L root = sqrt(select(positive, pivot, L(1)));
    const L inverse = select(positive, L(1) / root, L(0));
    a[k * n + k] = select(positive, root, L(0));
    for (int i = k + 1; i < n; ++i) {
      L entry = a[i * n + k];
      for (int j = 0; j < k; ++j) entry = fma(-a[i * n + j], a[k * n + j], entry);
      a[i * n + k] = entry * inverse;
    }
  }
  return full;
}

// x <- A^-1 x with the factor C from `cholesky`. Components with a zero pivot are set to zero: even
// if A is rank deficient, the result solves A x = b for every b in the range of A.
template <class L, class N>
SUPPLE_FN void cholesky_solve(N n, const L* SUPPLE_RESTRICT c, L* SUPPLE_RESTRICT x) {
  for (int i = 0; i < n; ++i) {
    L sum = x[i];
    for (int j = 0; j < i; ++j) sum = fma(-c[i * n + j], x[j], sum);
    const L d = c[i * n + i];
    x[i] = select(d > L(0), sum / select(d > L(0), d, L(1)), L(0));
  }
  for (int i = n - 1; i >= 0; --i) {
    L sum = x[i];
    for (int j = i + 1; j < n; ++j) sum = fma(-c[j * n + i], x[j], sum);
    const L d = c[i * n + i];
    x[i] = select(d > L(0), sum / select(d > L(0), d, L(1)), L(0));
  }
}

// x <- A^-1 x for a symmetric A (n x n; the lower triangle is read, all of A is overwritten), by A
// = L D L^T: faster than `cholesky` and `cholesky_solve`, because it needs no square roots and only
// one division per column. Each column updates all later columns at once, so that the next pivot is
// ready early. inverse_of(k, pivot) is used as the inverse of pivot k.
template <class L, class N, class Invert>
SUPPLE_FN void ldl_by(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT x, Invert&& inverse_of) {
  const int n = size;
  SUPPLE_UNROLL_SHORT for (int k = 0; k < n; ++k) {
    const L inverse = inverse_of(k, a[k * n + k]);
    a[k * n + k] = inverse;
    // Below the diagonal, column k of L replaces column k of L D, which is kept above the diagonal.
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      a[k * n + i] = a[i * n + k];
      a[i * n + k] = a[i * n + k] * inverse;
    }
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      SUPPLE_UNROLL_HOST for (int j = k + 1; j <= i; ++j) {
        a[i * n + j] = fma(-a[k * n + i], a[j * n + k], a[i * n + j]);
      }
      x[i] = fma(-a[i * n + k], x[k], x[i]);
    }
  }
  SUPPLE_UNROLL_HOST for (int i = 0; i < n; ++i) x[i] = x[i] * a[i * n + i];
  SUPPLE_UNROLL_SHORT for (int j = n - 1; j > 0; --j) {
    SUPPLE_UNROLL_HOST for (int i = 0; i < j; ++i) x[i] = fma(-a[j * n + i], x[j], x[i]);
  }
}

// Replaces a lower triangular matrix (n x n) by its inverse, in place.
template <class L, class N>
SUPPLE_FN void invert_lower(N n, L* a) {
  for (int i = 0; i < n; ++i) {  // row i needs its own entries and the inverted rows above
    const L inverse = L(1) / a[i * n + i];
    for (int j = 0; j < i; ++j) {
      L sum(0);
      for (int k = j; k < i; ++k) sum = fma(-a[i * n + k], a[k * n + j], sum);
      a[i * n + j] = sum * inverse;
    }
    a[i * n + i] = inverse;
  }
}

// Solves A x = b for a positive semidefinite A by L D L^T. A pivot that is zero to working
// precision gives a zero component, as in `cholesky_solve`. `floor` (n,) is scratch memory for the
// thresholds.
template <class L, class N>
SUPPLE_FN void ldl_solve(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT x,
                         L* SUPPLE_RESTRICT floor) {
  using T = scalar_t<L>;
  const int n = size;
  SUPPLE_UNROLL_HOST for (int i = 0; i < n; ++i) {
    floor[i] = a[i * n + i] * L(T(n) * Number<T>::epsilon);
  }
  ldl_by(size, a, x, [&](int k, const L& pivot) {
    const mask_t<L> positive = (pivot > floor[k]) & (pivot > L(0));
    return select(positive, L(1) / select(positive, pivot, L(1)), L(0));
  });
}

// Solves A' x = b, where A' is A with each pivot of its L D L^T replaced by the pivot's absolute
// value, or by `floor` > 0 if that is larger. A' is positive definite.
template <class L, class N>
SUPPLE_FN void convex_solve(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT x, const L& floor) {
  ldl_by(size, a, x, [&](int, const L& pivot) { return L(1) / max(abs(pivot), floor); });
}

}  // namespace supple::inline SUPPLE_ISA
