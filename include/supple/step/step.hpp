// Steps that keep nothing from previous steps: (J, e) -> q̇.
//
// The Python counterparts, src/supple/steps/{step,selective,weighted,clamp}.py, follow the
// papers and cite them; tests/motion compares the two.
#pragma once

#include "supple/math/arena.hpp"
#include "supple/step/damping.hpp"
#include "supple/step/fast_step.hpp"
#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/methods.hpp"
#include "supple/step/spec.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes a step q̇ (dq) of any method and returns λ². Singular values are computed only where the
// rule or the method needs them. `before` and `change` are described in `Spectrum`. e (m) may be
// overwritten; `scratch` has 4 (m + n)² lanes.
template <class L, class T, class M, class N>
SUPPLE_FN L general_step(const Step<T>& how, M m, N n, const L* J, L* e, const L& before,
                         const L& change, L* dq, L* scratch) {
  if (how.method == Method::transpose) {
    transpose_step(m, n, J, e, dq);
    return L(0);
  }
  const int k = m < n ? m : n;
  Arena<L> arena(scratch);
  L *u = arena.take(k * m), *v = arena.take(k * n), *sigma = arena.take(k), *gamma = arena.take(k),
    damping(0);
  const bool damped = is_damped(how);
  // Cholesky and QR are used only if the rule needs no singular values. Otherwise the SVD that the
  // rule needs also gives the step.
  const Rule rule = how.damping.rule;
  const bool direct = (how.method == Method::damped_cholesky || how.method == Method::damped_qr) &&
                      (rule == Rule::error || rule == Rule::error_norm ||
                       (rule == Rule::constant && how.damping.p[0] > 0));
  const auto decompose = [&](const L* A) {
    thin_svd(m, n, A, u, sigma, v, false);
    for (int i = 0; i < k; ++i) gamma[i] = dot(m, u + i * m, e);
  };
  if (direct) {
    sigma[0] = gamma[0] = L(0);
  } else {
    decompose(J);
  }
  if (damped) {
    const Spectrum<L> spectrum{direct ? 1 : k, sigma,  gamma,          dot(m, e, e),
                               before,         change, int(m) < int(n)};
    damping = lambda2(how.damping, spectrum);
    if (how.direction && rule == Rule::region) {
      const L deep = depth(sigma[k - 1], L(how.damping.p[1]));
      L* const weighted = arena.take(m * n);
      deweight_direction(m, n, how.direction, L(1) - L(1 - how.min_weight) * sqrt(deep), J,
                         weighted, e);
      decompose(weighted);
    }
  }
  if (direct && how.method == Method::damped_cholesky) {
    L *A = arena.take(k * k), *x = arena.take(m);
    damped_cholesky(m, n, J, e, damping, A, x, dq);
  } else if (direct) {
    L *A = arena.take((m + n) * n), *tau = arena.take(n), *b = arena.take(m + n);
    damped_qr(m, n, J, e, damping, A, tau, b, dq);
  } else if (how.method == Method::selective || how.method == Method::selective_soft) {
    L *reaches = arena.take(n), *lengths = arena.take(m);
    selective_step(m, n, how.effector, J, u, sigma, v, gamma, L(how.p),
                   how.method == Method::selective_soft, reaches, lengths, dq);
  } else {
    L floor = rank_floor(sigma[0]);
    if (how.method == Method::truncated) floor = max(floor, sigma[0] * L(how.p));
    if (how.method == Method::truncated_below) floor = max(floor, L(how.p));
    const int kept = how.method == Method::truncated_rank && how.p < T(k) ? int(how.p) : k;
    for (int j = 0; j < n; ++j) dq[j] = L(0);
    for (int i = 0; i < kept; ++i) {
      const mask_t<L> nonzero = sigma[i] > floor;
      const L safe = select(nonzero, sigma[i], L(1));  // not squared: the square might underflow
      const L along = select(nonzero, gamma[i] / (safe + damping / safe), L(0));
      for (int j = 0; j < n; ++j) dq[j] = fma(along, v[i * n + j], dq[j]);
    }
  }
  return damping;
}

