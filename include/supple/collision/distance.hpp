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

// Distance of a shape from a half-space: the distance of the deepest point of the shape.
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

// Returns whether `found` has received the contact of two cores: always for cores that are apart by
// more than rounding, and for some kinds of cores also if they overlap. `last` and `enough` are
// those of `nearest_of_cores`.
template <class T>
SUPPLE_FN bool separated_cores(const Shape<T>& a, const Shape<T>& b, Contact<T>& found,
                               LastCorners* last = nullptr, T enough = Number<T>::huge) {
  const bool first = a.kind == ShapeKind::sphere && b.kind != ShapeKind::hull;
  if (first || (b.kind == ShapeKind::sphere && a.kind != ShapeKind::hull)) {
    const Shape<T>&point = first ? a : b, &other = first ? b : a;
    const PointDistance<T> to = distance_to_core(other, point.at.p);
    found = {to.distance, point.at.p, fma(to.normal, -to.distance, point.at.p), to.normal};
    if (!first) found = reversed(found);
    return true;
  }
  if (a.kind == ShapeKind::capsule && b.kind == ShapeKind::capsule) {
    Vec3<T> apart{T(0), T(0), T(0)};
    nearest_on_segments(a, b, found.first, apart);
    const Vec3<T> normal = unit_or(cross(a.at.R.z, b.at.R.z), a.at.R.x);
    found.distance = sqrt(dot(apart, apart));
    found.normal = found.distance > T(1e-145) ? unit_or(apart, normal) : normal;
    found.second = found.first - apart;
    return true;
  }
  return nearest_of_cores(a, b, found, last, enough);
}

template <class T>
SUPPLE_FN Contact<T> distance_of_cores(const Shape<T>& a, const Shape<T>& b, LastCorners* last,
                                       const T& enough) {
  Contact<T> found;
  return separated_cores(a, b, found, last, enough) ? found : deepest_of_cores(a, b);
}

// Returns the signed distance of two shapes, of which at most one is a half-space. With `last`, the
// search begins where the search of the previous call ended, and the result may differ by rounding.
// For shapes that are farther apart than `enough`, the result may be a lower bound of the distance
// that is above `enough`.
template <class T>
SUPPLE_FN Contact<T> distance(const Shape<T>& a, const Shape<T>& b, LastCorners* last = nullptr,
                              const T& enough = Number<T>::huge) {
  if (b.kind == ShapeKind::half_space) return distance_from_plane(a, b);
  if (a.kind == ShapeKind::half_space) return reversed(distance_from_plane(b, a));
  // Coordinates relative to the second shape: the rounding of distances does not grow with the
  // distance from the world's origin.
  const Vec3<T> origin = b.at.p;
  Shape<T> near = a, fixed = b;
  near.at.p = a.at.p - origin;
  fixed.at.p = {T(0), T(0), T(0)};
  Contact<T> found = with_radii(
      near, fixed, distance_of_cores(near, fixed, last, T(enough + a.radius + b.radius)));
  found.first = found.first + origin;
  found.second = found.second + origin;
  return found;
}

// Whether two shapes overlap by more than the depth -margin, for a negative `margin`.
template <class T>
SUPPLE_NOINLINE bool is_deeper(const Shape<T>& a, const Shape<T>& b, const T& margin) {
  return distance(a, b).distance < margin;
}

// Whether the distance of two shapes, of which at most one is a half-space, is less than `margin`.
// Unless `margin` is negative, the depth of penetration is not computed, and cores that touch to
// rounding count as closer than `margin`.
template <class T>
SUPPLE_FN bool is_closer(const Shape<T>& a, const Shape<T>& b, const T& margin) {
  if (margin < T(0)) return is_deeper(a, b, margin);
  if (b.kind == ShapeKind::half_space) return distance_from_plane(a, b).distance < margin;
  if (a.kind == ShapeKind::half_space) return distance_from_plane(b, a).distance < margin;
  Shape<T> near = a, fixed = b;
  near.at.p = a.at.p - b.at.p;
  fixed.at.p = {T(0), T(0), T(0)};
  Contact<T> found;
  const T radii = a.radius + b.radius;
  return !separated_cores<T>(near, fixed, found, nullptr, margin + radii) ||
         found.distance - a.radius - b.radius < margin;
}

}  // namespace supple::inline SUPPLE_ISA
