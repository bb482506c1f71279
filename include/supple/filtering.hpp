// Numerical filtering: damps the singular direction û of the task strongly, and the others hardly.
//
// û is remembered from step to step: an array that is passed in and improved by one inverse
// iteration. The Python counterparts, src/supple/motion/steps/filtering.py, follow the paper
// (Maciejewski & Klein 1988) and cite it; tests/motion compares the two.
#pragma once

#include "supple/arena.hpp"
#include "supple/damping.hpp"
#include "supple/lane.hpp"
#include "supple/linalg.hpp"
#include "supple/step.hpp"

namespace supple {

template <class T>
struct Filter {
  T max_gain;    // bound on ‖q̇‖/‖e‖
  bool printed;  // α as printed in the paper, independent of e
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// J scaled to unit size, with at most as many rows as columns: where it has more, R of J = Q R.
template <class L>
struct SingularProblem {
  int m, n, k;  // k = min(m, n)
  L* J;         // (k, n)
  L* gram;      // (k, k): J Jᵀ
  L* factor;    // (m, n): Q, where m > n
  L* tau;       // (n)
  L scale;      // largest entry of the given J; 1 if it is zero
  L blur;       // bound on the rounding errors of J Jᵀ; 1 if it is zero
  mask_t<L> null;
};

SUPPLE_FN constexpr int filter_scratch(int m, int n) {
  const int k = m < n ? m : n;
  return 2 * m * n + 3 * k * k + 8 * (m + n);
}

// Builds the problem at the beginning of `scratch`, and advances `scratch` behind it.
template <class L>
SUPPLE_FN SingularProblem<L> singular_problem(int m, int n, const L* J, L*& scratch) {
  using T = scalar_t<L>;
  SingularProblem<L> p{m, n, m < n ? m : n, nullptr, nullptr, nullptr, nullptr, L(1), L(1), {}};
  Arena<L> arena(scratch);
  const int k = p.k;
  p.J = arena.take(k * n), p.gram = arena.take(k * k), p.factor = arena.take(m * n),
  p.tau = arena.take(n);
  scratch = arena.rest();
  const L largest = largest_entry(m * n, J);
  p.null = !(largest > L(0));
  p.scale = select(p.null, L(1), largest);
  L* const scaled = m > n ? p.factor : p.J;
  for (int i = 0; i < m * n; ++i) scaled[i] = J[i] / p.scale;
  if (m > n) {
    qr(m, n, p.factor, p.tau);
    for (int i = 0; i < k; ++i) {
      for (int j = 0; j < n; ++j) p.J[i * n + j] = i <= j ? p.factor[i * n + j] : L(0);
    }
  }
  L trace(0);
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j <= i; ++j) {
      p.gram[i * k + j] = p.gram[j * k + i] = dot(n, p.J + i * n, p.J + j * n);
    }
    trace = trace + p.gram[i * k + i];
  }
  p.blur = select(p.null, L(1), trace * L(4 * T(k) * Number<T>::epsilon));
  return p;
}

// x (m, overwritten) -> its components in the row space of Q, the first k entries.
template <class L>
SUPPLE_INLINE void to_row_space(const SingularProblem<L>& p, L* x) {
  if (p.m > p.n) qr_transpose_times(p.m, p.n, p.factor, p.tau, x);
}

// The inverse for a vector in the range of J: x has k entries before and m after.
template <class L>
SUPPLE_INLINE void from_row_space(const SingularProblem<L>& p, L* x) {
  if (p.m <= p.n) return;
  for (int i = p.k; i < p.m; ++i) x[i] = L(0);
  qr_times(p.m, p.n, p.factor, p.tau, x);
}

// The Cholesky factor of J Jᵀ + α² û ûᵀ + shift I; û may be null.
template <class L>
SUPPLE_FN void filtered_factor(const SingularProblem<L>& p, const L* u, const L& alpha2,
                               const L& shift, L* A) {
  const int k = p.k;
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j <= i; ++j) {
      L entry = p.gram[i * k + j];
      if (u) entry = fma(alpha2 * u[i], u[j], entry);
      A[i * k + j] = i == j ? entry + shift : entry;
    }
  }
  cholesky(k, A);
}

// One inverse iteration: û (k) <- û'/‖û'‖ with (J Jᵀ + λ² I) û' = û. Returns σ̂². A coordinate axis
// replaces û as the start where it is twice as good: û cannot get stuck orthogonal to the true
// vector.
template <class L>
SUPPLE_FN L inverse_iteration(const SingularProblem<L>& p, const L& lambda2, const L& alpha2, L* u,
                              L* scratch) {
  const int k = p.k;
  L *A = scratch, *column = A + k * k, *best = column + k, *turned = best + k;
  const L shift = lambda2 + p.blur;
  filtered_factor<L>(p, nullptr, L(0), shift, A);
  L most(-1), axis(0);
  for (int a = 0; a < k; ++a) {
    for (int i = 0; i < k; ++i) column[i] = L(scalar_t<L>(i == a));
    cholesky_solve(k, A, column);
    const L size = length(k, column);
    const mask_t<L> better = size > most;
    most = select(better, size, most);
    axis = select(better, L(scalar_t<L>(a)), axis);
    for (int i = 0; i < k; ++i) best[i] = select(better, column[i], best[i]);
  }
  for (int i = 0; i < k; ++i) turned[i] = u[i];
  cholesky_solve(k, A, turned);
  const L old = length(k, u), turned_size = length(k, turned);
  const mask_t<L> kick = (turned_size + turned_size < most * old) | !(old > L(0));
  L along(0);
  const L start = select(kick, L(1), old), size = select(kick, most, turned_size);
  for (int i = 0; i < k; ++i) {
    const L from = select(kick, select(axis == L(scalar_t<L>(i)), L(1), L(0)), u[i]) / start;
    u[i] = select(p.null & (old > L(0)), u[i] / start, select(kick, best[i], turned[i]) / size);
    along = fma(from, u[i], along);
  }
  // With α² û ûᵀ in the matrix, 1/‖û'‖ grows by α² times the cosine of the rotation of û.
  const L sigma2 = start / size - shift - alpha2 * (L(1) - along);
  return select(p.null, L(0), max(sigma2, L(0)));
}

