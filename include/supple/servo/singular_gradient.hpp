// The gradient of a singular value of J.
//
// Let σ be a singular value of J with the singular vectors u and v. Its gradient is g with g_j =
// u·(∂J/∂q_j)v. If the joints move at v, each joint k contributes the twist (l_k, w_k)v_k to that
// of the task's frame relative to its base, where l is the velocity of the frame's origin. Turning
// joint j turns its own contribution and those of the joints after it; it also moves the frame's
// origin relative to the joints before it:
//
//   ∂l_k/∂q_j = w_j × l_k if j <= k, else w_k × l_j       ∂w_k/∂q_j = w_j × w_k if j < k, else 0
//
// In spatial coordinates l refers to a point that does not move, the base's origin: ∂l_k/∂q_j =
// w_j × l_k + l_j × w_k if j < k, else 0.
//
// For rows of another quantity f, only J̇(v)v is needed, the second derivative of f along v. By
// polarization, the second derivative of f along v and joint j is
//
//   ¼ (J̇(v + e_j)(v + e_j) - J̇(v - e_j)(v - e_j))
#pragma once

#include "supple/servo/step_rows.hpp"

namespace supple::inline SUPPLE_ISA {

// Adds to g (n) the gradient of p·[v; w] for fixed joint speeds `speed` (n), where [v; w] is the
// twist of a task's frame in the axes of its rows, and p (6) is fixed in these axes.
template <class T>
SUPPLE_FN void add_twist_gradient(const Chain<T>& chain, const Task<T>& task,
                                  const Pose<T>* joint_poses, const T* p, const T* speed, T* g) {
  const TaskPoses<T> at = task_poses(chain, task, joint_poses);
  const Vec3<T> point = at.spatial ? at.base.p : at.frame.p;
  const Vec3<T> a = at.axes * Vec3<T>{p[0], p[1], p[2]},
                b = (at.pointed ? at.frame.R : at.axes) * Vec3<T>{p[3], p[4], p[5]};
  const auto sum = [&](const Frame<T>& moved) {
    Twist<T> all = {};
    jacobian(chain, moved, joint_poses, point, [&](int j, const Twist<T>& twist, bool) {
      all = {fma(twist.v, speed[j], all.v), fma(twist.w, speed[j], all.w)};
    });
    return all;
  };
  // The joints form a chain from the base back to the joints that move both, and on to the frame.
  const auto [frame, base] = separate_supports(chain, task);
  const Twist<T> forth = sum(frame), back = sum(base);
  const Twist<T> whole{forth.v - back.v, forth.w - back.w};
  Twist<T> before{back.v * T(-1), back.w * T(-1)};  // the sum over the joints before the next one
  const auto slope = [&](const Twist<T>& twist) {
    const Vec3<T> v = whole.v - before.v, w = whole.w - before.w;
    const Vec3<T> moved = cross(twist.v, at.spatial ? w : before.w * T(-1));
    return dot(a, cross(twist.w, v) + moved) + dot(b, cross(twist.w, w));
  };
  const auto pass = [&](int j, const Twist<T>& twist) {
    before = {fma(twist.v, speed[j], before.v), fma(twist.w, speed[j], before.w)};
  };
  jacobian(chain, frame, joint_poses, point, [&](int j, const Twist<T>& twist, bool) {
    g[j] += slope(twist);
    pass(j, twist);
  });
  before = {back.v * T(-1), back.w * T(-1)};  // the joints of the base come in reverse order
  jacobian(chain, base, joint_poses, point, [&](int j, const Twist<T>& twist, bool) {
    pass(j, twist);
    g[j] -= slope(twist);
  });
  // Joints that turn the axes of the rows turn a and b.
  const auto turn = [&](const Frame<T>& axes, const Vec3<T>& moment) {
    jacobian(chain, axes, joint_poses, point,
             [&](int j, const Twist<T>& twist, bool) { g[j] += dot(twist.w, moment); });
    if (!at.moved) return;
    jacobian(chain, chain.frame[task.base], joint_poses, point,
             [&](int j, const Twist<T>& twist, bool) { g[j] -= dot(twist.w, moment); });
  };
  const Vec3<T> of_v = cross(a, whole.v), of_w = cross(b, whole.w);
  const Frame<T>& own = chain.frame[task.frame];
  if (at.turned) {
    turn(task.axes >= 0 ? chain.frame[task.axes] : own, at.pointed ? of_v : of_v + of_w);
  }
  if (at.pointed) turn(own, of_w);
}

// Adds to g (n) the gradient of p·v, where v is the velocity of the weighted sum of points of a
// task, and p (3) is fixed: in one pass from the root to the leaves and one pass back. `memory` has
// 13 entries for each joint.
template <class T>
SUPPLE_NOINLINE_DEVICE void sweep_points_gradient(const Chain<T>& chain, const Task<T>& task,
                                                  const Pose<T>* joint_poses, const Vec3<T>& p,
                                                  const T* speed, T* g, T* memory) {
  const Vec3<T> zero{T(0), T(0), T(0)};
  // For each joint, `body` is the twist of the body that it carries, with the velocity of that
  // body's point at the origin; `sums` are Σ share v, Σ share p and Σ share of the points that it
  // moves.
  Twist<T>* const body = reinterpret_cast<Twist<T>*>(memory);
  T* const sums = memory + 6 * chain.joints;
  const auto own = [&](int j) {
    const Pose<T>& at = joint_poses[j];
    const Vec3<T> z = at.R.z * T(chain.joint[j].scale);
    return chain.joint[j].motion == Motion::prismatic ? Twist<T>{z, zero}
                                                      : Twist<T>{cross(at.p, z), z};
  };
  const auto before = [&](int j) {
    const int parent = chain.joint[j].parent;
    return parent < 0 ? Twist<T>{zero, zero} : body[parent];
  };
  for (int j = 0; j < chain.joints; ++j) {
    const Twist<T> moved = own(j), last = before(j);
    const T rate = speed[chain.joint[j].v_index];
    body[j] = {fma(moved.v, rate, last.v), fma(moved.w, rate, last.w)};
  }
  for (int i = 0; i < 7 * chain.joints; ++i) sums[i] = T(0);
  for (int k = 0; k < task.points; ++k) {
    const Frame<T>& frame = chain.frame[task.point[k]];
    if (frame.joint < 0) continue;
    const Vec3<T> at = point_position(frame, joint_poses);
    const Twist<T>& twist = body[frame.joint];
    const Vec3<T> velocity = twist.v + cross(twist.w, at);
    const T share = task.share[k],
            part[7] = {velocity.x, velocity.y, velocity.z, at.x, at.y, at.z, T(1)};
    T* const sum = sums + 7 * frame.joint;
    for (int i = 0; i < 7; ++i) sum[i] = fma(part[i], share, sum[i]);
  }
  for (int j = chain.joints - 1; j >= 0; --j) {
    const T* const sum = sums + 7 * j;
    for (int i = 0; chain.joint[j].parent >= 0 && i < 7; ++i) {
      sums[7 * chain.joint[j].parent + i] += sum[i];
    }
    const Twist<T> moved = own(j), last = before(j);
    const Vec3<T> place{sum[3], sum[4], sum[5]};
    const Vec3<T> after =
        Vec3<T>{sum[0], sum[1], sum[2]} - fma(last.v, sum[6], cross(last.w, place));
    const Vec3<T> column = fma(moved.v, sum[6], cross(moved.w, place));
    T& slope = g[chain.joint[j].v_index];
    slope += dot(p, cross(moved.w, after) + cross(last.w, column));
  }
}

// Returns p·J̇(v)v for fixed p (rows) and the weighted rows J of a task of any kind.
template <class T>
SUPPLE_FN T bend_of_rows(const Chain<T>& chain, const Task<T>& task, const Pose<T>* joint_poses,
                         const T* p, const T* v) {
  T bias[6], sum(0);
  task_bias_acceleration(chain, task, joint_poses, v, bias);
  for (int i = 0; i < task.rows; ++i) sum = fma(p[i], bias[i], sum);
  return sum;
}

// Adds the gradient of p·J v to g (n), for the rows of a task of any kind. v (n) is modified and
// restored.
template <class T>
SUPPLE_NOINLINE void add_rows_gradient(const Chain<T>& chain, const Task<T>& task,
                                       const Pose<T>* joint_poses, const T* p, T* v, T* g) {
  for (int j = 0; j < chain.nv; ++j) {
    const T speed = v[j];
    v[j] = speed + T(1);
    const T more = bend_of_rows(chain, task, joint_poses, p, static_cast<const T*>(v));
    v[j] = speed - T(1);
    const T less = bend_of_rows(chain, task, joint_poses, p, static_cast<const T*>(v));
    v[j] = speed;
    g[j] += T(0.25) * (more - less);
  }
}

// Computes g (n) = u·(∂J/∂q)v for the rows that take part, with fixed u (count) and v (n); v is
// modified and restored. The rows of a tilt are taken as constant. With `memory`, 13 entries for
// each joint, sums of points take one pass over the joints.
template <class T>
SUPPLE_FN void singular_gradient(const StepRows<T>& of, const Pose<T>* joint_poses, const T* u,
                                 T* v, T* g, T* memory = nullptr) {
  for (int j = 0; j < of.chain.nv; ++j) g[j] = T(0);
  for (int k = 0, first = 0, row = 0; k < of.tasks; first += of.task[k++].rows) {
    const Task<T>& task = of.task[k];
    if (traits_of(task).is_linear) {
      for (int i = first; i < first + task.rows; ++i) {
        row += !of.held || of.held[i] < Number<T>::huge;
      }
      continue;
    }
    T p[7] = {};
    const bool by_component = has_components(task);
    each_row(task, [&](int i, int c, T weight) {
      if (of.held && !(of.held[first + i] < Number<T>::huge)) return;
      T& factor = p[by_component ? c : i];
      factor = fma(u[row++], by_component ? weight : T(1), factor);
    });
    if (!by_component) {
      add_rows_gradient(of.chain, task, joint_poses, static_cast<const T*>(p), v, g);
      continue;
    }
    if (traits_of(task).is_twist) add_twist_gradient(of.chain, task, joint_poses, p, v, g);
    if (traits_of(task).is_sum && memory) {
      sweep_points_gradient(of.chain, task, joint_poses, Vec3<T>{p[0], p[1], p[2]}, v, g, memory);
      continue;
    }
    for (int point = 0; traits_of(task).is_sum && point < task.points; ++point) {
      T part[6] = {};
      for (int c = 0; c < 3; ++c) part[c] = p[c] * task.share[point];
      add_twist_gradient(of.chain, task_of_point(task, point), joint_poses, part, v, g);
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
