// Small dense linear algebra on lanes: Cholesky, Householder QR, one-sided Jacobi SVD.
//
// A matrix is a row-major array of lanes, a[i * columns + j]; every lane holds its own matrix.
// Sizes are `int`, or `Fixed<6>` where they are known at compile time, which unrolls the loops.
//
// Range: QR and SVD first scale the matrix by a power of two, so that the squares of up to 2^16
// entries can be added without overflow. Entries smaller than 1e-304 times the largest one (1e-34
// in float) count as zero. Results above the number range are infinite, for example the singular
// values of a matrix whose entries are all the largest finite number. Cholesky never squares an
// entry.
//
// Lanes are independent: a lane that has converged does not change while others continue, so its
// bits do not depend on them.
#pragma once

#include "supple/lane.hpp"

namespace supple::inline SUPPLE_ISA {

// A size known at compile time.
template <int N>
struct Fixed {
  SUPPLE_INLINE constexpr operator int() const { return N; }
};

template <class L>
SUPPLE_INLINE L dot(int n, const L* a, const L* b) {
  L sum = a[0] * b[0];
  for (int i = 1; i < n; ++i) sum = fma(a[i], b[i], sum);
  return sum;
}

// Computes the lower triangle of A A^T for A (m x n). Four dot products are computed at a time, so
// that the processor can overlap their sums.
template <class L>
SUPPLE_FN void gram(int m, int n, const L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT product) {
  for (int i = 0; i < m; ++i) {
    const L* x = a + i * n;
    int j = 0;
    for (; j + 3 <= i; j += 4) {
      const L* y = a + j * n;
      L sum[4];
      for (int s = 0; s < 4; ++s) sum[s] = x[0] * y[s * n];
      for (int k = 1; k < n; ++k) {
        for (int s = 0; s < 4; ++s) sum[s] = fma(x[k], y[s * n + k], sum[s]);
      }
      for (int s = 0; s < 4; ++s) product[i * m + j + s] = sum[s];
    }
    for (; j <= i; ++j) product[i * m + j] = dot(n, x, a + j * n);
  }
}

// `gram` for sizes known at compile time.
template <class L, int M, int N>
SUPPLE_FN void gram(Fixed<M>, Fixed<N>, const L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT product) {
  SUPPLE_UNROLL_HOST for (int i = 0; i < M; ++i) {
    L sum[M];
    SUPPLE_UNROLL_HOST for (int j = 0; j <= i; ++j) sum[j] = a[i * N] * a[j * N];
    SUPPLE_UNROLL_HOST for (int k = 1; k < N; ++k) {
      SUPPLE_UNROLL_HOST for (int j = 0; j <= i; ++j) sum[j] =
          fma(a[i * N + k], a[j * N + k], sum[j]);
    }
    SUPPLE_UNROLL_HOST for (int j = 0; j <= i; ++j) product[i * M + j] = sum[j];
  }
}

// Scales a[0..count) by a power of two so that its largest entry is near Number::scale_target.
// Returns the inverse of the factor. A zero matrix is not changed.
template <class L>
SUPPLE_FN L scale_to_range(int count, L* a) {
  using N = Number<scalar_t<L>>;
  L largest(0);
  for (int i = 0; i < count; ++i) largest = max(largest, abs(a[i]));
  const L power = max(power_of_two(largest), L(N::tiny));
  // The factor is limited to the largest power of two; a tiny matrix then remains below the target.
  const L factor = select(largest > L(0), min(L(N::scale_target) / power, L(N::huge)), L(1));
  for (int i = 0; i < count; ++i) a[i] = a[i] * factor;
  return L(1) / factor;
}

// ---- Cholesky ----------------------------------------------------------------------------------

// Factors a symmetric positive semidefinite A = C C^T (n x n; the lower triangle is read and
// replaced by C). A pivot that is zero to working precision, relative to its diagonal entry of A,
// gives a zero column instead of a division by zero; C C^T then equals A to the square root of
// working precision (to working precision if A is exactly rank deficient). Returns the lanes where
// all pivots are positive: there A has full rank to working precision.
template <class L, class N>
SUPPLE_FN mask_t<L> cholesky(N n, L* SUPPLE_RESTRICT a) {
  using T = scalar_t<L>;
  mask_t<L> full = L(0) == L(0);
  for (int k = 0; k < n; ++k) {
    const L floor = a[k * n + k] * L(T(n) * Number<T>::epsilon);
    L pivot = a[k * n + k];
    for (int j = 0; j < k; ++j) pivot = fma(-a[k * n + j], a[k * n + j], pivot);
    const mask_t<L> positive = (pivot > floor) & (pivot > L(0));
    full = full & positive;
    const L root = sqrt(select(positive, pivot, L(1)));
    const L inverse = select(positive, L(1) / root, L(0));
    a[k * n + k] = select(positive, root, L(0));
    for (int i = k + 1; i < n; ++i) {
      L entry = a[i * n + k];
      for (int j = 0; j < k; ++j) entry = fma(-a[i * n + j], a[k * n + j], entry);
      a[i * n + k] = entry * inverse;
    }
  }
  return full;
}

// x <- A^-1 x with the factor C from `cholesky`. Components with a zero pivot are set to zero: even
// if A is rank deficient, the result solves A x = b for every b in the range of A.
template <class L, class N>
SUPPLE_FN void cholesky_solve(N n, const L* SUPPLE_RESTRICT c, L* SUPPLE_RESTRICT x) {
  for (int i = 0; i < n; ++i) {
    L sum = x[i];
    for (int j = 0; j < i; ++j) sum = fma(-c[i * n + j], x[j], sum);
    const L d = c[i * n + i];
    x[i] = select(d > L(0), sum / select(d > L(0), d, L(1)), L(0));
  }
  for (int i = n - 1; i >= 0; --i) {
    L sum = x[i];
    for (int j = i + 1; j < n; ++j) sum = fma(-c[j * n + i], x[j], sum);
    const L d = c[i * n + i];
    x[i] = select(d > L(0), sum / select(d > L(0), d, L(1)), L(0));
  }
}

// x <- A^-1 x for a symmetric A (n x n; the lower triangle is read, all of A is overwritten), by A
// = L D L^T: faster than `cholesky` and `cholesky_solve`, because it needs no square roots and only
// one division per column. Each column updates all later columns at once, so that the next pivot is
// ready early. inverse_of(k, pivot) is used as the inverse of pivot k.
template <class L, class N, class Invert>
SUPPLE_FN void ldl_by(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT x, Invert&& inverse_of) {
  const int n = size;
  SUPPLE_UNROLL_HOST for (int k = 0; k < n; ++k) {
    const L inverse = inverse_of(k, a[k * n + k]);
    a[k * n + k] = inverse;
    // Column k of L replaces that of L D below the diagonal; that of L D is kept above it.
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      a[k * n + i] = a[i * n + k];
      a[i * n + k] = a[i * n + k] * inverse;
    }
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      SUPPLE_UNROLL_HOST for (int j = k + 1; j <= i; ++j) {
        a[i * n + j] = fma(-a[k * n + i], a[j * n + k], a[i * n + j]);
      }
      x[i] = fma(-a[i * n + k], x[k], x[i]);
    }
  }
  SUPPLE_UNROLL_HOST for (int i = 0; i < n; ++i) x[i] = x[i] * a[i * n + i];
  SUPPLE_UNROLL_HOST for (int j = n - 1; j > 0; --j) {
    SUPPLE_UNROLL_HOST for (int i = 0; i < j; ++i) x[i] = fma(-a[j * n + i], x[j], x[i]);
  }
}

