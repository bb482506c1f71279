// Products of many padded rows with one row or with a matrix, on the packs of a processor: several
// rows take turns, so that no sum waits for its previous term.
#pragma once

#include "supple/math/linalg/padded.hpp"

namespace supple::inline SUPPLE_ISA {

// The sum of the entries of each pack.
template <class T>
SUPPLE_INLINE Unrolled<T> sums_of_packs(Unrolled<T>* pack) {
  constexpr int W = pack_width<T>;
  if constexpr (W > 1) {
    static_assert(W == 8);
    transpose(pack);
    SUPPLE_UNROLL_HOST for (int i = 0; i < W / 2; ++i) pack[i] = pack[i] + pack[i + W / 2];
    SUPPLE_UNROLL_HOST for (int i = 0; i < W / 4; ++i) pack[i] = pack[i] + pack[i + W / 4];
    return pack[0] + pack[1];
  } else {
    return pack[0];
  }
}

// The products of x with W rows, for their entries [from, to). Both ends are multiples of a pack.
template <class T>
SUPPLE_INLINE Unrolled<T> pack_of_dots(int from, int to, const T* x, const T* const* row) {
  constexpr int W = pack_width<T>;
  Unrolled<T> sum[W];
  SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) sum[i] = Unrolled<T>(T(0));
  for (int j = from; j < to; j += W) {
    const Unrolled<T> factor = load_pack(x + j);
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
      sum[i] = fma(factor, load_pack(row[i] + j), sum[i]);
    }
  }
  return sums_of_packs<T>(sum);
}

// Computes y = A x for A (m x n). The rows of A, and x, are padded; y (m) has room for a number of
// entries that is a multiple of a pack.
template <class T>
SUPPLE_NOINLINE void row_dots(int m, int n, const T* A, const T* x, T* y) {
  constexpr int W = pack_width<T>;
  const int s = padded<T>(n);
  for (int first = 0; first < m; first += W) {
    const T* row[W];
    for (int i = 0; i < W; ++i) row[i] = A + (first + i < m ? first + i : first) * s;
    store_pack<T>(pack_of_dots(0, s, x, row), y + first);
  }
}

// Subtracts tau (v·a) v from each of the rows a = row_at(i), i < count, for entries [from, to).
// Both ends are multiples of a pack.
template <class T, class Row>
SUPPLE_INLINE void reflect_rows(int count, int from, int to, const T* v, T tau, Row&& row_at) {
  constexpr int W = pack_width<T>;
  for (int first = 0; first < count; first += W) {
    const int rows = count - first < W ? count - first : W;
    T* row[W];
    for (int i = 0; i < W; ++i) row[i] = row_at(first + (i < rows ? i : 0));
    T by[W];
    store_pack<T>(pack_of_dots(from, to, v, row) * Unrolled<T>(-tau), by);
    for (int i = 0; i < rows; ++i) add_scaled(from, to, by[i], v, row[i]);
  }
}

// Adds sign A B to a block of C, of up to 4 rows and `packs` packs: the rows `row` of A have k
// entries, and those of B and C are s apart.
template <int packs, class T>
SUPPLE_INLINE void add_block(int rows, int k, int s, const T* const* row, const T* B, T sign,
                             T* C) {
  constexpr int W = pack_width<T>;
  Unrolled<T> sum[4][packs];
  SUPPLE_UNROLL_HOST for (int i = 0; i < 4; ++i) {
    for (int p = 0; p < packs; ++p) sum[i][p] = Unrolled<T>(T(0));
  }
  for (int r = 0; r < k; ++r, B += s) {
    SUPPLE_UNROLL_HOST for (int p = 0; p < packs; ++p) {
      const Unrolled<T> right = load_pack(B + p * W);
      SUPPLE_UNROLL_HOST for (int i = 0; i < 4; ++i) {
        sum[i][p] = fma(Unrolled<T>(row[i][r]), right, sum[i][p]);
      }
    }
  }
  SUPPLE_UNROLL_HOST for (int i = 0; i < 4; ++i) {
    for (int p = 0; p < packs && i < rows; ++p) {
      T* const to = C + i * s + p * W;
      store_pack<T>(fma(Unrolled<T>(sign), sum[i][p], load_pack(to)), to);
    }
  }
}

// Computes C += sign A B for A (m x k) and B (k x n). All rows are padded.
template <class T>
SUPPLE_NOINLINE void add_product(int m, int k, int n, const T* A, const T* B, T sign, T* C) {
  constexpr int W = pack_width<T>;
  // Eight sums, each in one register, hide the latency of their terms.
  constexpr bool one_register = !requires(Unrolled<T> pack) { pack.lo; };
  constexpr int packs = one_register ? 2 : 1;
  const int a = padded<T>(k), s = padded<T>(n);
  for (int first = 0; first < m; first += 4) {
    const int rows = m - first < 4 ? m - first : 4;
    const T* row[4];
    for (int i = 0; i < 4; ++i) row[i] = A + (first + (i < rows ? i : 0)) * a;
    int j = 0;
    for (; j + packs * W <= s; j += packs * W) {
      add_block<packs>(rows, k, s, row, B + j, sign, C + first * s + j);
    }
    if (j < s) add_block<1>(rows, k, s, row, B + j, sign, C + first * s + j);
  }
}

// Copies a row of n entries. The last two packs may overlap each other; `from` and `to` must not
// overlap.
template <class T>
SUPPLE_INLINE void copy_row(int n, const T* SUPPLE_RESTRICT from, T* SUPPLE_RESTRICT to) {
  constexpr int W = pack_width<T>;
  if (n < W) {
    for (int j = 0; j < n; ++j) to[j] = from[j];
    return;
  }
  for (int j = 0; j + W < n; j += W) store_pack<T>(load_pack(from + j), to + j);
  store_pack<T>(load_pack(from + n - W), to + n - W);
}

// Copies rows of n entries that are not padded to padded rows, and back.
template <class T>
SUPPLE_FN void pad_rows(int m, int n, const T* SUPPLE_RESTRICT from, T* SUPPLE_RESTRICT to) {
  const int s = padded<T>(n);
  for (int i = 0; i < m; ++i, from += n, to += s) {
    if (n > 0) store_pack<T>(Unrolled<T>(T(0)), to + s - pack_width<T>);
    copy_row(n, from, to);
  }
}
template <class T>
SUPPLE_FN void unpad_rows(int m, int n, const T* SUPPLE_RESTRICT from, T* SUPPLE_RESTRICT to) {
  const int s = padded<T>(n);
  for (int i = 0; i < m; ++i, from += s, to += n) copy_row(n, from, to);
}

}  // namespace supple::inline SUPPLE_ISA
