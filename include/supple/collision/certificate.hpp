// A lower bound of the distance of a pair during a whole motion of the joints.
//
// The signed distance of two convex shapes A and B is the largest gap between them along a unit
// vector n, over all n. Fix n in the frame of B. Along a straight motion q + s Δ, 0 <= s <= 1, a
// point x of A moves relative to B as
//
//   x(s) = x + s J Δ + R,   |R| <= s² κ/2,   κ = Σ_l |Δ_l| ρ_l (|Δ_l| + 2 Σ_{m<l} |Δ_m|),
//
// because ∂²x/∂q_m∂q_l = z_m × (z_l × (x - p_l)) for a joint m that is not farther from B than l.
// The length of this derivative is at most the distance ρ_l of x from the axis of l, and ρ_l grows
// along the motion by no more than the joints beyond l move x. The gap along n is therefore at
// least
//
//   min over x in A of n·(x + s J Δ)  -  max over B of n·y  -  s² κ/2,
//
// which is concave in s: over the whole motion it is smallest at one of the two ends. The sums run
// only over the joints between A and B. docs/collision.md explains the derivation.
//
// A ball joint with the displacement Δ (3,) turns about one axis. The second derivative of a point
// at r from the center of the joint has the length ‖Δ × (Δ × r)‖ <= (Σ_l |Δ_l|)² ‖r‖. Therefore the
// formula holds for the three axes of the joint if ρ is the distance from this center.
#pragma once

#include "supple/collision/placed.hpp"