// Solves A x = b for a positive semidefinite A by L D L^T. A pivot that is zero to working
// precision gives a zero component, as in `cholesky_solve`. `floor` (n,) is scratch memory for the
// thresholds.
template <class L, class N>
SUPPLE_FN void ldl_solve(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT x,
                         L* SUPPLE_RESTRICT floor) {
  using T = scalar_t<L>;
  const int n = size;
  SUPPLE_UNROLL_HOST for (int i = 0; i < n; ++i) {
    floor[i] = a[i * n + i] * L(T(n) * Number<T>::epsilon);
  }
  ldl_by(size, a, x, [&](int k, const L& pivot) {
    const mask_t<L> positive = (pivot > floor[k]) & (pivot > L(0));
    return select(positive, L(1) / select(positive, pivot, L(1)), L(0));
  });
}

// Solves A' x = b, where A' is A with each pivot of its L D L^T replaced by the pivot's absolute
// value, or by `floor` > 0 if that is larger. A' is positive definite.
template <class L, class N>
SUPPLE_FN void convex_solve(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT x, const L& floor) {
  ldl_by(size, a, x, [&](int, const L& pivot) { return L(1) / max(abs(pivot), floor); });
}

// ---- extreme eigenvalues -----------------------------------------------------------------------

// Reduces a symmetric A (n x n; the lower triangle is read, all of A is overwritten) to a
// tridiagonal matrix with the same eigenvalues, by Householder reflections. d (n) is its diagonal,
// off2 (n; the last is zero) the squares of the entries next to the diagonal. `v` (n) and `w` (n)
// are scratch memory.
template <class L, class N>
SUPPLE_FN void tridiagonal(N size, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT d,
                           L* SUPPLE_RESTRICT off2, L* SUPPLE_RESTRICT v, L* SUPPLE_RESTRICT w) {
  const int n = size;
  SUPPLE_UNROLL_HOST for (int k = 0; k < n; ++k) {
    d[k] = a[k * n + k];
    if (k + 2 >= n) {
      off2[k] = k + 1 < n ? a[(k + 1) * n + k] * a[(k + 1) * n + k] : L(0);
      continue;
    }
    L sum(0);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      v[i] = a[i * n + k];
      sum = fma(v[i], v[i], sum);
    }
    off2[k] = sum;
    // H = I - tau v vT reflects the column below the diagonal to (∓norm, 0, ...).
    const L norm = sqrt(sum);
    const mask_t<L> reflect = sum >= L(Number<scalar_t<L>>::tiny);
    const L head = norm + abs(v[k + 1]);
    const L tau = select(reflect, L(1) / select(reflect, norm * head, L(1)), L(0));
    v[k + 1] = copysign(head, v[k + 1]);
    // A <- A - v wT - w vT  with  w = p - (tau/2 pTv) v  and  p = tau A v
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) w[i] = L(0);
    SUPPLE_UNROLL_HOST for (int j = k + 1; j < n; ++j) {
      SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
        w[i] = fma(i < j ? a[j * n + i] : a[i * n + j], v[j], w[i]);
      }
    }
    L along(0);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      w[i] = w[i] * tau;
      along = fma(w[i], v[i], along);
    }
    along = along * (tau * L(scalar_t<L>(0.5)));
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) w[i] = fma(-along, v[i], w[i]);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < n; ++i) {
      SUPPLE_UNROLL_HOST for (int j = k + 1; j <= i; ++j) {
        a[i * n + j] = fma(-v[i], w[j], fma(-w[i], v[j], a[i * n + j]));
      }
    }
  }
}

