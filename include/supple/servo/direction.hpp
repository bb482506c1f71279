// Keeping the direction of a command: the whole motion slows down, to a stop if necessary.
//
// In each step J q̇ = s d with s >= 0, where d is the direction of the command. A step is taken
// only if a simulation shows that the robot can then stop along d within all limits. If there is no
// such step, the robot continues the stop that was simulated for the previous step, along the
// direction of that step. Every step therefore keeps the limits and a direction, whatever the
// command is. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/servo/condition.hpp"
#include "supple/limits/limits.hpp"
#include "supple/step/step.hpp"
#include "supple/servo/step_rows.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest number of simulated steps of a stop; a motion that needs more steps to stop is too fast.
inline constexpr int longest_stop = 4096;

// Largest difference between J q̇ and s d, relative to s d, at which the direction counts as kept.
template <class T>
inline constexpr T same_direction = T(1e-10);

// Margin to the limits in a simulated stop, relative to the speed: the real stop differs from the
// simulated one by rounding errors.
template <class T>
inline constexpr T stop_margin = T(1e-7);

// The data that determine how the robot stops: the tasks, the limits of the joints and the time
// step. `max_norm` is a bound on ‖q̇‖, and `most_condition`, unless it is zero, a bound on the
// condition number of J where the robot stops.
template <class T>
struct Stopper {
  StepRows<T> rows;
  const JointLimit<T>* limit;
  T dt, max_norm, most_condition;
};

// The interval of factors s >= 0 for which a joint motion s x (n) is inside a box: low <= s x <=
// high.
template <class T>
struct Factors {
  T least, most;  // the interval is empty if least > most
};

template <class T>
SUPPLE_FN bool has_any(const Factors<T>& factors) {
  return factors.least <= factors.most;
}

template <class T>
SUPPLE_FN Factors<T> factors_in_box(int n, const T* low, const T* high, const T* x, T max_norm) {
  const T size = sqrt(dot(n, x, x));
  Factors<T> found{T(0), size > 0 ? max_norm * just_below<T> / size : Number<T>::huge};
  for (int j = 0; j < n; ++j) {
    // A joint whose entry of x is no more than a rounding error counts as at rest.
    const bool rests = abs(x[j]) <= Number<T>::epsilon * size;
    if (rests) {
      if (low[j] > 0 || high[j] < 0) found.most = T(-1);
      continue;
    }
    const T one = low[j] / x[j], other = high[j] / x[j];
    found.least = max(found.least, min(one, other));
    found.most = min(found.most, max(one, other));
  }
  // An interval that is empty only because of rounding becomes a single factor.
  const T slack = T(64) * Number<T>::epsilon * found.least;
  if (found.least > found.most && found.least <= found.most + slack) found.most = found.least;
  return found;
}

// Computes the shortest joint motion x (n) with J x = d. Returns whether such a motion exists, to
// the precision `same_direction`.
template <class T>
SUPPLE_FN bool along_direction(int m, int n, const T* J, const T* d, T* x, T* scratch) {
  T *A = scratch, *left = A + m * m;
  gram(m, n, J, A);
  cholesky(m, A);
  for (int j = 0; j < n; ++j) x[j] = T(0);
  T rest(0);
  for (int round = 0; round < 3; ++round) {
    rest = T(0);
    for (int i = 0; i < m; ++i) {
      left[i] = d[i] - dot(n, J + i * n, x);
      rest = fma(left[i], left[i], rest);
    }
    if (round == 2) break;
    cholesky_solve(m, A, left);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) x[j] = fma(J[i * n + j], left[i], x[j]);
    }
  }
  return rest <= square(T(same_direction<T>)) * dot(m, d, d);
}

// Narrows the box of a joint with a jerk limit so that its speed does not pass `goal`. Unlike in
// `narrow_to`, the speed may also move away from `goal`, because the common direction of all joints
// may require it.
template <class L>
SUPPLE_FN void approach(const L& goal, const L& speed, const L& ramp, L& low, L& high) {
  const L part = largest_change(abs(goal - speed), ramp), lowest = low, highest = high;
  const mask_t<L> rises = goal >= speed;
  low = select(rises, lowest, min(max(speed - part, lowest), highest));
  high = select(rises, max(min(speed + part, highest), lowest), highest);
}

// Computes the admissible speeds of a joint (`joint_box`). If its jerk is limited, they are
// narrowed so that the joint stops without overshoot. A bound that differs from zero only by
// rounding becomes zero, so that all joints can stop in the same step.
template <class T>
SUPPLE_FN void stopping_box(const JointLimit<T>& limit, T q, T speed, T change, T dt, T& low,
                            T& high) {
  joint_box(limit, q, speed, change, dt, low, high);
  if (!(limit.jerk < Number<T>::huge)) return;
  approach(T(0), speed, T(limit.jerk * dt * dt), low, high);
  const T rounding = T(16) * Number<T>::epsilon * (abs(speed) + abs(change));
  if (low > 0 && low <= rounding) low = T(0);
  if (high < 0 && high >= -rounding) high = T(0);
}

