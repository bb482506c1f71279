// Adjoints of forward kinematics and of the Jacobian, in world axes, for gradients of a loss.
//
// x_bar is the gradient of the loss with respect to x and has its shape: the loss changes by the
// sum of x_bar dx over all entries. q_bar (nv) is the gradient with respect to a displacement of q;
// for a ball joint, this is an angular displacement in the axes of the body.
#pragma once

#include "supple/robot/chain.hpp"
#include "supple/robot/kinematics.hpp"

namespace supple::inline SUPPLE_ISA {

// The gradient with respect to the twist of a frame, (v, w), from the gradient T_bar (4 x 4) with
// respect to the entries of its pose: dR = [w]× R changes the loss by w · Σ R_c × R_bar_c, summed
// over the columns.
template <class L>
SUPPLE_INLINE Twist<L> twist_gradient(const Rotation<L>& R, const L* T_bar) {
  const auto column = [&](int c) { return Vec3<L>{T_bar[c], T_bar[4 + c], T_bar[8 + c]}; };
  return {column(3), cross(R.x, column(0)) + cross(R.y, column(1)) + cross(R.z, column(2))};
}

// The gradient T_bar (4 x 4) with respect to the entries of a pose, from the gradient with respect
// to its twist: of all matrices that `twist_gradient` maps to it, the one tangent to the rotations
// at R, ½ [w_bar]× R. Its inner product with the derivative of any parametrization of poses is
// therefore the derivative of the loss.
template <class L>
SUPPLE_INLINE void write_pose_gradient(const Rotation<L>& R, const Twist<L>& bar, L* T_bar) {
  const Vec3<L> half = bar.w * L(0.5);
  const Vec3<L> column[4] = {cross(half, R.x), cross(half, R.y), cross(half, R.z), bar.v};
  for (int c = 0; c < 4; ++c) {
    T_bar[c] = column[c].x;
    T_bar[4 + c] = column[c].y;
    T_bar[8 + c] = column[c].z;
    T_bar[12 + c] = L(0);
  }
}

// The twist of a frame with origin p per unit of speed of the coordinate of support `s`.
template <class L, class T>
SUPPLE_INLINE Twist<L> support_twist(const Chain<T>& chain, int s, const Pose<L>* joint_poses,
                                     const Vec3<L>& p) {
  const int j = chain.support[s].joint;
  const Twist<L> twist = partial_velocity(chain.joint[j], joint_poses[j], p);
  const L scale = L(chain.joint[j].scale);
  return {twist.v * scale, twist.w * scale};
}

// q_bar += J^T bar, for the gradient with respect to the twist of a frame with origin p.
template <class L, class T>
SUPPLE_INLINE void add_twist_adjoint(const Chain<T>& chain, const Frame<T>& frame,
                                     const Pose<L>* joint_poses, const Vec3<L>& p,
                                     const Twist<L>& bar, L* q_bar) {
  jacobian(chain, frame, joint_poses, p, [&](int column, const Twist<L>& twist, bool) {
    q_bar[column] = q_bar[column] + dot(twist.v, bar.v) + dot(twist.w, bar.w);
  });
}

// Adds to q_bar the gradient due to J_bar (6 x n), the gradient with respect to the Jacobian of a
// frame with origin p. A joint l turns the twist [v; w] of every later joint k, and moves the
// frame's origin relative to every earlier one:
//
//   d[v_k; w_k]/dq_l = [w_l × v_k; w_l × w_k]  for l <= k,  [w_k × v_l; 0]  for l > k
//
// so that sums over the joints before and after l suffice. Each axis of a ball joint turns the
// other two, whatever their order: for each axis, all three axes count as later joints.
template <class L, class T>
SUPPLE_INLINE void add_jacobian_adjoint(const Chain<T>& chain, const Frame<T>& frame,
                                        const Pose<L>* joint_poses, const Vec3<L>& p,
                                        const L* J_bar, L* q_bar) {
  const int n = chain.nv;
  const auto bar = [&](int row, int c) {
    return Vec3<L>{J_bar[row * n + c], J_bar[(row + 1) * n + c], J_bar[(row + 2) * n + c]};
  };
  Vec3<L> before{L(0), L(0), L(0)}, after = before, sum = before;
  SUPPLE_UNROLL for (int s = frame.support_begin; s < frame.support_end; ++s) {
    const Joint<T>& joint = chain.joint[chain.support[s].joint];
    const int c = joint.v_index;
    const Twist<L> twist = support_twist(chain, s, joint_poses, p);
    if (joint.motion != Motion::ball_axis) before = sum;
    q_bar[c] = q_bar[c] + dot(twist.v, before);
    sum = sum + cross(bar(0, c), twist.w);
  }
  SUPPLE_UNROLL for (int s = frame.support_end - 1; s >= frame.support_begin; --s) {
    const Joint<T>& joint = chain.joint[chain.support[s].joint];
    const int c = joint.v_index;
    const Twist<L> twist = support_twist(chain, s, joint_poses, p);
    after = after + cross(twist.v, bar(0, c)) + cross(twist.w, bar(3, c));
    if (joint.motion == Motion::ball_axis) continue;  // the first axis does it for all three
    q_bar[c] = q_bar[c] + dot(twist.w, after);
    if (joint.motion != Motion::ball) continue;
    for (int k = 1; k < 3; ++k) {
      q_bar[c + k] = q_bar[c + k] + dot(support_twist(chain, s + k, joint_poses, p).w, after);
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
