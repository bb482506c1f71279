// The loops of a robot in a control loop: they stay closed whatever its limits are.
//
// Loops are the first of the held tasks. Joints whose speeds depend on each other must brake
// together, but the limits of single joints do not ensure this: a step within the limits that keeps
// the loops closed may not exist. As a real mechanism cannot open, the limits of acceleration and
// jerk then give way, and if that is not enough, the step is shortened until it can be taken.
// Constants are explained in docs/constants.md.
#pragma once

#include "supple/servo/holding.hpp"

namespace supple::inline SUPPLE_ISA {

// The largest error that a loop may have after a step [m or rad]; corrections continue to the
// smaller `held_tolerance`.
inline constexpr double closed_tolerance_double = 5e-10;
inline constexpr float closed_tolerance_float = 2e-5;
template <class T>
inline constexpr T closed_tolerance =
    sizeof(T) == 8 ? T(closed_tolerance_double) : T(closed_tolerance_float);
// The largest error of a loop that counts as closed before a step, with room for rounding.
template <class T>
inline constexpr T closed_before = T(1.5) * closed_tolerance<T>;
inline constexpr int closing_rounds = 8, shortenings = 6;

// Returns the largest error of the loops among the errors of all held tasks.
template <class T>
SUPPLE_FN T largest_opening(const Servo<T>& servo, const Holding<T>& held, const T* e) {
  T most(0);
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    for (int i = row; i < row + task.rows && k < servo.loops; ++i) most = max(most, abs(e[i]));
  });
  return most;
}

// Computes the speeds [low, high] (n) that the limits of position and speed allow. These intervals
// always include zero.
template <class T>
SUPPLE_FN void loose_box(const Servo<T>& servo, const ServoState<T>& state, T* low, T* high) {
  for (int j = 0; j < servo.chain.nv; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    const T above = coordinate_difference(limit.upper, state.q[j]) / servo.dt,
            below = coordinate_difference(state.q[j], limit.lower) / servo.dt;
    high[j] = max(T(0), min(limit.speed, above));
    low[j] = -max(T(0), min(limit.speed, below));
  }
}

// If the speeds x (n) do not keep the loops closed, replaces them by the nearest ones that do, and
// returns true. Loops that were open before the step close at the rate `servo.gain`. Limits of
// acceleration are not kept here: within them, joints that start at inconsistent angles could only
// oscillate.
template <class T>
SUPPLE_NOINLINE bool keep_closed(const Servo<T>& servo, const ServoState<T>& state, T* x) {
  const int n = servo.chain.nv, h = servo.held_rows;
  const Holding<T>& held = *state.holding;
  const HoldingMemory<T> memory = memory_of(servo, held);
  T *A = memory.A, *b = memory.b, *e = memory.e, *all = memory.cost, *off = all + h * n;
  T *low = off + h, *high = low + n, *active_set = high + n, *tried = memory.x0;
  Pose<T>* const joint_poses = reinterpret_cast<Pose<T>*>(memory.rest);
  const bool is_open = !(largest_opening(servo, held, held.e) <= closed_before<T>);
  T left = is_open ? max(T(0), T(1) - servo.gain * servo.dt) : T(0);
  const auto opening = [&](const T* speeds) {
    integrate(servo.chain, state.q, speeds, servo.dt, memory.q);
    held_errors(servo, held, static_cast<const T*>(memory.q), joint_poses, off);
    for (int i = 0; i < h; ++i) off[i] = fma(-left, held.e[i], off[i]);
    return largest_opening(servo, held, off);
  };
  if (opening(x) <= closed_tolerance<T>) return false;
  loose_box(servo, state, low, high);
  const auto is_loop = [&](int k) { return k < servo.loops; };
  T share(1);
  for (int shortened = 0; shortened < shortenings; ++shortened, share *= T(0.5)) {
    if (is_open && shortened > 0) left = T(0.5) * (T(1) + left);  // close more slowly
    for (int j = 0; j < n; ++j) tried[j] = min(max(share * x[j], low[j]), high[j]);
    for (int round = 0; round < closing_rounds; ++round) {
      if (opening(tried) <= closed_tolerance<T>) {
        copy_numbers(n, tried, x);
        return true;
      }
      evaluate_held(servo, held, joint_poses, static_cast<const T*>(memory.q), all, off,
                    memory.rest + 12 * servo.chain.joints);
      for (int i = 0; i < h; ++i) off[i] = fma(-left, held.e[i], off[i]);
      const int count = pick_held(servo, held, all, off, A, e, is_loop);
      for (int i = 0; i < count; ++i) b[i] = sum_of_packs(n, tried, A + i * n) + e[i] / servo.dt;
      const Equations<T> of{0, n, count, A, A, b, T(1), low, high, closed_tolerance<T> / servo.dt};
      if (!equation_step(of, tried, active_set, memory.rest)) break;
    }
  }
  for (int j = 0; j < n && !is_open; ++j) x[j] = T(0);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
