// Self-motion away from singularities and from position limits, for the step of yielding.hpp.
//
// A redundant arm moves along P g, the projection onto the null space of J of
//
//   g_j = (1/σ - 1/σ₀) ∂σ/∂q_j ± w (1/d_j - 1/d₀)/r_j,
//
// where σ is the smallest singular value, and d_j the distance of joint j from a limit as a
// fraction of its range r_j; the sign leads away from the limit. Where one of the differences 1/σ -
// 1/σ₀ and 1/d_j - 1/d₀ is negative, it is replaced by zero. The length of this self-motion is the
// length of the step times the smaller one of ‖P g‖ and 1: the self-motion depends on the path
// rather than on time, and ends when the command ends. Constants are explained in
// docs/constants.md.
#pragma once

#include "supple/servo/state.hpp"
#include "supple/servo/singular_gradient.hpp"

namespace supple::inline SUPPLE_ISA {

// σ₀ as a multiple of κ, half the reach: where self-motion away from a singularity begins.
template <class T>
inline constexpr T avoided_sigma = T(0.25);
// d₀, where self-motion away from a limit begins, and its weight w.
template <class T>
inline constexpr T avoided_range = T(0.1);
template <class T>
inline constexpr T limit_weight = T(0.3);
// The smallest σ (as a multiple of κ) and d that are used as divisors.
template <class T>
inline constexpr T least_divisor = T(2e-3);

// Adds the gradient of a singular value sigma with the vectors u (m) and v (n), weighted as in g
// above, to g (n). v is modified and restored. `slope` has n entries.
template <class T>
SUPPLE_FN void add_singular_slope(const Servo<T>& servo, const ServoState<T>& state,
                                  const Pose<T>* joint_poses, T sigma, const T* u, T* v, T* g,
                                  T* slope) {
  const T kappa = servo.curvature / servo.dt;
  const T weight = T(1) / max(sigma, least_divisor<T> * kappa) - T(1) / (avoided_sigma<T> * kappa);
  if (!(weight > 0)) return;
  singular_gradient(rows_of(servo, state), joint_poses, u, v, slope);
  for (int j = 0; j < servo.chain.nv; ++j) g[j] = fma(weight, slope[j], g[j]);
}

// Adds the terms of joints that are near their limits to g (n), as above.
template <class T>
SUPPLE_FN void add_limit_slope(const Servo<T>& servo, const T* q, T* g) {
  for (int j = 0; j < servo.chain.nv; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    const T range = limit.upper - limit.lower;
    if (!(range < Number<T>::huge) || !(range > 0)) continue;
    const auto push = [&](T room) {
      const T near = max(T(room / range), T(least_divisor<T>));
      return near < avoided_range<T> ? limit_weight<T> * (1 / near - 1 / avoided_range<T>) / range
                                     : T(0);
    };
    g[j] += push(coordinate_difference(q[j], limit.lower)) -
            push(coordinate_difference(limit.upper, q[j]));
  }
}

// Adds self-motion along z (n), a vector of the null space, to the step dq (n). Returns whether any
// was added.
template <class T>
SUPPLE_FN bool add_null_motion(int n, const T* z, T* dq) {
  const T size = length(n, z), speed = length(n, dq);
  if (!(size * speed > 0)) return false;
  const T amount = speed / max(size, T(1));
  for (int j = 0; j < n; ++j) dq[j] = fma(amount, z[j], dq[j]);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
