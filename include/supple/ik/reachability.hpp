// Whether a target is out of reach: a plane that nothing crosses.
//
// At the closest pose found, e is how far positions are off; no pose is nearer than the part of e
// that error_along where positions are as far along e as joints can take them, at any orientation:
//
//   ‖e(q)‖ >= min e·e(q) / ‖e‖
//
// which is easier to find than the pose: a climb along e from what reaches farthest that way. The
// same on a CPU's lanes (src/core/drivers/closest.hpp) and in a GPU's threads
// (src/supple/solve/cuda).
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple {

inline constexpr int climb_iterations = 8;
inline constexpr float separation_threshold = 0.5f;  // part of the way that is left for sure ...
inline constexpr float min_separation =
    4e-3f;  // ... as a part of the newton_gain: a millimetre or so
inline constexpr float closest_tolerance =
    1e-3f;  // so much less, as a part of the newton_gain, than e
inline constexpr int starts_before_verdict = 64;  // starts

// How long e is: ‖e‖², and of what counts here.
template <class T>
struct ErrorLength {
  T whole, part;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// What counts of e (rows,) is left in it: the positions of frames, along the axes of the world.
// `number` (targets,) becomes the direction of it in a target's numbers.
template <class T>
SUPPLE_FN ErrorLength<T> position_part(const IkProblem<T>& ik, T* e, T* number) {
  ErrorLength<T> length{T(0), T(0)};
  for (int i = 0; i < ik.targets; ++i) number[i] = T(0);
  for (int t = 0, row = 0, first = 0; t < ik.tasks; ++t) {
    const Task<T>& task = ik.task[t];
    const bool fixed =
        task.goal == Goal::frame && task.base == task_world && task.axes == task_axes_base;
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

// Makes of `measure` what `minimize` needs to climb along e (rows,) with `flat`. Returns the value
// that becomes less: e·e(q).
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

// Whether a target is held to be out of reach after some starts. Of what is left at the
// closest pose found, `far` = ‖e‖, this part is left at any: above 0 there is no solution, at 1
// there is none closer.
SUPPLE_FN bool is_unreachable(float part, float far, float newton_gain, int starts) {
  if (part < separation_threshold || part * far < min_separation * newton_gain) return false;
  return (1 - part) * far <= closest_tolerance * newton_gain || starts >= starts_before_verdict;
}

}  // namespace supple::inline SUPPLE_ISA
