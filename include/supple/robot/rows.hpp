// Poses and Jacobians of a chain as rows of numbers, and the check of the input. Used by the batch
// loops on a CPU and by the CUDA kernels.
#pragma once

#include "supple/robot/kinematics.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest displacement of a prismatic joint that keeps every result finite [m].
template <class T>
constexpr T largest_slide = sizeof(T) == sizeof(double) ? T(1e100) : T(1e15);

// Returns the lanes where all inputs are finite and all displacements within bounds. `qd` may be
// null.
template <class L, class T>
SUPPLE_INLINE mask_t<L> within_bounds(const Chain<T>& chain, const L* q, const L* qd) {
  mask_t<L> valid = L(0) == L(0);
  SUPPLE_UNROLL for (int k = 0; k < chain.nq; ++k) {
    valid = valid & finite(q[k]);
    if (qd) valid = valid & finite(qd[k]);
  }
  if (!chain.lengths) return valid;
  SUPPLE_UNROLL for (int j = 0; j < chain.joints; ++j) {
    const L d = displacement(chain.joint[j], q);
    const bool slides = chain.joint[j].motion == Motion::prismatic;
    valid = valid & (slides ? abs(d) <= L(largest_slide<T>) : finite(d));
  }
  return valid;
}

template <class L>
SUPPLE_INLINE void put(L* matrix, int stride, const Vec3<L>& v) {
  matrix[0] = v.x;
  matrix[stride] = v.y;
  matrix[2 * stride] = v.z;
}

// Writes a pose as a matrix (4 x 4).
template <class L>
SUPPLE_INLINE void write_pose(const Pose<L>& T, L* matrix) {
  put(matrix, 4, T.R.x);
  put(matrix + 1, 4, T.R.y);
  put(matrix + 2, 4, T.R.z);
  put(matrix + 3, 4, T.p);
  for (int c = 0; c < 3; ++c) matrix[12 + c] = L(0);
  matrix[15] = L(1);
}

// Writes the Jacobian (6 x n) of one frame whose origin is p, in the axes `in`, or in world axes if
// `in` is null.
template <class L, class T>
SUPPLE_INLINE void write_jacobian(const Chain<T>& chain, const Frame<T>& frame,
                                  const Pose<L>* joint_poses, const Vec3<L>& p,
                                  const Rotation<L>* in, L* J) {
  const int n = chain.nv;
  if (chain.mimics || frame.support_end - frame.support_begin < n) {
    SUPPLE_UNROLL for (int k = 0; k < 6 * n; ++k) J[k] = L(0);
  }
  jacobian(chain, frame, joint_poses, p, [&](int column, const Twist<L>& world, bool first) {
    Twist<L> twist = world;
    if (in) twist = {into(*in, world.v), into(*in, world.w)};
    L* at = J + column;
    if (!first) {
      twist.v = twist.v + Vec3<L>{at[0], at[n], at[2 * n]};
      twist.w = twist.w + Vec3<L>{at[3 * n], at[4 * n], at[5 * n]};
    }
    put(at, n, twist.v);
    put(at + 3 * n, n, twist.w);
  });
}

}  // namespace supple::inline SUPPLE_ISA
