// A running estimate of the weak directions of a task: the left singular vectors of J with the
// smallest singular values.
//
// The caller keeps the directions from step to step. Each step improves the directions by one
// inverse iteration or, if J has changed too much since the last step, replaces them by those of a
// singular value decomposition. The Python counterpart is src/supple/steps/estimate.py.
#pragma once

#include "supple/math/arena.hpp"
#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/step.hpp"

namespace supple {

// Largest number of directions that a step keeps (docs/constants.md).
inline constexpr int max_directions = 3;
// Distance below which a direction counts as lying in the span of the others.
inline constexpr double parallel_within = 1e-6;

// Further estimates of a step, besides that of the smallest singular value.
template <class L>
struct Estimate {
  L largest = L(0);    // largest singular value, kept from step to step by estimated damping
  L effective = L(0);  // σ_eff: inverse of the gain ‖q̇‖/‖e‖ for this e
  // σ_o: effective singular value for the part of e orthogonal to the weak directions
  L across = L(0);
  L alpha2 = L(0);  // damping that the filter adds along the first direction
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// J, scaled by a power of two to entries of at most about 1. If J has more rows than columns, the
// factor R (n x n) of J = Q R takes its place.
template <class L>
struct SingularProblem {
  int m, n, k;  // k = min(m, n)
  L* J;         // (k, n)
  L* gram;      // (k, k): the lower triangle of J Jᵀ
  L* factor;    // (m, n): reflectors of Q, if m > n
  L* tau;       // (n)
  L scale;      // power of two near the largest entry of the given J; 1 if J is zero
  L shrink;     // 1/scale
  L blur;       // bound on the rounding errors of J Jᵀ; 1 if J is zero
  mask_t<L> null;
};

SUPPLE_FN constexpr int filter_scratch(int m, int n) {
  const int k = m < n ? m : n;
  return 4 * m * n + 5 * k * k + 16 * (m + n);
}

// Builds the problem at the beginning of `scratch`, and advances `scratch` past it.
template <class L>
SUPPLE_INLINE SingularProblem<L> singular_problem(int m, int n, const L* J, L*& scratch) {
  using T = scalar_t<L>;
  SingularProblem<L> p{m,       n,    m < n ? m : n, nullptr, nullptr, nullptr,
                       nullptr, L(1), L(1),          L(1),    {}};
  Arena<L> arena(scratch);
  const int k = p.k;
  p.J = arena.take(k * n), p.gram = arena.take(k * k);
  p.factor = arena.take(m > n ? m * n : 0), p.tau = arena.take(n);
  scratch = arena.rest();
  const L largest = largest_entry(m * n, J);
  p.null = !(largest > L(0));
  p.scale = select(p.null, L(1), max(power_of_two(largest), L(Number<T>::tiny)));
  p.shrink = L(1) / p.scale;
  L* const scaled = m > n ? p.factor : p.J;
  for (int i = 0; i < m * n; ++i) scaled[i] = J[i] * p.shrink;
  if (m > n) {
    qr(m, n, p.factor, p.tau);
    for (int i = 0; i < k; ++i) {
      for (int j = 0; j < n; ++j) p.J[i * n + j] = i <= j ? p.factor[i * n + j] : L(0);
    }
  }
  gram(k, n, p.J, p.gram);
  L trace(0);
  for (int i = 0; i < k; ++i) trace = trace + p.gram[i * k + i];
  p.blur = select(p.null, L(1), trace * L(4 * T(k) * Number<T>::epsilon));
  return p;
}

// Replaces x (m) by Qᵀx, of which only the first k entries are used. If m <= n, x is not changed.
template <class L>
SUPPLE_INLINE void to_row_space(const SingularProblem<L>& p, L* x) {
  if (p.m > p.n) qr_transpose_times(p.m, p.n, p.factor, p.tau, x);
}

// The inverse of `to_row_space`: x has k entries on entry and m on return.
template <class L>
SUPPLE_INLINE void from_row_space(const SingularProblem<L>& p, L* x) {
  if (p.m <= p.n) return;
  for (int i = p.k; i < p.m; ++i) x[i] = L(0);
  qr_times(p.m, p.n, p.factor, p.tau, x);
}

// Computes C, the inverse of the Cholesky factor of J Jᵀ + shift I, lower triangular (k x k).
template <class L>
SUPPLE_INLINE void inverse_factor(const SingularProblem<L>& p, const L& shift, L* C) {
  const int k = p.k;
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < i; ++j) C[i * k + j] = p.gram[i * k + j];
    C[i * k + i] = p.gram[i * k + i] + shift;
  }
  // Row by row: compute row i of the factor L, stored in column i of the upper triangle, then row i
  // of its inverse.
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < i; ++j) C[j * k + i] = dot(j + 1, C + j * k, C + i * k);  // row i of L
    L pivot = C[i * k + i];
    for (int j = 0; j < i; ++j) pivot = fma(-C[j * k + i], C[j * k + i], pivot);
    const L inverse = L(1) / sqrt(max(pivot, L(Number<scalar_t<L>>::tiny)));
    for (int j = 0; j < i; ++j) {
      L sum(0);
      for (int t = j; t < i; ++t) sum = fma(-C[t * k + i], C[t * k + j], sum);
      C[i * k + j] = sum * inverse;
    }
    C[i * k + i] = inverse;
  }
}

