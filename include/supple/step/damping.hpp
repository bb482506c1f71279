// Damping rules of the literature: functions from the singular values of J and the error e to λ².
//
// The damped step is q̇ = Jᵀ(JJᵀ + λ²I)⁻¹e; its gain along a singular direction is σ/(σ² + λ²). The
// Python counterparts in src/supple/damping/ follow the papers and cite them; tests/motion
// compares the two.
#pragma once

#include "supple/math/lane.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

// Damping rules. The comment behind each rule lists its parameters, in the order of `Damping::p`.
enum class Rule : int {
  constant,             // λ²
  manipulability,       // largest λ², threshold of the manipulability w
  manipulability_rate,  // largest λ², threshold of w/(previous w), parameters of `manipulability`
  error,                // ratio λ²/‖e‖²
  speed_bound,          // bound on the gain σ/(σ² + λ²)
  tracking_bound,       // bound on the relative tracking error
  condition_bound,      // bound on the condition number of the damped matrix
  region,               // largest λ², size of the singular region
  mayorga_condition,    // factor of the formula, bound on the condition number, largest λ²
  mayorga_rank,         // factor of the formula, largest λ²
  optimal,              // bound on ‖q̇‖
  optimal_newton,       // bound on ‖q̇‖
  curvature,            // c in λ² = c ‖e‖ - σ²
  error_norm,           // ratio λ²/‖e‖
  residual_optimal,     // bound on the relative residual
};

