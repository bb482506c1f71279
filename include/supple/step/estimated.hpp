// Estimated damping: a step that damps all directions, by a λ² that depends on the estimated
// singular values of the previous step. The Python counterpart is
// src/supple/steps/estimated.py; tests/motion compares the two.
#pragma once

#include "supple/math/arena.hpp"
#include "supple/step/damping.hpp"
#include "supple/step/estimate.hpp"
#include "supple/math/lane.hpp"
#include "supple/step/step.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes one damped step q̇ (dq) and returns its λ², which depends on the singular values that
// the previous step estimated: `sigma`, the smallest, and estimate.largest. These two values and
// their directions u (2 x m) are read and updated. `scratch` has `filter_scratch` lanes.
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