template <class T>
SUPPLE_FN constexpr int stopper_scratch(const Chain<T>& chain, int m) {
  const int n = chain.nv;
  return 12 * chain.joints + 3 * m * n + m * m + 3 * m + 8 * n;
}

// Whether the joints can stop along the direction d (m) within all limits, in steps for which
// `accepts` returns true. q, v and c (n each; overwritten) are the joint positions, the speeds, and
// the changes of speed in the last step. `accepts` is called with the factor s of each step s x,
// with x (n) and with scratch memory, before q changes.
template <class T, class Accepts>
SUPPLE_FN bool stops_along(const Stopper<T>& of, const T* d, T* q, T* v, T* c, T* scratch,
                           const Accepts& accepts) {
  const Chain<T>& chain = of.rows.chain;
  const int m = of.rows.count, n = chain.nv;
  bool brakes = false;
  for (int j = 0; j < n; ++j) {
    brakes = brakes || min(of.limit[j].acceleration, of.limit[j].jerk) < Number<T>::huge;
  }
  if (!brakes) return true;
  T *x = scratch, *low = x + n, *high = low + n, *rest = high + n;
  Pose<T>* const joint_poses = reinterpret_cast<Pose<T>*>(rest);
  T *J = rest + 12 * chain.joints, *solving = J + of.rows.all * n;
  for (int step = 0; step < longest_stop; ++step) {
    T moving(0);
    for (int j = 0; j < n; ++j) {
      stopping_box(of.limit[j], q[j], v[j], c[j], of.dt, low[j], high[j]);
      moving = max(moving, max(low[j], -high[j]));
    }
    if (moving <= 0) return true;  // all joints can be at rest after this step
    forward(chain, q, joint_poses);
    rows_jacobian(of.rows, joint_poses, J);
    if (!along_direction(m, n, J, d, x, solving)) return false;
    const Factors<T> found = factors_in_box(n, low, high, x, of.max_norm);
    if (found.least * (T(1) + stop_margin<T>) > found.most) return false;
    if (!accepts(found.least, x, rest)) return false;
    for (int j = 0; j < n; ++j) {
      const T speed = found.least * x[j];
      c[j] = speed - v[j];
      v[j] = speed;
    }
    integrate(chain, q, v, of.dt, q);
  }
  return false;
}

template <class T>
SUPPLE_FN bool stops_along(const Stopper<T>& of, const T* d, T* q, T* v, T* c, T* scratch) {
  return stops_along(of, d, q, v, c, scratch, [](const T&, const T*, T*) { return true; });
}

// Whether the condition number of J allows a stop at q (n).
template <class T>
SUPPLE_FN bool may_stop_at(const Stopper<T>& of, const T* q, T* scratch) {
  return !(of.most_condition > 0) || condition_at(of.rows, q, scratch) <= of.most_condition;
}

// Writes s times `along` (n) to x (n), and clamps x to the box, which it can leave by rounding
// errors only. If `limited`, active_set (n) marks the joints at an end of the box.
template <class T>
SUPPLE_FN void put_scaled(int n, T s, const T* low, const T* high, const T* along, bool limited,
                          T* x, T* active_set) {
  for (int j = 0; j < n; ++j) {
    const T speed = s * along[j], near = T(64) * Number<T>::epsilon * abs(speed);
    const T end = speed >= high[j] - near ? T(1) : speed <= low[j] + near ? T(-1) : T(0);
    active_set[j] = limited ? end : T(0);
    x[j] = min(max(speed, low[j]), high[j]);
  }
}

// Number of slower steps that are tried before the robot continues the stop that was found in the
// previous step.
inline constexpr int slower_tries = 3;

// Returns a factor s such that the joints can stop along d = J x (m) after the step s x: `most` if
// possible, else the largest suitable one of a few smaller factors. s is above `most` only if the
// box requires it, and negative if no suitable factor is found. q and v (n) are the positions and
// speeds before the step, low and high (n) the box of the step. `halts` becomes true if a larger
// factor would lead too close to a singularity.
template <class T>
SUPPLE_FN T stoppable_factor(const Stopper<T>& of, const T* d, T most, const T* x, const T* low,
                             const T* high, const T* q, const T* v, bool& halts, T* scratch) {
  const int n = of.rows.chain.nv;
  T *next = scratch, *speed = next + n, *change = speed + n, *rest = change + n;
  const Factors<T> found = factors_in_box(n, low, high, x, of.max_norm);
  if (!has_any(found)) return T(-1);
  const T fastest = min(max(most, found.least), found.most);
  for (int attempt = 0; attempt <= slower_tries; ++attempt) {
    const T part = attempt == slower_tries ? T(0) : T(1) / T(1 << (2 * attempt));
    const T s = found.least + part * (fastest - found.least);
    for (int j = 0; j < n; ++j) {
      speed[j] = s * x[j];
      change[j] = speed[j] - v[j];
    }
    integrate(of.rows.chain, q, speed, of.dt, next);
    if (stops_along(of, d, next, speed, change, rest)) {
      if (may_stop_at(of, next, rest)) return s;
      halts = true;
    }
    if (fastest == found.least) break;
  }
  return T(-1);
}

}  // namespace supple::inline SUPPLE_ISA
