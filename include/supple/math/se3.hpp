// Vectors, rotations and poses on lanes; rotation vectors.
#pragma once

#include "supple/math/elementary.hpp"
#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {

template <class L>
struct Vec3 {
  L x, y, z;
};

template <class L>
SUPPLE_INLINE Vec3<L> operator+(const Vec3<L>& a, const Vec3<L>& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class L>
SUPPLE_INLINE Vec3<L> operator-(const Vec3<L>& a, const Vec3<L>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class L>
SUPPLE_INLINE Vec3<L> operator*(const Vec3<L>& a, const L& s) {
  return {a.x * s, a.y * s, a.z * s};
}
// a s + b
template <class L>
SUPPLE_INLINE Vec3<L> fma(const Vec3<L>& a, const L& s, const Vec3<L>& b) {
  return {fma(a.x, s, b.x), fma(a.y, s, b.y), fma(a.z, s, b.z)};
}
template <class L>
SUPPLE_INLINE L dot(const Vec3<L>& a, const Vec3<L>& b) {
  return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x));
}
template <class L>
SUPPLE_INLINE Vec3<L> cross(const Vec3<L>& a, const Vec3<L>& b) {
  return {fma(a.y, b.z, -(a.z * b.y)), fma(a.z, b.x, -(a.x * b.z)), fma(a.x, b.y, -(a.y * b.x))};
}

// A rotation by its columns: the axes x, y, z of one frame in the coordinates of another.
template <class L>
struct Rotation {
  Vec3<L> x, y, z;
};

// R v
template <class L>
SUPPLE_INLINE Vec3<L> operator*(const Rotation<L>& R, const Vec3<L>& v) {
  return fma(R.z, v.z, fma(R.y, v.y, R.x * v.x));
}
// R^T v: the vector v in the coordinates of the frame with axes R.
template <class L>
SUPPLE_INLINE Vec3<L> into(const Rotation<L>& R, const Vec3<L>& v) {
  return {dot(R.x, v), dot(R.y, v), dot(R.z, v)};
}

// A Bᵀ
template <class L>
SUPPLE_INLINE Rotation<L> times_transpose(const Rotation<L>& A, const Rotation<L>& B) {
  return {A * Vec3<L>{B.x.x, B.y.x, B.z.x}, A * Vec3<L>{B.x.y, B.y.y, B.z.y},
          A * Vec3<L>{B.x.z, B.y.z, B.z.z}};
}

// Returns the rotation vector of R: axis times angle, with the angle in [0, π]. The matrix 4 q qᵀ
// of the unit quaternion q = (w, x, y, z) is linear in R. Each of its rows is a multiple of q; the
// row with the largest diagonal entry is the most accurate, and needs no square root. The diagonal
// entries add up to 4, so this row is never small, even if R is not quite a rotation. At a half
// turn both axes ±a are valid; the result is the one whose largest entry (the first of several) is
// positive.
template <class L>
SUPPLE_FN Vec3<L> log(const Rotation<L>& R) {
  using T = scalar_t<L>;
  const L one(1);
  const L ww = one + R.x.x + R.y.y + R.z.z, xx = one + R.x.x - R.y.y - R.z.z,
          yy = one - R.x.x + R.y.y - R.z.z, zz = one - R.x.x - R.y.y + R.z.z;
  const L wx = R.y.z - R.z.y, wy = R.z.x - R.x.z, wz = R.x.y - R.y.x;
  const L xy = R.x.y + R.y.x, xz = R.x.z + R.z.x, yz = R.y.z + R.z.y;
  L most = ww, w = ww;
  Vec3<L> v{wx, wy, wz};
  const auto take = [&](const L& diagonal, const L& scalar, const L& x, const L& y, const L& z) {
    const mask_t<L> larger = diagonal > most;
    most = select(larger, diagonal, most);
    w = select(larger, scalar, w);
    v = {select(larger, x, v.x), select(larger, y, v.y), select(larger, z, v.z)};
  };
  take(xx, wx, xx, xy, xz);
  take(yy, wy, xy, yy, yz);
  take(zz, wz, xz, yz, zz);

  const mask_t<L> behind = w < L(0);
  w = abs(w);
  const L square = dot(v, v), size = sqrt(square);
  const mask_t<L> nonzero = square > L(Number<T>::tiny);
  // The factor angle/|v| tends to 2/w as v tends to zero, where w is the largest entry of q.
  const mask_t<L> small = square <= L(T(0.1) * Number<T>::epsilon) * w * w;
  const L limit = select(behind, L(-2), L(2)) / w;
  if (all(small)) return v * limit;
  const L angle = atan2(size, w) * L(2);
  const L scale = select(nonzero, angle, L(2)) / select(nonzero, size, max(w, one));
  return v * select(small, limit, select(behind, -scale, scale));
}

// Returns the rotation by a rotation vector r: I + sin θ/θ [r] + (1 - cos θ)/θ² [r]² with θ = |r|,
// where [r] x = r × x. Valid for θ up to 1e150 (float: 1e18).
template <class L>
SUPPLE_FN Rotation<L> exp(const Vec3<L>& r) {
  using T = scalar_t<L>;
  const L square = dot(r, r), half = sqrt(square) * L(T(0.5));
  const mask_t<L> nonzero = square > L(Number<T>::tiny);
  L s, c;
  sincos(half, s, c);
  const L k = select(nonzero, s / select(nonzero, half, L(1)), L(1));
  const L odd = k * c, even = k * k * L(T(0.5)), rest = fma(-even, square, L(1));
  const Vec3<L> t = r * even, u = r * odd;
  return {{fma(t.x, r.x, rest), fma(t.x, r.y, u.z), fma(t.x, r.z, -u.y)},
          {fma(t.y, r.x, -u.z), fma(t.y, r.y, rest), fma(t.y, r.z, u.x)},
          {fma(t.z, r.x, u.y), fma(t.z, r.y, -u.x), fma(t.z, r.z, rest)}};
}

// The pose T_ab of a frame b in a frame a.
template <class L>
struct Pose {
  Rotation<L> R;
  Vec3<L> p;
};

}  // namespace supple::inline SUPPLE_ISA
