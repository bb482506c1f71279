// Tasks for a frame, an axis, points or the joints, as rows of J and e.
//
// J q̇ is the rate of the quantity that the task controls, and e is target minus current value: a
// motion with J q̇ dt = e reaches the target. Rows of J and e are multiplied by weights, W1 =
// diag(weight²) in Deo & Walker's eq. (2). The Python counterparts, src/supple/tasks/, follow
// the formulas; tests/motion compares the two.
#pragma once

#include "supple/robot/configuration.hpp"
#include "supple/robot/kinematics.hpp"
#include "supple/task/axes.hpp"
#include "supple/task/points.hpp"
#include "supple/task/spec.hpp"

namespace supple::inline SUPPLE_ISA {

// The frame and the base of a task, without the joints that move both. If the base is the world, no
// joint moves it.
template <class T>
struct SeparateSupports {
  Frame<T> frame, base;
};
template <class T>
SUPPLE_FN SeparateSupports<T> separate_supports(const Chain<T>& chain, const Task<T>& task) {
  const bool moved = task.base != task_world;
  Frame<T> frame = chain.frame[task.frame], base = chain.frame[moved ? task.base : task.frame];
  if (!moved) base.support_begin = base.support_end;
  while (frame.support_begin < frame.support_end && base.support_begin < base.support_end &&
         chain.support[frame.support_begin].joint == chain.support[base.support_begin].joint) {
    ++frame.support_begin;
    ++base.support_begin;
  }
  return {frame, base};
}

// Computes the weighted J (rows, coordinates). If the base moves, J maps q̇ to the twist of the
// frame minus that of the base, at the frame's origin. Joints that move both are skipped, so their
// columns are exactly zero. If the task is `alternate` and has a target, J refers to the
// position of the target instead of the frame's origin (Buss 2009, section 2). The row of a tilt is
// zero if there is no target.
template <class L, class T>
SUPPLE_FN void task_jacobian(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses,
                             L* J, const L* target = nullptr) {
  const int n = chain.nv;
  SUPPLE_UNROLL for (int i = 0; i < task.rows * n; ++i) J[i] = L(0);
  if (task.goal == Goal::posture) {
    SUPPLE_UNROLL for (int i = 0; i < task.rows; ++i) {
      J[i * n + task.coordinate[i]] = L(task.posture_weight[i]);
    }
    return;
  }
  if (task.goal == Goal::points) return add_points_jacobian(chain, task, joint_poses, J);
  const TaskPoses<L> at = task_poses(chain, task, joint_poses);
  // In spatial coordinates, v is the velocity of the body's point at the base's origin.
  Vec3<L> point = at.spatial ? at.base.p : at.frame.p;
  if (task.alternate && target) {
    const Vec3<L> t{target[9], target[10], target[11]};
    const Vec3<L> there = at.moved ? at.base.p + at.base.R * t : t;
    const mask_t<L> given = target[0] == target[0];
    point = {select(given, there.x, point.x), select(given, there.y, point.y),
             select(given, there.z, point.z)};
  }
  if (!at.moved && !at.turned && !at.pointed && !has_tilt(task)) {  // rows in world axes
    const Frame<T>& frame = chain.frame[task.frame];
    return jacobian(chain, frame, joint_poses, point, [&](int column, const Twist<L>& twist, bool) {
      const auto& [v, w] = twist;
      const L component[6] = {v.x, v.y, v.z, w.x, w.y, w.z};
      each_row(task, [&](int i, int c, T weight) {
        L& entry = J[i * n + column];
        entry = fma(component[c], L(weight), entry);
      });
    });
  }
  const Vec3<L> tilts = tilt_row(task, at, target);
  const auto add = [&](const Frame<T>& moved, T sign) {
    jacobian(chain, moved, joint_poses, point, [&](int column, const Twist<L>& twist, bool) {
      const Vec3<L> v = in_task_axes(at, twist.v), w = in_turn_axes(at, twist.w);
      const L component[7] = {v.x, v.y, v.z, w.x, w.y, w.z, has_tilt(task) ? dot(tilts, w) : L(0)};
      each_row(task, [&](int i, int c, T weight) {
        J[i * n + column] = fma(component[c], L(sign * weight), J[i * n + column]);
      });
    });
  };
  const auto [frame, base] = separate_supports(chain, task);
  add(frame, T(1));
  add(base, T(-1));
}

// Computes the weighted offset (rows,): target minus current value, before the allowed range is
// subtracted.
//
//   frame     [p* - p; log(R* Rᵀ)] in the coordinates of the base, rotated into the axes of the
//             rows; if the frame may turn about an axis, the rotation part is that of an axis goal
//   axis      angle · (z × d)/|z × d| in the axes of the frame, where d is the target direction; or
//             the angle alone, the tilt
//   posture   q* - q
//   points    x* - Σ share p
template <class L, class T>
SUPPLE_FN void task_offset(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses,
                           const L* q, const L* target, L* e) {
  if (task.goal == Goal::posture) {
    for (int i = 0; i < task.rows; ++i) {
      e[i] = coordinate_difference(target[i], q[task.coordinate[i]]) * L(task.posture_weight[i]);
    }
    return;
  }
  if (task.goal == Goal::points) {
    const Vec3<L> shall{target[0], target[1], target[2]};
    return put_position_rows(task, shall - weighted_point(chain, task, joint_poses), e);
  }
  const TaskPoses<L> at = task_poses(chain, task, joint_poses);
  const Vec3<L> zero{L(0), L(0), L(0)};
  Vec3<L> v = zero, w = zero;
  L angle(0);
  if (task.goal == Goal::axis || at.pointed) {
    const Vec3<L> d = desired_axis(task, at, target);
    w = in_frame_order(task, tilt(d));
    if (has_tilt(task)) angle = atan2(sqrt(fma(d.x, d.x, d.y * d.y)), d.z);
  }
  if (task.goal == Goal::frame) {
    Pose<L> is = at.frame;
    if (at.moved) {
      is = {{into(at.base.R, is.R.x), into(at.base.R, is.R.y), into(at.base.R, is.R.z)},
            into(at.base.R, is.p - at.base.p)};
    }
    const Rotation<L> shall{{target[0], target[1], target[2]},
                            {target[3], target[4], target[5]},
                            {target[6], target[7], target[8]}};
    v = from_base_axes(at, Vec3<L>{target[9], target[10], target[11]} - is.p);
    bool turns = at.spatial;
    each_row(task, [&](int, int c, T) { turns |= c >= 3; });
    if (turns && !at.pointed) w = from_base_axes(at, log(times_transpose(shall, is.R)));
    v = at_reference(at, is.p, v, w);
  }
  const L component[7] = {v.x, v.y, v.z, w.x, w.y, w.z, angle};
  each_row(task, [&](int i, int c, T weight) { e[i] = component[c] * L(weight); });
}

// Converts offsets (rows,) to errors, in place. `less` <= 0 and `more` >= 0 (rows,; null if not
// needed) receive the slack of each row: the velocity J q̇ of the row may be between gain e + less
// and gain e + more, that is, between gain (offset - upper) and gain (offset - lower). Both slacks
// change only on the lanes where a target is `given`.
template <class L, class T>
SUPPLE_FN void split_offset(const Task<T>& task, const L& gain, const mask_t<L>& given, L* rows,
                            L* less, L* more) {
  for (int i = 0; i < task.rows; ++i) {
    const Range<T> range = row_range(task, i);
    const L lower(range.lower), upper(range.upper), offset = rows[i];
    rows[i] = offset - min(max(offset, lower), upper);
    if (!less) continue;
    less[i] = select(given, min(offset - upper - rows[i], L(0)) * gain, less[i]);
    more[i] = select(given, max(offset - lower - rows[i], L(0)) * gain, more[i]);
  }
}

// Computes the weighted error e (rows,): the signed distance of the offset to its allowed range,
// which is zero inside,
//
//   offset - min(max(offset, lower), upper)
//
// and the offset itself if there is no range.
template <class L, class T>
SUPPLE_FN void task_error(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses,
                          const L* q, const L* target, L* e) {
  task_offset(chain, task, joint_poses, q, target, e);
  if (!task.ranged) return;
  split_offset<L, T>(task, L(1), L(0) == L(0), e, nullptr, nullptr);
}

// Sets to zero the rows of J (rows, n) that are inside their allowed range, where e (rows,) is
// zero: they have no influence on the step.
template <class L, class T>
SUPPLE_FN void drop_met_rows(const Task<T>& task, int n, const L* e, L* J) {
  if (!task.ranged) return;
  for (int i = 0; i < task.rows; ++i) {
    if (!is_ranged(task, i)) continue;
    const mask_t<L> met = e[i] == L(0);
    for (int j = 0; j < n; ++j) J[i * n + j] = select(met, L(0), J[i * n + j]);
  }
}

// Computes the target (target_size,) that the current configuration meets exactly. Does nothing for
// a posture.
template <class L, class T>
SUPPLE_FN void task_reached(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses,
                            L* target) {
  if (task.goal == Goal::posture) return;
  if (task.goal == Goal::points) {
    const Vec3<L> x = weighted_point(chain, task, joint_poses);
    target[0] = x.x, target[1] = x.y, target[2] = x.z;
    return;
  }
  const TaskPoses<L> at = task_poses(chain, task, joint_poses);
  const auto put = [&](int first, const Vec3<L>& axis) {
    const Vec3<L> a = at.moved ? into(at.base.R, axis) : axis;
    target[first] = a.x, target[first + 1] = a.y, target[first + 2] = a.z;
  };
  if (task.goal == Goal::axis) return put(0, at.frame.R.z);
  put(0, at.frame.R.x);
  put(3, at.frame.R.y);
  put(6, at.frame.R.z);
  put(9, at.frame.p - at.base.p);
}

// Converts the difference d (6) of two targets that are near each other to weighted task rows
// (rows,): a displacement [v; w] of the frame in the axes of the base, the differences of numbers,
// or zeros if the values of targets are not known.
template <class L, class T>
SUPPLE_FN void task_from_base(const Chain<T>& chain, const Task<T>& task,
                              const Pose<L>* joint_poses, const L* d, L* rows) {
  const Target target = traits_of(task).target;
  const Vec3<L> v{d[0], d[1], d[2]}, w{d[3], d[4], d[5]};
  if (target == Target::position) return put_position_rows(task, v, rows);
  if (target == Target::numbers || target == Target::other) {
    const bool known = target == Target::numbers;
    return each_row(task, [&](int i, int, T weight) { rows[i] = known ? d[i] * L(weight) : L(0); });
  }
  const TaskPoses<L> at = task_poses(chain, task, joint_poses);
  const Vec3<L> r = at.frame.p - at.base.p;
  const Vec3<L> a = from_base_axes(at, at_reference(at, at.moved ? into(at.base.R, r) : r, v, w));
  const Vec3<L> b = turn_from_base_axes(at, w);
  const L component[7] = {a.x, a.y, a.z, b.x, b.y, b.z, L(0)};
  each_row(task, [&](int i, int c, T weight) { rows[i] = component[c] * L(weight); });
}

// Computes the weighted J̇q̇ (rows,): the derivative of the rows of J q̇ at q̈ = 0. C is the
// rotation of the axes of the rows, w_C their angular velocity, u and w the velocity and angular
// velocity of the frame relative to the base, a and b the acceleration and angular acceleration of
// the frame at q̈ = 0, and the index b means the base, at the frame's origin:
//
//   d/dt Cᵀu = Cᵀ(a - a_b - w_b × u - w_C × u)
//   d/dt Cᵀw = Cᵀ(b - b_b - w_C × w)                  w = w_frame - w_b
//
// In spatial coordinates u + r × w replaces u, where r points from the base's origin to the
// frame's; the derivative of the additional term is u × w + r × d/dt w. The row of the tilt θ from
// the axis z to its target d is n·w = -θ̇, with n = z × d/sin θ. n turns as d moves in the axes of
// the frame:
//
//   d/dt n·w = n·ẇ + w_k (w_z - w_k cot θ)            k = n × z
template <class L, class T>
SUPPLE_FN void task_bias_acceleration(const Chain<T>& chain, const Task<T>& task,
                                      const Pose<L>* joint_poses, const L* qd, L* bias_acceleration,
                                      const L* target = nullptr) {
  if (task.goal == Goal::posture) {
    for (int i = 0; i < task.rows; ++i) bias_acceleration[i] = L(0);
    return;
  }
  if (task.goal == Goal::points) {
    const Vec3<L> a = weighted_bias(chain, task, joint_poses, qd);
    return put_position_rows(task, a, bias_acceleration);
  }
  const TaskPoses<L> at = task_poses(chain, task, joint_poses);
  const Vec3<L>& p = at.frame.p;
  Rates<L> rate = rates(chain, chain.frame[task.frame], joint_poses, p, qd);
  const Vec3<L> turning = rate.w;  // angular velocity of the axes of the frame
  Vec3<L> spin{L(0), L(0), L(0)};
  if (task.axes == task_axes_frame) spin = rate.w;
  if (task.axes >= 0) spin = rates(chain, chain.frame[task.axes], joint_poses, p, qd).w;
  if (at.moved) {
    const Rates<L> base = rates(chain, chain.frame[task.base], joint_poses, p, qd);
    if (!at.turned) spin = base.w;
    rate.v = rate.v - base.v;
    rate.w = rate.w - base.w;
    rate.a = rate.a - base.a - cross(base.w, rate.v);
    rate.b = rate.b - base.b;
  }
  rate.a = rate.a - cross(spin, rate.v);
  rate.b = rate.b - cross(at.pointed ? turning : spin, rate.w);
  if (at.spatial) rate.a = rate.a + cross(rate.v, rate.w) + cross(p - at.base.p, rate.b);
  const Vec3<L> a = in_task_axes(at, rate.a), b = in_turn_axes(at, rate.b);
  const Vec3<L> n = tilt_row(task, at, target);
  L tilting = dot(n, b);
  if (has_tilt(task) && target) {
    const Vec3<L> d = desired_axis(task, at, target), w = in_turn_axes(at, rate.w);
    const Vec3<L> z = in_frame_order(task, Vec3<L>{L(0), L(0), L(1)});
    const L sine = sqrt(fma(d.x, d.x, d.y * d.y)), along = dot(cross(n, z), w);
    const mask_t<L> tilted = sine > L(Number<T>::epsilon);
    const L turns = dot(z, w) - along * d.z / select(tilted, sine, L(1));
    tilting = select(tilted, fma(along, turns, tilting), tilting);
  }
  const L component[7] = {a.x, a.y, a.z, b.x, b.y, b.z, tilting};
  each_row(task, [&](int i, int c, T weight) { bias_acceleration[i] = component[c] * L(weight); });
}

// Converts a commanded velocity to weighted task rows (rows,). The velocity is, for a frame, a
// twist [v; w] in the axes of the rows; for an axis, a twist in the axes of its base (v is
// ignored); for a posture, the speeds of the coordinates (rows,); for points, a velocity (3,). The
// row of a tilt is zero if there is no target.
template <class L, class T>
SUPPLE_FN void task_command(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses,
                            const L* velocity, L* rows, const L* target = nullptr) {
  if (task.goal == Goal::posture) {
    for (int i = 0; i < task.rows; ++i) rows[i] = velocity[i] * L(task.posture_weight[i]);
    return;
  }
  if (task.goal == Goal::points) {
    return put_position_rows(task, Vec3<L>{velocity[0], velocity[1], velocity[2]}, rows);
  }
  Vec3<L> v{velocity[0], velocity[1], velocity[2]}, w{velocity[3], velocity[4], velocity[5]};
  L tilting(0);
  if (task.goal == Goal::axis || task.about >= 0) {
    const TaskPoses<L> at = task_poses(chain, task, joint_poses);
    if (task.goal == Goal::axis) w = from_base_axes(at, w);
    if (at.pointed) w = into(at.frame.R, at.moved || at.turned ? at.axes * w : w);
    tilting = dot(tilt_row(task, at, target), w);
  }
  const L component[7] = {v.x, v.y, v.z, w.x, w.y, w.z, tilting};
  each_row(task, [&](int i, int c, T weight) { rows[i] = component[c] * L(weight); });
}

}  // namespace supple::inline SUPPLE_ISA
