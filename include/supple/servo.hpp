// One step of a control loop: from where the joints are to where they go in the next dt.
//
//   look     kinematics and tasks: J, and what is asked of J q̇ (of J q̈ in resolved acceleration)
//   decide   a step: q̇ or q̈ and its damping
//   act      limits, and the new q
//
// `decide` may also be somebody else's, a user's own step in Python: that is why they are three.
#pragma once

#include "limits.hpp"
#include "step.hpp"
#include "task.hpp"

namespace supple {

template <class T>
struct Servo {
  Chain<T> chain;
  int tasks, rows;  // rows of all tasks
  const Task<T>* task;
  Step<T> step;
  const JointLimit<T>* limit;  // (n,)
  T bound;                     // on ‖q̇‖
  bool scale;                  // keep the direction of motion at limits
  bool second;                 // resolved acceleration, else resolved rate
  T dt;                        // [s]
  T gain;                      // of the error: [1/s], or [1/s²] in resolved acceleration
  T rate_gain;                 // of the velocity's error in resolved acceleration [1/s]
  T rest_gain;                 // by which motion that the task does not see dies away there [1/s]
};

// What is asked of the tasks, side by side; null where nothing is. A target that starts with NaN is
// none.
template <class L>
struct Wish {
  const L *target, *velocity, *acceleration;
};

// What a control loop remembers, and what it did last.
template <class L>
struct ServoState {
  L* q;         // (n,): where the joints are, then where they go
  L* qd;        // (n,): how fast they went, then how fast they go
  L* J;         // (rows, n), weighted
  L* e;         // (rows,): what is asked, weighted
  L* dq;        // (n,): the step, q̇ or q̈, before limits
  L* side;      // (n,): -1, 0, 1 where a limit acts
  L* J_before;  // (rows, n)
  L lambda2;    // of the step
  L used;       // inside the limits
  L before;     // manipulability one step before, negative if there was none
  bool begun;   // J_before is one
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

template <class T>
SUPPLE_FN int servo_scratch(const Servo<T>& servo) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const int looking = 12 * servo.chain.joints + m, acting = 3 * n + limited_scratch(m, n);
  const int most = looking > acting ? looking : acting, deciding = step_scratch(m, n);
  return most > deciding ? most : deciding;
}

// Kinematics and tasks: state.J and state.e of the q and q̇ that are there.
template <class L, class T>
SUPPLE_FN void look(const Servo<T>& servo, const Wish<L>& wish, ServoState<L>& state, L* scratch) {
  const int n = servo.chain.coordinates;
  Pose<L>* joint_poses = reinterpret_cast<Pose<L>*>(scratch);
  L* rows = scratch + 12 * servo.chain.joints;
  forward(servo.chain, state.q, joint_poses);
  const L *target = wish.target, *velocity = wish.velocity, *acceleration = wish.acceleration;
  L *J = state.J, *e = state.e;
  for (int k = 0; k < servo.tasks; ++k) {
    const Task<T>& task = servo.task[k];
    task_jacobian(servo.chain, task, joint_poses, J);
    for (int i = 0; i < task.rows; ++i) e[i] = L(0);
    const auto add = [&](T gain) {
      for (int i = 0; i < task.rows; ++i) e[i] = fma(rows[i], L(gain), e[i]);
    };
    if (wish.velocity) {
      task_command(servo.chain, task, joint_poses, velocity, rows);
      add(servo.second ? servo.rate_gain : T(1));
      velocity += velocity_size(task);
    }
    if (wish.target) {
      task_error(servo.chain, task, joint_poses, state.q, target, rows);
      const mask_t<L> given = target[0] == target[0];
      for (int i = 0; i < task.rows; ++i) rows[i] = select(given, rows[i], L(0));
      add(servo.gain);
      target += target_size(task);
    }
    if (servo.second) {
      for (int i = 0; i < task.rows; ++i) {
        if (wish.velocity) e[i] = fma(L(-servo.rate_gain), dot(n, J + i * n, state.qd), e[i]);
      }
      task_drift(servo.chain, task, joint_poses, state.qd, rows);
      add(T(-1));
      if (wish.acceleration) {
        task_command(servo.chain, task, joint_poses, acceleration, rows);
        add(T(1));
        acceleration += velocity_size(task);
      }
    }
    J += task.rows * n;
    e += task.rows;
  }
}

// A step of the kernel's: state.dq and state.lambda2. In resolved acceleration it is what comes
// nearest to -rest_gain q̇, so that motion that the task does not see comes to rest.
template <class L, class T>
SUPPLE_FN void decide(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const Rule rule = servo.step.damping.rule;
  L change(0);
  if (rule == Rule::mayorga_rank && state.begun) {
    for (int i = 0; i < m * n; ++i)
      change = fma(state.J[i] - state.J_before[i], state.J[i] - state.J_before[i], change);
    change = sqrt(change);
  }
  const L rest = L(servo.second ? -servo.rest_gain : T(0));
  if (servo.second) {
    for (int i = 0; i < m; ++i)
      state.e[i] = fma(-rest, dot(n, state.J + i * n, state.qd), state.e[i]);
  }
  state.lambda2 = step(servo.step, m, n, state.J, state.e, state.before, change, state.dq, scratch);
  if (servo.second) {
    for (int j = 0; j < n; ++j) state.dq[j] = fma(rest, state.qd[j], state.dq[j]);
  }
}

// Limits: state.dq -> state.qd and state.q.
template <class L, class T>
SUPPLE_FN void act(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  L *low = scratch, *high = low + n, *x = high + n, *rest = x + n;
  const L dt(servo.dt), bound(servo.bound);
  L nearest(0);
  for (int j = 0; j < n; ++j) {
    joint_box(servo.limit[j], state.q[j], state.qd[j], dt, low[j], high[j]);
    x[j] = servo.second ? fma(state.dq[j], dt, state.qd[j]) : state.dq[j];
    const L near = max(low[j], min(high[j], L(0)));
    nearest = fma(near, near, nearest);
  }
  // What must move (a joint outside its limits) does not make the whole too fast.
  const mask_t<L> hasty = nearest > bound * bound;
  if (any(hasty)) {
    const L slower = select(hasty, bound / sqrt(select(hasty, nearest, L(1))), L(1));
    for (int j = 0; j < n; ++j) {
      low[j] = select(low[j] > L(0), low[j] * slower, low[j]);
      high[j] = select(high[j] < L(0), high[j] * slower, high[j]);
    }
  }
  state.used = state.lambda2;
  if (servo.scale) {
    scale_into_box(n, low, high, bound, x, state.side);
  } else {
    state.used = limited_step(m, n, state.J, state.lambda2, low, high, bound, x, state.side, rest);
  }
  for (int j = 0; j < n; ++j) {
    const JointLimit<T>& limit = servo.limit[j];
    const L lower(limit.lower), upper(limit.upper), q = state.q[j], next = fma(x[j], dt, q);
    // Rounding does not take a joint outside.
    const mask_t<L> inside = (q >= lower) & (q <= upper);
    state.q[j] = select(inside, min(max(next, lower), upper), next);
    state.qd[j] = x[j];
  }
}

// What the next step compares with.
template <class L, class T>
SUPPLE_FN void remember(const Servo<T>& servo, ServoState<L>& state, L* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const Rule rule = servo.step.damping.rule;
  if (rule == Rule::mayorga_rank) {
    for (int i = 0; i < m * n; ++i) state.J_before[i] = state.J[i];
  }
  if (rule == Rule::manipulability_rate) {
    L *copy = scratch, *sigma = copy + m * n, *work = sigma + m + n;
    for (int i = 0; i < m * n; ++i) copy[i] = state.J[i];
    singular_values(m, n, copy, sigma, work);
    state.before = manipulability(m < n ? m : n, sigma);
  }
  state.begun = true;
}

}  // namespace supple::inline SUPPLE_ISA
