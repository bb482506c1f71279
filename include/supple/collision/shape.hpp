// Shapes: a convex core and a radius around it.
//
//   sphere      a point             capsule    a segment along z      hull   vertices
//   box         a box, radius 0     cylinder   a cylinder along z, radius 0
//   half-space  where z <= 0 in its own frame
//
// The signed distance of two shapes is that of their cores minus both radii, where cores that
// overlap have the negative depth of penetration: the length of the shortest translation that
// separates them.
#pragma once

#include "supple/collision/model.hpp"
#include "supple/math/se3.hpp"

namespace supple::inline SUPPLE_ISA {

// A shape in the world.
template <class T>
struct Shape {
  ShapeKind kind;
  T radius;         // [m], around the core
  Vec3<T> half;     // [m]: half sizes of a box; x = radius and z = half length of a cylinder; z =
                    // half length of a capsule's segment
  int vertices;     // number of vertices of a hull
  const T* vertex;  // (vertices, 3) [m] in the shape's frame
  T bound;          // [m]: radius of a sphere around the origin that contains the shape
  Pose<T> at;       // pose in the world
};

template <class T>
SUPPLE_INLINE bool is_curved(const Shape<T>& shape) {
  return shape.kind == ShapeKind::cylinder;
}

// Returns a unit vector, or `otherwise` for a vector that is too short to have a direction.
template <class T>
SUPPLE_FN Vec3<T> unit_or(const Vec3<T>& a, const Vec3<T>& otherwise) {
  const T square = dot(a, a);
  return square > T(1e-290) ? a * (T(1) / sqrt(square)) : otherwise;
}

// Returns a unit vector that is perpendicular to a unit vector.
template <class T>
SUPPLE_FN Vec3<T> any_perpendicular(const Vec3<T>& a) {
  const T x = abs(a.x), y = abs(a.y), z = abs(a.z);
  const Vec3<T> other = x <= y && x <= z ? Vec3<T>{T(1), T(0), T(0)}
                        : y <= z         ? Vec3<T>{T(0), T(1), T(0)}
                                         : Vec3<T>{T(0), T(0), T(1)};
  const Vec3<T> made = cross(a, other);
  return made * (T(1) / sqrt(dot(made, made)));
}

// Returns the point of the core that is farthest in a direction d, which need not be a unit vector.
template <class T>
SUPPLE_FN Vec3<T> support(const Shape<T>& shape, const Vec3<T>& d) {
  const Rotation<T>& R = shape.at.R;
  const Vec3<T>& p = shape.at.p;
  switch (shape.kind) {
    case ShapeKind::sphere:
    case ShapeKind::half_space:
      return p;
    case ShapeKind::capsule:
      return fma(R.z, copysign(shape.half.z, dot(R.z, d)), p);
    case ShapeKind::box: {
      const Vec3<T> a = into(R, d);
      return p + R * Vec3<T>{copysign(shape.half.x, a.x), copysign(shape.half.y, a.y),
                             copysign(shape.half.z, a.z)};
    }
    case ShapeKind::cylinder: {
      const Vec3<T> a = into(R, d);
      const T across = sqrt(a.x * a.x + a.y * a.y), size = across + abs(a.z);
      // A direction along the axis to rounding: the middle of the cap.
      const T scale = across > T(1e-300) && across > T(1e-17) * size ? shape.half.x / across : T(0);
      return p + R * Vec3<T>{a.x * scale, a.y * scale, copysign(shape.half.z, a.z)};
    }
    case ShapeKind::hull: {
      const Vec3<T> a = into(R, d);
      int best = 0;
      T most = -Number<T>::huge;
      for (int i = 0; i < shape.vertices; ++i) {
        const T* const v = shape.vertex + 3 * i;
        const T along = fma(a.z, v[2], fma(a.y, v[1], a.x * v[0]));
        if (along > most) most = along, best = i;
      }
      const T* const v = shape.vertex + 3 * best;
      return p + R * Vec3<T>{v[0], v[1], v[2]};
    }
  }
  return p;
}

// Two shapes at their nearest points. The normal is a unit vector from the second shape to the
// first: first - second = distance * normal.
template <class T>
struct Contact {
  T distance;             // [m], negative if they overlap
  Vec3<T> first, second;  // [m]: points of the two shapes
  Vec3<T> normal;
};

}  // namespace supple::inline SUPPLE_ISA
