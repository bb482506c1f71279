// The starts of a search: their order, and the seeds from which they iterate. Used on the lanes of
// a CPU (src/core/drivers/starts.hpp) and in the threads of a GPU (src/supple/ik/gpu).
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple {

// Where the seed of a start comes from.
enum class Seed : int {
  own,       // the problem's own start: q0 or a posture
  near_own,  // the neighborhood of q0
  placed,    // a seed that places a free base
  listed,    // the table of seeds
  sequence,  // the seed sequence
};

// The order of the seeds of a problem. The problem's own start comes first, if it has one. If the
// solution nearest to that start is wanted, every second later seed is near that start. The other
// seeds are first those that place a free base, then those of the table and of the sequence.
struct SeedOrder {
  bool own, nearest;
  int placed, listed;  // numbers of seeds
};

// The seed of a start: its source, and its number among the seeds of that source.
struct StartSeed {
  Seed from;
  int number;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Returns the seed of a start.
SUPPLE_FN StartSeed seed_of(const SeedOrder& order, int start) {
  if (order.own && start == 0) return {Seed::own, 0};
  int number = order.own ? start - 1 : start;
  if (order.own && order.nearest) {
    if (number % 2 == 0) return {Seed::near_own, number / 2};
    number /= 2;
  }
  if (number < order.placed) return {Seed::placed, number};
  number -= order.placed;
  if (number < order.listed) return {Seed::listed, number};
  return {Seed::sequence, number - order.listed};
}

// Returns coordinate j of a seed from the seed sequence, whose first `used` values were used for
// other seeds.
SUPPLE_FN double sequence_seed(const IkProblem<double>& ik, int seed, int used, int j) {
  return ik.seed_lower[j] + seed_fraction(seed, used, ik.seed_stride[j]) * ik.seed_range[j];
}

// Returns coordinate j of a seed near q0.
SUPPLE_FN double seed_near(const IkProblem<double>& ik, double q0, int seed, int j) {
  const double quarter = 0.25 * ik.seed_range[j];
  const double scatter = seed_scatter * joint_unit(ik, j);
  const double radius = scatter < quarter ? scatter : quarter;
  return integrate_coordinate(q0, radius * (2 * sequence_value(seed + 1, ik.seed_stride[j]) - 1));
}

// Returns at which end of its range, 0 (lower) or 1 (upper), a coordinate is in a candidate for a
// corner seed. Each corner seed is chosen from `corner_candidates` corners of the joint ranges.
// `stride` is the coordinate's increment in the seed sequence, whose first `used` values were used
// for other seeds.
SUPPLE_FN double corner_side(int seed, int candidate, int used, double stride) {
  return sequence_value(used + corner_candidates * seed + candidate + 1, stride) < 0.5 ? 0 : 1;
}

}  // namespace supple::inline SUPPLE_ISA
