// A step that yields (supple.steps.Yielding): exact where the joints can follow, and giving way
// only along the singular directions in which they cannot.
//
// The command is the velocity t of the target plus the gain times its offset o. Three rules turn it
// into joint velocities x.
//
// Braking. The correction of the offset never asks for more speed than the joints can brake on the
// way: the gain is at most s such that each joint, moving at s d_j toward its goal at the distance
// d = J⁺o, stops there with `braking_share` of its acceleration.
//
// Midpoint. J is that of the configuration which the joints reach in half a step at their present
// velocities, so that the step is accurate to second order, also where σ passes zero.
//
// Singular directions. Let σ be a singular value of J with the vectors u and v, c = u·(t + s o) the
// command along u, and a the acceleration along v that the limits allow. Without damping the joints
// move along v at c/σ. Where σ is small, they move at
//
//   y = (σ c + μ² y₀)/(σ² + λ² + μ²),    y₀ = v·q̇ at present,
//
// with a small constant μ², so that tiny parts of c do not jolt the joints. In the distance y along
// v, the motion along u is σ y + ½ h y² with h = u·J̇(v)v. The damping λ² of each direction follows
// from these rules:
//
//   crossing  λ² = |(c - σ y₀) σ̇|/a - ρ σ², where σ̇ is due to the motion along the other
//             directions. Past a singularity the joints would have to turn by half a turn with
//             accelerations up to |c σ̇|/σ². Where that is too much, they pass through it, and λ²
//             bounds the acceleration there.
//   folds     The parabola has its extremum, the end of the reach, at the distance σ/|h|. If the
//             command leads beyond it, by u·o and the motion until t has stopped at its present
//             deceleration, the joints brake toward it.
//   residual  λ² of all directions increases by -r·J̇(v)v, where r is the part of the offset
//             beyond the end of the reach: the second derivative of ½‖r‖², which Gauss-Newton
//             neglects. With it, the joints come to rest in front of a target out of reach.
//
// Away from the extremum, the secant of the parabola over one step replaces its slope σ, so that
// the joints leave a stretched pose, where σ = 0. They leave it to the other side if position
// limits leave little room on their own.
//
// Joints at a position limit that the step would move beyond it, and slides at their speed limit,
// are left out, and the step is computed again for the others.
//
// A redundant arm with one task moves in the null space of J along the projection P g of
//
//   g = (1/σ - 1/σ₀) ∇σ + w Σ_j (1/d_j - 1/d₀)/r_j,
//
// where σ is the smallest singular value, and d_j the distance of joint j from a limit as a
// fraction of its range r_j. Each term counts only where it is positive. This self-motion is as
// fast as the step times the smaller of ‖P g‖ and 1: it follows the path rather than the clock,
// and ends when the command ends. Constants are explained in docs/constants.md.
#pragma once

#include "supple/default_step.hpp"
#include "supple/fast_step.hpp"
#include "supple/servo_state.hpp"
#include "supple/singular_gradient.hpp"

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

template <class T>
inline constexpr T braking_share = T(0.5);
template <class T>
inline constexpr T crossing_ratio = T(0.7);  // ρ
template <class T>
inline constexpr T fold_share = T(0.7);  // fraction of a with which joints brake toward a fold
// Braking toward a fold has its full effect where the command leads beyond it by this multiple of
// the distance to it.
template <class T>
inline constexpr T fold_blend = T(2);
template <class T>
inline constexpr T slope_time = T(0.02);  // time constant of the estimated deceleration of t [s]
template <class T>
inline constexpr T near_sigma = T(0.2);  // largest σ that can be nearly singular, in units of κ
template <class T>
inline constexpr T least_lambda2 = T(1e-6);  // λ² where σ is nearly singular, in units of κ²
template <class T>
inline constexpr T steadiness = T(8e-7);  // μ² dt in units of κ² [s]

// The joints leave a stretched pose to the other side if the room on their own side is less than
// this fraction of the room there.
template <class T>
inline constexpr T little_room = T(0.1);

