// One-sided Jacobi singular value decomposition on lanes.
#pragma once

#include "supple/math/linalg/matrix.hpp"

namespace supple::inline SUPPLE_ISA {

// Completes an orthonormal basis in the rows of `list` (length n): on the lanes `missing`, row i
// becomes a unit vector orthogonal to the rows before it. The new row starts as the coordinate axis
// farthest from the span of those rows. The span is projected out twice, because one projection is
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

// The products x·x, y·y and x·y of two rows.
template <class L>
struct RowProducts {
  L xx, yy, xy;
};
// Products of rows with at least `long_row` entries are computed as `row_parts` partial sums, each
// over every eighth entry, so that no addition waits for the previous one. Products of shorter
// rows, such as those of an arm, are a single sum.
inline constexpr int long_row = 24, row_parts = 8;

template <class L>
SUPPLE_INLINE RowProducts<L> row_products(int n, const L* x, const L* y) {
  RowProducts<L> sum{x[0] * x[0], y[0] * y[0], x[0] * y[0]};
  for (int k = 1; k < n; ++k) {
    sum.xx = fma(x[k], x[k], sum.xx);
    sum.yy = fma(y[k], y[k], sum.yy);
    sum.xy = fma(x[k], y[k], sum.xy);
  }
  return sum;
}
template <class L>
SUPPLE_NOINLINE RowProducts<L> products_by_parts(int n, const L* x, const L* y) {
  RowProducts<L> part[row_parts];
  for (int i = 0; i < row_parts; ++i) part[i] = {L(0), L(0), L(0)};
  for (int k = 0; k < n; ++k) {
    RowProducts<L>& own = part[k % row_parts];
    own.xx = fma(x[k], x[k], own.xx);
    own.yy = fma(y[k], y[k], own.yy);
    own.xy = fma(x[k], y[k], own.xy);
  }
  RowProducts<L> sum = part[0];
  for (int i = 1; i < row_parts; ++i) {
    sum = {sum.xx + part[i].xx, sum.yy + part[i].yy, sum.xy + part[i].xy};
  }
  return sum;
}
// Computes the same products, bit for bit, for a single matrix: on a CPU, the partial sums are the
// numbers of one pack.
template <class T>
SUPPLE_INLINE RowProducts<T> products_in_pack(int n, const T* x, const T* y) {
  using P = Unrolled<T>;
  if constexpr (width<P> == row_parts) {
    P xx(T(0)), yy(T(0)), xy(T(0));
    const auto add = [&](const T* left, const T* right) {
      const P a = load_lanes<P>(left), b = load_lanes<P>(right);
      xx = fma(a, a, xx), yy = fma(b, b, yy), xy = fma(a, b, xy);
    };
    int k = 0;
    for (; k + row_parts <= n; k += row_parts) add(x + k, y + k);
    if (k < n) {
      T left[row_parts] = {}, right[row_parts] = {};
      for (int i = 0; k + i < n; ++i) left[i] = x[k + i], right[i] = y[k + i];
      add(left, right);
    }
    RowProducts<T> sum{get(xx, 0), get(yy, 0), get(xy, 0)};
    for (int i = 1; i < row_parts; ++i) {
      sum = {sum.xx + get(xx, i), sum.yy + get(yy, i), sum.xy + get(xy, i)};
    }
    return sum;
  } else {
    return products_by_parts(n, x, y);
  }
}
template <class L>
SUPPLE_INLINE RowProducts<L> long_row_products(int n, const L* x, const L* y) {
  return products_by_parts(n, x, y);
}
SUPPLE_INLINE RowProducts<double> long_row_products(int n, const double* x, const double* y) {
  return products_in_pack(n, x, y);
}
SUPPLE_INLINE RowProducts<float> long_row_products(int n, const float* x, const float* y) {
  return products_in_pack(n, x, y);
}

// The square of a row's length, summed exactly as in `rotate_rows`, so that singular values
// computed from it have the order into which `rotate_rows` brings the rows.
template <class L>
SUPPLE_INLINE L row_square(int n, const L* x) {
  return n < long_row ? dot(n, x, x) : long_row_products(n, x, x).xx;
}

// Rotates the rows x and y (n) on the lanes `turn`: (x, y) becomes (c x + s y, c y - s x).
template <class L>
SUPPLE_INLINE void turn_pair(int n, const mask_t<L>& turn, const L& c, const L& s, L* x, L* y) {
  int k = 0;
  if constexpr (width<L> == 1 && width<Unrolled<scalar_t<L>>> > 1) {
    using P = Unrolled<L>;  // for a single matrix, a pack holds several numbers of a row
    for (; n >= long_row && k + width<P> <= n; k += width<P>) {
      const P u = load_lanes<P>(x + k), w = load_lanes<P>(y + k);
      store_lanes(fma(P(c), u, P(s) * w), x + k);
      store_lanes(fma(P(c), w, -(P(s) * u)), y + k);
    }
  }
  for (; k < n; ++k) {
    const L u = x[k], w = y[k];
    x[k] = select(turn, fma(c, u, s * w), u);
    y[k] = select(turn, fma(c, w, -(s * u)), w);
  }
}

// Adds a times x (n) to y. For a long row, a pack holds several of its numbers.
template <class T>
SUPPLE_FN void add_row(int n, T a, const T* x, T* y) {
  int j = 0;
  if constexpr (width<Unrolled<T>> > 1) {
    using P = Unrolled<T>;
    for (; n >= long_row && j + width<P> <= n; j += width<P>) {
      store_lanes(fma(P(a), load_lanes<P>(x + j), load_lanes<P>(y + j)), y + j);
    }
  }
  for (; j < n; ++j) y[j] = fma(a, x[j], y[j]);
}

// Applies the Jacobi rotation that makes rows x and y (length n) orthogonal, with the longer one
// first, and the same rotation to rows p and q (length r). *a and *b belong to x and y, and are
// exchanged where the rows are. Returns the lanes where x and y were rotated.
template <class L>
SUPPLE_INLINE mask_t<L> rotate_rows(int n, L* x, L* y, L* a, L* b, int r, L* p, L* q) {
  using T = scalar_t<L>;
  const L *const from_x = x, *const from_y = y;
  const auto [xx, yy, xy] =
      n < long_row ? row_products(n, from_x, from_y) : long_row_products(n, from_x, from_y);
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
  // Where y is longer, a further quarter turn changes the rotated pair (x', y') into (y', -x').
  const mask_t<L> exchange = yy > xx;
  const L c = select(turn, select(exchange, -sine, cosine), L(1));
  const L s = select(turn, select(exchange, cosine, sine), L(0));
  const L of_x = *a;
  *a = select(exchange, *b, of_x);
  *b = select(exchange, of_x, *b);
  turn_pair(n, turn, c, s, x, y);
  turn_pair(r, turn, c, s, p, q);
  return turn;
}

// Returns the lanes where a row of the given squared length counts as zero: squares of this size
// have lost digits.
template <class L>
SUPPLE_INLINE mask_t<L> is_null(const L& square) {
  return square <= L(4 * Number<scalar_t<L>>::tiny);
}

// Sets to zero all null rows, and all rows that the last sweep made shorter than the rounding
// errors of their previous value. Without rounding, such a row is zero, because it is a combination
// of the others; if such a row stayed, it would shrink in every sweep and never become orthogonal.
// `squares` (k) keeps the squared lengths between sweeps.
template <class L>
SUPPLE_INLINE void drop_vanished(int k, int n, L* rows, L* squares) {
  using T = scalar_t<L>;
  const T noise = 4 * T(n) * Number<T>::epsilon;
  for (int i = 0; i < k; ++i) {
    const L square = row_square(n, static_cast<const L*>(rows + i * n));
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
    const L square = row_square(n, static_cast<const L*>(rows + i * n));
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
