// Steps without singular values, for the lanes where the Jacobian is far enough from singular.
#pragma once

#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/optimal.hpp"
#include "supple/step/methods.hpp"
#include "supple/step/spec.hpp"

namespace supple::inline SUPPLE_ISA {

// The smallest pivot of a Gram matrix J Jᵀ, relative to its largest diagonal entry, for which the
// Cholesky factor may replace an SVD. (The pivot is relative to the whole matrix, because a row
// that contains only rounding errors, such as the motion of a planar arm out of its plane, counts
// as zero.)
template <class T>
inline constexpr T fast_path_pivot = sizeof(T) == 8 ? T(1e-7) : T(1e-3);

// The smallest relative pivot for which the Cholesky solution needs no iterative refinement. Below
// it, refinement is needed because J Jᵀ has the squared condition number of J.
template <class T>
inline constexpr T refined_pivot = sizeof(T) == 8 ? T(1e-2) : fast_path_pivot<float>;

// Replaces A (m x m, lower triangle) by its Cholesky factor. Returns the smallest pivot relative to
// the largest diagonal entry, or zero where A is not positive definite.
template <class L, class M>
SUPPLE_FN L relative_pivot(M m, L* A) {
  L largest(0);
  for (int i = 0; i < m; ++i) largest = max(largest, A[i * m + i]);
  const mask_t<L> definite = cholesky(m, A);
  L smallest = largest;
  for (int i = 0; i < m; ++i) smallest = min(smallest, A[i * m + i] * A[i * m + i]);
  return select(definite, smallest / select(definite, largest, L(1)), L(0));
}

// Whether all eigenvalues of A (m x m, lower triangle, overwritten) are above `least`.
template <class T, class M>
SUPPLE_FN bool all_above(M m, T least, T* A) {
  for (int i = 0; i < m; ++i) A[i * m + i] -= least;
  return relative_pivot(m, A) > fast_path_pivot<T>;
}

// Computes the product of the singular values of J (`product`) from the lower triangle of J Jᵀ (A,
// m x m, overwritten). Returns the lanes where the product is valid.
template <class L>
SUPPLE_FN mask_t<L> manipulability_by_cholesky(int m, L* A, L* product) {
  const mask_t<L> valid = relative_pivot(m, A) > L(fast_path_pivot<scalar_t<L>>);
  *product = A[0];
  for (int i = 1; i < m; ++i) *product = *product * A[i * m + i];
  return valid;
}

// The smallest value of σ² + λ², relative to ‖J‖², at which a λ² computed from the eigenvalues of J
// Jᵀ is accurate enough. All eigenvalues have an absolute error of the order of the rounding error
// of the largest one, which becomes a relative error of σ² + λ², and so of q̇.
template <class T>
inline constexpr T least_eigenvalue = sizeof(T) == 8 ? T(1e-5) : T(1e-2);

// Whether a rule needs only the extreme singular values, or only the product of all singular
// values. The rule may also depend on e and on the previous step.
SUPPLE_FN constexpr bool is_spectral(Rule rule) {
  return rule == Rule::speed_bound || rule == Rule::region || rule == Rule::curvature ||
         rule == Rule::tracking_bound || rule == Rule::condition_bound ||
         rule == Rule::manipulability || rule == Rule::manipulability_rate ||
         rule == Rule::mayorga_condition || rule == Rule::mayorga_rank;
}

// Computes λ² (`found`) by a rule for which `is_spectral` holds, from the lower triangle of J Jᵀ
// (A, m x m, overwritten). Returns the lanes where λ² is valid. `work` has 4 m lanes.
template <class L, class T, class M, class N>
SUPPLE_FN mask_t<L> spectral_lambda2(const Damping<T>& damping, M m, N n, const L* e,
                                     const L& before, const L& change, L* A, L* found, L* work) {
  const Rule rule = damping.rule;
  const bool redundant = int(m) < int(n);
  L sigma[2], gamma[2] = {L(0), L(0)};
  const auto evaluated = [&](int count) {
    return lambda2(damping,
                   Spectrum<L>{count, sigma, gamma, dot(m, e, e), before, change, redundant});
  };
  if (rule == Rule::manipulability || rule == Rule::manipulability_rate) {
    const mask_t<L> valid = manipulability_by_cholesky(m, A, sigma);
    *found = evaluated(1);
    return valid;
  }
  const bool condition = rule == Rule::condition_bound;
  const bool largest = condition || rule == Rule::mayorga_condition,
             least = !condition || !redundant;
  L trace(0), low(0), high(0);
  for (int i = 0; i < m; ++i) trace = trace + A[i * m + i];
  mask_t<L> valid =
      extreme_eigenvalues_any_size(m, A, least ? &low : nullptr, largest ? &high : nullptr, work);
  // Rules that do not need the largest singular value only compare the smallest one with the rank
  // threshold. For them any value may be passed as the largest: where the smallest one might be
  // below the threshold, the result is rejected anyway.
  sigma[0] = sqrt(largest ? high : low);
  sigma[1] = sqrt(low);
  *found = evaluated(2);
  if (least) {
    // Accept λ² only if it hardly changes with the rounding error of the smallest singular value:
    // Mayorga's rules divide by that value, and λ² of a narrow region falls steeply as it grows.
    constexpr T same = sizeof(T) == 8 ? T(1e-10) : T(1e-3);
    sigma[1] = sqrt(fma(trace, L(64 * Number<T>::epsilon), low));
    valid = valid & (abs(evaluated(2) - *found) <= L(same) * (*found + low));
  }
  return valid & (low + *found > L(least_eigenvalue<T>) * trace);
}

// Computes the damped or undamped step by a Cholesky factor, without singular vectors, for m <= n.
// This works if λ² needs no singular values, or only the extreme ones, or if the Cholesky factor of
// a shifted J Jᵀ shows that no singular value is small enough to be damped or truncated. Returns
// the lanes where one of these holds and J Jᵀ + λ² is well conditioned.
template <class L, class T, class M, class N>
SUPPLE_FN mask_t<L> cholesky_step(const Step<T>& how, M m, N n, const L* J, const L* e,
                                  const L& before, const L& change, L* dq, L* lambda2, L* scratch) {
  L *A = scratch, *shifted = A + m * m, *z = shifted + m * m, *rest = z + m;
  const mask_t<L> nowhere = L(0) != L(0);
  const Damping<T>& damping = how.damping;
  L least(0);  // square of the singular value above which λ² = 0 and nothing is truncated
  *lambda2 = L(0);
  if (m > n) return nowhere;
  if (how.method == Method::truncated) {
    least = square(L(how.p) * length(m * n, J));
  } else if (how.method == Method::truncated_below) {
    least = square(L(how.p));
  } else if (how.method == Method::truncated_rank) {
    if (how.p < T(m)) return nowhere;
  } else if (how.method != Method::pseudoinverse) {
    switch (damping.rule) {
      case Rule::constant:
        *lambda2 = L(damping.p[0]);
        break;
      case Rule::error:
        *lambda2 = L(damping.p[0]) * dot(m, e, e);
        break;
      case Rule::error_norm:
        *lambda2 = L(damping.p[0]) * length(m, e);
        break;
      case Rule::speed_bound:
        least = square(L(1) / L(damping.p[0]));
        break;
      case Rule::region:
        least = square(L(damping.p[1]));
        break;
      case Rule::curvature:
        least = L(damping.p[0]) * length(m, e);
        break;
      default:
        if (!is_spectral(damping.rule)) return nowhere;
    }
  }
  const bool spectral = is_damped(how) && is_spectral(damping.rule);
  const auto copy_gram = [&](const L& shift) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j <= i; ++j) shifted[i * m + j] = A[i * m + j];
      shifted[i * m + i] = shifted[i * m + i] - shift;
    }
  };
  gram(m, n, J, A);
  mask_t<L> holds = L(0) == L(0);
  if (any(least > L(0))) {
    copy_gram(least);
    holds = relative_pivot(m, shifted) > L(fast_path_pivot<T>);
    if (!spectral && !any(holds)) return holds;
  } else if (spectral) {
    holds = nowhere;
  }
  if (spectral && !all(holds)) {
    L found;
    copy_gram(L(0));
    const mask_t<L> acts =
        spectral_lambda2(damping, m, n, e, before, change, shifted, &found, rest + m) & !holds;
    *lambda2 = select(acts, found, *lambda2);
    holds = holds | acts;
    if (!any(holds)) return holds;
  }
  for (int i = 0; i < m; ++i) {
    A[i * m + i] = A[i * m + i] + *lambda2;
    z[i] = e[i];
  }
  const L pivot = relative_pivot(m, A);
  holds = holds & (pivot > L(fast_path_pivot<T>));
  cholesky_solve(m, A, z);
  transpose_times(m, n, J, z, dq);
  const mask_t<L> inaccurate = holds & (pivot < L(refined_pivot<T>));
  if (any(inaccurate)) {
    // One step of iterative refinement; its residual is computed from J, not from J Jᵀ.
    for (int i = 0; i < m; ++i) rest[i] = e[i] - fma(*lambda2, z[i], dot(n, J + i * n, dq));
    cholesky_solve(m, A, rest);
    for (int i = 0; i < m; ++i) z[i] = select(inaccurate, z[i] + rest[i], z[i]);
    transpose_times(m, n, J, z, dq);
  }
  return holds;
}