// Returns the smallest eigenvalue of a positive semidefinite tridiagonal matrix (d and off2 as in
// `tridiagonal`) whose norm is near 1, to a few ulps of 1. Laguerre's method on the characteristic
// polynomial approaches the smallest root from below. Lanes that do not converge are removed from
// `valid`.
template <class L, class N>
SUPPLE_FN L smallest_eigenvalue(N size, const L* SUPPLE_RESTRICT d, const L* SUPPLE_RESTRICT off2,
                                mask_t<L>& valid) {
  using T = scalar_t<L>;
  constexpr int max_iterations = 40;
  constexpr T epsilon = Number<T>::epsilon;
  const int n = size;
  const L count((T(n)));
  L s(0), before(0);
  mask_t<L> open = valid;
  for (int k = 0; k < max_iterations; ++k) {
    // p, dp, ddp: leading principal minor of A - s I of size i, with its first and second
    // derivatives in s; p0, dp0, ddp0: those of size i - 1.
    L p(1), dp(0), ddp(0), p0(0), dp0(0), ddp0(0);
    SUPPLE_UNROLL_HOST for (int i = 0; i < n; ++i) {
      const L x = d[i] - s, b = i ? -off2[i > 0 ? i - 1 : 0] : L(0);
      const L p1 = fma(b, p0, x * p), dp1 = fma(b, dp0, fma(x, dp, -p)),
              ddp1 = fma(b, ddp0, fma(x, ddp, -(dp + dp)));
      p0 = p, dp0 = dp, ddp0 = ddp;
      p = p1, dp = dp1, ddp = ddp1;
    }
    open = open & (p > L(0)) & (dp < L(0));  // otherwise s is the root up to rounding
    if (!any(open)) return s;
    // Laguerre's step n p/(-p' + √((n - 1)((n - 1) p'² - n p p''))), which is positive.
    const L root = (count - L(1)) * fma((count - L(1)) * dp, dp, -(count * p * ddp));
    const L step = count * p / select(open, sqrt(max(root, L(0))) - dp, L(1));
    s = select(open, s + step, s);
    // Laguerre's method converges cubically: the next step is about step (step/before)³. Stop when
    // that is negligible.
    const L less = step * step;
    open = open & (step > L(epsilon)) & (less * less > L(epsilon) * before * before * before);
    before = step;
    if (!any(open)) return s;
  }
  valid = valid & !open;
  return s;
}

