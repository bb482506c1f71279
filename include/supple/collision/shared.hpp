// Whether a configuration collides, decided by one thread of a GPU. The pairs and the formulas are
// those of placed.hpp; the order of the work differs.
//
// A thread keeps only the poses of bodies, and places shapes where it needs them: the threads of a
// warp, each with a configuration of its own, read the same shapes at the same time. Most
// configurations are decided in single precision: all distances differ from the clearance by more
// than rounding. The others are decided in double precision (src/supple/ik/gpu/collide.cu).
#pragma once

#include "supple/collision/placed.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

// A model in one block of memory, which begins with this struct. The chain is only in `exact`.
struct SharedModel {
  CollisionModel<double> exact;
  CollisionModel<float> rough;
  float rounding;  // [m]: bound of the rounding errors of distances in single precision
};

// Whether some pair is closer than a clearance.
enum class Closeness : int { apart, unsure, closer };

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The poses of the moving bodies and the centers of their bounding spheres in the world: number k
// of body b is at[(body_numbers * b + k) * stride].
template <class T>
struct BodyPoses {
  static constexpr int body_numbers = 15;

  T* at;
  int stride;

  SUPPLE_INLINE T& number(int body, int k) const { return at[(body_numbers * body + k) * stride]; }
  SUPPLE_INLINE Vec3<T> vector(int body, int k) const {
    return {number(body, k), number(body, k + 1), number(body, k + 2)};
  }
  SUPPLE_INLINE void store(int body, int k, const Vec3<double>& v) const {
    number(body, k) = T(v.x), number(body, k + 1) = T(v.y), number(body, k + 2) = T(v.z);
  }
  SUPPLE_INLINE Pose<T> pose(int body) const {
    return {{vector(body, 0), vector(body, 3), vector(body, 6)}, vector(body, 9)};
  }
  SUPPLE_INLINE Vec3<T> center(int body) const { return vector(body, 12); }
};

// Moves the bodies to a configuration q. `joint` is memory for the poses of all joints.
template <class T>
SUPPLE_FN void place_bodies(const CollisionModel<double>& model, const double* q,
                            Pose<double>* joint, const BodyPoses<T>& to) {
  forward(model.chain, q, joint);
  for (int b = 0; b < model.moving; ++b) {
    const Body<double>& body = model.body[b];
    const Pose<double> at = frame_pose(model.chain.frame[body.frame], joint);
    to.store(b, 0, at.R.x);
    to.store(b, 3, at.R.y);
    to.store(b, 6, at.R.z);
    to.store(b, 9, at.p);
    to.store(b, 12, at.p + at.R * constant_vector<double>(body.center));
  }
}

// Returns shape i in the world.
template <class T>
SUPPLE_FN Shape<T> shape_in_world(const CollisionModel<T>& model, const BodyPoses<T>& bodies,
                                  int i) {
  const FixedShape<T>& s = model.shape[i];
  if (s.body >= model.moving) return shape_at(s, pose_of(s));
  const Pose<T> at = bodies.pose(s.body);
  // The axes of a sphere have no meaning.
  if (s.kind == ShapeKind::sphere) {
    return shape_at(s, {at.R, at.p + at.R * constant_vector<T>(s.position)});
  }
  return shape_at(s, pose_on(at, s));
}

// Returns a lower bound of the distances of all pairs of a group.
template <class T>
SUPPLE_FN T lower_bound_of(const CollisionModel<T>& model, const BodyPoses<T>& bodies,
                           const PairGroup& group) {
  const int a = group.first, b = group.second;
  if (b >= model.moving) {
    const FixedShape<T>& s = model.shape[model.order[model.body[b].shapes[0]]];
    return lower_bound_of(shape_at(s, pose_of(s)), bodies.center(a)) - model.body[a].bound;
  }
  const Vec3<T> apart = bodies.center(a) - bodies.center(b);
  return sqrt(dot(apart, apart)) - model.body[a].bound - model.body[b].bound;
}

// Returns the smallest distance of the spheres of a run from the other shape; a lower bound of it
// if that is not less than `near`.
template <class T>
SUPPLE_FN T least_distance(const CollisionModel<T>& model, const BodyPoses<T>& bodies,
                           const SphereRun& run, T near) {
  const Shape<T> other = shape_in_world(model, bodies, run.other);
  const int body = model.shape[model.shape_of[run.begin]].body;
  T least = lower_bound_of(other, bodies.center(body)) - model.body[body].bound;
  if (!(least < near)) return least;
  const Pose<T> at = bodies.pose(body);
  least = Number<T>::huge;
  for (int i = run.begin; i < run.end; ++i) {
    const T* const s = model.sphere + i;
    const int stride = model.sphere_stride;
    const Vec3<T> center = at.p + at.R * Vec3<T>{s[0], s[stride], s[2 * stride]};
    least = min(least, sphere_distance(other, center, s[3 * stride]));
  }
  return least;
}

// Whether some pair is closer than `clearance`, which is not negative, if distances may be wrong by
// `rounding`. Without rounding, no configuration is unsure.
template <class T>
SUPPLE_FN Closeness closeness(const CollisionModel<T>& model, const BodyPoses<T>& bodies,
                              T clearance, T rounding) {
  constexpr bool exact = sizeof(T) == sizeof(double);
  const T near = clearance + rounding;
  bool unsure = false;
  for (int g = 0; g < model.groups; ++g) {
    const PairGroup& group = model.group[g];
    if (!(lower_bound_of(model, bodies, group) < near)) continue;
    for (int r = group.runs[0]; r < group.runs[1]; ++r) {
      const T least = least_distance(model, bodies, model.run[r], near);
      if (least < clearance - rounding) return Closeness::closer;
      unsure = unsure || least < near;
    }
    for (int s = group.singles[0]; s < group.singles[1]; ++s) {
      const Shape<T> a = shape_in_world(model, bodies, model.single[s].first),
                     b = shape_in_world(model, bodies, model.single[s].second);
      if (!(lower_bound_of(a, b) < near)) continue;
      if constexpr (exact) {
        if (is_closer(a, b, clearance)) return Closeness::closer;
      } else {
        unsure = true;
      }
    }
  }
  return unsure ? Closeness::unsure : Closeness::apart;
}

}  // namespace supple::inline SUPPLE_ISA
