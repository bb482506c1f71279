// One step of a control loop: from the current joint positions to those after the next dt.
//
//   evaluate_tasks   kinematics and tasks: J, and the desired J q̇ (J q̈ in resolved acceleration)
//   take_step        a step: q̇ or q̈, and its damping
//   advance          joint limits, and the new q
//
// They are separate because a user's own step in Python may replace `take_step`.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "supple/box.hpp"
#include "supple/filtering.hpp"
#include "supple/limits.hpp"
#include "supple/redundancy.hpp"
#include "supple/step.hpp"
#include "supple/task.hpp"

namespace supple {

enum class ControlMode : int {
  step,       // one step for all rows
  secondary,  // the same, plus the secondary velocity of a criterion
  priority,   // one step for each task, in order of priority
  filtered,   // numerical filtering, which has memory
  estimated,  // damping by estimated singular values, which has memory
};

template <class T>
struct Servo {
  Chain<T> chain;
  int tasks, rows;  // rows of all tasks
  const Task<T>* task;
  const int* task_rows;  // (tasks,)
  ControlMode mode;
  const Step<T>* step;         // (tasks,) for priority, else one
  Redundancy<T> redundancy;    // for secondary
  Filter<T> filter;            // for filtered
  const JointLimit<T>* limit;  // (n,)
  T bound;                     // on ‖q̇‖
  bool keep_direction;         // scale the whole step at limits, which keeps its direction
  bool acceleration_level;     // resolved acceleration, else resolved rate
  T dt;                        // [s]
  T gain;                      // on the error: [1/s], or [1/s²] in resolved acceleration
  T rate_gain;                 // on the velocity error in resolved acceleration [1/s]
  T rest_gain;                 // decay rate of null-space motion in resolved acceleration [1/s]
  // (later_count,): lengths of the steps after the next one [s], of which the last repeats; if
  // there are none, all are dt.
  const T* later = nullptr;
  int later_count = 0;
  bool in_python = false;  // the step is one in Python, which may set `ServoState::metric`
};

// Targets, velocities and accelerations of all tasks side by side; null if not given. A target
// whose first value is NaN is not given.
template <class L>
struct Command {
  const L *target, *velocity, *acceleration;
};

// The memory of a control loop, and the result of its last step.
template <class L>
struct ServoState {
  L* q;               // (n,): joint positions, updated by `advance`
  L* qd;              // (n,): joint speeds, likewise
  L* J;               // (rows, n), weighted
  L* desired;         // (rows,): desired J q̇ or J q̈, weighted
  L* e;               // (rows,): the same; in resolved acceleration relative to the decaying motion
  L* dq;              // (n,): the step, q̇ or q̈, before limits
  L* active_set;      // (n,): -1, 0, 1 where a limit is active
  L* J_before;        // (rows, n): J of the previous step, weighted as for the damping rule
  L* v;               // (n,): secondary velocity of a criterion, given from outside
  L* u;               // (max_directions, rows): directions of the task that are remembered
  L sigma;            // estimate of the smallest singular value, negative before the first step
  L lambda2;          // damping of the step
  L damping_applied;  // damping inside the limits
  L limited;          // 1 if limits changed the step, else 0
  L before;           // manipulability at the previous step, negative if there was none
  bool has_previous;  // J_before is valid
  Estimate<L> estimate = {};  // the rest of what a step with memory estimates
  // (n, n): the norm that a step in Python minimizes, as rows; null if it is that of J and λ².
  const L* metric = nullptr;
  L* ranges = nullptr;  // of ranges.hpp; null if no row has an allowed range
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Lanes of scratch memory that `weighted_limited_step` needs.
SUPPLE_FN constexpr int weighted_limit_scratch(int m, int n) {
  return (m + n) * n + n + n * n + limited_scratch(n, n);
}

template <class T>
SUPPLE_FN constexpr int servo_scratch(const Servo<T>& servo) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const bool weighted = servo.in_python || servo.step->joint_scale;
  const int sizes[] = {12 * servo.chain.joints + m,
                       filter_scratch(m, n),
                       redundancy_scratch(m, n),
                       6 * n + m * n + limited_scratch(m, n),
                       5 * n + m * n + bounded_scratch(m, n),
                       weighted ? 6 * n + m * n + weighted_limit_scratch(m, n) : 0};
  int most = 0;
  for (const int size : sizes) most = size > most ? size : most;
  return most;
}

// Kinematics and tasks: state.J, state.desired and state.e at the current q and q̇. In resolved
// acceleration the step minimizes its distance to -rest_gain q̇, so that null-space motion decays: e
// is what remains relative to that.
template <class L, class T>
SUPPLE_FN void evaluate_tasks(const Servo<T>& servo, const Command<L>& command,
                              ServoState<L>& state, L* scratch) {
  const int n = servo.chain.coordinates;
  Pose<L>* joint_poses = reinterpret_cast<Pose<L>*>(scratch);
  L* rows = scratch + 12 * servo.chain.joints;
  forward(servo.chain, state.q, joint_poses);
  const L *target = command.target, *velocity = command.velocity,
          *acceleration = command.acceleration;
  L *J = state.J, *e = state.desired;
  // A velocity that is not given is zero, unless only accelerations are given.
  const bool rates = command.velocity || command.target || !command.acceleration;
  for (int k = 0; k < servo.tasks; ++k) {
    const Task<T>& task = servo.task[k];
    task_jacobian(servo.chain, task, joint_poses, J, command.target ? target : nullptr);
    for (int i = 0; i < task.rows; ++i) e[i] = L(0);
    const auto add = [&](T gain) {
      for (int i = 0; i < task.rows; ++i) e[i] = fma(rows[i], L(gain), e[i]);
    };
    if (command.velocity) {
      task_command(servo.chain, task, joint_poses, velocity, rows,
                   command.target ? target : nullptr);
      add(servo.acceleration_level ? servo.rate_gain : T(1));
      velocity += velocity_size(task);
    }
    L* const slack = state.ranges ? state.ranges + (e - state.desired) : nullptr;
    for (int i = 0; slack && i < task.rows; ++i) {
      const bool unknown = has_tilt(task) && i == task.rows - 1;  // without a target
      slack[i] = L(unknown ? -Number<T>::huge : T(0));
      slack[servo.rows + i] = -slack[i];
    }
    if (command.target) {
      task_offset(servo.chain, task, joint_poses, state.q, target, rows);
      const mask_t<L> given = target[0] == target[0];
      if (task.ranged) {
        split_offset(task, L(servo.gain), given, rows, slack, slack ? slack + servo.rows : slack);
        if (servo.in_python) drop_met_rows(task, n, rows, J);
      }
      for (int i = 0; i < task.rows; ++i) rows[i] = select(given, rows[i], L(0));
      add(servo.gain);
    }
    if (servo.acceleration_level) {
      for (int i = 0; i < task.rows; ++i) {
        if (rates) e[i] = fma(L(-servo.rate_gain), dot(n, J + i * n, state.qd), e[i]);
      }
      task_bias_acceleration(servo.chain, task, joint_poses, state.qd, rows,
                             command.target ? target : nullptr);
      add(T(-1));
      if (command.acceleration) {
        task_command(servo.chain, task, joint_poses, acceleration, rows,
                     command.target ? target : nullptr);
        add(T(1));
        acceleration += velocity_size(task);
      }
    }
    if (command.target) target += target_size(task);
    J += task.rows * n;
    e += task.rows;
  }
  for (int i = 0; i < servo.rows; ++i) {
    const L rest_rate =
        servo.acceleration_level ? L(servo.rest_gain) * dot(n, state.J + i * n, state.qd) : L(0);
    state.e[i] = state.desired[i] + rest_rate;
  }
}

// J with the weights of the step, or of the first step where there are several: the J that its
// damping rule sees. Returns its number of rows.
template <class L, class T>
SUPPLE_FN int weighted_jacobian(const Servo<T>& servo, const L* J, L* seen) {
  const int m = servo.mode == ControlMode::priority ? servo.task_rows[0] : servo.rows;
  scale_jacobian(*servo.step, m, servo.chain.coordinates, J, seen);
  return m;
}

// Whether the step is the minimizer of ‖J q̇ - e‖² + λ²‖q̇‖² for the unweighted J and e.
template <class T>
SUPPLE_FN bool is_plain_dls(const Servo<T>& servo) {
  const Step<T>& how = *servo.step;
  return servo.mode == ControlMode::step && !servo.in_python && is_damped(how) &&
         !servo.acceleration_level && !how.task_scale && !how.joint_scale && !how.direction &&
         !how.error_clamps && !(how.max_angle < Number<T>::huge);
}

// A step of the kernel: state.dq and state.lambda2.
template <class L, class T>
SUPPLE_FN void take_step(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const L *J = state.J, *e = state.e;
  L change(0);
  if (servo.step->damping.rule == Rule::mayorga_rank && state.has_previous) {
    const int seen = weighted_jacobian(servo, J, scratch) * n;
    for (int i = 0; i < seen; ++i) {
      const L moved = scratch[i] - state.J_before[i];
      change = fma(moved, moved, change);
    }
    change = sqrt(change);
  }
  switch (servo.mode) {
    case ControlMode::step:
      state.lambda2 =
          step(*servo.step, m, n, J, e, state.before, change, state.dq, scratch, state.lambda2);
      break;
    case ControlMode::secondary:
      state.lambda2 = redundant_step(servo.redundancy, m, n, J, e, state.v, state.before, change,
                                     state.dq, scratch);
      break;
    case ControlMode::priority:
      state.lambda2 = priority_step(servo.step, servo.tasks, servo.task_rows, n, J, e, state.before,
                                    change, state.dq, scratch);
      break;
    case ControlMode::filtered:
      if (!state.has_previous) {
        singular_directions(m, n, J, servo.filter.directions, state.u, state.sigma, scratch);
      }
      state.lambda2 = filtered_step(servo.filter, m, n, J, e, state.u, state.sigma, state.estimate,
                                    state.dq, scratch);
      break;
    case ControlMode::estimated:
      if (!state.has_previous) {
        extreme_directions(m, n, J, state.u, state.sigma, state.estimate.largest, scratch);
      }
      state.lambda2 = estimated_step(*servo.step, m, n, J, e, state.u, state.sigma, state.estimate,
                                     state.dq, scratch);
      break;
  }
}

// Weight of a task relative to the previous priority, where limits make them compete.
template <class T>
inline constexpr T priority_weight = T(1e-2);

// The J that measures the loss of a step at its limits: with the row weights of the step, and with
// smaller weights for lower priorities.
template <class L, class T>
SUPPLE_FN const L* limit_metric(const Servo<T>& servo, const L* J, L* weighted) {
  const int m = servo.rows, n = servo.chain.coordinates;
  if (servo.mode == ControlMode::step) {
    if (!servo.step->task_scale) return J;
    scale_jacobian(*servo.step, m, n, J, weighted);
    return weighted;
  }
  if (servo.mode != ControlMode::priority) return J;
  T weight(1);
  for (int k = 0, i = 0; k < servo.tasks; ++k, weight *= priority_weight<T>) {
    for (const int end = i + servo.task_rows[k] * n; i < end; ++i) weighted[i] = J[i] * L(weight);
  }
  return weighted;
}

// The least damping of a weighted norm, relative to the square of the weighted J: it decides where
// the task leaves joints undetermined, above the minimum of `boxed_step`.
template <class T>
inline constexpr T weighted_ridge = sizeof(T) == 8 ? T(1e-9) : T(1e-4);

// The step x (n) inside a box and no longer than `bound`, in the norm that the step minimizes: the
// rows state.metric, or [W J; λ S⁻¹] with row weights W and joint weights S. Returns the damping
// applied.
template <class L, class T>
SUPPLE_FN L weighted_limited_step(const Servo<T>& servo, int m, int n, const ServoState<L>& state,
                                  const L* low, const L* high, L* x, L* active_set, L* scratch) {
  L *rows = scratch, *tau = rows + (m + n) * n, *norm = tau + n, *rest = norm + n * n;
  if (state.metric) {
    for (int i = 0; i < n * n; ++i) norm[i] = state.metric[i];
  } else {
    const T* const joint = servo.step->joint_scale;
    scale_jacobian(*servo.step, m, n, state.J, rows);
    L square(0);
    for (int i = 0; i < m * n; ++i) square = fma(rows[i], rows[i], square);
    const L lambda = sqrt(max(state.lambda2, square * L(weighted_ridge<T>)));
    for (int i = 0; i < m + n; ++i) {
      for (int j = 0; j < n; ++j) {
        const L entry = i < m ? rows[i * n + j] : i - m == j ? lambda : L(0);
        rows[i * n + j] = entry / L(joint[j]);
      }
    }
    // The triangular factor has the same norm and n rows.
    qr(m + n, n, rows, tau);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) norm[i * n + j] = i <= j ? rows[i * n + j] : L(0);
    }
  }
  L square(0);
  for (int i = 0; i < n * n; ++i) square = fma(norm[i], norm[i], square);
  const L least = max(square * L(ridge<T>), L(Number<T>::tiny));
  const L applied = limited_step(n, n, norm, L(0), low, high, L(servo.bound), x, active_set, rest);
  return state.lambda2 + max(applied - least, L(0));
}

