// The poses that a task depends on, the axes in which its rows are expressed, and the tilt of an
// axis.
#pragma once

#include "supple/robot/kinematics.hpp"
#include "supple/task/spec.hpp"

namespace supple::inline SUPPLE_ISA {

// World poses that a task depends on: its frame, its base, and the axes of its rows.
template <class L>
struct TaskPoses {
  Pose<L> frame, base;
  Rotation<L> axes;
  bool moved;    // whether the base is a frame, not the world
  bool turned;   // whether the rows are in other axes than those of the base
  bool pointed;  // whether rotation rows are in the axes of the frame, unlike position rows
  bool spatial;  // whether v is the velocity of the body's point at the base's origin
};

// Returns the velocity of the body's point that the rows refer to: the frame's origin, or in
// spatial coordinates the point at the base's origin. The frame's origin is at r from the base's
// origin and moves at v; the body turns at w.
template <class L>
SUPPLE_INLINE Vec3<L> at_reference(const TaskPoses<L>& at, const Vec3<L>& r, const Vec3<L>& v,
                                   const Vec3<L>& w) {
  return at.spatial ? v + cross(r, w) : v;
}

template <class L, class T>
SUPPLE_INLINE TaskPoses<L> task_poses(const Chain<T>& chain, const Task<T>& task,
                                      const Pose<L>* joint_poses) {
  const L o(0), i(1);
  const Pose<L> world{{{i, o, o}, {o, i, o}, {o, o, i}}, {o, o, o}};
  TaskPoses<L> at{frame_pose(chain.frame[task.frame], joint_poses),
                  world,
                  world.R,
                  task.base != task_world,
                  task.axes != task_axes_base && task.axes != task_axes_spatial,
                  task.about >= 0 && has_pose(task),
                  task.axes == task_axes_spatial};
  if (at.moved) at.base = frame_pose(chain.frame[task.base], joint_poses);
  at.axes = at.base.R;
  if (task.axes == task_axes_frame) at.axes = at.frame.R;
  if (task.axes >= 0) at.axes = frame_pose(chain.frame[task.axes], joint_poses).R;
  return at;
}

// Converts a vector from world axes to the axes of the rows.
template <class L>
SUPPLE_INLINE Vec3<L> in_task_axes(const TaskPoses<L>& at, const Vec3<L>& v) {
  return at.moved || at.turned ? into(at.axes, v) : v;
}

// Converts an angular velocity or rotation vector from world axes to the axes of rotation rows.
template <class L>
SUPPLE_INLINE Vec3<L> in_turn_axes(const TaskPoses<L>& at, const Vec3<L>& w) {
  return at.pointed ? into(at.frame.R, w) : in_task_axes(at, w);
}

// Converts a vector from the axes of the base to the axes of the rows.
template <class L>
SUPPLE_INLINE Vec3<L> from_base_axes(const TaskPoses<L>& at, const Vec3<L>& v) {
  return at.turned ? into(at.axes, at.moved ? at.base.R * v : v) : v;
}
template <class L>
SUPPLE_INLINE Vec3<L> turn_from_base_axes(const TaskPoses<L>& at, const Vec3<L>& w) {
  return at.pointed ? into(at.frame.R, at.moved ? at.base.R * w : w) : from_base_axes(at, w);
}

// Returns the direction in which an axis of the frame should point, in the axes of the frame,
// permuted cyclically so that this axis is z.
template <class L, class T>
SUPPLE_INLINE Vec3<L> desired_axis(const Task<T>& task, const TaskPoses<L>& at, const L* target) {
  const bool is_pose = has_pose(task);  // otherwise the target is the direction of z
  const int about = is_pose ? task.about : 2;
  const L* const axis = target + (is_pose ? 3 * about : 0);
  const Vec3<L> b{axis[0], axis[1], axis[2]};
  const Vec3<L> d = into(at.frame.R, at.moved ? at.base.R * b : b);
  return about == 0 ? Vec3<L>{d.y, d.z, d.x} : about == 1 ? Vec3<L>{d.z, d.x, d.y} : d;
}

// Undoes the permutation of `desired_axis`.
template <class L, class T>
SUPPLE_INLINE Vec3<L> in_frame_order(const Task<T>& task, const Vec3<L>& w) {
  return task.about == 0 ? Vec3<L>{w.z, w.x, w.y} : task.about == 1 ? Vec3<L>{w.y, w.z, w.x} : w;
}

// Returns the unit vector n about which a rotation reduces the tilt, in the axes of the frame. n is
// perpendicular to the frame's axis and to the desired direction d of this axis; where the two are
// parallel, n is any vector perpendicular to them.
template <class L, class T>
SUPPLE_INLINE Vec3<L> tilt_direction(const Task<T>& task, const Vec3<L>& d) {
  const L square = fma(d.x, d.x, d.y * d.y);
  const mask_t<L> along = square <= L(Number<T>::tiny);
  const L scale = L(1) / sqrt(select(along, L(1), square));
  return in_frame_order(
      task, Vec3<L>{select(along, L(1), -d.y * scale), select(along, L(0), d.x * scale), L(0)});
}

template <class T>
SUPPLE_FN constexpr bool has_tilt(const Task<T>& task) {
  return traits_of(task).is_twist && task.row[task.rows - 1] == task_tilt;
}

// Returns `tilt_direction` at the current pose; zero if the task has no tilt, and where it has no
// target (its first value is NaN).
template <class L, class T>
SUPPLE_FN Vec3<L> tilt_row(const Task<T>& task, const TaskPoses<L>& at, const L* target) {
  const Vec3<L> zero{L(0), L(0), L(0)};
  if (!has_tilt(task) || !target) return zero;
  const Vec3<L> n = tilt_direction(task, desired_axis(task, at, target));
  const L& first = target[0];
  const mask_t<L> given = first == first;
  return {select(given, n.x, L(0)), select(given, n.y, L(0)), select(given, n.z, L(0))};
}

// Returns the rotation vector of the shortest rotation from z to a unit vector d: angle (z × d)/|z
// × d|. Where d = -z, it is a half turn about x.
template <class L>
SUPPLE_INLINE Vec3<L> tilt(const Vec3<L>& d) {
  using T = scalar_t<L>;
  const L square = fma(d.x, d.x, d.y * d.y), sine = sqrt(square), angle = atan2(sine, d.z);
  const mask_t<L> along = square <= L(Number<T>::tiny), opposite = along & (d.z < L(0));
  const L scale = select(along, L(1), angle / select(along, L(1), sine));
  return {select(opposite, angle, -d.y * scale), select(opposite, L(0), d.x * scale), L(0)};
}

}  // namespace supple::inline SUPPLE_ISA
