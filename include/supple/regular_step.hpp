// The step of yielding.hpp far from singularities: the exact one, by a Cholesky factorization.
#pragma once

#include "supple/self_motion.hpp"
#include "supple/singular_step.hpp"

namespace supple::inline SUPPLE_ISA {

// `smaller_gram` for sizes known at compile time.
template <class T, int M, int N>
SUPPLE_FN void smaller_gram(Fixed<M> m, Fixed<N> n, const T* J, T* A) {
  gram(m, n, J, A);
}

// The smaller one of two sizes.
SUPPLE_FN constexpr int smaller(int m, int n) { return m < n ? m : n; }
template <int M, int N>
SUPPLE_FN constexpr Fixed<(M < N ? M : N)> smaller(Fixed<M>, Fixed<N>) {
  return {};
}

// Solves J x = e for the shortest x (n), or for the x with the smallest ‖J x - e‖ if J (m x n) has
// more rows than columns, with the Cholesky factor A of `smaller_gram` and its smallest relative
// pivot. `scratch` has 2 m + n entries.
template <class T, class M, class N>
SUPPLE_FN void solve_normal(M m, N n, const T* J, const T* A, T pivot, const T* e, T* x,
                            T* scratch) {
  T *left = scratch, *change = left + m;
  const int rounds = pivot >= refined_pivot<T> ? 1 : 2;
  for (int j = 0; j < n; ++j) x[j] = T(0);
  for (int round = 0; round < rounds; ++round) {
    for (int r = 0; r < m; ++r) left[r] = round ? e[r] - dot(n, J + r * n, x) : e[r];
    if (int(m) <= int(n)) cholesky_solve(m, A, left);
    for (int j = 0; j < n; ++j) change[j] = T(0);
    for (int r = 0; r < m; ++r) {
      for (int j = 0; j < n; ++j) change[j] = fma(J[r * n + j], left[r], change[j]);
    }
    if (int(m) > int(n)) cholesky_solve(n, A, change);
    for (int j = 0; j < n; ++j) x[j] += change[j];
  }
}

// Whether all σ² of the rows that are not of postures are above `least`. J is (m x n), gram (k x k)
// that of all rows; A has k² entries and `some` m n, k = min(m, n).
template <class T, class M, class N>
SUPPLE_FN bool is_far_from_singular(const Servo<T>& servo, const ServoState<T>& state, M m, N n,
                                    const T* J, const T* gram, T least, T* A, T* some) {
  int curved = 0;
  bool linear = false;
  for (int k = 0, i = 0, r = 0; k < servo.tasks; ++k) {
    const bool posture = servo.task[k].goal == Goal::posture;
    linear = linear || posture;
    for (const int end = i + servo.task[k].rows; i < end; ++i) {
      if (state.held && !(state.held[i] < Number<T>::huge)) continue;
      for (int j = 0; !posture && j < n; ++j) some[curved * n + j] = J[r * n + j];
      curved += !posture;
      ++r;
    }
  }
  if (linear) {
    if (curved == 0) return true;
    smaller_gram(curved, int(n), some, A);
    return all_above(smaller(curved, n), least, A);
  }
  const auto k = smaller(m, n);
  for (int i = 0; i < k * k; ++i) A[i] = gram[i];
  return all_above(k, least, A);
}

// Computes the step state.dq where J is far from singular. Returns false if it is not.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE bool regular_step(M m, N n, const Servo<T>& servo, ServoState<T>& state,
                                         const StepCommand<T>& of, T* scratch) {
  const auto k = smaller(m, n);
  T *A = scratch, *B = A + k * k, *C = B + k * k, *D = C + k * k, *d = D + k * k, *x = d + n,
    *g = x + n, *e = g + n, *work = e + m, *some = work + 3 * m + 2 * n;
  const T size = length(m, state.desired), offset = length(m, of.offset);
  smaller_gram(m, n, of.J, A);
  for (int i = 0; i < k * k; ++i) C[i] = A[i];
  const T pivot = relative_pivot(k, C);
  if (!(pivot > fast_path_pivot<T>)) return false;
  const T kappa = servo.curvature / servo.dt, near = near_square(servo, size, offset),
          avoided = square(avoided_sigma<T> * kappa);
  const bool redundant = servo.tasks == 1 && int(m) < int(n);
  const bool far = is_far_from_singular(servo, state, m, n, of.J, A,
                                        redundant ? max(near, avoided) : near, B, some);
  if (!far && (!redundant || !is_far_from_singular(servo, state, m, n, of.J, A, near, B, some)))
    return false;
  solve_normal(m, n, of.J, C, pivot, of.offset, d, work);
  const T gain = braking_gain(servo, d);
  for (int r = 0; r < m; ++r) e[r] = fma(gain, of.offset[r], of.rate[r]);
  solve_normal(m, n, of.J, C, pivot, e, x, work);
  for (int j = 0; j < n; ++j) state.dq[j] = x[j];
  for (int i = 0; i < m * n; ++i) state.J[i] = of.J[i];
  for (int r = 0; r < m; ++r) state.e[r] = e[r];
  if (!redundant) return true;
  for (int j = 0; j < n; ++j) g[j] = T(0);
  add_limit_slope(servo, state.q, g);
  if (!far) {
    T *u = some, *turned = u + m, *v = turned + m, *slope = v + n;
    for (int i = 0; i < m * m; ++i) B[i] = C[i];
    invert_lower(m, B);
    const T sigma = smallest_direction(m, B, u, A, D, turned);
    for (int j = 0; j < n; ++j) v[j] = T(0);
    for (int r = 0; r < m; ++r) {
      for (int j = 0; j < n; ++j) v[j] = fma(u[r] / sigma, of.J[r * n + j], v[j]);
    }
    add_singular_slope(servo, state, of.joint_poses, sigma, u, v, g, slope);
  }
  T any(0);
  for (int j = 0; j < n; ++j) {
    g[j] = state.stopped[j] == 0 ? g[j] : T(0);
    any += abs(g[j]);
  }
  if (!(any > 0)) return true;
  for (int round = 0; round < 2; ++round) {  // the second round removes rounding errors
    for (int r = 0; r < m; ++r) e[r] = dot(n, of.J + r * n, g);
    solve_normal(m, n, of.J, C, pivot, e, x, work);
    for (int j = 0; j < n; ++j) g[j] -= x[j];
  }
  state.self_moves = add_null_motion(n, g, state.dq);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
