// Vectors, rotations and poses on lanes.
#pragma once

#include "lane.hpp"

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

// A rotation by its columns: the axes x, y, z of a frame, in the coordinates of another.
template <class L>
struct Rotation {
  Vec3<L> x, y, z;
};

// R v
template <class L>
SUPPLE_INLINE Vec3<L> operator*(const Rotation<L>& R, const Vec3<L>& v) {
  return fma(R.z, v.z, fma(R.y, v.y, R.x * v.x));
}
// R^T v
template <class L>
SUPPLE_INLINE Vec3<L> into(const Rotation<L>& R, const Vec3<L>& v) {
  return {dot(R.x, v), dot(R.y, v), dot(R.z, v)};
}

// The pose T_ab of a frame b in a frame a.
template <class L>
struct Pose {
  Rotation<L> R;
  Vec3<L> p;
};

}  // namespace supple::inline SUPPLE_ISA
