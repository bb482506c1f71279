// A C interface to include/supple/ik/starts.hpp.
#include "supple/ik/starts.hpp"

using namespace supple;

// Writes the source of the seed of each of `count` starts, and the seed's number in that source, to
// `seeds` (count, 2).
extern "C" void start_seeds(int own, int nearest, int placed, int listed, int count, int* seeds) {
  for (int start = 0; start < count; ++start) {
    const StartSeed seed = seed_of({own != 0, nearest != 0, placed, listed}, start);
    seeds[2 * start] = int(seed.from);
    seeds[2 * start + 1] = seed.number;
  }
}
