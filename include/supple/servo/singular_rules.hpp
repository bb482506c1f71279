// The rules of yielding.hpp for one nearly singular direction.
//
// Let σ be a singular value of J with the vectors u and v, c = u·(t + s o) the
// command along u (the velocity t of the target plus the gain s times its offset o), and a the
// acceleration along v that the limits allow. Without damping the joints move along v at c/σ. Where
// σ is small, they move at
//
//   y = (σ c + μ² y₁)/(σ² + λ² + μ²),    y₁ = y₀ + p v·Δq̇,    y₀ = v·q̇ at present,
//
// where Δq̇ is the change of q̇ in the last step and p = 0.9 |t|/(|t| + s |o|). A small constant in
// μ² keeps tiny parts of c from jolting the joints: they then continue their present motion. Over
// the distance y along v, the motion along u is σ y + ½ h y² with h = u·J̇(v)v. The damping λ² of
// each direction follows from these rules:
//
//   crossing  w = |(c - σ y₀) σ̇|/a - ρ σ², where σ̇ is due to the motion along the other
//             directions. Past a singularity the joints would have to turn by half a turn with
//             accelerations up to |c σ̇|/σ². Where that is too much, they pass through it, and w
//             bounds the acceleration there. If c - σ y₀ is small compared with σ̇ y₀²/a, the
//             present motion almost performs the command, and goes on: w is a part of μ². The
//             larger this ratio is, the more of w is damping, a part of λ².
//   miss      Ignoring the difference between c and the present motion, σ y₁, while σ falls to
//             zero costs the distance ε = |c - σ y₁| σ/(2|σ̇|). To pass the singularity at this
//             distance, the joints would soon need accelerations in proportion to 1/ε². If ε is
//             less than D, they go on as they move: μ² increases by σ² D²/(ε² + e²). Here
//             e = ρ' a σ³/(4σ̇²) is ε where the difference takes a small part ρ' of a: there they
//             can still follow.
//   folds     The parabola has its extremum, the end of the reach, at the distance σ/|h|. If the
//             command leads beyond it, by u·o and the motion until t has stopped at its present
//             deceleration, the joints brake toward it, unless the command comes back about as
//             soon as the joints could: then they pass the extremum, and meet the command on the
//             other side.
//   residual  λ² of all directions increases by -r·J̇(v)v, where r is the part of the offset
//             beyond the end of the reach: the second derivative of ½‖r‖², which Gauss-Newton
//             neglects. It brings the joints to rest in front of a target out of reach. With a
//             share b of this increase in σ² + λ², the gain is at most (1 - b/2)/dt, because the
//             second derivative is known only along each v: a longer step could go past the pose
//             in which the joints come to rest.
//
// Joints brake toward a fold only if |h| is large enough for an end of the reach nearby. Away from
// the extremum, the secant of the parabola over one step replaces its slope σ, so that the joints
// leave a stretched pose, where σ = 0. Near the extremum they choose the side by the room that
// position limits leave: they go to the other side if there is little room on their own side.
//
// Rows of postures do not bend: their J is constant, and has no singularities. The rules apply to a
// direction u in proportion to the share of the other rows in u.
//
// Constants are explained in docs/constants.md.
#pragma once

#include "supple/servo/avoidance.hpp"
#include "supple/servo/held_space.hpp"
#include "supple/math/linalg.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
inline constexpr T crossing_ratio = T(0.7);  // ρ
template <class T>
inline constexpr T fold_share = T(0.7);  // fraction of a with which joints brake toward a fold
// Joints begin to brake toward a fold where the command stays beyond the fold for longer than this
// multiple of the time in which the joints can stop. They brake fully where the command stays there
// for one more such time.
template <class T>
inline constexpr T fold_patience = T(1.5);
template <class T>
inline constexpr T fold_time = T(1.0);  // t is assumed to last at most this long [s]
template <class T>
inline constexpr T near_sigma = T(0.2);  // largest σ that can be nearly singular, in units of κ
template <class T>
inline constexpr T least_lambda2 = T(3e-8);  // λ² where σ is nearly singular, in units of κ²
template <class T>
inline constexpr T steadiness = T(1e-8);  // least μ² dt in units of κ² [s]
template <class T>
inline constexpr T ignored_miss = T(1e-4);  // D, in units of κ
template <class T>
inline constexpr T easy_share = T(0.3);  // ρ': smaller shares of a are not worth ignoring
template <class T>
inline constexpr T persistence = T(0.9);  // share of the last change of q̇ that is expected again

