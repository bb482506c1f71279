// The step of yielding.hpp far from singularities: the step without damping, by a Cholesky
// factorization. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/step/estimate.hpp"
#include "supple/step/fast_step.hpp"
#include "supple/servo/singular_step.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes the lower triangle of J Jᵀ, or of Jᵀ J if J (m x n) has more rows than columns, in `A`,
// min(m, n)² entries. In the second case zeros of J are skipped: a row of a posture has only one
// nonzero entry.
template <class T>
SUPPLE_FN void smaller_gram(int m, int n, const T* J, T* A) {
  if (m <= n) return gram(m, n, J, A);
  for (int i = 0; i < n * n; ++i) A[i] = T(0);
  for (int r = 0; r < m; ++r) {
    for (int i = 0; i < n; ++i) {
      const T entry = J[r * n + i];
      for (int j = 0; entry != 0 && j <= i; ++j)
        A[i * n + j] = fma(entry, J[r * n + j], A[i * n + j]);
    }
  }
}

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

// Whether all σ² of the rows that do not belong to postures are above `least`. `gram` (k x k) is
// that of all rows; A has k² entries and `some` m n, k = min(m, n).
template <class T, class M, class N>
SUPPLE_FN bool is_far_from_singular(M m, N n, const StepProblem<T>& of, const T* gram, T least,
                                    T* A, T* some) {
  if (of.linear) {
    int curved = 0;
    for (int r = 0; r < m; ++r) {
      if (of.bends[r] == 0) continue;
      for (int j = 0; j < n; ++j) some[curved * n + j] = of.J[r * n + j];
      ++curved;
    }
    if (curved == 0) return true;
    smaller_gram(curved, int(n), some, A);
    for (int j = 0; curved > int(n) && j < n; ++j) {
      if (of.stopped[j] != 0) A[j * n + j] = least + T(1);
    }
    return all_above(smaller(curved, int(n)), least, A);
  }
  const auto k = smaller(m, n);
  for (int i = 0; i < k * k; ++i) A[i] = gram[i];
  return all_above(k, least, A);
}

// Number of times that the inverse of J Jᵀ is squared to find the direction u.
inline constexpr int squarings = 3;

// Computes the left singular vector u (m) of the smallest singular value of J, where C (m, m) is
// the inverse of the Cholesky factor of J Jᵀ: the dominant vector of CᵀC, found by squaring it
// repeatedly. Returns the singular value. `A` and `B` have m² entries each, `turned` has m.
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

// Computes the step of.dq where J is far from singular. Returns false if it is not.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE bool regular_step(M m, N n, const StepProblem<T>& of, T* scratch) {
  const Servo<T>& servo = of.servo;
  const auto k = smaller(m, n);
  T *A = scratch, *B = A + k * k, *C = B + k * k, *D = C + k * k, *d = D + k * k, *x = d + n,
    *g = x + n, *e = g + n, *work = e + m, *some = work + 3 * m + 2 * n;
  for (int r = 0; r < m; ++r) e[r] = fma(servo.gain, of.offset[r], of.rate[r]);
  const T size = length(m, e), offset = length(m, of.offset);
  smaller_gram(m, n, of.J, A);
  for (int j = 0; int(m) > int(n) && j < n; ++j) {
    if (of.stopped[j] != 0) A[j * n + j] = A[0] + T(1);  // its row and column are zero
  }
  for (int i = 0; i < k * k; ++i) C[i] = A[i];
  const T pivot = relative_pivot(k, C);
  if (!(pivot > fast_path_pivot<T>)) return false;
  const T kappa = servo.curvature / servo.dt, near = near_square(servo, n, of.limit, size, offset),
          avoided = square(avoided_sigma<T> * kappa);
  const bool far =
      is_far_from_singular(m, n, of, A, of.avoids ? max(near, avoided) : near, B, some);
  if (!far && (!of.avoids || !is_far_from_singular(m, n, of, A, near, B, some))) return false;
  solve_normal(m, n, of.J, C, pivot, of.offset, d, work);
  const T gain = braking_gain(n, of.limit, servo.gain, servo.dt, d);
  for (int r = 0; r < m; ++r) e[r] = fma(gain, of.offset[r], of.rate[r]);
  solve_normal(m, n, of.J, C, pivot, e, x, work);
  for (int j = 0; j < n; ++j) of.dq[j] = x[j];
  copy_numbers(m * n, of.J, of.used_J);
  for (int r = 0; r < m; ++r) of.used_e[r] = e[r];
  if (!of.avoids) return true;
  for (int j = 0; j < n; ++j) g[j] = T(0);
  add_limit_slope(servo, of.q, g);
  if (!far) {
    T *u = some, *turned = u + m, *v = turned + m, *slope = v + n;
    for (int i = 0; i < m * m; ++i) B[i] = C[i];
    invert_lower(m, B);
    const T sigma = smallest_direction(m, B, u, A, D, turned);
    for (int j = 0; j < n; ++j) v[j] = T(0);
    for (int r = 0; r < m; ++r) {
      for (int j = 0; j < n; ++j) v[j] = fma(u[r] / sigma, of.J[r * n + j], v[j]);
    }
    add_singular_slope(servo, of.state, of.joint_poses, sigma, u, v, g, slope);
  }
  T any(0);
  for (int j = 0; j < n; ++j) {
    g[j] = of.stopped[j] == 0 ? g[j] : T(0);
    any += abs(g[j]);
  }
  if (!(any > 0)) return true;
  for (int round = 0; round < 2; ++round) {  // the second round removes rounding errors
    for (int r = 0; r < m; ++r) e[r] = dot(n, of.J + r * n, g);
    solve_normal(m, n, of.J, C, pivot, e, x, work);
    for (int j = 0; j < n; ++j) g[j] -= x[j];
  }
  of.state.self_moves = add_null_motion(n, g, of.dq);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