// Computes C (m, m), the inverse of the Cholesky factor A (m x m) of J Jᵀ, lower triangular, so
// that (J Jᵀ)⁻¹ = CᵀC.
template <class T, class M>
SUPPLE_FN void inverted_factor(M m, const T* A, T* C) {
  for (int i = 0; i < m; ++i) {
    const T inverse = T(1) / A[i * m + i];
    for (int j = 0; j < i; ++j) {
      T sum(0);
      for (int k = j; k < i; ++k) sum = fma(-A[i * m + k], C[k * m + j], sum);
      C[i * m + j] = sum * inverse;
    }
    C[i * m + i] = inverse;
  }
}

// Adds the gradient of a singular value sigma with the vectors u (m) and v (n), weighted as in g
// above, to g (n). `slope` has n entries.
template <class T>
SUPPLE_FN void add_singular_slope(const Servo<T>& servo, const ServoState<T>& state,
                                  const Pose<T>* joint_poses, T sigma, const T* u, const T* v, T* g,
                                  T* slope) {
  const T kappa = servo.curvature / servo.dt;
  const T weight = T(1) / max(sigma, least_divisor<T> * kappa) - T(1) / (avoided_sigma<T> * kappa);
  if (!(weight > 0)) return;
  singular_gradient(rows_of(servo, state), joint_poses, u, v, slope);
  for (int j = 0; j < servo.chain.coordinates; ++j) g[j] = fma(weight, slope[j], g[j]);
}

