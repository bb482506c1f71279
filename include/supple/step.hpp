// Steps without memory: (J, e) -> q̇.
//
// The Python counterparts, src/supple/motion/{step,selective,weighted,clamp}.py, follow the papers
// and cite them; tests/motion compares the two.
#pragma once

#include "supple/arena.hpp"
#include "supple/damping.hpp"
#include "supple/lane.hpp"
#include "supple/linalg.hpp"
#include "supple/optimal.hpp"

namespace supple {

enum class Method : int {
  transpose,        // -
  pseudoinverse,    // -
  truncated,        // threshold relative to the largest singular value
  truncated_below,  // threshold of the singular values
  truncated_rank,   // number of singular values
  damped_svd,       // -
  damped_cholesky,  // -
  damped_qr,        // -
  selective,        // largest angle
  selective_soft,   // largest angle
  damped_quick,     // -
};

// A bound on the error of each end effector. `effector` (m) numbers the end effectors from 0: rows
// with the same number belong to the same one.
template <class T>
struct ErrorClamp {
  T max_error;
  const int* effector;
};

template <class T>
struct Step {
  Method method;
  T p;                 // in the order of the comments above
  T max_angle;         // bound on the entries of q̇, which is scaled as a whole; infinite for none
  Damping<T> damping;  // rule of the damped methods
  const int* effector = nullptr;  // (m), as above, for the selective methods
  // (error_clamps,): applied in this order, the outermost first.
  const ErrorClamp<T>* error_clamp = nullptr;
  int error_clamps = 0;
  // Weights, null for none.
  const T* task_scale = nullptr;   // (m): factors of the rows of J and of e
  const T* joint_scale = nullptr;  // (n): factors of the columns of J, and of q̇ in the end
  const T* direction = nullptr;    // (m), unit: the task direction that a region gives up first
  T min_weight = 1;                // weight of that direction at the singularity
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// J = Σ σᵢ uᵢ vᵢᵀ with the singular vectors as rows: u (k x m), v (k x n), k = min(m, n). Where σᵢ
// is zero, one of its vectors is zero as well, unless `whole` asks for orthonormal bases.
template <class L, class M, class N>
SUPPLE_FN void thin_svd(M m, N n, const L* J, L* u, L* sigma, L* v, bool whole = true) {
  if (int(m) <= int(n)) {
    for (int i = 0; i < m * n; ++i) v[i] = J[i];
    svd_rows(m, n, v, sigma, u, whole);
    return;
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) u[j * m + i] = J[i * n + j];
  }
  svd_rows(n, m, u, sigma, v, whole);
}

// Jᵀ x
template <class L, class M, class N>
SUPPLE_FN void transpose_times(M rows, N columns, const L* SUPPLE_RESTRICT J,
                               const L* SUPPLE_RESTRICT x, L* SUPPLE_RESTRICT result) {
  const int m = rows, n = columns;
  SUPPLE_UNROLL_HOST for (int j = 0; j < n; ++j) result[j] = J[j] * x[0];
  SUPPLE_UNROLL_HOST for (int i = 1; i < m; ++i) {
    SUPPLE_UNROLL_HOST for (int j = 0; j < n; ++j) result[j] = fma(J[i * n + j], x[i], result[j]);
  }
}

template <class L>
SUPPLE_INLINE L length(int n, const L* x, int stride = 1) {
  L sum = x[0] * x[0];
  for (int i = 1; i < n; ++i) sum = fma(x[i * stride], x[i * stride], sum);
  return sqrt(sum);
}

// The length of each end effector's part of x (m): `effector` as in `ErrorClamp`. Returns the
// number of end effectors.
template <class L>
SUPPLE_FN int effector_lengths(int m, const int* effector, const L* x, int stride, L* lengths) {
  int count = 0;
  for (int i = 0; i < m; ++i) {
    for (const int k = effector[i]; count <= k; ++count) lengths[count] = L(0);
    L& square = lengths[effector[i]];
    square = fma(x[i * stride], x[i * stride], square);
  }
  for (int k = 0; k < count; ++k) lengths[k] = sqrt(lengths[k]);
  return count;
}

// Shortens the error e (m) of each end effector to at most `max_length` (Buss 2009, ClampMag).
// `factor` (m) is scratch memory.
template <class L>
SUPPLE_FN void clamp_error(int m, const int* effector, const L& max_length, L* e, L* factor) {
  const int count = effector_lengths(m, effector, e, 1, factor);
  for (int k = 0; k < count; ++k) {
    const mask_t<L> far = factor[k] > max_length;
    factor[k] = select(far, max_length / select(far, factor[k], L(1)), L(1));
  }
  for (int i = 0; i < m; ++i) e[i] = e[i] * factor[effector[i]];
}

template <class L>
SUPPLE_INLINE L largest_entry(int n, const L* x) {
  L largest(0);
  for (int i = 0; i < n; ++i) largest = max(largest, abs(x[i]));
  return largest;
}

// Scales the whole vector so that no entry exceeds `max_length`.
template <class L>
SUPPLE_FN void clamp_entries(int n, const L& max_length, L* x) {
  const L size = largest_entry(n, x);
  const mask_t<L> far = size > max_length;
  const L factor = select(far, max_length / select(far, size, L(1)), L(1));
  for (int i = 0; i < n; ++i) x[i] = x[i] * factor;
}

// q̇ = α Jᵀe with the α that brings J q̇ nearest to e (Buss 2009, section 3). Zero where Jᵀe is only
// rounding error.
template <class L>
SUPPLE_FN void transpose_step(int m, int n, const L* J, const L* e, L* dq) {
  transpose_times(m, n, J, e, dq);
  L along(0), square(0);
  for (int i = 0; i < m; ++i) {
    const L back = dot(n, J + i * n, dq);
    along = fma(e[i], back, along);
    square = fma(back, back, square);
  }
  const mask_t<L> nonzero = length(n, dq) > rank_floor(length(m * n, J)) * length(m, e);
  const L alpha = select(nonzero, along / select(nonzero, square, L(1)), L(0));
  for (int j = 0; j < n; ++j) dq[j] = dq[j] * alpha;
}

// Selectively damped least squares: each singular direction is limited by the joint motion at which
// the end effectors would move farther than desired (Buss & Kim 2005). `reaches` (n) and `lengths`
// (m) are scratch memory.
template <class L>
SUPPLE_NOINLINE_DEVICE void selective_step(int m, int n, const int* effector, const L* J,
                                           const L* u, const L* sigma, const L* v, const L* gamma,
                                           const L& max_length, bool soft, L* reaches, L* lengths,
                                           L* dq) {
  const int k = m < n ? m : n;
  // The sum of the lengths of all end effectors' parts of x.
  const auto total_length = [&](const L* x, int stride) {
    const int count = effector_lengths(m, effector, x, stride, lengths);
    L sum = lengths[0];
    for (int a = 1; a < count; ++a) sum = sum + lengths[a];
    return sum;
  };
  for (int j = 0; j < n; ++j) {
    reaches[j] = total_length(J + j, n);  // how far the joint moves the end effectors
    dq[j] = L(0);
  }
  for (int i = 0; i < k; ++i) {
    const L *ui = u + i * m, *vi = v + i * n;
    const mask_t<L> nonzero = sigma[i] > rank_floor(sigma[0]);
    const L inverse = select(nonzero, L(1) / select(nonzero, sigma[i], L(1)), L(0));
    const L asked = total_length(ui, 1);
    L moved(0);
    for (int j = 0; j < n; ++j) moved = fma(abs(vi[j]), reaches[j], moved);
    moved = moved * inverse;
    const mask_t<L> less = asked < moved;
    const L limit = max_length * select(less, asked / select(less, moved, L(1)), L(1));
    const L along = gamma[i] * inverse;
    const L size = abs(along) * largest_entry(n, vi);
    const L over = soft ? limit + size : max(limit, size);
    const L scale = along * select(over > L(0), limit / select(over > L(0), over, L(1)), L(0));
    for (int j = 0; j < n; ++j) dq[j] = fma(scale, vi[j], dq[j]);
  }
  clamp_entries(n, max_length, dq);
}

// Adds λ² to the diagonal of J Jᵀ or JᵀJ, whichever is smaller, and solves by Cholesky.
template <class L>
SUPPLE_FN void damped_cholesky(int m, int n, const L* J, const L* e, const L& lambda2, L* A, L* x,
                               L* dq) {
  if (m <= n) {
    gram(m, n, J, A);
    for (int i = 0; i < m; ++i) {
      A[i * m + i] = A[i * m + i] + lambda2;
      x[i] = e[i];
    }
    cholesky(m, A);
    cholesky_solve(m, A, x);
    transpose_times(m, n, J, x, dq);
    return;
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      L sum = J[i] * J[j];
      for (int r = 1; r < m; ++r) sum = fma(J[r * n + i], J[r * n + j], sum);
      A[i * n + j] = sum;
    }
    A[i * n + i] = A[i * n + i] + lambda2;
  }
  transpose_times(m, n, J, e, dq);
  cholesky(n, A);
  cholesky_solve(n, A, dq);
}

