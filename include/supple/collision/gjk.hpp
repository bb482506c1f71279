// The distance of two convex cores by the method of Gilbert, Johnson and Keerthi (1988).
//
// The difference {a - b} of two cores is convex; the point v of this set nearest to the origin
// gives the nearest points of the cores. A simplex in it yields an upper bound of the distance,
// |v|, and the support w in the direction -v a lower bound, v·w/|v|. The method ends when both
// bounds agree up to rounding.
#pragma once

#include "supple/collision/point.hpp"
#include "supple/collision/simplex.hpp"

namespace supple::inline SUPPLE_ISA {

// Improves the nearest points of two cores by projecting each point on the other core, in turn;
// each projection brings the points closer. Without these projections, the search on curved cores
// would end at a distance that is too large by about 1e-8 times their size, because its simplices
// become thin.
template <class T>
SUPPLE_FN void polish(const Shape<T>& a, const Shape<T>& b, T close, Contact<T>& found) {
  if (a.kind == ShapeKind::hull || b.kind == ShapeKind::hull) return;
  for (int round = 0; round < 64; ++round) {
    const PointDistance<T> to_b = distance_to_core(b, found.first);
    const Vec3<T> second = fma(to_b.normal, -to_b.distance, found.first);
    const PointDistance<T> to_a = distance_to_core(a, second);
    if (!(to_a.distance < found.distance)) return;
    const bool settled = found.distance - to_a.distance <= T(0.01) * close;
    found.second = second;
    found.first = fma(to_a.normal, -to_a.distance, second);
    found.distance = to_a.distance;
    found.normal = to_a.normal * T(-1);
    const Vec3<T>& n = found.normal;
    const T lower = dot(n, support(a, n * T(-1)) - support(b, n));
    if (settled || found.distance - lower <= close) return;
  }
}

// Returns whether two cores are apart by more than rounding, with their nearest points and the
// normal. If `last` is not null, the search begins with the corners in it, if there are any, and
// stores its last corners there. The first corners affect only rounding. For cores that are farther
// apart than `enough`, the search ends early, with a lower bound of the distance that is above
// `enough`.
template <class T>
SUPPLE_FN bool nearest_of_cores(const Shape<T>& a, const Shape<T>& b, Contact<T>& found,
                                LastCorners* last = nullptr, T enough = Number<T>::huge) {
  constexpr int most_rounds = 256;  // polytopes need fewer than 30, cylinders fewer than 100
  const T size = a.bound + b.bound;
  const T close = T(32) * Number<T>::epsilon * size;
  Simplex<T> both[2];  // the best simplex so far, and the next one
  const Simplex<T>* best = both;
  const Vec3<T> start = unit_or(a.at.p - b.at.p, Vec3<T>{T(0), T(0), T(1)});
  Vec3<T> v, best_normal = start;
  if (last && last->count > 0) {
    take_corners(a, b, *last, both[0]);
    v = reduce_again(both[0]);
    last->count = 0;
  } else {
    both[0].point[0] = support_of_difference(a, b, start * T(-1));
    both[0].weight[0] = T(1);
    both[0].count = 1;
    v = both[0].point[0].w;
  }
  Simplex<T>* s = both;
  T lower = -Number<T>::huge, nearest = Number<T>::huge;
  for (int round = 0; round < most_rounds; ++round) {
    const T square = dot(v, v);
    if (square <= close * close) return false;
    // Rounding: the simplex is not better than the one before, which is kept.
    if (!(square < nearest)) break;
    nearest = square, best = s;
    const T length = sqrt(square);
    const Vec3<T> n = v * (T(1) / length);
    const DifferencePoint<T> next = support_of_difference(a, b, n * T(-1));
    const T along = dot(n, next.w);
    if (along > lower) lower = along, best_normal = n;
    if (length - lower <= close || lower > enough) break;
    bool known = false;
    for (int i = 0; i < s->count; ++i) {
      const Vec3<T> apart = s->point[i].w - next.w;
      known = known || !(dot(apart, apart) > 0);
    }
    if (known) break;
    s = both + (best == both);
    for (int i = 0; i < best->count; ++i) s->point[i] = best->point[i];
    s->point[best->count] = next;
    s->count = best->count + 1;
    v = reduce(*s);
    if (s->count == 4) return false;
  }
  points_of(*best, found.first, found.second);
  const Vec3<T> apart = found.first - found.second;
  found.distance = sqrt(dot(apart, apart));
  found.normal = unit_or(apart, best_normal);
  const bool curved = is_curved(a) || is_curved(b);
  if (last && !curved) keep_corners(*best, *last);
  if (lower > enough) {
    found.distance = lower;
  } else if (curved && found.distance - lower > close) {
    polish(a, b, close, found);
  }
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
