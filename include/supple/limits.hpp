// Joint limits: the admissible speeds of the next step, and simple ways to stay within them.
#pragma once

#include "supple/lane.hpp"
#include "supple/linalg.hpp"

namespace supple {

// Limits of one joint; infinite where there is none.
template <class T>
struct JointLimit {
  T lower, upper;  // [rad or m]
  T speed;         // [rad/s or m/s]
  T acceleration;  // [rad/s² or m/s²]
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// floor(a), where that is exact (|a| below 2^51; in float 2^22).
template <class L>
SUPPLE_INLINE L floor_small(const L& a) {
  const L magic(Number<scalar_t<L>>::round_magic), nearest = (a + magic) - magic;
  return select(nearest > a, nearest - L(1), nearest);
}

// The largest speed from which a joint that slows down by `brake` = a dt in every step stops within
// `room` >= 0, this step included: with k more steps of braking it travels
// dt ((k + 1) v - brake k (k + 1)/2). `span` is the time this takes, (k + 1) dt, which is also the
// distance traveled per unit of additional speed.
template <class L>
SUPPLE_INLINE L braking_speed(const L& room, const L& brake, const L& dt, L& span) {
  using T = scalar_t<L>;
  const L steps = room / (brake * dt);
  // the largest k with k (k + 1)/2 <= steps; an error of one by rounding is harmless because the
  // two formulas agree there
  const L k = floor_small((sqrt(fma(L(T(8)), steps, L(T(1)))) - L(T(1))) * L(T(0.5)));
  span = (k + L(T(1))) * dt;
  return room / span + brake * k * L(T(0.5));
}

// The same for steps of different lengths: `later` (count >= 1) holds the lengths of the steps
// after this one, and the last of them repeats. A step of length h allows a speed that is higher by
// a h, and costs a h times the time until that step begins. Speeds above `max_speed` are not
// distinguished.
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
  // k more steps of length h cost a h² (k r + k (k - 1)/2), r = span/h
  const L h(later[count - 1]), r = span / h, one(1), half(T(0.5));
  const L steps = left / (acceleration * h * h), b = r - half;
  const L most_steps = floor_small(sqrt(fma(b, b, steps + steps)) - b);
  const L k = select(open, max(most_steps, L(0)), L(0));
  const L before = span;
  span = fma(k, h, before);
  return speed + left / span + acceleration * h * k * (k + one) * half / (r + k);
}

// Tolerance on the position at which a braking joint passes its limit by rounding, relative to its
// position: in double the accumulated error of some thousand steps of a control loop, where
// `advance` puts the joint back at the limit; in float that of one step.
template <class T>
inline constexpr T braking_slack = (sizeof(T) == sizeof(double) ? 4096 : 16) * Number<T>::epsilon;

// The admissible speeds of one joint in the next step of length dt [s], given its position and its
// current speed; `later` (count) are the lengths of the steps after it, of which the last repeats;
// all are dt if there are none.
//
// A joint that can stop inside its range by slowing down by at most a dt in each step keeps all
// limits, and still can after the step. A joint outside its range turns round at full acceleration
// and returns as fast as it can without having to brake harder at the other end. A joint that
// cannot stop in time, or exceeds its speed limit, is stopped nevertheless: the limits on position
// and speed have precedence over that on acceleration.
template <class L, class T>
SUPPLE_FN void joint_box(const JointLimit<T>& limit, const L& q, const L& speed, const L& dt,
                         L& low, L& high, const T* later = nullptr, int count = 0) {
  const L max_speed(limit.speed), zero(0);
  const L above = L(limit.upper) - q, below = q - L(limit.lower);
  const L to_upper = above / dt, to_lower = below / dt;  // the speeds that end at the limits
  const bool brakes = limit.acceleration < Number<T>::huge;
  L up = max(to_upper, zero), down = max(to_lower, zero), least = speed, greatest = speed;
  if (brakes) {
    const L acceleration(limit.acceleration), brake = acceleration * dt;
    least = speed - brake;
    greatest = speed + brake;
    // A speed that is too high by no more than rounding errors is not lowered further.
    const auto braked = [&](const L& room, const L& slowest) {
      L span;
      const L v = count ? braking_speed(room, acceleration, dt, later, count, max_speed, span)
                        : braking_speed(room, brake, dt, span);
      const L slack = L(braking_slack<T>) * (abs(q) + room);
      return select((slowest - v) * span <= slack, max(v, slowest), v);
    };
    if (limit.upper < Number<T>::huge) up = braked(max(above, zero), least);
    if (limit.lower > -Number<T>::huge) down = braked(max(below, zero), -greatest);
  }
  high = min(max_speed, up);
  low = -min(max_speed, down);
  // Outside: return at once or at full speed, but able to stop before the other end.
  const mask_t<L> over = above < zero, under = below < zero;
  if (any(over | under)) {
    const L back_down = max(max(to_upper, -max_speed), low),
            back_up = min(min(-to_lower, max_speed), high);
    high = select(over, back_down, high);
    low = select(under, back_up, low);
    if (brakes) {
      high = select(over, min(max(high, least), max_speed), high);
      low = select(under, max(min(low, greatest), -max_speed), low);
    }
  }
  if (!brakes) return;
  // The speeds nearest to the acceleration limits that positions and speeds allow.
  const L first = min(max(least, low), high), last = max(min(greatest, high), low);
  low = first;
  high = last;
}

// Factor below 1 for lengths that must keep a bound despite rounding.
template <class T>
inline constexpr T just_below = 1 - 8 * Number<T>::epsilon;

// Scales x as a whole so that it lies in the box, where the box contains zero, and is no longer
// than `bound`; entries whose box does not contain zero (a joint that must return) are clamped to
// it. Keeps the direction of motion. `active_set` marks the entries that required it.
template <class L>
SUPPLE_FN void scale_into_box(int n, const L* low, const L* high, const L& bound, L* x,
                              L* active_set) {
  const L size = sqrt(dot(n, x, x));
  const L most = bound * L(just_below<scalar_t<L>>);
  L factor = select(size > most, most / select(size > most, size, L(1)), L(1));
  for (int j = 0; j < n; ++j) {
    const mask_t<L> holds = (low[j] <= L(0)) & (high[j] >= L(0));
    const L edge = abs(select(x[j] > L(0), high[j], low[j])), far = abs(x[j]);
    const mask_t<L> out = holds & (far > edge);
    active_set[j] = select(out, edge / select(out, far, L(1)), L(1));
    factor = min(factor, active_set[j]);
  }
  for (int j = 0; j < n; ++j) {
    const L scaled = x[j] * factor, put = min(max(scaled, low[j]), high[j]);
    const mask_t<L> acted = ((active_set[j] < L(1)) & (active_set[j] <= factor)) | (put != scaled);
    const L end = select(low[j] > L(0), L(-1), select(high[j] < L(0), L(1), copysign(L(1), x[j])));
    active_set[j] = select(acted, end, L(0));
    x[j] = put;
  }
}

// Moves x, in the box, toward p, the point of the box nearest to zero, until it is no longer than
// `bound`: ‖p + t (x - p)‖ = bound.
template <class L>
SUPPLE_FN void shorten_in_box(int n, const L* low, const L* high, const L& bound, L* x) {
  L pp(0), pd(0), dd(0);
  for (int j = 0; j < n; ++j) {
    const L p = max(low[j], min(high[j], L(0))), d = x[j] - p;
    pp = fma(p, p, pp), pd = fma(p, d, pd), dd = fma(d, d, dd);
  }
  const mask_t<L> far = pp + pd + pd + dd > bound * bound;
  if (!any(far)) return;
  // dd t² + 2 pd t = room, where pd >= 0 because p is the nearest point
  const L room = max(bound * bound - pp, L(0)), half = max(pd, L(0));
  const L t = room / (half + sqrt(fma(half, half, dd * room)));
  const L part = select(far & (room > L(0)), t * L(just_below<scalar_t<L>>), L(0));
  for (int j = 0; j < n; ++j) {
    const L p = max(low[j], min(high[j], L(0)));
    x[j] = select(far, min(max(fma(part, x[j] - p, p), low[j]), high[j]), x[j]);
  }
}

}  // namespace supple::inline SUPPLE_ISA
