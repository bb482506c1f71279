// The singular value decomposition of a tall matrix that is far from singular, on packs: that of
// JᵀJ, by a tridiagonal matrix and QL iterations with implicit shifts.
//
// The relative error of a singular value σ is about ε (σ₁/σ)², so that weights of a posture, which
// bound all σ from below, make it small. Constants are explained in docs/constants.md.
#pragma once

#include "supple/math/linalg/padded.hpp"

namespace supple::inline SUPPLE_ISA {

// The smallest singular value, relative to the largest, of which the decomposition is accurate.
inline constexpr double tall_svd_ratio_double = 1e-4;
inline constexpr float tall_svd_ratio_float = 1e-2;
template <class T>
inline constexpr T tall_svd_ratio =
    sizeof(T) == 8 ? T(tall_svd_ratio_double) : T(tall_svd_ratio_float);
inline constexpr int most_ql_rounds = 30;  // for one eigenvalue

// Number of entries of scratch memory that `tall_svd` needs.
SUPPLE_FN constexpr int tall_svd_scratch(int m, int n) {
  return (m + 2 * n + 2) * (n + 16) + 3 * n + 16;
}

// Reduces the symmetric A (n, n) to a tridiagonal matrix with the diagonal d and the entries e next
// to it. Row k of A becomes the vector v of reflection 1 - tau[k] v vᵀ. `p` is a row.
template <class T>
SUPPLE_NOINLINE void to_tridiagonal(int n, T* A, T* d, T* e, T* tau, T* p) {
  const int s = padded<T>(n);
  for (int k = 0; k < n; ++k) {
    T* const v = A + k * s;
    const int from = (k + 1) / pack_width<T> * pack_width<T>;
    d[k] = v[k], e[k] = k + 1 < n ? v[k + 1] : T(0), tau[k] = T(0);
    for (int j = 0; j <= k; ++j) v[j] = T(0);
    if (k + 2 >= n) continue;
    const T size = sqrt(padded_dot(from, s, v, v));
    if (!(size > abs(e[k]) * (1 + Number<T>::epsilon))) continue;
    const T end = -copysign(size, v[k + 1]);
    tau[k] = T(1) / (size * (size + abs(v[k + 1])));
    v[k + 1] -= end, e[k] = end;
    for (int j = from; j < s; ++j) p[j] = T(0);
    for (int i = k + 1; i < n; ++i) p[i] = tau[k] * padded_dot(from, s, A + i * s, v);
    const T half = T(-0.5) * tau[k] * padded_dot(from, s, p, v);
    add_scaled(from, s, half, v, p);
    for (int i = k + 1; i < n; ++i) {
      add_scaled(from, s, T(-v[i]), p, A + i * s);
      add_scaled(from, s, T(-p[i]), v, A + i * s);
    }
  }
}

// Computes the eigenvalues d of a tridiagonal matrix, and turns the rows of Z as its eigenvectors.
// Returns false if the iterations do not converge.
template <class T>
SUPPLE_NOINLINE bool tridiagonal_vectors(int n, T* d, T* e, T* Z) {
  const int s = padded<T>(n);
  for (int l = 0; l < n; ++l) {
    for (int round = 0;; ++round) {
      int last = l;
      while (last + 1 < n &&
             abs(e[last]) > Number<T>::epsilon * (abs(d[last]) + abs(d[last + 1]))) {
        ++last;
      }
      if (last == l) break;
      if (round == most_ql_rounds) return false;
      T g = (d[l + 1] - d[l]) / (2 * e[l]);
      g = d[last] - d[l] + e[l] / (g + copysign(sqrt(fma(g, g, T(1))), g));
      T sine(1), cosine(1), shift(0);
      int i = last - 1;
      for (; i >= l; --i) {
        const T f = sine * e[i], b = cosine * e[i];
        T r = sqrt(fma(f, f, g * g));
        e[i + 1] = r;
        if (!(r > 0)) break;
        sine = f / r, cosine = g / r;
        g = d[i + 1] - shift;
        r = fma(d[i] - g, sine, 2 * cosine * b);
        shift = sine * r;
        d[i + 1] = g + shift;
        g = fma(cosine, r, -b);
        constexpr int W = pack_width<T>;
        const Unrolled<T> c(cosine), t(sine);
        for (int j = 0; j < s; j += W) {
          T *const one = Z + i * s + j, *const other = one + s;
          const Unrolled<T> x = load_pack(one), y = load_pack(other);
          store_pack<T>(fma(t, x, c * y), other);
          store_pack<T>(fma(c, x, -(t * y)), one);
        }
      }
      e[last] = T(0);
      if (i >= l) {
        d[i + 1] -= shift;
        continue;
      }
      d[l] -= shift, e[l] = g;
    }
  }
  return true;
}

// Computes J = u diag(sigma) vᵀ for J (m, n), m >= n, in the form of `svd`: u (m, n) and v (n, n),
// singular values in descending order. Returns false if it is not accurate.
template <class T>
SUPPLE_NOINLINE bool tall_svd(int m, int n, const T* J, T* u, T* sigma, T* v, T* scratch) {
  const int s = padded<T>(n);
  T *rows = aligned_rows(scratch), *A = rows + m * s, *Z = A + n * s, *p = Z + n * s, *d = p + s,
    *e = d + n, *tau = e + n;
  for (int r = 0; r < m; ++r) {
    for (int j = 0; j < s; ++j) rows[r * s + j] = j < n ? J[r * n + j] : T(0);
  }
  upper_gram(m, n, rows, A);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) A[i * s + j] = A[j * s + i];
    for (int j = 0; j < s; ++j) Z[i * s + j] = T(i == j);
  }
  to_tridiagonal(n, A, d, e, tau, p);
  if (!tridiagonal_vectors(n, d, e, Z)) return false;
  T least = d[0], most = d[0];
  for (int i = 1; i < n; ++i) least = min(least, d[i]), most = max(most, d[i]);
  if (!(least > tall_svd_ratio<T> * tall_svd_ratio<T> * most)) return false;
  for (int k = n - 3; k >= 0; --k) {
    const int from = (k + 1) / pack_width<T> * pack_width<T>;
    const T* const mirror = A + k * s;
    for (int i = 0; i < n && tau[k] > 0; ++i) {
      T* const z = Z + i * s;
      add_scaled(from, s, T(-tau[k] * padded_dot(from, s, mirror, z)), mirror, z);
    }
  }
  for (int i = 0; i < n; ++i) {
    int next = 0;
    for (int j = 1; j < n; ++j) next = d[j] > d[next] ? j : next;
    const T* const z = Z + next * s;
    d[next] = T(-1);
    T size(0);
    for (int r = 0; r < m; ++r) {
      const T along = padded_dot(0, s, rows + r * s, z);
      u[r * n + i] = along;
      size = fma(along, along, size);
    }
    sigma[i] = sqrt(size);
    const T unit = T(1) / sigma[i];
    for (int r = 0; r < m; ++r) u[r * n + i] *= unit;
    for (int j = 0; j < n; ++j) v[j * n + i] = z[j];
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