// Slows down joints that return from outside their limits where together they would exceed the norm
// `most`: to a speed between the required one and the lowest that their accelerations allow. If
// that is too fast as well, the norm has precedence over the accelerations.
template <class L, class T, class N>
SUPPLE_FN void slow_return(const Servo<T>& servo, N n, const ServoState<L>& state, const L& most,
                           const mask_t<L>& exceeds, L* low, L* high) {
  const L zero(0);
  // The lowest speed of a joint that must return.
  const auto least = [&](int j) {
    const JointLimit<T>& limit = servo.limit[j];
    const bool brakes = limit.acceleration < Number<T>::huge;
    const L brake = L(brakes ? limit.acceleration : T(0)) * L(servo.dt), speed = state.qd[j];
    const L down = brakes ? min(speed + brake, zero) : zero;
    const L up = brakes ? max(speed - brake, zero) : zero;
    const L over = select(state.q[j] > L(limit.upper), max(high[j], down), high[j]);
    const L under = select(state.q[j] < L(limit.lower), min(low[j], up), low[j]);
    return select(high[j] < zero, over, select(low[j] > zero, under, zero));
  };
  L pp(0), pd(0), dd(0);
  for (int j = 0; j < n; ++j) {
    const L p = least(j), d = max(low[j], min(high[j], zero)) - p;
    pp = fma(p, p, pp), pd = fma(p, d, pd), dd = fma(d, d, dd);
  }
  // ‖p + t d‖ = most
  const L room = max(most * most - pp, zero), half = max(pd, zero);
  const mask_t<L> slows = exceeds & (room > zero);
  const L t =
      select(slows, room / select(slows, half + sqrt(fma(half, half, dd * room)), L(1)), zero);
  const mask_t<L> too_fast = exceeds & !(room > zero);
  const L slower = select(too_fast, most / sqrt(select(too_fast, pp, L(1))), L(1));
  for (int j = 0; j < n; ++j) {
    const L p = least(j), near = max(low[j], min(high[j], zero));
    const L to = fma(t, near - p, p) * slower;
    const mask_t<L> down = exceeds & (high[j] < zero), up = exceeds & (low[j] > zero);
    high[j] = select(down, to, high[j]);
    low[j] = select(up, to, low[j]);
    low[j] = select(down, min(low[j], high[j]), low[j]);
    high[j] = select(up, max(high[j], low[j]), high[j]);
  }
}

