// Stopping a joint: the largest speed from which it stops in time, and the distance that it needs.
//
// Time advances in steps of length dt. The acceleration limit bounds the change of the speed per
// step, by a dt; the jerk limit bounds the difference between two consecutive changes, by j dt²
// (`ramp`).
#pragma once

#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {

// Returns floor(a) for |a| below 2^51 (float: 2^22).
template <class L>
SUPPLE_INLINE L floor_small(const L& a) {
  const L magic(Number<scalar_t<L>>::round_magic), nearest = (a + magic) - magic;
  return select(nearest > a, nearest - L(1), nearest);
}

// Returns the largest speed v from which a joint stops within the distance `room` >= 0, if it moves
// at v in this step and then slows down by `brake` = a dt in every step. With k steps of braking it
// travels dt ((k + 1) v - brake k (k + 1)/2). `span` receives the time (k + 1) dt, which is also
// the distance traveled per unit of additional speed.
template <class L>
SUPPLE_INLINE L braking_speed(const L& room, const L& brake, const L& dt, L& span) {
  using T = scalar_t<L>;
  const L steps = room / (brake * dt);
  // The largest k with k (k + 1)/2 <= steps. An error of one by rounding is harmless, because the
  // formulas for k and k + 1 agree there.
  const L k = floor_small((sqrt(fma(L(T(8)), steps, L(T(1)))) - L(T(1))) * L(T(0.5)));
  span = (k + L(T(1))) * dt;
  return room / span + brake * k * L(T(0.5));
}

// `braking_speed` for steps of different lengths: `later` (count >= 1) holds the lengths of the
// steps after this one; the last length repeats. Each further step of braking, of length h, allows
// a speed that is higher by a h, and uses up the distance that this additional speed covers until
// that step begins. A result above `max_speed` is not accurate.
template <class L, class T>
SUPPLE_FN L braking_speed(const L& room, const L& acceleration, const L& dt, const T* later,
                          int count, const L& max_speed, L& span) {
  L left = room, speed(0);
  mask_t<L> open = L(0) == L(0);
  span = dt;
  for (int i = 0; i + 1 < count; ++i) {
    const L h(later[i]), more = acceleration * h, cost = more * span;
    open = open & (left > cost) & (speed < max_speed);
    if (!any(open)) return speed + left / span;
    left = select(open, left - cost, left);
    speed = select(open, speed + more, speed);
    span = select(open, span + h, span);
  }
  // k more steps of length h use up the distance a h² (k r + k (k - 1)/2), with r = span/h.
  const L h(later[count - 1]), r = span / h, one(1), half(T(0.5));
  const L steps = left / (acceleration * h * h), b = r - half;
  const L most_steps = floor_small(sqrt(fma(b, b, steps + steps)) - b);
  const L k = select(open, max(most_steps, L(0)), L(0));
  const L before = span;
  span = fma(k, h, before);
  return speed + left / span + acceleration * h * k * (k + one) * half / (r + k);
}

// ---- with a limited jerk ------------------------------------------------------------------------
//
// The stopping rule with a limited jerk: a joint with the speed v, which the last step changed by
// c, stops by changing its speed in the next step by
//   c' = -sign(v) a(|v|),   clamped to c ± ramp and to ± most,
// where a(s) is the first of a sequence of changes, each smaller than the one before by `ramp`,
// whose sum is s: a + (a - ramp) + (a - 2 ramp) + ... = s. If c permits it, this stops the joint as
// fast as the limits allow without passing zero. The rule is consistent: after each step, the rest
// of the stop is the stop that the rule gives from there.

// Returns a(rest) of the stopping rule: the first and largest of the changes that add up to rest >=
// 0.
template <class L>
SUPPLE_INLINE L largest_change(const L& rest, const L& ramp) {
  L span;
  return braking_speed(rest, ramp, L(1), span);
}

// Returns the next change of the speed under the stopping rule.
template <class L>
SUPPLE_INLINE L stopping_change(const L& speed, const L& change, const L& ramp, const L& most) {
  const L to_rest = -copysign(largest_change(abs(speed), ramp), speed);
  return min(max(to_rest, max(change - ramp, -most)), min(change + ramp, most));
}

