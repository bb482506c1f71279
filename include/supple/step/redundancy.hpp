// Redundancy: (J, e, v) -> q̇ with a secondary velocity v in the null space, and task priorities.
//
// v = -gain ∇h (n) is the descent direction of an objective h(q), computed by the caller. The
// Python counterparts,
// src/supple/redundancy/{secondary,priority}.py, follow the papers and cite them;
// tests/kernel/test_redundancy_lanes.py compares the two.
#pragma once

#include "supple/math/arena.hpp"
#include "supple/step/damping.hpp"
#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/step.hpp"

namespace supple {

// How a secondary velocity v is added to a step. K is the damped pseudoinverse Jᵀ(J Jᵀ + λ² I)⁻¹;
// α1 and max_speed are fields of `Redundancy`.
enum class Secondary : int {
  null_space,            // any step, plus v projected into the null space of J
  projection,            // K e + (I - K J) v, with λ² from the step's rule
  weighted_projection,   // K e + α1²/λ² (I - K J) v, with λ² from the step's rule, at least α1²
  total_speed,           // weighted_projection with the smallest λ² where ‖q̇‖ <= max_speed
  total_speed_switched,  // undamped if then ‖q̇‖ <= max_speed, else the λ² where ‖q̇‖ = max_speed
};

template <class T>
struct Redundancy {
  Secondary form;
  T alpha1;      // α1; the weight of v is α1²/λ²
  T max_speed;   // bound on ‖q̇‖
  Step<T> step;  // the step of null_space; the other forms use only its damping rule
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Number of lanes of scratch memory that `redundant_step` needs, and that `priority_step` needs for
// a total of m rows.
SUPPLE_FN constexpr int redundancy_scratch(int m, int n) {
  return step_scratch(m, n) + (m + n) * (m + n + 8);
}

// Projects x onto the orthogonal complement of `count` rows, which are orthonormal or zero. A
// second projection removes the rounding errors of the first. `along` (count), if not null,
// receives the components that were removed.
template <class L>
SUPPLE_FN void project_out(int count, int n, const L* rows, L* x, L* along = nullptr) {
  for (int i = 0; along && i < count; ++i) along[i] = L(0);
  for (int twice = 0; twice < 2; ++twice) {
    for (int i = 0; i < count; ++i) {
      const L part = dot(n, rows + i * n, x);
      for (int j = 0; j < n; ++j) x[j] = fma(-part, rows[i * n + j], x[j]);
      if (along) along[i] = along[i] + part;
    }
  }
}

// J, e and v in the basis of the singular vectors uᵢ, vᵢ of J: q̇ = Σ cᵢ vᵢ + share · free.
template <class L>
struct Decomposition {
  int count;           // number of singular values: min(m, n)
  const L* sigma;      // (count,), zero below the rank threshold
  const L* gamma;      // (count,): uᵢᵀe
  const L* beta;       // (count,): component of v along vᵢ; zero where sigma is zero
  const L* free;       // (n,): the component of v in the null space
  L size;              // ‖free‖
  L* c;                // (count,): the coefficients cᵢ, the result
  L *sigmas, *gammas;  // (count + 1,), scratch memory
};

// Computes c for a given λ² and returns the share of `free` in q̇: 1 if `weight` is negative, else
// weight/λ², where `weight` is α1² <= λ².
template <class L>
SUPPLE_FN L damped_projection(const Decomposition<L>& split, const L& lambda2, const L& weight) {
  const mask_t<L> nonzero = lambda2 > L(0);
  const L whole = select(nonzero, weight / select(nonzero, lambda2, L(1)), L(0));
  const L share = select(weight < L(0), L(1), whole);
  for (int i = 0; i < split.count; ++i) {
    const L sigma = split.sigma[i], gamma = split.gamma[i], size = fma(sigma, sigma, lambda2);
    const mask_t<L> counts = sigma > L(0), safe = size > L(Number<scalar_t<L>>::tiny);
    const L along = fma(lambda2 * share, split.beta[i], sigma * gamma) / select(safe, size, L(1));
    const L plain = gamma / select(counts, sigma, L(1));  // used where σ² + λ² underflows
    split.c[i] = select(counts, select(safe, along, plain), L(0));
  }
  return share;
}

// Computes c and λ² such that ‖q̇‖ <= bound, and returns the share of `free` in q̇ (Deo & Walker
// 1995, section 4.1). With gᵢ = σᵢγᵢ + α1²βᵢ and the smallest admissible λ², `least`, the
// components of q̇ are gᵢ/(σᵢ² + least + x). This is an optimally damped step with the damping x,
// the singular values sᵢ = √(σᵢ² + least) and the error components gᵢ/sᵢ.
template <class L>
SUPPLE_FN L bounded_projection(const Decomposition<L>& split, const L& weight, const L& bound,
                               bool switched, L& lambda2) {
  using T = scalar_t<L>;
  constexpr T epsilon = Number<T>::epsilon;
  const int count = split.count;
  L plain2 = split.size * split.size, size2 = square(weight * split.size);
  for (int i = 0; i < count; ++i) {
    const mask_t<L> counts = split.sigma[i] > L(0);
    const L task = select(counts, split.gamma[i] / select(counts, split.sigma[i], L(1)), L(0));
    const L g = fma(split.sigma[i], split.gamma[i], weight * split.beta[i]);
    split.c[i] = task;
    split.gammas[i] = g;
    plain2 = fma(task, task, plain2);
    size2 = fma(g, g, size2);
  }
  const mask_t<L> plain = switched ? sqrt(plain2) <= bound * L(1 - 32 * epsilon) : L(0) > L(0);
  L least = weight;
  if (switched) least = max(weight * split.size, sqrt(size2) * L(epsilon * epsilon)) / bound;
  for (int i = 0; i <= count; ++i) {
    const L sigma = i < count ? split.sigma[i] : L(0);
    const L g = i < count ? split.gammas[i] : weight * split.size;
    const L root = sqrt(fma(sigma, sigma, least));
    split.sigmas[i] = root;
    split.gammas[i] = select(root > L(0), g / select(root > L(0), root, L(1)), L(0));
  }
  const L more = optimal_lambda2(
      Spectrum<L>{count + 1, split.sigmas, split.gammas, L(0), L(-1), L(0)}, bound, false);
  const L floor = rank_floor(split.sigmas[0]);
  for (int i = 0; i < count; ++i) {
    const L root = split.sigmas[i];
    const mask_t<L> counts = (root > floor) & (split.sigma[i] > L(0));
    const L along = root / select(counts, fma(root, root, more), L(1)) * split.gammas[i];
    split.c[i] = select(plain, split.c[i], select(counts, along, L(0)));
  }
  lambda2 = select(plain, L(0), least + more);
  const mask_t<L> counts = split.sigmas[count] > floor;
  const L share = select(counts, weight / select(counts, least + more, L(1)), L(0));
  return select(plain, L(1), share);
}

// Computes one step q̇ (dq) with a secondary velocity v and returns λ². `before` and `change` are
// described in `Spectrum`.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE L redundant_step(const Redundancy<T>& how, int m, int n, const L* J,
                                        const L* e, const L* v, const L& before, const L& change,
                                        L* dq, L* scratch) {
  const int k = m < n ? m : n;
  Arena<L> arena(scratch);
  L *u = arena.take(k * m), *right = arena.take(k * n), *sigma = arena.take(k),
    *gamma = arena.take(k), *beta = arena.take(k);
  L *free = arena.take(n), *c = arena.take(k), *sigmas = arena.take(k + 1),
    *gammas = arena.take(k + 1);
  thin_svd(m, n, J, u, sigma, right);
  L lambda2(0), share(1);
  for (int i = 0; i < k; ++i) gamma[i] = dot(m, u + i * m, e);
  if (how.form == Secondary::projection || how.form == Secondary::weighted_projection) {
    const Spectrum<L> spectrum{k, sigma, gamma, dot(m, e, e), before, change, m < n};
    lambda2 = supple::lambda2(how.step.damping, spectrum);
  }
  // Singular values below the rank threshold become zero, and their directions become part of the
  // null space.
  const L floor = rank_floor(sigma[0]);
  for (int i = 0; i < k; ++i) {
    const mask_t<L> counts = sigma[i] > floor;
    sigma[i] = select(counts, sigma[i], L(0));
    for (int j = 0; j < n; ++j) right[i * n + j] = select(counts, right[i * n + j], L(0));
  }
  for (int j = 0; j < n; ++j) free[j] = v[j];
  project_out(k, n, right, free, beta);
  if (how.form == Secondary::null_space) {
    lambda2 = step(how.step, m, n, J, e, before, change, dq, arena.rest());
    for (int j = 0; j < n; ++j) dq[j] = dq[j] + free[j];
    return lambda2;
  }
  const Decomposition<L> split{k, sigma, gamma, beta, free, length(n, free), c, sigmas, gammas};
  const L weight(how.alpha1 * how.alpha1);
  if (how.form == Secondary::projection) {
    share = damped_projection(split, lambda2, L(-1));
  } else if (how.form == Secondary::weighted_projection) {
    lambda2 = max(lambda2, weight);
    share = damped_projection(split, lambda2, weight);
  } else {
    const bool switched = how.form == Secondary::total_speed_switched;
    share = bounded_projection(split, weight, L(how.max_speed), switched, lambda2);
  }
  for (int j = 0; j < n; ++j) dq[j] = share * free[j];
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < n; ++j) dq[j] = fma(c[i], right[i * n + j], dq[j]);
  }
  return lambda2;
}

