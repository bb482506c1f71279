// The rows of the tasks of a control loop that take part in a step.
//
// Rows with an allowed range take part only while the range restricts the motion (ranges.hpp).
#pragma once

#include "supple/task/task.hpp"

namespace supple {

template <class T>
struct StepRows {
  const Chain<T>& chain;
  int tasks;
  const Task<T>* task;
  int all, count;  // number of rows of all tasks, number of rows that take part
  const T* held;   // (all,): below `huge` for a row that takes part; null if all take part
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Whether a robot has joints with three degrees of freedom, as a floating base has. The steps of
// such a robot use methods of their own, made for many joints and rows. Steps of other robots never
// use these methods, so that their results do not change with these methods.
template <class T>
SUPPLE_FN constexpr bool is_floating(const Chain<T>& chain) {
  return chain.balls > 0;
}

// Number of entries of scratch memory that functions of the rows of a floating robot need.
template <class T>
SUPPLE_FN constexpr int sweep_memory(const Chain<T>& chain) {
  return 13 * chain.joints > 2 * chain.nv ? 13 * chain.joints : 2 * chain.nv;
}

// Computes the J of `add_points_jacobian` from the leaves of the chain to its root: a joint moves
// all points after it as one point at their center. The time is proportional to the number of
// joints, not to its square. `moment` has 4 lanes for each joint.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE void sweep_points_jacobian(const Chain<T>& chain, const Task<T>& task,
                                                  const Pose<L>* joint_poses, L* moment, L* J) {
  const int n = chain.nv;
  for (int i = 0; i < 4 * chain.joints; ++i) moment[i] = L(0);
  for (int k = 0; k < task.points; ++k) {
    const Frame<T>& frame = chain.frame[task.point[k]];
    if (frame.joint < 0) continue;
    const Vec3<L> p = point_position(frame, joint_poses);
    const L share(task.share[k]);
    L* const sum = moment + 4 * frame.joint;
    sum[0] = fma(p.x, share, sum[0]);
    sum[1] = fma(p.y, share, sum[1]);
    sum[2] = fma(p.z, share, sum[2]);
    sum[3] = sum[3] + share;
  }
  for (int j = chain.joints - 1; j >= 0; --j) {
    const Joint<T>& joint = chain.joint[j];
    const L* const sum = moment + 4 * j;
    for (int i = 0; joint.parent >= 0 && i < 4; ++i) {
      moment[4 * joint.parent + i] = moment[4 * joint.parent + i] + sum[i];
    }
    const Pose<L>& at = joint_poses[j];
    const Vec3<L> away = fma(at.p, -sum[3], Vec3<L>{sum[0], sum[1], sum[2]});
    const Vec3<L> v = joint.motion == Motion::prismatic ? at.R.z * sum[3] : cross(at.R.z, away);
    const L component[6] = {v.x, v.y, v.z, L(0), L(0), L(0)};
    each_row(task, [&](int i, int c, T weight) {
      L& entry = J[i * n + joint.v_index];
      entry = fma(component[c], L(joint.scale * weight), entry);
    });
  }
}

// `task_jacobian` of a control loop. With `moment`, 4 lanes for each joint, sums of points are
// computed by `sweep_points_jacobian`.
template <class L, class T>
SUPPLE_FN void step_jacobian(const Chain<T>& chain, const Task<T>& task, const Pose<L>* joint_poses,
                             L* J, const L* target, L* moment) {
  if (!traits_of(task).is_sum || !moment) {
    return task_jacobian(chain, task, joint_poses, J, target);
  }
  for (int i = 0; i < task.rows * chain.nv; ++i) J[i] = L(0);
  sweep_points_jacobian(chain, task, joint_poses, moment, J);
}

// Copies `count` numbers to an array that does not overlap with `from`.
template <class T>
SUPPLE_INLINE void copy_numbers(int count, const T* SUPPLE_RESTRICT from, T* SUPPLE_RESTRICT to) {
  for (int i = 0; i < count; ++i) to[i] = from[i];
}

// Moves the rows that take part to the front of `values` (all, width).
template <class T>
SUPPLE_FN void keep_rows(const StepRows<T>& of, int width, T* values) {
  if (of.count == of.all) return;
  for (int i = 0, to = 0; i < of.all; ++i) {
    if (!(of.held[i] < Number<T>::huge)) continue;
    for (int j = 0; j < width; ++j) values[to * width + j] = values[i * width + j];
    ++to;
  }
}

// Computes J (count, n) of the rows that take part in the step. The array J has room for (all, n).
// `moment` is the scratch memory of `step_jacobian`.
template <class T>
SUPPLE_FN void rows_jacobian(const StepRows<T>& of, const Pose<T>* joint_poses, T* J,
                             T* moment = nullptr) {
  const int n = of.chain.nv;
  const T* const no_target = nullptr;
  for (int k = 0, row = 0; k < of.tasks; row += of.task[k++].rows) {
    step_jacobian(of.chain, of.task[k], joint_poses, J + row * n, no_target, moment);
  }
  keep_rows(of, n, J);
}

// Whether a task bends if the joints have the speeds v (n): whether J̇v v may not be zero.
template <class T>
SUPPLE_FN bool moves(const Chain<T>& chain, const Task<T>& task, const T* v) {
  if (traits_of(task).is_linear) return false;
  bool moving = false;
  for (int j = 0; depends_on_all_joints(task) && j < chain.nv; ++j) moving = moving || v[j] != 0;
  each_frame(task, [&](int number) {
    const Frame<T>& frame = chain.frame[number];
    for (int s = frame.support_begin; !moving && s < frame.support_end; ++s) {
      moving = v[chain.joint[chain.support[s].joint].v_index] != 0;
    }
  });
  return moving;
}

// Returns the result of `weighted_bias`, in one pass over the chain. `memory` has 12 entries for
// each joint.
template <class T>
SUPPLE_NOINLINE_DEVICE Vec3<T> sweep_points_bias(const Chain<T>& chain, const Task<T>& task,
                                                 const Pose<T>* joint_poses, const T* qd,
                                                 T* memory) {
  Rates<T>* const rate = reinterpret_cast<Rates<T>*>(memory);
  for (int j = 0; j < chain.joints; ++j) {
    const Joint<T>& joint = chain.joint[j];
    const Pose<T>& at = joint_poses[j];
    if (joint.motion == Motion::ball_axis) {  // the first axis did it for all three
      rate[j] = rate[j - 1];
      continue;
    }
    Rates<T>& body = rate[j];
    body = Rates<T>{};
    if (joint.parent >= 0)
      body = shift_rates(rate[joint.parent], at.p - joint_poses[joint.parent].p);
    if (joint.motion != Motion::ball) {
      add_joint(body, at.R.z, joint.motion == Motion::prismatic, T(qd[joint.v_index] * joint.scale),
                T(0));
      continue;
    }
    Vec3<T> u{T(0), T(0), T(0)};
    for (int k = 0; k < 3; ++k) u = fma(joint_poses[j + k].R.z, qd[joint.v_index + k], u);
    add_ball(body, u, u);
  }
  Vec3<T> sum{T(0), T(0), T(0)};
  for (int k = 0; k < task.points; ++k) {
    const Frame<T>& frame = chain.frame[task.point[k]];
    if (frame.joint < 0) continue;
    const Vec3<T> away = point_position(frame, joint_poses) - joint_poses[frame.joint].p;
    sum = fma(shift_rates(rate[frame.joint], away).a, T(task.share[k]), sum);
  }
  return sum;
}

// Computes J̇(v) v (count,) of the rows that take part, for joint speeds v (n). The array `bias`
// has room for (all,). With `memory`, 12 entries for each joint, sums of points take one pass.
template <class T>
SUPPLE_FN void rows_bias_acceleration(const StepRows<T>& of, const Pose<T>* joint_poses, const T* v,
                                      T* bias, T* memory = nullptr) {
  for (int k = 0, i = 0, row = 0; k < of.tasks; ++k) {
    T* const from = bias + row;  // after the rows that are already kept
    const bool moving = moves(of.chain, of.task[k], v);
    if (moving && traits_of(of.task[k]).is_sum && memory) {
      put_position_rows(of.task[k], sweep_points_bias(of.chain, of.task[k], joint_poses, v, memory),
                        from);
    } else if (moving) {
      task_bias_acceleration(of.chain, of.task[k], joint_poses, v, from);
    }
    for (int c = 0; c < of.task[k].rows; ++c, ++i) {
      if (of.held && !(of.held[i] < Number<T>::huge)) continue;
      bias[row++] = moving ? from[c] : T(0);
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
