// Conversion of the test harness's batches to lanes and back.
#pragma once

#include <vector>

#include "supple/lane.hpp"

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

// Calls EXPORT(name, number type, lane type) for every lane type.
#define LAB_LANES(EXPORT)                  \
  EXPORT(f64x1, double, double)            \
  EXPORT(f64x2, double, Pack<double, 2>)   \
  EXPORT(f64x4, double, Pack<double, 4>)   \
  EXPORT(f64x8, double, Pack<double, 8>)   \
  EXPORT(f64x16, double, Pack<double, 16>) \
  EXPORT(f32x1, float, float)              \
  EXPORT(f32x2, float, Pack<float, 2>)     \
  EXPORT(f32x4, float, Pack<float, 4>)     \
  EXPORT(f32x8, float, Pack<float, 8>)     \
  EXPORT(f32x16, float, Pack<float, 16>)
