// Shapes: a convex core and a radius around it.
//
//   sphere      a point             capsule    a segment along z      hull   vertices
//   box         a box, radius 0     cylinder   a cylinder along z, radius 0
//   half-space  where z <= 0 in its own frame
//
// The signed distance of two shapes is that of their cores minus both radii. The signed distance of
// cores that overlap is minus the depth of penetration, the length of the shortest translation that
// separates them.
#pragma once

#include "supple/collision/model.hpp"
#include "supple/math/linalg/padded.hpp"
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
  const T* vertex;  // (blocks, 3, vertex_block) [m] in the shape's frame
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

// Number of entries of `Shape::vertex` for a number of vertices.
SUPPLE_FN constexpr int vertex_numbers(int vertices) {
  return (vertices + vertex_block - 1) / vertex_block * vertex_block * 3;
}

// Returns the index of the vertex of a hull that is farthest in a direction d, given in the frame
// of the hull; of several such vertices, the first. Two packs are read at a time, because they need
// not wait for each other.
template <class T>
SUPPLE_FN int farthest_vertex(const Shape<T>& hull, const Vec3<T>& d) {
  using P = Unrolled<T>;
  constexpr int W = pack_width<T>, count = vertex_block / W;
  const P x(d.x), y(d.y), z(d.z);
  P most[2] = {P(-Number<T>::huge), P(-Number<T>::huge)}, begin[2] = {P(T(0)), P(T(0))};
  const int packs = (hull.vertices + W - 1) / W;
  const auto look = [&](int pack, P& largest, P& first) {
    const T* const v = hull.vertex + pack / count * 3 * vertex_block + pack % count * W;
    const P along = fma(z, load_pack(v + 2 * vertex_block),
                        fma(y, load_pack(v + vertex_block), x * load_pack(v)));
    const mask_t<P> farther = along > largest;
    largest = select(farther, along, largest), first = select(farther, P(T(pack * W)), first);
  };
  for (int pack = 0; pack < packs; pack += 2) {
    look(pack, most[0], begin[0]);
    if (pack + 1 < packs) look(pack + 1, most[1], begin[1]);
  }
  const mask_t<P> later = (most[1] > most[0]) | ((most[1] == most[0]) & (begin[1] < begin[0]));
  T farthest[W], at[W];
  store_pack<T>(select(later, most[1], most[0]), farthest);
  store_pack<T>(select(later, begin[1], begin[0]), at);
  SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) at[i] += T(i);
  // Halves are compared without branches, because a processor could not predict them.
  SUPPLE_UNROLL_HOST for (int half = W / 2; half > 0; half /= 2) {
    SUPPLE_UNROLL_HOST for (int i = 0; i < half; ++i) {
      const T other = farthest[i + half], there = at[i + half];
      const bool takes = (other > farthest[i]) | ((other == farthest[i]) & (there < at[i]));
      farthest[i] = takes ? other : farthest[i], at[i] = takes ? there : at[i];
    }
  }
  return int(at[0]);
}

template <class T>
SUPPLE_FN Vec3<T> vertex_of(const Shape<T>& hull, int i) {
  const T* const v = hull.vertex + i / vertex_block * vertex_block * 3 + i % vertex_block;
  return {v[0], v[vertex_block], v[2 * vertex_block]};
}

// Returns corner i of a core that is not curved. For a hull, i is the index of a vertex; for other
// cores, the bits of i are the signs of the coordinates.
template <class T>
SUPPLE_FN Vec3<T> corner_of(const Shape<T>& shape, int i) {
  const Rotation<T>& R = shape.at.R;
  const Vec3<T>& p = shape.at.p;
  const auto signed_half = [&](const T& half, int bit) { return i & bit ? -half : half; };
  switch (shape.kind) {
    case ShapeKind::capsule:
      return fma(R.z, signed_half(shape.half.z, 4), p);
    case ShapeKind::box:
      return p + R * Vec3<T>{signed_half(shape.half.x, 1), signed_half(shape.half.y, 2),
                             signed_half(shape.half.z, 4)};
    case ShapeKind::hull:
      return p + R * vertex_of(shape, i);
    default:
      return p;
  }
}

// Returns the point of the core that is farthest in a direction d, which need not be a unit vector.
// If the core is not curved, `corner` receives its index.
template <class T>
SUPPLE_FN Vec3<T> support(const Shape<T>& shape, const Vec3<T>& d, int& corner) {
  const Rotation<T>& R = shape.at.R;
  const Vec3<T>& p = shape.at.p;
  const auto sign = [](const T& a, int bit) { return bits(a) & Number<T>::sign ? bit : 0; };
  corner = 0;
  switch (shape.kind) {
    case ShapeKind::sphere:
    case ShapeKind::half_space:
      return p;
    case ShapeKind::capsule: {
      const T along = dot(R.z, d);
      corner = sign(along, 4);
      return fma(R.z, copysign(shape.half.z, along), p);
    }
    case ShapeKind::box: {
      const Vec3<T> a = into(R, d);
      corner = sign(a.x, 1) + sign(a.y, 2) + sign(a.z, 4);
      return p + R * Vec3<T>{copysign(shape.half.x, a.x), copysign(shape.half.y, a.y),
                             copysign(shape.half.z, a.z)};
    }
    case ShapeKind::cylinder: {
      const Vec3<T> a = into(R, d);
      const T across = sqrt(a.x * a.x + a.y * a.y), size = across + abs(a.z);
      // For a direction that is parallel to the axis up to rounding, the middle of the cap.
      const T scale = across > T(1e-300) && across > T(1e-17) * size ? shape.half.x / across : T(0);
      return p + R * Vec3<T>{a.x * scale, a.y * scale, copysign(shape.half.z, a.z)};
    }
    case ShapeKind::hull:
      corner = farthest_vertex(shape, into(R, d));
      return p + R * vertex_of(shape, corner);
  }
  return p;
}
template <class T>
SUPPLE_FN Vec3<T> support(const Shape<T>& shape, const Vec3<T>& d) {
  int corner;
  return support(shape, d, corner);
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
