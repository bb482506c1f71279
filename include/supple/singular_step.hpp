// The step of yielding.hpp near singularities: a damping of its own for each singular direction.
//
// Let σ be a singular value of J with the vectors u and v, c = u·(t + s o) the
// command along u (the velocity t of the target plus the gain s times its offset o), and a the
// acceleration along v that the limits allow. Without damping the joints move along v at c/σ. Where
// σ is small, they move at
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
//             neglects. It brings the joints to rest in front of a target out of reach.
//
// Away from the extremum, the secant of the parabola over one step replaces its slope σ, so that
// the joints leave a stretched pose, where σ = 0. They leave it to the other side if position
// limits leave little room on their own.
//
// Constants are explained in docs/constants.md.
#pragma once

#include "supple/avoidance.hpp"
#include "supple/braking_gain.hpp"
#include "supple/linalg.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr T crossing_ratio = T(0.7);  // ρ
template <class T>
inline constexpr T fold_share = T(0.7);  // fraction of a with which joints brake toward a fold
// Braking toward a fold has its full effect where the command leads beyond it by this multiple of
// the distance to it.
template <class T>
inline constexpr T fold_blend = T(2);
template <class T>
inline constexpr T near_sigma = T(0.2);  // largest σ that can be nearly singular, in units of κ
template <class T>
inline constexpr T least_lambda2 = T(1e-6);  // λ² where σ is nearly singular, in units of κ²
template <class T>
inline constexpr T steadiness = T(8e-7);  // μ² dt in units of κ² [s]

// Joints do not pass through a stretched pose if the room on the other side of it is less than this
// fraction of the room on their own side, and leave it to the side with more room.
template <class T>
inline constexpr T little_room = T(0.3);

// What a step is computed from: rows of J (m x n) in which the columns of the joints that are left
// out are zero, the offset o, the velocity t of the target, and the poses of the joints.
template <class T>
struct StepCommand {
  const T *J, *offset, *rate;
  const Pose<T>* joint_poses;
};

