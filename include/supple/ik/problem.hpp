// The data of position inverse kinematics: `IkProblem`, which all starts of a search share, and
// `IterateState`, the state of one start.
#pragma once

#include "supple/ik/limbs.hpp"
#include "supple/step/step.hpp"
#include "supple/task/task.hpp"

namespace supple {

// What a row of a task measures; this determines which tolerance applies to the row.
enum class Measure : int { position, rotation };

// Outcome of a search. `SolveStatus` in Python has the same values.
enum class Outcome : signed char {
  solved,
  unreachable,
  timeout,
  nonfinite,
  not_converged,
  max_move,  // set in Python only: unreachable or not_converged while max_move is given
  blocked    // the targets are met, but all solutions found are rejected
};

// Costs by which a GPU chooses among several solutions (src/supple/ik/gpu/costs.cu).
enum class Cost : int { limits, discomfort, displacement, manipulability };

// The problem that all starts of a search share.
template <class T>
struct IkProblem {
  Chain<T> chain;
  int tasks, rows, targets;  // number of tasks, of their rows, and of the values in all targets
  const Task<T>* task;
  const Measure* measure;            // (rows,)
  const T *weight, *tolerance_unit;  // (rows,): weights, and their inverses
  const T *lower, *upper;            // (nq,): joint limits, infinite where there are none
  const T *seed_lower, *seed_range;  // (nq,): ranges from which seeds are drawn: lower end, width
  const T* seed_stride;  // (nq,): increment of the seed sequence, in units of seed_range
  T position_tolerance, rotation_tolerance;
  Step<T> step;          // only its damping rule and `direction` are used
  T newton_gain;         // damping of Newton's method: μ = newton_gain ‖e‖
  T max_joint_step;      // largest joint displacement in one iteration [rad or m]
  int iteration_factor;  // factor of all iteration limits, above 1 if max_joint_step is small
  T max_lambda2;         // largest λ² of a robot with prismatic joints
  // Null unless some joints are prismatic, otherwise (nv,). With these scales, multiplying all
  // lengths of a robot by a number multiplies the coordinates of its prismatic joints by that
  // number in each iteration, and changes nothing else.
  const T* joint_scale;      // steps are computed in the coordinates q / joint_scale
  const T* joint_unit;       // distances between configurations are measured in q / joint_unit
  const T* max_joint_steps;  // `max_joint_step` of each joint; huge where the error is linear in it
  const Limbs* limbs;        // the limbs on a moving base; null if there are fewer than two
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// A configuration on each lane, with the errors, J and e evaluated there.
template <class L>
struct IterateState {
  L* q;                  // (nq,)
  L* target;             // (targets,)
  L position, rotation;  // largest position error [m] and rotation error [rad] of all tasks at q
  L cost;                // ‖e‖² of the weighted error
  L* J;                  // (rows, nv), weighted
  L* e;                  // (rows,), weighted
  L* work;               // scratch memory: `iterate_scratch` lanes
  // Quantities of the previous step, for damping rules that need them.
  L* J_before;  // (rows, nv), with zero columns for joints held at a limit: for `mayorga_rank`
  L before;     // manipulability, or 0 if the rule does not use it; negative before the first step
};

}  // namespace supple::inline SUPPLE_ISA
