// The bound on the norm of all joint speeds, while joints brake or return within other limits.
#pragma once

#include "supple/limits/limits.hpp"
#include "supple/servo/state.hpp"

namespace supple::inline SUPPLE_ISA {

// Slows down joints that return from outside their limits if ‖q̇‖ would otherwise exceed `most`, to
// speeds between the required ones and the lowest that their acceleration limits allow. If these
// are too fast as well, the bound on the norm has precedence over the acceleration limits.
template <class L, class T, class N>
SUPPLE_FN void slow_return(const Servo<T>& servo, N n, const ServoState<L>& state, const L& most,
                           const mask_t<L>& exceeds, L* low, L* high) {
  const L zero(0);
  // Returns the speed of joint j nearest to zero: inside its box or, if the joint is outside its
  // limits, within its acceleration limit.
  const auto least = [&](int j) {
    const JointLimit<T>& limit = servo.limit[j];
    const bool brakes = limit.acceleration < Number<T>::huge;
    const L brake = L(brakes ? limit.acceleration : T(0)) * L(servo.dt), speed = state.qd[j];
    const L down = brakes ? min(speed + brake, zero) : zero;
    const L up = brakes ? max(speed - brake, zero) : zero;
    const L over = select(state.q[j] > L(limit.upper), max(high[j], down), high[j]);
    const L under = select(state.q[j] < L(limit.lower), min(low[j], up), low[j]);
    return select(high[j] < zero, over, select(low[j] > zero, under, zero));
  };
  L pp(0), pd(0), dd(0);
  for (int j = 0; j < n; ++j) {
    const L p = least(j), d = max(low[j], min(high[j], zero)) - p;
    pp = fma(p, p, pp), pd = fma(p, d, pd), dd = fma(d, d, dd);
  }
  // Solve ‖p + t d‖ = most for t.
  const L room = max(most * most - pp, zero), half = max(pd, zero);
  const mask_t<L> slows = exceeds & (room > zero);
  const L t =
      select(slows, room / select(slows, half + sqrt(fma(half, half, dd * room)), L(1)), zero);
  const mask_t<L> too_fast = exceeds & !(room > zero);
  const L slower = select(too_fast, most / sqrt(select(too_fast, pp, L(1))), L(1));
  for (int j = 0; j < n; ++j) {
    const L p = least(j), near = max(low[j], min(high[j], zero));
    const L to = fma(t, near - p, p) * slower;
    const mask_t<L> down = exceeds & (high[j] < zero), up = exceeds & (low[j] > zero);
    high[j] = select(down, to, high[j]);
    low[j] = select(up, to, low[j]);
    low[j] = select(down, min(low[j], high[j]), low[j]);
    high[j] = select(up, max(high[j], low[j]), high[j]);
  }
}

// Whether the jerk of some joint is limited.
template <class T>
SUPPLE_FN bool limits_jerk(const Servo<T>& servo) {
  bool limited = false;
  for (int j = 0; j < servo.chain.nv; ++j) {
    limited = limited || servo.limit[j].jerk < Number<T>::huge;
  }
  return limited;
}

// Whether there are both a bound on ‖q̇‖ and limits on jerk. With steps of different lengths, jerk
// limits are ignored.
template <class T>
SUPPLE_FN bool shares_bound(const Servo<T>& servo) {
  return servo.max_norm < Number<T>::huge && servo.later_count == 0 && limits_jerk(servo);
}

// Factor of a bound on ‖q̇‖ that leaves room for the rounding errors of many steps.
template <class T>
inline constexpr T within_bound = 1 - 4096 * Number<T>::epsilon;

// Narrows the boxes low and high (n) so that ‖q̇‖ keeps its bound in this step and while all joints
// stop after it. A joint with a jerk limit may still gain speed while its acceleration shrinks:
// what counts is the peak of its speed (`lowest_peak`). The joints share the bound: each gets a
// maximum of its own, between the lowest peak that it can have and the peak that it needs for the
// speed `goal` (n), or for its return from outside its limits. The norm of these maxima is within
// the bound. Any step inside the boxes is then within it as well, and the stop of all joints
// remains possible.
template <class T>
SUPPLE_FN void share_bound(const Servo<T>& servo, int n, const ServoState<T>& state, const T* goal,
                           T* low, T* high) {
  T most2(0);
  for (int j = 0; j < n; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    most2 += square(max(peak_after(limit, state.qd[j], low[j], servo.dt),
                        peak_after(limit, state.qd[j], high[j], servo.dt)));
  }
  const T bound = servo.max_norm * within_bound<T>;
  if (most2 <= bound * bound) return;
  const auto least = [&](int j) {
    return lowest_peak(servo.limit[j], state.qd[j], state.change[j], servo.dt);
  };
  const auto more = [&](int j, T at_least) {
    const T nearest = max(low[j], min(high[j], T(0)));
    return max(max(abs(goal[j]), abs(nearest)) - at_least, T(0));
  };
  T pp(0), pd(0), dd(0);
  for (int j = 0; j < n; ++j) {
    const T p = least(j), d = more(j, p);
    pp = fma(p, p, pp), pd = fma(p, d, pd), dd = fma(d, d, dd);
  }
  // Solve ‖p + t d‖ = bound for t. If even the lowest peaks exceed the bound, the bound has
  // precedence over the limits on acceleration and jerk.
  const T room = max(bound * bound - pp, T(0));
  const T t = pp + pd + pd + dd <= bound * bound ? T(1)
              : room > 0                         ? room / (pd + sqrt(fma(pd, pd, dd * room)))
                                                 : T(0);
  const T slower = pp > square(servo.max_norm) ? bound / sqrt(pp) : T(1);
  for (int j = 0; j < n; ++j) {
    JointLimit<T> limit = servo.limit[j];
    const T p = least(j);
    limit.speed = min(limit.speed, T(fma(t, more(j, p), p) * slower));
    T lowest, highest;
    joint_box(limit, state.q[j], state.qd[j], state.change[j], servo.dt, lowest, highest);
    low[j] = min(max(low[j], lowest), highest);
    high[j] = max(min(high[j], highest), lowest);
  }
}

}  // namespace supple::inline SUPPLE_ISA
