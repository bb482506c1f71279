// The optimally damped step without singular values: q̇ with the smallest λ² such that ‖q̇‖ <=
// bound.
//
// Householder reflections bring J to lower bidiagonal form, J = U B Vᵀ. The first of them maps e to
// f e₁, where f = ±‖e‖ and e₁ is the first unit vector (Golub & Kahan; LSQR starts in the same way,
// Paige & Saunders 1982). The step is then  q̇ = V y  with  (BᵀB + λ²) y = f α₀ e₁,  where α₀ is the
// first entry of B. y has a closed form in the minors of BᵀB + λ². These obey
// recurrences of products and sums of positive numbers, so nothing cancels: every entry of y has a
// small relative error, and the condition number of J is never squared. One evaluation of φ(λ²) =
// ‖y‖ and of its slope takes O(m) operations, two divisions and a square root.
//
// The root of φ = bound is found by Newton's method on 1/φ (Deo & Walker 1995, eq. 18), a concave,
// increasing function: from any start, the first iteration arrives at or below the root, and the
// next ones approach it from below. The largest λ² with ‖e - Jq̇‖ <= share ‖e‖ is found in the same
// way (`residual_step`). Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"

namespace supple::inline SUPPLE_ISA {

inline constexpr int max_newton_iterations = 60;  // three are usually enough

// Calls f(0), f(1), ... f(n - 1). If n is a compile-time constant, so are the arguments.
template <class F>
SUPPLE_INLINE void each(int n, const F& f) {
  for (int i = 0; i < n; ++i) f(i);
}
template <int I = 0, int N, class F>
SUPPLE_INLINE void each(Fixed<N> n, const F& f) {
  if constexpr (I < N) {
    f(Fixed<I>{});
    each<I + 1>(n, f);
  }
}

// Computes a Householder reflector H = I - tau v vᵀ with H x = (r, 0, ..., 0), and returns r. v
// replaces x. Where x = 0, tau = 0.
template <class L>
SUPPLE_INLINE L make_householder(int count, int stride, L* x, L& tau) {
  L sum = x[0] * x[0];
  for (int i = 1; i < count; ++i) sum = fma(x[i * stride], x[i * stride], sum);
  const mask_t<L> nonzero = sum >= L(Number<scalar_t<L>>::tiny);
  const L norm = sqrt(sum), reach = copysign(norm, x[0]);
  tau = select(nonzero, L(1) / fma(abs(x[0]), norm, sum), L(0));
  x[0] = x[0] + reach;
  return select(nonzero, -reach, L(0));
}

// to <- H x for an H of `make_householder`; `to` may be x.
template <class L>
SUPPLE_INLINE void apply_householder(int count, const L* SUPPLE_RESTRICT v, int v_stride,
                                     const L& tau, const L* x, L* to, int stride) {
  L along = v[0] * x[0];
  for (int i = 1; i < count; ++i) along = fma(v[i * v_stride], x[i * stride], along);
  along = along * tau;
  for (int i = 0; i < count; ++i) to[i * stride] = fma(-along, v[i * v_stride], x[i * stride]);
}

// The reduction J = U B Vᵀ: B has alpha (m) on its diagonal and beta (m) below it; beta[i] is in
// row i. V is stored as reflectors: row i of `a` (m x n), from the diagonal on, is the vector of
// reflector i, and tau (m) has the factors.
template <class L, class M, class N>
struct Reduction {
  M m;
  N n;
  L *a, *alpha, *beta, *tau;

  // Eliminates row i to the right of the diagonal, then column i below the subdiagonal. (A struct,
  // because NVRTC rejects a lambda with a template parameter.)
  template <class I>
  SUPPLE_INLINE void operator()(I i) const {
    L* const v = a + i * n + i;
    if (i + 1 < n) {
      alpha[i] = make_householder(n - i, 1, v, tau[i]);
      for (int r = 1; r < m - i; ++r)
        apply_householder(n - i, v, 1, tau[i], v + r * n, v + r * n, 1);
    } else {
      alpha[i] = *v;
      tau[i] = L(0);
    }
    L *const below = v + n, scale;
    if (i + 2 < m) {
      beta[i + 1] = make_householder(m - i - 1, n, below, scale);
      for (int j = 1; j < n - i; ++j) {
        apply_householder(m - i - 1, below, n, scale, below + j, below + j, n);
      }
    } else if (i + 1 < m) {
      beta[i + 1] = *below;
    }
  }
};

// y <- V y (n): applies the reflectors of `Reduction` from the last to the first.
template <class L, class M, class N>
struct Expansion {
  M m;
  N n;
  const L *a, *tau;
  L* y;

