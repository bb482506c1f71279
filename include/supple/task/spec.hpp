// The description of a task for a frame, an axis, points or the joints: its rows, their weights and
// their allowed ranges.
#pragma once

#include "supple/math/lane.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

enum class Goal : int {
  frame,    // the pose of a frame
  axis,     // the direction of the z axis of a frame
  posture,  // some coordinates
  points,   // a weighted sum of points, in world axes
};

// The meaning of a target's values, for code that compares targets with each other.
enum class Target : int {
  other,      // known only to the formulas of the goal
  pose,       // the columns x, y, z of a rotation and a position: 12 values
  direction,  // a unit vector: 3 values
  position,   // 3 values; row i of the task controls value row[i]
  numbers,    // one value for each row
};

// Properties of a goal, for code that does not compute its rows. A new goal needs a case in
// `traits_of`, and a branch in each function of task.hpp that has one for `points`. The default of
// each property is valid for every goal, but makes other code use general methods, which are
// slower.
struct GoalTraits {
  const char* name = nullptr;
  int target_size = 0;    // number of values in a target; 0 for one per row
  int velocity_size = 0;  // number of values in a velocity; 0 for one per row
  Target target = Target::other;
  // What the rows depend on; if all are false, they may depend on every joint.
  bool has_frame = false;  // the poses of the frames `frame`, `base` and `axes` of a task
  bool is_twist = false;   // in addition to has_frame: `row` lists components of the twist, or tilt
  bool is_sum = false;     // Σ share p over the `points` of a task: `row` lists its components
  bool is_linear = false;  // one coordinate of q for each row: `coordinate` lists them
};

inline constexpr int task_world = -1;       // value of `base`: the target is in world coordinates
inline constexpr int task_axes_base = -1;   // value of `axes`: rows in the axes of the base
inline constexpr int task_axes_frame = -2;  // value of `axes`: rows in the axes of the frame itself
// Value of `axes`: rows in the axes of the base; v is the velocity of the body's point that
// coincides with the base's origin.
inline constexpr int task_axes_spatial = -3;
// Value of `Task::row` for a row that measures the tilt, the angle between an axis and its target
// [rad]. Values 0 to 5 are the components of the twist.
inline constexpr int task_tilt = 6;