// The least-squares solution of [J; λI] q̇ = [e; 0], which keeps the condition number of J instead
// of squaring it (Wampler 1986). `A` has (m + n) n entries, `tau` n, `b` m + n.
template <class L>
SUPPLE_FN void damped_qr(int m, int n, const L* J, const L* e, const L& lambda2, L* A, L* tau, L* b,
                         L* dq) {
  const L lambda = sqrt(lambda2);
  for (int i = 0; i < m * n; ++i) A[i] = J[i];
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) A[(m + i) * n + j] = i == j ? lambda : L(0);
  }
  for (int i = 0; i < m + n; ++i) b[i] = i < m ? e[i] : L(0);
  qr(m + n, n, A, tau);
  qr_solve(m + n, n, A, tau, b);
  for (int j = 0; j < n; ++j) dq[j] = b[j];
}

// Multiplies J and e by I + (w - 1) d dᵀ from the left: J into `weighted` (m x n), e in place.
template <class L, class T>
SUPPLE_FN void deweight_direction(int m, int n, const T* d, const L& w, const L* J, L* weighted,
                                  L* e) {
  const L less = w - L(1);
  for (int j = 0; j < n; ++j) {
    L along(0);
    for (int i = 0; i < m; ++i) along = fma(L(d[i]), J[i * n + j], along);
    along = along * less;
    for (int i = 0; i < m; ++i) weighted[i * n + j] = fma(L(d[i]), along, J[i * n + j]);
  }
  L along(0);
  for (int i = 0; i < m; ++i) along = fma(L(d[i]), e[i], along);
  along = along * less;
  for (int i = 0; i < m; ++i) e[i] = fma(L(d[i]), along, e[i]);
}