// Computes the smallest and the largest eigenvalue (each only if its pointer is not null) of a
// symmetric positive semidefinite A (n x n; the lower triangle is read, all of A is overwritten),
// to a few ulps of the largest one. Returns the lanes with valid results: those where the iteration
// converged and the trace is neither too small nor too large. `work` has 4 n lanes.
template <class L, class N>
SUPPLE_FN mask_t<L> extreme_eigenvalues(N size, L* SUPPLE_RESTRICT a, L* smallest, L* largest,
                                        L* SUPPLE_RESTRICT work) {
  using T = scalar_t<L>;
  constexpr T lowest = T(sizeof(T) == 8 ? 0x1p-400 : 0x1p-32), highest = 1 / lowest;
  const int n = size;
  L *d = work, *off2 = d + n, trace(0);
  for (int i = 0; i < n; ++i) trace = trace + a[i * n + i];
  const mask_t<L> usable = (trace > L(lowest)) & (trace < L(highest));
  const L unit = power_of_two(select(usable, trace, L(1))), shrink = L(1) / unit;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) a[i * n + j] = a[i * n + j] * shrink;
  }
  tridiagonal(size, a, d, off2, off2 + n, off2 + 2 * n);
  mask_t<L> valid = usable;
  if (smallest) *smallest = smallest_eigenvalue(size, d, off2, valid) * unit;
  if (largest) {  // c minus the smallest eigenvalue of c - A, with c above all eigenvalues of A
    const L c = trace * shrink;
    for (int i = 0; i < n; ++i) d[i] = c - d[i];
    *largest = (c - smallest_eigenvalue(size, d, off2, valid)) * unit;
  }
  return valid;
}

// Calls `extreme_eigenvalues`, with compile-time sizes for the common ones; the results have the
// same bits.
template <class L>
SUPPLE_NOINLINE_DEVICE mask_t<L> extreme_eigenvalues_any_size(int n, L* a, L* smallest, L* largest,
                                                              L* work) {
  if (n == 6) return extreme_eigenvalues(Fixed<6>{}, a, smallest, largest, work);
  if (n == 3) return extreme_eigenvalues(Fixed<3>{}, a, smallest, largest, work);
  return extreme_eigenvalues(n, a, smallest, largest, work);
}
template <class L, int N>
SUPPLE_INLINE mask_t<L> extreme_eigenvalues_any_size(Fixed<N> n, L* a, L* smallest, L* largest,
                                                     L* work) {
  return extreme_eigenvalues(n, a, smallest, largest, work);
}

// ---- Householder QR ----------------------------------------------------------------------------

// Factors A = Q R for a matrix (m x n) of any shape, with k = min(m, n). On return R is on and
// above the diagonal of a; below it are the reflectors v_j (v_j[j] = 1 is not stored): Q = H_0 ...
// H_{k-1}, H_j = I - tau_j v_j v_j^T. A column that is already zero below the diagonal needs no
// reflector (tau = 0). Q is orthogonal and Q R = A at any rank.
template <class L, class M, class N>
SUPPLE_NOINLINE_DEVICE void qr(M m, N n, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT tau) {
  const L unscale = scale_to_range(m * n, a);
  for (int j = 0; j < m && j < n; ++j) {
    L below(0);
    for (int i = j + 1; i < m; ++i) below = fma(a[i * n + j], a[i * n + j], below);
    const L head = a[j * n + j];
    // A subnormal sum of squares has lost digits, and H would not be orthogonal.
    const mask_t<L> reflect = below >= L(Number<scalar_t<L>>::tiny);
    // The new diagonal entry has the opposite sign of the old one, `head`: head - diagonal does not
    // cancel.
    const L norm = sqrt(fma(head, head, below));
    const L diagonal = select(reflect, -copysign(norm, head), head);
    const L safe = select(reflect, head - diagonal, L(1));
    tau[j] = select(reflect, safe / -diagonal, L(0));
    const L inverse = select(reflect, L(1) / safe, L(0));
    for (int i = j + 1; i < m; ++i) a[i * n + j] = a[i * n + j] * inverse;
    a[j * n + j] = diagonal;
    for (int c = j + 1; c < n; ++c) {
      L sum = a[j * n + c];
      for (int i = j + 1; i < m; ++i) sum = fma(a[i * n + j], a[i * n + c], sum);
      sum = sum * tau[j];
      a[j * n + c] = a[j * n + c] - sum;
      for (int i = j + 1; i < m; ++i) a[i * n + c] = fma(-sum, a[i * n + j], a[i * n + c]);
    }
  }
  for (int i = 0; i < m; ++i) {
    for (int j = i; j < n; ++j) a[i * n + j] = a[i * n + j] * unscale;
  }
}

