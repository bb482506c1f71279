// A simplex of the difference of two cores, {a - b}, and its point nearest to the origin.
#pragma once

#include "supple/collision/shape.hpp"

namespace supple::inline SUPPLE_ISA {

// A point w = a - b of the difference, with the points of the two cores and their corners.
template <class T>
struct DifferencePoint {
  Vec3<T> w, a, b;
  int corner[2];
};

template <class T>
SUPPLE_FN DifferencePoint<T> support_of_difference(const Shape<T>& a, const Shape<T>& b,
                                                   const Vec3<T>& d) {
  int corner[2];
  const Vec3<T> on_a = support(a, d, corner[0]), on_b = support(b, d * T(-1), corner[1]);
  return {on_a - on_b, on_a, on_b, {corner[0], corner[1]}};
}

template <class T>
struct Simplex {
  int count = 0;
  DifferencePoint<T> point[4];
  T weight[4];
};

// The corners of the simplex that contains the nearest points of two cores. When the cores have
// moved a little, the search for the new nearest points begins there.
struct LastCorners {
  int count = 0;
  int corner[3][2];
};

template <class T>
SUPPLE_FN void keep_corners(const Simplex<T>& s, LastCorners& last) {
  last.count = s.count;
  for (int i = 0; i < s.count; ++i) {
    for (int k = 0; k < 2; ++k) last.corner[i][k] = s.point[i].corner[k];
  }
}

template <class T>
SUPPLE_FN void take_corners(const Shape<T>& a, const Shape<T>& b, const LastCorners& last,
                            Simplex<T>& s) {
  s.count = last.count;
  for (int i = 0; i < s.count; ++i) {
    const int* const corner = last.corner[i];
    const Vec3<T> on_a = corner_of(a, corner[0]), on_b = corner_of(b, corner[1]);
    s.point[i] = {on_a - on_b, on_a, on_b, {corner[0], corner[1]}};
  }
}

// A choice of corners of a simplex, with the weights of the point nearest to the origin.
template <class T>
struct NearestCorners {
  T square = Number<T>::huge;  // squared distance from the origin
  int count = 0;
  int corner[4] = {};
  T weight[4] = {};
};

template <class T>
SUPPLE_FN void consider(const Simplex<T>& s, int count, const int* corner, const T* weight,
                        NearestCorners<T>& best) {
  Vec3<T> v{T(0), T(0), T(0)};
  for (int i = 0; i < count; ++i) v = fma(s.point[corner[i]].w, weight[i], v);
  const T square = dot(v, v);
  if (!(square < best.square)) return;
  best.square = square;
  best.count = count;
  for (int i = 0; i < count; ++i) best.corner[i] = corner[i], best.weight[i] = weight[i];
}

template <class T>
SUPPLE_FN void consider_corner(const Simplex<T>& s, int i, NearestCorners<T>& best) {
  const T one(1);
  consider(s, 1, &i, &one, best);
}

// Considers a segment, if the nearest point of its line is between its ends.
template <class T>
SUPPLE_FN void consider_edge(const Simplex<T>& s, int i, int j, NearestCorners<T>& best) {
  const Vec3<T>&a = s.point[i].w, &b = s.point[j].w, d = b - a;
  const T square = dot(d, d), t = -dot(a, d);
  if (!(t > 0 && t < square)) return;
  const int corner[] = {i, j};
  const T weight[] = {(square - t) / square, t / square};
  consider(s, 2, corner, weight, best);
}

// Considers a triangle, if the nearest point of its plane is inside it.
template <class T>
SUPPLE_FN void consider_face(const Simplex<T>& s, int i, int j, int k, NearestCorners<T>& best) {
  const Vec3<T>&a = s.point[i].w, &b = s.point[j].w, &c = s.point[k].w;
  const Vec3<T> n = cross(b - a, c - a);
  const T square = dot(n, n);
  if (!(square > 0)) return;
  // Areas of the parts opposite to the corners, times 2 |n|.
  const T u = dot(cross(b, c), n), v = dot(cross(c, a), n), w = dot(cross(a, b), n);
  if (!(u > 0 && v > 0 && w > 0)) return;
  const T sum = u + v + w;
  const int corner[] = {i, j, k};
  const T weight[] = {u / sum, v / sum, w / sum};
  consider(s, 3, corner, weight, best);
}

// Whether the origin is strictly inside a tetrahedron.
template <class T>
SUPPLE_FN bool contains_origin(const Simplex<T>& s) {
  const auto volume = [](const Vec3<T>& a, const Vec3<T>& b, const Vec3<T>& c) {
    return dot(a, cross(b, c));
  };
  const Vec3<T>&a = s.point[0].w, &b = s.point[1].w, &c = s.point[2].w, &d = s.point[3].w;
  const T p = -volume(b, c, d), q = volume(a, c, d), r = -volume(a, b, d), t = volume(a, b, c);
  return (p > 0 && q > 0 && r > 0 && t > 0) || (p < 0 && q < 0 && r < 0 && t < 0);
}

// Reduces a simplex to the corners that span its point nearest to the origin, and returns this
// point. If a tetrahedron contains the origin, all four corners stay.
template <class T>
SUPPLE_FN Vec3<T> reduce(Simplex<T>& s) {
  const Vec3<T> zero{T(0), T(0), T(0)};
  if (s.count == 4 && contains_origin(s)) return zero;
  NearestCorners<T> best;
  for (int i = 0; i < s.count; ++i) {
    consider_corner(s, i, best);
    for (int j = i + 1; j < s.count; ++j) {
      consider_edge(s, i, j, best);
      for (int k = j + 1; k < s.count; ++k) consider_face(s, i, j, k, best);
    }
  }
  s.count = best.count;
  Vec3<T> v = zero;
  for (int i = 0; i < best.count; ++i) {
    const int from = best.corner[i];  // corners ascend: none is overwritten before it is read
    if (from != i) s.point[i] = s.point[from];
    s.weight[i] = best.weight[i];
    v = fma(s.point[i].w, s.weight[i], v);
  }
  return v;
}

// Reduces, as `reduce` does, a simplex all of whose corners spanned the nearest point before the
// cores moved a little. If all of them still span it, as they usually do, no other choice of
// corners is considered.
template <class T>
SUPPLE_FN Vec3<T> reduce_again(Simplex<T>& s) {
  NearestCorners<T> best;
  if (s.count == 1) consider_corner(s, 0, best);
  if (s.count == 2) consider_edge(s, 0, 1, best);
  if (s.count == 3) consider_face(s, 0, 1, 2, best);
  if (best.count != s.count) return reduce(s);
  Vec3<T> v{T(0), T(0), T(0)};
  for (int i = 0; i < s.count; ++i) {
    s.weight[i] = best.weight[i];
    v = fma(s.point[i].w, s.weight[i], v);
  }
  return v;
}

// The points of the two cores that the weights of a simplex define.
template <class T>
SUPPLE_FN void points_of(const Simplex<T>& s, Vec3<T>& a, Vec3<T>& b) {
  a = b = {T(0), T(0), T(0)};
  for (int i = 0; i < s.count; ++i) {
    a = fma(s.point[i].a, s.weight[i], a);
    b = fma(s.point[i].b, s.weight[i], b);
  }
}

}  // namespace supple::inline SUPPLE_ISA
