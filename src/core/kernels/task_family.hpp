// Kinematics and tasks, compiled once for each instruction set: tasks.cpp defines these functions,
// and the other kernels only declare them (compare step_family.hpp).
#pragma once

#include "kernels/step_family.hpp"
#include "supple/task/task.hpp"

#define SUPPLE_TASKS_ON(storage, L, T)                                                          \
  storage template void joint_sines(const Chain<T>&, const L*, Pose<L>*);                       \
  storage template void task_jacobian(const Chain<T>&, const Task<T>&, const Pose<L>*, L*,      \
                                      const L*);                                                \
  storage template void task_offset(const Chain<T>&, const Task<T>&, const Pose<L>*, const L*,  \
                                    const L*, L*);                                              \
  storage template void task_bias_acceleration(const Chain<T>&, const Task<T>&, const Pose<L>*, \
                                               const L*, L*, const L*);                         \
  storage template void task_command(const Chain<T>&, const Task<T>&, const Pose<L>*, const L*, \
                                     L*, const L*);

#define SUPPLE_TASKS(storage)                  \
  SUPPLE_TASKS_ON(storage, double, double)     \
  SUPPLE_TASKS_ON(storage, DoublePack, double) \
  SUPPLE_TASKS_ON(storage, FloatPack, float)

namespace supple::inline SUPPLE_ISA {

SUPPLE_TASKS(extern)

}  // namespace supple::inline SUPPLE_ISA