// Directions whose |h| is less than this, in units of κ, have no end of the reach nearby: |h| is
// more than 0.15κ for stretched elbows, less for straight wrists.
template <class T>
inline constexpr T fold_bend = T(0.03);
// Joints do not pass through a stretched pose if the room on the other side of it is less than this
// fraction of the room on their own side. If the room on their own side is less than this fraction
// of the room on the other side, they leave the pose to the other side.
template <class T>
inline constexpr T little_room = T(0.15);
// Both rules apply only within this distance of the stretched pose [rad].
template <class T>
inline constexpr T near_fold = T(0.15);

// The inputs and the results of a step with m rows and n joints, all of them or those of one part
// (yielding.hpp).
template <class T>
struct StepProblem {
  const Servo<T>& servo;
  ServoState<T>& state;
  const Pose<T>* joint_poses;
  const T *J, *offset, *rate, *slope;  // J (m x n), o, t, and the rate of change of t (m)
  const T *q, *qd, *stopped;           // (n): columns of J where `stopped` is not zero are zero
  const JointLimit<T>* limit;          // (n)
  const T* bends;           // (m): 1 for a row that bends with q, 0 for a row of a posture
  bool linear;              // whether there are rows of postures
  bool avoids;              // whether self-motion is added
  const int *row, *column;  // (m), (n): indices among all rows and joints; null if these are all
  T *dq, *used_J, *used_e, *lost;  // (n), (m x n), (m), (m): results, as in `ServoState`
  T* whole;                        // memory for vectors of all rows and joints
  T* sweep = nullptr;  // sweep_memory() entries for a robot with a floating base, else null
  const Holding<T>* holding = nullptr;  // held tasks, onto whose space J is projected; or null
};

// Computes the gradient g (n) of the singular value with the vectors u (m) and v (n), which is the
// same on return.
template <class T>
SUPPLE_FN void gradient_of(const StepProblem<T>& of, int m, int n, const T* u, T* v, T* g) {
  const StepRows<T> rows = rows_of(of.servo, of.state);
  if (of.holding) {
    held_factors(of.servo, *of.holding, rows.count, u, of.whole + rows.count);
    for (int r = 0; r < rows.count; ++r) of.whole[r] = u[r];
    for (int i = 0; i < of.servo.held_rows; ++i) {
      of.whole[rows.count + i] = -of.whole[rows.count + i];
    }
    return singular_gradient(rows_with_held(of.servo, rows), of.joint_poses,
                             static_cast<const T*>(of.whole), v, g, of.sweep);
  }
  if (!of.row) return singular_gradient(rows, of.joint_poses, u, v, g, of.sweep);
  const int all_m = rows.count, all_n = of.servo.chain.nv;
  T *all_u = of.whole, *all_v = all_u + all_m, *all_g = all_v + all_n;
  for (int i = 0; i < all_m + all_n; ++i) all_u[i] = T(0);
  for (int r = 0; r < m; ++r) all_u[of.row[r]] = u[r];
  for (int j = 0; j < n; ++j) all_v[of.column[j]] = v[j];
  singular_gradient(rows, of.joint_poses, all_u, all_v, all_g, of.sweep);
  for (int j = 0; j < n; ++j) g[j] = all_g[of.column[j]];
}