// Number of lanes of scratch memory that `cholesky_step` needs.
SUPPLE_FN constexpr int cholesky_scratch(int m) { return 2 * m * m + 6 * m; }

// Calls `cholesky_step`; this function is compiled once for all sizes known only at run time.
template <class L, class T>
SUPPLE_NOINLINE mask_t<L> cholesky_step_any_size(const Step<T>& how, int m, int n, const L* J,
                                                 const L* e, const L& before, const L& change,
                                                 L* dq, L* lambda2, L* scratch) {
  return cholesky_step(how, m, n, J, e, before, change, dq, lambda2, scratch);
}
template <class L, class T, int M, int N>
SUPPLE_INLINE mask_t<L> cholesky_step_any_size(const Step<T>& how, Fixed<M> m, Fixed<N> n,
                                               const L* J, const L* e, const L& before,
                                               const L& change, L* dq, L* lambda2, L* scratch) {
  return cholesky_step(how, m, n, J, e, before, change, dq, lambda2, scratch);
}

// Whether the step has a fast path, which computes no singular values.
template <class T>
SUPPLE_FN constexpr bool has_fast_path(const Step<T>& how) {
  const bool optimal = how.damping.rule == Rule::optimal;
  return how.method == Method::damped_quick || how.method == Method::pseudoinverse ||
         is_truncated(how) || (how.method == Method::damped_cholesky && optimal);
}

// Computes a step by its fast path, from the weighted J and e of `apply_weights`. Returns the lanes
// where dq and lambda2 are valid. `start` is the initial guess for λ².
template <class L, class T, class M, class N>
SUPPLE_FN mask_t<L> fast_step(const Step<T>& how, M m, N n, const L* J, const L* e, const L& before,
                              const L& change, const L& start, L* dq, L* lambda2, L* scratch) {
  const L bound(how.damping.p[0]);
  if (is_damped(how) && how.damping.rule == Rule::optimal) {
    return optimal_step_any_size(m, n, J, e, bound, start, dq, lambda2, scratch);
  }
  if (is_damped(how) && how.damping.rule == Rule::residual_optimal) {
    return residual_step_any_size(m, n, J, e, bound, start, dq, lambda2, scratch);
  }
  if (how.direction) return L(0) != L(0);
  return cholesky_step_any_size(how, m, n, J, e, before, change, dq, lambda2, scratch);
}

}  // namespace supple::inline SUPPLE_ISA
