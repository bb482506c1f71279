// Symmetric systems of one large matrix, on the packs of a processor.
//
// Rows are padded with zeros to a multiple of the width of a pack, so that loops over a row have no
// remainder.
#pragma once

#include "supple/math/linalg/matrix.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr int pack_width = width<Unrolled<T>>;
// Whether L is a single number (not a pack) on a processor that has packs.
template <class L>
inline constexpr bool has_packs = false;
template <>
inline constexpr bool has_packs<float> = pack_width<float> > 1;
template <>
inline constexpr bool has_packs<double> = pack_width<double> > 1;

// The length of a padded row of n entries.
template <class T>
SUPPLE_FN constexpr int padded(int n) {
  return (n + pack_width<T> - 1) / pack_width<T> * pack_width<T>;
}

template <class T>
SUPPLE_INLINE Unrolled<T> load_pack(const T* from) {
  return load_lanes<Unrolled<T>>(from);
}
template <class T>
SUPPLE_INLINE void store_pack(const Unrolled<T>& pack, T* to) {
  store_lanes(pack, to);
}

// Returns the first address from `memory` on at which padded rows are aligned to packs. This
// address is less than a pack after `memory`.
template <class T>
SUPPLE_FN T* aligned_rows(T* memory) {
  const auto past = reinterpret_cast<unsigned long long>(memory) % (pack_width<T> * sizeof(T));
  return past ? memory + pack_width<T> - past / sizeof(T) : memory;
}

// Adds a times the entries [from, to) of x to those of y. Both ends are multiples of a pack.
template <class T>
SUPPLE_INLINE void add_scaled(int from, int to, T a, const T* x, T* y) {
  const Unrolled<T> factor(a);
  for (int j = from; j < to; j += pack_width<T>) {
    store_pack<T>(fma(factor, load_pack(x + j), load_pack(y + j)), y + j);
  }
}

// Returns x·y of padded rows, for their entries [from, to); both ends are multiples of a pack.
template <class T>
SUPPLE_INLINE T padded_dot(int from, int to, const T* x, const T* y) {
  constexpr int W = pack_width<T>;
  Unrolled<T> sum{T(0)}, other{T(0)};
  int j = from;
  for (; j + 2 * W <= to; j += 2 * W) {
    sum = fma(load_pack(x + j), load_pack(y + j), sum);
    other = fma(load_pack(x + j + W), load_pack(y + j + W), other);
  }
  if (j < to) sum = fma(load_pack(x + j), load_pack(y + j), sum);
  T lane[W], total(0);
  store_pack<T>(sum + other, lane);
  for (int i = 0; i < W; ++i) total += lane[i];
  return total;
}

// Computes y = Σ x_r a_r, a row of n entries, from the rows a_r of A (m x n). All rows are padded.
template <class T>
SUPPLE_NOINLINE void rows_times(int m, int n, const T* A, const T* x, T* y) {
  constexpr int W = pack_width<T>, block = 4;
  const int s = padded<T>(n);
  int j = 0;
  for (; j + block * W <= s; j += block * W) {
    Unrolled<T> sum[block];
    for (int b = 0; b < block; ++b) sum[b] = Unrolled<T>(T(0));
    for (int r = 0; r < m; ++r) {
      const Unrolled<T> factor(x[r]);
      for (int b = 0; b < block; ++b)
        sum[b] = fma(factor, load_pack(A + r * s + j + b * W), sum[b]);
    }
    for (int b = 0; b < block; ++b) store_pack<T>(sum[b], y + j + b * W);
  }
  for (; j < s; j += W) {
    Unrolled<T> sum(T(0));
    for (int r = 0; r < m; ++r) sum = fma(Unrolled<T>(x[r]), load_pack(A + r * s + j), sum);
    store_pack<T>(sum, y + j);
  }
}

// A run: consecutive rows of a matrix, from the end of the previous run up to `end`, that are zero
// outside of the packs in the bit set `packs`. Bit p stands for the packs p, p + 32, ...
struct RowRun {
  int end;
  unsigned packs;
};
SUPPLE_FN constexpr unsigned pack_bit(int pack) { return 1u << (pack & 31); }