// Returns the sum of the changes after `change` if their sizes shrink to zero as fast as the jerk
// limit allows.
template <class L>
SUPPLE_INLINE L shrinking_sum(const L& change, const L& ramp) {
  const L size = abs(change) / ramp, whole = floor_small(size);
  return copysign(ramp * whole * fma(L(scalar_t<L>(-0.5)), whole + L(1), size), change);
}

// Returns the largest speed, in either direction, that a joint has from now on under the stopping
// rule: its present speed, or its speed when the changes have shrunk to zero.
template <class L>
SUPPLE_INLINE L peak_speed(const L& speed, const L& change, const L& ramp) {
  return max(abs(speed), abs(speed + shrinking_sum(change, ramp)));
}

// Returns the sum of the speeds of all later steps under the stopping rule, up to the step after
// which the joint is farthest ahead; at least zero. Times dt, this sum is the distance that the
// joint needs to stop. The sum grows with the speed and with the change. `steps` receives the
// number of these steps.
//
// The stop has three phases: changes that fall by `ramp` from step to step, changes of -most, and
// changes that shrink to zero. If the change is already too negative for this, the speed passes
// zero, and the changes rise by `ramp` from the beginning.
template <class L>
SUPPLE_FN L stopping_sum(const L& speed, const L& change, const L& ramp, const L& most, L& steps) {
  using T = scalar_t<L>;
  const L zero(0), one(1), half(T(0.5)), sixth(T(1) / T(6));
  // Whether the speed remains above zero if its changes shrink to zero from now on.
  const mask_t<L> ahead = speed + shrinking_sum(change, ramp) >= zero;

  // First phase: p changes, of which the i-th is change - ramp i. The phase lasts as long as the
  // changes are not below -most, and the speed is high enough for shrinking changes to end at rest.
  const L b = -change / ramp, floor_b = floor_small(b), part = b - floor_b;
  const L below_root = fma(b, b, speed / ramp) - floor_b * fma(half, floor_b - one, part);
  const L until_rest = floor_small(sqrt(max(below_root, zero)) - b);
  const L until_most = floor_small((change + most) / ramp);
  const L p = max(min(until_most, until_rest), zero), pp = p * (p + one);
  const L falling = p * speed + pp * (half * change - sixth * ramp * (p + L(T(2))));
  const L after = fma(p, change, speed) - half * ramp * pp;
  // Second phase: r changes of -most.
  const L ramps = floor_small(most / ramp);
  const L rest_of_most = (ramps + one) * fma(-half * ramp, ramps, most);  // a(rest_of_most) = most
  const mask_t<L> constant = (until_most <= until_rest) & (after >= rest_of_most);
  const L r = select(constant, floor_small((after - rest_of_most) / most) + one, zero);
  const L level = r * fma(-half * most, r + one, after);
  // Third phase: span + 1 changes that shrink to zero.
  const L end = max(fma(-most, r, after), zero);
  L span;
  const L a = braking_speed(end, ramp, one, span);
  const L shrinking =
      span * (fma(-half * a, span + one, end) + sixth * ramp * (span - one) * (span + one));

  // If the speed passes zero: k changes, of which the i-th is change + ramp i, while the speed is
  // above zero.
  const L slope = fma(half, ramp, change);
  const L root = sqrt(max(slope * slope - L(T(2)) * ramp * speed, zero));
  const L k = max(-floor_small((slope + root) / ramp) - one, zero), kk = k * (k + one);
  const L passing = k * speed + kk * fma(sixth * ramp, k + L(T(2)), half * change);
  steps = select(ahead, p + r + span, k + one);
  return select(ahead, max(falling + level + shrinking, zero), select(speed > zero, passing, zero));
}

