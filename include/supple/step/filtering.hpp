// Numerical filtering: a step that damps the estimated weak directions of the task strongly and the
// others hardly at all. The Python counterpart, src/supple/steps/filtering.py, follows the
// paper (Maciejewski & Klein 1988) and cites it; tests/motion compares the two.
#pragma once

#include "supple/math/arena.hpp"
#include "supple/step/damping.hpp"
#include "supple/step/estimate.hpp"
#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/step.hpp"

namespace supple {

// Tuned constants are explained in docs/constants.md.

// A filter damps more than the bound on the gain requires where a singular value is below this
// fraction of 1/max_gain. (At σ = 1/max_gain the undamped gain 1/σ equals the bound.)
inline constexpr double reserve_size = 0.25;

template <class T>
struct Filter {
  T max_gain;      // bound on ‖q̇‖/‖e‖
  bool printed;    // whether to use α and σ_eff exactly as printed in the paper
  int directions;  // number of small singular values that are filtered separately
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Returns the smallest λ² with  share σ/(σ² + λ²) <= 1/edge  for the given σ and all smaller ones.
template <class L>
SUPPLE_INLINE L least_damping(const L& sigma, const L& edge, const L& share) {
  const L reach = share * edge;
  const L near = max(L(0), sigma * (reach - sigma));
  return select(sigma + sigma >= reach, near, square(reach * L(scalar_t<L>(0.5))));
}

// Replaces σ̂² of `count` directions by the damping α² that is added along each of them (the filter
// gains of Maciejewski & Klein). `along` holds the components c of e/‖e‖ along the directions;
// `edge` is 1/max_gain. With `printed`, α² keeps the joint speed of a unit error along a direction
// below max_gain, by the formula printed in the paper. Otherwise α² keeps this speed below max_gain
// for an error of the size c instead of 1, and is a little larger than necessary close to the
// singularity.
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
    // Squared component of e/‖e‖ along all directions; stronger ones have the weight w[j]/w[d].
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

  // Compute σ_o from e_o and z_o, the components of e and z orthogonal to the directions.
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

// Calls `filtered_step_of_size`. Common sizes are passed as compile-time constants, which gives the
// same result bit for bit.
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

}  // namespace supple::inline SUPPLE_ISA
