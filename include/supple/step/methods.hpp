// The formulas of the steps: singular value decomposition, transpose, selective damping, damped
// least squares by Cholesky and QR factors, and clamps.
#pragma once

#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes the decomposition J = Σ σᵢ uᵢ vᵢᵀ with the singular vectors as rows: u (k x m), v (k x
// n), k = min(m, n). Where σᵢ is zero, the singular vectors on one side (v if m <= n, else u) are
// zero as well, unless `whole` requests orthonormal bases.
template <class L, class M, class N>
SUPPLE_FN void thin_svd(M m, N n, const L* J, L* u, L* sigma, L* v, bool whole = true) {
  if (int(m) <= int(n)) {
    for (int i = 0; i < m * n; ++i) v[i] = J[i];
    svd_rows(m, n, v, sigma, u, whole);
    return;
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) u[j * m + i] = J[i * n + j];
  }
  svd_rows(n, m, u, sigma, v, whole);
}

// Jᵀ x
template <class L, class M, class N>
SUPPLE_FN void transpose_times(M rows, N columns, const L* SUPPLE_RESTRICT J,
                               const L* SUPPLE_RESTRICT x, L* SUPPLE_RESTRICT result) {
  const int m = rows, n = columns;
  SUPPLE_UNROLL_HOST for (int j = 0; j < n; ++j) result[j] = J[j] * x[0];
  SUPPLE_UNROLL_HOST for (int i = 1; i < m; ++i) {
    SUPPLE_UNROLL_HOST for (int j = 0; j < n; ++j) result[j] = fma(J[i * n + j], x[i], result[j]);
  }
}

template <class L>
SUPPLE_INLINE L length(int n, const L* x, int stride = 1) {
  L sum = x[0] * x[0];
  for (int i = 1; i < n; ++i) sum = fma(x[i * stride], x[i * stride], sum);
  return sqrt(sum);
}

// Computes the length of each end effector's part of x (m), with `effector` as in `ErrorClamp`.
// Returns the number of end effectors.
template <class L>
SUPPLE_FN int effector_lengths(int m, const int* effector, const L* x, int stride, L* lengths) {
  int count = 0;
  for (int i = 0; i < m; ++i) {
    for (const int k = effector[i]; count <= k; ++count) lengths[count] = L(0);
    L& square = lengths[effector[i]];
    square = fma(x[i * stride], x[i * stride], square);
  }
  for (int k = 0; k < count; ++k) lengths[k] = sqrt(lengths[k]);
  return count;
}

// Shortens the error e (m) of each end effector to at most `max_length` (Buss 2009, ClampMag).
// `factor` (m) is scratch memory.
template <class L>
SUPPLE_FN void clamp_error(int m, const int* effector, const L& max_length, L* e, L* factor) {
  const int count = effector_lengths(m, effector, e, 1, factor);
  for (int k = 0; k < count; ++k) {
    const mask_t<L> far = factor[k] > max_length;
    factor[k] = select(far, max_length / select(far, factor[k], L(1)), L(1));
  }
  for (int i = 0; i < m; ++i) e[i] = e[i] * factor[effector[i]];
}

template <class L>
SUPPLE_INLINE L largest_entry(int n, const L* x) {
  L largest(0);
  for (int i = 0; i < n; ++i) largest = max(largest, abs(x[i]));
  return largest;
}

// Scales x (n) as a whole so that no entry exceeds `max_length`.
template <class L>
SUPPLE_FN void clamp_entries(int n, const L& max_length, L* x) {
  const L size = largest_entry(n, x);
  const mask_t<L> far = size > max_length;
  const L factor = select(far, max_length / select(far, size, L(1)), L(1));
  for (int i = 0; i < n; ++i) x[i] = x[i] * factor;
}

// Computes q̇ = α Jᵀe with the α that minimizes ‖J q̇ - e‖ (Buss 2009, section 3). q̇ is zero where
// Jᵀe does not exceed its rounding error.
template <class L>
SUPPLE_FN void transpose_step(int m, int n, const L* J, const L* e, L* dq) {
  transpose_times(m, n, J, e, dq);
  L along(0), square(0);
  for (int i = 0; i < m; ++i) {
    const L back = dot(n, J + i * n, dq);
    along = fma(e[i], back, along);
    square = fma(back, back, square);
  }
  const mask_t<L> nonzero = length(n, dq) > rank_floor(length(m * n, J)) * length(m, e);
  const L alpha = select(nonzero, along / select(nonzero, square, L(1)), L(0));
  for (int j = 0; j < n; ++j) dq[j] = dq[j] * alpha;
}

