// Householder QR and least squares on lanes.
#pragma once

#include "supple/math/linalg/matrix.hpp"

namespace supple::inline SUPPLE_ISA {

// Factors A = Q R for a matrix (m x n) of any shape, with k = min(m, n). On return R is on and
// above the diagonal of a; below it are the reflectors v_j (v_j[j] = 1 is not stored): Q = H_0 ...
// H_{k-1}, H_j = I - tau_j v_j v_j^T. A column that is already zero below the diagonal needs no
// reflector (tau = 0). Q is orthogonal and Q R = A at any rank.
template <class L, class M, class N>
SUPPLE_NOINLINE_DEVICE void qr(M m, N n, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT tau) {
  const L unscale = scale_to_range(m * n, a);
  for (int j = 0; j < m && j < n; ++j) {
    L below(0);
    for (int i = j + 1; i < m; ++i) below = fma(a[i * n + j], a[i * n + j], below);
    const L head = a[j * n + j];
    // A subnormal sum of squares has lost digits, and H would not be orthogonal.
    const mask_t<L> reflect = below >= L(Number<scalar_t<L>>::tiny);
    // The new diagonal entry has the opposite sign of the old one, `head`: head - diagonal does not
    // cancel.
    const L norm = sqrt(fma(head, head, below));
    const L diagonal = select(reflect, -copysign(norm, head), head);
    const L safe = select(reflect, head - diagonal, L(1));
    tau[j] = select(reflect, safe / -diagonal, L(0));
    const L inverse = select(reflect, L(1) / safe, L(0));
    for (int i = j + 1; i < m; ++i) a[i * n + j] = a[i * n + j] * inverse;
    a[j * n + j] = diagonal;
    for (int c = j + 1; c < n; ++c) {
      L sum = a[j * n + c];
      for (int i = j + 1; i < m; ++i) sum = fma(a[i * n + j], a[i * n + c], sum);
      sum = sum * tau[j];
      a[j * n + c] = a[j * n + c] - sum;
      for (int i = j + 1; i < m; ++i) a[i * n + c] = fma(-sum, a[i * n + j], a[i * n + c]);
    }
  }
  for (int i = 0; i < m; ++i) {
    for (int j = i; j < n; ++j) a[i * n + j] = a[i * n + j] * unscale;
  }
}

// b <- H_j b for one reflector of `qr`; b has m entries.
template <class L, class M, class N>
SUPPLE_INLINE void apply_reflector(M m, N n, const L* a, const L* tau, int j, L* b) {
  L sum = b[j];
  for (int i = j + 1; i < m; ++i) sum = fma(a[i * n + j], b[i], sum);
  sum = sum * tau[j];
  b[j] = b[j] - sum;
  for (int i = j + 1; i < m; ++i) b[i] = fma(-sum, a[i * n + j], b[i]);
}

// b <- Q^T b with the factors of `qr`.
template <class L, class M, class N>
SUPPLE_FN void qr_transpose_times(M m, N n, const L* a, const L* tau, L* b) {
  for (int j = 0; j < m && j < n; ++j) apply_reflector(m, n, a, tau, j, b);
}

// b <- Q b with the factors of `qr`.
template <class L, class M, class N>
SUPPLE_FN void qr_times(M m, N n, const L* a, const L* tau, L* b) {
  for (int j = (m < n ? int(m) : int(n)) - 1; j >= 0; --j) apply_reflector(m, n, a, tau, j, b);
}

// Computes the least-squares solution of A x = b for m >= n and full column rank, with the factors
// of `qr`. b (m) is overwritten; its first n entries are x. Where R has a zero on its diagonal,
// that component of x is zero. Returns the lanes where no diagonal entry is zero.
template <class L, class M, class N>
SUPPLE_FN mask_t<L> qr_solve(M m, N n, const L* a, const L* tau, L* b) {
  qr_transpose_times(m, n, a, tau, b);
  mask_t<L> full = L(0) == L(0);
  for (int i = n - 1; i >= 0; --i) {
    L sum = b[i];
    for (int j = i + 1; j < n; ++j) sum = fma(-a[i * n + j], b[j], sum);
    const L d = a[i * n + i];
    const mask_t<L> nonzero = d != L(0);
    full = full & nonzero;
    b[i] = select(nonzero, sum / select(nonzero, d, L(1)), L(0));
  }
  return full;
}

}  // namespace supple::inline SUPPLE_ISA
