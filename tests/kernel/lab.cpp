// The kernel's lanes behind a C interface, for the tests: compiled by conftest.py for each instruction
// set. A function is named by what it does and its lane, e.g. svd_f64x4: double, four to a pack.
//
// Batches are C-ordered with the batch axis first for matrices and last for numbers: the lanes of a
// pack are neighbours in the batch. A last pack that is not full repeats the last element.
#include <cstddef>
#include <vector>

#include "supple/elementary.hpp"
#include "supple/linalg.hpp"

namespace {

using namespace supple;

#define LAB_EACH_LANE(X)                                                      \
  X(f64x1, double)                                                            \
  X(f64x2, Pack<double LAB_COMMA 2>)                                          \
  X(f64x4, Pack<double LAB_COMMA 4>)                                          \
  X(f64x8, Pack<double LAB_COMMA 8>)                                          \
  X(f64x16, Pack<double LAB_COMMA 16>)                                        \
  X(f32x1, float)                                                             \
  X(f32x2, Pack<float LAB_COMMA 2>)                                           \
  X(f32x4, Pack<float LAB_COMMA 4>)                                           \
  X(f32x8, Pack<float LAB_COMMA 8>)                                           \
  X(f32x16, Pack<float LAB_COMMA 16>)
#define LAB_COMMA ,

// Entry k of the matrix in lane i is rows[i * size + k].
template <class L>
std::vector<L> load(int size, long lanes, const scalar_t<L>* rows) {
  std::vector<L> x(size);
  for (int i = 0; i < width<L>; ++i) {
    const scalar_t<L>* row = rows + (i < lanes ? i : lanes - 1) * size;
    for (int k = 0; k < size; ++k) set(x[k], i, row[k]);
  }
  return x;
}

template <class L>
void store(int size, long lanes, const L* x, scalar_t<L>* rows) {
  for (int i = 0; i < width<L> && i < lanes; ++i) {
    for (int k = 0; k < size; ++k) rows[i * size + k] = get(x[k], i);
  }
}

template <class L>
L as_number(const mask_t<L>& mask) {
  return select(mask, L(1), L(0));
}

// y (Out rows of count) <- f of x (In rows of count), pack by pack.
template <class L, int In, int Out, class F>
void elementwise(long count, const scalar_t<L>* x, scalar_t<L>* y, F f) {
  for (long first = 0; first < count; first += width<L>) {
    L in[In], out[Out];
    for (int i = 0; i < width<L>; ++i) {
      const long at = first + i < count ? first + i : count - 1;
      for (int k = 0; k < In; ++k) set(in[k], i, x[k * count + at]);
    }
    f(in, out);
    for (int i = 0; i < width<L> && first + i < count; ++i) {
      for (int k = 0; k < Out; ++k) y[k * count + first + i] = get(out[k], i);
    }
  }
}

#define LAB_ELEMENTWISE(name, In, Out, ...)                       \
  struct name##_of {                                              \
    template <class L>                                            \
    void operator()(const L (&x)[In], L (&y)[Out]) const {        \
      __VA_ARGS__;                                                \
    }                                                             \
  };
#include "lab_elementwise.inc"
#undef LAB_ELEMENTWISE

}  // namespace
