// Robots that hold tasks can always stop: after each step, the joints that move held tasks can
// brake to rest, all in proportion to their speeds, while the tasks stay in place.
//
// Where a leg is nearly stretched, joints may have to turn at ever higher rates in the stop, or the
// base may have to turn back suddenly. The stop is therefore simulated along the motions that leave
// the tasks in place, and must stay inside the limits. Tuned constants are explained in
// docs/constants.md.
#pragma once

#include "supple/servo/held_space.hpp"

namespace supple::inline SUPPLE_ISA {

// The share of the acceleration limits with which joints stop together; the rest is for the
// curvature of their motion.
template <class T>
inline constexpr T together_share = T(0.5);
// The time of a stop at nearly full acceleration, relative to that of a stop at `together_share`.
template <class T>
inline constexpr T hard_share = T(0.55);

// The share of the acceleration limits that a simulated stop may use (`stop_share`), and the share
// that it may use if the step before it already continues a stop (`going_share`).
template <class T>
inline constexpr T stop_share = T(0.8);
template <class T>
inline constexpr T going_share = T(0.9);
// A stop in which no joint moves farther than this needs no simulation [rad or m]; the largest
// motion of a joint in a part of a simulated stop, and the largest number of parts.
template <class T>
inline constexpr T short_stop = T(1e-3);
template <class T>
inline constexpr T stop_stride = T(0.1);
inline constexpr int most_stop_parts = 40;

// Number of entries of `Holding::memory`.
template <class T>
SUPPLE_FN constexpr int holding_memory(const Servo<T>& servo) {
  const int n = servo.chain.nv, h = servo.held_rows, m = servo.rows > n ? servo.rows : n;
  return 2 * h * n + 3 * h + 3 * n + servo.chain.nq + m * n + weighted_cost_scratch(servo.rows, n) +
         equation_scratch(m, n, h) + projection_scratch(n, h) + row_factor_scratch(n, h) +
         12 * servo.chain.joints + 10 * n + 6;
}

// The memory of the functions below.
template <class T>
struct HoldingMemory {
  T *A, *b, *e, *x0, *y, *side, *q, *cost, *rest;
};
template <class T>
SUPPLE_FN HoldingMemory<T> memory_of(const Servo<T>& servo, const Holding<T>& held) {
  const int n = servo.chain.nv, h = servo.held_rows, m = servo.rows > n ? servo.rows : n;
  T* const A = held.memory;
  T *b = A + h * n, *e = b + h, *x0 = e + h, *y = x0 + n, *side = y + n, *q = side + n,
    *cost = q + servo.chain.nq;
  T* const rest = cost + m * n + weighted_cost_scratch(servo.rows, n) + h * n + h;
  return {A, b, e, x0, y, side, q, cost, rest};
}

// Calls visit(j, limit) for the joints with limits on acceleration that move held tasks.
template <class T, class Visit>
SUPPLE_INLINE void each_braking(const Servo<T>& servo, const Holding<T>& held, Visit&& visit) {
  for (int j = 0; j < servo.chain.nv; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    if (held.moves[j]) visit(j, limit);
  }
}

// Returns the time in which the joints that move held tasks stop together from the speeds x (n), in
// proportion to them: in such a stop, the tasks stay held.
template <class T>
SUPPLE_FN T time_to_stop(const Servo<T>& servo, const Holding<T>& held, const T* x) {
  T span(0);
  each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
    const T smooth = limit.jerk < Number<T>::huge ? limit.acceleration / limit.jerk : T(0);
    span = max(span, T(abs(x[j]) / (together_share<T> * limit.acceleration) + smooth));
  });
  return span;
}

// Narrows the box so that the joints that move held tasks can stop together before any of them
// comes to the end of its range. Otherwise a joint near the end of its range would have to brake
// faster than the others, and the tasks would not stay in place.
template <class T>
SUPPLE_FN void leave_room_to_stop(const Servo<T>& servo, const ServoState<T>& state, T* low,
                                  T* high) {
  const Holding<T>& held = *state.holding;
  const T span = time_to_stop(servo, held, static_cast<const T*>(state.qd)),
          kept = max(T(0), T(1) - servo.dt / max(span, servo.dt)),
          each = T(2) / (span + T(4) * servo.dt);
  each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
    const T slack = T(0.5) * (1 - together_share<T>)*limit.acceleration * servo.dt;
    const auto most = [&](T room, T own) {
      return room < Number<T>::huge ? max(T(max(room, T(0)) * each), T(own + slack))
                                    : Number<T>::huge;
    };
    const T stop = kept * state.qd[j],
            up = most(T(coordinate_difference(limit.upper, state.q[j])), stop),
            down = most(T(coordinate_difference(state.q[j], limit.lower)), T(-stop)),
            highest = high[j];
    high[j] = max(min(highest, up), low[j]);
    low[j] = min(max(low[j], T(-down)), highest);
  });
}