// The exact û (m) and σ̂, by singular value decomposition. `scratch`: `step_scratch` lanes.
template <class L>
SUPPLE_FN void singular_direction(int m, int n, const L* J, L* u, L& sigma, L* scratch) {
  const int k = m < n ? m : n;
  L *left = scratch, *values = left + k * m, *right = values + k;
  thin_svd(m, n, J, left, values, right);
  for (int i = 0; i < m; ++i) u[i] = left[(k - 1) * m + i];
  sigma = values[k - 1];
}

// The smallest λ² with  share σ/(σ² + λ²) <= 1/edge  for this σ and all smaller ones.
template <class L>
SUPPLE_INLINE L least_damping(const L& sigma, const L& edge, const L& share) {
  const L reach = share * edge;
  const L near = max(L(0), sigma * (reach - sigma));
  return select(sigma + sigma >= reach, near, square(reach * L(scalar_t<L>(0.5))));
}

// One filtered step. û (m) and σ̂ are the memory: û is read, both are written. Returns λ².
// `scratch`: `filter_scratch` lanes.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE L filtered_step(const Filter<T>& how, int m, int n, const L* J,
                                       const L* error, L* u, L& sigma, L* dq, L* scratch) {
  constexpr T none = 1 / (Number<T>::epsilon * Number<T>::epsilon);
  const SingularProblem<L> p = singular_problem(m, n, J, scratch);
  const int k = p.k;
  L *e = scratch, *z = e + m, *rest = z + m;
  to_row_space(p, u);
  const L sigma2 = inverse_iteration(p, L(0), L(0), u, rest), root = sqrt(sigma2);

  // e as a unit vector, restricted to the range of J. A bound that is zero but for rounding errors
  // allows no motion.
  const L largest = largest_entry(m, error);
  for (int i = 0; i < m; ++i) e[i] = error[i] / select(largest > L(0), largest, L(1));
  to_row_space(p, e);
  const L size = length(k, e), wide = L(1) / p.scale / L(how.max_gain);
  const mask_t<L> still = !((size > L(0)) & (wide < L(none)));
  const L edge = select(still, L(1), wide);
  for (int i = 0; i < k; ++i) e[i] = e[i] / select(size > L(0), size, L(1));

  const L along = dot(k, u, e);
  const L alpha2 = least_damping(root, edge, how.printed ? L(1) : abs(along));
  filtered_factor(p, u, alpha2, p.blur, rest);
  for (int i = 0; i < k; ++i) z[i] = e[i];
  cholesky_solve(k, rest, z);
  const L z_along = dot(k, u, z);
  L across2(0), z_across2(0);
  for (int i = 0; i < k; ++i) {
    across2 = across2 + square(fma(-along, u[i], e[i]));
    z_across2 = z_across2 + square(fma(-z_along, u[i], z[i]));
  }
  // ‖e_s‖²/σ_m² + ‖e_o‖²/σ_o², the square of the undamped gain
  const mask_t<L> beside = (across2 > L(0)) & (z_across2 > L(0));
  const L sigma_o2 = sqrt(across2 / select(beside, z_across2, L(1))) - p.blur;
  const L gain2 =
      square(along) / max(sigma2, p.blur) + select(beside, across2 / max(sigma_o2, p.blur), L(0));
  const mask_t<L> nonzero = gain2 > L(0);
  const L effective = L(1) / sqrt(select(nonzero, gain2, L(1)));
  const L lambda2 = select(nonzero & !still, least_damping(effective, edge, L(1)), L(0));
  filtered_factor(p, u, alpha2, p.blur + lambda2, rest);
  for (int i = 0; i < k; ++i) z[i] = e[i];
  cholesky_solve(k, rest, z);
  transpose_times(k, n, p.J, z, dq);

  // Two small singular values may exceed the bound: scale to slightly below it, by more than
  // rounding can add.
  const L speed = length(n, dq) * edge * L(1 + 32 * Number<T>::epsilon);
  const L cut = select(speed > L(1), speed, L(1));
  const L back = largest * size;
  for (int j = 0; j < n; ++j) dq[j] = select(still, L(0), dq[j] / cut / p.scale * back);
  sigma = root * p.scale;
  from_row_space(p, u);
  return lambda2 * p.scale * p.scale;
}

}  // namespace supple::inline SUPPLE_ISA