template <class T>
SUPPLE_FN constexpr bool is_truncated(const Step<T>& how) {
  return how.method == Method::truncated || how.method == Method::truncated_below ||
         how.method == Method::truncated_rank;
}

template <class T>
SUPPLE_FN constexpr bool is_damped(const Step<T>& how) {
  return how.method == Method::damped_svd || how.method == Method::damped_cholesky ||
         how.method == Method::damped_qr || how.method == Method::damped_quick;
}

// Any step, with singular values where the rule or method needs them. e (m) may be overwritten;
// `scratch` has 4 (m + n)² lanes.
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
  // Where the rule needs the singular values, another factorization would be redundant.
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
      const L safe = select(nonzero, sigma[i], L(1));  // its square might underflow
      const L along = select(nonzero, gamma[i] / (safe + damping / safe), L(0));
      for (int j = 0; j < n; ++j) dq[j] = fma(along, v[i * n + j], dq[j]);
    }
  }
  return damping;
}

// The same; where the sizes are known only at run time it is compiled once.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE L general_step_any_size(const Step<T>& how, int m, int n, const L* J, L* e,
                                               const L& before, const L& change, L* dq,
                                               L* scratch) {
  return general_step(how, m, n, J, e, before, change, dq, scratch);
}
template <class L, class T, int M, int N>
SUPPLE_INLINE L general_step_any_size(const Step<T>& how, Fixed<M> m, Fixed<N> n, const L* J, L* e,
                                      const L& before, const L& change, L* dq, L* scratch) {
  return general_step(how, m, n, J, e, before, change, dq, scratch);
}

