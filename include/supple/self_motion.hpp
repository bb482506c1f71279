// Self-motion that keeps a redundant arm away from singularities.
//
// Let σ be the smallest singular value of J with the singular vectors u (of the task) and v (of the
// joints). Its gradient is g with g_j = u·(∂J/∂q_j)v. A step that leads into a singularity reduces
// σ; self-motion along P g, the projection of g onto the null space of J, increases it and does not
// move the task. At the end of the reach P g is zero: there self-motion has no effect. Below, κ is
// the curvature of the robot, half its reach. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/estimate.hpp"
#include "supple/limits.hpp"
#include "supple/servo_state.hpp"
#include "supple/singular_gradient.hpp"
#include "supple/step.hpp"

namespace supple::inline SUPPLE_ISA {

// σ may decrease at this rate [1/s] times its distance from `kept_sigma` κ. Faster motion is
// compensated by self-motion, which at most keeps σ constant.
template <class T>
inline constexpr T approach_rate = T(3);
template <class T>
inline constexpr T kept_sigma = T(0.08);

// Self-motion begins where σ is below this multiple of κ, and has its full speed below `kept_sigma`
// κ.
template <class T>
inline constexpr T self_motion_range = T(0.13);

// Self-motion becomes weak where ‖P g‖ is below this multiple of κ, because it would have to be
// fast to have an effect, and where σ is below `singular_sigma` κ, because g is then uncertain.
template <class T>
inline constexpr T least_slope = T(0.1);
template <class T>
inline constexpr T singular_sigma = T(0.02);

// Number of times that the inverse of J Jᵀ is squared to find the direction u.
inline constexpr int squarings = 3;

SUPPLE_FN constexpr int self_motion_scratch(int joints, int m, int n) {
  return 12 * joints + m * n + 3 * m * m + 3 * m + 3 * n;
}

// Computes C (m, m), the inverse of the Cholesky factor of J Jᵀ, lower triangular, so that (J Jᵀ)⁻¹
// = CᵀC. Returns false if J (m x n) is singular to rounding.
template <class T, class M, class N>
SUPPLE_FN bool inverse_factor(M m, N n, const T* J, T* C) {
  gram(m, n, J, C);
  if (!all(cholesky(m, C))) return false;
  invert_lower(m, C);
  return true;
}

// Computes the left singular vector u (m) of the smallest singular value of J, where C (m, m) is
// from `inverse_factor`: the dominant vector of CᵀC, found by squaring it repeatedly. Returns the
// singular value. `A` and `B` have m² entries each, `turned` has m.
template <class T, class M>
SUPPLE_FN T smallest_direction(M m, const T* C, T* u, T* A, T* B, T* turned) {
  for (int i = 0; i < m; ++i) {
    for (int r = 0; r <= i; ++r) {
      T sum(0);
      for (int k = i; k < m; ++k) sum = fma(C[k * m + i], C[k * m + r], sum);
      A[i * m + r] = A[r * m + i] = sum;
    }
  }
  for (int round = 0; round < squarings; ++round) {
    T trace(0);
    for (int i = 0; i < m; ++i) trace += A[i * m + i];
    const T shrink = T(1) / trace;
    for (int i = 0; i < m * m; ++i) A[i] *= shrink;
    for (int i = 0; i < m; ++i) {
      for (int r = 0; r <= i; ++r) B[i * m + r] = B[r * m + i] = dot(m, A + i * m, A + r * m);
    }
    T* const squared = B;
    B = A, A = squared;
  }
  int most = 0;
  for (int i = 1; i < m; ++i) {
    if (A[i * m + i] > A[most * m + most]) most = i;
  }
  for (int i = 0; i < m; ++i) turned[i] = A[most * m + i];
  T size(0);
  for (int round = 0; round < 2; ++round) {
    const T unit = T(1) / length(m, turned);
    for (int i = 0; i < m; ++i) u[i] = turned[i] * unit;
    inverse_times(m, C, u, turned);
    size = dot(m, u, turned);
  }
  return T(1) / sqrt(size);
}

// Replaces x (n) by its projection onto the null space of J (m x n), with C from `inverse_factor`.
// `row` has 2 m entries.
template <class T, class M, class N>
SUPPLE_FN void project_to_null_space(M m, N n, const T* J, const T* C, T* x, T* row) {
  for (int round = 0; round < 2; ++round) {  // the second round removes rounding errors
    for (int i = 0; i < m; ++i) row[i] = dot(n, J + i * n, x);
    inverse_times(m, C, row, row + m);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) x[j] = fma(-J[i * n + j], row[m + i], x[j]);
    }
  }
}

