// The gain of a correction, so small that the joints can brake in time.
//
// A joint that moves toward its goal at the speed s d_j, where d = J⁺o is the joint motion that
// removes the offset o of the target, needs time to stop. The gain s is so small that each joint
// can stop at its goal with the share `braking_share` of its acceleration limit. Constants are
// explained in docs/constants.md.
#pragma once

#include "supple/servo/state.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr T braking_share = T(0.5);

// Returns the largest speed from which a joint stops within the distance `room`.
template <class T>
SUPPLE_FN T braked_speed(T room, T acceleration, T dt) {
  if (!(acceleration < Number<T>::huge)) return room / dt;
  T span;
  return braking_speed(room, T(acceleration * dt), dt, span);
}

// Returns the largest gain, at most `gain`, for a correction by d (n) of joints with these limits.
template <class T>
SUPPLE_FN T braking_gain(int n, const JointLimit<T>* limit, T gain, T dt, const T* d) {
  for (int j = 0; j < n; ++j) {
    const T room = abs(d[j]), a = braking_share<T> * limit[j].acceleration;
    if (gain * room > 0 && a < Number<T>::huge) {
      gain = min(gain, T(braked_speed(room, a, dt) / room));
    }
  }
  return gain;
}

}  // namespace supple::inline SUPPLE_ISA
