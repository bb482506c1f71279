// Proves by a separating plane that a target is unreachable.
//
// Let e be the position error at the closest pose found. The frames are moved as far along e as the
// joints allow, at any orientation. The component of the error along e that remains is a lower
// bound on the error e(q) of every configuration q,
//
//   ‖e(q)‖ >= min e·e(q) / ‖e‖
//
// This minimum is easier to find than the closest pose, by Newton's method from the configurations
// that reach farthest along e. Used on the lanes of a CPU (src/core/drivers/closest.hpp) and in the
// threads of a GPU (src/supple/ik/gpu/warp.hpp). Tuned constants are explained in
// docs/constants.md.
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple {

inline constexpr int climb_iterations = 8;
// A target is unreachable if the lower bound is at least `separation_threshold` times the error of
// the closest pose, and at least `min_separation` in units of newton_gain (about a millimeter).
inline constexpr float separation_threshold = 0.5f, min_separation = 4e-3f;
// An unreachable target is reported at once if the lower bound is within `closest_tolerance` of the
// error of the closest pose, in units of newton_gain, and otherwise after `starts_before_verdict`
// starts.
inline constexpr float closest_tolerance = 1e-3f;
inline constexpr int starts_before_verdict = 64;
// The motion along e may end at a local optimum if the farthest pose has most joints at their
// limits. Before a target is reported unreachable, the bound is therefore compared with poses near
// this many corners of the joint ranges.
inline constexpr int verdict_corners = 64;

// ‖e‖² over all rows (`whole`) and over the position rows alone (`part`).
template <class T>
struct ErrorLength {
  T whole, part;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Keeps the rows of e (rows,) that are positions of frames in world axes, and sets the others to
// zero. `number` (targets,) receives the same vector in the layout of a target. Returns ‖e‖² before
// and after the change.
template <class T>
SUPPLE_FN ErrorLength<T> position_part(const IkProblem<T>& ik, T* e, T* number) {
  ErrorLength<T> length{T(0), T(0)};
  for (int i = 0; i < ik.targets; ++i) number[i] = T(0);
  for (int t = 0, row = 0, first = 0; t < ik.tasks; ++t) {
    const Task<T>& task = ik.task[t];
    // A position with an allowed range is not counted: its error gives no bound along a constant e.
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

// Prepares an evaluated state for `minimize` with `flat`, whose steps move the frames along the
// constant vector e (rows,): replaces the error of the state by e, and its cost by `length` = ‖e‖².
// Returns the objective, the dot product of e and the replaced error.
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

// Starts at a corner q of the joint ranges and moves each joint in turn to the other end of its
// range if that reduces e·e(q). Returns the smallest value.
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

// Whether a target is reported unreachable after a number of starts. `far` = ‖e‖ is the smallest
// error found, and `part` is a lower bound on the error of all poses, as a fraction of `far`: if it
// is above 0 there is no solution, and if it is 1 no pose is closer.
SUPPLE_FN bool is_unreachable(float part, float far, float newton_gain, int starts) {
  if (part < separation_threshold || part * far < min_separation * newton_gain) return false;
  return (1 - part) * far <= closest_tolerance * newton_gain || starts >= starts_before_verdict;
}

}  // namespace supple::inline SUPPLE_ISA
