// The rows of held tasks: the derivative J of their quantities, and the error e to their targets.
//
// The rows of J in task/task.hpp give velocities, which equal the derivatives of the quantities
// where the error is zero. The rotation rows of a held task are derivatives everywhere, so that a
// frame may turn freely in one direction and is held exactly in another: with φ = log(R* Rᵀ), the
// vector of the rotation that remains,
//
//   dφ = -M(φ) w dt,   M(φ) = 1 + φ×/2 + (1 - θ/2 cot(θ/2)) φ×φ×/θ²,   θ = |φ|
//
// The row of a coupling, by which a joint follows the polynomial p of the position of another one,
// is that of q - p(q_leader). The curvature of this row is considered in corrections (holding.hpp),
// not in the rules for singular directions.
#pragma once

#include "supple/servo/state.hpp"

namespace supple::inline SUPPLE_ISA {

// Whether a task controls some, but not all components of a rotation vector.
template <class T>
SUPPLE_FN bool turns_partly(const Task<T>& task) {
  if (!has_pose(task) || task.about >= 0) return false;
  int turns = 0;
  for (int i = 0; i < task.rows; ++i) turns += task.row[i] >= 3;
  return turns == 1 || turns == 2;
}

// Returns M(φ) x.
template <class T>
SUPPLE_FN Vec3<T> turn_rate(const Vec3<T>& phi, const Vec3<T>& x) {
  const T square = dot(phi, phi), half = T(0.5) * sqrt(square);
  T sine, cosine;
  sincos(half, sine, cosine);
  const T factor =
      square > T(1e-8) ? (T(1) - half * cosine / sine) / square : T(1) / T(12) + square / T(720);
  const Vec3<T> once = cross(phi, x);
  return fma(cross(phi, once), factor, fma(once, T(0.5), x));
}

// Returns a task for all components of the pose of a task.
template <class T>
SUPPLE_FN Task<T> all_rows(const Task<T>& task) {
  Task<T> whole = task;
  whole.rows = 6;
  for (int i = 0; i < 6; ++i) whole.row[i] = i, whole.weight[i] = T(1);
  return whole;
}

// Returns the error of a coupling, and the slope of its polynomial.
template <class T>
SUPPLE_FN T coupling_error(const Task<T>& task, const T* q, const T* target, T& slope) {
  const T x = q[task.leader];
  T value(0);
  slope = T(0);
  for (int i = 4; i >= 0; --i) {
    slope = fma(slope, x, value);
    value = fma(value, x, task.curve[i]);
  }
  const T follows = coordinate_difference(q[task.coordinate[0]], value);
  return coordinate_difference(target[0], follows);
}

// Computes e (rows) of a held task.
template <class T>
SUPPLE_FN void held_task_error(const Chain<T>& chain, const Task<T>& task,
                               const Pose<T>* joint_poses, const T* q, const T* target, T* e) {
  if (task.curve) {
    T slope;
    e[0] = coupling_error(task, q, target, slope);
  } else if (!turns_partly(task)) {
    task_offset(chain, task, joint_poses, q, target, e);
  } else {
    T offset[6];
    task_offset(chain, all_rows(task), joint_poses, q, target, offset);
    each_row(task, [&](int i, int c, T weight) { e[i] = offset[c] * weight; });
  }
}

// Computes J (rows, n) and e (rows) of a held task. `scratch` has 6 n + 6 entries.
template <class T>
SUPPLE_FN void held_task_rows(const Chain<T>& chain, const Task<T>& task,
                              const Pose<T>* joint_poses, const T* q, const T* target, T* J, T* e,
                              T* scratch) {
  const T* const no_target = nullptr;
  if (task.curve) {
    T slope;
    e[0] = coupling_error(task, q, target, slope);
    for (int j = 0; j < chain.nv; ++j) J[j] = T(0);
    J[task.coordinate[0]] = T(1);
    J[task.leader] -= slope;
    return;
  }
  if (!turns_partly(task)) {
    task_jacobian(chain, task, joint_poses, J, no_target);
    return task_offset(chain, task, joint_poses, q, target, e);
  }
  const int n = chain.nv;
  T *all = scratch, *offset = all + 6 * n;
  const Task<T> whole = all_rows(task);
  task_jacobian(chain, whole, joint_poses, all, no_target);
  task_offset(chain, whole, joint_poses, q, target, offset);
  const Vec3<T> phi{offset[3], offset[4], offset[5]};
  for (int j = 0; j < n; ++j) {
    const Vec3<T> w = turn_rate(phi, Vec3<T>{all[3 * n + j], all[4 * n + j], all[5 * n + j]});
    const T column[6] = {all[j], all[n + j], all[2 * n + j], w.x, w.y, w.z};
    each_row(task, [&](int i, int c, T weight) { J[i * n + j] = column[c] * weight; });
  }
  each_row(task, [&](int i, int c, T weight) { e[i] = offset[c] * weight; });
}

// Writes the target that a task meets at a configuration.
template <class T>
SUPPLE_FN void reached_target(const Chain<T>& chain, const Task<T>& task,
                              const Pose<T>* joint_poses, const T* q, T* target) {
  if (!traits_of(task).is_linear) return task_reached(chain, task, joint_poses, target);
  for (int i = 0; i < task.rows; ++i) target[i] = q[task.coordinate[i]];
}

}  // namespace supple::inline SUPPLE_ISA