// Adds the terms of joints that are near their limits to g (n), as above.
template <class T>
SUPPLE_FN void add_limit_slope(const Servo<T>& servo, const T* q, T* g) {
  for (int j = 0; j < servo.chain.coordinates; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    const T range = limit.upper - limit.lower;
    if (!(range < Number<T>::huge) || !(range > 0)) continue;
    const auto push = [&](T room) {
      const T near = max(T(room / range), T(least_divisor<T>));
      return near < avoided_range<T> ? limit_weight<T> * (1 / near - 1 / avoided_range<T>) / range
                                     : T(0);
    };
    g[j] += push(q[j] - limit.lower) - push(limit.upper - q[j]);
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

// Returns the largest speed from which a joint stops within the distance `room`.
template <class T>
SUPPLE_FN T braked_speed(T room, T acceleration, T dt) {
  if (!(acceleration < Number<T>::huge)) return room / dt;
  T span;
  return braking_speed(room, T(acceleration * dt), dt, span);
}

// Returns the largest gain, at most servo.gain, for a correction by d (n).
template <class T>
SUPPLE_FN T braking_gain(const Servo<T>& servo, const T* d) {
  T gain = servo.gain;
  for (int j = 0; j < servo.chain.coordinates; ++j) {
    const T room = abs(d[j]), a = braking_share<T> * servo.limit[j].acceleration;
    if (gain * room > 0 && a < Number<T>::huge) {
      gain = min(gain, T(braked_speed(room, a, servo.dt) / room));
    }
  }
  return gain;
}

// Returns the acceleration along a unit vector v (n) of joint space that the limits allow.
template <class T>
SUPPLE_FN T acceleration_along(const Servo<T>& servo, const T* v) {
  T most = Number<T>::huge;
  for (int j = 0; j < servo.chain.coordinates; ++j) {
    if (abs(v[j]) > T(1e-3)) most = min(most, T(servo.limit[j].acceleration / abs(v[j])));
  }
  return most;
}

// Returns how far the joints can move along sign · v (n), a unit vector, inside their limits.
template <class T>
SUPPLE_FN T room_toward(const Servo<T>& servo, const T* q, const T* v, T sign) {
  T room = Number<T>::huge;
  for (int j = 0; j < servo.chain.coordinates; ++j) {
    const T part = sign * v[j];
    if (abs(part) < T(1e-3)) continue;
    const T end = part > 0 ? servo.limit[j].upper : servo.limit[j].lower;
    room = min(room, max(T((end - q[j]) / part), T(0)));
  }
  return room;
}

// Returns σ² below which the rules for singular directions may change the step: bounds on the
// conditions of the rules, from the sizes of t + s o (`speed`) and of the offset.
template <class T>
SUPPLE_FN T near_square(const Servo<T>& servo, T speed, T offset) {
  const T kappa = servo.curvature / servo.dt;
  T a = Number<T>::huge;
  for (int j = 0; j < servo.chain.coordinates; ++j) a = min(a, servo.limit[j].acceleration);
  const T needed = a < Number<T>::huge ? speed * speed / a : T(0);
  // Joints brake toward a fold where σ³ < 2 κ² `needed`/κ; ratio^(5/8) >= ratio^(2/3) needs no
  // cbrt.
  const T ratio = min(T(2) * needed / square(kappa), T(1));
  const T folds = square(kappa) * sqrt(ratio) * sqrt(sqrt(sqrt(ratio)));
  const T steady = T(25) * steadiness<T> * square(kappa) / servo.dt;
  const T wanted = max(max(folds, T(8) * needed), max(T(4) * offset * kappa, steady));
  return min(wanted, square(near_sigma<T> * kappa));
}

// `smaller_gram` for sizes known at compile time.
template <class T, int M, int N>
SUPPLE_FN void smaller_gram(Fixed<M> m, Fixed<N> n, const T* J, T* A) {
  gram(m, n, J, A);
}

// The smaller one of two sizes.
SUPPLE_FN constexpr int smaller(int m, int n) { return m < n ? m : n; }
template <int M, int N>
SUPPLE_FN constexpr Fixed<(M < N ? M : N)> smaller(Fixed<M>, Fixed<N>) {
  return {};
}

// Solves J x = e for the shortest x (n), or for the x with the smallest ‖J x - e‖ if J (m x n) has
// more rows than columns, with the Cholesky factor A of `smaller_gram` and its smallest relative
// pivot. `scratch` has 2 m + n entries.
template <class T, class M, class N>
SUPPLE_FN void solve_normal(M m, N n, const T* J, const T* A, T pivot, const T* e, T* x,
                            T* scratch) {
  T *left = scratch, *change = left + m;
  const int rounds = pivot >= refined_pivot<T> ? 1 : 2;
  for (int j = 0; j < n; ++j) x[j] = T(0);
  for (int round = 0; round < rounds; ++round) {
    for (int r = 0; r < m; ++r) left[r] = round ? e[r] - dot(n, J + r * n, x) : e[r];
    if (int(m) <= int(n)) cholesky_solve(m, A, left);
    for (int j = 0; j < n; ++j) change[j] = T(0);
    for (int r = 0; r < m; ++r) {
      for (int j = 0; j < n; ++j) change[j] = fma(J[r * n + j], left[r], change[j]);
    }
    if (int(m) > int(n)) cholesky_solve(n, A, change);
    for (int j = 0; j < n; ++j) x[j] += change[j];
  }
}

// Whether all σ² of the rows that are not of postures are above `least`. J is (m x n), gram (k x k)
// that of all rows; A has k² entries and `some` m n, k = min(m, n).
template <class T, class M, class N>
SUPPLE_FN bool is_far_from_singular(const Servo<T>& servo, const ServoState<T>& state, M m, N n,
                                    const T* J, const T* gram, T least, T* A, T* some) {
  int curved = 0;
  bool linear = false;
  for (int k = 0, i = 0, r = 0; k < servo.tasks; ++k) {
    const bool posture = servo.task[k].goal == Goal::posture;
    linear = linear || posture;
    for (const int end = i + servo.task[k].rows; i < end; ++i) {
      if (state.held && !(state.held[i] < Number<T>::huge)) continue;
      for (int j = 0; !posture && j < n; ++j) some[curved * n + j] = J[r * n + j];
      curved += !posture;
      ++r;
    }
  }
  if (linear) {
    if (curved == 0) return true;
    smaller_gram(curved, int(n), some, A);
    return all_above(smaller(curved, n), least, A);
  }
  const auto k = smaller(m, n);
  for (int i = 0; i < k * k; ++i) A[i] = gram[i];
  return all_above(k, least, A);
}

// Number of entries of scratch memory that `yielding_step` needs.
template <class T>
SUPPLE_FN constexpr int yielding_scratch(const Chain<T>& chain, int m) {
  const int n = chain.coordinates, k = m < n ? m : n;
  return 12 * chain.joints + 5 * m * n + 4 * k * k + (m + 2 * n) * k + 12 * (m + n) + 12 * k;
}

// What a step is computed from: rows of J (m x n) in which the columns of the joints that are left
// out are zero, the offset o, the velocity t of the target, and the poses of the joints.
template <class T>
struct StepCommand {
  const T *J, *offset, *rate;
  const Pose<T>* joint_poses;
};

// Computes the step state.dq where J is far from singular. Returns false if it is not.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE bool regular_step(M m, N n, const Servo<T>& servo, ServoState<T>& state,
                                         const StepCommand<T>& of, T* scratch) {
  const auto k = smaller(m, n);
  T *A = scratch, *B = A + k * k, *C = B + k * k, *D = C + k * k, *d = D + k * k, *x = d + n,
    *g = x + n, *e = g + n, *work = e + m, *some = work + 3 * m + 2 * n;
  const T size = length(m, state.desired), offset = length(m, of.offset);
  smaller_gram(m, n, of.J, A);
  for (int i = 0; i < k * k; ++i) C[i] = A[i];
  const T pivot = relative_pivot(k, C);
  if (!(pivot > fast_path_pivot<T>)) return false;
  const T kappa = servo.curvature / servo.dt, near = near_square(servo, size, offset),
          avoided = square(avoided_sigma<T> * kappa);
  const bool redundant = servo.tasks == 1 && int(m) < int(n);
  const bool far = is_far_from_singular(servo, state, m, n, of.J, A,
                                        redundant ? max(near, avoided) : near, B, some);
  if (!far && (!redundant || !is_far_from_singular(servo, state, m, n, of.J, A, near, B, some)))
    return false;
  solve_normal(m, n, of.J, C, pivot, of.offset, d, work);
  const T gain = braking_gain(servo, d);
  for (int r = 0; r < m; ++r) e[r] = fma(gain, of.offset[r], of.rate[r]);
  solve_normal(m, n, of.J, C, pivot, e, x, work);
  for (int j = 0; j < n; ++j) state.dq[j] = x[j];
  for (int i = 0; i < m * n; ++i) state.J[i] = of.J[i];
  for (int r = 0; r < m; ++r) state.e[r] = e[r];
  if (!redundant) return true;
  for (int j = 0; j < n; ++j) g[j] = T(0);
  add_limit_slope(servo, state.q, g);
  if (!far) {
    T *u = some, *turned = u + m, *v = turned + m, *slope = v + n;
    inverted_factor(m, C, B);
    const T sigma = smallest_direction(m, B, u, A, D, turned);
    for (int j = 0; j < n; ++j) v[j] = T(0);
    for (int r = 0; r < m; ++r) {
      for (int j = 0; j < n; ++j) v[j] = fma(u[r] / sigma, of.J[r * n + j], v[j]);
    }
    add_singular_slope(servo, state, of.joint_poses, sigma, u, v, g, slope);
  }
  T any(0);
  for (int j = 0; j < n; ++j) {
    g[j] = state.stopped[j] == 0 ? g[j] : T(0);
    any += abs(g[j]);
  }
  if (!(any > 0)) return true;
  for (int round = 0; round < 2; ++round) {  // the second round removes rounding errors
    for (int r = 0; r < m; ++r) e[r] = dot(n, of.J + r * n, g);
    solve_normal(m, n, of.J, C, pivot, e, x, work);
    for (int j = 0; j < n; ++j) g[j] -= x[j];
  }
  state.self_moves = add_null_motion(n, g, state.dq);
  return true;
}

// Computes the step state.dq from the singular value decomposition of J, by the rules above.
// state.J becomes J with √(σ² + λ²) in place of each σ.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE void singular_step(M m, N n, const Servo<T>& servo, ServoState<T>& state,
                                          const StepCommand<T>& of, T* scratch) {
  const int k = smaller(m, n);
  T *u = scratch, *v = u + m * k, *sigma = v + n * k, *lambda2 = sigma + k, *c = lambda2 + k,
    *y = c + k, *along_o = y + k, *along_t = along_o + k, *h = along_t + k, *bend = h + k,
    *x = bend + k, *ui = x + n, *vi = ui + m, *residual = vi + n, *slopes = residual + m,
    *slope = slopes, *work = slopes + k * n, *bias = work;
  svd(m, n, of.J, u, sigma, v, work);
  const T kappa = servo.curvature / servo.dt, near = near_sigma<T> * kappa, dt = servo.dt;
  const StepRows<T> rows = rows_of(servo, state);
  const auto project = [&](int i, const T* from) {
    T sum(0);
    for (int r = 0; r < m; ++r) sum = fma(u[r * k + i], from[r], sum);
    return sum;
  };
  // Writes the velocities along the directions from `first` to `last`, except one, to x.
  const auto combine = [&](int first, int last, int except) {
    for (int j = 0; j < n; ++j) {
      x[j] = T(0);
      for (int i = first; i <= last; ++i) {
        if (i != except) x[j] = fma(v[j * k + i], y[i], x[j]);
      }
    }
  };
  const auto take = [&](int i) {
    for (int r = 0; r < m; ++r) ui[r] = u[r * k + i];
    for (int j = 0; j < n; ++j) vi[j] = v[j * k + i];
  };
  const auto add_residual = [&](int i, T part) {
    for (int r = 0; r < m; ++r) residual[r] = fma(part, u[r * k + i], residual[r]);
  };
  const T mu2 = steadiness<T> * square(kappa) / dt;
  const auto stiffness = [&](int i) {
    return square(sigma[i]) + lambda2[i] + (sigma[i] < near ? mu2 : T(0));
  };
  for (int r = 0; r < m; ++r) residual[r] = of.offset[r];
  for (int i = 0; i < k; ++i) {
    along_o[i] = project(i, of.offset), along_t[i] = project(i, of.rate);
    add_residual(i, -along_o[i]);
  }
  for (int i = 0; i < k; ++i) {
    if (!(sigma[i] < near)) continue;
    take(i);
    slope = slopes + i * n;
    singular_gradient(rows, of.joint_poses, ui, vi, slope);
    for (int j = 0; j < n; ++j) slope[j] = state.stopped[j] == 0 ? slope[j] : T(0);
    h[i] = dot(n, slope, vi);
    const T side = along_o[i] >= 0 ? T(1) : T(-1), room = square(sigma[i]) / (2 * abs(h[i]));
    if (side * h[i] < 0 && abs(along_o[i]) > room) add_residual(i, side * (abs(along_o[i]) - room));
  }
  const T most_bend = T(2) * kappa * length(m, residual);
  for (int i = 0; i < k; ++i) {
    bend[i] = T(0);
    if (most_bend > T(1e-3) * max(square(sigma[i]), mu2)) {
      take(i);
      rows_bias_acceleration(rows, of.joint_poses, vi, bias);
      bend[i] = max(-dot(m, residual, bias), T(0));
    }
    lambda2[i] = bend[i] + (sigma[i] < near ? least_lambda2<T> * square(kappa) : T(0));
    y[i] = sigma[i] * along_o[i] / (square(sigma[i]) + lambda2[i]);
  }
  // The gain of all directions that are not nearly singular, and that of each other one.
  int far = 0;  // number of directions that are not nearly singular, which are the first ones
  while (far < k && sigma[far] >= near) ++far;
  combine(0, far - 1, -1);
  const T gain = braking_gain(servo, x);
  for (int i = 0; i < k; ++i) {
    T own = gain;
    if (sigma[i] < near) {
      combine(i, i, -1);
      own = min(gain, braking_gain(servo, x));
    }
    c[i] = fma(own, along_o[i], along_t[i]);
  }
  for (int i = 0; i < k; ++i) y[i] = sigma[i] * c[i] / stiffness(i);
  T lost(0), beyond(0);
  for (int i = 0; i < k; ++i) {
    const T square_i = square(sigma[i]);
    if (!(sigma[i] < near)) {
      beyond += square(lambda2[i] * c[i] / (square_i + lambda2[i]));
      continue;
    }
    take(i);
    slope = slopes + i * n;
    combine(0, k - 1, i);
    const T a = acceleration_along(servo, vi), rate = dot(n, slope, x),
            side = c[i] >= 0 ? T(1) : T(-1);
    const T present = dot(n, vi, state.qd), change = fma(-sigma[i], present, c[i]);
    T own = least_lambda2<T> * square(kappa);
    if (a < Number<T>::huge) {
      own = max(own, T(abs(change * rate) / a - crossing_ratio<T> * square_i));
    }
    const T crossing = own;
    if (side * h[i] < 0) {
      const T room = square_i / (2 * abs(h[i])), moving = side * along_t[i],
              slows = -side * project(i, state.slope);
      const T fastest =
          max(braked_speed(T(sigma[i] / abs(h[i])), T(fold_share<T> * a), dt), T(Number<T>::tiny));
      T past = side * along_o[i];
      if (moving > 0) past += slows > 0 ? moving * moving / (2 * slows) : Number<T>::huge;
      const T share = room > 0 ? (past / room - 1) / fold_blend<T> : T(past > 0);
      const T full = sigma[i] * abs(c[i]) / fastest - square_i;
      own = max(own, T(min(max(share, T(0)), T(1)) * full));
    }
    lambda2[i] = bend[i] + own;
    T secant = sigma[i], steady = mu2;
    if (h[i] * c[i] > 0) {
      // The root y of (σ₀ + ½ dt h y) y = c is c/secant, where σ₀ is σ at the start of the step.
      T start = fma(T(-0.5) * dt * h[i], present, sigma[i]);
      const T ahead = room_toward(servo, state.q, vi, side),
              behind = room_toward(servo, state.q, vi, T(-side));
      const bool turns = max(ahead, T(sigma[i] / abs(h[i]))) < little_room<T> * behind;
      if (turns) start = -start;
      secant = T(0.5) * (start + sqrt(fma(T(2) * dt * h[i], c[i], start * start)));
      steady *= min(square_i / square(secant), T(1));
      if (turns) secant = -secant;
    }
    y[i] = fma(steady, present, secant * c[i]) / (square(secant) + lambda2[i] + steady);
    const T missed = square(lambda2[i] * c[i] / (square_i + lambda2[i]));
    lost += missed;
    if (lambda2[i] > crossing) beyond += missed;
  }
  combine(0, k - 1, -1);
  for (int j = 0; j < n; ++j) state.dq[j] = x[j];
  for (int r = 0; r < m; ++r) {
    for (int j = 0; j < n; ++j) {
      T sum = of.J[r * n + j];
      for (int i = 0; i < k; ++i) {
        if (lambda2[i] > 0) {
          const T more = sqrt(stiffness(i)) - sigma[i];
          sum = fma(more * u[r * k + i], v[j * k + i], sum);
        }
      }
      state.J[r * n + j] = sum;
    }
  }
  for (int r = 0; r < m; ++r) state.e[r] = dot(n, state.J + r * n, x);
  T most(0);
  for (int i = 0; i < k; ++i) most = max(most, lambda2[i]);
  state.lambda2 = most;
  state.lost = sqrt(lost);
  state.beyond = sqrt(beyond);
  if (servo.tasks > 1 || int(m) >= int(n)) return;
  for (int j = 0; j < n; ++j) x[j] = T(0);
  add_limit_slope(servo, state.q, x);
  take(k - 1);
  add_singular_slope(servo, state, of.joint_poses, sigma[k - 1], ui, vi, x, slopes);
  for (int j = 0; j < n; ++j) x[j] = state.stopped[j] == 0 ? x[j] : T(0);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < k; ++i) {
      T part(0);
      for (int j = 0; j < n; ++j) part = fma(v[j * k + i], x[j], part);
      for (int j = 0; j < n; ++j) x[j] = fma(-part, v[j * k + i], x[j]);
    }
  }
  for (int j = 0; j < n; ++j) x[j] = state.stopped[j] == 0 ? x[j] : T(0);
  state.self_moves = add_null_motion(n, x, state.dq);
}

