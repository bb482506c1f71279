// Whether a configuration collides, decided by one thread of a GPU. The pairs and the formulas are
// those of placed.hpp; the order of the work differs.
//
// A thread keeps only the poses of bodies, and places shapes where it needs them: the threads of a
// warp, each with a configuration of its own, read the same shapes at the same time. Most
// configurations are decided in single precision: all distances differ from the clearance by more
// than rounding. The others are decided in double precision.
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

// A moving body: its pose and the center of its bounding sphere in the world.
template <class T>
struct PlacedBody {
  Pose<T> pose;
  Vec3<T> center;
};

template <class T, class F>
SUPPLE_INLINE Vec3<T> converted(const Vec3<F>& a) {
  return {T(a.x), T(a.y), T(a.z)};
}

// Moves the bodies to a configuration q. `joint` is memory for the poses of all joints.
SUPPLE_FN void place_bodies(const CollisionModel<double>& model, const double* q,
                            Pose<double>* joint, PlacedBody<double>* to) {
  forward(model.chain, q, joint);
  for (int b = 0; b < model.moving; ++b) {
    const Body<double>& body = model.body[b];
    const Pose<double> at = frame_pose(model.chain.frame[body.frame], joint);
    to[b] = {at, at.p + at.R * constant_vector<double>(body.center)};
  }
}

// Rounds the poses of bodies to single precision.
SUPPLE_FN void round_bodies(int count, const PlacedBody<double>* from, PlacedBody<float>* to) {
  for (int b = 0; b < count; ++b) {
    const Pose<double>& at = from[b].pose;
    to[b] = {{{converted<float>(at.R.x), converted<float>(at.R.y), converted<float>(at.R.z)},
              converted<float>(at.p)},
             converted<float>(from[b].center)};
  }
}

// Returns shape i in the world.
template <class T>
SUPPLE_FN Shape<T> shape_in_world(const CollisionModel<T>& model, const PlacedBody<T>* bodies,
                                  int i) {
  const FixedShape<T>& s = model.shape[i];
  if (s.body >= model.moving) return shape_at(s, pose_of(s));
  const Pose<T>& at = bodies[s.body].pose;
  // The axes of a sphere have no meaning.
  if (s.kind == ShapeKind::sphere) {
    return shape_at(s, {at.R, at.p + at.R * constant_vector<T>(s.position)});
  }
  return shape_at(s, pose_on(at, s));
}

// Returns a lower bound of the distances of all pairs of a group.
template <class T>
SUPPLE_FN T lower_bound_of(const CollisionModel<T>& model, const PlacedBody<T>* bodies,
                           const PairGroup& group) {
  const int a = group.first, b = group.second;
  if (b >= model.moving) {
    const FixedShape<T>& s = model.shape[model.order[model.body[b].shapes[0]]];
    return lower_bound_of(shape_at(s, pose_of(s)), bodies[a].center) - model.body[a].bound;
  }
  const Vec3<T> apart = bodies[a].center - bodies[b].center;
  return sqrt(dot(apart, apart)) - model.body[a].bound - model.body[b].bound;
}

// Returns the smallest distance of the spheres of a run from the other shape.
template <class T>
SUPPLE_FN T least_distance(const CollisionModel<T>& model, const PlacedBody<T>* bodies,
                           const SphereRun& run) {
  const Shape<T> other = shape_in_world(model, bodies, run.other);
  const Pose<T> at = bodies[model.shape[model.shape_of[run.begin]].body].pose;
  T least = Number<T>::huge;
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
SUPPLE_FN Closeness closeness(const CollisionModel<T>& model, const PlacedBody<T>* bodies,
                              T clearance, T rounding) {
  constexpr bool exact = sizeof(T) == sizeof(double);
  const T near = clearance + rounding;
  bool unsure = false;
  for (int g = 0; g < model.groups; ++g) {
    const PairGroup& group = model.group[g];
    if (!(lower_bound_of(model, bodies, group) < near)) continue;
    for (int r = group.runs[0]; r < group.runs[1]; ++r) {
      const T least = least_distance(model, bodies, model.run[r]);
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

// Whether some pair is closer than `clearance`, which is not negative, at the poses of bodies.
// `rough` is memory for these poses in single precision.
SUPPLE_FN bool collides(const SharedModel& model, const PlacedBody<double>* bodies,
                        PlacedBody<float>* rough, double clearance) {
  round_bodies(model.exact.moving, bodies, rough);
  Closeness found = closeness(model.rough, rough, float(clearance), model.rounding);
  if (found == Closeness::unsure) found = closeness(model.exact, bodies, clearance, 0.0);
  return found == Closeness::closer;
}

}  // namespace supple::inline SUPPLE_ISA