template <class T>
struct Damping {
  Rule rule;
  T p[4];  // parameters in the order of the comments in `Rule`
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The input of a rule: the singular values of J in descending order, the components of e along the
// left singular vectors uᵢ, and quantities of the previous step.
template <class L>
struct Spectrum {
  int count;               // number of singular values: min(m, n)
  const L* sigma;          // (count,)
  const L* gamma;          // (count,): uᵢᵀe
  L error2;                // ‖e‖²
  L before;                // manipulability at the previous step; negative if there is none
  L change;                // Frobenius norm of J - previous J; zero if there is none
  bool redundant = false;  // whether J has more columns than rows, so that JᵀJ is singular
};

template <class L>
SUPPLE_INLINE L manipulability(int count, const L* sigma) {
  // Multiply in ascending order: if the smallest value is zero, the product stays zero and cannot
  // overflow.
  L product = sigma[count - 1];
  for (int i = count - 2; i >= 0; --i) product = product * sigma[i];
  return product;
}

// Returns the rank threshold: singular values up to this bound count as zero.
template <class L>
SUPPLE_INLINE L rank_floor(const L& largest) {
  using T = scalar_t<L>;
  return max(largest * L(16 * Number<T>::epsilon), L(Number<T>::tiny));
}

template <class L>
SUPPLE_INLINE L square(const L& a) {
  return a * a;
}

// Returns peak (1 - w/threshold)² for w < threshold, else 0.
template <class L>
SUPPLE_INLINE L fading(const L& peak, const L& w, const L& threshold) {
  return select(w < threshold, peak * square(L(1) - w / threshold), L(0));
}

// Returns the smallest λ² with φ(λ²) <= bound, where φ = ‖q̇‖ is the length of the step, by
// Newton's method on 1/φ, or on φ itself if `plain` (Deo & Walker 1995, eqs. 10 to 18). In both
// cases the iterates approach the root from below. To allow for rounding errors, the iteration ends
// at φ <= (1 - 32 ε) bound and aims at φ = (1 - 64 ε) bound, with the machine precision ε. Scaled
// numbers avoid overflow: with s = σ/σ₁, c = |γ|/γ₁ (γ₁ the largest), β = bound σ₁/γ₁ and x = λ²
// bound/(σ₁γ₁),
//
//   φ/bound = √Σ (s c/(βs² + x))²
//
// Singular values below the rank threshold are skipped. `iterations` receives the number of Newton
// steps.
template <class L>
SUPPLE_FN L optimal_lambda2(const Spectrum<L>& spectrum, const L& bound, bool plain,
                            L* iterations = nullptr) {
  using T = scalar_t<L>;
  constexpr int max_iterations = 200;
  constexpr T epsilon = Number<T>::epsilon, end = 1 - 32 * epsilon, aim = 1 - 64 * epsilon;
  const L *sigma = spectrum.sigma, floor = rank_floor(sigma[0]);
  L most(0);
  for (int i = 0; i < spectrum.count; ++i) {
    most = select(sigma[i] > floor, max(most, abs(spectrum.gamma[i])), most);
  }
  mask_t<L> open = (most > L(Number<T>::tiny)) & (bound > L(0));
  const L largest = select(open, sigma[0], L(1)), unit = select(open, most / bound, L(1));
  const L to_s = L(1) / largest, to_c = L(1) / select(open, most, L(1)), beta = largest / unit;
  // No term of the sum may exceed 1, which gives a lower bound on λ² to start from. (Newton's
  // method on φ starts near zero, as in the paper.)
  L x(0), count(0);
  for (int i = 0; i < spectrum.count; ++i) {
    const L s = sigma[i] * to_s, c = abs(spectrum.gamma[i]) * to_c;
    x = select(sigma[i] > floor, max(x, s * (c - beta * s)), x);
  }
  if (plain) x = x * L(sizeof(T) == 8 ? T(0x1p-104) : T(0x1p-32));
  for (int k = 0; k <= max_iterations; ++k) {
    L sum(0), slope(0);
    for (int i = 0; i < spectrum.count; ++i) {
      const mask_t<L> counts = sigma[i] > floor;
      const L s = sigma[i] * to_s, c = abs(spectrum.gamma[i]) * to_c;
      const L inverse = L(1) / select(counts, fma(beta * s, s, x), L(1));
      const L term = select(counts, square(s * c * inverse), L(0));
      sum = sum + term;
      slope = fma(term, inverse, slope);
    }
    // φ/bound is √sum, and its derivative is -slope/√sum.
    const L length = sqrt(sum);
    open = open & (length > L(end));
    if (!any(open) || k == max_iterations) break;
    const L excess = (length - L(aim)) * (sum / select(open, slope, L(1)));
    x = select(open, x + excess / (plain ? select(open, length, L(1)) : L(aim)), x);
    count = select(open, count + L(1), count);
  }
  if (iterations) *iterations = count;
  return x * unit * largest;
}

// Returns the largest λ² whose residual ‖e - J q̇‖ is at most `share` times ‖e‖, with e projected
// onto the range of J; zero where that projection is zero (Maciejewski & Klein 1988, eq. 12). With
// s and c as in `optimal_lambda2` and y = σ₁²/λ², the relative residual is
//
//   ψ = √(Σ c²/(1 + s²y)²) / √(Σ c²)
//
// 1/ψ is a concave, increasing function of y, so Newton's method on 1/ψ approaches the root from
// below.
template <class L>
SUPPLE_FN L residual_lambda2(const Spectrum<L>& spectrum, const L& share, L* iterations = nullptr) {
  using T = scalar_t<L>;
  constexpr int max_iterations = 200;
  constexpr T epsilon = Number<T>::epsilon;
  const L *sigma = spectrum.sigma, floor = rank_floor(sigma[0]);
  L most(0);
  for (int i = 0; i < spectrum.count; ++i) {
    most = select(sigma[i] > floor, max(most, abs(spectrum.gamma[i])), most);
  }
  mask_t<L> open = most > L(Number<T>::tiny);
  const mask_t<L> moves = open;
  const L to_s = L(1) / select(open, sigma[0], L(1)), to_c = L(1) / select(open, most, L(1));
  // s² and c of direction i; both are zero where σᵢ is below the rank threshold.
  const auto s2 = [&](int i) { return select(sigma[i] > floor, square(sigma[i] * to_s), L(0)); };
  const auto c = [&](int i) {
    return select(sigma[i] > floor, abs(spectrum.gamma[i]) * to_c, L(0));
  };
  L total(0), mean(0);
  for (int i = 0; i < spectrum.count; ++i) {
    total = fma(c(i), c(i), total);
    mean = fma(c(i) * c(i), s2(i), mean);
  }
  const L limit = share * sqrt(select(open, total, L(1)));
  const L aim = limit * L(1 - 64 * epsilon), end = limit * L(1 - 32 * epsilon);
  // Start from the larger of two lower bounds on y: one from Jensen's inequality, the other from
  // the fact that no single term may exceed the limit.
  L y = max((L(1) / share - L(1)) * (total / select(open, mean, L(1))), L(0)), count(0);
  for (int i = 0; i < spectrum.count; ++i) {
    const mask_t<L> counts = s2(i) > L(0);
    const L alone = (c(i) / aim - L(1)) / select(counts, s2(i), L(1));
    y = select(counts, max(y, alone), y);
  }
  y = min(y, L(Number<T>::huge));
  for (int k = 0; k <= max_iterations; ++k) {
    L sum(0), slope(0);
    for (int i = 0; i < spectrum.count; ++i) {
      const L inverse = L(1) / fma(s2(i), y, L(1)), term = square(c(i) * inverse);
      sum = sum + term;
      slope = fma(term, s2(i) * inverse, slope);
    }
    const L length = sqrt(sum);
    open = open & (length > end) & (slope > L(0));
    if (!any(open) || k == max_iterations) break;
    const L further = (length - aim) * (sum / select(open, slope * aim, L(1)));
    y = select(open, y + further, y);
    count = select(open, count + L(1), count);
  }
  if (iterations) *iterations = count;
  return select(moves, sigma[0] / select(moves, y, L(1)) * sigma[0], L(0));
}

// Returns the depth inside a singular region: 1 - (σ/size)² where the smallest singular value σ is
// below `size`, else 0.
template <class L>
SUPPLE_INLINE L depth(const L& least, const L& size) {
  return select(least < size, L(1) - square(least / size), L(0));
}

template <class L, class T>
SUPPLE_FN L lambda2(const Damping<T>& damping, const Spectrum<L>& spectrum) {
  const L p0(damping.p[0]), p1(damping.p[1]), p2(damping.p[2]), p3(damping.p[3]);
  const int count = spectrum.count;
  const L largest = spectrum.sigma[0], least = spectrum.sigma[count - 1];
  switch (damping.rule) {
    case Rule::constant:
      return p0;
    case Rule::manipulability:
      return fading(p0, manipulability(count, spectrum.sigma), p1);
    case Rule::manipulability_rate: {
      const L w = manipulability(count, spectrum.sigma);
      const mask_t<L> known = spectrum.before > L(0);
      const L ratio = w / select(known, spectrum.before, L(1));
      const L rate = select(known & (ratio < p1), p0 * (L(1) - ratio), L(0));
      return max(max(rate, L(0)), fading(p2, w, p3));
    }
    case Rule::error:
      return p0 * spectrum.error2;
    case Rule::speed_bound: {
      const L inverse = L(1) / p0;
      const L between = least * (inverse - least);
      const L below = square(inverse * L(T(0.5)));
      return select(least >= inverse, L(0), select(least + least >= inverse, between, below));
    }
    case Rule::tracking_bound: {
      L smallest = largest;
      for (int i = 1; i < count; ++i) {
        smallest = select(spectrum.sigma[i] > rank_floor(largest), spectrum.sigma[i], smallest);
      }
      return square(smallest) * (p0 / (L(1) - p0));
    }
    case Rule::condition_bound:
      // Bounds the condition number of JᵀJ + λ² I. If J has more columns than rows, the smallest
      // eigenvalue of that matrix is λ².
      return max(
          L(0), (square(largest) - p0 * (spectrum.redundant ? L(0) : square(least))) / (p0 - L(1)));
    case Rule::region:
      return p0 * depth(least, p1);
    case Rule::mayorga_condition: {
      const L l = square(largest) / p1;  // the smallest σ_min² with σ₁²/σ_min² <= p1
      const L floor = square(least);
      const mask_t<L> regular = floor >= l;
      const L ratio = l / select(floor > L(0), floor, L(1)) - L(1);
      const L raised = select(floor > L(0), min(p0 * square(ratio), p2), p2);
      return select(regular, L(0), raised);
    }
    case Rule::mayorga_rank: {
      const mask_t<L> regular = spectrum.change <= least;
      const L ratio = spectrum.change / select(least > L(0), least, L(1)) - L(1);
      const L raised = select(least > L(0), min(p0 * square(ratio), p1), p1);
      return select(regular, L(0), raised);
    }
    case Rule::optimal:
      return optimal_lambda2(spectrum, p0, false);
    case Rule::optimal_newton:
      return optimal_lambda2(spectrum, p0, true);
    case Rule::curvature:
      return max(L(0), p0 * sqrt(spectrum.error2) - square(least));
    case Rule::error_norm:
      return p0 * sqrt(spectrum.error2);
    case Rule::residual_optimal:
      return residual_lambda2(spectrum, p0);
  }
  return L(0);
}

}  // namespace supple::inline SUPPLE_ISA
