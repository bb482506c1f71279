// A C interface to include/supple/ik/limbs.hpp, in the form of harness.cpp.
#include <vector>

#include "batch.hpp"
#include "supple/ik/limbs.hpp"

namespace supple {
namespace {

// The limbs: their number, first_row, first_joint and joint, as in `Limbs`. J (m, n), e (m),
// lambda2 (1), unit (n) -> dq (n)
template <class L, class T = scalar_t<L>>
void limb_step_batch(long count, int m, int n, const int* numbers, const T* J, const T* e,
                     const T* lambda2, const T* unit, T* dq) {
  const int size = numbers[0], *row = numbers + 1, *first = row + size + 1;
  const Limbs limbs{size, row, first, first + size + 2};
  std::vector<L> scratch(limb_scratch(limbs, m));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n);
    const std::vector<L> damping = load<L>(1, lanes, lambda2 + i);
    std::vector<L> z = load<L>(m, lanes, e + i * m), step(n, L(0));
    limb_step(
        limbs, m, n, a.data(), z.data(), damping[0], [&](int j) { return unit[j]; }, step.data(),
        scratch.data());
    store(n, lanes, step.data(), dq + i * n);
  }
}

}  // namespace
}  // namespace supple

using namespace supple;

#define LAB_EXPORT(lane, T, ...)                                                             \
  extern "C" void limb_step_##lane(long count, int m, int n, const int* numbers, const T* J, \
                                   const T* e, const T* lambda2, const T* unit, T* dq) {     \
    limb_step_batch<__VA_ARGS__>(count, m, n, numbers, J, e, lambda2, unit, dq);             \
  }

// harness.py defines this macro, which calls LAB_EXPORT for every lane type.
LAB_LANES(LAB_EXPORT)