namespace supple::inline SUPPLE_ISA {

// A pair of shapes that a motion may bring together.
template <class T>
struct NearPair {
  int pair, group;
  int a, b;        // shapes: a moves relative to b; the normal is fixed in the frame of b
  bool backward;   // whether the joints between them are stored from a to b
  Vec3<T> normal;  // direction from b to a
  Vec3<T> point;   // point of a nearest to b
  T ease;          // [m]: added to the distance before comparing it with a clearance
  T distance;      // [m]: distance of the pair plus `ease`
  T speed;         // [m/s]: bound of the speed of an obstacle
  T least;         // [m]: the distance that must be kept
};

// A motion of the joints of a chain: straight, or within `off` of a straight one.
template <class T>
struct JointMotion {
  const T* along;  // (joints,): displacements [rad or m]
  const T* off;    // (joints,): largest deviations from the straight motion; null if it is straight
};

// Calls visit(joint, sign) for the joints between the two shapes, those nearest to `a` first.
template <class T, class Visit>
SUPPLE_INLINE void joints_from_a(const CollisionModel<T>& model, const NearPair<T>& near,
                                 Visit&& visit) {
  const PairGroup& group = model.group[near.group];
  const int first = group.joints[0], count = group.joints[1] - first;
  for (int k = 0; k < count; ++k) {
    const JointBetween& at = model.between[near.backward ? first + k : first + count - 1 - k];
    visit(at.joint, T(near.backward ? -at.sign : at.sign));
  }
}

// Returns how far the lowest point of a core along n moves if n is tilted by a milliradian: zero if
// a corner is lowest, and the length of the face or edge if one of these is lowest.
template <class T>
SUPPLE_FN T flatness(const Shape<T>& shape, const Vec3<T>& n) {
  if (shape.kind == ShapeKind::sphere) return T(0);
  const Vec3<T> side = any_perpendicular(n), sides[] = {side, cross(n, side)};
  const Vec3<T> low = support(shape, n * T(-1));
  T most(0);
  for (int k = 0; k < 4; ++k) {
    const Vec3<T> tilted = fma(sides[k / 2], T(k % 2 ? -1e-3 : 1e-3), n);
    const Vec3<T> off = support(shape, tilted * T(-1)) - low;
    most = max(most, dot(off, off));
  }
  return sqrt(most);
}

// Whether the bound regards the second shape of a pair as the moving one, for the normal from the
// second to the first. If one shape has a face or edge at its nearest point, the other shape counts
// as moving: the normal, fixed in the frame of the face, stays normal to the face, and no part of
// the face comes closer if the shapes turn. Otherwise the smaller shape counts as moving.
template <class T>
SUPPLE_FN bool second_moves(const Shape<T>& first, const Shape<T>& second, const Vec3<T>& n) {
  const bool smaller = second.bound - second.radius < first.bound - first.radius;
  if (first.kind == ShapeKind::half_space || second.kind == ShapeKind::half_space) return smaller;
  const T of_first = flatness(first, n), of_second = flatness(second, n * T(-1));
  const T same = T(1e-2) * (of_first + of_second);
  return abs(of_first - of_second) <= same ? smaller : of_second < of_first;
}

// Sets the roles of the two shapes of a pair.
template <class T>
SUPPLE_FN NearPair<T> near_pair(const CollisionModel<T>& model, const Placed<T>& placed, int pair,
                                const Contact<T>& contact, const T& ease) {
  const int first = model.pair[2 * pair], second = model.pair[2 * pair + 1];
  const Shape<T>&u = placed.shape[first], &v = placed.shape[second];
  const bool swapped = second_moves(u, v, contact.normal);
  NearPair<T> made;
  made.pair = pair;
  made.group = model.pair_group[pair];
  made.a = swapped ? second : first;
  made.b = swapped ? first : second;
  made.backward = model.shape[made.a].body != model.group[made.group].first;
  made.normal = swapped ? contact.normal * T(-1) : contact.normal;
  made.point = swapped ? contact.second : contact.first;
  made.ease = ease;
  made.distance = contact.distance + ease;
  made.speed = max(model.shape[first].speed, model.shape[second].speed);
  made.least = made.distance;
  return made;
}

// Returns how far a body may move, at most, for displacements of the joints of at most `reach`.
template <class T>
SUPPLE_FN T motion_bound(const CollisionModel<T>& model, const Placed<T>& placed, int b,
                         const T* reach) {
  const Body<T>& body = model.body[b];
  const Frame<T>& frame = model.chain.frame[body.frame];
  const Vec3<T> center{placed.cx[b], placed.cy[b], placed.cz[b]};
  T moved(0);
  for (int s = frame.support_end - 1; s >= frame.support_begin; --s) {
    const int j = model.chain.support[s].joint;
    const Pose<T>& at = placed.joint[j];
    T lever(1);
    if (model.chain.joint[j].motion != Motion::prismatic) {
      const Vec3<T> arm = cross(at.R.z, center - at.p);
      lever = sqrt(dot(arm, arm)) + body.bound + moved;
    }
    moved = fma(reach[j], lever, moved);
  }
  return moved;
}

// Returns the gap of a pair along its normal, plus `ease`.
template <class T>
SUPPLE_INLINE T gap_of(const Placed<T>& placed, const NearPair<T>& near) {
  const Shape<T>&a = placed.shape[near.a], &b = placed.shape[near.b];
  const Vec3<T>& n = near.normal;
  return dot(n, support(a, n * T(-1)) - support(b, n)) - a.radius - b.radius + near.ease;
}

// Lower bounds of the gap of a pair, plus `ease`, at the start and at the end of a motion. The
// smaller bound holds during the whole motion.
template <class T>
struct GapBounds {
  T start, end;
};

template <class T>
SUPPLE_FN GapBounds<T> gap_bounds(const CollisionModel<T>& model, const Placed<T>& placed,
                                  const NearPair<T>& near, const JointMotion<T>& motion) {
  const Shape<T>&a = placed.shape[near.a], &b = placed.shape[near.b];
  const Vec3<T>&n = near.normal, &c = a.at.p;
  const T around = a.bound - a.radius;
  Vec3<T> v{T(0), T(0), T(0)}, w = v;
  T moved(0), bend(0), aside(0), reach(0);  // bend: κ
  joints_from_a(model, near, [&](int j, const T& sign) {
    const T along = sign * motion.along[j], off = motion.off ? motion.off[j] : T(0);
    const T size = abs(along) + off;
    if (!(size > 0)) return;
    const Pose<T>& at = placed.joint[j];
    if (model.chain.joint[j].motion == Motion::prismatic) {
      v = fma(at.R.z, along, v);
      aside = fma(abs(dot(n, at.R.z)), off, aside);
      moved += size;
      return;
    }
    const Vec3<T> arm = cross(at.R.z, c - at.p);
    const Motion kind = model.chain.joint[j].motion;
    const Vec3<T> lengthwise = kind == Motion::ball || kind == Motion::ball_axis ? c - at.p : arm;
    const T length = sqrt(dot(lengthwise, lengthwise)) + around;
    v = fma(arm, along, v);
    w = fma(at.R.z, along, w);
    aside = fma(abs(dot(n, arm)) + around, off, aside);
    const T lever = length + moved;
    bend += size * (size * lever + moved + moved);
    moved = fma(size, lever, moved);
    reach = max(reach, lever);
  });
  // n·(w × r) = r·(n × w)
  const Vec3<T> tilted = n + cross(n, w);
  const T top = dot(n, support(b, n) - c) + a.radius + b.radius - near.ease;
  const T start = dot(n, support(a, n * T(-1)) - c) - top;
  const T end = dot(n, v) + dot(tilted, support(a, tilted * T(-1)) - c) - top;
  const T rounding = T(64) * Number<T>::epsilon * (reach + around + abs(top));
  const T lost = fma(T(0.5), bend, rounding) + aside;
  return {start - (motion.off ? lost : rounding), end - lost};
}

// Writes the gradient (n,) of the distance of a pair, as a row of constraints on the joint speeds.
template <class T>
SUPPLE_FN void distance_gradient(const CollisionModel<T>& model, const Placed<T>& placed,
                                 const NearPair<T>& near, T* row) {
  for (int i = 0; i < model.chain.nv; ++i) row[i] = T(0);
  joints_from_a(model, near, [&](int j, const T& sign) {
    const Joint<T>& joint = model.chain.joint[j];
    const Twist<T> twist = partial_velocity(joint, placed.joint[j], near.point);
    row[joint.v_index] += sign * joint.scale * dot(near.normal, twist.v);
  });
}

// Finds the pairs that may come closer than `margin` if the joints move by at most `reach`
// (joints,) and obstacles move at their speeds for `time`. Pairs that are close by construction
// count as farther apart than they are (`eased_by` for `clearance`). Returns their number; at most
// `most` are written. `bound` (moving,) is scratch memory.
template <class L, class T>
SUPPLE_FN int near_pairs(const CollisionModel<T>& model, Placed<T>& placed, const T* reach,
                         const T& margin, const T& clearance, const T& time, T* bound, int most,
                         NearPair<T>* near) {
  bound_distances<L>(model, placed);
  for (int b = 0; b < model.moving; ++b) bound[b] = motion_bound(model, placed, b, reach);
  int count = 0;
  for (int g = 0; g < model.groups; ++g) {
    const PairGroup& group = model.group[g];
    const bool world = group.second >= model.moving;
    const Body<T>& second = model.body[group.second];
    const T speed = world ? model.shape[model.order[second.shapes[0]]].speed : T(0);
    const T ease = eased_by(model, g, clearance);
    const T within =
        margin + bound[group.first] + (world ? T(0) : bound[group.second]) + speed * time - ease;
    if (!(lower_bound_of(model, placed, group) < within)) continue;
    visit_group<L>(model, placed, group, within, [&](int pair, const Contact<T>& contact) {
      if (!(contact.distance < within)) return;
      if (count < most) near[count] = near_pair(model, placed, pair, contact, ease);
      count += 1;
    });
  }
  return count;
}

// Returns the sum of (distance - d)²/2 over all pairs with d < distance, at the configuration of
// `placed`, where d is the distance of the pair plus `eased_by` for `distance`. Writes the gradient
// (n,) of this sum. `near` (pairs,), `still` (joints,), `bound` (moving,) and `row` (n,) are
// scratch memory.
template <class L, class T>
SUPPLE_FN T clearance_cost(const CollisionModel<T>& model, Placed<T>& placed, const T& distance,
                           NearPair<T>* near, T* still, T* bound, T* row, T* gradient) {
  for (int j = 0; j < model.chain.joints; ++j) still[j] = T(0);
  for (int i = 0; i < model.chain.nv; ++i) gradient[i] = T(0);
  const int count =
      near_pairs<L>(model, placed, still, distance, distance, T(0), bound, model.pairs, near);
  T cost(0);
  for (int k = 0; k < count; ++k) {
    const T short_by = max(distance - near[k].distance, T(0));
    distance_gradient(model, placed, near[k], row);
    for (int i = 0; i < model.chain.nv; ++i) gradient[i] = fma(-short_by, row[i], gradient[i]);
    cost = fma(T(0.5) * short_by, short_by, cost);
  }
  return cost;
}

}  // namespace supple::inline SUPPLE_ISA