// What a step is far from. Far from folds it needs no correction for them, and far from
// singularities no self-motion either.
struct FarFrom {
  bool folds, singularities;
};

// Compares the squares of the singular values of J (m x n) with `least`, below which folds are
// near, and with the range of self-motion. `scratch` has 2 m² entries.
template <class T, class M, class N>
SUPPLE_FN FarFrom far_from(M m, N n, const T* J, T kappa, T least, T* scratch) {
  const T range = square(self_motion_range<T> * kappa);
  T *G = scratch, *A = G + m * m;
  gram(m, n, J, G);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j <= i; ++j) A[i * m + j] = G[i * m + j];
  }
  if (all_above(m, max(least, range), A)) return {true, true};
  return {least < range && all_above(m, least, G), false};
}

// Adds self-motion to the step state.dq while the step leads into a singularity that self-motion
// avoids. It is at most as fast as the step, and slows down toward position limits. J (m x n) is
// that of the step without corrections. Returns whether any was added.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE bool add_self_motion(M m, N n, const Servo<T>& servo, ServoState<T>& state,
                                            const T* J, T* scratch) {
  const StepRows<T> rows = rows_of(servo, state);
  const T kappa = servo.curvature / servo.dt;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T *free = scratch + 12 * servo.chain.joints, *C = free + m * n, *A = C + m * m, *B = A + m * m,
    *u = B + m * m, *row = u + m, *v = row + 2 * m, *g = v + n, *x = g + n;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) free[i * n + j] = state.stopped[j] == 0 ? J[i * n + j] : T(0);
  }
  if (!inverse_factor(m, n, free, C)) return false;
  const T sigma = smallest_direction(m, C, u, A, B, row);
  if (sigma > self_motion_range<T> * kappa) return false;
  for (int j = 0; j < n; ++j) {
    T sum(0);
    for (int i = 0; i < m; ++i) sum = fma(u[i], free[i * n + j], sum);
    v[j] = sum / sigma;
  }
  forward(servo.chain, state.q, joint_poses);
  singular_gradient(rows, joint_poses, u, v, g);
  const T along_v = dot(n, v, state.dq), size = length(n, state.dq);
  const T rate = dot(n, g, state.dq) - along_v * dot(n, g, v);  // due to the motion across v
  const T slowest = -approach_rate<T> * (sigma - kept_sigma<T> * kappa);
  const T missing = min(T(slowest - rate), T(-rate));
  if (!(missing > 0) || !(size > 0)) return false;
  for (int j = 0; j < n; ++j) x[j] = state.stopped[j] == 0 ? g[j] : T(0);
  project_to_null_space(m, n, free, C, x, row);
  const T x2 = dot(n, x, x), s2 = sigma * sigma;
  T amount = missing / (x2 + square(least_slope<T> * kappa));
  amount *= s2 / (s2 + square(singular_sigma<T> * kappa));
  amount *=
      min((self_motion_range<T> - sigma / kappa) / (self_motion_range<T> - kept_sigma<T>), T(1));
  amount /= sqrt(T(1) + x2 * square(amount / size));  // not faster than the step
  for (int j = 0; j < n; ++j) {
    const T speed = amount * x[j], to = speed > 0 ? servo.limit[j].upper : servo.limit[j].lower;
    const T room = max(T((to - state.q[j]) * copysign(T(1), speed)), T(0));
    if (abs(speed) > approach_rate<T> * room) amount *= approach_rate<T> * room / abs(speed);
  }
  for (int j = 0; j < n; ++j) state.dq[j] = fma(amount, x[j], state.dq[j]);
  return amount > 0;
}

template <class T>
SUPPLE_FN bool add_self_motion(const Servo<T>& servo, ServoState<T>& state, const T* J,
                               T* scratch) {
  const int m = rows_of(servo, state).count, n = servo.chain.coordinates;
  if (m == 6 && n == 7) return add_self_motion(Fixed<6>{}, Fixed<7>{}, servo, state, J, scratch);
  return add_self_motion(m, n, servo, state, J, scratch);
}

}  // namespace supple::inline SUPPLE_ISA
