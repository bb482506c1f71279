// A C interface to include/supple/limits/box.hpp, in the form of harness.cpp.
#include <vector>

#include "batch.hpp"
#include "supple/limits/box.hpp"

namespace supple {
namespace {

// J (m, n), x0 (n), low (n), high (n), lambda2 and bound (2) -> x (n), active_set (n),
// applied_lambda2
template <class L, class T = scalar_t<L>>
void limited_batch(long count, int m, int n, const T* J, const T* x0, const T* low, const T* high,
                   const T* numbers, T* x, T* active_set, T* applied_lambda2) {
  std::vector<L> trial_set(n), scratch(limited_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n);
    const std::vector<L> l = load<L>(n, lanes, low + i * n), h = load<L>(n, lanes, high + i * n);
    const std::vector<L> how = load<L>(2, lanes, numbers + 2 * i);
    std::vector<L> step = load<L>(n, lanes, x0 + i * n);
    const L damping = limited_step(m, n, a.data(), how[0], l.data(), h.data(), how[1], step.data(),
                                   trial_set.data(), scratch.data());
    store(n, lanes, step.data(), x + i * n);
    store(n, lanes, trial_set.data(), active_set + i * n);
    store(1, lanes, &damping, applied_lambda2 + i);
  }
}

// Like limited_batch, but by the fast path, and for e (m) instead of x0; `holds` is 1 where the
// result is valid.
template <class L, class T = scalar_t<L>>
void bounded_batch(long count, int m, int n, const T* J, const T* e, const T* low, const T* high,
                   const T* numbers, T* x, T* active_set, T* applied_lambda2, T* holds) {
  std::vector<L> step(n), scratch(bounded_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n), b = load<L>(m, lanes, e + i * m);
    const std::vector<L> l = load<L>(n, lanes, low + i * n), h = load<L>(n, lanes, high + i * n);
    const std::vector<L> how = load<L>(2, lanes, numbers + 2 * i);
    std::vector<L> trial_set(n, L(0));
    L damping(0);
    const mask_t<L> right =
        bounded_step(m, n, a.data(), b.data(), how[0], l.data(), h.data(), how[1], step.data(),
                     trial_set.data(), &damping, scratch.data());
    const L held = select(right, L(1), L(0));
    for (int j = 0; j < n; ++j) step[j] = select(right, step[j], L(0));
    store(n, lanes, step.data(), x + i * n);
    store(n, lanes, trial_set.data(), active_set + i * n);
    store(1, lanes, &damping, applied_lambda2 + i);
    store(1, lanes, &held, holds + i);
  }
}

}  // namespace
}  // namespace supple

using namespace supple;

#define LAB_EXPORT(lane, T, ...)                                                                  \
  extern "C" void limited_##lane(long count, int m, int n, const T* J, const T* x0, const T* low, \
                                 const T* high, const T* numbers, T* x, T* active_set,            \
                                 T* applied_lambda2) {                                            \
    limited_batch<__VA_ARGS__>(count, m, n, J, x0, low, high, numbers, x, active_set,             \
                               applied_lambda2);                                                  \
  }                                                                                               \
  extern "C" void bounded_##lane(long count, int m, int n, const T* J, const T* e, const T* low,  \
                                 const T* high, const T* numbers, T* x, T* active_set,            \
                                 T* applied_lambda2, T* holds) {                                  \
    bounded_batch<__VA_ARGS__>(count, m, n, J, e, low, high, numbers, x, active_set,              \
                               applied_lambda2, holds);                                           \
  }

// harness.py defines this macro, which calls LAB_EXPORT for every lane type.
LAB_LANES(LAB_EXPORT)