// Computes J̇(v)v (m) for the joint motion v (n).
template <class T>
SUPPLE_FN void bias_of(const StepProblem<T>& of, int m, int n, const T* v, T* bias) {
  const StepRows<T> rows = rows_of(of.servo, of.state);
  if (of.holding) {
    rows_bias_acceleration(rows_with_held(of.servo, rows), of.joint_poses, v, of.whole, of.sweep);
    held_bias(of.servo, *of.holding, of.whole + rows.count);
    const int rank = of.holding->rank, c = padded<T>(rank);
    for (int r = 0; r < m; ++r) {
      bias[r] = r < rows.count ? of.whole[r] : T(0);
      for (int k = 0; k < rank && r < rows.count; ++k) {
        bias[r] = fma(-of.holding->coupling[r * c + k], of.whole[rows.count + k], bias[r]);
      }
    }
    return;
  }
  if (!of.row) return rows_bias_acceleration(rows, of.joint_poses, v, bias, of.sweep);
  const int all_n = of.servo.chain.nv;
  T *all_v = of.whole, *all_bias = all_v + all_n;
  for (int j = 0; j < all_n; ++j) all_v[j] = T(0);
  for (int j = 0; j < n; ++j) all_v[of.column[j]] = v[j];
  rows_bias_acceleration(rows, of.joint_poses, all_v, all_bias, of.sweep);
  for (int r = 0; r < m; ++r) bias[r] = all_bias[of.row[r]];
}

// Returns the acceleration along a unit vector v (n) of joint space that the limits allow.
template <class T>
SUPPLE_FN T acceleration_along(int n, const JointLimit<T>* limit, const T* v) {
  T most = Number<T>::huge;
  for (int j = 0; j < n; ++j) {
    if (abs(v[j]) > T(1e-3)) most = min(most, T(limit[j].acceleration / abs(v[j])));
  }
  return most;
}

// Returns how far the joints can move along sign · v (n), a unit vector, inside their limits.
template <class T>
SUPPLE_FN T room_toward(int n, const JointLimit<T>* limit, const T* q, const T* v, T sign) {
  T room = Number<T>::huge;
  for (int j = 0; j < n; ++j) {
    const T part = sign * v[j];
    if (abs(part) < T(1e-3)) continue;
    const T end = part > 0 ? limit[j].upper : limit[j].lower;
    room = min(room, max(T(coordinate_difference(end, q[j]) / part), T(0)));
  }
  return room;
}

// Returns the σ² below which the rules for singular directions may change the step. This bound
// follows from the conditions of the rules and the lengths of t + s o (`speed`) and of the offset.
template <class T>
SUPPLE_FN T near_square(const Servo<T>& servo, int n, const JointLimit<T>* limit, T speed,
                        T offset) {
  const T kappa = servo.curvature / servo.dt;
  T a = Number<T>::huge;
  for (int j = 0; j < n; ++j) a = min(a, limit[j].acceleration);
  const T needed = a < Number<T>::huge ? speed * speed / a : T(0);
  // Joints brake toward a fold where σ³ < 2 κ² `needed`/κ; ratio^(5/8) >= ratio^(2/3) needs no
  // cbrt.
  const T ratio = min(T(2) * needed / square(kappa), T(1));
  const T folds = square(kappa) * sqrt(ratio) * sqrt(sqrt(sqrt(ratio)));
  const T steady = T(25) * steadiness<T> * square(kappa) / servo.dt;
  const T wanted = max(max(folds, T(8) * needed), max(T(4) * offset * kappa, steady));
  return min(wanted, square(near_sigma<T> * kappa));
}

// The constant part of μ².
template <class T>
SUPPLE_FN T least_mu2(const Servo<T>& servo) {
  return steadiness<T> * square(T(servo.curvature / servo.dt)) / servo.dt;
}

// A nearly singular direction: the input of the rules, and their results.
template <class T>
struct Direction {
  const T *v, *slope;                  // (n): the right singular vector, and the gradient of σ
  T sigma, share;                      // σ, and the share of rows that bend in u
  T command, along_o, along_t;         // c, u·o and u·t
  T bend, h;                           // the part of λ² due to the residual, and u·J̇(v)v
  T rate;                              // σ̇ due to the motion along the other directions
  T decline;                           // u·ṫ, the filtered rate of change of t
  T lambda2 = 0, secant = 0, mu2 = 0;  // results: λ², the secant, and μ²
  T expected = 0, crossing = 0;        // y₁, and the part of λ² that crossing needs
};

