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
#include "supple/direction.hpp"
#include "supple/filtering.hpp"
#include "supple/folds.hpp"
#include "supple/limits.hpp"
#include "supple/redundancy.hpp"
#include "supple/step.hpp"
#include "supple/step_rows.hpp"

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
  bool keep_direction;         // slow the whole step down at limits, which keeps its direction
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
  T curvature = 0;         // κ dt if folds are corrected (folds.hpp), else 0
  bool whole = false;      // the step must perform the whole command, or it stops
  // Condition numbers of J above which the motion slows down and halts; zero if it does not halt.
  T slow_condition = 0, halt_condition = 0;
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
  L* change;          // (n,): by how much the last step changed them, likewise; null if unknown
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
  L damping_applied;  // damping of the step after limits
  L limited;          // 1 if limits changed the step, else 0
  L before;           // manipulability at the previous step, negative if there was none
  bool has_previous;  // J_before is valid
  Estimate<L> estimate = {};  // the rest of what a step with memory estimates
  // (n, n): the norm that a step in Python minimizes, as rows; null if it is that of J and λ².
  const L* metric = nullptr;
  L* direction = nullptr;   // (rows,): of the motion, if the direction is kept
  L* exact_J = nullptr;     // (rows, n): J while state.J is its correction at a fold
  L* offset = nullptr;      // (rows,): from the targets, weighted; null if folds are not corrected
  const L* held = nullptr;  // (rows of all tasks,): see StepRows
  bool scattered = false;   // the direction could not be kept
  L halting = L(1);         // factor by which the motion slows down before a singularity
  L held_lambda2 = L(-1);   // damping of the problem at limits; negative if that of the step
  L beyond = L(-1);         // the part of e beyond a fold, negative if J is not corrected
  L* ranges = nullptr;      // of ranges.hpp; null if no row has an allowed range
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
                       fold_scratch(servo.chain, m),
                       4 * n + free_depth_scratch(m, n),
                       12 * servo.chain.joints + 2 * m * n + 2 * (m + n) + n,
                       9 * n + m + stopper_scratch(servo.chain, m),
                       filter_scratch(m, n),
                       redundancy_scratch(m, n),
                       9 * n + m * n + limited_scratch(m, n),
                       8 * n + m * n + bounded_scratch(m, n),
                       weighted ? 9 * n + m * n + weighted_limit_scratch(m, n) : 0};
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
    L* const offset = state.offset ? state.offset + (e - state.desired) : nullptr;
    for (int i = 0; i < task.rows; ++i) {
      e[i] = L(0);
      if (offset) offset[i] = L(0);
    }
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
      for (int i = 0; i < task.rows; ++i) {
        rows[i] = select(given, rows[i], L(0));
        if (offset) offset[i] = rows[i];
      }
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

