// The second derivatives of the rows of tasks. The Gauss-Newton method neglects them; they matter
// where a residual remains.
#pragma once

#include "supple/servo/singular_gradient.hpp"

namespace supple::inline SUPPLE_ISA {

// Whether two coordinates belong to the same ball joint, whose three axes turn at once: the order
// of its coordinates does not matter.
template <class T>
SUPPLE_FN bool in_one_ball(const Chain<T>& chain, int i, int j) {
  for (int b = 0; b < chain.balls; ++b) {
    const int first = chain.ball[b];
    if (i >= first && i < first + 3) return j >= first && j < first + 3;
  }
  return false;
}

// Adds the second derivatives of p·f by the coordinates to the symmetric H, whose rows have s
// entries, where f is the weighted sum of a task's points and p (3) is fixed.
template <class T>
SUPPLE_NOINLINE_DEVICE void add_points_bends(const Chain<T>& chain, const Task<T>& task,
                                             const Pose<T>* joint_poses, const Vec3<T>& p, int s,
                                             T* H, T* memory) {
  T* const sums = memory;  // Σ share p and Σ share of the points after each joint
  for (int i = 0; i < 4 * chain.joints; ++i) sums[i] = T(0);
  for (int k = 0; k < task.points; ++k) {
    const Frame<T>& frame = chain.frame[task.point[k]];
    if (frame.joint < 0) continue;
    const Vec3<T> at = point_position(frame, joint_poses);
    T* const sum = sums + 4 * frame.joint;
    const T share = task.share[k], part[4] = {at.x, at.y, at.z, T(1)};
    for (int i = 0; i < 4; ++i) sum[i] = fma(part[i], share, sum[i]);
  }
  for (int k = chain.joints - 1; k >= 0; --k) {
    const Joint<T>& joint = chain.joint[k];
    const T* const sum = sums + 4 * k;
    for (int i = 0; joint.parent >= 0 && i < 4; ++i) sums[4 * joint.parent + i] += sum[i];
    const Vec3<T> z = joint_poses[k].R.z * T(joint.scale);
    const Vec3<T> away = fma(joint_poses[k].p, -sum[3], Vec3<T>{sum[0], sum[1], sum[2]});
    const Vec3<T> turned =
        cross(joint.motion == Motion::prismatic ? z * sum[3] : cross(z, away), p);
    for (int j = k; j >= 0; j = chain.joint[j].parent) {
      const Joint<T>& before = chain.joint[j];
      if (before.motion == Motion::prismatic) continue;
      const Vec3<T> axis = joint_poses[j].R.z * T(before.scale);
      T bend = dot(axis, turned);
      if (j != k && in_one_ball(chain, before.v_index, joint.v_index)) {
        bend = T(0.5) * (bend + dot(z, cross(cross(axis, away), p)));
      }
      H[before.v_index * s + joint.v_index] += bend;
      if (j != k) H[joint.v_index * s + before.v_index] += bend;
    }
  }
}

// Adds the second derivatives of p·f, as above, where f are the position and the rotation of a
// task's frame in world axes, and p (6) is fixed.
template <class T>
SUPPLE_NOINLINE_DEVICE void add_frame_bends(const Chain<T>& chain, const Task<T>& task,
                                            const Pose<T>* joint_poses, const T* p, int s, T* H,
                                            T* memory) {
  const Frame<T>& frame = chain.frame[task.frame];
  const Vec3<T> a{p[0], p[1], p[2]}, b = Vec3<T>{p[3], p[4], p[5]} * T(0.5);
  // Of each joint on the way to the frame: a × w and b × w, the velocity of its origin, and the
  // index.
  Twist<T>* const turned = reinterpret_cast<Twist<T>*>(memory);
  Vec3<T>* const moved = reinterpret_cast<Vec3<T>*>(memory + 6 * chain.joints);
  int* const column = reinterpret_cast<int*>(memory + 9 * chain.joints);
  int count = 0;
  const Vec3<T> point = frame_pose(frame, joint_poses).p;
  jacobian(chain, frame, joint_poses, point, [&](int k, const Twist<T>& twist, bool) {
    turned[count] = {cross(a, twist.w), cross(b, twist.w)};
    moved[count] = twist.v;
    column[count] = k;
    H[k * s + k] += dot(turned[count].v, twist.v);
    for (int i = 0; i < count; ++i) {
      T bend = dot(turned[i].v, twist.v);
      if (in_one_ball(chain, column[i], k)) {
        bend = T(0.5) * (bend + dot(turned[count].v, moved[i]));
      } else {
        bend += dot(turned[i].w, twist.w);
      }
      H[column[i] * s + k] += bend;
      H[k * s + column[i]] += bend;
    }
    ++count;
  });
}

// Adds the second derivatives of p·f, as above, where f are the rows of a task of any kind; p has
// one entry per row. `memory` has 2 n entries.
template <class T>
SUPPLE_NOINLINE void add_rows_bends(const Chain<T>& chain, const Task<T>& task,
                                    const Pose<T>* joint_poses, const T* p, int s, T* H,
                                    T* memory) {
  const int n = chain.nv;
  T *v = memory, *own = v + n;
  const auto bend = [&] {
    return bend_of_rows(chain, task, joint_poses, p, static_cast<const T*>(v));
  };
  for (int i = 0; i < n; ++i) v[i] = T(0);
  for (int i = 0; i < n; ++i) {
    v[i] = T(1);
    own[i] = bend();
    H[i * s + i] += own[i];
    for (int j = 0; j < i; ++j) {  // by polarization: see singular_gradient.hpp
      v[j] = T(1);
      const T both = T(0.5) * (bend() - own[i] - own[j]);
      v[j] = T(0);
      H[i * s + j] += both;
      H[j * s + i] += both;
    }
    v[i] = T(0);
  }
}

// Adds the second derivatives of u·f by the coordinates to the symmetric H (n, n), whose rows have
// s entries. f (count) are the values of the rows that take part, and u (count) is fixed. `memory`
// has `sweep_memory(chain)` entries.
template <class T>
SUPPLE_FN void add_bends(const StepRows<T>& of, const Pose<T>* joint_poses, const T* u, int s, T* H,
                         T* memory) {
  const int n = of.chain.nv;
  for (int k = 0, first = 0, row = 0; k < of.tasks; first += of.task[k++].rows) {
    const Task<T>& task = of.task[k];
    T p[7] = {};
    const bool linear = traits_of(task).is_linear, by_component = has_components(task);
    for (int i = 0; i < task.rows; ++i) {
      if (of.held && !(of.held[first + i] < Number<T>::huge)) continue;
      if (by_component) p[task.row[i]] = fma(u[row], task.weight[i], p[task.row[i]]);
      if (!by_component && !linear) p[i] = u[row];
      ++row;
    }
    if (linear) continue;
    if (!by_component) {
      add_rows_bends(of.chain, task, joint_poses, static_cast<const T*>(p), s, H, memory);
    } else if (traits_of(task).is_sum) {
      add_points_bends(of.chain, task, joint_poses, Vec3<T>{p[0], p[1], p[2]}, s, H, memory);
    } else if (task.base == task_world && task.axes == task_axes_base && task.about < 0) {
      add_frame_bends(of.chain, task, joint_poses, p, s, H, memory);
    } else {
      T *speed = memory, *slope = speed + n;
      for (int j = 0; j < n; ++j) {
        for (int i = 0; i < n; ++i) speed[i] = T(i == j), slope[i] = T(0);
        if (!moves(of.chain, task, static_cast<const T*>(speed))) continue;
        add_twist_gradient(of.chain, task, joint_poses, p, static_cast<const T*>(speed), slope);
        for (int i = 0; i < n; ++i) {
          H[i * s + j] += T(0.5) * slope[i];
          H[j * s + i] += T(0.5) * slope[i];
        }
      }
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
