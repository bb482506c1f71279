// Steps with a running estimate of the weak directions of the task: the left singular vectors with
// the smallest singular values.
//
// Numerical filtering damps the weak directions strongly and the others hardly at all. Estimated
// damping damps all directions, by a λ² that depends on the estimate of the smallest singular
// value. The caller keeps the estimated directions from step to step, and each step improves them
// by one inverse iteration. The Python counterparts,
// src/supple/motion/steps/{filtering,estimated}.py, follow the paper (Maciejewski & Klein 1988) and
// cite it; tests/motion compares the two.
#pragma once

#include "supple/arena.hpp"
#include "supple/damping.hpp"
#include "supple/lane.hpp"
#include "supple/linalg.hpp"
#include "supple/step.hpp"

namespace supple {

// Tuned constants are explained in docs/constants.md.

// Largest number of directions that a step keeps.
inline constexpr int max_directions = 3;

// A filter damps more than the bound on the gain requires where a singular value is below this
// fraction of 1/max_gain. (At σ = 1/max_gain the undamped gain 1/σ equals the bound.)
inline constexpr double reserve_size = 0.25;

template <class T>
struct Filter {
  T max_gain;      // bound on ‖q̇‖/‖e‖
  bool printed;    // whether to use α and σ_eff exactly as printed in the paper
  int directions;  // number of small singular values that are filtered separately
};

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

// J, scaled to unit size. If J has more rows than columns, R of J = Q R takes its place, which has
// n rows.
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

// Replaces x (m) by Qᵀx, of which only the first k entries are used; without Q, x is not changed.
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
// Returns the lanes where the directions are no usable estimate: CᵀC stretches the first one by
// less than half of its largest diagonal entry, or a direction lies in the span of the previous
// ones.
template <class L>
SUPPLE_INLINE mask_t<L> iterate_directions(const SingularProblem<L>& p, const L* C, int count, L* u,
                                           int stride, L* sigma2, L* turned) {
  using T = scalar_t<L>;
  constexpr T parallel = T(1e-6);
  const int k = p.k;
  mask_t<L> wrong = L(0) != L(0);
  L first(1);
  for (int d = 0; d < count; ++d) {
    L* const x = u + d * stride;
    remove_components(k, d, u, stride, x);
    const L old = length(k, x);
    wrong = wrong | !(old >= L(parallel));
    const L unit = L(1) / max(old, L(parallel));
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

// Returns the smallest λ² with  share σ/(σ² + λ²) <= 1/edge  for the given σ and all smaller ones.
template <class L>
SUPPLE_INLINE L least_damping(const L& sigma, const L& edge, const L& share) {
  const L reach = share * edge;
  const L near = max(L(0), sigma * (reach - sigma));
  return select(sigma + sigma >= reach, near, square(reach * L(scalar_t<L>(0.5))));
}

// Replaces σ̂² of `count` directions by their filter gains α², the damping added along each of
// them. `along` holds the components of the unit vector e along them; `edge` is 1/max_gain. With
// `printed`, α² bounds the gain of a unit error along the direction, as in the paper. Otherwise it
// bounds the gain of the component c of e along it, plus a reserve close to the singularity.
template <class L, class T>
SUPPLE_INLINE void filter_gains(const Filter<T>& how, int count, const L* along, const L& edge,
                                L* alpha2) {
  L sigma[max_directions], most[max_directions], w[max_directions];
  for (int d = 0; d < count; ++d) {
    sigma[d] = sqrt(alpha2[d]);
    alpha2[d] = most[d] = least_damping(sigma[d], edge, L(1));
    w[d] = least_damping(sigma[d] / edge, L(1), L(1));
  }
  if (how.printed) return;
  for (int d = 0; d < count; ++d) {
    const L inverse = L(1) / select(w[d] > L(0), w[d], L(1));
    // Squared component of e along this and weaker directions; stronger ones count by w[j]/w[d].
    L part(0);
    for (int j = 0; j < count; ++j) {
      part = fma(select(w[d] > w[j], w[j] * inverse, L(1)) * along[j], along[j], part);
    }
    const L c = min(L(1), sqrt(part)), near = c * edge, twice = sigma[d] + sigma[d];
    const mask_t<L> outside = twice > near;
    const L t = select(outside, near / select(outside, twice, L(1)), L(1));
    const L reserve = t * depth(sigma[d] / edge, L(T(reserve_size)));
    alpha2[d] = fma(c * (L(1) - c) * reserve, most[d], least_damping(sigma[d], edge, c));
  }
}

// z <- (J Jᵀ + Σ α² û ûᵀ + shift I)⁻¹ e for the directions û in u. `A` and `floor` are scratch
// memory.
template <class L>
SUPPLE_INLINE void filtered_solve(const SingularProblem<L>& p, int count, const L* u, int stride,
                                  const L* alpha2, const L& shift, const L* e, L* z, L* A,
                                  L* floor) {
  const int k = p.k;
  for (int i = 0; i < k; ++i) {
    L weighted[max_directions];
    for (int d = 0; d < count; ++d) weighted[d] = alpha2[d] * u[d * stride + i];
    for (int j = 0; j <= i; ++j) {
      L entry = p.gram[i * k + j];
      for (int d = 0; d < count; ++d) entry = fma(weighted[d], u[d * stride + j], entry);
      A[i * k + j] = i == j ? entry + shift : entry;
    }
    z[i] = e[i];
  }
  ldl_solve(k, A, z, floor);
}

// Computes one filtered step q̇ (dq) and returns λ². The directions u (max_directions x m) are kept
// from step to step: they are read and updated. The estimate of the smallest singular value (sigma)
// and `estimate` are written. `scratch` has `filter_scratch` lanes.
template <class L, class T, class M, class N>
SUPPLE_FN L filtered_step_of_size(const Filter<T>& how, M m, N n, const L* J, const L* error, L* u,
                                  L& sigma, Estimate<L>& estimate, L* dq, L* scratch) {
  constexpr T none = 1 / (Number<T>::epsilon * Number<T>::epsilon);
  const SingularProblem<L> p = singular_problem(m, n, J, scratch);
  const L infinite = L(1) / (abs(p.scale) * L(0));  // (CUDA has no constant for infinity)
  const int k = p.k, count = how.directions < k ? how.directions : k;
  Arena<L> arena(scratch);
  L *e = arena.take(m), *z = arena.take(m), *C = arena.take(k * k), *A = arena.take(k * k),
    *x = arena.take(max_directions * m), *alpha2 = arena.take(max_directions),
    *along = arena.take(max_directions), *fresh = arena.take(max_directions), *rest = arena.rest();

  inverse_factor(p, p.blur, C);
  for (int i = 0; i < count * m; ++i) x[i] = u[i];
  for (int d = 0; d < count; ++d) to_row_space(p, x + d * m);
  const mask_t<L> wrong = iterate_directions(p, C, count, x, m, alpha2, z) & !p.null;
  if (any(wrong)) {
    L *exact = rest, *more = exact + max_directions * m;
    L least;
    singular_directions(k, n, p.J, count, exact, least, more);
    iterate_directions(p, C, count, exact, k, fresh, z);
    for (int d = 0; d < count; ++d) {
      for (int i = 0; i < k; ++i) x[d * m + i] = select(wrong, exact[d * k + i], x[d * m + i]);
      alpha2[d] = select(wrong, fresh[d], alpha2[d]);
    }
  }
  sigma = select(p.null, L(0), sqrt(alpha2[0]) * p.scale);
  const L sigma2 = alpha2[0];

  // e as a unit vector, projected onto the range of J. A max_gain that is zero to working precision
  // allows no motion.
  const L largest = largest_entry(m, error), up = L(1) / select(largest > L(0), largest, L(1));
  for (int i = 0; i < m; ++i) e[i] = error[i] * up;
  to_row_space(p, e);
  const L size = length(k, e), wide = p.shrink / L(how.max_gain);
  const mask_t<L> still = p.null | !((size > L(0)) & (wide < L(none)));
  const L edge = select(still, L(1), wide), unit = L(1) / select(size > L(0), size, L(1));
  for (int i = 0; i < k; ++i) e[i] = e[i] * unit;
  for (int d = 0; d < count; ++d) along[d] = dot(k, x + d * m, e);
  filter_gains(how, count, along, edge, alpha2);
  filtered_solve(p, count, x, m, alpha2, p.blur, e, z, A, rest);
  transpose_times(k, n, p.J, z, dq);

  // σ_o from e_o and z_o, the components of e and z orthogonal to the directions.
  L *e_o = rest, *z_o = rest + k;
  for (int i = 0; i < k; ++i) e_o[i] = e[i], z_o[i] = z[i];
  remove_components(k, count, x, m, e_o);
  remove_components(k, count, x, m, z_o);
  const L e_across2 = dot(k, e_o, e_o), z_across2 = dot(k, z_o, z_o);
  const mask_t<L> beside = (e_across2 > L(square(64 * Number<T>::epsilon))) & (z_across2 > L(0));
  const L across2 = max(sqrt(e_across2 / select(beside, z_across2, L(1))) - p.blur, p.blur);
  L gain2 = dot(n, dq, dq);
  if (how.printed) {  // 1/σ_eff² as in the paper: ‖e_s‖²/σ_m² + ‖e_o‖²/σ_o²
    gain2 = square(along[0]) / max(sigma2, p.blur) + select(beside, e_across2 / across2, L(0));
  }
  const mask_t<L> moves = (gain2 > L(0)) & !still;
  const L effective = L(1) / sqrt(select(moves, gain2, L(1)));
  const L lambda2 = select(moves, least_damping(effective, edge, L(1)), L(0));
  if (any(lambda2 > L(0))) {
    filtered_solve(p, count, x, m, alpha2, p.blur + lambda2, e, z, A, rest);
    L* const damped = rest;
    transpose_times(k, n, p.J, z, damped);
    for (int j = 0; j < n; ++j) dq[j] = select(lambda2 > L(0), damped[j], dq[j]);
  }

  // Scale to slightly below the bound, by a margin larger than the rounding errors.
  const L speed = length(n, dq) * edge * L(1 + 32 * Number<T>::epsilon);
  const L back = largest * size, down = p.shrink / select(speed > L(1), speed, L(1));
  for (int j = 0; j < n; ++j) dq[j] = select(still, L(0), dq[j] * down * back);
  estimate.effective = select(moves, effective * p.scale, infinite);
  estimate.across = select(beside & !still, sqrt(across2) * p.scale, infinite);
  estimate.alpha2 = select(still, L(0), alpha2[0] * p.scale * p.scale);
  for (int d = 0; d < count; ++d) {
    from_row_space(p, x + d * m);
    for (int i = 0; i < m; ++i) u[d * m + i] = select(p.null, u[d * m + i], x[d * m + i]);
  }
  return lambda2 * p.scale * p.scale;
}

// Calls `filtered_step_of_size`, with compile-time sizes for the common ones; the results have the
// same bits.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE L filtered_step(const Filter<T>& how, int m, int n, const L* J,
                                       const L* error, L* u, L& sigma, Estimate<L>& estimate, L* dq,
                                       L* scratch) {
  const Fixed<6> six{};
  const Fixed<7> seven{};
  if (m == 6 && n == 7) {
    return filtered_step_of_size(how, six, seven, J, error, u, sigma, estimate, dq, scratch);
  }
  if (m == 6 && n == 6) {
    return filtered_step_of_size(how, six, six, J, error, u, sigma, estimate, dq, scratch);
  }
  return filtered_step_of_size(how, m, n, J, error, u, sigma, estimate, dq, scratch);
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

// Computes one damped step q̇ (dq) and returns its λ², which depends on the singular values that
// the previous step estimated: `sigma`, the smallest, and estimate.largest. Both and their
// directions u (2 x m) are read and updated. `scratch` has `filter_scratch` lanes.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE L estimated_step(const Step<T>& how, int m, int n, const L* J,
                                        const L* error, L* u, L& sigma, Estimate<L>& estimate,
                                        L* dq, L* scratch) {
  const SingularProblem<L> p = singular_problem(m, n, J, scratch);
  const int k = p.k;
  const Rule rule = how.damping.rule;
  const bool both = rule == Rule::condition_bound || rule == Rule::mayorga_condition;
  Arena<L> arena(scratch);
  L *e = arena.take(m), *z = arena.take(m), *C = arena.take(k * k), *x = arena.take(2 * m),
    *turned = arena.take(m), *rest = arena.rest();
  const auto damping = [&](const L& least, const L& largest) {
    const L values[] = {largest, least}, components[] = {L(0), L(0)};
    return lambda2(how.damping,
                   Spectrum<L>{2, values, components, dot(m, error, error), L(-1), L(0), m < n});
  };
  for (int i = 0; i < 2 * m; ++i) x[i] = u[i];
  to_row_space(p, x);
  if (both) to_row_space(p, x + m);
  L chosen = damping(sigma, estimate.largest);
  L shift = max(chosen * p.shrink * p.shrink, p.blur);
  inverse_factor(p, shift, C);
  inverse_times(k, C, x, turned);
  L old = length(k, x), size = length(k, turned);
  const mask_t<L> wrong =
      ((size + size < largest_inverse(k, C) * old) | (old < L(T(0.5)))) & !p.null;
  if (any(wrong)) {  // J has changed too much since the last step: compute exact directions
    L *exact = rest, *more = exact + 2 * m;
    L least, largest;
    extreme_directions(k, n, p.J, exact, least, largest, more);
    for (int i = 0; i < k; ++i) {
      x[i] = select(wrong, exact[i], x[i]);
      x[m + i] = select(wrong, exact[k + i], x[m + i]);
    }
    sigma = select(wrong, least * p.scale, sigma);
    estimate.largest = select(wrong, largest * p.scale, estimate.largest);
    chosen = damping(sigma, estimate.largest);
    shift = max(chosen * p.shrink * p.shrink, p.blur);
    inverse_factor(p, shift, C);
    inverse_times(k, C, x, turned);
    old = length(k, x), size = length(k, turned);
  }
  estimate.effective = estimate.across = sigma;
  estimate.alpha2 = L(0);

  if (how.direction && rule == Rule::region) {
    L *weighted = rest, *A = weighted + m * n;
    for (int i = 0; i < m * n; ++i) weighted[i] = J[i] * p.shrink;
    for (int i = 0; i < m; ++i) e[i] = error[i];
    const L deep = depth(sigma, L(how.damping.p[1]));
    const L w = L(1) - L(1 - how.min_weight) * sqrt(deep);
    deweight_direction(m, n, how.direction, w, weighted, weighted, e);
    damped_cholesky(m, n, weighted, e, shift, A, z, dq);
  } else {
    for (int i = 0; i < m; ++i) e[i] = error[i];
    to_row_space(p, e);
    inverse_times(k, C, e, z);
    transpose_times(k, n, p.J, z, dq);
  }
  for (int j = 0; j < n; ++j) dq[j] = select(p.null, L(0), dq[j] * p.shrink);

  const L inverse = L(1) / select(size > L(0), size, L(1));
  for (int i = 0; i < k; ++i) x[i] = turned[i] * inverse;
  from_row_space(p, x);
  sigma = select(p.null, L(0), sqrt(max(old * inverse - shift, L(0))) * p.scale);
  if (both) {
    for (int i = 0; i < k; ++i) {
      L sum(0);
      for (int j = 0; j < k; ++j) {
        sum = fma(p.gram[i > j ? i * k + j : j * k + i], x[m + j], sum);
      }
      turned[i] = sum;
    }
    const L longest = length(k, turned), less = L(1) / select(longest > L(0), longest, L(1));
    for (int i = 0; i < k; ++i) x[m + i] = turned[i] * less;
    from_row_space(p, x + m);
    estimate.largest = select(p.null, L(0), sqrt(longest) * p.scale);
  }
  for (int i = 0; i < (both ? 2 * m : m); ++i) u[i] = select(p.null, u[i], x[i]);
  return chosen;
}

}  // namespace supple::inline SUPPLE_ISA
