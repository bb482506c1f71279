// include/supple/redundancy.hpp behind a C interface, as lab.cpp does it for lanes and matrices.
#include <vector>

#include "batch.hpp"
#include "supple/redundancy.hpp"

namespace supple {
namespace {

constexpr int step_numbers = 11;

// In the order of _numbers in harness.py.
template <class T>
Step<T> step_of(const double* x) {
  Step<T> how{Method(int(x[0])), T(x[1]), int(x[2]), T(x[3]), int(x[4]), T(x[5]), {}};
  how.damping.rule = Rule(int(x[6]));
  for (int i = 0; i < 4; ++i) how.damping.p[i] = T(x[7 + i]);
  return how;
}

// J (m, n), e (m), v (n) -> dq (n), lambda2
template <class L, class T = scalar_t<L>>
void secondary_batch(long count, int m, int n, const double* numbers, const T* J, const T* e,
                     const T* v, T* dq, T* lambda2) {
  const Redundancy<T> how{Secondary(int(numbers[0])), T(numbers[1]), T(numbers[2]),
                          step_of<T>(numbers + 3)};
  std::vector<L> result(n), scratch(redundancy_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n);
    const std::vector<L> b = load<L>(m, lanes, e + i * m), c = load<L>(n, lanes, v + i * n);
    const L damping = redundant_step(how, m, n, a.data(), b.data(), c.data(), L(-1), L(0),
                                     result.data(), scratch.data());
    store(n, lanes, result.data(), dq + i * n);
    store(1, lanes, &damping, lambda2 + i);
  }
}

// J (m, n), e (m) of all levels -> dq (n)
template <class L, class T = scalar_t<L>>
void priority_batch(long count, int m, int n, int levels, const int* rows, const double* numbers,
                    const T* J, const T* e, T* dq) {
  std::vector<Step<T>> how;
  for (int k = 0; k < levels; ++k) how.push_back(step_of<T>(numbers + k * step_numbers));
  std::vector<L> result(n), scratch(redundancy_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n);
    const std::vector<L> b = load<L>(m, lanes, e + i * m);
    priority_step(how.data(), levels, rows, n, a.data(), b.data(), L(-1), L(0), result.data(),
                  scratch.data());
    store(n, lanes, result.data(), dq + i * n);
  }
}

}  // namespace
}  // namespace supple

using namespace supple;

#define LAB_EXPORT(lane, T, ...)                                                                \
  extern "C" void secondary_##lane(long count, int m, int n, const double* numbers, const T* J, \
                                   const T* e, const T* v, T* dq, T* lambda2) {                 \
    secondary_batch<__VA_ARGS__>(count, m, n, numbers, J, e, v, dq, lambda2);                   \
  }                                                                                             \
  extern "C" void priority_##lane(long count, int m, int n, int levels, const int* rows,        \
                                  const double* numbers, const T* J, const T* e, T* dq) {       \
    priority_batch<__VA_ARGS__>(count, m, n, levels, rows, numbers, J, e, dq);                  \
  }

LAB_LANES(LAB_EXPORT)