// Returns the speed toward `end` (1 or -1) with which a joint is left out of the step if the step
// would move it faster: zero at the end of its range; for a prismatic joint at its speed limit that
// limit, because its motion does not turn the joints after it; else infinite.
template <class T>
SUPPLE_FN T end_speed(const Servo<T>& servo, const ServoState<T>& state, int j, T end) {
  const JointLimit<T>& limit = servo.limit[j];
  if (is_at_end(limit, state.q[j], end)) return T(0);
  const bool fast = end * state.qd[j] >= limit.speed * (1 - T(64) * Number<T>::epsilon);
  return fast && is_slide(servo.chain, j) ? limit.speed : Number<T>::huge;
}

// Updates state.slope, the rate of change of t (m) filtered over `slope_time`, and state.rate = t.
template <class T>
SUPPLE_FN void update_slope(const Servo<T>& servo, ServoState<T>& state, const T* rate) {
  if (state.held) {  // the rows that take part differ from step to step
    for (int r = 0; r < servo.rows; ++r) state.slope[r] = T(0);
    return;
  }
  const T share = servo.dt / max(T(slope_time<T>), servo.dt);
  for (int r = 0; r < servo.rows; ++r) {
    const T change = (rate[r] - state.rate[r]) / servo.dt;
    state.slope[r] =
        state.has_previous ? fma(share, change - state.slope[r], state.slope[r]) : T(0);
    state.rate[r] = rate[r];
  }
}

