// The depth of penetration of two convex cores: the least extent h(n) of their difference {a - b}
// over all directions n. The shortest translation that separates the cores is along this n.
//
// For segments and boxes, the direction n is the normal of a face or the cross product of two
// edges. For other cores, a polytope inside the difference is expanded at its face nearest to the
// origin (van den Bergen 2001): the offset of this face is a lower bound of the depth, and h(n) for
// its normal an upper bound. The result is the least h(n) found, so that a translation by it always
// separates the cores.
#pragma once

#include "supple/collision/gjk.hpp"

namespace supple::inline SUPPLE_ISA {

// A direction n from the second core to the first, and the extent h(-n) of the difference: by how
// much the cores overlap along n.
template <class T>
struct Overlap {
  T depth = Number<T>::huge;
  Vec3<T> normal{T(0), T(0), T(1)};
};

template <class T>
SUPPLE_FN bool is_box_like(const Shape<T>& shape) {
  return shape.kind == ShapeKind::box || shape.kind == ShapeKind::capsule ||
         shape.kind == ShapeKind::sphere;
}

template <class T>
SUPPLE_FN Overlap<T> overlap_of_boxes(const Shape<T>& a, const Shape<T>& b) {
  const Vec3<T> apart = a.at.p - b.at.p;
  const Vec3<T>*const u = &a.at.R.x, *const v = &b.at.R.x;
  const auto extent = [](const Shape<T>& s, const Vec3<T>& n) {
    const Vec3<T> d = into(s.at.R, n);
    return s.half.x * abs(d.x) + s.half.y * abs(d.y) + s.half.z * abs(d.z);
  };
  Overlap<T> best;
  const auto consider = [&](const Vec3<T>& n) {
    const T along = dot(n, apart), depth = extent(a, n) + extent(b, n) - abs(along);
    if (depth < best.depth) best = {depth, along < 0 ? n * T(-1) : n};
  };
  for (int i = 0; i < 3; ++i) consider(u[i]), consider(v[i]);
  for (int i = 0; i < 9; ++i) {
    const Vec3<T> n = cross(u[i / 3], v[i % 3]);
    const T square = dot(n, n);
    if (square > T(1e-24)) consider(n * (T(1) / sqrt(square)));
  }
  return best;
}

// A polytope of triangles inside the difference of two cores.
template <class T>
struct ExpandingPolytope {
  static constexpr int most_points = 200, most_faces = 420, most_edges = 420;
  struct Face {
    int corner[3];
    Vec3<T> normal;
    T offset;
  };
  int points = 0, faces = 0;
  Vec3<T> point[most_points];
  Face face[most_faces];
  int edge[most_edges][2];
};

// Adds a face with an outward normal. Returns false if it has no area or there is no room.
template <class T>
SUPPLE_FN bool add_face(ExpandingPolytope<T>& P, int i, int j, int k) {
  if (P.faces == P.most_faces) return false;
  const Vec3<T> n = cross(P.point[j] - P.point[i], P.point[k] - P.point[i]);
  const T square = dot(n, n);
  if (!(square > T(1e-290))) return false;
  const Vec3<T> unit = n * (T(1) / sqrt(square));
  P.face[P.faces] = {{i, j, k}, unit, dot(unit, P.point[i])};
  P.faces += 1;
  return true;
}

// Starts with a tetrahedron. Returns false if the difference is flat: `flat` is then a unit vector
// along which it has no extent.
template <class T>
SUPPLE_FN bool start_polytope(const Shape<T>& a, const Shape<T>& b, T thin, ExpandingPolytope<T>& P,
                              Vec3<T>& flat) {
  const auto far = [&](const Vec3<T>& d) { return support_of_difference(a, b, d).w; };
  const Vec3<T> x{T(1), T(0), T(0)};
  Vec3<T> along = x, first = far(x), second = far(x * T(-1));
  for (int axis = 1; axis < 3; ++axis) {
    const Vec3<T> d{T(0), T(axis == 1), T(axis == 2)}, p = far(d), q = far(d * T(-1));
    if (dot(p - q, p - q) > dot(first - second, first - second)) first = p, second = q;
  }
  along = second - first;
  if (!(dot(along, along) > thin * thin)) return flat = x, false;
  along = unit_or(along, x);
  const Vec3<T> side = any_perpendicular(along), other = cross(along, side);
  Vec3<T> third = first;
  T most(0);
  const auto widest = [&](const Vec3<T>& d) {
    const Vec3<T> p = far(d), off = p - first, across = fma(along, -dot(along, off), off);
    if (dot(across, across) > most) most = dot(across, across), third = p;
  };
  widest(side), widest(side * T(-1)), widest(other), widest(other * T(-1));
  if (!(most > thin * thin)) return flat = side, false;
  const Vec3<T> n = unit_or(cross(second - first, third - first), x);
  Vec3<T> fourth = far(n);
  const Vec3<T> below = far(n * T(-1));
  if (abs(dot(n, below - first)) > abs(dot(n, fourth - first))) fourth = below;
  const T height = dot(n, fourth - first);
  if (!(abs(height) > thin)) return flat = n, false;
  P.points = 4;
  P.point[0] = first, P.point[1] = height < 0 ? second : third;
  P.point[2] = height < 0 ? third : second, P.point[3] = fourth;
  add_face(P, 0, 1, 2), add_face(P, 0, 3, 1), add_face(P, 1, 3, 2), add_face(P, 2, 3, 0);
  return true;
}

// Adds a new point: replaces the faces whose planes contain the point, or are below it, by faces
// through the point. Returns false if there is no room.
template <class T>
SUPPLE_FN bool expand(ExpandingPolytope<T>& P, const Vec3<T>& point, T level) {
  if (P.points == P.most_points) return false;
  const int added = P.points;
  P.point[added] = point;
  P.points += 1;
  int edges = 0, kept = 0;
  const auto toggle = [&](int i, int j) {  // an edge between two removed faces disappears
    for (int e = 0; e < edges; ++e) {
      if (P.edge[e][0] == j && P.edge[e][1] == i) {
        edges -= 1;
        P.edge[e][0] = P.edge[edges][0], P.edge[e][1] = P.edge[edges][1];
        return true;
      }
    }
    if (edges == P.most_edges) return false;
    P.edge[edges][0] = i, P.edge[edges][1] = j;
    edges += 1;
    return true;
  };
  bool room = true;
  for (int f = 0; f < P.faces; ++f) {
    const auto& face = P.face[f];
    if (dot(face.normal, point) - face.offset > -level) {
      for (int c = 0; c < 3; ++c) room = room && toggle(face.corner[c], face.corner[(c + 1) % 3]);
    } else {
      P.face[kept] = face;
      kept += 1;
    }
  }
  P.faces = kept;
  for (int e = 0; e < edges && room; ++e) room = add_face(P, P.edge[e][0], P.edge[e][1], added);
  return room && P.faces > 0;
}

template <class T>
SUPPLE_FN Overlap<T> overlap_by_expansion(const Shape<T>& a, const Shape<T>& b) {
  const T size = a.bound + b.bound, level = T(64) * Number<T>::epsilon * size;
  ExpandingPolytope<T> P;
  Overlap<T> best;
  const auto consider = [&](const Vec3<T>& d) {
    const Vec3<T> w = support_of_difference(a, b, d).w;
    const T depth = dot(d, w);
    if (depth < best.depth) best = {depth, d * T(-1)};
    return w;
  };
  // The axes of the shapes: the normal is often one of them, which then has no rounding errors.
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> u = (&a.at.R.x)[i], v = (&b.at.R.x)[i];
    consider(u), consider(u * T(-1)), consider(v), consider(v * T(-1));
  }
  Vec3<T> flat;
  if (!start_polytope(a, b, T(1e-13) * size, P, flat)) {
    consider(flat), consider(flat * T(-1));
    return best;
  }
  for (bool room = true; room;) {
    int lowest = 0;
    for (int f = 1; f < P.faces; ++f) {
      if (P.face[f].offset < P.face[lowest].offset) lowest = f;
    }
    const Vec3<T> n = P.face[lowest].normal;
    const T offset = P.face[lowest].offset;
    const Vec3<T> w = consider(n);
    if (best.depth - offset <= level || dot(n, w) - offset <= level) break;
    room = expand(P, w, level);
  }
  return best;
}

// Returns the contact of two cores that overlap, or touch up to rounding.
template <class T>
SUPPLE_FN Contact<T> deepest_of_cores(const Shape<T>& a, const Shape<T>& b) {
  const Overlap<T> best =
      is_box_like(a) && is_box_like(b) ? overlap_of_boxes(a, b) : overlap_by_expansion(a, b);
  // After the cores are moved apart along the normal, their nearest points are those of the
  // penetration.
  const T size = a.bound + b.bound, away = best.depth + size;
  Shape<T> moved = a;
  moved.at.p = fma(best.normal, away, a.at.p);
  Contact<T> found;
  if (!nearest_of_cores(moved, b, found)) found.first = moved.at.p, found.second = b.at.p;
  found.distance = -best.depth;
  found.normal = best.normal;
  // Halfway between both estimates, which agree unless the normal is rounded.
  const Vec3<T> first = fma(best.normal, -away, found.first);
  const Vec3<T> from_second = fma(best.normal, -best.depth, found.second);
  found.first = (first + from_second) * T(0.5);
  found.second = fma(best.normal, best.depth, found.first);
  return found;
}

}  // namespace supple::inline SUPPLE_ISA
