// Symmetric systems of one large matrix, on the packs of a processor.
//
// Rows are padded with zeros to a multiple of the width of a pack, so that loops over a row have no
// remainder.
#pragma once

#include "supple/math/linalg/matrix.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr int pack_width = width<Unrolled<T>>;
// Whether L is a number, not a pack, of a processor with packs.
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
  if constexpr (pack_width<T> == 1) {
    return *from;
  } else {
    Unrolled<T> pack;
    __builtin_memcpy(&pack, from, sizeof pack);
    return pack;
  }
}
template <class T>
SUPPLE_INLINE void store_pack(const Unrolled<T>& pack, T* to) {
  if constexpr (pack_width<T> == 1) {
    *to = pack;
  } else {
    __builtin_memcpy(to, &pack, sizeof pack);
  }
}

// Returns the first address from `memory` on at which padded rows are aligned to packs. It is less
// than a pack away.
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

// Computes the upper triangle of JᵀJ (n rows), of J (m x n). All rows are padded.
template <class T>
SUPPLE_NOINLINE void upper_gram(int m, int n, const T* J, T* A) {
  constexpr int W = pack_width<T>, block = 4;
  const int s = padded<T>(n);
  for (int j = 0; j < s; j += W) {
    const int rows = j + W < n ? j + W : n;
    int i = 0;
    for (; i + block <= rows; i += block) {
      Unrolled<T> sum[block];
      for (int b = 0; b < block; ++b) sum[b] = Unrolled<T>(T(0));
      for (int r = 0; r < m; ++r) {
        const Unrolled<T> right = load_pack(J + r * s + j);
        for (int b = 0; b < block; ++b) {
          sum[b] = fma(Unrolled<T>(J[r * s + i + b]), right, sum[b]);
        }
      }
      for (int b = 0; b < block; ++b) store_pack<T>(sum[b], A + (i + b) * s + j);
    }
    for (; i < rows; ++i) {
      Unrolled<T> sum(T(0));
      for (int r = 0; r < m; ++r) {
        sum = fma(Unrolled<T>(J[r * s + i]), load_pack(J + r * s + j), sum);
      }
      store_pack<T>(sum, A + i * s + j);
    }
  }
}

// Subtracts Σ u_j[k] u_j from `count` packs of row k, [from, from + count W), for the rows u_j of U
// before it. Two sums take turns, so that neither waits for the other.
template <int count, class T>
SUPPLE_INLINE void subtract_rows(int k, int s, int from, const T* U, T* row) {
  constexpr int W = pack_width<T>;
  Unrolled<T> sum[2][count];
  for (int b = 0; b < count; ++b) {
    sum[0][b] = load_pack(row + from + b * W);
    sum[1][b] = Unrolled<T>(T(0));
  }
  const auto add = [&](int j, int side) {
    const Unrolled<T> factor(-U[j * s + k]);
    for (int b = 0; b < count; ++b) {
      sum[side][b] = fma(factor, load_pack(U + j * s + from + b * W), sum[side][b]);
    }
  };
  int j = 0;
  for (; j + 2 <= k; j += 2) add(j, 0), add(j + 1, 1);
  if (j < k) add(j, 0);
  for (int b = 0; b < count; ++b) store_pack<T>(sum[0][b] + sum[1][b], row + from + b * W);
}

// Factors A = UᵀU (n x n; the upper triangle is read and replaced by U). If they are given, `lower`
// receives Uᵀ and `inverse` (n) the inverse of its diagonal. Returns the smallest pivot relative to
// the largest diagonal entry of A, or zero if A is not positive definite to working precision; the
// factor is then not complete. All rows are padded.
template <class T>
SUPPLE_NOINLINE T upper_factor(int n, T* A, T* lower = nullptr, T* inverse = nullptr) {
  constexpr int W = pack_width<T>;
  const int s = padded<T>(n);
  T largest(0);
  for (int k = 0; k < n; ++k) largest = max(largest, A[k * s + k]);
  T smallest = largest;
  for (int k = 0; k < n; ++k) {
    T* const row = A + k * s;
    const T floor = row[k] * (T(n) * Number<T>::epsilon);
    const int first = k / W * W;
    int from = first;
    for (; from + 3 * W <= s; from += 3 * W) subtract_rows<3>(k, s, from, A, row);
    if (from + 2 * W == s) subtract_rows<2>(k, s, from, A, row);
    if (from + W == s) subtract_rows<1>(k, s, from, A, row);
    const T pivot = row[k];
    if (!(pivot > floor) || !(pivot > T(0))) return T(0);
    smallest = min(smallest, pivot);
    const T scale = T(1) / sqrt(pivot);
    for (int j = first; j < k; ++j) row[j] = T(0);
    for (int j = first; j < s; j += W) {
      store_pack<T>(load_pack(row + j) * Unrolled<T>(scale), row + j);
    }
    if (!lower) continue;
    inverse[k] = scale;
    for (int j = k; j < first + W; ++j) lower[k * s + j] = T(0);
    for (int i = k; i < n; ++i) lower[i * s + k] = row[i];
  }
  return smallest / largest;
}

// Replaces each of `count` rows x (n) by A⁻¹x, with the factors of `upper_factor`. The rows take
// turns, so that none waits for the previous entry. All rows are padded.
template <class T>
SUPPLE_NOINLINE void factor_solve(int n, const T* U, const T* lower, const T* inverse, int count,
                                  T* x) {
  constexpr int W = pack_width<T>;
  const int s = padded<T>(n);
  const auto eliminate = [&](int j, int from, int to, const T* row) {
    for (int c = 0; c < count; ++c) {
      T* const one = x + c * s;
      const T solved = one[j] * inverse[j];
      add_scaled(from, to, -solved, row, one);
      one[j] = solved;
    }
  };
  for (int j = 0; j < n; ++j) eliminate(j, j / W * W, s, U + j * s);
  for (int j = n - 1; j >= 0; --j) eliminate(j, 0, j / W * W + W, lower + j * s);
}

}  // namespace supple::inline SUPPLE_ISA
