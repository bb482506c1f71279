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

// The order of the seeds of a problem: its own start comes first, if it has one. If the solution
// nearest to that start is wanted, every second of the other seeds is near it. The rest are first
// those that place a free base, then those of the table, then those of the sequence.
struct SeedOrder {
  bool own, nearest;
  int placed, listed;  // numbers of seeds
};

// The seed of a start: where it comes from, and its number among the seeds from there.
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

// Returns coordinate j of one of the `corner_candidates` corners from which a corner seed is
// chosen, inside the joint limits.
SUPPLE_FN double corner_seed(const IkProblem<double>& ik, int seed, int candidate, int used,
                             int j) {
  const int k = used + corner_candidates * seed + candidate + 1;
  const double side = sequence_value(k, ik.seed_stride[j]) < 0.5 ? 0 : 1;
  const double q = ik.seed_lower[j] + side * ik.seed_range[j];
  return q < ik.lower[j] ? ik.lower[j] : q > ik.upper[j] ? ik.upper[j] : q;
}

// Chooses the corner of the joint ranges with the smallest cost among the candidates of a seed. The
// lanes of `at` evaluate the candidates for the target of the start. keep(lane) is called for each
// candidate that is better than those before it, and copies it. `ranges` is the problem `ik` in
// double precision.
template <class L, class T, class Keep>
SUPPLE_FN void choose_corner(const IkProblem<T>& ik, const IkProblem<double>& ranges, int seed,
                             int used, IterateState<L>& at, Keep&& keep) {
  constexpr int lanes = width<L>;
  T least = huge_cost;
  for (int first = 0; first < corner_candidates; first += lanes) {
    const int left = corner_candidates - first, count = left < lanes ? left : lanes;
    for (int i = 0; i < lanes; ++i) {
      const int candidate = first + (i < count ? i : count - 1);
      for (int j = 0; j < ik.chain.nq; ++j) {
        set(at.q[j], i, T(corner_seed(ranges, seed, candidate, used, j)));
      }
    }
    evaluate_error(ik, at);
    for (int i = 0; i < count; ++i) {
      if (!(get(at.cost, i) < least)) continue;
      least = get(at.cost, i);
      keep(i);
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