// Writes 1 for each row of J that bends with q, and 0 for each row of a posture, to `curved` (m).
// Returns whether there are rows of postures.
template <class T>
SUPPLE_FN bool find_curved_rows(const Servo<T>& servo, const ServoState<T>& state, T* curved) {
  bool linear = false;
  for (int k = 0, i = 0, r = 0; k < servo.tasks; ++k) {
    const bool posture = servo.task[k].goal == Goal::posture;
    linear = linear || posture;
    for (const int end = i + servo.task[k].rows; i < end; ++i) {
      if (state.held && !(state.held[i] < Number<T>::huge)) continue;
      curved[r++] = posture ? T(0) : T(1);
    }
  }
  return linear;
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

// Computes the step state.dq from the singular value decomposition of J, by the rules above.
// state.J becomes J with √(σ² + λ²) in place of each σ.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE void singular_step(M m, N n, const Servo<T>& servo, ServoState<T>& state,
                                          const StepCommand<T>& of, T* scratch) {
  const int k = int(m) < int(n) ? int(m) : int(n);
  T *u = scratch, *v = u + m * k, *sigma = v + n * k, *lambda2 = sigma + k, *c = lambda2 + k,
    *y = c + k, *along_o = y + k, *along_t = along_o + k, *h = along_t + k, *bend = h + k,
    *share = bend + k, *x = share + k, *ui = x + n, *vi = ui + m, *residual = vi + n,
    *curved = residual + m, *slopes = curved + m, *slope = slopes, *work = slopes + k * n,
    *bias = work;
  svd(m, n, of.J, u, sigma, v, work);
  const T kappa = servo.curvature / servo.dt, near = near_sigma<T> * kappa, dt = servo.dt;
  const StepRows<T> rows = rows_of(servo, state);
  const auto project = [&](int i, const T* from) {
    T sum(0);
    for (int r = 0; r < m; ++r) sum = fma(u[r * k + i], from[r], sum);
    return sum;
  };
  const T zero = T(64) * Number<T>::epsilon * sigma[0];  // rounding error of σ
  // The share of each direction in the rows that bend: only these have singularities.
  const bool linear = find_curved_rows(servo, state, curved);
  for (int i = 0; i < k; ++i) {
    share[i] = T(1);
    if (!linear || sigma[i] <= zero) continue;
    share[i] = T(0);
    for (int r = 0; r < m; ++r) share[i] = fma(curved[r] * u[r * k + i], u[r * k + i], share[i]);
  }
  const auto is_near = [&](int i) { return sigma[i] < near && share[i] > T(1e-9); };
  const auto clear = [&] {
    for (int j = 0; j < n; ++j) x[j] = T(0);
  };
  const auto add_velocity = [&](int i) {  // adds the velocity along direction i to x
    for (int j = 0; j < n; ++j) x[j] = fma(v[j * k + i], y[i], x[j]);
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
    return square(sigma[i]) + lambda2[i] + (is_near(i) ? share[i] * mu2 : T(0));
  };
  bool leaves_out = false;
  for (int j = 0; j < n; ++j) leaves_out = leaves_out || state.stopped[j] != 0;
  // Whether only joints that are left out could move along direction i: all of o is then beyond the
  // reach of the others.
  const auto is_blocked = [&](int i) { return leaves_out && sigma[i] <= zero; };
  for (int r = 0; r < m; ++r) residual[r] = of.offset[r];
  for (int i = 0; i < k; ++i) {
    along_o[i] = project(i, of.offset), along_t[i] = project(i, of.rate);
    add_residual(i, -along_o[i]);
  }
  for (int i = 0; i < k; ++i) {
    if (!is_near(i)) continue;
    take(i);
    slope = slopes + i * n;
    singular_gradient(rows, of.joint_poses, ui, vi, slope);
    for (int j = 0; j < n; ++j) slope[j] = state.stopped[j] == 0 ? slope[j] : T(0);
    h[i] = dot(n, slope, vi);
    const bool blocked = is_blocked(i);
    const T side = along_o[i] >= 0 ? T(1) : T(-1),
            room = blocked ? T(0) : square(sigma[i]) / (2 * abs(h[i]));
    if ((blocked || side * h[i] < 0) && abs(along_o[i]) > room) {
      add_residual(i, side * (abs(along_o[i]) - room));
    }
  }
  // A residual that the rows which bend cannot reduce is beyond the reach, whatever postures do.
  T beyond(0);
  if (linear) {
    T size(0), slack(0);
    for (int r = 0; r < m; ++r) size = fma(curved[r] * residual[r], residual[r], size);
    for (int j = 0; j < n; ++j) {
      T pull(0);
      for (int r = 0; r < m; ++r) pull = fma(curved[r] * residual[r], of.J[r * n + j], pull);
      slack = fma(pull, pull, slack);
    }
    if (slack < near * near * size) beyond = square(servo.gain) * size;
  }
  const T most_bend = T(2) * kappa * length(m, residual);
  for (int i = 0; i < k; ++i) {
    bend[i] = T(0);
    if (most_bend > T(1e-3) * max(square(sigma[i]), mu2)) {
      take(i);
      rows_bias_acceleration(rows, of.joint_poses, vi, bias);
      bend[i] = max(-dot(m, residual, bias), T(0));
    }
    lambda2[i] = bend[i] + (is_near(i) ? share[i] * least_lambda2<T> * square(kappa) : T(0));
    y[i] = sigma[i] * along_o[i] / (square(sigma[i]) + lambda2[i]);
  }
  // The gain of all directions that are not nearly singular, and that of each other one.
  clear();
  for (int i = 0; i < k; ++i) {
    if (!is_near(i)) add_velocity(i);
  }
  const T gain = braking_gain(servo, x);
  for (int i = 0; i < k; ++i) {
    T own = gain;
    if (is_near(i)) {
      clear();
      add_velocity(i);
      own = min(gain, braking_gain(servo, x));
    }
    c[i] = fma(own, along_o[i], along_t[i]);
  }
  for (int i = 0; i < k; ++i) y[i] = sigma[i] * c[i] / stiffness(i);
  for (int i = 0; i < k; ++i) {
    const T square_i = square(sigma[i]);
    if (!is_near(i)) {
      const T missed = fma(-sigma[i], y[i], c[i]);
      for (int r = 0; r < m; ++r) state.lost[r] = fma(missed, u[r * k + i], state.lost[r]);
      if (lambda2[i] > 0) beyond += square(missed);
      continue;
    }
    take(i);
    slope = slopes + i * n;
    clear();
    for (int other = 0; other < k; ++other) {
      if (other != i) add_velocity(other);
    }
    const T a = acceleration_along(servo, vi), rate = dot(n, slope, x),
            side = c[i] >= 0 ? T(1) : T(-1);
    const T present = dot(n, vi, state.qd), change = fma(-sigma[i], present, c[i]);
    T own = share[i] * least_lambda2<T> * square(kappa);
    if (a < Number<T>::huge) {
      own = max(own, T(abs(change * rate) / a - crossing_ratio<T> * square_i));
    }
    const T crossing = own;
    // Room up to the limits along the motion and against it, measured from the fold.
    const T fold = sigma[i] / max(abs(h[i]), T(Number<T>::tiny)),
            to_fold = side * h[i] < 0 ? fold : -fold,
            ahead = room_toward(servo, state.q, vi, side) - to_fold,
            behind = room_toward(servo, state.q, vi, T(-side)) + to_fold;
    if (side * h[i] < 0) {
      const T room = square_i / (2 * abs(h[i])), moving = side * along_t[i],
              slows = -side * project(i, state.slope);
      const T fastest = max(braked_speed(fold, T(fold_share<T> * a), dt), T(Number<T>::tiny));
      T past = side * along_o[i];
      if (moving > 0) past += slows > 0 ? moving * moving / (2 * slows) : Number<T>::huge;
      if (ahead < little_room<T> * behind) past = Number<T>::huge;
      const T part = room > 0 ? (past / room - 1) / fold_blend<T> : T(past > 0);
      const T full = sigma[i] * abs(c[i]) / fastest - square_i;
      own = max(own, T(min(max(part, T(0)), T(1)) * full));
    }
    lambda2[i] = bend[i] + own;
    T secant = sigma[i], steady = share[i] * mu2;
    if (h[i] * c[i] > 0) {
      // The root y of (σ₀ + ½ dt h y) y = c is c/secant, where σ₀ is σ at the start of the step.
      T start = fma(T(-0.5) * dt * h[i], present, sigma[i]);
      // Joints that have turned go on, so that they do not turn again and again.
      const bool turns = ahead < (side * present < 0 ? T(2) : T(1)) * little_room<T> * behind;
      if (turns) start = -start;
      secant = T(0.5) * (start + sqrt(fma(T(2) * dt * h[i], c[i], start * start)));
      steady *= min(square_i / square(secant), T(1));
      if (turns) secant = -secant;
    }
    y[i] = fma(steady, present, secant * c[i]) / (square(secant) + lambda2[i] + steady);
    const T missed = fma(-secant, y[i], c[i]);
    for (int r = 0; r < m; ++r) state.lost[r] = fma(missed, u[r * k + i], state.lost[r]);
    if (is_blocked(i) || lambda2[i] > crossing) beyond += square(missed);
  }
  clear();
  for (int i = 0; i < k; ++i) add_velocity(i);
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

}  // namespace supple::inline SUPPLE_ISA
