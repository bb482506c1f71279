// Adjoints of damped least squares, for gradients of a loss. x_bar is the gradient with respect to
// x; matrices are C-ordered.
#pragma once

#include "supple/math/linalg.hpp"

namespace supple::inline SUPPLE_ISA {

// The lower triangle of A = J J^T + lambda2 I (m x m), for J (m x n).
template <class L, class M>
SUPPLE_FN void damped_product(M m, int n, const L* J, const L& lambda2, L* A) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j <= i; ++j) A[i * m + j] = dot(n, J + i * n, J + j * n);
    A[i * m + i] = A[i * m + i] + lambda2;
  }
}

// y <- J x for J (m x n).
template <class L>
SUPPLE_INLINE void times(int m, int n, const L* J, const L* x, L* y) {
  for (int i = 0; i < m; ++i) y[i] = dot(n, J + i * n, x);
}

// y <- y + a J^T x for J (m x n).
template <class L>
SUPPLE_INLINE void add_transposed(int m, int n, const L& a, const L* J, const L* x, L* y) {
  for (int i = 0; i < m; ++i) {
    const L ax = a * x[i];
    for (int j = 0; j < n; ++j) y[j] = fma(J[i * n + j], ax, y[j]);
  }
}

// Numbers of scratch memory for `solution_adjoint`.
SUPPLE_INLINE constexpr int solution_adjoint_memory(int m, int n) {
  return m * n + (m < n ? m * m : n * n) + (m < n ? m : n);
}

// The adjoint of the nearest solution: the step  dq = J^+ dx + (I - J^+ J) dq0  from a solution,
// with the damped pseudoinverse J^+ = J^T (J J^T + lambda2 I)^-1,
//
//   x_bar = (J J^T + lambda2 I)^-1 J q_bar        q0_bar = q_bar - J^T x_bar
//
// J (m x n) has columns of zeros for joints that do not move. q_bar is replaced by q0_bar. With
// more rows than columns, the equivalent expression J (J^T J + lambda2 I)^-1 q_bar is evaluated.
template <class L, class M>
SUPPLE_FN void solution_adjoint(M m, int n, const L* J, const L& lambda2, L* q_bar, L* x_bar,
                                L* scratch) {
  L* const A = scratch + m * n;
  if (m <= n) {
    damped_product(m, n, J, lambda2, A);
    times(m, n, J, q_bar, x_bar);
    ldl_solve(m, A, x_bar, A + m * m);
  } else {
    L *const transposed = scratch, *const y = transposed;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) transposed[j * m + i] = J[i * n + j];
    }
    damped_product(n, m, transposed, lambda2, A);
    for (int j = 0; j < n; ++j) y[j] = q_bar[j];  // J^T is not needed any more
    ldl_solve(n, A, y, A + n * n);
    times(m, n, J, y, x_bar);
  }
  add_transposed(m, n, L(-1), J, x_bar, q_bar);
}

// The damped step  qd = J^T y,  (J J^T + lambda2 I) y = x,  for lambda2 > 0. `factor` (m x m) is
// written for `step_adjoint`.
template <class L, class M>
SUPPLE_FN void damped_step(M m, int n, const L* J, const L* x, const L& lambda2, L* factor, L* y,
                           L* qd) {
  damped_product(m, n, J, lambda2, factor);
  cholesky(m, factor);
  for (int i = 0; i < m; ++i) y[i] = x[i];
  cholesky_solve(m, factor, y);
  for (int j = 0; j < n; ++j) qd[j] = L(0);
  add_transposed(m, n, L(1), J, y, qd);
}

// The adjoint of `damped_step` from qd_bar, which is overwritten:
//
//   x_bar = (J J^T + lambda2 I)^-1 J qd_bar        J_bar = y (qd_bar - J^T x_bar)^T - x_bar qd^T
template <class L, class M>
SUPPLE_FN void step_adjoint(M m, int n, const L* J, const L* factor, const L* y, const L* qd,
                            L* qd_bar, L* x_bar, L* J_bar) {
  times(m, n, J, qd_bar, x_bar);
  cholesky_solve(m, factor, x_bar);
  add_transposed(m, n, L(-1), J, x_bar, qd_bar);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) J_bar[i * n + j] = fma(y[i], qd_bar[j], -(x_bar[i] * qd[j]));
  }
}

}  // namespace supple::inline SUPPLE_ISA
