// Whether configurations collide, decided by several threads of a GPU together. The pairs and the
// decisions are those of placed.hpp; only the order of the work differs.
//
// Each thread places the bodies of its own configuration; then all threads share the pairs of one
// configuration after the other. Shapes are placed where they are needed: on a GPU, that takes less
// time than to store them.
#pragma once

#include "supple/collision/placed.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

// A pair of a sphere of a moving body and another shape that is not a hull. `other_sphere` is the
// index of the other shape among the spheres of moving bodies, or -1.
struct SpherePair {
  int sphere, body, other, other_body, other_sphere;
};

// A model in one block of memory, at the beginning of which this struct is.
struct SharedModel {
  CollisionModel<double> model;
  const SpherePair* pair;  // pairs of the runs of all groups, in the order of `model.result`
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The poses of the moving bodies and the centers of their bounding spheres, at one configuration:
// number k of body b is at[(body_numbers * b + k) * stride].
struct BodyPoses {
  static constexpr int body_numbers = 15;

  double* at;
  int stride;

  SUPPLE_INLINE double& number(int body, int k) const {
    return at[(body_numbers * body + k) * stride];
  }
  SUPPLE_INLINE Vec3<double> vector(int body, int k) const {
    return {number(body, k), number(body, k + 1), number(body, k + 2)};
  }
  SUPPLE_INLINE void store(int body, int k, const Vec3<double>& v) const {
    number(body, k) = v.x, number(body, k + 1) = v.y, number(body, k + 2) = v.z;
  }
  SUPPLE_INLINE Pose<double> pose(int body) const {
    return {{vector(body, 0), vector(body, 3), vector(body, 6)}, vector(body, 9)};
  }
  SUPPLE_INLINE Vec3<double> center(int body) const { return vector(body, 12); }
};

// Moves the bodies to a configuration q. `joint` is memory for the poses of all joints.
SUPPLE_FN void place_bodies(const CollisionModel<double>& model, const double* q,
                            Pose<double>* joint, const BodyPoses& to) {
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
SUPPLE_FN Shape<double> shape_in_world(const CollisionModel<double>& model, const BodyPoses& bodies,
                                       int i) {
  const FixedShape<double>& s = model.shape[i];
  return shape_at(s, s.body < model.moving ? pose_on(bodies.pose(s.body), s) : pose_of(s));
}

// Returns a lower bound of the distances of all pairs of a group.
SUPPLE_FN double lower_bound_of(const CollisionModel<double>& model, const BodyPoses& bodies,
                                const PairGroup& group) {
  const int a = group.first, b = group.second;
  const Vec3<double> center = bodies.center(a);
  if (b >= model.moving) {
    const FixedShape<double>& s = model.shape[model.order[model.body[b].shapes[0]]];
    return lower_bound_of(shape_at(s, pose_of(s)), center) - model.body[a].bound;
  }
  const Vec3<double> apart = center - bodies.center(b);
  return sqrt(dot(apart, apart)) - model.body[a].bound - model.body[b].bound;
}

// Returns the distance of a sphere from the other shape of its pair.
SUPPLE_FN double pair_distance(const CollisionModel<double>& model, const BodyPoses& bodies,
                               const SpherePair& pair) {
  const auto center = [&](int body, int sphere) {
    const double* const c = model.sphere + sphere;
    const int stride = model.sphere_stride;
    const Pose<double> at = bodies.pose(body);
    return at.p + at.R * Vec3<double>{c[0], c[stride], c[2 * stride]};
  };
  const double* const radius = model.sphere + 3 * model.sphere_stride;
  const Vec3<double> own = center(pair.body, pair.sphere);
  if (pair.other_sphere < 0) {
    return sphere_distance(shape_in_world(model, bodies, pair.other), own, radius[pair.sphere]);
  }
  const Vec3<double> apart = own - center(pair.other_body, pair.other_sphere);
  return sqrt(dot(apart, apart)) - radius[pair.sphere] - radius[pair.other_sphere];
}

// Whether a pair of a group is closer than `clearance`, which is not negative.
template <class Threads>
SUPPLE_FN bool group_collides(const SharedModel& shared, const BodyPoses& bodies,
                              const PairGroup& group, double clearance, const Threads& threads) {
  const CollisionModel<double>& model = shared.model;
  if (group.runs[0] < group.runs[1]) {
    const SphereRun& last = model.run[group.runs[1] - 1];
    const int end = last.result + last.end - last.begin;
    for (int i = model.run[group.runs[0]].result; i < end; i += threads.count()) {
      const int own = i + threads.index();
      const bool hit = own < end && pair_distance(model, bodies, shared.pair[own]) < clearance;
      if (threads.any(hit)) return true;
    }
  }
  for (int i = group.singles[0]; i < group.singles[1]; i += threads.count()) {
    const int own = i + threads.index();
    bool hit = false;
    if (own < group.singles[1]) {
      const Shape<double> a = shape_in_world(model, bodies, model.single[own].first),
                          b = shape_in_world(model, bodies, model.single[own].second);
      hit = lower_bound_of(a, b) < clearance && is_closer(a, b, clearance);
    }
    if (threads.any(hit)) return true;
  }
  return false;
}

// Whether some pair is closer than `clearance`, which is not negative. All threads call it with the
// same arguments. They have an index() below count(), which is at most 32; any(x) tells whether x
// holds in one of them, and ballot(x) returns one bit for each.
template <class Threads>
SUPPLE_FN bool collides(const SharedModel& shared, const BodyPoses& bodies, double clearance,
                        const Threads& threads) {
  const CollisionModel<double>& model = shared.model;
  for (int first = 0; first < model.groups; first += threads.count()) {
    const int own = first + threads.index();
    const bool near =
        own < model.groups && lower_bound_of(model, bodies, model.group[own]) < clearance;
    const unsigned close = threads.ballot(near);
    for (int k = 0; k < threads.count(); ++k) {
      if (!(close >> k & 1)) continue;
      if (group_collides(shared, bodies, model.group[first + k], clearance, threads)) return true;
    }
  }
  return false;
}

}  // namespace supple::inline SUPPLE_ISA