  template <class I>
  SUPPLE_INLINE void operator()(I k) const {
    const int i = m - 1 - k;
    apply_householder(n - i, a + i * n + i, 1, tau[i], y + i, y + i, 1);
  }
};

// Results of `secular`, which solves (BᵀB + x) y = c₀ e₁ for a lower bidiagonal B (αᵢ on its
// diagonal, βᵢ below it) by the trailing minors P and the leading minors N of BᵀB + x:
//
//     yᵢ = cᵢ Pᵢ₊₁/P₀        cᵢ = -cᵢ₋₁ αᵢ βᵢ
//     Pᵢ = αᵢ² Pᵢ₊₁ + Qᵢ     Qᵢ = x Pᵢ₊₁ + βᵢ₊₁² Qᵢ₊₁       P_m = 1, Q_m = 0
//     Mᵢ = αᵢ₋₁² Mᵢ₋₁ + x Nᵢ₋₁     Nᵢ = Mᵢ + βᵢ² Nᵢ₋₁         M₀ = N₀ = 1
//
// The diagonal of the inverse is Nᵢ Pᵢ₊₁/P₀. With φ = ‖y‖ and its derivative φ' in x:
//
//     -φφ' = Σ (Nᵢ Pᵢ₊₁/P₀) (yᵢ² + 2 Σ_{j>i} yⱼ²)
template <class L>
struct Secular {
  L determinant;  // P₀
  L square;       // φ²
  L slope;        // -φφ'
  L trace;        // trace of the inverse of BᵀB + x
};

// Solves the system of `Secular` for a given x: y (m) is the solution. `leading` (m) is scratch
// memory; `tail` (m), if given, receives Q.
template <class L, class M>
SUPPLE_INLINE Secular<L> secular(M m, const L* alpha2, const L* beta2, const L* c, const L& x, L* y,
                                 L* leading, L* tail = nullptr) {
  // y[i] holds Pᵢ₊₁ until P₀ is known.
  L P(1), Q(0), inner(1), outer(1);
  for (int i = m - 1; i >= 0; --i) {
    y[i] = P;
    Q = i + 1 < m ? fma(beta2[i + 1], Q, x * P) : x;
    if (tail) tail[i] = Q;
    P = fma(alpha2[i], P, Q);
  }
  for (int i = 0; i < m; ++i) {
    if (i > 0) {
      inner = fma(alpha2[i - 1], inner, x * outer);
      outer = fma(beta2[i], outer, inner);
    }
    leading[i] = outer;
  }
  const L inverse = L(1) / P;
  Secular<L> result{P, L(0), L(0), L(0)};
  for (int i = m - 1; i >= 0; --i) {
    const L ratio = y[i] * inverse, diagonal = leading[i] * ratio;
    y[i] = c[i] * ratio;
    const L before = result.square;
    result.square = fma(y[i], y[i], before);
    result.slope = fma(diagonal, before + result.square, result.slope);
    result.trace = result.trace + diagonal;
  }
  return result;
}

// The problem in bidiagonal form. J is divided by `unit`, a power of two near the largest singular
// value of B, and q̇ by its bound: q̇ = bound V y.
template <class L>
struct Bidiagonal {
  L *a, *tau;             // V, as in `Reduction`
  L *alpha2, *beta2, *c;  // squares of B's entries; right-hand sides cᵢ of `Secular`
  L *y, *leading, *rest;  // scratch memory: y and leading for `secular`, rest for the caller
  L unit, shrink;         // shrink is 1/unit
  L frobenius;            // squared Frobenius norm of B
  L error;                // ±‖e‖/(unit * bound)
  mask_t<L> valid, zero;  // lanes whose squares neither overflow nor lose digits; lanes with e = 0
};

// Number of lanes of scratch memory that `optimal_step` and `residual_step` need.
SUPPLE_FN constexpr int optimal_scratch(int m, int n) { return m * n + 10 * m; }

template <class L, class M, class N>
SUPPLE_INLINE Bidiagonal<L> bidiagonal_form(M m, N n, const L* J, const L* e, const L& bound,
                                            L* scratch) {
  using T = scalar_t<L>;
  // Norms in this range can be squared without losing digits.
  constexpr T shortest = T(sizeof(T) == 8 ? 0x1p-400 : 0x1p-32);
  constexpr T longest = T(sizeof(T) == 8 ? 0x1p400 : 0x1p56);
  L *a = scratch, *alpha = a + m * n, *beta = alpha + m, *tau = beta + m, *alpha2 = tau + m,
    *beta2 = alpha2 + m, *c = beta2 + m, *y = c + m, *leading = y + m, *x = leading + m;
  L largest(0);
  for (int i = 0; i < m; ++i) {
    x[i] = e[i];
    largest = max(largest, abs(e[i]));
  }
  L scale;
  beta[0] = make_householder(m, 1, x, scale);
  for (int j = 0; j < n; ++j) apply_householder(m, x, 1, scale, J + j, a + j, n);
  each(m, Reduction<L, M, N>{m, n, a, alpha, beta, tau});

  L size(0);
  for (int i = 0; i < m; ++i) size = size + abs(alpha[i]) + (i ? abs(beta[i]) : L(0));
  mask_t<L> valid = (size >= L(shortest)) & (size <= L(longest));
  const L first = abs(beta[0]);
  valid = valid & (first <= L(longest)) & ((first >= L(shortest)) | (largest == L(0)));
  const L unit = select(valid, power_of_two(size * L(T(1) / T(int(m)))), L(1));
  const L shrink = L(1) / unit, error = beta[0] * shrink / bound;
  L frobenius(0);
  for (int i = 0; i < m; ++i) {
    const L d = alpha[i] * shrink, b = i ? beta[i] * shrink : L(0);
    alpha2[i] = d * d;
    beta2[i] = b * b;
    c[i] = i ? -(c[i - 1] * (d * b)) : d * error;
    frobenius = frobenius + (alpha2[i] + beta2[i]);
  }
  return {a, tau,  alpha2, beta2,     c,     y,     leading,
          x, unit, shrink, frobenius, error, valid, !(largest > L(0))};
}

// Whether J has full rank by a clear margin; `at` is the result of `secular` at x = 0.
template <class L>
SUPPLE_INLINE mask_t<L> has_full_rank(const Secular<L>& at, const L& frobenius) {
  using T = scalar_t<L>;
  // The smallest determinant by which one can divide without losing digits, and the largest
  // accepted condition number.
  constexpr T least = T(sizeof(T) == 8 ? 0x1p-700 : 0x1p-90);
  constexpr T condition = 1 / (256 * Number<T>::epsilon);
  return (at.determinant >= L(least)) & (at.trace * frobenius <= L(condition) * L(condition));
}

// Computes q̇ = Jᵀ(JJᵀ + λ²I)⁻¹e with the smallest λ² >= 0 such that ‖q̇‖ <= bound, for m <= n.
// Newton's method starts at `start`, such as 0 or the λ² of the previous step; the root does not
// depend on it. Returns the lanes where dq and lambda2 are valid. The results are not valid if m >
// n, if J is rank deficient or nearly so (the result then depends on which singular values count as
// zero), or if numbers overflow or underflow.
template <class L, class M, class N>
SUPPLE_FN mask_t<L> optimal_step(M m, N n, const L* J, const L* e, const L& bound, const L& start,
                                 L* dq, L* lambda2, L* scratch, L* iterations = nullptr) {
  using T = scalar_t<L>;
  constexpr T epsilon = Number<T>::epsilon;
  // As in `optimal_lambda2`, the iteration ends slightly below the bound and aims a little lower.
  constexpr T end = 1 - 32 * epsilon, aim = 1 - 64 * epsilon, low = 1 - 96 * epsilon;
  if (int(m) > int(n)) return L(0) != L(0);
  const Bidiagonal<L> b = bidiagonal_form(m, n, J, e, bound, scratch);
  L *alpha2 = b.alpha2, *beta2 = b.beta2, *c = b.c, *y = b.y;

  Secular<L> at = secular(m, alpha2, beta2, c, L(0), y, b.leading);
  mask_t<L> valid = b.valid & has_full_rank(at, b.frobenius);
  // The root lies above Newton's first iterate from 0, and between |c₀| - (α₀² + β₁²) (Jensen's
  // inequality) and |c₀| (because ‖y‖ <= |c₀|/x).
  L length = sqrt(at.square), found(0), count(0), unit2 = b.unit * b.unit;
  mask_t<L> open = valid & (length > L(end));
  if (any(open)) {
    const auto newton = [&] {
      return (length - L(aim)) * (at.square / (L(aim) * select(open, at.slope, L(1))));
    };
    const L above = abs(c[0]);
    L lower = max(newton(), above - (alpha2[0] + (m > 1 ? beta2[m > 1 ? 1 : 0] : L(0))));
    found = select(open, max(lower, min(start * (b.shrink * b.shrink), above)), L(0));
    // If λ² may be much larger than all entries of B, minors might overflow: divide the problem by
    // the upper bound on λ².
    const mask_t<L> far = open & (above > L(64));
    if (any(far)) {
      const L less = select(far, L(1) / power_of_two(above), L(1));
      L power = less;
      for (int i = 0; i < m; ++i, power = power * less) {
        alpha2[i] = alpha2[i] * less;
        beta2[i] = beta2[i] * less;
        c[i] = c[i] * power;
      }
      lower = lower * less;
      found = found * less;
      unit2 = unit2 / less;
    }
    count = select(open, L(1), L(0));
    for (int k = 1; k < max_newton_iterations; ++k) {
      at = secular(m, alpha2, beta2, c, found, y, b.leading);
      length = sqrt(at.square);
      const mask_t<L> under = length > L(end);
      // If the start was above the root, one iteration leads below it.
      open = open & (k == 1 ? under | ((length < L(low)) & (found > lower)) : under);
      if (!any(open)) break;
      found = select(open, max(found + newton(), lower), found);
      count = select(open, count + L(1), count);
    }
    valid = valid & !open;
  }
  if (iterations) *iterations = count;
  *lambda2 = found * unit2;
  valid = valid & finite(*lambda2);

  // q̇ = V y
  for (int j = 0; j < n; ++j) dq[j] = j < m ? y[j < m ? j : 0] : L(0);
  each(m, Expansion<L, M, N>{m, n, b.a, b.tau, dq});
  valid = valid & (dot(n, dq, dq) <= L(1 - 8 * epsilon));
  for (int j = 0; j < n; ++j) dq[j] = dq[j] * bound;
  return valid;
}

// Computes the damped step q̇ with the largest λ² such that ‖e - Jq̇‖ <= share ‖e‖. Arguments and
// the returned lanes are as for `optimal_step`. As a function of x = λ², the residual r = e - Jq̇
// is, in the basis U,
//
//     r₀ = ‖e‖ Q₀/P₀      rᵢ = -βᵢ cᵢ₋₁ Qᵢ/P₀      and  r·r' = -x φφ'
//
// 1/‖r‖ is a concave, increasing function of 1/λ². Newton's method starts at a λ² above the root
// (by Jensen's inequality), or at `start`, and approaches the root from above.
template <class L, class M, class N>
SUPPLE_FN mask_t<L> residual_step(M m, N n, const L* J, const L* e, const L& share, const L& start,
                                  L* dq, L* lambda2, L* scratch, L* iterations = nullptr) {
  using T = scalar_t<L>;
  constexpr T epsilon = Number<T>::epsilon;
  if (int(m) > int(n)) return L(0) != L(0);
  const L size = sqrt(dot(m, e, e)), bound = select(size > L(0), size, L(1));
  const Bidiagonal<L> b = bidiagonal_form(m, n, J, e, bound, scratch);
  L *const y = b.y, *const tail = b.rest;
  Secular<L> at = secular(m, b.alpha2, b.beta2, b.c, L(0), y, b.leading, tail);
  mask_t<L> valid = b.valid & has_full_rank(at, b.frobenius);
  const L aim = share * L(1 - 64 * epsilon), end = share * L(1 - 32 * epsilon);
  const L low = share * L(1 - 96 * epsilon), error2 = select(b.zero, L(1), b.error * b.error);
  const L upper = b.alpha2[0] * aim / (L(1) - aim);
  L count(0), found = upper;
  found = select(start > L(0), min(upper, start * (b.shrink * b.shrink)), found);
  mask_t<L> open = valid & !b.zero;
  for (int k = 0; k < max_newton_iterations && any(open); ++k) {
    at = secular(m, b.alpha2, b.beta2, b.c, found, y, b.leading, tail);
    const L inverse = L(1) / at.determinant;
    L sum = error2 * tail[0] * tail[0];
    for (int i = 1; i < m; ++i) {
      const L term = b.c[i - 1] * tail[i];
      sum = fma(b.beta2[i] * term, term, sum);
    }
    const L square = sum * inverse * inverse / error2, length = sqrt(square);
    const mask_t<L> over = length > end;
    // If the start was below the root, one iteration leads above it.
    open = open & (k == 0 ? over | ((length < low) & (found < upper)) : over);
    if (!any(open)) break;
    const L slope = select(open, at.slope * found * found * aim, L(1));
    const L divisor = L(1) + (length - aim) * (error2 * square / slope);
    // Far below the root, the divisor is inaccurate because of cancellation; the iteration then
    // continues from `upper`.
    const mask_t<L> usable = (divisor * upper > found) & (length + length > aim);
    const L next = select(usable, found / select(usable, divisor, L(1)), upper);
    found = select(open, next, found);
    count = select(open, count + L(1), count);
  }
  if (iterations) *iterations = count;
  *lambda2 = select(b.zero, L(0), found * (b.unit * b.unit));
  const mask_t<L> has_lambda2 = finite(*lambda2), has_determinant = finite(at.determinant);
  valid = valid & !open & has_lambda2 & has_determinant;
  for (int j = 0; j < n; ++j) dq[j] = j < m ? y[j < m ? j : 0] : L(0);
  each(m, Expansion<L, M, N>{m, n, b.a, b.tau, dq});
  for (int j = 0; j < n; ++j) dq[j] = dq[j] * bound;
  return valid;
}

// Calls `residual_step`. Common sizes are passed as compile-time constants, which gives the same
// result bit for bit.
template <class L>
SUPPLE_NOINLINE mask_t<L> residual_step_any_size(int m, int n, const L* J, const L* e,
                                                 const L& share, const L& start, L* dq, L* lambda2,
                                                 L* scratch) {
  const Fixed<6> six{};
  const Fixed<7> seven{};
  if (m == 6 && n == 7) return residual_step(six, seven, J, e, share, start, dq, lambda2, scratch);
  if (m == 6 && n == 6) return residual_step(six, six, J, e, share, start, dq, lambda2, scratch);
  return residual_step(m, n, J, e, share, start, dq, lambda2, scratch);
}
template <class L, int M, int N>
SUPPLE_INLINE mask_t<L> residual_step_any_size(Fixed<M> m, Fixed<N> n, const L* J, const L* e,
                                               const L& share, const L& start, L* dq, L* lambda2,
                                               L* scratch) {
  return residual_step(m, n, J, e, share, start, dq, lambda2, scratch);
}

// Calls `optimal_step`. Common sizes are passed as compile-time constants, which gives the same
// result bit for bit.
template <class L>
SUPPLE_NOINLINE mask_t<L> optimal_step_any_size(int m, int n, const L* J, const L* e,
                                                const L& bound, const L& start, L* dq, L* lambda2,
                                                L* scratch) {
  const Fixed<3> three{};
  const Fixed<6> six{};
  const Fixed<7> seven{};
  if (m == 6 && n == 7) return optimal_step(six, seven, J, e, bound, start, dq, lambda2, scratch);
  if (m == 6 && n == 6) return optimal_step(six, six, J, e, bound, start, dq, lambda2, scratch);
  if (m == 6) return optimal_step(six, n, J, e, bound, start, dq, lambda2, scratch);
  if (m == 3) return optimal_step(three, n, J, e, bound, start, dq, lambda2, scratch);
  return optimal_step(m, n, J, e, bound, start, dq, lambda2, scratch);
}
template <class L, int M, int N>
SUPPLE_INLINE mask_t<L> optimal_step_any_size(Fixed<M> m, Fixed<N> n, const L* J, const L* e,
                                              const L& bound, const L& start, L* dq, L* lambda2,
                                              L* scratch) {
  return optimal_step(m, n, J, e, bound, start, dq, lambda2, scratch);
}

}  // namespace supple::inline SUPPLE_ISA