// Decides how the joints move along a direction. `lasting` is p.
template <class T>
SUPPLE_FN void decide(const StepProblem<T>& of, int n, T lasting, Direction<T>& at) {
  const T kappa = of.servo.curvature / of.servo.dt, dt = of.servo.dt;
  const T *const vi = at.v, sigma = at.sigma, c = at.command, h = at.h, rate = at.rate;
  const T square_i = square(sigma), a = acceleration_along(n, of.limit, vi),
          side = c >= 0 ? T(1) : T(-1);
  const T present = dot(n, vi, of.qd), change = fma(-sigma, present, c);
  T expected = present;
  for (int j = 0; of.state.change && j < n; ++j) {
    const T last = of.state.change[of.column ? of.column[j] : j];
    expected = fma(lasting * last, vi[j], expected);
  }
  T own = at.share * least_lambda2<T> * square(kappa), steady = at.share * least_mu2(of.servo),
    keeps(0);
  if (a < Number<T>::huge) {
    const T whole = abs(change * rate) / a - crossing_ratio<T> * square_i;
    if (whole > own) {
      // Within the time y₀/a in which the joints can stop, σ y₀ changes by σ̇ y₀²/a.
      const T braking = abs(rate) * square(present) / a,
              brakes = abs(change) < braking ? abs(change) / braking : T(1);
      own = max(own, T(brakes * whole));
      keeps = (1 - brakes) * whole;
    }
    if (square(rate) > Number<T>::tiny) {
      const T ignored = abs(fma(-sigma, expected, c)) * sigma / (2 * abs(rate)),
              easy = easy_share<T> * a * sigma * square_i / (4 * square(rate)),
              least = square(ignored_miss<T> * kappa);
      keeps +=
          at.share * square_i * least / max(fma(ignored, ignored, easy * easy), T(1e-8) * least);
    }
  }
  at.crossing = own;
  // Room up to the limits along the motion and against it, measured from the fold.
  const T fold = sigma / max(abs(h), T(Number<T>::tiny)), to_fold = side * h < 0 ? fold : -fold,
          ahead = room_toward(n, of.limit, of.q, vi, side) - to_fold,
          behind = room_toward(n, of.limit, of.q, vi, T(-side)) + to_fold;
  if (side * h < -fold_bend<T> * kappa) {
    const T room = square_i / (2 * abs(h)), moving = side * at.along_t,
            slowing = max(T(-side * at.decline), T(moving / (2 * fold_time<T>)));
    const T fastest = max(braked_speed(fold, T(fold_share<T> * a), dt), T(Number<T>::tiny));
    T past = side * at.along_o, away = Number<T>::huge;  // beyond the fold for this time
    if (moving > 0) {
      past += square(moving) / (2 * slowing);
      away = T(2) * sqrt(T(2) * max(past - room, T(0)) / slowing);
    }
    T part = room > 0 ? past / room - 1 : T(past > 0);
    if (fold < near_fold<T> && ahead < little_room<T> * behind) {
      part = T(1);
    } else if (a < Number<T>::huge && away < Number<T>::huge) {
      part = min(part, T(away * a / max(abs(present), T(Number<T>::tiny)) - fold_patience<T>));
    }
    const T full = sigma * abs(c) / fastest - square_i;
    own = max(own, T(min(max(part, T(0)), T(1)) * full));
  }
  at.lambda2 = at.bend + own;
  T secant = sigma;
  if (h * c > 0) {
    // The root y of (σ₀ + ½ dt h y) y = c is c/secant, where σ₀ is σ at the start of the step.
    T start = fma(T(-0.5) * dt * h, present, sigma);
    // Joints that have turned go on, so that they do not turn again and again.
    const bool turns =
        fold < near_fold<T> && ahead < (side * present < 0 ? T(2) : T(1)) * little_room<T> * behind;
    if (turns) start = -start;
    secant = T(0.5) * (start + sqrt(fma(T(2) * dt * h, c, start * start)));
    steady *= min(square_i / square(secant), T(1));
    if (turns) secant = -secant;
  }
  at.secant = secant, at.mu2 = steady + keeps, at.expected = expected;
}

}  // namespace supple::inline SUPPLE_ISA
