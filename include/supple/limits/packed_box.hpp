// The best step inside a box, as in box.hpp, for one robot with more rows than joints: on packs, by
// the n x n matrix G = JᵀJ + λ² instead of J. Constants are explained in docs/constants.md.
#pragma once

#include "supple/limits/box.hpp"
#include "supple/math/linalg/padded.hpp"

namespace supple::inline SUPPLE_ISA {

// The smallest relative pivot of G with which the step is computed, and the number of rounds of
// block pivoting before `boxed_step` takes over.
inline constexpr double least_box_pivot_double = 1e-11;
inline constexpr float least_box_pivot_float = 1e-4;
template <class T>
inline constexpr T least_box_pivot =
    sizeof(T) == 8 ? T(least_box_pivot_double) : T(least_box_pivot_float);
inline constexpr int packed_rounds = 12;

// Number of entries of scratch memory that `packed_boxed_step` needs.
SUPPLE_FN constexpr int packed_box_scratch(int m, int n) {
  return (m + 3 * n + 6) * (n + 16) + 2 * n + 16;
}

// Computes the step of `boxed_step` by block pivoting alone. Returns false if block pivoting does
// not end, or if G is singular to working precision; x (n) is then still x0. `applied_lambda2`
// becomes the damping.
template <class T>
SUPPLE_NOINLINE_DEVICE bool packed_boxed_step(int m, int n, const T* J, T lambda2, const T* low,
                                              const T* high, T* x, T* active_set,
                                              T& applied_lambda2, T* scratch) {
  const int s = padded<T>(n);
  T *rows = aligned_rows(scratch), *G = rows + m * s, *A = G + n * s, *lower = A + n * s,
    *d = lower + n * s, *pull = d + s, *sum = pull + s, *inverse = sum + s;
  T square(0);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const T entry = rows[i * s + j] = J[i * n + j];
      square = fma(entry, entry, square);
    }
    for (int j = n; j < s; ++j) rows[i * s + j] = T(0);
  }
  applied_lambda2 = max(lambda2, max(square * ridge<T>, Number<T>::tiny));
  upper_gram(m, n, rows, G);
  for (int i = 0; i < n; ++i) {
    G[i * s + i] += applied_lambda2;
    for (int j = 0; j < i; ++j) G[i * s + j] = G[j * s + i];
  }
  const auto clipped = [&](T at, int j) {
    return at < low[j] ? T(-1) : at > high[j] ? T(1) : T(0);
  };
  for (int j = 0; j < n; ++j) active_set[j] = clipped(x[j], j);
  for (int round = 0; round < packed_rounds; ++round) {
    for (int j = 0; j < s; ++j) d[j] = T(0);
    for (int j = 0; j < n; ++j) {
      if (active_set[j] != 0) d[j] = (active_set[j] < 0 ? low[j] : high[j]) - x[j];
    }
    rows_times(n, n, G, d, pull);
    // The equations of the free entries; those of the other entries leave d_j as it is.
    for (int i = 0; i < n; ++i) {
      const bool free = active_set[i] == 0;
      for (int j = i / pack_width<T> * pack_width<T>; j < s; ++j) {
        A[i * s + j] = free && j < n && active_set[j] == 0 ? G[i * s + j] : T(0);
      }
      if (!free) A[i * s + i] = G[i * s + i];
      sum[i] = free ? -pull[i] : T(0);
    }
    for (int j = n; j < s; ++j) sum[j] = T(0);
    if (!(upper_factor(n, A, lower, inverse) > least_box_pivot<T>)) return false;
    factor_solve(n, A, lower, 1, sum);
    for (int j = 0; j < n; ++j) d[j] += sum[j];
    rows_times(n, n, G, d, pull);  // half the gradient
    bool wrong = false;
    T size(0);
    for (int j = 0; j < n; ++j) size = max(size, abs(d[j]));
    for (int j = 0; j < n; ++j) {
      T now = active_set[j];
      if (now == 0) {
        const T at = x[j] + d[j], slack = T(8) * Number<T>::epsilon * (abs(x[j]) + abs(d[j]));
        now = at < low[j] - slack ? T(-1) : at > high[j] + slack ? T(1) : T(0);
      } else if (low[j] < high[j]) {
        const T noise = T(64) * Number<T>::epsilon * G[j * s + j] * size;
        if (now * pull[j] > noise) now = T(0);
      }
      wrong = wrong || now != active_set[j];
      active_set[j] = now;
    }
    if (wrong) continue;
    for (int j = 0; j < n; ++j) {
      const T at = active_set[j] < 0 ? low[j] : active_set[j] > 0 ? high[j] : T(x[j] + d[j]);
      x[j] = min(max(at, low[j]), high[j]);
    }
    return true;
  }
  return false;
}

}  // namespace supple::inline SUPPLE_ISA
