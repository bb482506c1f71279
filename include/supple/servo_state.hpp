// What a control loop consists of, and what it remembers from one step to the next.
#pragma once

#include "supple/filtering.hpp"
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
  L* exact_e = nullptr;     // (rows,): likewise for state.e
  L* stopped = nullptr;     // (n,): the side, -1 or 1, of the position limit where a joint stays
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

}  // namespace supple::inline SUPPLE_ISA