// The smallest pivot of a Gram matrix, relative to its largest entry, for which the Cholesky factor
// may replace an SVD. (Not relative to its own row: a row of rounding errors, such as the motion
// out of the plane of a planar arm, counts as zero.)
template <class T>
inline constexpr T fast_path_pivot = sizeof(T) == 8 ? T(1e-7) : T(1e-3);

// The smallest pivot for which the solution by the Cholesky factor is not refined: the Gram matrix
// squares the condition number of J.
template <class T>
inline constexpr T refined_pivot = sizeof(T) == 8 ? T(1e-2) : fast_path_pivot<float>;

// Factors A (m x m, its lower triangle; overwritten). Returns its smallest pivot relative to its
// largest diagonal entry; zero where A is not positive definite.
template <class L>
SUPPLE_FN L relative_pivot(int m, L* A) {
  L largest(0);
  for (int i = 0; i < m; ++i) largest = max(largest, A[i * m + i]);
  const mask_t<L> definite = cholesky(m, A);
  L smallest = largest;
  for (int i = 0; i < m; ++i) smallest = min(smallest, A[i * m + i] * A[i * m + i]);
  return select(definite, smallest / select(definite, largest, L(1)), L(0));
}

// The smallest σ² + λ², relative to ‖J‖², for a λ² from the eigenvalues of J Jᵀ: they have the
// rounding errors of the largest one, which change q̇ by their ratio to the smallest σ² + λ².
template <class T>
inline constexpr T least_eigenvalue = sizeof(T) == 8 ? T(1e-5) : T(1e-2);

// Whether a rule looks at nothing but the extreme singular values or the product of all, at e and
// at the step before.
SUPPLE_FN constexpr bool is_spectral(Rule rule) {
  return rule == Rule::speed_bound || rule == Rule::region || rule == Rule::curvature ||
         rule == Rule::tracking_bound || rule == Rule::condition_bound ||
         rule == Rule::manipulability || rule == Rule::manipulability_rate ||
         rule == Rule::mayorga_condition || rule == Rule::mayorga_rank;
}

// λ² of such a rule from the lower triangle of J Jᵀ (A, m x m, overwritten). Returns the lanes
// where it is valid. `work` has 4 m lanes.
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
    const mask_t<L> valid = relative_pivot(m, A) > L(fast_path_pivot<T>);
    sigma[0] = A[0];
    for (int i = 1; i < m; ++i) sigma[0] = sigma[0] * A[i * m + i];
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
  // Those that do not need the largest one only ask whether the smallest is zero to rank; where it
  // might be, the pivots are too small.
  sigma[0] = sqrt(largest ? high : low);
  sigma[1] = sqrt(low);
  *found = evaluated(2);
  if (rule == Rule::mayorga_condition || rule == Rule::mayorga_rank) {
    // They divide by the smallest one: valid where its rounding errors do not matter.
    constexpr T same = sizeof(T) == 8 ? T(1e-11) : T(1e-3);
    sigma[1] = sqrt(fma(trace, L(64 * Number<T>::epsilon), low));
    valid = valid & (abs(evaluated(2) - *found) <= L(same) * (*found + low));
  }
  return valid & (low + *found > L(least_eigenvalue<T>) * trace);
}

