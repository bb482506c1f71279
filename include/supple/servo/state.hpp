// Settings of a control loop, and its state from one step to the next.
#pragma once

#include "supple/step/filtering.hpp"
#include "supple/limits/limits.hpp"
#include "supple/step/redundancy.hpp"
#include "supple/step/step.hpp"
#include "supple/servo/step_rows.hpp"

namespace supple {

template <class T>
struct Constraints;  // row_search.hpp
template <class T>
struct Holding;  // held_space.hpp

enum class ControlMode : int {
  step,       // one step for all rows
  secondary,  // one step for all rows, plus a secondary velocity in the null space
  priority,   // one step for each task, in order of priority
  filtered,   // numerical filtering, with directions kept from step to step
  estimated,  // damping by singular values estimated from step to step
};

// Whether a motion that should keep the direction of its command has kept it.
enum class Course : int {
  kept,
  stopped,  // J cannot perform the whole command, and the motion stops
  lost,     // the motion has another direction
};

template <class T>
struct Servo {
  Chain<T> chain;
  int tasks, rows;  // number of tasks, and of their rows
  const Task<T>* task;
  const int* task_rows;  // (tasks,): number of rows of each task
  ControlMode mode;
  const Step<T>* step;         // (tasks,) in mode priority, else one
  Redundancy<T> redundancy;    // for mode secondary
  Filter<T> filter;            // for mode filtered
  const JointLimit<T>* limit;  // (n,)
  T max_norm;                  // bound on ‖q̇‖
  bool keep_direction;         // whether limits slow down the whole step, which keeps its direction
  bool second_order;           // whether accelerations are resolved, not velocities
  T dt;                        // [s]
  T gain;                      // gain of the error: [1/s], or [1/s²] in resolved acceleration
  T rate_gain;                 // gain of the velocity error in resolved acceleration [1/s]
  T rest_gain;                 // decay rate of null-space motion in resolved acceleration [1/s]
  const T* task_gain = nullptr;  // (tasks,): factors on `gain`; null if all are 1
  // (later_count,): lengths of the steps after the next one [s], of which the last repeats; if
  // later_count is zero, all steps have the length dt.
  const T* later = nullptr;
  int later_count = 0;
  bool in_python = false;  // whether the step is in Python; it may then set `ServoState::metric`
  T curvature = 0;         // κ dt if the step is that of yielding.hpp, else 0
  bool whole = false;      // whether to stop where a step cannot perform the whole command
  // Condition numbers of J at which the motion begins to slow down and at which it halts; zero if
  // it does not halt.
  T slow_condition = 0, halt_condition = 0;
  // Tasks that may be held, and the number of their rows (holding.hpp).
  const Task<T>* held_task = nullptr;
  int held_tasks = 0, held_rows = 0;
  int loops = 0;  // the first of the held tasks, which stay closed whatever the limits are
};

// Targets, velocities and accelerations of all tasks, concatenated; null if not given. A task whose
// target begins with NaN has no target.
template <class L>
struct Command {
  const L *target, *velocity, *acceleration;
};

// The values that a control loop keeps from step to step, and the result of its last step. n is nv
// of the chain.
template <class L>
struct ServoState {
  L* q;               // (nq,): joint positions, updated by `advance`
  L* qd;              // (n,): joint speeds, updated by `advance`
  L* change;          // (n,): change of qd in the last step, updated by `advance`; null if unknown
  L* J;               // (rows, n), weighted
  L* desired;         // (rows,): desired J q̇ or J q̈, weighted
  L* e;               // (rows,): `desired`, in resolved acceleration relative to q̈ = -rest_gain q̇
  L* dq;              // (n,): the step, q̇ or q̈, before limits
  L* active_set;      // (n,): -1 or 1 where a lower or upper limit is active, else 0
  L* J_before;        // (rows, n): weighted J of the previous step, for the rule `mayorga_rank`
  L* v;               // (n,): secondary velocity, given by the caller
  L* u;               // (max_directions, rows): estimated weak directions (filtering.hpp)
  L sigma;            // estimate of the smallest singular value, negative before the first step
  L chosen_lambda2;   // damping of the step
  L applied_lambda2;  // damping of the step after limits
  L limited;          // 1 if limits changed the step, else 0
  L before;           // manipulability at the previous step, negative if there was none
  bool has_previous;  // whether there was a previous step, so that J_before is valid
  bool self_moves;    // whether the step contains self-motion (avoidance.hpp)
  Estimate<L> estimate = {};  // further estimates (filtering.hpp)
  // (n, n): matrix N of the norm ‖N q̇‖ that a step in Python minimizes; null if J and λ² define
  // the norm.
  const L* metric = nullptr;
  L* direction = nullptr;  // (rows,): J q̇ of the last step, if the direction is kept
  L* exact_J =
      nullptr;  // (rows, n): J at the start of a step of yielding.hpp, which changes state.J
  // (n,): -1 or 1 for a joint that is stopped at its lower or upper position limit, or for a
  // prismatic joint at its speed limit; 0 for a joint whose speed the step determines
  L* stopped = nullptr;
  L* offset = nullptr;      // (rows,): weighted offset, for yielding.hpp; else null
  L* rate = nullptr;        // (rows,): velocity of the target, for yielding.hpp; else null
  L* slope = nullptr;       // (rows,): filtered rate of change of `rate`, stored after it
  L* lost = nullptr;        // (rows,): the part of e that yielding.hpp gives up; else null
  const L* held = nullptr;  // (rows of all tasks,): see `StepRows`
  Course course = Course::kept;
  L halting = L(1);        // factor by which the motion slows down before a singularity
  L held_lambda2 = L(-1);  // λ² while joints are held at limits; chosen_lambda2 if negative
  L beyond = L(0);         // length of the part of `lost` beyond the end of the reach
  L* ranges = nullptr;     // memory of ranges.hpp; null if no row has an allowed range
  const Constraints<L>* constraints =
      nullptr;                    // constraints of q̇ in this step; null if there are none
  Holding<L>* holding = nullptr;  // null if no task is held in this step
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Number of lanes of `ServoState::ranges`. For each row it holds the slack below and above, and the
// value at which the row is held; for the rows that take part also e, J, offset and direction.
SUPPLE_FN constexpr int ranges_memory(int m, int n) { return 6 * m + m * n; }

// Returns the rows of the tasks that take part in a step.
template <class T>
SUPPLE_FN StepRows<T> rows_of(const Servo<T>& servo, const ServoState<T>& state) {
  int all = 0;
  for (int k = 0; k < servo.tasks; ++k) all += servo.task[k].rows;
  return {servo.chain, servo.tasks, servo.task, all, servo.rows, state.held};
}

// Writes J with the weights of the step (of the first step if there are several) to `seen`: the J
// on which the step's damping rule depends. Returns the number of rows of `seen`.
template <class L, class T>
SUPPLE_FN int weighted_jacobian(const Servo<T>& servo, const L* J, L* seen) {
  const int m = servo.mode == ControlMode::priority ? servo.task_rows[0] : servo.rows;
  scale_jacobian(*servo.step, m, servo.chain.nv, J, seen);
  return m;
}

}  // namespace supple::inline SUPPLE_ISA