// Calls `general_step`; this function is compiled once for all sizes known only at run time.
template <class L, class T>
SUPPLE_NOINLINE L general_step_any_size(const Step<T>& how, int m, int n, const L* J, L* e,
                                        const L& before, const L& change, L* dq, L* scratch) {
  return general_step(how, m, n, J, e, before, change, dq, scratch);
}
template <class L, class T, int M, int N>
SUPPLE_INLINE L general_step_any_size(const Step<T>& how, Fixed<M> m, Fixed<N> n, const L* J, L* e,
                                      const L& before, const L& change, L* dq, L* scratch) {
  return general_step(how, m, n, J, e, before, change, dq, scratch);
}

// Writes J, multiplied by the row and column weights of a step, to `scaled`.
template <class L, class T>
SUPPLE_FN void scale_jacobian(const Step<T>& how, int m, int n, const L* J, L* scaled) {
  for (int i = 0; i < m; ++i) {
    const L row = how.task_scale ? L(how.task_scale[i]) : L(1);
    for (int j = 0; j < n; ++j) {
      const L column = how.joint_scale ? L(how.joint_scale[j]) : L(1);
      scaled[i * n + j] = J[i * n + j] * row * column;
    }
  }
}

// Writes the clamped and weighted error to e (m). Returns J itself, or the weighted J in `scaled`
// (m x n) if the step has weights.
template <class L, class T>
SUPPLE_FN const L* apply_weights(const Step<T>& how, int m, int n, const L* J, const L* error, L* e,
                                 L* scaled) {
  for (int i = 0; i < m; ++i) e[i] = error[i];
  for (int k = 0; k < how.error_clamps; ++k) {
    clamp_error(m, how.error_clamp[k].effector, L(how.error_clamp[k].max_error), e, scaled);
  }
  if (how.task_scale) {
    for (int i = 0; i < m; ++i) e[i] = e[i] * L(how.task_scale[i]);
  }
  if (!how.task_scale && !how.joint_scale) return J;
  scale_jacobian(how, m, n, J, scaled);
  return scaled;
}

// Converts the solution dq (n) of the weighted problem to q̇, in place, and clamps it to
// `max_angle`.
template <class L, class T>
SUPPLE_FN void unweight(const Step<T>& how, int n, L* dq) {
  if (how.joint_scale) {
    for (int j = 0; j < n; ++j) dq[j] = dq[j] * L(how.joint_scale[j]);
  }
  if (how.max_angle < Number<T>::huge) clamp_entries(n, L(how.max_angle), dq);
}

// Number of lanes of scratch memory that `step` needs.
SUPPLE_FN constexpr int step_scratch(int m, int n) { return 4 * (m + n) * (m + n) + m + n + m * n; }

// Computes one step q̇ (dq) and returns λ², which is zero for undamped methods. `before` and
// `change` are described in `Spectrum` and refer to the weighted J. `start` is the initial guess
// for the optimal λ².
template <class L, class T, class M, class N>
SUPPLE_FN L step(const Step<T>& how, M m, N n, const L* J, const L* error, const L& before,
                 const L& change, L* dq, L* scratch, const L& start = L(0)) {
  L *e = scratch, *other = e + m, *scaled = other + n, *rest = scaled + m * n;
  J = apply_weights(how, m, n, J, error, e, scaled);
  L damping;
  if (has_fast_path(how)) {
    const mask_t<L> holds = fast_step(how, m, n, J, e, before, change, start, dq, &damping, rest);
    if (!all(holds)) {
      const L usual = general_step_any_size(how, m, n, J, e, before, change, other, rest);
      for (int j = 0; j < n; ++j) dq[j] = select(holds, dq[j], other[j]);
      damping = select(holds, damping, usual);
    }
  } else {
    damping = general_step_any_size(how, m, n, J, e, before, change, dq, rest);
  }
  unweight(how, n, dq);
  return damping;
}

}  // namespace supple::inline SUPPLE_ISA