// Computes the default step state.dq from state.J, state.e and state.offset. state.exact_J becomes
// J, and state.J the J of the problem that the limits solve (servo_limits.hpp). state.stopped (n)
// marks the joints that are left out.
template <class T>
SUPPLE_FN void yielding_step(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T *J = scratch + 12 * servo.chain.joints, *rate = J + m * n, *rest = rate + m;
  for (int i = 0; i < m * n; ++i) state.exact_J[i] = J[i] = state.J[i];
  bool aims = false;  // whether J depends on the target
  for (int k = 0; k < servo.tasks; ++k) {
    aims = aims || servo.task[k].alternate || has_tilt(servo.task[k]);
  }
  for (int j = 0; j < n; ++j)
    rest[j] = fma(aims ? T(0) : T(0.5) * servo.dt, state.qd[j], state.q[j]);
  forward(servo.chain, rest, joint_poses);
  if (!aims) {
    rows_jacobian(rows_of(servo, state), joint_poses, rest);
    for (int i = 0; i < m * n; ++i) J[i] = rest[i];
  }
  for (int r = 0; r < m; ++r) rate[r] = fma(-servo.gain, state.offset[r], state.e[r]);
  for (int j = 0; j < n; ++j) state.stopped[j] = T(0);
  update_slope(servo, state, rate);
  const StepCommand<T> of{J, state.offset, rate, joint_poses};
  const T kappa = servo.curvature / servo.dt;
  state.held_lambda2 = least_lambda2<T> * square(kappa);
  for (int round = 0; round < stopping_rounds; ++round) {
    state.lambda2 = state.lost = state.beyond = T(0);
    state.self_moves = false;
    const auto stepped = [&](auto rows, auto columns) {
      if (!regular_step(rows, columns, servo, state, of, rest)) {
        singular_step(rows, columns, servo, state, of, rest);
      }
    };
    m == 6 && n == 7   ? stepped(Fixed<6>{}, Fixed<7>{})
    : m == 6 && n == 6 ? stepped(Fixed<6>{}, Fixed<6>{})
                       : stepped(m, n);
    bool changed = false;
    for (int j = 0; j < n; ++j) {
      const T end = state.dq[j] > 0 ? T(1) : T(-1), fast = end_speed(servo, state, j, end);
      if (state.stopped[j] != 0 || !(end * state.dq[j] > fast)) continue;
      state.stopped[j] = end;
      for (int r = 0; r < m; ++r) {
        rate[r] = fma(-end * fast, J[r * n + j], rate[r]);
        J[r * n + j] = T(0);
      }
      changed = true;
    }
    if (!changed) break;
  }
  for (int j = 0; j < n; ++j) {
    if (state.stopped[j] == 0) continue;
    const T fast = end_speed(servo, state, j, state.stopped[j]);
    if (fast < Number<T>::huge) state.dq[j] = state.stopped[j] * fast;
  }
}

}  // namespace supple::inline SUPPLE_ISA