// Returns the lanes where a joint is so far from its limits that the change `next` is certainly
// admissible. This follows from upper bounds on the speed that it reaches and on the number of
// steps until rest, which need no square root. The arguments are those of `largest_next_change`;
// `unit` is the rounding error of a change.
template <class L>
SUPPLE_INLINE mask_t<L> is_far(const L& speed, const L& change, const L& next, const L& ramp,
                               const L& most, const L& max_speed, const L& room, const L& noise,
                               const L& unit) {
  using T = scalar_t<L>;
  const L zero(0), one(1), per_ramp = one / ramp, rising = max(next, zero);
  // Upper bound on the rise of the speed after the change `next`, while the changes shrink to zero.
  const L more = rising * fma(rising, per_ramp, one);
  const L ramps = fma(abs(change) + ramp, per_ramp, one);
  const L top = max(speed + next, zero) + more;
  const L steps = fma(rising + most + most, per_ramp, top / most) + L(T(4));
  const L margin = steps * fma(steps * fma(steps, L(T(0.125)), one), unit, noise);
  const mask_t<L> slow = max_speed - speed - ramps * ramps * unit >= more;
  return slow & (fma(top, steps, margin) <= room);
}

// Returns the largest next change after which a joint can still stop under the stopping rule within
// `room`, and never moves faster than `max_speed`. `valid` is cleared where even the change of the
// stopping rule itself is too large. `room` and `noise`, the rounding error of a position in one
// step, are distances divided by dt. A part of `room` is reserved for the rounding errors of all
// steps until rest.
template <class L>
SUPPLE_FN L largest_next_change(const L& speed, const L& change, const L& ramp, const L& most,
                                const L& max_speed, const L& room, const L& noise,
                                mask_t<L>& valid) {
  using T = scalar_t<L>;
  const L zero(0), one(1);
  const L unit = L(T(16) * Number<T>::epsilon) * (abs(speed) + abs(change) + ramp);
  const mask_t<L> limited = max_speed < L(Number<T>::huge);
  L high = min(change + ramp, most);
  if (all(is_far(speed, change, high, ramp, most, max_speed, room, noise, unit))) return high;
  const L stop = stopping_change(speed, change, ramp, most);
  if (any(limited)) {
    const L ramps = one + (abs(change) + ramp) / ramp, margin = ramps * ramps * unit;
    const L below = max_speed - speed - margin;
    const L to_limit = select(below < zero, below, largest_change(max(below, zero), ramp));
    high = select(limited, min(high, to_limit), high);
    valid = valid & (stop <= high + margin + margin);
  }
  high = max(high, stop);
  L margin;
  const auto excess = [&](const L& next) {
    L steps;
    const L sum = stopping_sum(speed + next, next, ramp, most, steps);
    // A rounding error of one change acts on all later speeds.
    const L count = steps + one;
    margin = count * fma(count * fma(count, L(T(0.125)), one), unit, noise);
    return speed + next + sum - room + margin;
  };
  L at_high = excess(high);
  mask_t<L> open = at_high > zero;
  if (!any(open)) return high;
  L low = stop, at_low = excess(stop);
  valid = valid & !(open & (at_low > margin + margin));
  L best = select(open, stop, high);
  open = open & (at_low < zero);
  const L close = L(T(64) * Number<T>::epsilon) * (abs(stop) + most);
  // Whether the last two rounds moved the same end of the bracket, and whether the last trial fits.
  mask_t<L> again = L(0) != L(0), fitted = again;
  for (int round = 0; round < 48 && any(open); ++round) {
    // Regula falsi, where the value at an end that stays is halved (Illinois method). After some
    // rounds, every second round bisects instead.
    at_high = select(again & fitted, at_high * L(T(0.5)), at_high);
    at_low = select(again & !fitted, at_low * L(T(0.5)), at_low);
    const L secant = fma(high - low, at_low / (at_low - at_high), low);
    const L middle = L(T(0.5)) * (low + high);
    const L next = round < 8 || round % 2 ? min(max(secant, low), high) : middle;
    const L at = excess(next);
    const mask_t<L> fits = at <= zero;
    best = select(open & fits, next, best);
    open = open & !(fits & (at >= -close)) & (high - low > close);
    if (round > 0) again = (fits & fitted) | !(fits | fitted);
    fitted = fits;
    at_high = select(fits, at_high, at);
    at_low = select(fits, at, at_low);
    high = select(fits, high, next);
    low = select(fits, next, low);
  }
  return best;
}

}  // namespace supple::inline SUPPLE_ISA
