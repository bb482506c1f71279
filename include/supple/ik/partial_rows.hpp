// The exact derivative of the error of a task that has only some rows of a position or a rotation.
//
// The Jacobian of a task is that of its frame. This Jacobian differs from the derivative of e by
// terms that are proportional to the whole error of the position or the rotation. With all rows,
// this error vanishes at a solution, and the terms with it. With only some rows, the rest of the
// error may be large at a solution: rows in the axes of the frame turn with it, and components of a
// rotation vector are not those of an angular velocity. With the terms, the iteration converges
// here too.
#pragma once

#include "supple/task/task.hpp"

namespace supple::inline SUPPLE_ISA {

// Whether a task requires only some of the rotation rows, or only some of the position rows in the
// axes of the frame. This includes tasks that have all these rows, but with allowed ranges, because
// then no row is always required.
template <class T>
SUPPLE_FN constexpr bool has_partial_rows(const Task<T>& task) {
  const bool turned = task.axes == task_axes_frame;
  if (!has_pose(task) || task.about >= 0 || (task.axes != task_axes_base && !turned)) {
    return false;
  }
  int positions = 0, rotations = 0;
  for (int i = 0; i < task.rows; ++i) ++(task.row[i] < 3 ? positions : rotations);
  const bool some_positions = positions > 0 && (positions < 3 || task.ranged);
  return (turned && some_positions) || (rotations > 0 && (rotations < 3 || task.ranged));
}

// The coefficient c(φ) of the inverse of the Jacobian of the rotation vector φ,
// I ± φ×/2 + c φ×φ×:  c = (1 - θ/2 cot(θ/2)) / θ²  with  θ = ‖φ‖
template <class L>
SUPPLE_FN L rotation_coefficient(const Vec3<L>& turn) {
  using T = scalar_t<L>;
  const L square = dot(turn, turn);
  const mask_t<L> small = square < L(T(1e-2));
  const L angle = sqrt(select(small, L(1), square)), half = angle * L(T(0.5));
  L sine, cosine;
  sincos(half, sine, cosine);
  const L series = fma(square, L(T(1) / 720), L(T(1) / 12));
  return select(small, series, (L(1) - half * cosine / sine) / (angle * angle));
}

// Computes the derivative of -e (rows, coordinates), weighted.
template <class L, class T>
SUPPLE_FN void partial_rows_jacobian(const Chain<T>& chain, const Task<T>& task,
                                     const Pose<L>* joint_poses, const L* target, L* J) {
  const int n = chain.nv;
  const TaskPoses<L> at = task_poses(chain, task, joint_poses);
  const bool turned = task.axes == task_axes_frame;
  const auto in_base = [&](const Vec3<L>& v) { return at.moved ? into(at.base.R, v) : v; };
  const Rotation<L> R{in_base(at.frame.R.x), in_base(at.frame.R.y), in_base(at.frame.R.z)};
  const Vec3<L> p = in_base(at.moved ? at.frame.p - at.base.p : at.frame.p);
  const Vec3<L> away = Vec3<L>{target[9], target[10], target[11]} - p;
  const Rotation<L> shall{{target[0], target[1], target[2]},
                          {target[3], target[4], target[5]},
                          {target[6], target[7], target[8]}};
  Vec3<L> turn = log(times_transpose(shall, R));
  if (turned) turn = into(R, turn);
  const L half(T(turned ? -0.5 : 0.5)), c = rotation_coefficient(turn);
  SUPPLE_UNROLL for (int i = 0; i < task.rows * n; ++i) J[i] = L(0);
  const auto add = [&](const Frame<T>& moved, T sign) {
    jacobian(chain, moved, joint_poses, at.frame.p, [&](int column, const Twist<L>& twist, bool) {
      Vec3<L> v = in_base(twist.v), w = in_base(twist.w);
      if (turned) {
        v = into(R, v + cross(w, away));
        w = into(R, w);
      }
      const Vec3<L> across = cross(turn, w);
      w = w + across * half + cross(turn, across) * c;
      const L component[7] = {v.x, v.y, v.z, w.x, w.y, w.z, L(0)};
      each_row(task, [&](int i, int k, T weight) {
        L& entry = J[i * n + column];
        entry = fma(component[k], L(sign * weight), entry);
      });
    });
  };
  const auto [frame, base] = separate_supports(chain, task);
  add(frame, T(1));
  add(base, T(-1));
}

}  // namespace supple::inline SUPPLE_ISA