// Whether the joints that move held tasks can stop together after a step at the speeds x (n), with
// the tasks in place. A simulation decides; in it, corrections along the rows of the tasks
// represent the accelerations that the curvature of the motion requires.
template <class T>
SUPPLE_NOINLINE bool can_stop(const Servo<T>& servo, const ServoState<T>& state, const T* x,
                              T share) {
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  const int n = servo.chain.nv, h = servo.held_rows, s = padded<T>(n);
  T *A = memory.A, *e = memory.e, *place = memory.b, *q = memory.q;
  T *rows = aligned_rows(memory.rest), *mirror = rows + h * s, *v = mirror + h * s, *w = v + s,
    *dx = w + s, *scale = dx + s, *tau = scale + s, *left = tau + h, *whole = left + h,
    *r = whole + h;
  int* const order = reinterpret_cast<int*>(r + h);
  T* const work = r + 2 * h;
  const auto is_held = [&](int k) { return held.share[k] == 1; };
  Pose<T>* const joint_poses = reinterpret_cast<Pose<T>*>(work);
  const Chain<T> chain = chain_of_held(servo, held);
  const auto at = [&](T* off) {
    forward(chain, static_cast<const T*>(q), joint_poses);
    evaluate_held(servo, held, joint_poses, static_cast<const T*>(q), memory.cost,
                  memory.cost + h * n, work + 12 * servo.chain.joints);
    return pick_held(servo, held, memory.cost, memory.cost + h * n, A, off, is_held);
  };
  T most(0);
  each_braking(servo, held,
               [&](int, const JointLimit<T>& limit) { most = max(most, limit.acceleration); });
  for (int j = 0; j < s; ++j) {
    const bool bounded = j < n && servo.limit[j].acceleration < Number<T>::huge;
    scale[j] = j >= n ? T(0) : bounded ? servo.limit[j].acceleration : T(10) * most;
    v[j] = j < n ? x[j] : T(0);
  }
  bool evaluated = false;
  for (int part = 0; part < most_stop_parts; ++part) {
    T fastest(0);
    each_braking(servo, held,
                 [&](int j, const JointLimit<T>&) { fastest = max(fastest, abs(v[j])); });
    const T span = time_to_stop(servo, held, static_cast<const T*>(v)),
            way = T(0.5) * fastest * span;
    if (!(way > short_stop<T>)) return true;
    if (!evaluated) {
      integrate(servo.chain, state.q, x, servo.dt, q);
      at(place);
      evaluated = true;
    }
    const T time = min(span, max(servo.dt, max(stop_stride<T>, T(0.1) * way) / fastest)),
            slower = T(1) - time / span;
    for (int j = 0; j < n; ++j) w[j] = slower * v[j], dx[j] = T(0.5) * (v[j] + w[j]);
    integrate(servo.chain, static_cast<const T*>(q), static_cast<const T*>(dx), time, q);
    const int count = at(e);
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < s; ++j) rows[i * s + j] = j < n ? A[i * n + j] * scale[j] : T(0);
    }
    Triangle<T> t{n, 0, rows, mirror, tau, order};
    make_triangle(count, t, left, whole);
    const auto shortest = [&] {  // computes dx from r
      solve_triangle(count, t, static_cast<const T*>(r), T(0), dx);
      for (int j = t.rank; j < s; ++j) dx[j] = T(0);
      for (int k = t.rank - 1; k >= 0; --k) reflect(t, k, dx);
      for (int j = 0; j < n; ++j) dx[j] *= scale[j];
    };
    for (int i = 0; i < count; ++i) r[i] = -sum_of_packs(n, A + i * n, w);
    shortest();
    for (int j = 0; j < n; ++j) w[j] += dx[j];
    bool inside = true;
    each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
      inside = inside && abs(w[j] - v[j]) <= share * limit.acceleration * time &&
               abs(w[j]) <= limit.speed;
    });
    if (!inside) return false;
    for (int i = 0; i < count; ++i) r[i] = e[i] - place[i];
    shortest();
    integrate(servo.chain, static_cast<const T*>(q), static_cast<const T*>(dx), T(1), q);
    each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
      inside = inside && !(v[j] > 0 && q[j] > limit.upper) && !(v[j] < 0 && q[j] < limit.lower);
    });
    if (!inside) return false;
    copy_numbers(n, w, v);
  }
  return false;
}

// Moves the speeds x (n) of the joints that move held tasks toward those of the stop that the step
// before allows, until they can stop together after this step as well.
template <class T>
SUPPLE_FN void keep_stoppable(const Servo<T>& servo, const ServoState<T>& state, const T* low,
                              const T* high, T* x, T* trial) {
  const Holding<T>& held = *state.holding;
  const int n = servo.chain.nv;
  const T before = time_to_stop(servo, held, static_cast<const T*>(state.qd));
  T kept = max(T(0), T(1) - servo.dt / max(before, servo.dt));
  const auto mix = [&](T share) {
    copy_numbers(n, x, trial);
    each_braking(servo, held, [&](int j, const JointLimit<T>&) {
      const T stop = min(max(T(kept * state.qd[j]), low[j]), high[j]);
      trial[j] = fma(share, x[j] - stop, stop);
    });
  };
  const auto stops = [&] {
    const T span = time_to_stop(servo, held, static_cast<const T*>(trial)),
            way = T(0.5) * span + T(1.5) * servo.dt;
    bool inside = true;
    each_braking(servo, held, [&](int j, const JointLimit<T>& limit) {
      const T to = integrate_coordinate(state.q[j], trial[j], way);
      inside = inside && (trial[j] > 0 ? !(to > limit.upper) : !(to < limit.lower));
    });
    return inside;
  };
  T share(1);
  for (mix(share); share > 0; mix(share)) {
    if (!stops()) {
      share = share > T(0.01) ? T(0.7) * share : T(0);
    } else if (!can_stop(servo, state, static_cast<const T*>(trial), stop_share<T>)) {
      share = share > T(0.2) ? T(0.5) * share : T(0);
    } else {
      break;
    }
  }
  if (share == 0 &&
      !(stops() &&
        can_stop(servo, state, static_cast<const T*>(trial),
                 going_share<T>))) {  // curvature has used up the margin: stop as fast as possible
    kept = max(T(0), T(1) - servo.dt / max(T(hard_share<T> * before), servo.dt));
    mix(share);
  }
  if (share < 1) copy_numbers(n, trial, x);
}

}  // namespace supple::inline SUPPLE_ISA
