// The description of a task for a frame, an axis, points or the joints: its rows, their weights and
// their allowed ranges.
#pragma once

#include "supple/math/lane.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

enum class Goal : int {
  frame,    // the pose of a frame; target: rotation columns x, y, z and position, 12 numbers
  axis,     // the direction of the z axis of a frame; target: a unit vector, 3 numbers
  posture,  // some coordinates; target: one number for each
  points,   // a weighted sum of points, in world axes; target: its position, 3 numbers
};

// What a goal is to the code that does not compute its rows. A new goal needs a case here, and a
// branch in each function of task.hpp.
struct GoalTraits {
  const char* name;
  int target_size;    // number of values in a target; 0 for one per row
  int velocity_size;  // number of values in a velocity; 0 for one per row
  bool has_frame;     // whether `frame` and `base` of a task name frames of the chain
  bool has_pose;      // whether a target is a pose: the columns of its rotation, then its position
  bool is_linear;     // whether each row is a coordinate of q; `coordinate` of a task lists them
  bool has_position;  // whether a target ends with a position
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
  // polynomial of the position of coordinate `leader`. Its value is subtracted from the position of
  // the joint. Null if there is none.
  const T* curve = nullptr;
  int leader = -1;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Returns the traits of a goal; those of a value after the last goal have no name.
SUPPLE_FN constexpr GoalTraits traits_of(Goal goal) {
  switch (goal) {
    case Goal::frame:
      return {"frame", 12, 6, true, true, false, true};
    case Goal::axis:
      return {"axis", 3, 6, true, false, false, false};
    case Goal::posture:
      return {"posture", 0, 0, false, false, true, false};
    case Goal::points:
      return {"points", 3, 3, false, false, false, true};
  }
  return {};
}
template <class T>
SUPPLE_FN constexpr GoalTraits traits_of(const Task<T>& task) {
  return traits_of(task.goal);
}

// Number of frames on which a task depends besides its base, and the index of each.
template <class T>
SUPPLE_FN int frame_count(const Task<T>& task) {
  return traits_of(task).has_frame ? 1 : task.points;
}
template <class T>
SUPPLE_FN int frame_of(const Task<T>& task, int k) {
  return task.points ? task.point[k] : task.frame;
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
