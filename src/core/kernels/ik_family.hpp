// The iteration of position inverse kinematics, compiled once for each instruction set: ik.cpp
// defines these functions, and the other kernels only declare them (compare step_family.hpp).
#pragma once

#include "kernels/task_family.hpp"
#include "supple/ik/iterate.hpp"

#define SUPPLE_ITERATION_ON(storage, L, T)                                                        \
  storage template void partial_rows_jacobian(const Chain<T>&, const Task<T>&, const Pose<L>*,    \
                                              const L*, L*);                                      \
  storage template void evaluate_error(const IkProblem<T>&, IterateState<L>&);                    \
  storage template void step_with_rule(const IkProblem<T>&, IterateState<L>&, const L*, const L*, \
                                       L*, L*);                                                   \
  storage template void descend_with_prismatic_joints(const IkProblem<T>&, IterateState<L>&);

#define SUPPLE_ITERATION(storage)              \
  SUPPLE_ITERATION_ON(storage, double, double) \
  SUPPLE_ITERATION_ON(storage, DoublePack, double)

namespace supple::inline SUPPLE_ISA {

SUPPLE_ITERATION(extern)

}  // namespace supple::inline SUPPLE_ISA
