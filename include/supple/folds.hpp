// Folds: singularities where reach ends, such as a stretched arm.
//
// Along a singular direction u of the task, joint motion c v in a step of length dt moves the task
// by
//
//   E = σ c + ½ h c²,    h = dt u·J̇(v)v,
//
// and the fold, where that is largest, is at the distance σ/|h| dt from the joints. J alone
// overestimates the motion towards a fold and underestimates the motion away from it, from which it
// does not start at all at σ = 0. Both are corrected by the secant of the parabola: J moves by g
// instead of σ per unit of c, where g c = E.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "supple/limits.hpp"
#include "supple/step.hpp"
#include "supple/task.hpp"

namespace supple::inline SUPPLE_ISA {

// Curvature is ignored where σ² is above this multiple of κ dt ‖e‖: it changes the step along u by
// less than 1/40 there.
template <class T>
inline constexpr T fold_range = T(20);

// Joints with a smaller part in a direction do not stop it, and do not choose its side.
template <class T>
inline constexpr T fold_part = T(0.1);

// At a fold itself both sides lead away from it: the other one is taken if the joints have more
// room there by this factor.
template <class T>
inline constexpr T fold_room = T(4);

template <class T>
SUPPLE_FN constexpr int fold_scratch(const Chain<T>& chain, int m) {
  const int n = chain.coordinates, k = m < n ? m : n;
  return 12 * chain.joints + k * (k + m + n + 1) + m;
}

// What was corrected.
template <class T>
struct Fold {
  T beyond;  // length of the part of e beyond folds; negative if nothing was changed
  T depth;   // from 0 where the correction begins to 1 at a singularity
};

// How far joints can move along v (n) times `sign` inside their limits.
template <class T>
SUPPLE_FN T room_along(int n, const JointLimit<T>* limit, const T* q, const T* v, T sign) {
  T room = Number<T>::huge;
  for (int j = 0; j < n; ++j) {
    const T part = sign * v[j];
    if (abs(part) < fold_part<T>) continue;
    const T to_end = part > 0 ? limit[j].upper - q[j] : q[j] - limit[j].lower;
    room = min(room, max(to_end, T(0)) / abs(part));
  }
  return room;
}

// The largest speed along v (n) from which all joints stop within the distance `room`.
template <class T>
SUPPLE_FN T stopping_speed(int n, const JointLimit<T>* limit, const T* v, T room, T dt) {
  T fastest = room / dt;
  for (int j = 0; j < n; ++j) {
    const T part = abs(v[j]);
    if (part < fold_part<T> || !(limit[j].acceleration < Number<T>::huge)) continue;
    T span;
    fastest = min(fastest, braking_speed(room * part, limit[j].acceleration * dt, dt, span) / part);
  }
  return fastest;
}

// Corrects J (m x n) and e (m) for the folds nearby: J becomes the secant along weak
// directions, and e loses the part beyond a fold at which the joints could not stop. `curvature` is
// κ dt, where κ is the largest curvature of the robot.
template <class T>
SUPPLE_NOINLINE_DEVICE Fold<T> correct_folds(const Chain<T>& chain, int tasks, const Task<T>* task,
                                             int m, const JointLimit<T>* limit, T dt, T curvature,
                                             const T* q, T* J, T* e, T* scratch) {
  const int n = chain.coordinates, count = m < n ? m : n;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T *A = scratch + 12 * chain.joints, *u = A + count * count, *v = u + count * m,
    *sigma = v + count * n, *rows = sigma + count;
  const T least = fold_range<T> * curvature * length(m, e);
  if (!(least > 0)) return {T(-1), T(0)};
  if (m <= n) {
    gram(m, n, J, A);
  } else {
    for (int i = 0; i < n * n; ++i) A[i] = T(0);
    for (int r = 0; r < m; ++r) {
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j <= i; ++j) A[i * n + j] = fma(J[r * n + i], J[r * n + j], A[i * n + j]);
      }
    }
  }
  for (int i = 0; i < count; ++i) A[i * count + i] -= least;
  if (relative_pivot(count, A) > fast_path_pivot<T>) return {T(-1), T(0)};
  thin_svd(m, n, J, u, sigma, v);
  forward(chain, q, joint_poses);
  T lost(0);
  for (int i = count - 1; i >= 0 && sigma[i] * sigma[i] < least; --i) {
    const T *ui = u + i * m, *vi = v + i * n, s = sigma[i], E = dot(m, ui, e);
    T h(0);
    for (int k = 0, at = 0; k < tasks; at += task[k++].rows) {
      task_bias_acceleration(chain, task[k], joint_poses, vi, rows);
      h += dt * dot(task[k].rows, ui + at, rows);
    }
    T g = T(0.5) * (s + sqrt(max(s * s + 2 * h * E, T(0))));
    if (h * E < 0) {
      const T fastest = stopping_speed(n, limit, vi, s / abs(h) * dt, dt);
      const T most = fastest * (s - T(0.5) * abs(h) * fastest), excess = abs(E) - most;
      if (excess > 0) {
        g = s - T(0.5) * abs(h) * fastest;
        lost += excess * excess;
        for (int r = 0; r < m; ++r) e[r] -= copysign(excess, E) * ui[r];
      }
    } else if (g > 2 * s) {
      const T side = copysign(T(1), E);
      const T here = room_along(n, limit, q, vi, side), there = room_along(n, limit, q, vi, -side);
      if (there > fold_room<T> * here) g = -abs(h * E) / (2 * g);
    }
    for (int r = 0; r < m; ++r) {
      for (int j = 0; j < n; ++j) J[r * n + j] = fma((g - s) * ui[r], vi[j], J[r * n + j]);
    }
  }
  return {sqrt(lost), max(T(1) - square(sigma[count - 1]) / least, T(0))};
}

}  // namespace supple::inline SUPPLE_ISA
