// Proves by a separating plane that a target is out of reach.
//
// For a unit vector d, no configuration inside the joint limits brings a point of a frame farther
// along d than its height
//
//   h(d) >= max d·p(q)   over all q in the limits
//
// which src/core/drivers/reach_table.cpp bounds from above for a grid of directions. A target t of
// that point is out of reach if d·t > h(d) for one of these directions, and d·t - h(d) is then a
// lower bound on the distance between the point and the target. Used on a CPU
// (src/core/drivers/closest.hpp) and in the warps of a GPU (src/supple/ik/gpu/warp.hpp). Tuned
// constants are explained in docs/constants.md.
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple {

// The search for the closest pose to a target that is proven to be out of reach ends when the error
// is within `closest_tolerance` of the lower bound, in units of newton_gain, and otherwise after
// `starts_before_verdict` starts.
inline constexpr float closest_tolerance = 1.5e-2f;
inline constexpr int starts_before_verdict = 64;

// A point whose height bounds what a task can reach.
struct ReachProbe {
  double target;    // index of the first value of the task's target
  double point[3];  // the point in the coordinates of the task's frame
  double lever;     // distance of the point from the origin of the frame
  double weight;    // smallest weight of the position rows
};

// Heights of points. All arrays hold doubles only, so that their layout is the same on every
// device.
struct Reach {
  int directions, probes;
  const double* direction;  // (3, directions): unit vectors in the axes of the task's base
  const double* height;     // (probes, directions); huge where a task has no such direction
  const ReachProbe* probe;  // (probes,)
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Returns a lower bound on the distance between a probe and its position at a target (targets,),
// over all configurations: the largest d·t - h(d) of the directions begin, begin + stride, ...
SUPPLE_FN double least_distance(const Reach& reach, int number, const double* target, int begin,
                                int stride) {
  const ReachProbe& probe = reach.probe[number];
  const double* const pose = target + int(probe.target);
  double t[3], size = 0;
  for (int c = 0; c < 3; ++c) {
    t[c] = pose[9 + c];
    size += abs(t[c]) + probe.lever;
    for (int i = 0; i < 3; ++i) t[c] += pose[3 * i + c] * probe.point[i];
  }
  const double *const x = reach.direction, *const y = x + reach.directions,
                      *const z = y + reach.directions;
  const double* const height = reach.height + static_cast<long long>(number) * reach.directions;
  double farthest = -1e300;
  for (int i = begin; i < reach.directions; i += stride) {
    const double beyond = x[i] * t[0] + y[i] * t[1] + z[i] * t[2] - height[i];
    farthest = beyond > farthest ? beyond : farthest;
  }
  return farthest - 1e-14 * size;  // rounding errors
}

// Whether a lower bound on the distance of a probe shows that a target cannot be met within the
// tolerances.
SUPPLE_FN bool is_out_of_reach(const Reach& reach, int number, double least, double position,
                               double rotation) {
  return least > position + reach.probe[number].lever * rotation;
}

// Whether the search for the closest pose to a target that is out of reach has ended. `error` is
// the smallest weighted error found, `bound` a lower bound on it.
SUPPLE_FN bool is_closest(float error, float bound, float newton_gain, int starts) {
  return error - bound <= closest_tolerance * newton_gain || starts >= starts_before_verdict;
}

}  // namespace supple::inline SUPPLE_ISA