// Computes one step q̇ (dq) for tasks in order of priority, and returns the largest λ² of all
// levels. `rows` (levels) holds the number of rows of each level, and `how` (levels) its step; J
// and e contain the rows of all levels. A level moves only along directions orthogonal to all rows
// of the levels above it, so that it does not disturb these levels; `taken` is a basis of the rows
// above it. `before` and `change` are described in `Spectrum` and apply to the first level; for the
// others there is no previous step. `scratch` has `redundancy_scratch` lanes for all rows together.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE L priority_step(const Step<T>* how, int levels, const int* rows, int n,
                                       const L* J, const L* e, const L& before, const L& change,
                                       L* dq, L* scratch) {
  Arena<L> arena(scratch);
  int all = 0, most = 0;
  for (int level = 0; level < levels; ++level) {
    all += rows[level];
    most = rows[level] > most ? rows[level] : most;
  }
  const int widest = most < n ? most : n;
  L *taken = arena.take(all * n), *left = arena.take(most * n), *u = arena.take(widest * most);
  L *right = arena.take(widest * n), *sigma = arena.take(widest), *error = arena.take(most),
    *moved = arena.take(n);
  int count = 0;
  L damping(0);
  for (int j = 0; j < n; ++j) dq[j] = L(0);
  for (int level = 0; level < levels; ++level) {
    const int m = rows[level], k = m < n ? m : n;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) left[i * n + j] = J[i * n + j];
      project_out(count, n, taken, left + i * n);
    }
    thin_svd(m, n, left, u, sigma, right);
    // Projection reduces a row in the span of the levels above to rounding errors, which are
    // proportional to the norm of the level's whole J.
    const L floor = rank_floor(length(m * n, J) * L(scalar_t<L>(m > n ? m : n)));
    for (int i = 0; i < m; ++i) error[i] = e[i];
    if (level > 0) {
      for (int i = 0; i < m; ++i) {
        error[i] = error[i] - dot(n, J + i * n, dq);
        for (int j = 0; j < n; ++j) left[i * n + j] = L(0);
      }
      for (int r = 0; r < k; ++r) {
        const L size = select(sigma[r] > floor, sigma[r], L(0));
        for (int i = 0; i < m; ++i) {
          const L part = size * u[r * m + i];
          for (int j = 0; j < n; ++j)
            left[i * n + j] = fma(part, right[r * n + j], left[i * n + j]);
        }
      }
    }
    const L lambda2 = step(how[level], m, n, left, error, level ? L(-1) : before,
                           level ? L(0) : change, moved, arena.rest());
    damping = max(damping, lambda2);
    project_out(count, n, taken, moved);
    for (int j = 0; j < n; ++j) dq[j] = dq[j] + moved[j];
    for (int r = 0; r < k; ++r) {
      L* const row = taken + count * n;
      for (int j = 0; j < n; ++j) row[j] = select(sigma[r] > floor, right[r * n + j], L(0));
      project_out(count, n, taken, row);
      const L size = length(n, row);
      const mask_t<L> whole = size > L(scalar_t<L>(0.5));  // else the row is only rounding errors
      const L scale = select(whole, L(1) / select(whole, size, L(1)), L(0));
      for (int j = 0; j < n; ++j) row[j] = row[j] * scale;
      ++count;
    }
    J += m * n;
    e += m;
  }
  return damping;
}

}  // namespace supple::inline SUPPLE_ISA
