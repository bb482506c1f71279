// Whether a configuration collides, decided by one thread of a GPU or by a warp. The pairs and the
// formulas are those of placed.hpp; the order of the work differs.
//
// A thread keeps only the poses of bodies, and places shapes where it needs them: the threads of a
// warp, each with a configuration of its own, read the same shapes at the same time. Most
// configurations are decided in single precision: all distances differ from the clearance by more
// than rounding. The others are decided in double precision (src/supple/ik/gpu/collide.cu).
#pragma once

#include "supple/collision/placed.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

// All pairs of shapes of a moving body and another body, with bounding spheres, by which most pairs
// are excluded.
template <class T>
struct SharedGroup {
  int first, second;        // moving bodies; `second` is -1 for a shape of the world
  int runs[2], singles[2];  // ranges
  T reach;                  // [m]: sum of the radii of two bounding spheres, or of one and a core
  T allowed;                // [m]: clearance that suffices for the pairs
  ShapeKind kind;           // kind of a shape of the world; a sphere in place of a hull
  T half[3], rotation[9], position[3];
};

// Spheres [begin, end) of a moving body against another shape.
template <class T>
struct SharedRun {
  int begin, end, body;
  int other, other_body;  // `other_body` is -1 unless the shape is a sphere of a moving body
  T center[3], radius;    // [m]: of this sphere, in the frame of its body
  T bound;                // [m]: radius of the bounding sphere of `body`
};

// A sphere in the frame of its body [m].
template <class T>
struct alignas(4 * sizeof(T)) SharedSphere {
  T x, y, z, radius;
};

template <class T>
struct SharedPairs {
  int groups, moving;
  const SharedGroup<T>* group;
  const SharedRun<T>* run;
  const SharedSphere<T>* sphere;
  const SinglePair* single;
  const FixedShape<T>* shape;
};

