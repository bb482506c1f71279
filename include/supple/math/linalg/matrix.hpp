// Matrices on lanes: sizes, products, and scaling into the number range.
//
// A matrix is a row-major array of lanes, a[i * columns + j]; every lane holds its own matrix.
// Sizes are `int`, or `Fixed<6>` where they are known at compile time, which unrolls the loops.
#pragma once

#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {

// A size known at compile time.
template <int N>
struct Fixed {
  SUPPLE_INLINE constexpr operator int() const { return N; }
};

// How many times a loop over a size is unrolled by SUPPLE_UNROLL_SHORT.
template <class N>
inline constexpr int short_size = 1;
template <int N>
inline constexpr int short_size<Fixed<N>> = N <= 8 ? N : 1;

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

}  // namespace supple::inline SUPPLE_ISA