// Computes the upper triangle of JᵀJ (n x n), where J has n columns and its rows form `runs` runs.
// All rows are padded.
template <class T>
SUPPLE_NOINLINE void upper_gram(int runs, const RowRun* run, int n, const T* J, T* A) {
  constexpr int W = pack_width<T>;
  const int s = padded<T>(n);
  for (int i = 0; i < n; i += W) {
    const int rows = n - i < W ? n - i : W;
    for (int j = i; j < s; j += W) {
      Unrolled<T> sum[W];
      SUPPLE_UNROLL_HOST for (int b = 0; b < W; ++b) sum[b] = Unrolled<T>(T(0));
      for (int k = 0, r = 0; k < runs; r = run[k++].end) {
        if (!(run[k].packs & pack_bit(i / W)) || !(run[k].packs & pack_bit(j / W))) continue;
        for (; r < run[k].end; ++r) {
          const T* const left = J + r * s + i;
          const Unrolled<T> right = load_pack(J + r * s + j);
          SUPPLE_UNROLL_HOST for (int b = 0; b < W; ++b) {
            sum[b] = fma(Unrolled<T>(left[b]), right, sum[b]);
          }
        }
      }
      SUPPLE_UNROLL_HOST for (int b = 0; b < W; ++b) {
        if (b < rows) store_pack<T>(sum[b], A + (i + b) * s + j);
      }
    }
  }
}
// Computes the same triangle for J (m x n), whose rows form a single run that uses all packs.
template <class T>
SUPPLE_FN void upper_gram(int m, int n, const T* J, T* A) {
  const RowRun all{m, ~0u};
  upper_gram(1, &all, n, J, A);
}

// Writes the transpose of A (m x n) to B (n x m). The rows of both are padded, and their memory has
// room for a number of rows that is a multiple of the width of a pack.
template <class T>
SUPPLE_NOINLINE void padded_transpose(int m, int n, const T* A, T* B) {
  constexpr int W = pack_width<T>;
  const int s = padded<T>(n), t = padded<T>(m);
  for (int i = 0; i < t; i += W) {
    for (int j = 0; j < s; j += W) {
      Unrolled<T> row[W];
      SUPPLE_UNROLL_HOST for (int k = 0; k < W; ++k) {
        row[k] = i + k < m ? load_pack(A + (i + k) * s + j) : Unrolled<T>(T(0));
      }
      transpose(row);
      SUPPLE_UNROLL_HOST for (int k = 0; k < W; ++k) store_pack<T>(row[k], B + (j + k) * t + i);
    }
  }
}

// Subtracts from W rows, in the pack at column `at` of each, Σ u_j[first + i] u_j for row first +
// i: the contribution of the rows u_j of U above row `first`.
template <class T>
SUPPLE_INLINE void subtract_rows(int first, int s, int at, const T* U, Unrolled<T>* row) {
  constexpr int W = pack_width<T>;
  for (int j = 0; j < first; ++j) {
    const Unrolled<T> right = -load_pack(U + j * s + at);
    const T* const factor = U + j * s + first;
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
      row[i] = fma(Unrolled<T>(factor[i]), right, row[i]);
    }
  }
}

// Factors the first `rows` rows of a diagonal block, each one pack, by pivots d: the block is L D
// Lᵀ with the unit triangle L. The other rows must be those of an identity matrix. `made` becomes
// L⁻¹.
template <class T>
SUPPLE_INLINE void factor_block(int rows, Unrolled<T>* row, Unrolled<T>* made, T* d) {
  constexpr int W = pack_width<T>;
  for (int k = 0; k < W; ++k) d[k] = T(1);
  SUPPLE_UNROLL_HOST for (int k = 0; k < W; ++k) {
    if (k == rows) return;
    d[k] = get(row[k], k);
    const Unrolled<T> share = row[k] * Unrolled<T>(T(-1) / d[k]);
    SUPPLE_UNROLL_HOST for (int i = k + 1; i < W; ++i) {
      const Unrolled<T> factor(get(share, i));
      row[i] = fma(factor, row[k], row[i]);
      made[i] = fma(factor, made[k], made[i]);
    }
  }
}