// b <- H_j b for one reflector of `qr`; b has m entries.
template <class L, class M, class N>
SUPPLE_INLINE void apply_reflector(M m, N n, const L* a, const L* tau, int j, L* b) {
  L sum = b[j];
  for (int i = j + 1; i < m; ++i) sum = fma(a[i * n + j], b[i], sum);
  sum = sum * tau[j];
  b[j] = b[j] - sum;
  for (int i = j + 1; i < m; ++i) b[i] = fma(-sum, a[i * n + j], b[i]);
}

// b <- Q^T b with the factors of `qr`.
template <class L, class M, class N>
SUPPLE_FN void qr_transpose_times(M m, N n, const L* a, const L* tau, L* b) {
  for (int j = 0; j < m && j < n; ++j) apply_reflector(m, n, a, tau, j, b);
}

// b <- Q b with the factors of `qr`.
template <class L, class M, class N>
SUPPLE_FN void qr_times(M m, N n, const L* a, const L* tau, L* b) {
  for (int j = (m < n ? int(m) : int(n)) - 1; j >= 0; --j) apply_reflector(m, n, a, tau, j, b);
}

// Computes the least-squares solution of A x = b for m >= n and full column rank, with the factors
// of `qr`. b (m) is overwritten; its first n entries are x. Where R has a zero on its diagonal,
// that component of x is zero. Returns the lanes where no diagonal entry is zero.
template <class L, class M, class N>
SUPPLE_FN mask_t<L> qr_solve(M m, N n, const L* a, const L* tau, L* b) {
  qr_transpose_times(m, n, a, tau, b);
  mask_t<L> full = L(0) == L(0);
  for (int i = n - 1; i >= 0; --i) {
    L sum = b[i];
    for (int j = i + 1; j < n; ++j) sum = fma(-a[i * n + j], b[j], sum);
    const L d = a[i * n + i];
    const mask_t<L> nonzero = d != L(0);
    full = full & nonzero;
    b[i] = select(nonzero, sum / select(nonzero, d, L(1)), L(0));
  }
  return full;
}

// ---- one-sided Jacobi SVD ----------------------------------------------------------------------

// Completes an orthonormal basis in the rows of `list` (length n): on the lanes `missing`, row i
// becomes a unit vector orthogonal to the rows before it. It starts as the coordinate axis farthest
// from the span of those rows. The span is projected out twice, because one projection is
// inaccurate for a vector close to it.
template <class L>
SUPPLE_NOINLINE_DEVICE void complete_basis(int i, int n, L* list, const mask_t<L>& missing) {
  L best(-1), pick(0);
  for (int k = 0; k < n; ++k) {
    L rest(1);
    for (int j = 0; j < i; ++j) rest = fma(-list[j * n + k], list[j * n + k], rest);
    pick = select(rest > best, L(scalar_t<L>(k)), pick);
    best = max(best, rest);
  }
  L* const v = list + i * n;
  for (int k = 0; k < n; ++k) {
    v[k] = select(missing, select(pick == L(scalar_t<L>(k)), L(1), L(0)), v[k]);
  }
  for (int twice = 0; twice < 2; ++twice) {
    for (int j = 0; j < i; ++j) {
      const L along = dot(n, list + j * n, v);
      for (int k = 0; k < n; ++k) {
        v[k] = select(missing, fma(-along, list[j * n + k], v[k]), v[k]);
      }
    }
    const L norm = select(missing, sqrt(dot(n, v, v)), L(1));
    for (int k = 0; k < n; ++k) v[k] = v[k] / norm;
  }
}

