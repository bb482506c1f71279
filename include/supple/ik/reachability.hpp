// Whether a target is unreachable: a separating plane proves it.
//
// Let e be the position error at the closest pose found. No pose has a smaller error than the
// component along e that remains where the joints bring the frames as far along e as possible, at
// any orientation:
//
//   ‖e(q)‖ >= min e·e(q) / ‖e‖
//
// This minimum is easier to find than the closest pose: it is an ascent along e from the
// configurations that reach farthest in that direction. Used on the lanes of a CPU
// (src/core/drivers/closest.hpp) and in the threads of a GPU (src/supple/ik/gpu/warp.hpp).
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple {

inline constexpr int climb_iterations = 8;
// A target is unreachable if every pose keeps at least this fraction of the error, and this
// distance in units of newton_gain (about a millimeter).
inline constexpr float separation_threshold = 0.5f, min_separation = 4e-3f;
// The verdict is final if the bound is this close to the error, in units of newton_gain, or after
// this many starts.
inline constexpr float closest_tolerance = 1e-3f;
inline constexpr int starts_before_verdict = 64;
// The ascent may end at a local maximum where the farthest pose has most joints at their limits.
// Before a verdict, the bound is therefore compared with poses near this many corners of the joint
// ranges.
inline constexpr int verdict_corners = 64;

// ‖e‖² of the whole error, and of its positions alone.
template <class T>
struct ErrorLength {
  T whole, part;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Keeps the positions of frames in world axes in e (rows,) and sets the other rows to zero.
// `number` (targets,) becomes the same direction in the layout of a target.
template <class T>
SUPPLE_FN ErrorLength<T> position_part(const IkProblem<T>& ik, T* e, T* number) {
  ErrorLength<T> length{T(0), T(0)};
  for (int i = 0; i < ik.targets; ++i) number[i] = T(0);
  for (int t = 0, row = 0, first = 0; t < ik.tasks; ++t) {
    const Task<T>& task = ik.task[t];
    // A position that may lie anywhere in a range bounds nothing along a constant e.
    const bool fixed = task.goal == Goal::frame && task.base == task_world &&
                       task.axes == task_axes_base && !task.ranged;
    for (int i = 0; i < task.rows; ++i, ++row) {
      const bool counts = fixed && ik.measure[row] == Measure::position;
      length.whole += e[row] * e[row];
      if (counts) number[first + 9 + task.row[i]] = e[row] * task.weight[i];
      if (!counts) e[row] = T(0);
      length.part += e[row] * e[row];
    }
    first += target_size(task);
  }
  return length;
}

// Prepares an evaluated state for `minimize` with `flat`, which moves the frames along the constant
// e (rows,). Returns the objective e·e(q).
template <class L, class T>
SUPPLE_FN L error_along(const IkProblem<T>& ik, IterateState<L>& at, const T* e, T length) {
  L value(0);
  for (int r = 0; r < ik.rows; ++r) {
    value = fma(at.e[r], L(e[r]), value);
    at.e[r] = L(e[r]);
  }
  at.cost = L(length);
  return value;
}

// Moves each joint in turn to the other end of its range where that lowers e·e(q), from a corner q.
// Returns the lowest value.
template <class L, class T>
SUPPLE_FN L descend_corner(const IkProblem<T>& ik, IterateState<L>& at, const T* e, T length) {
  evaluate_error(ik, at);
  L least = error_along(ik, at, e, length);
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    const L here = at.q[j];
    at.q[j] = L(2 * ik.seed_lower[j] + ik.seed_range[j]) - here;
    evaluate_error(ik, at);
    const L value = error_along(ik, at, e, length);
    at.q[j] = select(value < least, at.q[j], here);
    least = min(least, value);
  }
  return least;
}

// Whether a target is reported unreachable after a number of starts. `part` is the fraction of the
// closest error found, `far` = ‖e‖, that remains at any pose: above 0 there is no solution, at 1 no
// pose is closer.
SUPPLE_FN bool is_unreachable(float part, float far, float newton_gain, int starts) {
  if (part < separation_threshold || part * far < min_separation * newton_gain) return false;
  return (1 - part) * far <= closest_tolerance * newton_gain || starts >= starts_before_verdict;
}

}  // namespace supple::inline SUPPLE_ISA
