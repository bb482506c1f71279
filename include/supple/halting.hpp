// Mode "halt": the motion slows down before a singularity and stops there.
#pragma once

#include "supple/condition.hpp"
#include "supple/servo_state.hpp"

namespace supple::inline SUPPLE_ISA {

// Length of the trial motion that shows whether a step leads away from a singularity [rad or m].
template <class T>
inline constexpr T probe = T(1e-3);

// Returns the factor by which the speeds x (n) are reduced before a singularity: 1 up to the
// condition number `slow_condition`, 0 from `halt_condition` on, and linear between. A motion that
// reduces the condition number leads away from the singularity and is not slowed down. `here`
// receives the condition number of J.
template <class T>
SUPPLE_FN T halting_factor(const Servo<T>& servo, const ServoState<T>& state, const T* x, T& here,
                           T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  T *q = scratch, *rest = q + n, *J = rest;
  for (int i = 0; i < m * n; ++i) J[i] = state.J[i];
  here = condition_number(m, n, J, J + m * n);
  const T size = length(n, x);
  if (here <= servo.slow_condition || !(size > 0)) return T(1);
  for (int j = 0; j < n; ++j) q[j] = fma(probe<T> / size, x[j], state.q[j]);
  if (condition_at(rows_of(servo, state), q, rest) < here) return T(1);
  const T part = (servo.halt_condition - here) / (servo.halt_condition - servo.slow_condition);
  return min(max(part, T(0)), T(1));
}

}  // namespace supple::inline SUPPLE_ISA
