// Forward kinematics, the partial-velocity matrix (Jacobian) and J̇q̇ of a chain.
//
// All vectors are in world axes. A twist is [v; w], v the velocity of the frame's origin; a Jacobian
// column j is the twist per unit of speed of coordinate j (Wampler 1986, eq. 6, Theorems 1 and 2).
#pragma once

#include "elementary.hpp"
#include "robot.hpp"
#include "se3.hpp"

namespace supple::inline SUPPLE_ISA {

// v + R_k c for the three entries of a constant vector. Zeros are common in robots and cost nothing:
// the test is the same for all lanes, and known when compiling where the constants are.
template <class L, class T>
SUPPLE_INLINE Vec3<L> moved(const Pose<L>& from, const T* c) {
  Vec3<L> p = from.p;
  if (c[0] != 0) p = fma(from.R.x, L(c[0]), p);
  if (c[1] != 0) p = fma(from.R.y, L(c[1]), p);
  if (c[2] != 0) p = fma(from.R.z, L(c[2]), p);
  return p;
}

template <class L, class T>
SUPPLE_INLINE Vec3<L> constant_vector(const T* c) {
  return {L(c[0]), L(c[1]), L(c[2])};
}

template <class L, class T>
SUPPLE_INLINE Rotation<L> constant_rotation(const T* c) {
  return {constant_vector<L>(c), constant_vector<L>(c + 3), constant_vector<L>(c + 6)};
}

// R times a constant rotation given by its columns.
template <class L, class T>
SUPPLE_INLINE Rotation<L> turned(const Rotation<L>& R, const T* c) {
  return {R * constant_vector<L>(c), R * constant_vector<L>(c + 3), R * constant_vector<L>(c + 6)};
}

// The displacement of a joint: an angle [rad] or a length [m].
template <class L, class T>
SUPPLE_INLINE L displacement(const Joint<T>& joint, const L* q) {
  const L x = q[joint.coordinate];
  if (joint.scale == T(1) && joint.offset == T(0)) return x;
  return fma(x, L(joint.scale), L(joint.offset));
}

// The pose of the joint's frame before it moves.
template <class L, class T>
SUPPLE_INLINE Pose<L> placed(const Joint<T>& joint, const Pose<L>* joint_poses) {
  const T* c = joint.rotation;
  if (joint.placement == Placement::root) {
    return {constant_rotation<L>(c), constant_vector<L>(joint.position)};
  }
  const Pose<L>& parent = joint_poses[joint.parent];
  const Vec3<L> p = moved(parent, joint.position);
  if (joint.placement == Placement::general) return {turned(parent.R, c), p};
  const Vec3<L>&y = parent.R.y, &z = parent.R.z;
  if (c[0] == T(0)) {  // a right-angle twist, the commonest
    const L s(c[1]);
    return {{parent.R.x, z * s, y * -s}, p};
  }
  return {{parent.R.x, fma(z, L(c[1]), y * L(c[0])), fma(z, L(c[0]), y * L(-c[1]))}, p};
}

// Forward kinematics: joint_poses[j] is the pose in the world of joint j's frame, after its motion.
// Its R.z is the joint's axis and, for a revolute joint, its p a point on it.
template <class L, class T>
SUPPLE_INLINE void forward(const Chain<T>& chain, const L* q, Pose<L>* joint_poses) {
  for (int j = 0; j < chain.joints; ++j) {
    const Joint<T>& joint = chain.joint[j];
    const Pose<L> at = placed(joint, joint_poses);
    const L d = displacement(joint, q);
    if (joint.motion == Motion::prismatic) {
      joint_poses[j] = {at.R, fma(at.R.z, d, at.p)};
      continue;
    }
    L s, c;
    sincos(d, s, c);
    joint_poses[j] = {{fma(at.R.x, c, at.R.y * s), fma(at.R.y, c, at.R.x * -s), at.R.z}, at.p};
  }
}

// The pose in the world of a frame of the chain.
template <class L, class T>
SUPPLE_INLINE Pose<L> frame_pose(const Frame<T>& frame, const Pose<L>* joint_poses) {
  if (frame.joint < 0) {
    return {constant_rotation<L>(frame.rotation), constant_vector<L>(frame.position)};
  }
  const Pose<L>& at = joint_poses[frame.joint];
  return {turned(at.R, frame.rotation), moved(at, frame.position)};
}

template <class L>
struct Twist {
  Vec3<L> v, w;
};

// The twist of a point p carried by the joint, per unit of the joint's speed.
template <class L, class T>
SUPPLE_INLINE Twist<L> partial_velocity(const Joint<T>& joint, const Pose<L>& at, const Vec3<L>& p) {
  if (joint.motion == Motion::prismatic) return {at.R.z, {L(0), L(0), L(0)}};
  return {cross(at.R.z, p - at.p), at.R.z};
}

// The Jacobian of a frame whose origin is at p, column by column: column(coordinate, twist, first) for
// each joint that moves it. `first` is false where a coordinate (a mimicked one) had a column before:
// the twists of all of them are to be added. Coordinates that do not move the frame are not visited.
template <class L, class T, class Column>
SUPPLE_INLINE void jacobian(const Chain<T>& chain, const Frame<T>& frame, const Pose<L>* joint_poses,
                            const Vec3<L>& p, Column&& column) {
  for (int s = frame.support_begin; s < frame.support_end; ++s) {
    const int j = chain.support[s];
    const Joint<T>& joint = chain.joint[j];
    Twist<L> twist = partial_velocity(joint, joint_poses[j], p);
    if (joint.scale != T(1)) twist = {twist.v * L(joint.scale), twist.w * L(joint.scale)};
    bool first = true;
    if (chain.mimics) {
      for (int t = frame.support_begin; t < s; ++t) {
        first &= chain.joint[chain.support[t]].coordinate != joint.coordinate;
      }
    }
    column(joint.coordinate, twist, first);
  }
}

// Velocity and acceleration of a frame: of its origin (v, a) and of its axes (w, b).
template <class L>
struct Rates {
  Vec3<L> v, w;  // J q̇
  Vec3<L> a, b;  // J̇ q̇: the accelerations when q̈ = 0
};

// Carries the rates of one point of a body to another, r away.
template <class L>
SUPPLE_INLINE Rates<L> carried(const Rates<L>& at, const Vec3<L>& r) {
  const Vec3<L> u = cross(at.w, r);
  return {at.v + u, at.w, at.a + cross(at.b, r) + cross(at.w, u), at.b};
}

// The velocity of a frame with origin p, and its acceleration when all joint accelerations are zero:
// the forward pass of the recursive Newton-Euler method without its q̈ terms (Wampler 1986, eq. 51).
template <class L, class T>
SUPPLE_INLINE Rates<L> rates(const Chain<T>& chain, const Frame<T>& frame, const Pose<L>* joint_poses,
                             const Vec3<L>& p, const L* qd) {
  const Vec3<L> zero{L(0), L(0), L(0)};
  Rates<L> body{zero, zero, zero, zero};
  Vec3<L> point = zero;
  for (int s = frame.support_begin; s < frame.support_end; ++s) {
    const int j = chain.support[s];
    const Joint<T>& joint = chain.joint[j];
    const Pose<L>& at = joint_poses[j];
    body = carried(body, at.p - point);
    point = at.p;
    const Vec3<L> z = at.R.z * (qd[joint.coordinate] * L(joint.scale));
    const Vec3<L> swept = cross(body.w, z);
    if (joint.motion == Motion::prismatic) {
      body.v = body.v + z;
      body.a = body.a + swept + swept;
    } else {
      body.w = body.w + z;
      body.b = body.b + swept;
    }
  }
  return carried(body, p - point);
}

}  // namespace supple::inline SUPPLE_ISA