// The damped or undamped step by a Cholesky factor, without singular vectors: where λ² does not
// depend on singular values, or only on the extreme ones, or nothing is damped or truncated because
// the smallest one is large enough, which a Cholesky factor also shows. Returns the lanes where
// that holds and J Jᵀ + λ² is well conditioned; m <= n.
template <class L, class T, class M, class N>
SUPPLE_FN mask_t<L> cholesky_step(const Step<T>& how, M m, N n, const L* J, const L* e,
                                  const L& before, const L& change, L* dq, L* lambda2, L* scratch) {
  L *A = scratch, *shifted = A + m * m, *z = shifted + m * m, *rest = z + m;
  const mask_t<L> nowhere = L(0) != L(0);
  const Damping<T>& damping = how.damping;
  L least(0);  // square of the singular value above which nothing is damped or truncated
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
    // One step of iterative refinement, with the residual by J itself.
    for (int i = 0; i < m; ++i) rest[i] = e[i] - fma(*lambda2, z[i], dot(n, J + i * n, dq));
    cholesky_solve(m, A, rest);
    for (int i = 0; i < m; ++i) z[i] = select(inaccurate, z[i] + rest[i], z[i]);
    transpose_times(m, n, J, z, dq);
  }
  return holds;
}

// Lanes of scratch memory that `cholesky_step` needs.
SUPPLE_FN constexpr int cholesky_scratch(int m) { return 2 * m * m + 6 * m; }

// The same; where the sizes are known only at run time it is compiled once.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE mask_t<L> cholesky_step_any_size(const Step<T>& how, int m, int n,
                                                        const L* J, const L* e, const L& before,
                                                        const L& change, L* dq, L* lambda2,
                                                        L* scratch) {
  return cholesky_step(how, m, n, J, e, before, change, dq, lambda2, scratch);
}
template <class L, class T, int M, int N>
SUPPLE_INLINE mask_t<L> cholesky_step_any_size(const Step<T>& how, Fixed<M> m, Fixed<N> n,
                                               const L* J, const L* e, const L& before,
                                               const L& change, L* dq, L* lambda2, L* scratch) {
  return cholesky_step(how, m, n, J, e, before, change, dq, lambda2, scratch);
}

// J with the row and column weights of a step.
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

// Whether the step has a fast path, without singular values.
template <class T>
SUPPLE_FN constexpr bool has_fast_path(const Step<T>& how) {
  const bool optimal = how.damping.rule == Rule::optimal;
  return how.method == Method::damped_quick || how.method == Method::pseudoinverse ||
         is_truncated(how) || (how.method == Method::damped_cholesky && optimal);
}

// The fast path, on the weighted J and e of `apply_weights`. Returns the lanes where dq and lambda2
// are valid.
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

// Clamps and weights the error: e (m). Returns J, or `scaled` (m x n) if it is weighted.
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

// Converts the solution of the weighted problem back to q̇, and clamps it.
template <class L, class T>
SUPPLE_FN void unweight(const Step<T>& how, int n, L* dq) {
  if (how.joint_scale) {
    for (int j = 0; j < n; ++j) dq[j] = dq[j] * L(how.joint_scale[j]);
  }
  if (how.max_angle < Number<T>::huge) clamp_entries(n, L(how.max_angle), dq);
}

// Lanes of scratch memory that `step` needs.
SUPPLE_FN constexpr int step_scratch(int m, int n) { return 4 * (m + n) * (m + n) + m + n + m * n; }

// One step. `before` and `change` are those of a Spectrum, of the weighted J; `start` is the
// initial guess for the optimal λ². Returns λ², zero for undamped methods.
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
