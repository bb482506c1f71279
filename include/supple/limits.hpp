// Joint limits: where the speeds of the next step may be, and simple ways to stay there.
#pragma once

#include "lane.hpp"
#include "linalg.hpp"

namespace supple {

// What a joint may do. Infinite where it is free.
template <class T>
struct JointLimit {
  T lower, upper;  // [rad or m]
  T speed;         // [rad/s or m/s]
  T acceleration;  // [rad/s² or m/s²]
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The largest whole number that is not above a, where it is exact (below 2^51; in float 2^22).
template <class L>
SUPPLE_INLINE L whole(const L& a) {
  const L magic(Number<scalar_t<L>>::round_magic), nearest = (a + magic) - magic;
  return select(nearest > a, nearest - L(1), nearest);
}

// The largest speed from which a joint that slows down by `brake` = a dt in every step comes to
// rest within `room` >= 0, this step included: with k steps of braking to come it travels
// dt ((k + 1) v - brake k (k + 1)/2).
template <class L>
SUPPLE_INLINE L braking_speed(const L& room, const L& brake, const L& dt) {
  using T = scalar_t<L>;
  const L steps = room / (brake * dt);
  // the largest k with k (k + 1)/2 <= steps; where rounding takes one too many or too few the two
  // formulas meet, so it does not matter
  const L k = whole((sqrt(fma(L(T(8)), steps, L(T(1)))) - L(T(1))) * L(T(0.5)));
  return room / ((k + L(T(1))) * dt) + brake * k * L(T(0.5));
}

// Where the speed of one joint may be in the next step of length dt [s], given where it is and how
// fast it went. Inside the limits and slow enough to brake, all of them hold; a joint outside them
// comes back as fast as speed and acceleration allow, and one too fast to stop is stopped: position
// and speed hold, the acceleration gives way.
template <class L, class T>
SUPPLE_FN void joint_box(const JointLimit<T>& limit, const L& q, const L& speed, const L& dt,
                         L& low, L& high) {
  const L most(limit.speed), zero(0);
  const L above = L(limit.upper) - q, below = q - L(limit.lower);
  const L room_up = max(above, zero), room_down = max(below, zero);
  L up = room_up / dt, down = room_down / dt;
  const bool brakes = limit.acceleration < Number<T>::huge;
  const L brake = L(limit.acceleration) * dt;
  if (brakes) {
    if (limit.upper < Number<T>::huge) up = braking_speed(room_up, brake, dt);
    if (limit.lower > -Number<T>::huge) down = braking_speed(room_down, brake, dt);
  }
  high = min(most, up);
  low = -min(most, down);
  // Outside: back, at once or at full speed.
  const mask_t<L> over = above < zero, under = below < zero;
  const L back_down = max(above / dt, -most), back_up = min(-below / dt, most);
  high = select(over, back_down, high);
  low = select(over, min(low, back_down), low);
  low = select(under, back_up, low);
  high = select(under, max(high, back_up), high);
  if (!brakes) return;
  const L least = speed - brake, greatest = speed + brake;
  high = select(over, max(high, least), high);
  low = select(under, min(low, greatest), low);
  // The nearest of what positions and speeds allow to what the acceleration does.
  const L first = min(max(least, low), high), last = max(min(greatest, high), low);
  low = first;
  high = last;
}

// How far below a bound a length aims that is made to keep it: rounding shall not take it beyond.
template <class T>
inline constexpr T just_below = 1 - 8 * Number<T>::epsilon;

// Scales x as a whole so that it lies in the box, where the box holds zero, and is no longer than
// `bound`; entries whose box does not hold zero (a joint that must come back) are put into it.
// Keeps the direction of motion. `side` tells which entries it was that needed it.
template <class L>
SUPPLE_FN void scale_into_box(int n, const L* low, const L* high, const L& bound, L* x, L* side) {
  const L size = sqrt(dot(n, x, x));
  const L most = bound * L(just_below<scalar_t<L>>);
  L factor = select(size > most, most / select(size > most, size, L(1)), L(1));
  for (int j = 0; j < n; ++j) {
    const mask_t<L> holds = (low[j] <= L(0)) & (high[j] >= L(0));
    const L edge = abs(select(x[j] > L(0), high[j], low[j])), far = abs(x[j]);
    const mask_t<L> out = holds & (far > edge);
    side[j] = select(out, edge / select(out, far, L(1)), L(1));
    factor = min(factor, side[j]);
  }
  for (int j = 0; j < n; ++j) {
    const L scaled = x[j] * factor, put = min(max(scaled, low[j]), high[j]);
    const mask_t<L> acted = ((side[j] < L(1)) & (side[j] <= factor)) | (put != scaled);
    const L end = select(low[j] > L(0), L(-1), select(high[j] < L(0), L(1), copysign(L(1), x[j])));
    side[j] = select(acted, end, L(0));
    x[j] = put;
  }
}

// x, in the box, -> the point between it and the point p of the box nearest to zero that is no
// longer than `bound`: ‖p + t (x - p)‖ = bound.
template <class L>
SUPPLE_FN void shorten_in_box(int n, const L* low, const L* high, const L& bound, L* x) {
  L pp(0), pd(0), dd(0);
  for (int j = 0; j < n; ++j) {
    const L p = max(low[j], min(high[j], L(0))), d = x[j] - p;
    pp = fma(p, p, pp), pd = fma(p, d, pd), dd = fma(d, d, dd);
  }
  const mask_t<L> far = pp + pd + pd + dd > bound * bound;
  if (!any(far)) return;
  // dd t² + 2 pd t = room, where pd >= 0: p is the nearest point
  const L room = max(bound * bound - pp, L(0)), half = max(pd, L(0));
  const L t = room / (half + sqrt(fma(half, half, dd * room)));
  const L part = select(far & (room > L(0)), t * L(just_below<scalar_t<L>>), L(0));
  for (int j = 0; j < n; ++j) {
    const L p = max(low[j], min(high[j], L(0)));
    x[j] = select(far, min(max(fma(part, x[j] - p, p), low[j]), high[j]), x[j]);
  }
}

}  // namespace supple::inline SUPPLE_ISA
