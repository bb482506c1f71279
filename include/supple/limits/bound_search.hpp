// Finds the bounds of a box that are active in the best step inside the box that satisfies
// equations:
//
//   minimize  ‖J y‖² + λ² ‖y‖²   subject to   A (x + y) = b,  low <= x + y <= high
//
// by the dual method of Goldfarb and Idnani. The method starts at the minimizer subject to the
// equations alone, then repeatedly adds the bound that is violated most and drops bounds whose
// multipliers would change sign. Each bound added or dropped takes one iteration, even where most
// joints are at their bounds. With the Cholesky factor H = L Lᵀ of the Hessian and reflections Q,
// the matrix D = Q L⁻¹ makes the normals N of the active bounds triangular: D N = [R; 0]. Constants
// are explained in docs/constants.md.
#pragma once

#include "supple/math/linalg/padded.hpp"

namespace supple::inline SUPPLE_ISA {

// The problem of a step that satisfies equations.
template <class T>
struct Equations {
  int m, n, count;     // number of rows of J, of joints, of equations
  const T *J, *A, *b;  // (m, n), (count, n), (count,)
  T lambda2;
  const T *low, *high;  // (n,)
  T tolerance;          // largest error of an equation that depends on others
};

// A normal depends on the active ones if its part perpendicular to them is shorter than this
// fraction of its length.
inline constexpr double dependent_normal_double = 1e-10;
inline constexpr float dependent_normal_float = 1e-5;
template <class T>
inline constexpr T dependent_normal =
    sizeof(T) == 8 ? T(dependent_normal_double) : T(dependent_normal_float);

// How far entries may be outside their bounds, relative to their size. `equation_step`, which
// starts from the bounds found here, corrects the rest.
template <class T>
inline constexpr T bound_noise = T(65536) * Number<T>::epsilon;

// The active constraints of `find_bounds`.
template <class T>
struct BoundSearch {
  int n, count = 0;  // numbers of entries of y and of active constraints
  T *R, *D;          // (n, n): columns of R, and rows of D
  T *d, *z, *r, *u;  // (n,): D times a normal, direction of y, R⁻¹ d, multipliers
  int* name;         // (n,): j + 1 at a lower bound, -j - 1 at an upper one, 0 for an equation
};

// Computes D = L⁻¹ of the Hessian in s.R, whose upper triangle is given. Returns false if the
// Hessian is not positive definite to working precision.
template <class T>
SUPPLE_FN bool invert_factor(const BoundSearch<T>& s) {
  const int n = s.n, width = padded<T>(n);
  T largest(0);
  for (int k = 0; k < n; ++k) largest = max(largest, s.R[k * width + k]);
  for (int i = 0; i < n * width; ++i) s.D[i] = T(0);
  for (int k = 0; k < n; ++k) s.D[k * width + k] = T(1);
  for (int k = 0; k < n; ++k) {
    const T* const row = s.R + k * width;
    const T pivot = row[k];
    if (!(pivot > T(n) * Number<T>::epsilon * largest)) return false;
    T* const own = s.D + k * width;
    for (int i = k + 1; i < n; ++i) {
      const T factor = -row[i] / pivot;
      add_scaled(k / pack_width<T> * pack_width<T>, width, factor, row, s.R + i * width);
      add_scaled(0, width, factor, own, s.D + i * width);
    }
    const T scale = T(1) / sqrt(pivot);
    for (int j = 0; j <= k; ++j) own[j] *= scale;
  }
  return true;
}

// Computes the direction z in which y can move along a normal, and the rates r of the multipliers,
// given s.d, which is D times the normal. Returns the squared length of the part of the normal that
// is perpendicular to the active ones, or zero if the normal depends on them.
template <class T>
SUPPLE_FN T find_direction(const BoundSearch<T>& s) {
  const int width = padded<T>(s.n);
  T whole(0), left(0);
  for (int k = 0; k < s.n; ++k) {
    whole = fma(s.d[k], s.d[k], whole);
    if (k >= s.count) left = fma(s.d[k], s.d[k], left);
  }
  rows_times(s.n - s.count, s.n, s.D + s.count * width, s.d + s.count, s.z);
  for (int k = 0; k < s.count; ++k) s.r[k] = s.d[k];
  for (int k = s.count - 1; k >= 0; --k) {
    const T* const column = s.R + k * width;
    s.r[k] /= column[k];
    for (int i = 0; i < k; ++i) s.r[i] = fma(-column[i], s.r[k], s.r[i]);
  }
  return left > dependent_normal<T> * dependent_normal<T> * whole ? left : T(0);
}

// Adds the constraint `name` to the active ones; s.d is D times its normal.
template <class T>
SUPPLE_FN void add_normal(BoundSearch<T>& s, int name, T multiplier) {
  const int k = s.count, width = padded<T>(s.n);
  T size(0);
  for (int i = k; i < s.n; ++i) size = fma(s.d[i], s.d[i], size);
  const T end = -copysign(sqrt(size), s.d[k]);
  for (int i = 0; i < k; ++i) s.R[k * width + i] = s.d[i];
  s.R[k * width + k] = end;
  s.d[k] -= end;
  const T tau = T(-1) / (end * s.d[k]);  // 2/‖v‖² of the reflection with v = d
  rows_times(s.n - k, s.n, s.D + k * width, s.d + k, s.z);
  for (int i = k; i < s.n; ++i) add_scaled(0, width, T(-tau * s.d[i]), s.z, s.D + i * width);
  s.u[k] = multiplier, s.name[k] = name;
  ++s.count;
}

// Drops an active constraint.
template <class T>
SUPPLE_FN void drop_normal(BoundSearch<T>& s, int dropped) {
  const int width = padded<T>(s.n);
  --s.count;
  for (int k = dropped; k < s.count; ++k) {
    for (int i = 0; i < k + 2; ++i) s.R[k * width + i] = s.R[(k + 1) * width + i];
    s.u[k] = s.u[k + 1], s.name[k] = s.name[k + 1];
  }
  for (int k = dropped; k < s.count; ++k) {
    const T a = s.R[k * width + k], b = s.R[k * width + k + 1], size = sqrt(fma(a, a, b * b));
    const T c = a / size, t = b / size;
    const auto turn = [&](T& one, T& other) {
      const T first = fma(c, one, t * other);
      other = fma(c, other, -t * one);
      one = first;
    };
    for (int i = k; i < s.count; ++i) turn(s.R[i * width + k], s.R[i * width + k + 1]);
    T *const one = s.D + k * width, *const other = one + width;
    for (int j = 0; j < width; ++j) turn(one[j], other[j]);
  }
}

// Writes the bounds that are active in the best step to active_set (n): -1 for a lower, 1 for an
// upper one, else 0. `J` has padded rows, `name` has n entries, and `scratch` (2 n + 5) padded
// rows. Returns false if no step satisfies equations and box.
template <class T>
SUPPLE_NOINLINE bool find_bounds(const Equations<T>& of, const T* J, T lambda2, const T* x,
                                 T* active_set, int* name, T* scratch) {
  const int n = of.n, width = padded<T>(n);
  BoundSearch<T> s{n, 0, scratch, scratch + n * width, nullptr, nullptr, nullptr, nullptr, name};
  T* const y = s.D + n * width;
  s.d = y + width, s.z = s.d + width, s.r = s.z + width, s.u = s.r + width;
  upper_gram(of.m, n, J, s.R);
  for (int j = 0; j < n; ++j) s.R[j * width + j] += lambda2;
  if (!invert_factor(s)) return false;
  for (int j = 0; j < width; ++j) y[j] = T(0);
  for (int i = 0; i < of.count; ++i) {
    T off = of.b[i], size = abs(off);
    for (int j = 0; j < width; ++j) {
      s.z[j] = j < n ? of.A[i * n + j] : T(0);
      if (j < n) off = fma(-s.z[j], x[j] + y[j], off);
    }
    for (int k = 0; k < n; ++k) s.d[k] = padded_dot(0, width, s.D + k * width, s.z);
    const T left = find_direction(s);
    if (!(left > 0)) {
      if (abs(off) > of.tolerance + T(1e-9) * size) return false;
      continue;
    }
    add_scaled(0, width, T(off / left), s.z, y);
    add_normal(s, 0, T(0));
  }
  for (int round = 0; round < 8 * n; ++round) {
    int worst = -1;
    T missed(0), sign(0);
    for (int j = 0; j < n; ++j) {
      const T at = x[j] + y[j], below = of.low[j] - at, above = at - of.high[j],
              noise = bound_noise<T> * (abs(x[j]) + abs(y[j]));
      if (max(below, above) > max(missed, noise)) {
        worst = j, missed = max(below, above), sign = below > above ? T(1) : T(-1);
      }
    }
    if (worst < 0) {
      for (int j = 0; j < n; ++j) active_set[j] = of.low[j] < of.high[j] ? T(0) : T(1);
      for (int k = 0; k < s.count; ++k) {
        const int j = (name[k] < 0 ? -name[k] : name[k]) - 1;
        if (j >= 0 && active_set[j] == 0) active_set[j] = name[k] > 0 ? T(-1) : T(1);
      }
      return true;
    }
    T multiplier(0);
    for (bool added = false; !added;) {
      for (int k = 0; k < n; ++k) s.d[k] = sign * s.D[k * width + worst];
      const T left = find_direction(s);
      const T whole = left > 0 ? T(missed / left) : Number<T>::huge;
      T step = whole;
      int dropped = -1;
      for (int k = 0; k < s.count; ++k) {
        if (name[k] == 0 || !(s.r[k] > 0) || !(s.u[k] < step * s.r[k])) continue;
        step = s.u[k] / s.r[k], dropped = k;
      }
      if (!(step < Number<T>::huge)) return false;
      if (left > 0) add_scaled(0, width, step, s.z, y), missed = fma(-step, left, missed);
      for (int k = 0; k < s.count; ++k) s.u[k] = max(T(0), fma(-step, s.r[k], s.u[k]));
      multiplier += step;
      added = dropped < 0;
      if (added) {
        add_normal(s, int(sign) * (worst + 1), multiplier);
      } else {
        drop_normal(s, dropped);
      }
    }
  }
  return false;
}

}  // namespace supple::inline SUPPLE_ISA
