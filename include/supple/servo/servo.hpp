// One step of a control loop: from the current joint positions to the positions dt later.
//
//   evaluate_tasks   kinematics and tasks: J, and the desired J q̇ (J q̈ in resolved acceleration)
//   take_step        a step: q̇ or q̈, and its damping
//   advance          joint limits, and the new q
//
// The three are separate because a user's own step in Python may replace `take_step`. Tuned
// constants are explained in docs/constants.md.
#pragma once

#include "supple/step/estimated.hpp"
#include "supple/servo/limits.hpp"
#include "supple/servo/state.hpp"
#include "supple/servo/tall_step.hpp"
#include "supple/servo/yielding.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
SUPPLE_FN constexpr int servo_scratch(const Servo<T>& servo) {
  const int m = servo.rows, n = servo.chain.nv;
  const bool weighted = servo.in_python || servo.step->joint_scale;
  int every = 0;  // rows of all tasks
  for (int k = 0; k < servo.tasks; ++k) every += servo.task[k].rows;
  const int sizes[] = {
      16 * servo.chain.joints + m,
      servo.curvature > 0 ? yielding_scratch(servo.chain, every > m ? every : m) : 0,
      servo.curvature > 0 && servo.held_rows > 0
          ? yielding_scratch(servo.chain, (every > m ? every : m) + servo.held_rows) +
                held_step_scratch(m, n, servo.held_rows)
          : 0,
      12 * servo.chain.joints + (every + m) * n + m + 6 * n,
      9 * n + m + stopper_scratch(servo.chain, m),
      filter_scratch(m, n),
      redundancy_scratch(m, n),
      10 * n + m * n + limited_scratch(m, n),
      9 * n + m * n + bounded_scratch(m, n),
      is_floating(servo.chain) ? 10 * n + m * n + packed_box_scratch(m, n) : 0,
      weighted ? 10 * n + weighted_cost_scratch(m, n) + limited_scratch(n, n) : 0};
  int most = 0;
  for (const int size : sizes) most = size > most ? size : most;
  return most;
}

// Evaluates kinematics and tasks at the current q and q̇: state.J, state.desired and state.e. In
// resolved acceleration the step is computed relative to q̈ = -rest_gain q̇, so that null-space
// motion decays; state.e is the desired J q̈ minus J times this acceleration.
template <class L, class T>
SUPPLE_FN void evaluate_tasks(const Servo<T>& servo, const Command<L>& command,
                              ServoState<L>& state, L* scratch) {
  const int n = servo.chain.nv;
  Pose<L>* joint_poses = reinterpret_cast<Pose<L>*>(scratch);
  L* rows = scratch + 12 * servo.chain.joints;
  L* const moment = is_floating(servo.chain) ? rows + servo.rows : nullptr;
  forward(servo.chain, state.q, joint_poses);
  const L *target = command.target, *velocity = command.velocity,
          *acceleration = command.acceleration;
  L *J = state.J, *e = state.desired;
  // A velocity that is not given is zero, unless only accelerations are given.
  const bool rates = command.velocity || command.target || !command.acceleration;
  for (int k = 0; k < servo.tasks; ++k) {
    const Task<T>& task = servo.task[k];
    step_jacobian(servo.chain, task, joint_poses, J, command.target ? target : nullptr, moment);
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
      add(servo.second_order ? servo.rate_gain : T(1));
      velocity += velocity_size(task);
    }
    L* const slack = state.ranges ? state.ranges + (e - state.desired) : nullptr;
    for (int i = 0; slack && i < task.rows; ++i) {
      const bool unknown = has_tilt(task) && i == task.rows - 1;  // a tilt without a target
      slack[i] = L(unknown ? -Number<T>::huge : T(0));
      slack[servo.rows + i] = -slack[i];
    }
    if (command.target) {
      task_offset(servo.chain, task, joint_poses, state.q, target, rows);
      const mask_t<L> given = target[0] == target[0];
      const T share = servo.task_gain ? servo.task_gain[k] : T(1);
      if (task.ranged) {
        split_offset(task, L(servo.gain * share), given, rows, slack,
                     slack ? slack + servo.rows : slack);
        if (servo.in_python) drop_met_rows(task, n, rows, J);
      }
      for (int i = 0; i < task.rows; ++i) {
        rows[i] = select(given, rows[i] * L(share), L(0));
        if (offset) offset[i] = rows[i];
      }
      add(servo.gain);
    }
    if (servo.second_order) {
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
        servo.second_order ? L(servo.rest_gain) * dot(n, state.J + i * n, state.qd) : L(0);
    state.e[i] = state.desired[i] + rest_rate;
  }
}

// Computes the step state.dq and its damping state.chosen_lambda2, by a step of the kernel.
template <class L, class T>
SUPPLE_FN void take_step(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
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
  if (servo.curvature > 0) {
    yielding_step(servo, state, scratch);
    return;
  }
  if constexpr (has_packs<L>) {
    if (is_floating(servo.chain) && is_plain_dls(servo) &&
        tall_step(*servo.step, m, n, J, e, state.dq, state.chosen_lambda2, scratch)) {
      return;
    }
  }
  switch (servo.mode) {
    case ControlMode::step:
      state.chosen_lambda2 = step(*servo.step, m, n, J, e, state.before, change, state.dq, scratch,
                                  state.chosen_lambda2);
      break;
    case ControlMode::secondary:
      state.chosen_lambda2 = redundant_step(servo.redundancy, m, n, J, e, state.v, state.before,
                                            change, state.dq, scratch);
      break;
    case ControlMode::priority:
      state.chosen_lambda2 = priority_step(servo.step, servo.tasks, servo.task_rows, n, J, e,
                                           state.before, change, state.dq, scratch);
      break;
    case ControlMode::filtered:
      if (!state.has_previous) {
        singular_directions(m, n, J, servo.filter.directions, state.u, state.sigma, scratch);
      }
      state.chosen_lambda2 = filtered_step(servo.filter, m, n, J, e, state.u, state.sigma,
                                           state.estimate, state.dq, scratch);
      break;
    case ControlMode::estimated:
      if (!state.has_previous) {
        extreme_directions(m, n, J, state.u, state.sigma, state.estimate.largest, scratch);
      }
      state.chosen_lambda2 = estimated_step(*servo.step, m, n, J, e, state.u, state.sigma,
                                            state.estimate, state.dq, scratch);
      break;
  }
}

// Stores the quantities of this step that the damping rule of the next step reads.
template <class L, class T>
SUPPLE_FN void store_history(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.nv;
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