// Selectively damped least squares (Buss & Kim 2005). Along each singular direction, the step is
// limited more strongly the farther the joint motion would move the end effectors beyond what e
// requires. `soft` limits each direction by limit·size/(limit + size), which has no corner, instead
// of min(limit, size). `reaches` (n) and `lengths` (m) are scratch memory.
template <class L>
SUPPLE_NOINLINE_DEVICE void selective_step(int m, int n, const int* effector, const L* J,
                                           const L* u, const L* sigma, const L* v, const L* gamma,
                                           const L& max_length, bool soft, L* reaches, L* lengths,
                                           L* dq) {
  const int k = m < n ? m : n;
  // Returns the sum of the lengths of all end effectors' parts of x.
  const auto total_length = [&](const L* x, int stride) {
    const int count = effector_lengths(m, effector, x, stride, lengths);
    L sum = lengths[0];
    for (int a = 1; a < count; ++a) sum = sum + lengths[a];
    return sum;
  };
  for (int j = 0; j < n; ++j) {
    reaches[j] = total_length(J + j, n);  // motion of the end effectors per unit of joint j
    dq[j] = L(0);
  }
  for (int i = 0; i < k; ++i) {
    const L *ui = u + i * m, *vi = v + i * n;
    const mask_t<L> nonzero = sigma[i] > rank_floor(sigma[0]);
    const L inverse = select(nonzero, L(1) / select(nonzero, sigma[i], L(1)), L(0));
    const L asked = total_length(ui, 1);
    L moved(0);
    for (int j = 0; j < n; ++j) moved = fma(abs(vi[j]), reaches[j], moved);
    moved = moved * inverse;
    const mask_t<L> less = asked < moved;
    const L limit = max_length * select(less, asked / select(less, moved, L(1)), L(1));
    const L along = gamma[i] * inverse;
    const L size = abs(along) * largest_entry(n, vi);
    const L over = soft ? limit + size : max(limit, size);
    const L scale = along * select(over > L(0), limit / select(over > L(0), over, L(1)), L(0));
    for (int j = 0; j < n; ++j) dq[j] = fma(scale, vi[j], dq[j]);
  }
  clamp_entries(n, max_length, dq);
}

// Damped least squares by Cholesky: adds λ² to the diagonal of J Jᵀ or JᵀJ, whichever is smaller.
// `A` and `x` are scratch memory.
template <class L>
SUPPLE_FN void damped_cholesky(int m, int n, const L* J, const L* e, const L& lambda2, L* A, L* x,
                               L* dq) {
  if (m <= n) {
    gram(m, n, J, A);
    for (int i = 0; i < m; ++i) {
      A[i * m + i] = A[i * m + i] + lambda2;
      x[i] = e[i];
    }
    cholesky(m, A);
    cholesky_solve(m, A, x);
    transpose_times(m, n, J, x, dq);
    return;
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      L sum = J[i] * J[j];
      for (int r = 1; r < m; ++r) sum = fma(J[r * n + i], J[r * n + j], sum);
      A[i * n + j] = sum;
    }
    A[i * n + i] = A[i * n + i] + lambda2;
  }
  transpose_times(m, n, J, e, dq);
  cholesky(n, A);
  cholesky_solve(n, A, dq);
}

// Computes the least-squares solution q̇ of [J; λI] q̇ = [e; 0]. Unlike Cholesky, this does not
// square the condition number of J (Wampler 1986). `A` has (m + n) n entries, `tau` n, `b` m + n.
template <class L>
SUPPLE_FN void damped_qr(int m, int n, const L* J, const L* e, const L& lambda2, L* A, L* tau, L* b,
                         L* dq) {
  const L lambda = sqrt(lambda2);
  for (int i = 0; i < m * n; ++i) A[i] = J[i];
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) A[(m + i) * n + j] = i == j ? lambda : L(0);
  }
  for (int i = 0; i < m + n; ++i) b[i] = i < m ? e[i] : L(0);
  qr(m + n, n, A, tau);
  qr_solve(m + n, n, A, tau, b);
  for (int j = 0; j < n; ++j) dq[j] = b[j];
}

// Multiplies J and e from the left by I + (w - 1) d dᵀ, which scales the task direction d by w: J
// into `weighted` (m x n), e in place.
template <class L, class T>
SUPPLE_FN void deweight_direction(int m, int n, const T* d, const L& w, const L* J, L* weighted,
                                  L* e) {
  const L less = w - L(1);
  for (int j = 0; j < n; ++j) {
    L along(0);
    for (int i = 0; i < m; ++i) along = fma(L(d[i]), J[i * n + j], along);
    along = along * less;
    for (int i = 0; i < m; ++i) weighted[i * n + j] = fma(L(d[i]), along, J[i * n + j]);
  }
  L along(0);
  for (int i = 0; i < m; ++i) along = fma(L(d[i]), e[i], along);
  along = along * less;
  for (int i = 0; i < m; ++i) e[i] = fma(L(d[i]), along, e[i]);
}

}  // namespace supple::inline SUPPLE_ISA
