// Signed distance, nearest points and normal of two shapes.
#pragma once

#include "supple/collision/penetration.hpp"
#include "supple/collision/point.hpp"
#include "supple/collision/segment.hpp"

namespace supple::inline SUPPLE_ISA {

// Exchanges the roles of the two shapes.
template <class T>
SUPPLE_INLINE Contact<T> reversed(const Contact<T>& c) {
  return {c.distance, c.second, c.first, c.normal * T(-1)};
}

// Distance of a shape from a half-space: that of its deepest point.
template <class T>
SUPPLE_FN Contact<T> distance_from_plane(const Shape<T>& a, const Shape<T>& plane) {
  const Vec3<T>& n = plane.at.R.z;
  const Vec3<T> low = support(a, n * T(-1));
  const T distance = dot(n, low - plane.at.p) - a.radius;
  const Vec3<T> first = fma(n, -a.radius, low);
  return {distance, first, fma(n, -distance, first), n};
}

// Adds the radii of the shapes to a contact of their cores.
template <class T>
SUPPLE_FN Contact<T> with_radii(const Shape<T>& a, const Shape<T>& b, const Contact<T>& core) {
  return {core.distance - a.radius - b.radius, fma(core.normal, -a.radius, core.first),
          fma(core.normal, b.radius, core.second), core.normal};
}

template <class T>
SUPPLE_FN Contact<T> distance_of_cores(const Shape<T>& a, const Shape<T>& b) {
  if (a.kind == ShapeKind::sphere && b.kind != ShapeKind::hull) {
    const PointDistance<T> found = distance_to_core(b, a.at.p);
    return {found.distance, a.at.p, fma(found.normal, -found.distance, a.at.p), found.normal};
  }
  if (b.kind == ShapeKind::sphere && a.kind != ShapeKind::hull) {
    return reversed(distance_of_cores(b, a));
  }
  Contact<T> found;
  if (a.kind == ShapeKind::capsule && b.kind == ShapeKind::capsule) {
    Vec3<T> apart{T(0), T(0), T(0)};
    nearest_on_segments(a, b, found.first, apart);
    const Vec3<T> normal = unit_or(cross(a.at.R.z, b.at.R.z), a.at.R.x);
    found.distance = sqrt(dot(apart, apart));
    found.normal = found.distance > T(1e-145) ? unit_or(apart, normal) : normal;
    found.second = found.first - apart;
    return found;
  }
  if (nearest_of_cores(a, b, found)) return found;
  return deepest_of_cores(a, b);
}

// Returns the signed distance of two shapes, of which at most one is a half-space.
template <class T>
SUPPLE_FN Contact<T> distance(const Shape<T>& a, const Shape<T>& b) {
  if (b.kind == ShapeKind::half_space) return distance_from_plane(a, b);
  if (a.kind == ShapeKind::half_space) return reversed(distance_from_plane(b, a));
  // Coordinates relative to the second shape: the rounding of distances does not grow with the
  // distance from the world's origin.
  const Vec3<T> origin = b.at.p;
  Shape<T> near = a, fixed = b;
  near.at.p = a.at.p - origin;
  fixed.at.p = {T(0), T(0), T(0)};
  Contact<T> found = with_radii(near, fixed, distance_of_cores(near, fixed));
  found.first = found.first + origin;
  found.second = found.second + origin;
  return found;
}

// Whether two shapes are closer than `margin`. Where they overlap, the depth is not computed.
template <class T>
SUPPLE_FN bool are_closer(const Shape<T>& a, const Shape<T>& b, const T& margin) {
  const auto is = [&](ShapeKind kind) { return a.kind == kind || b.kind == kind; };
  const bool plain = is(ShapeKind::half_space) || (is(ShapeKind::sphere) && !is(ShapeKind::hull)) ||
                     (a.kind == ShapeKind::capsule && b.kind == ShapeKind::capsule);
  if (plain || margin < 0) return distance(a, b).distance < margin;
  Shape<T> near = a, fixed = b;
  near.at.p = a.at.p - b.at.p;
  fixed.at.p = {T(0), T(0), T(0)};
  Contact<T> found;
  return !nearest_of_cores(near, fixed, found) || found.distance - a.radius - b.radius < margin;
}

}  // namespace supple::inline SUPPLE_ISA
