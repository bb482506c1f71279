// Mode "halt": the motion slows down before a singularity and stops there.
//
// The speed along the command, as a fraction of the command, is at most a factor that falls
// linearly with the condition number (the ramp), unless this speed was already higher in the
// previous step and the limits prevent a lower speed. To ensure this, a step is taken only if the
// stop after it never becomes faster while it is above the ramp.
#pragma once

#include "supple/servo/condition.hpp"
#include "supple/servo/direction.hpp"
#include "supple/servo/state.hpp"

namespace supple::inline SUPPLE_ISA {

// Length of the trial motion that shows whether a step leads away from a singularity [rad or m].
template <class T>
inline constexpr T trial_length = T(1e-3);

// Ratio of two speeds up to which they count as equal, with room for rounding errors.
template <class T>
inline constexpr T same_speed = 1 + T(1e-10);

// Returns the factor of a ramp in the condition number: 1 up to `slow_condition`, 0 from
// `halt_condition` on, and linear between.
template <class T>
SUPPLE_FN T ramp_at(const Servo<T>& servo, T condition) {
  const T part = (servo.halt_condition - condition) / (servo.halt_condition - servo.slow_condition);
  return min(max(part, T(0)), T(1));
}

// Returns the factor by which a motion along x (n) from q (n) is reduced before a singularity. A
// motion that reduces the condition number, which is `here` at q, leads away from the singularity
// and is not slowed down. `scratch` has n entries and those of `condition_at`.
template <class T>
SUPPLE_FN T ramp_factor(const Servo<T>& servo, const StepRows<T>& rows, T here, const T* q,
                        const T* x, T* scratch) {
  const int n = rows.chain.nv;
  T *trial = scratch, *rest = trial + n;
  const T size = length(n, x);
  if (here <= servo.slow_condition || !(size > 0)) return T(1);
  integrate(rows.chain, q, x, T(trial_length<T> / size), trial);
  return condition_at(rows, trial, rest) < here ? T(1) : ramp_at(servo, here);
}

// Returns the factor of the speeds x (n) at the current configuration. `here` receives the
// condition number of J.
template <class T>
SUPPLE_FN T halting_factor(const Servo<T>& servo, const ServoState<T>& state, const T* x, T& here,
                           T* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
  T* const J = scratch;
  for (int i = 0; i < m * n; ++i) J[i] = state.J[i];
  here = condition_number(m, n, J, J + m * n);
  return ramp_factor(servo, rows_of(servo, state), here, state.q, x, scratch);
}

// Whether the joints can stop along the direction d (m) within all limits (`stops_along`), and
// never become faster while they are above the ramp. `pace` is the speed of the step before and
// `unit` that of d, both as factors of the command. q, v and c (n each; overwritten) are as in
// `stops_along`.
template <class T>
SUPPLE_FN bool stops_on_ramp(const Servo<T>& servo, const Stopper<T>& of, const T* d, T unit,
                             T pace, T* q, T* v, T* c, T* scratch) {
  return stops_along(of, d, q, v, c, scratch, [&](const T& s, const T* x, T* rest) {
    const T next = s * unit;
    if (next > pace * same_speed<T>) {
      const T here = condition_at(of.rows, q, rest);
      if (next > ramp_factor(servo, of.rows, here, q, x, rest)) return false;
    }
    pace = next;
    return true;
  });
}

// Returns a factor as `stoppable_factor` does, for a motion that halts: the joints can stop on the
// ramp (`stops_on_ramp`), at a configuration whose condition number allows it. `halts` becomes true
// if a larger factor would lead too close to a singularity; the step must then be on the ramp even
// if it leads away from the singularity at first. d (m) = J x is `unit` times the command, `here`
// the condition number of J. The factor is above `most` only if the box requires it.
template <class T>
SUPPLE_FN T halting_step(const Servo<T>& servo, const ServoState<T>& state, const Stopper<T>& of,
                         const T* d, T unit, T here, T most, const T* x, const T* low,
                         const T* high, bool& halts, T* scratch) {
  const int m = of.rows.count, n = of.rows.chain.nv;
  T *next = scratch, *speed = next + n, *change = speed + n, *rest = change + n;
  const Factors<T> found = factors_in_box(n, low, high, x, of.max_norm);
  if (!has_any(found)) return T(-1);
  const T fastest = min(max(most, found.least), found.most);
  // A motion on the ramp may take a step above the ramp only if it is not faster than the previous
  // step. After a reset, or if the direction was lost, the speed of the previous step along d is
  // unknown.
  const T before = dot(m, state.direction, d) / dot(m, d, d);
  const bool known = before > 0 || !(dot(n, state.qd, state.qd) > 0);
  const T on_ramp =
      known ? max(ramp_at(servo, here) / unit, before * same_speed<T>) : Number<T>::huge;
  for (int attempt = 0; attempt <= slower_tries; ++attempt) {
    const T part = attempt == slower_tries ? T(0) : T(1) / T(1 << (2 * attempt));
    const T s = found.least + part * (fastest - found.least);
    if (s <= on_ramp || (unit == T(1) && !halts)) {
      for (int j = 0; j < n; ++j) {
        speed[j] = s * x[j];
        change[j] = speed[j] - state.qd[j];
      }
      integrate(of.rows.chain, state.q, speed, of.dt, next);
      if (stops_on_ramp(servo, of, d, unit, s * unit, next, speed, change, rest)) {
        if (may_stop_at(of, next, rest)) return s;
        halts = true;
      }
    }
    if (fastest == found.least) break;
  }
  return T(-1);
}

}  // namespace supple::inline SUPPLE_ISA