// A model in one block of memory, which begins with this struct.
struct SharedModel {
  Chain<double> chain;
  int moving;
  const Body<double>* body;  // (moving,)
  SharedPairs<double> exact;
  SharedPairs<float> rough;
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
SUPPLE_FN void place_bodies(const SharedModel& model, const double* q, Pose<double>* joint,
                            const BodyPoses<T>& to) {
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
SUPPLE_FN Shape<T> shape_in_world(const SharedPairs<T>& pairs, const BodyPoses<T>& bodies, int i) {
  const FixedShape<T>& s = pairs.shape[i];
  return shape_at(s, s.body < pairs.moving ? pose_on(bodies.pose(s.body), s) : pose_of(s));
}

// Returns a lower bound of the distances of all pairs of a group.
template <class T>
SUPPLE_FN T lower_bound_of(const BodyPoses<T>& bodies, const SharedGroup<T>& group) {
  const Vec3<T> center = bodies.center(group.first);
  if (group.second < 0) {
    const Pose<T> at{constant_rotation<T>(group.rotation), constant_vector<T>(group.position)};
    const Shape<T> shape{group.kind, T(0), constant_vector<T>(group.half), 0, nullptr, T(0), at};
    return distance_to_core(shape, center).distance - group.reach;
  }
  const Vec3<T> apart = center - bodies.center(group.second);
  return sqrt(dot(apart, apart)) - group.reach;
}

template <class T>
SUPPLE_FN Vec3<T> center_of(const SharedSphere<T>& sphere, const Pose<T>& at) {
  return at.p + at.R * Vec3<T>{sphere.x, sphere.y, sphere.z};
}

// Returns the smallest distance of the spheres of a run from the other shape, or a lower bound of
// it if this bound is at least `near`.
template <class T>
SUPPLE_FN T least_distance(const SharedPairs<T>& pairs, const BodyPoses<T>& bodies,
                           const SharedRun<T>& run, T near) {
  const Vec3<T> around = bodies.center(run.body);
  if (run.other_body >= 0) {
    const Vec3<T> c = constant_vector<T>(run.center);
    const Vec3<T> center = center_of<T>({c.x, c.y, c.z, run.radius}, bodies.pose(run.other_body));
    const auto distance = [&](const Vec3<T>& own, T radius) {
      const Vec3<T> apart = own - center;
      return sqrt(dot(apart, apart)) - radius - run.radius;
    };
    T least = distance(around, run.bound);
    if (!(least < near)) return least;
    const Pose<T> at = bodies.pose(run.body);
    least = Number<T>::huge;
    for (int i = run.begin; i < run.end; ++i) {
      const SharedSphere<T> own = pairs.sphere[i];
      least = min(least, distance(center_of(own, at), own.radius));
    }
    return least;
  }
  const Shape<T> other = shape_in_world(pairs, bodies, run.other);
  T least = sphere_distance(other, around, run.bound);
  if (!(least < near)) return least;
  const Pose<T> at = bodies.pose(run.body);
  least = Number<T>::huge;
  for (int i = run.begin; i < run.end; ++i) {
    const SharedSphere<T> own = pairs.sphere[i];
    least = min(least, sphere_distance(other, center_of(own, at), own.radius));
  }
  return least;
}

// Whether some pair of a group is closer than `clearance`, or than its allowed clearance if that is
// smaller, decided by one thread or by several that share the pairs.
template <class T, class Threads>
SUPPLE_FN Closeness closeness_in(const SharedPairs<T>& pairs, const BodyPoses<T>& bodies,
                                 const SharedGroup<T>& group, T clearance, T rounding,
                                 const Threads& threads) {
  constexpr bool exact = sizeof(T) == sizeof(double);
  const T margin = min(clearance, group.allowed), near = margin + rounding;
  bool closer = false, unsure = false;
  const int first = threads.index(), step = threads.count();
  for (int r = group.runs[0] + first; r < group.runs[1]; r += step) {
    const T least = least_distance(pairs, bodies, pairs.run[r], near);
    closer = closer || least < margin - rounding;
    unsure = unsure || least < near;
    if (closer) break;
  }
  for (int s = group.singles[0] + first; s < group.singles[1] && !closer; s += step) {
    const Shape<T> a = shape_in_world(pairs, bodies, pairs.single[s].first),
                   b = shape_in_world(pairs, bodies, pairs.single[s].second);
    if (!(lower_bound_of(a, b) < near)) continue;
    if constexpr (exact) {
      closer = is_closer(a, b, margin);
    } else {
      unsure = true;
    }
  }
  if (threads.any(closer)) return Closeness::closer;
  return threads.any(unsure) ? Closeness::unsure : Closeness::apart;
}

// Whether some pair is closer than `clearance`, which is not negative, or than its allowed
// clearance if that is smaller. Distances may be wrong by `rounding`; if it is zero, the result is
// never `unsure`.
//
// If several threads share the work, all of them call this function with the same arguments.
// `threads.count()` is their number, at most 32, and index() that of the calling thread; any(x)
// tells whether x holds in one of the threads, and ballot(x) has a bit for each thread.
template <class T, class Threads>
SUPPLE_FN Closeness closeness(const SharedPairs<T>& pairs, const BodyPoses<T>& bodies, T clearance,
                              T rounding, const Threads& threads) {
  bool unsure = false;
  for (int first = 0; first < pairs.groups; first += threads.count()) {
    const int own = first + threads.index();
    const bool near = own < pairs.groups && lower_bound_of(bodies, pairs.group[own]) <
                                                min(clearance, pairs.group[own].allowed) + rounding;
    const unsigned close = threads.ballot(near);
    for (int k = 0; k < threads.count() && close >> k; ++k) {
      if (!(close >> k & 1)) continue;
      const Closeness found =
          closeness_in(pairs, bodies, pairs.group[first + k], clearance, rounding, threads);
      if (found == Closeness::closer) return found;
      unsure = unsure || found == Closeness::unsure;
    }
  }
  return unsure ? Closeness::unsure : Closeness::apart;
}

}  // namespace supple::inline SUPPLE_ISA