// A task. If its goal is an axis, it has two rows, the rotations about the x and y axes of the
// frame itself: `row` is {3, 4} and `axes` is task_axes_frame. If the allowed range of the axis is
// a cone, the task has one row instead, the tilt.
template <class T>
struct Task {
  Goal goal;
  int frame;    // index of the frame in the chain
  int base;     // index of the frame in whose coordinates the target is given, or task_world
  int axes;     // index of the frame in whose axes rows are expressed, or task_axes_...
  int rows;     // number of rows of J and e
  int row[6];   // components of the twist: 0..5 = x y z rx ry rz; or task_tilt
  T weight[6];  // weights of the rows
  // For a posture: its coordinates (rows,), and their weights (rows,).
  const int* coordinate;
  const T* posture_weight;
  // Whether J refers to the point of the link at the target's position, not to the frame's origin.
  bool alternate = false;
  // The axis (0, 1, 2 for x, y, z) about which the frame may turn freely, or -1 for none.
  // With such an axis, the rotation rows are those about the other two axes of the frame, or the
  // tilt.
  int about = -1;
  // The ends of the allowed range of each row of e, before weighting; both are zero if a row has no
  // range. The ends for a posture are in separate arrays (rows,).
  bool ranged = false;
  T lower[6] = {}, upper[6] = {};
  const T *posture_lower = nullptr, *posture_upper = nullptr;
  // For a weighted sum of points: the frames at whose origins they are (points,), and their weights
  // (points,).
  int points = 0;
  const int* point = nullptr;
  const T* share = nullptr;
  // For a posture of one joint that is held: the coefficients (5,), lowest power first, of a
  // polynomial of the position of coordinate `leader`. The value of the polynomial is subtracted
  // from the position of the joint. Null if there is none.
  const T* curve = nullptr;
  int leader = -1;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Returns the traits of a goal; for a value after the last goal, the traits have no name.
SUPPLE_FN constexpr GoalTraits traits_of(Goal goal) {
  switch (goal) {
    case Goal::frame:
      return {.name = "frame",
              .target_size = 12,
              .velocity_size = 6,
              .target = Target::pose,
              .has_frame = true,
              .is_twist = true};
    case Goal::axis:
      return {.name = "axis",
              .target_size = 3,
              .velocity_size = 6,
              .target = Target::direction,
              .has_frame = true,
              .is_twist = true};
    case Goal::posture:
      return {.name = "posture", .target = Target::numbers, .is_linear = true};
    case Goal::points:
      return {.name = "points",
              .target_size = 3,
              .velocity_size = 3,
              .target = Target::position,
              .is_sum = true};
  }
  return {};
}
template <class T>
SUPPLE_FN constexpr GoalTraits traits_of(const Task<T>& task) {
  return traits_of(task.goal);
}
template <class T>
SUPPLE_FN constexpr bool has_pose(const Task<T>& task) {
  return traits_of(task).target == Target::pose;
}
// Whether the last three values of a target are a position.
template <class T>
SUPPLE_FN constexpr bool has_position(const Task<T>& task) {
  const Target target = traits_of(task).target;
  return target == Target::pose || target == Target::position;
}

// Whether each row of a task is a weighted component of a twist, or of a weighted sum of
// velocities.
template <class T>
SUPPLE_FN constexpr bool has_components(const Task<T>& task) {
  const GoalTraits traits = traits_of(task);
  return traits.is_twist || traits.is_sum;
}

// Whether the rows of a task may depend on every joint.
template <class T>
SUPPLE_FN constexpr bool depends_on_all_joints(const Task<T>& task) {
  const GoalTraits traits = traits_of(task);
  return !traits.has_frame && !traits.is_sum && !traits.is_linear;
}

// Calls visit(index) for each frame whose motion, relative to the world or to the other frames,
// changes the quantity that a task measures. This leaves out a frame that only turns the axes in
// which a twist is expressed.
template <class T, class Visit>
SUPPLE_INLINE void each_frame(const Task<T>& task, Visit&& visit) {
  const GoalTraits traits = traits_of(task);
  for (int k = 0; traits.is_sum && k < task.points; ++k) visit(task.point[k]);
  if (!traits.has_frame) return;
  visit(task.frame);
  if (task.base != task_world) visit(task.base);
  if (!traits.is_twist && task.axes >= 0) visit(task.axes);
}

// Returns the task for one of the points of a weighted sum alone.
template <class T>
SUPPLE_FN Task<T> task_of_point(const Task<T>& task, int k) {
  Task<T> one = task;
  one.goal = Goal::frame;
  one.frame = task.point[k];
  one.points = 0;
  return one;
}

// Number of values in a task's target.
template <class T>
SUPPLE_FN int target_size(const Task<T>& task) {
  const int size = traits_of(task).target_size;
  return size ? size : task.rows;
}

// Number of values in a task's velocity (see `task_command`).
template <class T>
SUPPLE_FN int velocity_size(const Task<T>& task) {
  const int size = traits_of(task).velocity_size;
  return size ? size : task.rows;
}

// Calls put(row of J and e, component of the twist, weight) for each row of a task.
template <class T, class Put>
SUPPLE_INLINE void each_row(const Task<T>& task, Put&& put) {
  SUPPLE_UNROLL for (int i = 0; i < task.rows; ++i) put(i, task.row[i], task.weight[i]);
}

// The ends of the allowed range of a row of e, weighted.
template <class T>
struct Range {
  T lower, upper;
};
template <class T>
SUPPLE_FN Range<T> row_range(const Task<T>& task, int i) {
  const bool linear = traits_of(task).is_linear;
  const T weight = linear ? task.posture_weight[i] : task.weight[i];
  const T lower = linear ? task.posture_lower[i] : task.lower[i];
  const T upper = linear ? task.posture_upper[i] : task.upper[i];
  constexpr T none = Number<T>::huge;
  return {lower > -none ? lower * weight : -none, upper < none ? upper * weight : none};
}

// Whether row i has an allowed range.
template <class T>
SUPPLE_FN bool is_ranged(const Task<T>& task, int i) {
  if (!task.ranged) return false;
  const Range<T> range = row_range(task, i);
  return range.lower < range.upper;
}

}  // namespace supple::inline SUPPLE_ISA
