// The singular value decomposition of a matrix J, from the smaller one of J Jᵀ and Jᵀ J, on packs,
// in three steps: reduction to a tridiagonal matrix, QL iterations with implicit shifts, and
// one-sided Jacobi rotations among the directions with small singular values. Constants are
// explained in docs/constants.md.
#pragma once

#include "supple/math/linalg/padded.hpp"

namespace supple::inline SUPPLE_ISA {

inline constexpr int most_ql_rounds = 30;       // for one eigenvalue
inline constexpr int most_small_rotations = 8;  // rounds of rotations among small directions
// Largest rounding error of σ² of a small direction, relative to the bound below which σ² is small.
inline constexpr double gram_noise = 1e-6;

// Number of entries of scratch memory that `gram_svd` needs.
SUPPLE_FN constexpr int gram_svd_scratch(int m, int n) {
  const int k = (m < n ? m : n) + 16;
  return 2 * k * k + 4 * k + 16;
}

// Reduces the symmetric A (n, n) to a tridiagonal matrix with the diagonal d and the entries e next
// to it. Row k of A becomes the vector v of reflection 1 - tau[k] v vᵀ. `p` is scratch memory for
// one padded row.
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

// Computes the eigenvalues d (n) of the symmetric A (n, n), which is replaced, and its
// eigenvectors, the rows of Z. Rows are padded; `scratch` has 3 padded rows. Returns false if the
// iterations do not converge.
template <class T>
SUPPLE_NOINLINE bool eigenvectors(int n, T* A, T* Z, T* d, T* scratch) {
  const int s = padded<T>(n);
  T *p = scratch, *e = p + s, *tau = e + s;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < s; ++j) Z[i * s + j] = T(i == j);
  }
  to_tridiagonal(n, A, d, e, tau, p);
  if (!tridiagonal_vectors(n, d, e, Z)) return false;
  for (int r = n - 3; r >= 0; --r) {
    const int from = (r + 1) / pack_width<T> * pack_width<T>;
    const T* const mirror = A + r * s;
    for (int i = 0; i < n && tau[r] > 0; ++i) {
      add_scaled(from, s, T(-tau[r] * padded_dot(from, s, mirror, Z + i * s)), mirror, Z + i * s);
    }
  }
  return true;
}

// Turns rows w (count, n) by pairs until they are perpendicular to each other, and rows z (count,
// m) in the same way. All rows are padded.
template <class T>
SUPPLE_NOINLINE void turn_apart(int count, int n, int m, T* w, T* z) {
  const int s = padded<T>(n), t = padded<T>(m);
  const auto turn = [](int size, T cosine, T sine, T* one, T* other) {
    for (int j = 0; j < size; ++j) {
      const T x = one[j], y = other[j];
      one[j] = fma(cosine, x, -(sine * y));
      other[j] = fma(sine, x, cosine * y);
    }
  };
  bool turned = true;
  for (int round = 0; turned && round < most_small_rotations; ++round) {
    turned = false;
    for (int i = 0; i < count; ++i) {
      for (int j = i + 1; j < count; ++j) {
        T *const a = w + i * s, *const b = w + j * s;
        const T aa = padded_dot(0, s, a, a), bb = padded_dot(0, s, b, b),
                ab = padded_dot(0, s, a, b);
        if (!(abs(ab) > T(8) * Number<T>::epsilon * sqrt(aa * bb))) continue;
        turned = true;
        const T ratio = (bb - aa) / (2 * ab),
                tangent = copysign(T(1), ratio) / (abs(ratio) + sqrt(fma(ratio, ratio, T(1)))),
                cosine = T(1) / sqrt(fma(tangent, tangent, T(1)));
        turn(s, cosine, T(cosine * tangent), a, b);
        turn(t, cosine, T(cosine * tangent), z + i * t, z + j * t);
      }
    }
  }
}

// Computes J = Σ σ_i u_i v_iᵀ for J (m, n), in ascending order: sigma (k), the rows u (k, m) and v
// (k, n), where k = min(m, n). `turned` is the transpose of J. All rows are padded. Directions with
// σ below `small` are accurate to working precision relative to σ; where σ is zero to working
// precision, σ and v, or u if m > n, are zero. Returns false if J is too large for this accuracy,
// or if the iterations do not converge.
template <class T>
SUPPLE_NOINLINE bool gram_svd(int m, int n, const T* J, const T* turned, T small, T* u, T* sigma,
                              T* v, T* scratch) {
  const bool wide = m <= n;
  const int k = wide ? m : n, other = wide ? n : m, s = padded<T>(k), t = padded<T>(other);
  // The eigenvectors z are the u_i if J has more columns than rows, else the v_i.
  const T* const rows = wide ? turned : J;     // (other, k)
  const T* const columns = wide ? J : turned;  // (k, other)
  T *A = aligned_rows(scratch), *Z = A + k * s, *d = Z + k * s,
    *rest = d + s, *const z = wide ? u : v, *const w = wide ? v : u;
  upper_gram(other, k, rows, A);
  T trace(0);
  for (int i = 0; i < k; ++i) {
    trace += A[i * s + i];
    for (int j = 0; j < i; ++j) A[i * s + j] = A[j * s + i];
  }
  const T noise = T(k) * Number<T>::epsilon * trace;
  if (!(noise < T(gram_noise) * small * small)) return false;
  if (!eigenvectors(k, A, Z, d, rest)) return false;
  int few = 0;  // small directions
  for (int i = 0; i < k; ++i) {
    int next = 0;
    for (int j = 1; j < k; ++j) next = d[j] < d[next] ? j : next;
    few += d[next] < small * small;
    d[next] = Number<T>::huge;
    for (int j = 0; j < s; ++j) z[i * s + j] = Z[next * s + j];
    rows_times(k, other, columns, z + i * s, w + i * t);
  }
  turn_apart(few, other, k, w, z);
  for (int i = 0; i < k; ++i) {
    T* const row = w + i * t;
    const T size = sqrt(padded_dot(0, t, row, row)), zero = T(16) * noise / small;
    sigma[i] = size > zero ? size : T(0);
    const T unit = size > zero ? T(1) / size : T(0);
    for (int j = 0; j < t; ++j) row[j] *= unit;
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