// Factors A = UᵀU (n x n; the upper triangle is read and replaced). The diagonal blocks of U, as
// wide as a pack, are replaced by their inverses. If they are given, `lower` receives the transpose
// of the result, and `inverse` (n) the inverse of the diagonal of U. Returns the smallest pivot
// relative to the largest diagonal entry of A, or zero if A is not positive definite to working
// precision; the factor is then not complete. All rows are padded.
//
// Each round takes W rows of U: first their diagonal block, whose pivots can only be computed one
// after the other, then their other packs, which are multiplied by the inverse of the transposed
// block.
template <class T>
SUPPLE_NOINLINE T upper_factor(int n, T* A, T* lower = nullptr, T* inverse = nullptr) {
  constexpr int W = pack_width<T>;
  using P = Unrolled<T>;
  const int s = padded<T>(n);
  T largest(0);
  for (int k = 0; k < n; ++k) largest = max(largest, A[k * s + k]);
  T smallest = largest;
  for (int first = 0; first < n; first += W) {
    const int rows = n - first < W ? n - first : W;
    P row[W], made[W];
    T floor[W], pivot[W], left[W * W];  // the inverse of the transposed block
    // Rows after the last one are those of an identity matrix.
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
      made[i] = P(T(0));
      set(made[i], i, T(1));
      row[i] = i < rows ? load_pack(A + (first + i) * s + first) : made[i];
      floor[i] = i < rows ? A[(first + i) * (s + 1)] * (T(n) * Number<T>::epsilon) : T(0);
    }
    subtract_rows(first, s, first, A, row);
    factor_block(rows, row, made, pivot);
    const P scale = P(T(1)) / sqrt(load_pack(pivot));
    for (int i = 0; i < rows; ++i) {
      if (!(pivot[i] > floor[i])) return T(0);
      smallest = min(smallest, pivot[i]);
    }
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
      made[i] = made[i] * P(get(scale, i));
      store_pack<T>(made[i], left + i * W);
    }
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
      if (lower && i < rows) store_pack<T>(made[i], lower + (first + i) * s + first);
      if (inverse && i < rows) inverse[first + i] = get(scale, i);
    }
    transpose(made);
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
      if (i < rows) store_pack<T>(made[i], A + (first + i) * s + first);
    }
    for (int at = first + W; at < s; at += W) {  // `rows` is W here
      SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) row[i] = load_pack(A + (first + i) * s + at);
      subtract_rows(first, s, at, A, row);
      SUPPLE_UNROLL_HOST for (int i = W - 1; i >= 0; --i) {
        P sum = row[0] * P(left[i * W]);
        SUPPLE_UNROLL_HOST for (int j = 1; j <= i; ++j) sum = fma(P(left[i * W + j]), row[j], sum);
        row[i] = sum;
        store_pack<T>(sum, A + (first + i) * s + at);
      }
      if (!lower) continue;
      transpose(row);
      SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
        if (at + i < n) store_pack<T>(row[i], lower + (at + i) * s + first);
      }
    }
  }
  return smallest / largest;
}

// Replaces each of `count` rows x (n) by A⁻¹x, with the factors of `upper_factor`. The rows take
// turns, so that none waits for the previous pack. All rows are padded.
template <class T>
SUPPLE_NOINLINE void factor_solve(int n, const T* U, const T* lower, int count, T* x) {
  constexpr int W = pack_width<T>;
  const int s = padded<T>(n);
  // Returns the pack at column `at` of Σ x_k f_k, for `rows` rows f_k from `first` on, plus `sum`.
  const auto add_rows = [&](const T* factor, int first, int rows, int at, const T* by,
                            Unrolled<T> sum) {
    const T* const from = factor + first * s + at;
    if (rows < W) {
      for (int i = 0; i < rows; ++i) sum = fma(Unrolled<T>(by[i]), load_pack(from + i * s), sum);
      return sum;
    }
    Unrolled<T> other(T(0));
    SUPPLE_UNROLL_HOST for (int i = 0; i < W; i += 2) {
      sum = fma(Unrolled<T>(by[i]), load_pack(from + i * s), sum);
      other = fma(Unrolled<T>(by[i + 1]), load_pack(from + (i + 1) * s), other);
    }
    return sum + other;
  };
  const auto eliminate = [&](const T* factor, int first, int begin, int end) {
    const int rows = n - first < W ? n - first : W;
    for (int c = 0; c < count; ++c) {
      T* const own = x + c * s + first;
      const Unrolled<T> solved = add_rows(factor, first, rows, first, own, Unrolled<T>(T(0)));
      store_pack<T>(solved, own);
    }
    for (int at = begin; at < end; at += W) {
      for (int c = 0; c < count; ++c) {
        T* const one = x + c * s;
        const Unrolled<T> less = add_rows(factor, first, rows, at, one + first, Unrolled<T>(T(0)));
        store_pack<T>(load_pack(one + at) - less, one + at);
      }
    }
  };
  for (int first = 0; first < n; first += W) eliminate(U, first, first + W, s);
  for (int first = s - W; first >= 0; first -= W) eliminate(lower, first, 0, first);
}

}  // namespace supple::inline SUPPLE_ISA