// Applies the limits: state.dq -> state.qd and state.q, for m rows and n coordinates.
template <class L, class T, class M, class N>
SUPPLE_FN void advance(const Servo<T>& servo, M m, N n, ServoState<L>& state, L* scratch) {
  L *low = scratch, *high = low + n, *x = high + n, *x0 = x + n, *weighted = x0 + n,
    *rest = weighted + m * n;
  const L dt(servo.dt), bound(servo.bound), rest_rate(servo.rest_gain);
  L nearest(0);
  for (int j = 0; j < n; ++j) {
    joint_box(servo.limit[j], state.q[j], state.qd[j], dt, low[j], high[j], servo.later,
              servo.later_count);
    const L speed = state.qd[j], change = fma(-rest_rate, speed, state.dq[j]);
    x0[j] = x[j] = servo.acceleration_level ? fma(change, dt, speed) : state.dq[j];
    const L near = max(low[j], min(high[j], L(0)));
    nearest = fma(near, near, nearest);
  }
  // Joints that must return from outside their limits may not make the whole step too fast.
  const L most = bound * L(just_below<T>);
  const mask_t<L> exceeds = nearest > most * most;
  if (any(exceeds)) slow_return(servo, n, state, most, exceeds, low, high);
  state.damping_applied = state.lambda2;
  if (servo.keep_direction) {
    scale_into_box(n, low, high, bound, x, state.active_set);
    shorten_in_box(n, low, high, bound, x);  // joints forced back inside their limits add to ‖x‖
  } else {
    const mask_t<L> shorter = dot(n, x, x) <= bound * bound;
    mask_t<L> fits = shorter;
    for (int j = 0; j < n; ++j) {
      const L out = select(x[j] < low[j], L(-1), select(x[j] > high[j], L(1), L(0)));
      fits = fits & (out == L(0));
      // the active set of a step that is too long is unknown: a shorter one may fit
      state.active_set[j] = select(shorter, out, L(0));
    }
    if (!all(fits) && is_plain_dls(servo)) {
      // Optimal damping only enforces its bound, which the limits may already ensure.
      const bool optimal = servo.step->damping.rule == Rule::optimal ||
                           servo.step->damping.rule == Rule::optimal_newton;
      L damping_applied, *y = weighted;
      const mask_t<L> right =
          bounded_step(m, n, state.J, state.e, optimal ? L(0) : state.lambda2, low, high, bound, y,
                       state.active_set, &damping_applied, rest);
      for (int j = 0; j < n; ++j) x[j] = select(right & !fits, y[j], x[j]);
      state.damping_applied = select(right & !fits, damping_applied, state.damping_applied);
      fits = fits | right;
    }
    if (!all(fits)) {
      L* const y = rest;
      for (int j = 0; j < n; ++j) y[j] = x[j];
      L *active_set = y + n, *more = active_set + n, damping_applied;
      if (state.metric || (servo.mode == ControlMode::step && servo.step->joint_scale)) {
        damping_applied = weighted_limited_step(servo, m, n, state, low, high, y, active_set, more);
      } else {
        const L* const J = limit_metric(servo, state.J, weighted);
        damping_applied =
            limited_step(m, n, J, state.lambda2, low, high, bound, y, active_set, more);
      }
      for (int j = 0; j < n; ++j) {
        x[j] = select(fits, x[j], y[j]);
        state.active_set[j] = select(fits, state.active_set[j], active_set[j]);
      }
      state.damping_applied = select(fits, state.damping_applied, damping_applied);
    }
  }
  state.limited = L(0);
  for (int j = 0; j < n; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    const L noise = L(T(64) * Number<T>::epsilon) * abs(x0[j]);
    state.limited = select(abs(x[j] - x0[j]) > noise, L(1), state.limited);
    const L lower(limit.lower), upper(limit.upper), q = state.q[j], next = fma(x[j], dt, q);
    // Rounding must not take a joint past a limit that it has not passed.
    const L not_above = select(q <= upper, min(next, upper), next);
    state.q[j] = select(q >= lower, max(not_above, lower), not_above);
    state.qd[j] = x[j];
  }
}

template <class L, class T>
SUPPLE_FN void advance(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  advance(servo, servo.rows, servo.chain.coordinates, state, scratch);
}

// Stores what the next step compares with.
template <class L, class T>
SUPPLE_FN void store_history(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const Rule rule = servo.step->damping.rule;
  if (rule == Rule::mayorga_rank) weighted_jacobian(servo, state.J, state.J_before);
  if (rule == Rule::manipulability_rate) {
    L *copy = scratch, *sigma = copy + m * n, *work = sigma + m + n;
    const int rows = weighted_jacobian(servo, state.J, copy);
    singular_values(rows, n, copy, sigma, work);
    state.before = manipulability(rows < n ? rows : n, sigma);
  }
  state.has_previous = true;
}

}  // namespace supple::inline SUPPLE_ISA