// Applies the Jacobi rotation that makes rows x and y (length n) orthogonal, with the longer one
// first, and the same rotation to rows p and q (length r). *a and *b belong to x and y, and are
// exchanged where the rows are. Returns the lanes where x and y were rotated.
template <class L>
SUPPLE_INLINE mask_t<L> rotate_rows(int n, L* x, L* y, L* a, L* b, int r, L* p, L* q) {
  using T = scalar_t<L>;
  L xx = x[0] * x[0], yy = y[0] * y[0], xy = x[0] * y[0];
  for (int k = 1; k < n; ++k) {
    xx = fma(x[k], x[k], xx);
    yy = fma(y[k], y[k], yy);
    xy = fma(x[k], y[k], xy);
  }
  // Rows are orthogonal to working precision if their cosine is below the rounding error of a sum
  // of n products.
  const T tolerance = Number<T>::epsilon * sqrt(T(n > 4 ? n : 4));
  const mask_t<L> skew = abs(xy) > L(tolerance) * sqrt(xx) * sqrt(yy);
  const mask_t<L> turn = skew | (yy > xx);
  if (!any(turn)) return turn;
  // The smaller root of tan(2 angle) = 2 xy / (xx - yy). Numerator and denominator are divided by
  // the larger of them, so that no square leaves the number range.
  const L half = (xx - yy) * L(T(0.5));
  const L big = max(abs(half), abs(xy));
  const L safe = select(big > L(0), big, L(1));
  const L h = abs(half) / safe, g = xy / safe;
  const L reach = h + sqrt(fma(h, h, g * g));
  const L t = select(skew, select(half < L(0), -g, g) / select(skew, reach, L(1)), L(0));
  const L cosine = L(1) / sqrt(fma(t, t, L(1)));
  const L sine = cosine * t;
  // Where y is longer, a further quarter turn exchanges the rotated pair (x', y') to (y', -x').
  const mask_t<L> exchange = yy > xx;
  const L c = select(turn, select(exchange, -sine, cosine), L(1));
  const L s = select(turn, select(exchange, cosine, sine), L(0));
  const L of_x = *a;
  *a = select(exchange, *b, of_x);
  *b = select(exchange, of_x, *b);
  for (int k = 0; k < n; ++k) {
    const L u = x[k], w = y[k];
    x[k] = select(turn, fma(c, u, s * w), u);
    y[k] = select(turn, fma(c, w, -(s * u)), w);
  }
  for (int k = 0; k < r; ++k) {
    const L u = p[k], w = q[k];
    p[k] = select(turn, fma(c, u, s * w), u);
    q[k] = select(turn, fma(c, w, -(s * u)), w);
  }
  return turn;
}

// Returns the lanes where a row with this squared length counts as zero: smaller squares have lost
// digits.
template <class L>
SUPPLE_INLINE mask_t<L> is_null(const L& square) {
  return square <= L(4 * Number<scalar_t<L>>::tiny);
}

// Sets to zero all null rows, and all rows that the last sweep made shorter than the rounding
// errors of their previous value. Without rounding, such a row is zero, because it is a combination
// of the others; if it stayed, it would shrink in every sweep and never become orthogonal.
// `squares` (k) keeps the squared lengths between sweeps.
template <class L>
SUPPLE_INLINE void drop_vanished(int k, int n, L* rows, L* squares) {
  using T = scalar_t<L>;
  const T noise = 4 * T(n) * Number<T>::epsilon;
  for (int i = 0; i < k; ++i) {
    const L square = dot(n, rows + i * n, rows + i * n);
    const mask_t<L> vanished = is_null(square) | (square <= squares[i] * L(noise * noise));
    squares[i] = square;
    if (!any(vanished)) continue;
    for (int c = 0; c < n; ++c) rows[i * n + c] = select(vanished, L(0), rows[i * n + c]);
  }
}

