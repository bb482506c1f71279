// Nearest points of two segments.
#pragma once

#include "supple/collision/shape.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes the points c + t z, |t| <= half length, of the segments of two capsules that are nearest
// to each other: the point `on_a` of the first segment, and `apart`, its difference from the point
// of the second.
template <class T>
SUPPLE_FN void nearest_on_segments(const Shape<T>& a, const Shape<T>& b, Vec3<T>& on_a,
                                   Vec3<T>& apart) {
  const Vec3<T>&u = a.at.R.z, &v = b.at.R.z, between = a.at.p - b.at.p;
  const T h = a.half.z, k = b.half.z;
  const auto clamp = [](T x, T most) { return min(max(x, -most), most); };
  T best = Number<T>::huge;
  const auto consider = [&](T s, T t) {
    const Vec3<T> left = fma(v, -t, fma(u, s, between));
    const T square = dot(left, left);
    if (square < best) best = square, apart = left, on_a = fma(u, s, a.at.p);
  };
  // The common perpendicular of two lines that are not parallel. The cross product is accurate also
  // where the lines are nearly parallel, unlike 1 - (u·v)².
  const Vec3<T> normal = cross(u, v);
  const T sine2 = dot(normal, normal);
  if (sine2 > T(1e-28)) {
    const T s = clamp(dot(cross(v, between), normal) / sine2, h);
    const T t = clamp(dot(fma(u, s, between), v), k);
    consider(clamp(dot(fma(v, t, between * T(-1)), u), h), t);
  }
  // Compare the ends of each segment with the other segment: an end is nearest if the segments are
  // parallel, or if the perpendicular misses one of them.
  for (int side = -1; side <= 1; side += 2) {
    const T s = T(side) * h, t = T(side) * k;
    consider(s, clamp(dot(fma(u, s, between), v), k));
    consider(clamp(dot(fma(v, t, between * T(-1)), u), h), t);
  }
}

}  // namespace supple::inline SUPPLE_ISA
