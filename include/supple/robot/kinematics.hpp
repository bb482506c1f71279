// Forward kinematics, the partial-velocity matrix (Jacobian), bias acceleration and bias jerk.
//
// All vectors are in world axes. A twist is [v; w]: v is the velocity of the frame's origin, w the
// angular velocity. Jacobian column j is the twist per unit of speed of coordinate j (Wampler 1986,
// eq. 6, Theorems 1 and 2).
#pragma once

#include "supple/math/elementary.hpp"
#include "supple/robot/chain.hpp"
#include "supple/math/se3.hpp"

namespace supple::inline SUPPLE_ISA {

// Returns p + R c for the pose (R, p) and a constant vector c. Zeros in c, which are common in
// robots, are skipped. The test for zero is the same on all lanes, and costs nothing if c is known
// at compile time.
template <class L, class T>
SUPPLE_INLINE Vec3<L> transform_point(const Pose<L>& from, const T* c) {
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

// R times a constant rotation, given by its columns.
template <class L, class T>
SUPPLE_INLINE Rotation<L> times_constant(const Rotation<L>& R, const T* c) {
  return {R * constant_vector<L>(c), R * constant_vector<L>(c + 3), R * constant_vector<L>(c + 6)};
}

// The displacement of a joint: an angle [rad] or a length [m].
template <class L, class T>
SUPPLE_INLINE L displacement(const Joint<T>& joint, const L* q) {
  const L x = q[joint.q_index];
  if (joint.scale == T(1) && joint.offset == T(0)) return x;
  return fma(x, L(joint.scale), L(joint.offset));
}

// Rotates two axes of a frame about the third: (a, b) -> (a c + b s, b c - a s), with the cosine c
// and the sine s of the angle.
template <class L>
SUPPLE_INLINE void rotate_axes(Vec3<L>& a, Vec3<L>& b, const L& c, const L& s) {
  const Vec3<L> old = a;
  a = fma(a, c, b * s);
  b = fma(b, c, old * -s);
}

// Replaces `at`, the pose of the parent's frame in the world, by that of the joint's frame at zero
// displacement.
template <class L, class T>
SUPPLE_INLINE void place_joint(const Joint<T>& joint, Pose<L>& at) {
  const T* c = joint.rotation;
  if (joint.placement == Placement::root) {
    at.R = constant_rotation<L>(c);
    at.p = constant_vector<L>(joint.position);
    return;
  }
  at.p = transform_point(at, joint.position);
  if (joint.placement == Placement::general) {
    at.R = times_constant(at.R, c);
  } else if (c[0] == T(0)) {  // a right-angle twist, the most common one
    const Vec3<L> y = at.R.y;
    at.R.y = at.R.z * L(c[1]);
    at.R.z = y * L(-c[1]);
  } else {
    rotate_axes(at.R.y, at.R.z, L(c[0]), L(c[1]));
  }
}

// Adds the joint's phase to an angle, given by its cosine and sine.
template <class L, class T>
SUPPLE_INLINE void add_phase(const Joint<T>& joint, L& c, L& s) {
  if (joint.phase[1] == T(0) && joint.phase[0] == T(1)) return;
  const L old = c;
  c = fma(c, L(joint.phase[0]), s * L(-joint.phase[1]));
  s = fma(s, L(joint.phase[0]), old * L(joint.phase[1]));
}

// Computes sines and cosines for `joint_sines`, for displacements within Elementary::reach.
template <class L, class T>
SUPPLE_INLINE void sines_in_range(const Chain<T>& chain, Pose<L>* joint_poses) {
  SUPPLE_UNROLL for (int j = 0; j < chain.joints; ++j) {
    Vec3<L>& p = joint_poses[j].p;
    sincos_in_range(p.z, p.y, p.x);
  }
}
// For a single configuration, several joints share a pack, which is faster; the results are the
// same bit for bit.
template <class T>
SUPPLE_INLINE void sines_in_range(const Chain<T>& chain, Pose<T>* joint_poses) {
  constexpr int W = width<Unrolled<T>>;
  for (int first = 0; first < chain.joints; first += W) {
    const int count = chain.joints - first < W ? chain.joints - first : W;
    Unrolled<T> d(T(0)), s, c;
    for (int i = 0; i < count; ++i) reinterpret_cast<T*>(&d)[i] = joint_poses[first + i].p.z;
    sincos_in_range(d, s, c);
    for (int i = 0; i < count; ++i) {
      joint_poses[first + i].p.x = reinterpret_cast<const T*>(&c)[i];
      joint_poses[first + i].p.y = reinterpret_cast<const T*>(&s)[i];
    }
  }
}

// The first pass of `forward`: displacements of the joints with their sines and cosines, in loops
// without dependencies between joints. joint_poses[j].p temporarily stores (cosine, sine,
// displacement).
template <class L, class T>
SUPPLE_NOINLINE_HOST void joint_sines(const Chain<T>& chain, const L* q, Pose<L>* joint_poses) {
  mask_t<L> near = L(0) == L(0);
  SUPPLE_UNROLL for (int j = 0; j < chain.joints; ++j) {
    const L d = displacement(chain.joint[j], q);
    joint_poses[j].p.z = d;
    near = near & in_range(d);
  }
  if (native_elementary || !all(near)) {
    SUPPLE_UNROLL for (int j = 0; j < chain.joints; ++j) {
      Vec3<L>& p = joint_poses[j].p;
      sincos(p.z, p.y, p.x);
    }
  } else {
    sines_in_range(chain, joint_poses);
  }
  if (!chain.phases) return;
  SUPPLE_UNROLL for (int j = 0; j < chain.joints; ++j)
      add_phase(chain.joint[j], joint_poses[j].p.x, joint_poses[j].p.y);
}

// Computes the sines and cosines of `joint_sines` with less code, by polynomials that are valid up
// to Elementary::reach. Returns the lanes where all displacements are within that range; on other
// lanes the sines are not valid.
template <class L, class T>
SUPPLE_INLINE mask_t<L> joint_sines_in_range(const Chain<T>& chain, const L* q,
                                             Pose<L>* joint_poses) {
  mask_t<L> near = L(0) == L(0);
  for (int j = 0; j < chain.joints; ++j) {
    Vec3<L>& p = joint_poses[j].p;
    p.z = displacement(chain.joint[j], q);
    near = near & in_range(p.z);
    sincos_by_polynomials(p.z, p.y, p.x);
    add_phase(chain.joint[j], p.x, p.y);
  }
  return near;
}

// Turns the frame of a ball joint by its rotation vector r. Its axes are renamed so that z is the x
// axis of the body. Applying `next_axis` then makes z the y axis of the body, and applying it again
// makes z the z axis of the body.
template <class L>
SUPPLE_INLINE Rotation<L> next_axis(const Rotation<L>& R) {
  return {R.y, R.z, R.x};
}
template <class L>
SUPPLE_INLINE Rotation<L> turn_ball(const Rotation<L>& R, const Vec3<L>& r) {
  const Rotation<L> turn = exp(r);
  return next_axis(Rotation<L>{R * turn.x, R * turn.y, R * turn.z});
}

// The second pass of `forward`: joint_poses[j] becomes the pose of joint j's frame in the world, at
// the joint's displacement. R.z is the axis of the joint; for a revolute joint, p is a point on the
// axis. R.x and R.y are written only if the joint `branches`.
template <class L, class T>
SUPPLE_INLINE void place_joints(const Chain<T>& chain, Pose<L>* joint_poses) {
  Pose<L> at = {};
  SUPPLE_UNROLL for (int j = 0; j < chain.joints; ++j) {
    const Joint<T>& joint = chain.joint[j];
    const L c = joint_poses[j].p.x, s = joint_poses[j].p.y, d = joint_poses[j].p.z;
    if (joint.parent >= 0 && joint.parent != j - 1) at = joint_poses[joint.parent];
    if (joint.motion == Motion::ball_axis) {
      at.R = next_axis(at.R);
    } else {
      place_joint(joint, at);
      if (joint.motion == Motion::revolute) {
        rotate_axes(at.R.x, at.R.y, c, s);
      } else if (joint.motion == Motion::prismatic) {
        at.p = fma(at.R.z, d, at.p);
      } else {
        at.R = turn_ball(at.R, {d, joint_poses[j + 1].p.z, joint_poses[j + 2].p.z});
      }
    }
    if (joint.branches) {
      joint_poses[j].R.x = at.R.x;
      joint_poses[j].R.y = at.R.y;
    }
    joint_poses[j].R.z = at.R.z;
    joint_poses[j].p = at.p;
  }
}

// Forward kinematics: runs both passes.
template <class L, class T>
SUPPLE_INLINE void forward(const Chain<T>& chain, const L* q, Pose<L>* joint_poses) {
  joint_sines(chain, q, joint_poses);
  place_joints(chain, joint_poses);
}

// The pose in the world of a frame of the chain.
template <class L, class T>
SUPPLE_INLINE Pose<L> frame_pose(const Frame<T>& frame, const Pose<L>* joint_poses) {
  if (frame.joint < 0) {
    return {constant_rotation<L>(frame.rotation), constant_vector<L>(frame.position)};
  }
  const Pose<L>& at = joint_poses[frame.joint];
  return {times_constant(at.R, frame.rotation), transform_point(at, frame.position)};
}

template <class L>
struct Twist {
  Vec3<L> v, w;
};

// Returns the twist, at a point p that the joint moves, per unit of joint speed.
template <class L, class T>
SUPPLE_INLINE Twist<L> partial_velocity(const Joint<T>& joint, const Pose<L>& at,
                                        const Vec3<L>& p) {
  if (joint.motion == Motion::prismatic) return {at.R.z, {L(0), L(0), L(0)}};
  return {cross(at.R.z, p - at.p), at.R.z};
}

// Calls column(v_index, twist, first) for each joint that moves a frame whose origin is at p.
// The twists are the columns of the frame's Jacobian. `first` is false if an earlier joint has the
// same coordinate (a mimic joint): the caller then adds the twists. Coordinates that do not move
// the frame are not visited.
template <class L, class T, class Column>
SUPPLE_INLINE void jacobian(const Chain<T>& chain, const Frame<T>& frame,
                            const Pose<L>* joint_poses, const Vec3<L>& p, Column&& column) {
  SUPPLE_UNROLL for (int s = frame.support_begin; s < frame.support_end; ++s) {
    const int j = chain.support[s].joint;
    const Joint<T>& joint = chain.joint[j];
    Twist<L> twist = partial_velocity(joint, joint_poses[j], p);
    if (joint.scale != T(1)) twist = {twist.v * L(joint.scale), twist.w * L(joint.scale)};
    column(joint.v_index, twist, chain.support[s].first);
  }
}

// Rates of a frame: velocity v and acceleration a of its origin, angular velocity w and angular
// acceleration b.
template <class L>
struct Rates {
  Vec3<L> v, w;  // J q̇
  Vec3<L> a, b;  // J̇ q̇: the accelerations at q̈ = 0
};

// Rates up to the jerk. Unlike in `Rates`, (a, b) is the full acceleration J q̈ + J̇ q̇, and (j, c)
// is the jerk at q⃛ = 0: linear and angular.
template <class L>
struct JerkRates : Rates<L> {
  Vec3<L> j, c;  // 2 J̇ q̈ + J̈ q̇
};

// Returns d²/dt² of a vector x fixed to a body with angular velocity w and angular acceleration b.
template <class L>
SUPPLE_INLINE Vec3<L> turning(const Vec3<L>& w, const Vec3<L>& b, const Vec3<L>& x) {
  return cross(b, x) + cross(w, cross(w, x));
}

// Converts the rates at one point of a body to the rates at a second point; r is the vector from
// the first point to the second.
template <class L>
SUPPLE_INLINE Rates<L> shift_rates(const Rates<L>& at, const Vec3<L>& r) {
  const Vec3<L> u = cross(at.w, r);
  return {at.v + u, at.w, at.a + cross(at.b, r) + cross(at.w, u), at.b};
}
template <class L>
SUPPLE_INLINE JerkRates<L> shift_rates(const JerkRates<L>& at, const Vec3<L>& r) {
  const Vec3<L> u = cross(at.w, r), du = turning(at.w, at.b, r), bu = cross(at.b, u);
  return {
      {at.v + u, at.w, at.a + du, at.b}, at.j + cross(at.c, r) + bu + bu + cross(at.w, du), at.c};
}

// Adds the velocity and acceleration due to a joint. Its axis z turns with the angular velocity
// body.w of the parent.
template <class L>
SUPPLE_INLINE void add_joint(Rates<L>& body, const Vec3<L>& z, bool slides, const L& qd, const L&) {
  const Vec3<L> u = z * qd, swept = cross(body.w, u);
  if (slides) {
    body.v = body.v + u;
    body.a = body.a + swept + swept;
  } else {
    body.w = body.w + u;
    body.b = body.b + swept;
  }
}
// Adds velocity, acceleration and jerk due to a joint. With ż = w × z:  b += q̈ z + q̇ ż, c += 2 q̈
// ż + q̇ z̈  for a revolute joint, and  a += q̈ z + 2 q̇ ż,  j += 3 q̈ ż + 3 q̇ z̈  for a prismatic
// one, by Leibniz' rule.
template <class L>
SUPPLE_INLINE void add_joint(JerkRates<L>& body, const Vec3<L>& z, bool slides, const L& qd,
                             const L& qdd) {
  const Vec3<L> dz = cross(body.w, z), first = dz * qd;
  const Vec3<L> second = dz * qdd, third = turning(body.w, body.b, z) * qd;
  if (slides) {
    body.v = fma(z, qd, body.v);
    body.a = fma(z, qdd, body.a) + first + first;
    body.j = body.j + (second + third) * L(3);
  } else {
    body.w = fma(z, qd, body.w);
    body.b = fma(z, qdd, body.b) + first;
    body.c = body.c + second + second + third;
  }
}

// Adds the rates due to a ball joint. u is its angular velocity relative to the parent, and du the
// derivative of u in the axes of the body that the joint carries. These axes turn at w + u, where w
// is the angular velocity of the parent.
template <class L>
SUPPLE_INLINE void add_ball(Rates<L>& body, const Vec3<L>& u, const Vec3<L>&) {
  body.b = body.b + cross(body.w, u);
  body.w = body.w + u;
}
template <class L>
SUPPLE_INLINE void add_ball(JerkRates<L>& body, const Vec3<L>& u, const Vec3<L>& du) {
  const Vec3<L> swept = cross(body.w, du);
  body.c = body.c + turning(body.w, body.b, u) + swept + swept + cross(u, du);
  body.b = body.b + du + cross(body.w, u);
  body.w = body.w + u;
}

// Returns the rates of a frame with origin p, by the forward pass of the recursive Newton-Euler
// method without the terms in the highest derivative of q (Wampler 1986, eq. 51). `qdd` is read for
// JerkRates only.
template <template <class> class R, class L, class T>
SUPPLE_INLINE R<L> frame_rates(const Chain<T>& chain, const Frame<T>& frame,
                               const Pose<L>* joint_poses, const Vec3<L>& p, const L* qd,
                               const L* qdd) {
  const Vec3<L> zero{L(0), L(0), L(0)};
  R<L> body{};
  Vec3<L> point = zero;
  for (int s = frame.support_begin; s < frame.support_end; ++s) {
    const int j = chain.support[s].joint;
    const Joint<T>& joint = chain.joint[j];
    const Pose<L>& at = joint_poses[j];
    body = shift_rates(body, at.p - point);
    point = at.p;
    if (joint.motion == Motion::ball) {
      Vec3<L> u = zero, du = zero;
      for (int k = 0; k < 3; ++k) {
        const Vec3<L>& axis = joint_poses[j + k].R.z;
        u = fma(axis, qd[joint.v_index + k], u);
        if (qdd) du = fma(axis, qdd[joint.v_index + k], du);
      }
      add_ball(body, u, du);
      s += 2;
      continue;
    }
    const L speed = qd[joint.v_index] * L(joint.scale);
    const L faster = qdd ? qdd[joint.v_index] * L(joint.scale) : L(0);
    add_joint(body, at.R.z, joint.motion == Motion::prismatic, speed, faster);
  }
  return shift_rates(body, p - point);
}

template <class L, class T>
SUPPLE_INLINE Rates<L> rates(const Chain<T>& chain, const Frame<T>& frame,
                             const Pose<L>* joint_poses, const Vec3<L>& p, const L* qd) {
  return frame_rates<Rates>(chain, frame, joint_poses, p, qd, static_cast<const L*>(nullptr));
}

template <class L, class T>
SUPPLE_INLINE JerkRates<L> jerk_rates(const Chain<T>& chain, const Frame<T>& frame,
                                      const Pose<L>* joint_poses, const Vec3<L>& p, const L* qd,
                                      const L* qdd) {
  return frame_rates<JerkRates>(chain, frame, joint_poses, p, qd, qdd);
}

}  // namespace supple::inline SUPPLE_ISA
