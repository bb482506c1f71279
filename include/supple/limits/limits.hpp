// Joint limits: the admissible speeds of a joint in the next step, and how a step is scaled to keep
// the limits.
#pragma once

#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/limits/stopping.hpp"
#include "supple/robot/configuration.hpp"

namespace supple {

// Limits of one joint; infinite where there is no limit.
template <class T>
struct JointLimit {
  T lower, upper;  // [rad or m]
  T speed;         // [rad/s or m/s]
  T acceleration;  // [rad/s² or m/s²]
  T jerk;          // [rad/s³ or m/s³]
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The distance by which a braking joint may appear to pass its position limit because of rounding,
// relative to its position. In double this covers the error accumulated over a few thousand steps
// of a control loop, in which `advance` sets such a joint back to its limit; in float, the error of
// one step.
template <class T>
inline constexpr T braking_slack = (sizeof(T) == sizeof(double) ? 4096 : 16) * Number<T>::epsilon;

// An infinite acceleration limit of a joint with a jerk limit is replaced by one that takes this
// many steps to reach.
inline constexpr int longest_ramp = 1 << 20;

// Returns the largest change of the speed in a step of length dt [s] of a joint with a jerk limit.
// `ramp` is the jerk limit of the joint times dt².
template <class L, class T>
SUPPLE_INLINE L largest_smooth_change(const JointLimit<T>& limit, const L& dt, const L& ramp) {
  return min(L(limit.acceleration) * dt, ramp * L(T(longest_ramp)));
}

// Returns the largest speed, in either direction, that a joint has in a step at the speed x and in
// the stop after this step. The joint stops as fast as its limits on acceleration and jerk allow.
// `speed` is the speed of the joint in the step before.
template <class T>
SUPPLE_FN T peak_after(const JointLimit<T>& limit, T speed, T x, T dt) {
  if (!(limit.jerk < Number<T>::huge)) return abs(x);
  return peak_speed(x, x - speed, T(limit.jerk * dt * dt));
}

// Returns the largest speed that a joint has from the next step on, in either direction, if the
// joint stops as fast as its limits on acceleration and jerk allow. No other motion has a lower
// largest speed.
template <class T>
SUPPLE_FN T lowest_peak(const JointLimit<T>& limit, T speed, T change, T dt) {
  if (!(limit.jerk < Number<T>::huge)) {
    return limit.acceleration < Number<T>::huge ? max(abs(speed) - limit.acceleration * dt, T(0))
                                                : T(0);
  }
  const T ramp = limit.jerk * dt * dt, most = largest_smooth_change(limit, dt, ramp);
  return peak_after(limit, speed, T(speed + stopping_change(speed, change, ramp, most)), dt);
}

// Computes the admissible speeds [low, high] of a joint with a jerk limit in the next step of
// length dt [s], given its position, its speed and the change of its speed in the last step. From
// each of these speeds the joint can stop inside its range by the stopping rule of stopping.hpp
// without exceeding any limit, so the next step has admissible speeds as well. A joint outside its
// range returns as fast as its limits allow. Returns the lanes where such speeds exist; on other
// lanes the jerk limit must be exceeded.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE mask_t<L> smooth_joint_box(const JointLimit<T>& limit, const L& q,
                                                  const L& speed, const L& change, const L& dt,
                                                  L& low, L& high) {
  const L ramp = L(limit.jerk) * dt * dt, zero(0), none = L(Number<T>::huge);
  const L most = largest_smooth_change(limit, dt, ramp), max_speed(limit.speed);
  const L above = coordinate_difference(L(limit.upper), q) / dt,
          below = coordinate_difference(q, L(limit.lower)) / dt;
  const mask_t<L> over = above < zero, under = below < zero;
  const L noise = L(T(16) * Number<T>::epsilon) * abs(q) / dt;
  mask_t<L> valid = L(0) == L(0);
  const auto largest = [&](const L& v, const L& c, const L& room, const mask_t<L>& outside) {
    return largest_next_change(v, c, ramp, most, max_speed, select(outside, none, room), noise,
                               valid);
  };
  high = speed + largest(speed, change, above, over);
  low = speed - largest(-speed, -change, below, under);
  // If the last change of speed was above the acceleration limit, the next change may not be able
  // to keep both the jerk and the acceleration limit.
  const L rounding = L(T(64) * Number<T>::epsilon) * (abs(speed) + abs(change) + ramp);
  valid = valid & (low <= high + rounding);
  high = select(over, max(min(high, max(above, -max_speed)), low), high);
  low = select(under, min(max(low, min(-below, max_speed)), high), low);
  return valid;
}

// Computes the admissible speeds [low, high] of one joint in the next step of length dt [s], given
// its position and its current speed, if its jerk is not limited. `later` (count) are the lengths
// of the steps after the next one, of which the last repeats; if count = 0, they are all dt.
//
// A joint that can stop inside its range by braking at its acceleration limit a (by a dt per step)
// keeps all limits, and can still stop after the step. A joint outside its range reverses at full
// acceleration and returns as fast as possible, but not too fast to stop before the other limit.
// A joint that cannot stop in time, or exceeds its speed limit, is slowed down even if this exceeds
// the acceleration limit: position and speed limits have precedence.
template <class L, class T>
SUPPLE_FN void braking_joint_box(const JointLimit<T>& limit, const L& q, const L& speed,
                                 const L& dt, L& low, L& high, const T* later, int count) {
  const L max_speed(limit.speed), zero(0);
  const L above = coordinate_difference(L(limit.upper), q),
          below = coordinate_difference(q, L(limit.lower));
  const L to_upper = above / dt, to_lower = below / dt;  // speeds that reach the limits in one step
  const bool brakes = limit.acceleration < Number<T>::huge;
  L up = max(to_upper, zero), down = max(to_lower, zero), least = speed, greatest = speed;
  if (brakes) {
    const L acceleration(limit.acceleration), brake = acceleration * dt;
    least = speed - brake;
    greatest = speed + brake;
    // Returns the largest admissible speed v toward a limit at the distance `room`. If the slowest
    // speed within the acceleration limit is above v only by rounding errors, this slowest speed is
    // returned instead.
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
  // A joint outside its range returns in one step or at full speed, but must be able to stop before
  // the other limit.
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
  // Intersect with the speeds that the acceleration limit allows. If there is no common speed, use
  // the speed within the position and speed limits that is nearest to those within the acceleration
  // limit.
  const L first = min(max(least, low), high), last = max(min(greatest, high), low);
  low = first;
  high = last;
}

// Computes the speeds [low, high] within the speed limit of a joint from which it can stop inside
// its range by braking at its acceleration limit. These speeds do not depend on the current speed.
template <class L, class T>
SUPPLE_FN void speed_box(const JointLimit<T>& limit, const L& q, const L& dt, L& low, L& high) {
  const bool brakes = limit.acceleration < Number<T>::huge;
  const L brake = L(brakes ? limit.acceleration : T(0)) * dt, max_speed(limit.speed), zero(0);
  const auto fastest = [&](const L& to_end) {
    const L room = max(to_end, zero);
    L span;
    return min(max_speed, brakes ? braking_speed(room, brake, dt, span) : room / dt);
  };
  const bool bounded[] = {limit.lower > -Number<T>::huge, limit.upper < Number<T>::huge};
  low = bounded[0] ? -fastest(coordinate_difference(q, L(limit.lower))) : -max_speed;
  high = bounded[1] ? fastest(coordinate_difference(L(limit.upper), q)) : max_speed;
}

// Computes the admissible speeds [low, high] of one joint in the next step: by `smooth_joint_box`
// where it has a jerk limit and can keep it, else by `braking_joint_box`. With steps of different
// lengths (count > 0) jerk limits are ignored.
template <class L, class T>
SUPPLE_FN void joint_box(const JointLimit<T>& limit, const L& q, const L& speed, const L& change,
                         const L& dt, L& low, L& high, const T* later = nullptr, int count = 0) {
  if (!(limit.jerk < Number<T>::huge) || count) {
    braking_joint_box(limit, q, speed, dt, low, high, later, count);
    return;
  }
  const mask_t<L> valid = smooth_joint_box(limit, q, speed, change, dt, low, high);
  if (all(valid)) return;
  L firm_low, firm_high;
  braking_joint_box(limit, q, speed, dt, firm_low, firm_high, later, count);
  low = select(valid, low, firm_low);
  high = select(valid, high, firm_high);
}

// Narrows the box of a joint with a jerk limit so that its speed approaches `goal` and can settle
// there without passing it. `ramp` = jerk dt² is the largest difference between the changes of the
// speed in two consecutive steps.
template <class L>
SUPPLE_FN void narrow_to(const L& goal, const L& speed, const L& ramp, L& low, L& high) {
  const L part = largest_change(abs(goal - speed), ramp), lowest = low, highest = high;
  const mask_t<L> rises = goal >= speed;
  const L first = select(rises, speed, speed - part), last = select(rises, speed + part, speed);
  low = min(max(first, lowest), highest);
  high = max(min(last, highest), lowest);
}

// Factor below 1 for scaling a vector so that its length stays within a bound despite rounding.
template <class T>
inline constexpr T just_below = 1 - 8 * Number<T>::epsilon;

// The bound that a step is shortened to, so that ‖x‖ <= `most` despite rounding, also where a user
// computes the norm in another way. Optimal damping aims lower (`optimal_lambda2`).
template <class T>
SUPPLE_FN constexpr T bound_within(const T& most) {
  return most * (1 - 16 * Number<T>::epsilon);
}

// Scales x by one factor, which keeps the direction of motion, so that it lies in the box and ‖x‖
// <= `bound`. Entries whose interval does not contain zero (joints that must return into their
// range) are clamped to it. `active_set` marks the entries that determine the factor or are
// clamped.
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

// Moves x, a point of the box, toward p, the point of the box nearest to zero, until ‖x‖ <=
// `bound`: x becomes p + t (x - p).
template <class L>
SUPPLE_FN void shorten_in_box(int n, const L* low, const L* high, const L& bound, L* x) {
  L pp(0), pd(0), dd(0);
  for (int j = 0; j < n; ++j) {
    const L p = max(low[j], min(high[j], L(0))), d = x[j] - p;
    pp = fma(p, p, pp), pd = fma(p, d, pd), dd = fma(d, d, dd);
  }
  const mask_t<L> far = pp + pd + pd + dd > bound * bound;
  if (!any(far)) return;
  // dd t² + 2 pd t = room, where pd >= 0 because p is the nearest point.
  const L room = max(bound * bound - pp, L(0)), half = max(pd, L(0));
  const L t = room / (half + sqrt(fma(half, half, dd * room)));
  const L part = select(far & (room > L(0)), t * L(just_below<scalar_t<L>>), L(0));
  for (int j = 0; j < n; ++j) {
    const L p = max(low[j], min(high[j], L(0)));
    x[j] = select(far, min(max(fma(part, x[j] - p, p), low[j]), high[j]), x[j]);
  }
}

}  // namespace supple::inline SUPPLE_ISA
