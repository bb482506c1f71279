// A step of a control loop after which the robot keeps its distance from obstacles, even if it has
// to stop.
//
// Invariant: the stop from the current state is certified, that is, no pair comes closer than the
// clearance during it. A step is taken only if the step and the stop after it are certified;
// otherwise the robot continues the stop that was certified before. Rows of constraints on the
// speeds make this rare: the rows are the same bound, linearized in the speeds.
//
// In the stop, all joints slow down together: like the step before it, this motion is a straight
// line in joint space. Where a joint would pass its position limit on the way, or has a jerk limit,
// each joint slows down on its own by the stopping rule of stopping.hpp, along a curve whose
// deviation from its chord enters the bound. A motion that is not certified as a whole is divided.
#pragma once

#include "supple/servo/stop_motion.hpp"

namespace supple::inline SUPPLE_ISA {

// The distance that a pair must keep: the clearance plus the distance that an obstacle may travel,
// or the present distance of the pair if that is smaller.
template <class T>
SUPPLE_INLINE T least_distance(const Guard<T>& guard, T speed, T time, T gap) {
  return min(fma(speed, time, guard.clearance), gap - rounding_distance<T>);
}

// Returns the first of `count` pairs that may come closer than their distance `least` during the
// motion from the current configuration of `placed` that m.along and m.off describe, or -1.
template <class T>
SUPPLE_FN int first_unsafe(const CollisionModel<T>& model, const Placed<T>& placed,
                           const NearPair<T>* near, int count, const JointMotion<T>& motion) {
  for (int i = 0; i < count; ++i) {
    const GapBounds<T> bounds = gap_bounds(model, placed, near[i], motion);
    if (min(bounds.start, bounds.end) < near[i].least) return i;
  }
  return -1;
}

// Certifies the motion along the polyline m.knot with `count` parts, which starts at the
// configuration of the step and takes at most `time`. Returns whether it is certified; `pair`
// receives a pair that is not.
template <class L, class T>
SUPPLE_FN bool certify(const CollisionModel<T>& model, const Guard<T>& guard, int count, T time,
                       GuardMemory<T>& m, int& pair) {
  const int n = model.chain.nv;
  for (int i = 0; i < guard.near; ++i) {
    NearPair<T>& near = m.near[i];
    const T gap = gap_at_rest(model, guard, m, m.placed, near);
    near.least = least_distance(guard, near.speed, time, gap);
    m.floor[near.pair] = near.least;
  }
  for (int i = 0; i < model.chain.nq; ++i) m.at[i] = m.knot[i];
  T begin(0), end = T(count);
  const Placed<T>* placed = &m.placed;
  const NearPair<T>* near = m.near;
  int near_count = guard.near, placements = 0;
  bool whole = true;  // whether the part reaches to the end of the motion
  for (int tries = 0; tries < most_tries; ++tries) {
    const bool bends = chord_of(model.chain, m, count, begin, end);
    to_joints(model.chain, m.delta, m.along);
    to_joints(model.chain, m.aside, m.off, true);
    for (int j = 0; j < model.chain.joints; ++j) m.off[j] += m.tracking[j];
    if (begin == T(0) && whole) {
      for (int j = 0; j < model.chain.joints; ++j) {
        if (abs(m.along[j]) + m.off[j] > m.reach[j]) return false;  // `near` covers no such motion
      }
    }
    const int bad = first_unsafe(model, *placed, near, near_count,
                                 {m.along, bends || guard.tracking ? m.off : nullptr});
    if (bad < 0) {
      if (whole) return true;
      if (placements == most_placements) return false;
      placements += 1;
      begin = end;
      end = T(count);
      whole = true;
      position_on(model.chain, m, count, begin, m.at);
      place<L>(model, m.at, m.later);
      chord_of(model.chain, m, count, begin, end);
      for (int i = 0; i < n; ++i) m.delta[i] = abs(m.delta[i]) + m.aside[i];
      to_joints(model.chain, m.delta, m.off, true);
      for (int j = 0; j < model.chain.joints; ++j) m.off[j] += m.tracking[j];
      near_count = near_pairs<L>(model, m.later, m.off, guard.clearance, guard.clearance, time,
                                 m.bound, model.pairs, m.near_later);
      for (int i = 0; i < near_count; ++i) {
        NearPair<T>& found = m.near_later[i];
        found.least = min(m.floor[found.pair], fma(found.speed, time, guard.clearance));
      }
      placed = &m.later;
      near = m.near_later;
    } else {
      pair = near[bad].pair;
      const T half = T(0.5) * (end - begin);
      // A shorter part does not help a pair that is too close where the part begins.
      const T gap = gap_at_rest(model, guard, m, *placed, near[bad]);
      if (gap < near[bad].least || half < T(1e-3)) return false;
      end = begin + half;
      whole = false;
    }
  }
  return false;
}

// Certifies a step at the speeds x (n) from q (n) and the stop after it; `before` (n) are the
// speeds of the step before. Returns the stop, or none.
template <class L, class T>
SUPPLE_FN StopKind certified_stop(const CollisionModel<T>& model, const Guard<T>& guard, const T* q,
                                  const T* x, const T* before, GuardMemory<T>& m, int& pair) {
  const int n = model.chain.nv;
  const TogetherStop<T> together = together_stop(guard, n, x);
  if (together.span < Number<T>::huge && may_stop_together(guard, n, q, x, together.span)) {
    for (int i = 0; i < model.chain.nq; ++i) m.knot[i] = q[i];
    integrate(model.chain, q, x, together.span, m.knot + model.chain.nq);
    return certify<L>(model, guard, 1, together.time, m, pair) ? StopKind::together
                                                               : StopKind::none;
  }
  const int steps = simulate_stop(model.chain, guard, q, x, before, m);
  if (steps < 0) return StopKind::none;
  return certify<L>(model, guard, steps, T(steps) * guard.dt, m, pair) ? StopKind::each
                                                                       : StopKind::none;
}

// Writes the corners of a core that are lowest along directions close to n, other than the corner
// that is lowest along n itself. Returns their number, at most most_corners.
template <class T>
SUPPLE_FN int low_corners(const Shape<T>& shape, const Vec3<T>& n, Vec3<T>* corner) {
  if (shape.kind == ShapeKind::sphere) return 0;
  const Vec3<T> side = any_perpendicular(n), sides[] = {side, cross(n, side)};
  const Vec3<T> low = support(shape, n * T(-1));
  int count = 0;
  for (int k = 0; k < most_corners; ++k) {
    const T tilt = T(k % 2 ? -1 : 1) * (k < 4 ? T(least_tilt<T>) : T(largest_tilt<T>));
    const Vec3<T> p = support(shape, fma(sides[k / 2 % 2], tilt, n) * T(-1));
    bool known = false;
    for (int i = -1; i < count; ++i) {
      const Vec3<T> off = p - (i < 0 ? low : corner[i]);
      known = known || !(dot(off, off) > T(1e-12));
    }
    if (!known) corner[count++] = p;
  }
  return count;
}

// Finds the pairs near q (n) that a step may affect, and writes their rows on the joint speeds: the
// gradient (n) of each distance, and the smallest admissible rate of change. v (n) are the current
// speeds. `inside` becomes true if a pair is closer than the clearance. Returns the number of rows,
// at most most_guard_rows().
//
// Rows have precedence over those after them. Pairs inside the clearance therefore have three rows:
// first no pair comes closer, then each of them gains a little, which leaves room for the curvature
// of the step, and only then each is driven out, the deepest first. Where not all can be driven out
// at once, some are, and the others stay as they are. Corners of a shape that are hardly farther
// from the other shape than its lowest point have rows of their own, because the shape may turn
// onto them.
template <class L, class T>
SUPPLE_FN int guard_rows(const CollisionModel<T>& model, Guard<T>& guard, const T* q, const T* v,
                         T* G, T* h, int* pairs, bool& inside) {
  const int n = model.chain.nv;
  int size;
  GuardMemory<T> m = guard_in(model, guard.memory, size);
  // The largest speeds of this step, and the span of the stop after it.
  T smooth(0);
  for (int i = 0; i < n; ++i) {
    const JointLimit<T>& limit = guard.limit[i];
    const T faster = limit.acceleration < Number<T>::huge
                         ? abs(v[i]) + limit.acceleration * guard.dt
                         : limit.speed;
    m.x[i] = max(min(faster, limit.speed), abs(v[i]));
    if (limit.jerk < Number<T>::huge) {
      const T ramp = limit.jerk * guard.dt * guard.dt;
      const T most = largest_smooth_change(limit, guard.dt, ramp);
      // The change of the speed first falls to zero, while the speed still rises, and then to
      // -most, so that the stop is longer.
      m.x[i] = min(m.x[i] + shrinking_sum(most, ramp), limit.speed);
      smooth = max(smooth, T(3) * most / ramp * guard.dt);
    }
  }
  const TogetherStop<T> stop = together_stop(guard, n, m.x);
  const T span = stop.span + smooth;
  for (int i = 0; i < n; ++i) m.delta[i] = m.x[i] * span * T(1.0001);
  to_joints(model.chain, m.delta, m.reach, true);
  for (int j = 0; j < model.chain.joints; ++j) m.still[j] = m.tracking[j] = T(0);
  if (guard.tracking) to_joints(model.chain, guard.tracking, m.tracking, true);
  for (int j = 0; j < model.chain.joints; ++j) m.reach[j] += m.tracking[j];
  place<L>(model, q, m.placed);
  for (int i = 0; i < guard.near; ++i) m.floor[m.near[i].pair] = Number<T>::huge;
  guard.near = near_pairs<L>(model, m.placed, m.reach, guard.clearance, guard.clearance,
                             stop.time + smooth + retreat_time<T>, m.bound, model.pairs, m.near);
  // The closest pairs first: they have precedence where rows conflict. All pairs inside the
  // clearance have rows.
  int rows = 0;
  for (; rows < guard.near; ++rows) {
    int first = rows;
    for (int k = rows + 1; k < guard.near; ++k) {
      if (m.near[k].distance < m.near[first].distance) first = k;
    }
    if (rows >= most_rows && !(m.near[first].distance < guard.clearance)) break;
    const int i = rows;
    const NearPair<T> one = m.near[first];
    m.near[first] = m.near[i];
    m.near[i] = one;
  }
  const TogetherStop<T> now = together_stop(guard, n, v);
  const T row_span = max(now.span + smooth + guard.dt, T(2) * guard.dt);
  for (int i = 0; i < n; ++i) m.delta[i] = v[i] * row_span;
  to_joints(model.chain, m.delta, m.along);
  int count = 0, short_pairs = 0, short_rows = 0;
  inside = false;
  for (int i = 0; i < rows; ++i) {
    const NearPair<T>& near = m.near[i];
    T* const row = G + count * n;
    distance_gradient(model, m.placed, near, row);
    T rate(0);
    for (int k = 0; k < n; ++k) rate = fma(row[k], m.delta[k], rate);
    const GapBounds<T> bounds = gap_bounds(model, m.placed, near, {m.along, nullptr});
    // The loss of distance by curvature at the present speeds; the next step may be faster.
    const T bulge = bounds.start + rate - bounds.end;
    // An obstacle comes closer during the stop, and while the joints take up its speed.
    T pull(0);  // largest acceleration away from it
    for (int k = 0; k < n && near.speed > 0; ++k) {
      pull += abs(row[k]) * min(guard.limit[k].acceleration, T(1e6));
    }
    const T late = near.speed > 0 ? min(near.speed / max(pull, T(1e-9)), T(retreat_time<T>)) : T(0);
    const T travel = near.speed * (now.time + smooth + late);
    // Where joints may deviate from the commanded motion, the smallest distance that they can cause
    // counts.
    const T apart = guard.tracking ? gap_at_rest(model, guard, m, m.placed, near) : bounds.start;
    const T room = apart - guard.clearance - travel - T(1.5) * bulge - standoff<T>;
    const T short_by = guard.clearance - apart;
    inside = inside || (guard.tracking ? apart : near.distance) < guard.clearance - T(1e-9);
    h[count] = -max(room, -(largest_push<T> + travel)) / row_span;
    pairs[count] = near.pair;
    T fastest(0);  // rate of change that no step exceeds
    for (int k = 0; k < n; ++k) fastest = fma(abs(row[k]), m.x[k], fastest);
    if (!(short_by > 0)) {
      count += fastest > -h[count];  // otherwise no step misses the row
      continue;
    }
    const T hold = near.speed + max(T(1.5) * bulge, T(0)) / row_span;
    const T drive = near.speed +
                    min(short_by / max(escape_time<T>, T(4) * guard.dt), escape_share<T> * fastest);
    const T rates[] = {hold, min(hold + escape_gain<T> / row_span, max(drive, hold)),
                       max(drive, h[count])};
    Vec3<T> corner[most_corners];
    const int corners =
        short_pairs < cornered_pairs ? low_corners(m.placed.shape[near.a], near.normal, corner) : 0;
    short_pairs += 1;
    const Vec3<T> low = support(m.placed.shape[near.a], near.normal * T(-1));
    for (int c = -1; c < corners; ++c) {
      NearPair<T> at = near;
      T later(0);  // how much the corner may still come closer
      if (c >= 0) {
        at.point = corner[c];
        later = dot(near.normal, corner[c] - low) / row_span;
        distance_gradient(model, m.placed, at, G + count * n);
        pairs[count] = near.pair;
      }
      h[count] = rates[0] - later;
      for (int k = 0; k < 2; ++k) m.rate[2 * short_rows + k] = rates[k + 1] - later;
      m.of_row[short_rows] = T(count);
      short_rows += 1, count += 1;
    }
  }
  for (int stage = 0; stage < 2; ++stage) {
    for (int k = 0; k < short_rows; ++k) {
      const int from = int(m.of_row[k]);
      for (int i = 0; i < n; ++i) G[count * n + i] = G[from * n + i];
      h[count] = m.rate[2 * k + stage];
      pairs[count] = pairs[from];
      count += 1;
    }
  }
  return count;
}

// Replaces a step x (n) from q (n) by one that is certified: x itself, a step between it and the
// stop that the last step certified, or that stop. v (n) are the speeds before the step, which the
// step before changed by `change` (n). Call it after `guard_rows` at the same q.
template <class L, class T>
SUPPLE_FN GuardedStep guard_step(const CollisionModel<T>& model, Guard<T>& guard, const T* q,
                                 const T* v, const T* change, T* x) {
  const int n = model.chain.nv;
  GuardedStep made;
  int size;
  GuardMemory<T> m = guard_in(model, guard.memory, size);
  made.stop = certified_stop<L>(model, guard, q, x, v, m, made.pair);
  if (made.stop != StopKind::none) return made.pair = -1, made;
  made.changed = true;
  const StopKind known = guard.stop != StopKind::none ? guard.stop : StopKind::each;
  stopping_speeds(guard, n, known, v, change, m.stop);
  int other;
  for (T share = T(0.5); share > least_share<T>; share *= T(0.5)) {
    for (int i = 0; i < n; ++i) m.x[i] = fma(share, x[i] - m.stop[i], m.stop[i]);
    made.stop = certified_stop<L>(model, guard, q, m.x, v, m, other);
    if (made.stop == StopKind::none) continue;
    for (int i = 0; i < n; ++i) x[i] = m.x[i];
    return made;
  }
  for (int i = 0; i < n; ++i) x[i] = m.stop[i];
  // The stop that was certified in the step before. The certificate is lost only if the joints or
  // obstacles have not moved as predicted.
  made.stop = guard.stop;
  if (guard.stop == StopKind::none) made.stop = certified_stop<L>(model, guard, q, x, v, m, other);
  return made;
}

}  // namespace supple::inline SUPPLE_ISA
