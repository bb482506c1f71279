// Rows A (count x n) that are far from dependent on each other: the Cholesky factor of A Aᵀ, the
// shortest x with A x = r, and orthonormal rows of the same space. All rows are padded. Constants
// are explained in docs/constants.md.
#pragma once

#include "supple/math/linalg/row_products.hpp"
#include "supple/step/fast_step.hpp"

namespace supple::inline SUPPLE_ISA {

// The smallest pivot of A Aᵀ, relative to its largest diagonal entry, with which its factor is
// used.
inline constexpr double least_row_pivot_double = 1e-8;
inline constexpr float least_row_pivot_float = 1e-3;
template <class T>
inline constexpr T least_row_pivot =
    sizeof(T) == 8 ? T(least_row_pivot_double) : T(least_row_pivot_float);

// Number of entries of scratch memory that `factor_rows` and `make_orthonormal` need.
SUPPLE_FN constexpr int row_factor_scratch(int n, int count) {
  return (n + 8) * (count + 8) + 2 * count * (count + 8);
}

// Computes the factor U (count x count) of A Aᵀ = UᵀU; its lower triangle is not valid. Returns
// the smallest relative pivot, or zero if the rows are nearly dependent. `turned` receives Aᵀ
// (n x count).
template <class T>
SUPPLE_NOINLINE T factor_rows(int count, int n, const T* A, T* turned, T* U) {
  constexpr int W = pack_width<T>;
  const int c = padded<T>(count);
  padded_transpose(count, n, A, turned);
  upper_gram(n, count, turned, U);
  T largest(0);
  for (int k = 0; k < count; ++k) largest = max(largest, U[k * (c + 1)]);
  T smallest = largest;
  for (int k = 0; k < count; ++k) {
    T* const row = U + k * c;
    const T pivot = row[k];
    if (!(pivot > least_row_pivot<T> * largest)) return T(0);
    smallest = min(smallest, pivot);
    const Unrolled<T> scale(T(1) / sqrt(pivot));
    for (int j = k / W * W; j < c; j += W) store_pack<T>(scale * load_pack(row + j), row + j);
    for (int i = k + 1; i < count; ++i) add_scaled(i / W * W, c, T(-row[i]), row, U + i * c);
  }
  return count > 0 ? smallest / largest : T(1);
}

// Replaces r (count) by (UᵀU)⁻¹ r.
template <class T>
SUPPLE_FN void solve_row_factor(int count, const T* U, T* r) {
  const int c = padded<T>(count);
  for (int k = 0; k < count; ++k) {
    const T* const row = U + k * c;
    r[k] /= row[k];
    for (int i = k + 1; i < count; ++i) r[i] = fma(-row[i], r[k], r[i]);
  }
  for (int k = count - 1; k >= 0; --k) {
    const T* const row = U + k * c;
    T sum = r[k];
    for (int i = k + 1; i < count; ++i) sum = fma(-row[i], r[i], sum);
    r[k] = sum / row[k];
  }
}

// Replaces A by U⁻ᵀA.
template <class T>
SUPPLE_FN void divide_rows(int count, int n, const T* U, T* A) {
  const int s = padded<T>(n), c = padded<T>(count);
  for (int k = 0; k < count; ++k) {
    const Unrolled<T> scale(T(1) / U[k * (c + 1)]);
    for (int j = 0; j < s; j += pack_width<T>) {
      Unrolled<T> sum = load_pack(A + k * s + j);
      for (int i = 0; i < k; ++i) {
        sum = fma(Unrolled<T>(-U[i * c + k]), load_pack(A + i * s + j), sum);
      }
      store_pack<T>(sum * scale, A + k * s + j);
    }
  }
}

// Replaces A by Q with orthonormal rows, A = L Q, and writes the lower triangle L, in rows as long
// as those of A. Returns false if the rows are nearly dependent; A and L are then not valid.
template <class T>
SUPPLE_NOINLINE bool make_orthonormal(int count, int n, T* A, T* L, T* scratch) {
  const int s = padded<T>(n), c = padded<T>(count);
  T *first = scratch, *second = first + count * c, *turned = second + count * c;
  const T pivot = factor_rows(count, n, static_cast<const T*>(A), turned, first);
  if (!(pivot > T(0))) return false;
  divide_rows(count, n, static_cast<const T*>(first), A);
  const bool again = pivot < refined_pivot<T>;  // a second round removes rounding errors
  if (again) {
    if (!(factor_rows(count, n, static_cast<const T*>(A), turned, second) > T(0))) return false;
    divide_rows(count, n, static_cast<const T*>(second), A);
  }
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j <= i; ++j) {
      T sum = again ? T(0) : first[j * c + i];
      for (int k = j; again && k <= i; ++k) {
        sum = fma(first[k * c + i], second[j * c + k], sum);
      }
      L[i * s + j] = sum;
    }
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
