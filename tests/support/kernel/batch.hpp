// Conversion of the test harness's batches to lanes and back.
#pragma once

#include <vector>

#include "supple/math/lane.hpp"

namespace supple {
namespace {

// Loads up to width<L> matrices of `size` entries each, one per lane; remaining lanes repeat the
// last matrix.
template <class L>
std::vector<L> load(int size, long lanes, const scalar_t<L>* in) {
  std::vector<L> x(size);
  for (int i = 0; i < width<L>; ++i) {
    for (int k = 0; k < size; ++k) set(x[k], i, in[(i < lanes ? i : lanes - 1) * size + k]);
  }
  return x;
}

template <class L>
void store(int size, long lanes, const L* x, scalar_t<L>* out) {
  for (int i = 0; i < width<L> && i < lanes; ++i) {
    for (int k = 0; k < size; ++k) out[i * size + k] = get(x[k], i);
  }
}

}  // namespace
}  // namespace supple
