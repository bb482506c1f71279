// The step of yielding.hpp near singularities: each singular direction has its own damping, by the
// rules of singular_rules.hpp.
#pragma once

#include "supple/servo/singular_rules.hpp"

namespace supple::inline SUPPLE_ISA {

// Computes the step of.dq from the singular value decomposition of J. of.used_J
// becomes J with √(σ² + λ²) in place of each σ.
template <class T, class M, class N>
SUPPLE_NOINLINE_DEVICE void singular_step(M m, N n, const StepProblem<T>& of, T* scratch) {
  const Servo<T>& servo = of.servo;
  const int k = int(m) < int(n) ? int(m) : int(n);
  T *u = scratch, *v = u + m * k, *sigma = v + n * k, *lambda2 = sigma + k, *c = lambda2 + k,
    *y = c + k, *along_o = y + k, *along_t = along_o + k, *h = along_t + k, *bend = h + k,
    *share = bend + k, *x = share + k, *ui = x + n, *vi = ui + m, *residual = vi + n,
    *slopes = residual + m, *slope = slopes, *work = slopes + k * n, *bias = work;
  svd(m, n, of.J, u, sigma, v, work);
  const T kappa = servo.curvature / servo.dt, near = near_sigma<T> * kappa, dt = servo.dt;
  const auto project = [&](int i, const T* from) {
    T sum(0);
    for (int r = 0; r < m; ++r) sum = fma(u[r * k + i], from[r], sum);
    return sum;
  };
  const T zero = T(64) * Number<T>::epsilon * sigma[0];  // rounding error of σ
  // The share of each direction in the rows that bend: only these have singularities.
  for (int i = 0; i < k; ++i) {
    share[i] = T(1);
    if (!of.linear || sigma[i] <= zero) continue;
    share[i] = T(0);
    for (int r = 0; r < m; ++r) share[i] = fma(of.bends[r] * u[r * k + i], u[r * k + i], share[i]);
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
  const T mu2 = least_mu2(servo);
  const auto stiffness = [&](int i) {
    return square(sigma[i]) + lambda2[i] + (is_near(i) ? share[i] * mu2 : T(0));
  };
  bool leaves_out = false;
  for (int j = 0; j < n; ++j) leaves_out = leaves_out || of.stopped[j] != 0;
  // Whether only joints that are left out could move along direction i: all of o along it is then
  // beyond the reach of the other joints.
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
    gradient_of(of, m, n, ui, vi, slope);
    for (int j = 0; j < n; ++j) slope[j] = of.stopped[j] == 0 ? slope[j] : T(0);
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
  if (of.linear) {
    T size(0), slack(0);
    for (int r = 0; r < m; ++r) size = fma(of.bends[r] * residual[r], residual[r], size);
    for (int j = 0; j < n; ++j) {
      T pull(0);
      for (int r = 0; r < m; ++r) pull = fma(of.bends[r] * residual[r], of.J[r * n + j], pull);
      slack = fma(pull, pull, slack);
    }
    if (slack < near * near * size) beyond = square(servo.gain) * size;
  }
  const T most_bend = T(2) * kappa * length(m, residual);
  T most_share(0);  // largest share of -r·J̇(v)v in σ² + λ²
  for (int i = 0; i < k; ++i) {
    bend[i] = T(0);
    if (most_bend > T(1e-3) * max(square(sigma[i]), mu2)) {
      take(i);
      bias_of(of, m, n, vi, bias);
      bend[i] = max(-dot(m, residual, bias), T(0));
    }
    lambda2[i] = bend[i] + (is_near(i) ? share[i] * least_lambda2<T> * square(kappa) : T(0));
    y[i] = sigma[i] * along_o[i] / (square(sigma[i]) + lambda2[i]);
    if (bend[i] > 0) most_share = max(most_share, T(bend[i] / (square(sigma[i]) + lambda2[i])));
  }
  // One gain for all directions that are not nearly singular, and one for each nearly singular one.
  clear();
  for (int i = 0; i < k; ++i) {
    if (!is_near(i)) add_velocity(i);
  }
  const T bounded = min(servo.gain, T((1 - T(0.5) * most_share) / dt)),
          gain = braking_gain(n, of.limit, bounded, dt, x);
  for (int i = 0; i < k; ++i) {
    T own = gain;
    if (is_near(i)) {
      clear();
      add_velocity(i);
      own = braking_gain(n, of.limit, gain, dt, x);
    }
    c[i] = fma(own, along_o[i], along_t[i]);
  }
  for (int i = 0; i < k; ++i) y[i] = sigma[i] * c[i] / stiffness(i);
  // A correction of an error ends at the target; only the motion due to the commanded velocity
  // lasts.
  const T commanded = length(m, of.rate), corrected = servo.gain * length(m, of.offset),
          lasting = commanded > 0 ? persistence<T> * commanded / (commanded + corrected) : T(0);
  for (int i = 0; i < k; ++i) {
    if (!is_near(i)) {
      const T missed = fma(-sigma[i], y[i], c[i]);
      for (int r = 0; r < m; ++r) of.lost[r] = fma(missed, u[r * k + i], of.lost[r]);
      if (lambda2[i] > 0) beyond += square(missed);
      continue;
    }
    take(i);
    slope = slopes + i * n;
    clear();
    for (int other = 0; other < k; ++other) {
      if (other != i) add_velocity(other);
    }
    Direction<T> at{vi,
                    slope,
                    sigma[i],
                    share[i],
                    c[i],
                    along_o[i],
                    along_t[i],
                    bend[i],
                    h[i],
                    dot(n, slope, x),
                    project(i, of.slope)};
    decide(of, n, lasting, at);
    lambda2[i] = at.lambda2;
    const T secant = at.secant;
    y[i] = fma(at.mu2, at.expected, secant * c[i]) / (square(secant) + lambda2[i] + at.mu2);
    const T missed = fma(-secant, y[i], c[i]);
    for (int r = 0; r < m; ++r) of.lost[r] = fma(missed, u[r * k + i], of.lost[r]);
    if (is_blocked(i) || lambda2[i] > at.crossing) beyond += square(missed);
  }
  clear();
  for (int i = 0; i < k; ++i) add_velocity(i);
  for (int j = 0; j < n; ++j) of.dq[j] = x[j];
  for (int i = 0; i < m * n; ++i) of.used_J[i] = of.J[i];
  for (int i = 0; i < k; ++i) {
    if (!(lambda2[i] > 0)) continue;
    const T more = sqrt(stiffness(i)) - sigma[i];
    for (int j = 0; j < n; ++j) work[j] = v[j * k + i];
    for (int r = 0; r < m; ++r) add_row(n, T(more * u[r * k + i]), work, of.used_J + r * n);
  }
  for (int r = 0; r < m; ++r) of.used_e[r] = dot(n, of.used_J + r * n, x);
  ServoState<T>& state = of.state;
  for (int i = 0; i < k; ++i) state.chosen_lambda2 = max(state.chosen_lambda2, lambda2[i]);
  state.beyond = sqrt(fma(state.beyond, state.beyond, beyond));
  if (!of.avoids) return;
  clear();
  add_limit_slope(servo, of.q, x);
  take(k - 1);
  add_singular_slope(servo, state, of.joint_poses, sigma[k - 1], ui, vi, x, slopes);
  for (int j = 0; j < n; ++j) x[j] = of.stopped[j] == 0 ? x[j] : T(0);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < k; ++i) {
      T part(0);
      for (int j = 0; j < n; ++j) part = fma(v[j * k + i], x[j], part);
      for (int j = 0; j < n; ++j) x[j] = fma(-part, v[j * k + i], x[j]);
    }
  }
  for (int j = 0; j < n; ++j) x[j] = of.stopped[j] == 0 ? x[j] : T(0);
  state.self_moves = add_null_motion(n, x, of.dq);
}

}  // namespace supple::inline SUPPLE_ISA