// y <- (J Jᵀ + shift I)⁻¹ x = CᵀC x, with C from `inverse_factor`; y and x must be different
// arrays.
template <class L>
SUPPLE_INLINE void inverse_times(int k, const L* C, const L* x, L* y) {
  for (int i = 0; i < k; ++i) y[i] = dot(i + 1, C + i * k, x);
  for (int j = 0; j < k; ++j) {
    L sum = C[j * k + j] * y[j];
    for (int i = j + 1; i < k; ++i) sum = fma(C[i * k + j], y[i], sum);
    y[j] = sum;
  }
}

// Returns the largest diagonal entry of (J Jᵀ + shift I)⁻¹ = CᵀC. The norm of this matrix lies
// between the entry and k times the entry.
template <class L>
SUPPLE_INLINE L largest_inverse(int k, const L* C) {
  L most(0);
  for (int j = 0; j < k; ++j) {
    L sum = C[j * k + j] * C[j * k + j];
    for (int i = j + 1; i < k; ++i) sum = fma(C[i * k + j], C[i * k + j], sum);
    most = max(most, sum);
  }
  return most;
}

// Subtracts from x (k) its components along `count` orthonormal vectors, which are `stride` apart
// in `u`.
template <class L>
SUPPLE_INLINE void remove_components(int k, int count, const L* u, int stride, L* x) {
  for (int j = 0; j < count; ++j) {
    const L along = dot(k, u + j * stride, x);
    for (int i = 0; i < k; ++i) x[i] = fma(-along, u[j * stride + i], x[i]);
  }
}

// Improves `count` directions, `stride` apart in `u`, by one inverse iteration each, keeping each
// orthogonal to the previous ones, and writes their estimated squared singular values σ̂² (count).
// Returns the lanes where the directions are not a usable estimate: CᵀC stretches the first
// direction by less than half of the largest diagonal entry of CᵀC, or a direction lies in the span
// of the previous ones.
template <class L>
SUPPLE_INLINE mask_t<L> iterate_directions(const SingularProblem<L>& p, const L* C, int count, L* u,
                                           int stride, L* sigma2, L* turned) {
  using T = scalar_t<L>;
  const int k = p.k;
  mask_t<L> wrong = L(0) != L(0);
  L first(1);
  for (int d = 0; d < count; ++d) {
    L* const x = u + d * stride;
    remove_components(k, d, u, stride, x);
    const L old = length(k, x);
    wrong = wrong | !(old >= L(T(parallel_within)));
    const L unit = L(1) / max(old, L(T(parallel_within)));
    for (int i = 0; i < k; ++i) x[i] = x[i] * unit;
    inverse_times(k, C, x, turned);
    remove_components(k, d, u, stride, turned);
    const L size = length(k, turned), inverse = L(1) / max(size, L(Number<T>::tiny));
    for (int i = 0; i < k; ++i) x[i] = turned[i] * inverse;
    sigma2[d] = max(inverse - p.blur, L(0));
    if (d == 0) first = size;
  }
  return wrong | (first + first < largest_inverse(k, C));
}

// Computes the exact directions u (count x m), the weakest first, and the smallest singular value,
// by singular value decomposition. `scratch` has `step_scratch` lanes.
template <class L>
SUPPLE_FN void singular_directions(int m, int n, const L* J, int count, L* u, L& sigma,
                                   L* scratch) {
  const int k = m < n ? m : n;
  L *left = scratch, *values = left + k * m, *right = values + k;
  thin_svd(m, n, J, left, values, right);
  for (int d = 0; d < count; ++d) {
    for (int i = 0; i < m; ++i) u[d * m + i] = d < k ? left[(k - 1 - d) * m + i] : L(0);
  }
  sigma = values[k - 1];
}

// Computes the smallest and the largest singular value and their left singular vectors u (2 x m),
// in this order, by singular value decomposition. `scratch` has `step_scratch` lanes.
template <class L>
SUPPLE_FN void extreme_directions(int m, int n, const L* J, L* u, L& least, L& largest,
                                  L* scratch) {
  const int k = m < n ? m : n;
  L *left = scratch, *values = left + k * m, *right = values + k;
  thin_svd(m, n, J, left, values, right);
  for (int i = 0; i < m; ++i) u[i] = left[(k - 1) * m + i], u[m + i] = left[i];
  least = values[k - 1];
  largest = values[0];
}

}  // namespace supple::inline SUPPLE_ISA
