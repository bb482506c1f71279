// A weighted sum of points, such as a center of mass: x = Σ share p, in world axes.
//
// The arrays `component` have an entry for each component of a twist, although only the first three
// are used: this code is also compiled with the rows of other tasks. Functions that read the points
// of a task are never inlined: where they were, NVRTC 13.0 miscompiled the Jacobian of problems
// with several tasks of frames.
#pragma once

#include "supple/robot/kinematics.hpp"
#include "supple/task/spec.hpp"

namespace supple::inline SUPPLE_ISA {

// The position of one point in the world.
template <class L, class T>
SUPPLE_INLINE Vec3<L> point_position(const Frame<T>& frame, const Pose<L>* joint_poses) {
  if (frame.joint < 0) return constant_vector<L>(frame.position);
  return transform_point(joint_poses[frame.joint], frame.position);
}

// Returns Σ share p.
template <class L, class T>
SUPPLE_NOINLINE_HOST Vec3<L> weighted_point(const Chain<T>& chain, const Task<T>& task,
                                            const Pose<L>* joint_poses) {
  Vec3<L> sum{L(0), L(0), L(0)};
  for (int k = 0; k < task.points; ++k) {
    sum = fma(point_position(chain.frame[task.point[k]], joint_poses), L(task.share[k]), sum);
  }
  return sum;
}

// Returns Σ share a, with the accelerations a of the points at q̈ = 0.
template <class L, class T>
SUPPLE_NOINLINE Vec3<L> weighted_bias(const Chain<T>& chain, const Task<T>& task,
                                      const Pose<L>* joint_poses, const L* qd) {
  Vec3<L> sum{L(0), L(0), L(0)};
  for (int k = 0; k < task.points; ++k) {
    const Frame<T>& frame = chain.frame[task.point[k]];
    const Vec3<L> p = point_position(frame, joint_poses);
    sum = fma(rates(chain, frame, joint_poses, p, qd).a, L(task.share[k]), sum);
  }
  return sum;
}

// Adds the weighted rows of Σ share ∂p/∂q to J (rows, nv).
template <class L, class T>
SUPPLE_NOINLINE void add_points_jacobian(const Chain<T>& chain, const Task<T>& task,
                                         const Pose<L>* joint_poses, L* J) {
  const int n = chain.nv;
  for (int k = 0; k < task.points; ++k) {
    const Frame<T>& frame = chain.frame[task.point[k]];
    const Vec3<L> p = point_position(frame, joint_poses);
    const T share = task.share[k];
    jacobian(chain, frame, joint_poses, p, [&](int column, const Twist<L>& twist, bool) {
      const L component[6] = {twist.v.x, twist.v.y, twist.v.z, L(0), L(0), L(0)};
      each_row(task, [&](int i, int c, T weight) {
        J[i * n + column] = fma(component[c], L(share * weight), J[i * n + column]);
      });
    });
  }
}

// Writes the weighted rows (rows,) of a vector in world axes.
template <class L, class T>
SUPPLE_NOINLINE_HOST void put_position_rows(const Task<T>& task, const Vec3<L>& v, L* rows) {
  const L component[6] = {v.x, v.y, v.z, L(0), L(0), L(0)};
  each_row(task, [&](int i, int c, T weight) { rows[i] = component[c] * L(weight); });
}

}  // namespace supple::inline SUPPLE_ISA
