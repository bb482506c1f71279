// The steps of the kernel, compiled once for each instruction set: motion.cpp defines them, and the
// other kernels, which would each spend a third of their compile time on them, only declare them.
#pragma once

#include "kernels/lanes.hpp"
#include "supple/limits/box.hpp"
#include "supple/step/step.hpp"

#define SUPPLE_STEPS_ON(storage, L, T)                                                            \
  storage template mask_t<L> optimal_step_any_size(int, int, const L*, const L*, const L&,        \
                                                   const L&, L*, L*, L*);                         \
  storage template mask_t<L> residual_step_any_size(int, int, const L*, const L*, const L&,       \
                                                    const L&, L*, L*, L*);                        \
  storage template mask_t<L> cholesky_step_any_size(const Step<T>&, int, int, const L*, const L*, \
                                                    const L&, const L&, L*, L*, L*);              \
  storage template L general_step_any_size(const Step<T>&, int, int, const L*, L*, const L&,      \
                                           const L&, L*, L*);                                     \
  storage template L limited_step(int, int, const L*, const L&, const L*, const L*, const L&, L*, \
                                  L*, L*);

#define SUPPLE_STEPS(storage)                  \
  SUPPLE_STEPS_ON(storage, double, double)     \
  SUPPLE_STEPS_ON(storage, DoublePack, double) \
  SUPPLE_STEPS_ON(storage, FloatPack, float)

namespace supple::inline SUPPLE_ISA {

using DoublePack = Pack<double, batch_width<double>>;
using FloatPack = Pack<float, batch_width<float>>;

SUPPLE_STEPS(extern)

}  // namespace supple::inline SUPPLE_ISA
