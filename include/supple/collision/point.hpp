// Signed distances of points from shapes, on lanes: each lane holds its own point.
#pragma once

#include "supple/collision/shape.hpp"

namespace supple::inline SUPPLE_ISA {

// The signed distance of a point from a core, and its gradient, a unit vector that points away from
// the core. The nearest point of the core is point - distance * normal.
template <class L>
struct PointDistance {
  L distance;
  Vec3<L> normal;
};

template <class L, class T>
SUPPLE_INLINE Vec3<L> broadcast(const Vec3<T>& a) {
  return {L(a.x), L(a.y), L(a.z)};
}

template <class L>
SUPPLE_INLINE Vec3<L> select(const mask_t<L>& mask, const Vec3<L>& a, const Vec3<L>& b) {
  return {select(mask, a.x, b.x), select(mask, a.y, b.y), select(mask, a.z, b.z)};
}

// Returns the length of a, and the unit vector along a or, where a is zero, `otherwise`.
template <class L>
SUPPLE_INLINE PointDistance<L> length_and_direction(const Vec3<L>& a, const Vec3<L>& otherwise) {
  using T = scalar_t<L>;
  const L square = dot(a, a);
  const mask_t<L> known = square > L(T(1e-290));
  const L length = sqrt(square), inverse = L(1) / select(known, length, L(1));
  return {select(known, length, L(0)), select<L>(known, a * inverse, otherwise)};
}

// Distance from a box with the half sizes h, for a point in the box's frame. For a point outside
// the box, the normal points from the nearest point of the box to the given point; for a point
// inside, it is the normal of the nearest face.
template <class L, class T>
SUPPLE_INLINE PointDistance<L> distance_to_box(const Vec3<T>& h, const Vec3<L>& p) {
  const L zero(0), one(1);
  const L x = abs(p.x) - L(h.x), y = abs(p.y) - L(h.y), z = abs(p.z) - L(h.z);
  const L most = max(x, max(y, z));
  const mask_t<L> on_x = x == most, on_y = y == most;
  const Vec3<L> face{select(on_x, one, zero), select(on_x, zero, select(on_y, one, zero)),
                     select(on_x | on_y, zero, one)};
  const PointDistance<L> out =
      length_and_direction(Vec3<L>{max(x, zero), max(y, zero), max(z, zero)}, face);
  const Vec3<L> n = out.normal;
  return {out.distance + min(most, zero),
          {copysign(n.x, p.x), copysign(n.y, p.y), copysign(n.z, p.z)}};
}

// Distance from a cylinder with radius r and half length h, for a point in the cylinder's frame.
template <class L, class T>
SUPPLE_INLINE PointDistance<L> distance_to_cylinder(const T& r, const T& h, const Vec3<L>& p) {
  using S = scalar_t<L>;
  const L zero(0), one(1), square = p.x * p.x + p.y * p.y;
  const mask_t<L> known = square > L(S(1e-290));
  const L across = sqrt(square), inverse = one / select(known, across, one);
  const L ux = select(known, p.x * inverse, one), uy = select(known, p.y * inverse, zero);
  const L out = select(known, across, zero) - L(r), over = abs(p.z) - L(h);
  const mask_t<L> on_side = out >= over;
  const L a = max(out, zero), b = max(over, zero), both = sqrt(a * a + b * b);
  const mask_t<L> outside = both > zero;
  const L scale = one / select(outside, both, one);
  const L along = select(outside, a * scale, select(on_side, one, zero));
  const L up = select(outside, b * scale, select(on_side, zero, one));
  return {both + min(max(out, over), zero), {ux * along, uy * along, copysign(up, p.z)}};
}

// Distance of a point in the world from the core of a shape that is not a hull.
template <class L, class T>
SUPPLE_INLINE PointDistance<L> distance_to_core(const Shape<T>& shape, const Vec3<L>& point) {
  const Rotation<L> R{broadcast<L>(shape.at.R.x), broadcast<L>(shape.at.R.y),
                      broadcast<L>(shape.at.R.z)};
  const Vec3<L> apart = point - broadcast<L>(shape.at.p);
  switch (shape.kind) {
    case ShapeKind::half_space:
      return {dot(R.z, apart), R.z};
    case ShapeKind::capsule: {
      const L h(shape.half.z), t = min(max(dot(R.z, apart), -h), h);
      return length_and_direction(fma(R.z, -t, apart), R.x);
    }
    case ShapeKind::box: {
      const PointDistance<L> found = distance_to_box(shape.half, into(R, apart));
      return {found.distance, R * found.normal};
    }
    case ShapeKind::cylinder: {
      const PointDistance<L> found =
          distance_to_cylinder(shape.half.x, shape.half.z, into(R, apart));
      return {found.distance, R * found.normal};
    }
    default:
      return length_and_direction(apart, R.z);
  }
}

}  // namespace supple::inline SUPPLE_ISA
