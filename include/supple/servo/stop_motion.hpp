// The motion of a step and of the stop after it, as a polyline in joint space (guard.hpp). Tuned
// constants are explained in docs/constants.md.
#pragma once

#include "supple/collision/certificate.hpp"
#include "supple/limits/limits.hpp"
#include "supple/robot/configuration.hpp"

namespace supple {

enum class StopKind : int {
  none,      // no stop is certified
  together,  // all joints slow down by the same factor
  each,      // each joint slows down by its own limits
};

// Settings and memory of a guarded control loop.
template <class T>
struct Guard {
  T clearance;                 // [m]
  const T* tracking;           // (n,): how far joints may be from the commanded motion; null for 0
  T dt;                        // [s]
  bool paced;                  // whether later steps have other lengths
  const JointLimit<T>* limit;  // (n,)
  StopKind stop;               // the certified stop after the last step
  int near;                    // number of pairs near the configuration of the step
  T* memory;                   // of guard_memory() entries
};

// Number of corners of a shape with rows of their own, and number of pairs that have such rows.
inline constexpr int most_corners = 8, cornered_pairs = 16;

// A step after the check of its stop: whether it was changed, and why.
struct GuardedStep {
  StopKind stop = StopKind::none;  // the certified stop after the step
  bool changed = false;            // whether the step is not the given one
  int pair = -1;                   // a pair that did not allow the given step
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Largest number of steps of a stop in which each joint slows down on its own.
inline constexpr int most_stop_steps = 1024;
// Largest numbers of placements of the shapes, and of trials of bounds, to certify one motion.
inline constexpr int most_placements = 12, most_tries = 40;
// Number of closest pairs that become rows of constraints, or more if more pairs are inside the
// clearance; the certificate covers all pairs.
inline constexpr int most_rows = 32;
// Time constant with which pairs inside the clearance are driven apart [s].
template <class T>
inline constexpr T escape_time = T(0.1);
// Largest rate at which such a pair is driven apart, as a share of the fastest rate that the joints
// allow: at full speed, the curvature of the motion may bring pairs closer.
template <class T>
inline constexpr T escape_share = T(0.25);
// Distance that all pairs inside the clearance gain in a step and its stop before one of them is
// driven out [m]: room for curvature.
template <class T>
inline constexpr T escape_gain = T(1e-6);
// Angles between the normal and directions in which low corners of a shape are found [rad].
template <class T>
inline constexpr T least_tilt = T(1e-3);
template <class T>
inline constexpr T largest_tilt = T(0.05);
// Smallest share of a step that is tried if the step is not certified.
template <class T>
inline constexpr T least_share = T(2e-3);
// Time in which the joints take up the speed of an approaching obstacle, at most [s].
template <class T>
inline constexpr T retreat_time = T(0.25);
// Distance beyond the clearance at which rows keep a pair [m]: without it, a pair at the clearance
// would leave no room for the curvature of any motion.
template <class T>
inline constexpr T standoff = T(1e-5);
// Distance by which rows drive a pair away from the clearance, at most, to make room for curvature
// [m]. With a low jerk limit, the bound on the curvature of a stop is large.
template <class T>
inline constexpr T largest_push = T(2e-3);
// Distance by which rounding may bring a pair closer in a step [m].
template <class T>
inline constexpr T rounding_distance = T(1e-12);

// Largest number of rows of constraints of all pairs of a model.
template <class T>
SUPPLE_FN constexpr int most_guard_rows(const CollisionModel<T>& model) {
  return 3 * (model.pairs + most_corners * cornered_pairs);
}

template <class T>
struct GuardMemory {
  Placed<T> placed, later;  // shapes at the start of the step, and later in a motion
  NearPair<T>*near, *near_later;
  T *reach, *along, *off;  // (joints,)
  T *still, *tracking;     // (joints,): zeros, and how far joints may be from the commanded motion
  T* floor;          // (pairs,): distances that pairs near the start must keep, huge for others
  T* bound;          // (moving,)
  T *rate, *of_row;  // (most_guard_rows,): later rows of pairs inside the clearance
  T *x, *stop, *delta, *aside, *v, *change, *part;  // (n,)
  T *at, *end;                                      // (nq,): configurations
  T* knot;                                          // (most_stop_steps + 2, nq)
};

template <class T>
SUPPLE_FN GuardMemory<T> guard_in(const CollisionModel<T>& model, T* memory, int& size) {
  Arena<T> arena(memory);
  GuardMemory<T> made;
  int used;
  made.placed = placed_in(model, arena.rest(), used);
  arena.take(used);
  made.later = placed_in(model, arena.rest(), used);
  arena.take(used);
  made.near = arena.template take_as<NearPair<T>>(model.pairs);
  made.near_later = arena.template take_as<NearPair<T>>(model.pairs);
  const int joints = model.chain.joints, n = model.chain.nv;
  T** const by_joint[] = {&made.reach, &made.along, &made.off, &made.still, &made.tracking};
  for (T** to : by_joint) *to = arena.take(joints);
  made.bound = arena.take(model.moving);
  made.floor = arena.take(model.pairs);
  made.rate = arena.take(most_guard_rows(model));
  made.of_row = arena.take(most_guard_rows(model));
  T** const by_coordinate[] = {&made.x, &made.stop,   &made.delta, &made.aside,
                               &made.v, &made.change, &made.part};
  for (T** to : by_coordinate) *to = arena.take(n);
  made.at = arena.take(model.chain.nq);
  made.end = arena.take(model.chain.nq);
  made.knot = arena.take((most_stop_steps + 2) * model.chain.nq);
  size = arena.size();
  return made;
}

// Displacements of the joints for a displacement x (n) of the robot.
template <class T>
SUPPLE_INLINE void to_joints(const Chain<T>& chain, const T* x, T* to, bool sizes = false) {
  for (int j = 0; j < chain.joints; ++j) {
    const T d = chain.joint[j].scale * x[chain.joint[j].v_index];
    to[j] = sizes ? abs(d) : d;
  }
}

// Returns a lower bound on the gap of a pair along its normal, for joints that rest within their
// tracking errors of the configuration of `placed`.
template <class T>
SUPPLE_FN T gap_at_rest(const CollisionModel<T>& model, const Guard<T>& guard,
                        const GuardMemory<T>& m, const Placed<T>& placed, const NearPair<T>& near) {
  if (!guard.tracking) return gap_of(placed, near);
  return gap_bounds(model, placed, near, {m.still, m.tracking}).start;
}

// A step at the speeds x and the stop of all joints together after it: the motion within `time`
// from q to q + x * span.
template <class T>
struct TogetherStop {
  T span, time;  // [s]
};

template <class T>
SUPPLE_FN TogetherStop<T> together_stop(const Guard<T>& guard, int n, const T* x) {
  T steps(0);  // number of steps that the slowest joint needs, with the last one in part
  for (int i = 0; i < n; ++i) {
    const T a = guard.limit[i].acceleration;
    if (a < Number<T>::huge) steps = max(steps, abs(x[i]) / (a * guard.dt));
  }
  if (guard.paced) return {guard.dt * (T(1) + T(0.5) * steps), guard.dt * (T(1) + steps)};
  if (!(steps < T(1e6))) return {Number<T>::huge, Number<T>::huge};
  const T whole = floor_small(steps);
  const T sum = whole > 0 ? whole - whole * (whole + T(1)) / (T(2) * steps) : T(0);
  return {guard.dt * (T(1) + sum), guard.dt * (T(1) + whole)};
}

// Whether all joints may stop together after a step at the speeds x: none has a jerk limit, and
// none passes its position limit.
template <class T>
SUPPLE_FN bool may_stop_together(const Guard<T>& guard, int n, const T* q, const T* x, T span) {
  for (int i = 0; i < n; ++i) {
    const JointLimit<T>& limit = guard.limit[i];
    const T end = integrate_coordinate(q[i], x[i], span), slack = T(1e-12) * (T(1) + abs(end));
    if (limit.jerk < Number<T>::huge) return false;
    if ((x[i] > 0 && end > limit.upper + slack) || (x[i] < 0 && end < limit.lower - slack))
      return false;
  }
  return true;
}

// Returns the next speed of a joint that stops on its own, and updates the change of its speed.
template <class T>
SUPPLE_FN T next_stop_speed(const JointLimit<T>& limit, T dt, T v, T& change) {
  if (limit.jerk < Number<T>::huge) {
    const T ramp = limit.jerk * dt * dt, most = largest_smooth_change(limit, dt, ramp);
    change = stopping_change(v, change, ramp, most);
    const T next = v + change;
    return abs(next) < T(1e-14) * ramp ? T(0) : next;
  }
  const T brake = limit.acceleration < Number<T>::huge ? limit.acceleration * dt : abs(v);
  change = -min(max(v, -brake), brake);
  return v + change;
}

// Writes the next step x (n) of a stop from the speeds v (n), which the last step changed by
// `change` (n).
template <class T>
SUPPLE_FN void stopping_speeds(const Guard<T>& guard, int n, StopKind kind, const T* v,
                               const T* change, T* x) {
  if (kind == StopKind::together) {
    T steps(0);
    for (int i = 0; i < n; ++i) {
      const T a = guard.limit[i].acceleration;
      if (a < Number<T>::huge) steps = max(steps, abs(v[i]) / (a * guard.dt));
    }
    const T factor = steps > T(1) ? T(1) - T(1) / steps : T(0);
    for (int i = 0; i < n; ++i) x[i] = factor * v[i];
    return;
  }
  for (int i = 0; i < n; ++i) {
    T c = change[i];
    x[i] = next_stop_speed(guard.limit[i], guard.dt, v[i], c);
  }
}

// Writes the configurations after each step of a motion: a step at the speeds x (n), and the stop
// of each joint on its own. Returns the number of steps, or -1 if there are too many.
template <class T>
SUPPLE_FN int simulate_stop(const Chain<T>& chain, const Guard<T>& guard, const T* q, const T* x,
                            const T* before, GuardMemory<T>& m) {
  const int n = chain.nv, nq = chain.nq;
  for (int i = 0; i < nq; ++i) m.knot[i] = q[i];
  for (int i = 0; i < n; ++i) {
    m.v[i] = x[i];
    m.change[i] = x[i] - before[i];
  }
  for (int k = 1; k <= most_stop_steps; ++k) {
    const T* const from = m.knot + (k - 1) * nq;
    integrate(chain, from, static_cast<const T*>(m.v), guard.dt, m.knot + k * nq);
    bool rests = true;
    for (int i = 0; i < n; ++i) {
      const T ramp = guard.limit[i].jerk * guard.dt * guard.dt;
      m.v[i] = next_stop_speed(guard.limit[i], guard.dt, m.v[i], m.change[i]);
      rests = rests && m.v[i] == T(0) && !(abs(m.change[i]) > ramp);
    }
    if (rests) return k;
  }
  return -1;
}

// Writes the configuration at position u on the polyline of `count` straight parts through m.knot.
// Positions are numbers from 0 to `count`.
template <class T>
SUPPLE_FN void position_on(const Chain<T>& chain, const GuardMemory<T>& m, int count, T u, T* to) {
  int k = int(u);
  k = k < count ? k : count - 1;
  const T *const a = m.knot + k * chain.nq, *const b = a + chain.nq;
  difference(chain, b, a, m.part);
  integrate(chain, a, static_cast<const T*>(m.part), u - T(k), to);
}

// Writes the chord m.delta of a part of the polyline, from m.at to the position `end`, and the
// largest deviations m.aside from it. Returns whether it deviates.
template <class T>
SUPPLE_FN bool chord_of(const Chain<T>& chain, GuardMemory<T>& m, int count, T begin, T end) {
  const int n = chain.nv;
  position_on(chain, m, count, end, m.end);
  difference(chain, static_cast<const T*>(m.end), static_cast<const T*>(m.at), m.delta);
  T whole(0);
  for (int i = 0; i < n; ++i) {
    m.aside[i] = T(0);
    whole += abs(m.delta[i]);
  }
  bool bends = false;
  for (int k = int(begin) + 1; T(k) < end; ++k) {
    difference(chain, static_cast<const T*>(m.knot + k * chain.nq), static_cast<const T*>(m.at),
               m.part);
    T done(0);
    for (int i = 0; i < n; ++i) done += abs(m.part[i]);
    const T share = whole > 0 ? min(done / whole, T(1)) : T(0);
    for (int i = 0; i < n; ++i) {
      const T away = abs(m.part[i] - share * m.delta[i]);
      m.aside[i] = max(m.aside[i], away);
      bends = bends || away > 0;
    }
  }
  return bends;
}

}  // namespace supple::inline SUPPLE_ISA