// The rows of the tasks that take part in a step.
template <class T>
SUPPLE_FN StepRows<T> rows_of(const Servo<T>& servo, const ServoState<T>& state) {
  int all = 0;
  for (int k = 0; k < servo.tasks; ++k) all += servo.task[k].rows;
  return {servo.chain, servo.tasks, servo.task, all, servo.rows, state.held};
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

// The condition number of J (m x n; overwritten).
template <class T>
SUPPLE_FN T condition_number(int m, int n, T* J, T* scratch) {
  T *sigma = scratch, *work = sigma + m + n;
  singular_values(m, n, J, sigma, work);
  const T least = max(sigma[(m < n ? m : n) - 1], Number<T>::tiny);
  return sigma[0] / least;
}

// Relative length of the step that shows whether a motion leads away from a singularity.
template <class T>
inline constexpr T probe = T(1e-3);

// The factor by which a motion slows down before a singularity: 1 up to the condition number
// `slow_condition`, 0 from `halt_condition`, and linear between. A motion that lowers the condition
// number leads away from the singularity and is not slowed down.
template <class T>
SUPPLE_FN T halting_factor(const Servo<T>& servo, const ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  const StepRows<T> rows = rows_of(servo, state);
  T *J = scratch + 12 * servo.chain.joints, *q = J + rows.all * n, *rest = q + n;
  for (int i = 0; i < m * n; ++i) J[i] = state.J[i];
  const T here = condition_number(m, n, J, rest), size = sqrt(dot(n, state.dq, state.dq));
  if (here <= servo.slow_condition || !(size > 0)) return T(1);
  for (int j = 0; j < n; ++j) q[j] = fma(probe<T> / size, state.dq[j], state.q[j]);
  forward(servo.chain, q, joint_poses);
  rows_jacobian(rows, joint_poses, J);
  if (condition_number(m, n, J, rest) < here) return T(1);
  const T part = (servo.halt_condition - here) / (servo.halt_condition - servo.slow_condition);
  return min(max(part, T(0)), T(1));
}

// The default step: damped toward a singularity, exact elsewhere.
template <class T>
SUPPLE_FN void step_near_folds(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  for (int i = 0; i < m * n; ++i) state.exact_J[i] = state.J[i];
  const Fold<T> fold = correct_folds(rows_of(servo, state), servo.limit, servo.dt, servo.curvature,
                                     state.q, state.offset, state.J, state.e, scratch);
  state.beyond = fold.beyond;
  Step<T> how = *servo.step;
  how.damping.p[0] *= fold.depth;
  state.lambda2 = step(how, m, n, state.J, state.e, T(-1), T(0), state.dq, scratch);
  state.held_lambda2 = servo.step->damping.p[0] * dot(m, state.e, state.e);
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
  state.beyond = L(-1);
  if (servo.curvature > 0) {
    step_near_folds(servo, state, scratch);
    return;
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
  state.halting = L(1);
  if (servo.halt_condition > 0) {
    state.halting = halting_factor(servo, state, scratch);
    for (int j = 0; j < n; ++j) state.dq[j] = state.dq[j] * state.halting;
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

// Moves the step x (n) into a box and inside the bound on its norm, in the sense of the mode:
// state.active_set and state.damping_applied say how.
template <class L, class T, class M, class N>
SUPPLE_FN void fit_in_box(const Servo<T>& servo, M m, N n, ServoState<L>& state, const L* low,
                          const L* high, L* x, L* scratch) {
  L *weighted = scratch, *rest = weighted + m * n;
  const L bound(servo.bound),
      lambda2 = select(state.held_lambda2 >= L(0), state.held_lambda2, state.lambda2);
  state.damping_applied = state.lambda2;
  if (servo.keep_direction) {
    scale_into_box(n, low, high, bound, x, state.active_set);
    shorten_in_box(n, low, high, bound, x);  // joints forced back inside their limits add to ‖x‖
    return;
  }
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
    const mask_t<L> right = bounded_step(m, n, state.J, state.e, optimal ? L(0) : lambda2, low,
                                         high, bound, y, state.active_set, &damping_applied, rest);
    for (int j = 0; j < n; ++j) x[j] = select(right & !fits, y[j], x[j]);
    state.damping_applied = select(right & !fits, damping_applied, state.damping_applied);
    fits = fits | right;
  }
  if (all(fits)) return;
  L* const y = rest;
  for (int j = 0; j < n; ++j) y[j] = x[j];
  L *active_set = y + n, *more = active_set + n, damping_applied;
  if (state.metric || (servo.mode == ControlMode::step && servo.step->joint_scale)) {
    damping_applied = weighted_limited_step(servo, m, n, state, low, high, y, active_set, more);
  } else {
    const L* const J = limit_metric(servo, state.J, weighted);
    damping_applied = limited_step(m, n, J, lambda2, low, high, bound, y, active_set, more);
  }
  for (int j = 0; j < n; ++j) {
    x[j] = select(fits, x[j], y[j]);
    state.active_set[j] = select(fits, state.active_set[j], active_set[j]);
  }
  state.damping_applied = select(fits, state.damping_applied, damping_applied);
}

// The same for the default step, which is x0 (n) before limits. If joints are held at limits, the
// problem of the other joints may be singular by itself, and is damped as well. A first solution,
// with the damping of an exact singularity, shows which joints are held. The second one has the
// damping for the depth of the problem of the others (`free_depth`).
template <class T, class M, class N>
SUPPLE_FN void fit_damped(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* low,
                          const T* high, const T* x0, T* x, T* scratch) {
  fit_in_box(servo, m, n, state, low, high, x, scratch);
  bool held = false, changed = false;
  for (int j = 0; j < n; ++j) {
    held = held || state.active_set[j] != 0;
    changed = changed || x[j] != x0[j];
  }
  if (!held && !changed) return;
  const T least = damped_range<T> * servo.curvature * length(m, state.e);
  const T most = state.held_lambda2;
  const T depth = free_depth(m, n, state.J, state.active_set, least, scratch);
  const T lambda2 = max(state.lambda2, most * depth);
  if (!(lambda2 < most)) return;
  state.held_lambda2 = lambda2;
  for (int j = 0; j < n; ++j) x[j] = x0[j];
  fit_in_box(servo, m, n, state, low, high, x, scratch);
  state.held_lambda2 = most;
}

// Whether the jerk of some joint is limited.
template <class T>
SUPPLE_FN bool limits_jerk(const Servo<T>& servo) {
  bool limited = false;
  for (int j = 0; j < servo.chain.coordinates; ++j) {
    limited = limited || servo.limit[j].jerk < Number<T>::huge;
  }
  return limited;
}

// Narrows a box so that speeds settle: joints with a jerk limit approach the speeds that the step x
// (n) would have without limits of acceleration and jerk, and neither pass them nor turn away from
// them. (A joint that compensates for another one would have to brake in turn: the two oscillate.)
template <class L, class T, class M, class N>
SUPPLE_FN void settle_speeds(const Servo<T>& servo, M m, N n, ServoState<L>& state, const L* x,
                             L* low, L* high, L* scratch) {
  L *slowest = scratch, *fastest = slowest + n, *goal = fastest + n, *rest = goal + n;
  const L dt(servo.dt);
  for (int j = 0; j < n; ++j) {
    speed_box(servo.limit[j], state.q[j], dt, slowest[j], fastest[j]);
    goal[j] = x[j];
  }
  fit_in_box(servo, m, n, state, slowest, fastest, goal, rest);
  for (int j = 0; j < n; ++j) {
    if (!(servo.limit[j].jerk < Number<T>::huge)) continue;
    narrow_to(goal[j], state.qd[j], L(servo.limit[j].jerk) * dt * dt, low[j], high[j]);
  }
}

// Slows a step x (n) down as a whole, so that it keeps its direction and can stop along it (see
// direction.hpp). Returns false if there is no such step: a joint is outside its limits, or was
// moved by something else.
template <class T, class M, class N>
SUPPLE_FN bool keep_direction(const Servo<T>& servo, M m, N n, ServoState<T>& state, const T* low,
                              const T* high, T* x, T* scratch) {
  T *d = scratch, *along = d + m, *slow = along + n, *fast = slow + n, *rest = fast + n;
  const Stopper<T> stopper{rows_of(servo, state), servo.limit, servo.dt, servo.bound};
  T size(0), off(0);
  for (int i = 0; i < m; ++i) {
    d[i] = dot(n, state.J + i * n, x);
    size = fma(d[i], d[i], size);
    off += square(d[i] - state.e[i]);
  }
  const bool whole = !servo.whole || off <= square(T(same_direction<T>)) * dot(m, state.e, state.e);
  if (size > 0 && whole) {
    const T s = stoppable_factor(stopper, d, x, low, high, state.q, state.qd, rest);
    if (s >= 0) {
      for (int i = 0; i < m; ++i) state.direction[i] = d[i];
      put_scaled(n, s, low, high, x, s != T(1), x, state.active_set);
      return true;
    }
  }
  // The command is zero or not to be followed: the stop that is known continues.
  bool moves = false, rests = true;
  for (int j = 0; j < n; ++j) {
    stopping_box(servo.limit[j], state.q[j], state.qd[j], state.change[j], servo.dt, slow[j],
                 fast[j]);
    moves = moves || state.qd[j] != T(0);
    rests = rests && slow[j] <= T(0) && fast[j] >= T(0);
    along[j] = T(0);
  }
  Factors<T> found{T(0), T(0)};
  if (!rests) {
    if (!moves || !along_direction(m, n, state.J, state.direction, along, rest)) return false;
    found = factors_in_box(n, slow, fast, along, servo.bound);
    if (!has_any(found)) return false;
  }
  put_scaled(n, found.least, slow, fast, along, true, x, state.active_set);
  return true;
}

// The boxes of all joints, low and high (n), and the step before limits, x0 (n), as speeds.
template <class L, class T, class N>
SUPPLE_FN void all_boxes(const Servo<T>& servo, N n, const ServoState<L>& state, L* low, L* high,
                         L* x0) {
  const L dt(servo.dt), rest_rate(servo.rest_gain);
  L nearest(0);
  for (int j = 0; j < n; ++j) {
    joint_box(servo.limit[j], state.q[j], state.qd[j], state.change ? state.change[j] : L(0), dt,
              low[j], high[j], servo.later, servo.later_count);
    const L speed = state.qd[j], change = fma(-rest_rate, speed, state.dq[j]);
    x0[j] = servo.acceleration_level ? fma(change, dt, speed) : state.dq[j];
    const L near = max(low[j], min(high[j], L(0)));
    nearest = fma(near, near, nearest);
  }
  // Joints that return from outside their limits must not push ‖q̇‖ above its bound.
  const L most = L(servo.bound) * L(just_below<T>);
  const mask_t<L> exceeds = nearest > most * most;
  if (any(exceeds)) slow_return(servo, n, state, most, exceeds, low, high);
}

// Moves the joints at the speeds x (n); x0 (n) are the speeds of the step before limits.
template <class L, class T, class N>
SUPPLE_FN void move_joints(const Servo<T>& servo, N n, ServoState<L>& state, const L* x,
                           const L* x0) {
  const L dt(servo.dt);
  state.limited = L(0);
  for (int j = 0; j < n; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    const L noise = L(T(64) * Number<T>::epsilon) * abs(x0[j]);
    state.limited = select(abs(x[j] - x0[j]) > noise, L(1), state.limited);
    const L lower(limit.lower), upper(limit.upper), q = state.q[j], next = fma(x[j], dt, q);
    // Rounding must not take a joint past a limit that it has not passed.
    const L not_above = select(q <= upper, min(next, upper), next);
    state.q[j] = select(q >= lower, max(not_above, lower), not_above);
    if (state.change) state.change[j] = x[j] - state.qd[j];
    state.qd[j] = x[j];
  }
}

// Applies the limits in a single step: state.dq -> state.qd and state.q, for m rows and n
// coordinates.
template <class L, class T, class M, class N>
SUPPLE_FN void advance(const Servo<T>& servo, M m, N n, ServoState<L>& state, L* scratch) {
  L *low = scratch, *high = low + n, *x = high + n, *x0 = x + n, *rest = x0 + n;
  all_boxes(servo, n, state, low, high, x0);
  for (int j = 0; j < n; ++j) x[j] = x0[j];
  fit_in_box(servo, m, n, state, low, high, x, rest);
  move_joints(servo, n, state, x, x0);
}

// The same in a control loop, where speeds settle and directions are kept over many steps. Restores
// J where it was corrected.
template <class T>
SUPPLE_FN void advance(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  T *low = scratch, *high = low + n, *x = high + n, *x0 = x + n, *rest = x0 + n;
  all_boxes(servo, n, state, low, high, x0);
  for (int j = 0; j < n; ++j) x[j] = x0[j];
  const bool keeps = servo.keep_direction && !servo.acceleration_level;
  if (keeps) {
    for (int j = 0; j < n; ++j) {
      const T ramp = servo.limit[j].jerk * servo.dt * servo.dt;
      if (ramp < Number<T>::huge) approach(x0[j], state.qd[j], ramp, low[j], high[j]);
    }
  } else if (limits_jerk(servo)) {
    settle_speeds(servo, m, n, state, x, low, high, rest);
  }
  state.damping_applied = state.lambda2;
  const bool kept = keeps && keep_direction(servo, m, n, state, low, high, x, rest);
  if (!kept && state.held_lambda2 >= 0) {
    fit_damped(servo, m, n, state, low, high, x0, x, rest);
  } else if (!kept) {
    fit_in_box(servo, m, n, state, low, high, x, rest);
  }
  state.scattered = keeps && !kept;
  move_joints(servo, n, state, x, x0);
  if (state.beyond < 0) return;
  for (int i = 0; i < m * n; ++i) {
    const T corrected = state.J[i];
    state.J[i] = state.exact_J[i];
    state.exact_J[i] = corrected;
  }
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
    const bool wide = rows <= n;
    if (wide) gram(rows, n, copy, work);
    if (!wide || !all(manipulability_by_cholesky(rows, work, &state.before))) {
      singular_values(rows, n, copy, sigma, work);
      state.before = manipulability(wide ? rows : n, sigma);
    }
  }
  state.has_previous = true;
}

}  // namespace supple::inline SUPPLE_ISA
