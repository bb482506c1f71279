// Equations for one or two angles of rotation about lines in space: the subproblems of Paden and
// Kahan, and two linear equations in the cosines and sines of two angles.
#pragma once

#include "supple/math/elementary.hpp"
#include "supple/math/se3.hpp"

namespace supple::inline SUPPLE_ISA {

// An angle, given by its cosine and sine.
template <class T>
struct Turn {
  T c, s;
};

template <class T>
SUPPLE_INLINE Turn<T> operator-(const Turn<T>& a) {
  return {a.c, -a.s};
}
template <class T>
SUPPLE_INLINE Turn<T> operator*(const Turn<T>& a, const Turn<T>& b) {
  return {a.c * b.c - a.s * b.s, a.s * b.c + a.c * b.s};
}
template <class T>
SUPPLE_INLINE T angle_of(const Turn<T>& a) {
  return unit_angle(a.c, a.s);
}
// Returns sample `number` of `count` equally spaced angles of a full turn. No sample is a multiple
// of a quarter turn, where arms tend to be singular.
template <class T>
SUPPLE_INLINE Turn<T> sampled_turn(int number, int count) {
  Turn<T> turn;
  const T full = T(6.283185307179586476925286766559);
  sincos(full * ((T(number) + T(0.3)) / T(count) - T(0.5)), turn.s, turn.c);
  return turn;
}
// Returns sample `number` of `count` equally spaced angles of a full turn, the first of which is
// given.
template <class T>
SUPPLE_INLINE Turn<T> sampled_turn(const Turn<T>& first, int number, int count) {
  Turn<T> turn;
  sincos(T(6.283185307179586476925286766559) * T(number) / T(count), turn.s, turn.c);
  return first * turn;
}

// A line in space: a unit vector along it and one of its points.
template <class T>
struct Line {
  Vec3<T> h, p;
};

// Returns the vector v rotated about a unit vector h.
template <class T>
SUPPLE_INLINE Vec3<T> rotated(const Vec3<T>& v, const Vec3<T>& h, const Turn<T>& turn) {
  return fma(v, turn.c, fma(cross(h, v), turn.s, h * (dot(h, v) * (T(1) - turn.c))));
}
// Returns the point x rotated about a line.
template <class T>
SUPPLE_INLINE Vec3<T> rotated(const Vec3<T>& x, const Line<T>& axis, const Turn<T>& turn) {
  return axis.p + rotated(x - axis.p, axis.h, turn);
}
template <class T>
SUPPLE_INLINE Vec3<T> transformed(const Pose<T>& X, const Vec3<T>& x) {
  return X.p + X.R * x;
}
template <class T>
SUPPLE_INLINE Line<T> transformed_back(const Pose<T>& X, const Line<T>& line) {
  return {into(X.R, line.h), into(X.R, line.p - X.p)};
}

// Numbers below this, relative to their scale, count as zero. At a singular configuration, angles
// computed from a target have errors of the order of the square root of the machine precision.
inline constexpr double closed_form_zero = 1e-7;
// Numbers below this are rounding errors. Between the two thresholds, the target has isolated
// solutions, but within small tolerances also a continuum of them: both are computed.
inline constexpr double closed_form_noise = 1e-13;

// ---- subproblems -------------------------------------------------------------------------------

// Computes the angle that rotates vector a to b about the unit vector h. a and b have the same
// component along h and the same length. Returns false if every angle does so, because the parts of
// a and b perpendicular to h are nearly zero. The angle is then the one that these small parts
// determine or, if they are rounding errors, an angle whose samples (`sampled_turn`) avoid
// multiples of a quarter turn.
template <class T>
SUPPLE_FN bool turn_onto(const Vec3<T>& h, const Vec3<T>& a, const Vec3<T>& b, T scale,
                         Turn<T>& turn) {
  const Vec3<T> flat = a - h * dot(h, a);
  const T c = dot(flat, b), s = dot(cross(h, a), b);
  const T size = sqrt(c * c + s * s);
  const T zero = T(closed_form_zero) * scale, noise = T(closed_form_noise) * scale;
  turn = size > noise * noise ? Turn<T>{c / size, s / size} : Turn<T>{T(0.8), T(0.6)};
  return size > zero * zero;
}

// Special properties of a candidate.
struct Mark {
  bool sampled;   // whether an angle is not determined by the target, but sampled
  bool critical;  // whether a root is double within the slack: the arm is at a singularity
};
SUPPLE_INLINE Mark operator|(const Mark& a, const Mark& b) {
  return {a.sampled || b.sampled, a.critical || b.critical};
}

// The solutions of an equation for an angle: at most two. `any` marks an equation whose
// coefficients are so small that every angle is nearly a solution; the two solutions then depend on
// these small numbers. `critical` marks a double root.
template <class T>
struct Turns {
  Turn<T> turn[2];
  int count;
  bool any, critical;
};

// Returns the angles, with cosine c and sine s, for which a c + b s = d. `scale` is the order of
// magnitude of a, b and d. If the equation misses a solution only by the relative error `slack`, it
// counts as having a double root.
template <class T>
SUPPLE_FN Turns<T> turns_with(T a, T b, T d, T scale, T slack) {
  const T size = sqrt(a * a + b * b);
  const bool is_small = size <= T(closed_form_zero) * scale;
  const bool any = is_small && abs(d) <= (T(10) * T(closed_form_zero) + slack) * scale;
  if (is_small && !(size > T(closed_form_noise) * scale && abs(d) < size)) return {{}, 0, any, any};
  a = a / size;
  b = b / size;
  d = d / size;
  // (a, b) is the direction midway between the two solutions, and d the cosine of half the angle
  // between them.
  const T rest = (T(1) - d) * (T(1) + d), zero = T(2) * (slack + T(1e-9)) * scale / size;
  if (rest < T(0)) {
    if (rest < -zero) return {{}, 0, false, false};
    return {{d > T(0) ? Turn<T>{a, b} : Turn<T>{-a, -b}, {}}, 1, false, true};
  }
  const T s = sqrt(rest);
  return {
      {{a * d - b * s, b * d + a * s}, {a * d + b * s, b * d - a * s}}, 2, any, any || rest < zero};
}

// ---- real roots of a quartic -------------------------------------------------------------------

template <class T>
SUPPLE_INLINE T polynomial_at(const T* a, int degree, T x) {
  T value = a[degree];
  for (int i = degree - 1; i >= 0; --i) value = fma(value, x, a[i]);
  return value;
}

// Returns the root of a polynomial between low and high, where its signs differ, by Newton's
// method, or by bisection where Newton's method would leave the interval.
template <class T>
SUPPLE_FN T root_between(const T* a, int degree, T low, T high, T at_low) {
  T x = T(0.5) * (low + high);
  for (int i = 0; i < 64; ++i) {
    T value = a[degree], slope(0);
    for (int k = degree - 1; k >= 0; --k) {
      slope = fma(slope, x, value);
      value = fma(value, x, a[k]);
    }
    if ((value < T(0)) == (at_low < T(0))) {
      low = x;
    } else {
      high = x;
    }
    T next = x - value / slope;
    if (!(next > low && next < high)) next = T(0.5) * (low + high);
    if (abs(next - x) <= T(4) * T(Number<T>::epsilon) * abs(x) || next == x) return next;
    x = next;
  }
  return x;
}

// Computes the real roots of a polynomial of degree 4 (a[4] is not zero) in ascending order. An
// extremum that does not reach zero, but is within `tiny` of it, counts as a root: rounding may
// have removed a double root. Returns the number of roots; `is_double` marks these roots, and pairs
// of roots on both sides of an extremum within `tiny` of zero.
template <class T>
SUPPLE_FN int quartic_roots(const T* a, T tiny, T* root, bool* is_double) {
  // All roots are within this bound (Cauchy).
  T largest(0);
  for (int i = 0; i < 4; ++i) largest = max(largest, abs(a[i]));
  const T bound = T(1) + largest / abs(a[4]);
  const T d1[4] = {a[1], T(2) * a[2], T(3) * a[3], T(4) * a[4]};
  const T d2[3] = {d1[1], T(2) * d1[2], T(3) * d1[3]};
  // Ends of the intervals where the derivative is monotone.
  T edge[5] = {-bound, T(0), T(0), T(0), T(0)};
  int edges = 1;
  const T b = T(0.5) * d2[1], inside = b * b - d2[0] * d2[2];
  if (inside > T(0)) {
    const T w = -(b + (b < T(0) ? -sqrt(inside) : sqrt(inside)));
    const T r0 = w / d2[2], r1 = d2[0] / w;
    edge[edges++] = min(r0, r1);
    edge[edges++] = max(r0, r1);
  }
  edge[edges++] = bound;
  // Extrema: the ends of the intervals where the quartic is monotone.
  T piece[5] = {-bound, T(0), T(0), T(0), T(0)};
  int pieces = 1;
  for (int i = 0; i + 1 < edges; ++i) {
    const T at = polynomial_at(d1, 3, edge[i]), next = polynomial_at(d1, 3, edge[i + 1]);
    if (next == T(0) && i + 2 < edges) {
      piece[pieces++] = edge[i + 1];
    } else if ((at < T(0)) != (next < T(0)) && at != T(0)) {
      piece[pieces++] = root_between(d1, 3, edge[i], edge[i + 1], at);
    }
  }
  piece[pieces++] = bound;
  int count = 0;
  T at = polynomial_at(a, 4, piece[0]);
  bool at_zero = false;  // whether the extremum at this end is within `tiny` of zero
  for (int i = 0; i + 1 < pieces; ++i) {
    const T next = polynomial_at(a, 4, piece[i + 1]);
    // The polynomial is (1 + x²)² times the function of the angle to which `tiny` refers.
    const T spread = T(1) + piece[i + 1] * piece[i + 1];
    const bool next_zero = i + 2 < pieces && abs(next) <= tiny * spread * spread;
    if ((at < T(0)) != (next < T(0))) {
      is_double[count] = at_zero || next_zero;
      root[count++] = root_between(a, 4, piece[i], piece[i + 1], at);
    } else if (next_zero && (polynomial_at(a, 4, piece[i + 2]) < T(0)) == (next < T(0))) {
      is_double[count] = true;  // the quartic touches zero, or almost does
      root[count++] = piece[i + 1];
    }
    at = next;
    at_zero = next_zero;
  }
  return count;
}

// ---- two linear equations in two angles --------------------------------------------------------

// The singular value decomposition of a 2 x 2 matrix: left · diag(sigma) · rightᵀ, where left and
// right are rotations.
template <class T>
struct Svd2 {
  Turn<T> left, right;
  T sigma[2];  // sigma[1] may be negative; |sigma[1]| <= sigma[0]
};

// Returns half of an angle. (Adding half a turn to the result gives another solution.)
template <class T>
SUPPLE_INLINE Turn<T> half_turn(const Turn<T>& a) {
  const T large = sqrt(T(0.5) + T(0.5) * abs(a.c));
  const T small = T(0.5) * a.s / large;
  return a.c < T(0) ? Turn<T>{small, large} : Turn<T>{large, small};
}

template <class T>
SUPPLE_FN Svd2<T> svd2(const T A[2][2]) {
  // A is the sum of a scaled rotation by the angle left - right, and a scaled reflection by left +
  // right.
  const T e = T(0.5) * (A[0][0] + A[1][1]), f = T(0.5) * (A[0][0] - A[1][1]);
  const T g = T(0.5) * (A[1][0] + A[0][1]), h = T(0.5) * (A[1][0] - A[0][1]);
  const T turned = sqrt(e * e + h * h), mirrored = sqrt(f * f + g * g);
  const Turn<T> minus = turned > T(0) ? Turn<T>{e / turned, h / turned} : Turn<T>{T(1), T(0)};
  const Turn<T> plus = mirrored > T(0) ? Turn<T>{f / mirrored, g / mirrored} : Turn<T>{T(1), T(0)};
  Svd2<T> svd;
  svd.left = half_turn(plus * minus);
  svd.right = svd.left * -minus;
  svd.sigma[0] = turned + mirrored;
  svd.sigma[1] = turned - mirrored;
  return svd;
}

template <class T>
struct TwoTurns {
  Turn<T> u, v;
  Mark mark;
};

// Solves A u + B v = c for unit vectors u and v (the cosine and sine of two angles), if A has rank
// 1 or 0: the combination of both equations that does not contain u gives v.
template <class T, class Emit>
SUPPLE_FN void two_joints_rank1(const Svd2<T>& svd, const T B[2][2], const T c[2], T scale, T slack,
                                int samples, Emit&& emit) {
  // Components of B and c along the left singular vectors of A.
  const Turn<T> l = svd.left;
  const T b0[2] = {l.c * B[0][0] + l.s * B[1][0], l.c * B[0][1] + l.s * B[1][1]};
  const T b1[2] = {l.c * B[1][0] - l.s * B[0][0], l.c * B[1][1] - l.s * B[0][1]};
  const T c0 = l.c * c[0] + l.s * c[1], c1 = l.c * c[1] - l.s * c[0];
  Turns<T> v = turns_with(b1[0], b1[1], c1, scale, slack);
  const bool v_free = v.any, u_free = abs(svd.sigma[0]) <= T(closed_form_zero) * scale;
  if (u_free && (v_free || b0[0] * b0[0] + b0[1] * b0[1] > b1[0] * b1[0] + b1[1] * b1[1])) {
    // Without u, both equations are in v alone: use the one that determines v better.
    v = turns_with(b0[0], b0[1], c0, scale, slack);
  }
  if (u_free && v.any) return;  // neither angle moves the frame
  const int rounds = v.count + (v.any ? samples : 0);
  for (int i = 0; i < rounds; ++i) {
    const Turn<T> one = i < v.count ? v.turn[i] : sampled_turn<T>(i - v.count, samples);
    const Turns<T> u =
        turns_with(svd.sigma[0], T(0), c0 - b0[0] * one.c - b0[1] * one.s, scale, slack);
    const int each = u.count + (u_free ? samples : 0);
    for (int k = 0; k < each; ++k) {
      const Turn<T> other =
          k < u.count ? svd.right * u.turn[k] : sampled_turn<T>(k - u.count, samples);
      emit(TwoTurns<T>{other, one, {v.any || u_free, u.critical || v.critical}});
    }
  }
}

// Solves A u + B v = c for unit vectors u and v, if A has rank 2: A⁻¹ (c - B v) has length 1, which
// together with ‖v‖ = 1 is a quartic equation.
template <class T, class Emit>
SUPPLE_FN void two_joints_rank2(const Svd2<T>& svd, const T B[2][2], const T c[2], T slack,
                                Emit&& emit) {
  const Turn<T> l = svd.left;
  const T s0 = svd.sigma[0], s1 = svd.sigma[1];
  // The components of u along the singular vectors are u0 = (c0 - b0·v)/s0 and u1 = (c1 - b1·v)/s1.
  // d0 and d1 are the coefficients of s1 u0 and s1 u1 in (1, c, s), with v = (c, s).
  const T ratio = s1 / s0;
  const T d0[3] = {ratio * (l.c * c[0] + l.s * c[1]), -ratio * (l.c * B[0][0] + l.s * B[1][0]),
                   -ratio * (l.c * B[0][1] + l.s * B[1][1])};
  const T d1[3] = {l.c * c[1] - l.s * c[0], -(l.c * B[1][0] - l.s * B[0][0]),
                   -(l.c * B[1][1] - l.s * B[0][1])};
  // f = (d0·[1 c s])² + (d1·[1 c s])² - s1² = k0 + kc c + ks s + kcc c² + kcs c s + kss s²
  const auto f_of = [&](const Turn<T>& v) {
    const T x = d0[0] + d0[1] * v.c + d0[2] * v.s, y = d1[0] + d1[1] * v.c + d1[2] * v.s;
    return x * x + y * y - s1 * s1;
  };
  // The half-angle substitution t = tan(w/2) has its pole where |f| is largest among six angles,
  // because no root is near that angle.
  Turn<T> pole{T(1), T(0)};
  T largest(0);
  constexpr T steps[6][2] = {
      {T(1), T(0)},  {T(0.5), T(0.86602540378443865)},   {T(-0.5), T(0.86602540378443865)},
      {T(-1), T(0)}, {T(-0.5), T(-0.86602540378443865)}, {T(0.5), T(-0.86602540378443865)}};
  for (int i = 0; i < 6; ++i) {
    const Turn<T> v{steps[i][0], steps[i][1]};
    const T size = abs(f_of(v));
    if (size > largest) {
      largest = size;
      pole = v;
    }
  }
  if (!(largest > T(0))) return;
  // v = -pole · w, so that the pole is at w = π.
  const auto turn_row = [&](const T* d, T* e) {
    e[0] = d[0];
    e[1] = -(d[1] * pole.c + d[2] * pole.s);
    e[2] = -(d[2] * pole.c - d[1] * pole.s);
  };
  T e0[3], e1[3];
  turn_row(d0, e0);
  turn_row(d1, e1);
  const T k0 = e0[0] * e0[0] + e1[0] * e1[0] - s1 * s1;
  const T kc = T(2) * (e0[0] * e0[1] + e1[0] * e1[1]), ks = T(2) * (e0[0] * e0[2] + e1[0] * e1[2]);
  const T kcc = e0[1] * e0[1] + e1[1] * e1[1], kss = e0[2] * e0[2] + e1[2] * e1[2];
  const T kcs = T(2) * (e0[1] * e0[2] + e1[1] * e1[2]);
  // Coefficients of (1 + t²)² f with t = tan(w/2).
  const T a[5] = {k0 + kc + kcc, T(2) * (ks + kcs), T(2) * k0 - T(2) * kcc + T(4) * kss,
                  T(2) * (ks - kcs), k0 - kc + kcc};
  T root[4];
  bool is_double[4];
  const int count = quartic_roots(a, largest * (T(1e-10) + slack), root, is_double);
  for (int i = 0; i < count; ++i) {
    const T t = root[i], size = T(1) + t * t;
    const Turn<T> w{(T(1) - t * t) / size, T(2) * t / size};
    const Turn<T> v{-(pole.c * w.c - pole.s * w.s), -(pole.s * w.c + pole.c * w.s)};
    const T x = d0[0] + d0[1] * v.c + d0[2] * v.s, y = d1[0] + d1[1] * v.c + d1[2] * v.s;
    const T u0 = x / s1, u1 = y / s1, length = sqrt(u0 * u0 + u1 * u1);
    if (!(length > T(0))) continue;
    const Turn<T> u{u0 / length, u1 / length};
    emit(TwoTurns<T>{svd.right * u, v, {false, is_double[i]}});
    // Two solutions with the same v may differ in u: if s1 is small, v does not determine u1.
    if (is_double[i]) emit(TwoTurns<T>{svd.right * Turn<T>{u.c, -u.s}, v, {false, true}});
  }
}

// Calls emit for all unit vectors u and v with A u + B v = c; each holds the cosine and sine of an
// angle.
template <class T, class Emit>
SUPPLE_FN void two_joints(const T A[2][2], const T B[2][2], const T c[2], T length, T slack,
                          int samples, Emit&& emit) {
  const Svd2<T> a = svd2(A), b = svd2(B);
  const T zero = T(closed_form_zero) * length;
  const auto swapped = [&](const TwoTurns<T>& pair) {
    emit(TwoTurns<T>{pair.v, pair.u, pair.mark});
  };
  if (abs(a.sigma[1]) <= zero && (a.sigma[0] <= b.sigma[0] || abs(b.sigma[1]) > zero)) {
    two_joints_rank1(a, B, c, length, slack, samples, emit);
  } else if (abs(b.sigma[1]) <= zero) {
    two_joints_rank1(b, A, c, length, slack, samples, swapped);
  } else if (abs(a.sigma[1]) * b.sigma[0] >= abs(b.sigma[1]) * a.sigma[0]) {
    two_joints_rank2(a, B, c, slack, emit);
  } else {
    two_joints_rank2(b, A, c, slack, swapped);
  }
}

}  // namespace supple::inline SUPPLE_ISA
