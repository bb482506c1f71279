// A C interface to include/supple/limits/constrained.hpp, in the form of harness.cpp. Constraints
// are for one robot at a time, on every lane type.
#include <vector>

#include "supple/limits/constrained.hpp"

namespace supple {
namespace {

// J (m, n), x0 (n), low (n), high (n), lambda2 and bound (2), G (rows, n), h (rows)
// -> x (n), active_set (n), state (rows), applied_lambda2
template <class T>
void constrained_batch(long count, int m, int n, int rows, const T* J, const T* x0, const T* low,
                       const T* high, const T* numbers, const T* G, const T* h, T* x, T* active_set,
                       T* state, T* applied_lambda2) {
  std::vector<T> scratch(constraint_scratch(m, n, rows), T(-7));
  for (long i = 0; i < count; ++i) {
    for (int j = 0; j < n; ++j) x[i * n + j] = x0[i * n + j];
    const Constraints<T> given{rows, G + i * rows * n, h + i * rows, state + i * rows,
                               scratch.data()};
    applied_lambda2[i] =
        constrained_step(m, n, J + i * m * n, numbers[2 * i], low + i * n, high + i * n,
                         numbers[2 * i + 1], given, x + i * n, active_set + i * n);
  }
}

}  // namespace
}  // namespace supple

using namespace supple;

#define LAB_EXPORT(lane, T, ...)                                                                   \
  extern "C" void constrained_##lane(long count, int m, int n, int rows, const T* J, const T* x0,  \
                                     const T* low, const T* high, const T* numbers, const T* G,    \
                                     const T* h, T* x, T* active_set, T* state,                    \
                                     T* applied_lambda2) {                                         \
    constrained_batch<T>(count, m, n, rows, J, x0, low, high, numbers, G, h, x, active_set, state, \
                         applied_lambda2);                                                         \
  }

// harness.py defines this macro, which calls LAB_EXPORT for every lane type.
LAB_LANES(LAB_EXPORT)