// Computes the SVD of k rows of length n >= k: rows = U diag(sigma) V^T. On return `rows` is V^T (k
// x n, orthonormal rows), sigma (k) is nonnegative and descending, and `turned` is U^T (k x k,
// orthogonal). With turned = nullptr only sigma is computed and `rows` is scratch memory. Rows of
// V^T whose singular value is zero are zero, unless `whole` is true: then they complete the basis.
template <class L, class K, class N>
SUPPLE_FN void svd_rows_inline(K k, N n, L* SUPPLE_RESTRICT rows, L* SUPPLE_RESTRICT sigma,
                               L* SUPPLE_RESTRICT turned, bool whole) {
  using T = scalar_t<L>;
  constexpr int max_sweeps = 60, typical_sweeps = 4;
  const L unscale = scale_to_range(k * n, rows);
  const int r = turned ? int(k) : 0;
  for (int i = 0; i < r; ++i) {
    for (int j = 0; j < r; ++j) turned[i * k + j] = L(T(i == j));
  }
  for (int i = 0; i < k; ++i) sigma[i] = L(0);
  for (int sweep = 0; sweep < max_sweeps; ++sweep) {
    if (sweep >= typical_sweeps) drop_vanished(k, n, rows, sigma);
    bool turning = false;
    SUPPLE_UNROLL for (int i = 0; i < k - 1; ++i) {
      SUPPLE_UNROLL for (int j = i + 1; j < k; ++j) {
        turning |= any(rotate_rows(n, rows + i * n, rows + j * n, sigma + i, sigma + j, r,
                                   turned + i * r, turned + j * r));
      }
    }
    if (!turning) break;
  }
  for (int i = 0; i < k; ++i) {
    const L square = dot(n, rows + i * n, rows + i * n);
    const mask_t<L> missing = is_null(square);
    const L norm = select(missing, L(0), sqrt(square));
    sigma[i] = norm * unscale;
    if (!turned) continue;
    // A null row has no direction: any unit vector orthogonal to the other rows can replace it.
    const L inverse = select(missing, L(0), L(1) / select(missing, L(1), norm));
    for (int c = 0; c < n; ++c) rows[i * n + c] = rows[i * n + c] * inverse;
    if (whole && any(missing)) complete_basis(i, n, rows, missing);
  }
}
template <class L>
SUPPLE_NOINLINE_DEVICE void svd_rows(int k, int n, L* SUPPLE_RESTRICT rows,
                                     L* SUPPLE_RESTRICT sigma, L* SUPPLE_RESTRICT turned,
                                     bool whole = true) {
  svd_rows_inline(k, n, rows, sigma, turned, whole);
}
template <class L, class K, class N>
SUPPLE_FN void svd_rows(K k, N n, L* SUPPLE_RESTRICT rows, L* SUPPLE_RESTRICT sigma,
                        L* SUPPLE_RESTRICT turned, bool whole = true) {
  svd_rows_inline(k, n, rows, sigma, turned, whole);
}

// Singular value decomposition A = U diag(sigma) V^T of an m x n matrix of any shape, with
// k = min(m, n): u (m x k) and v (n x k) have orthonormal columns at any rank, and sigma (k) is in
// descending order. `work` has m * n lanes; a is not changed.
template <class L, class M, class N>
SUPPLE_FN void svd(M m, N n, const L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT u,
                   L* SUPPLE_RESTRICT sigma, L* SUPPLE_RESTRICT v, L* SUPPLE_RESTRICT work) {
  const auto transposed = [](int rows, int columns, L* in_place, L* buffer) {
    for (int i = 0; i < rows * columns; ++i) buffer[i] = in_place[i];
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) in_place[j * rows + i] = buffer[i * columns + j];
    }
  };
  if (int(m) <= int(n)) {
    for (int i = 0; i < m * n; ++i) v[i] = a[i];
    svd_rows(m, n, v, sigma, u);
    transposed(m, n, v, work);
    transposed(m, m, u, work);
  } else {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) u[j * m + i] = a[i * n + j];
    }
    svd_rows(n, m, u, sigma, v);
    transposed(n, m, u, work);
    transposed(n, n, v, work);
  }
}

// Computes only the singular values: sigma has min(m, n) entries in descending order; a is
// overwritten, work has m * n lanes.
template <class L, class M, class N>
SUPPLE_FN void singular_values(M m, N n, L* SUPPLE_RESTRICT a, L* SUPPLE_RESTRICT sigma,
                               L* SUPPLE_RESTRICT work) {
  if (int(m) <= int(n)) {
    svd_rows(m, n, a, sigma, static_cast<L*>(nullptr));
    return;
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) work[j * m + i] = a[i * n + j];
  }
  svd_rows(n, m, work, sigma, static_cast<L*>(nullptr));
}

}  // namespace supple::inline SUPPLE_ISA
