// The batch loops of tasks, compiled once for each instruction set (see motion.cpp).
#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "kernels/task_family.hpp"
#include "supple/math/arena.hpp"
#include "supple/task/task.hpp"

namespace supple::inline SUPPLE_ISA {

SUPPLE_TASKS()

namespace {

// Scratch memory of one block of lanes.
template <class L>
struct Space {
  L *q, *qd, *target, *velocity, *J, *e, *bias_acceleration, *command;
  Pose<L>* joint_poses;

  template <class T>
  std::size_t allocate(const Chain<T>& chain, const TaskRequest<T>& request, void* memory) {
    const int n = chain.nv, m = request.rows;
    Arena<L> arena(static_cast<L*>(memory));
    q = arena.take(chain.nq);
    qd = arena.take(request.bias_acceleration ? n : 0);
    target = arena.take(request.target ? request.targets : 0);
    velocity = arena.take(request.command ? request.velocities : 0);
    joint_poses = arena.template take_as<Pose<L>>(chain.joints);
    J = arena.take(request.J ? m * n : 0);
    e = arena.take(request.e ? m : 0);
    bias_acceleration = arena.take(request.bias_acceleration ? m : 0);
    command = arena.take(request.command ? m : 0);
    return std::size_t(arena.size()) * sizeof(L);
  }
};

// Evaluates configurations first to first + lanes - 1, one on each lane. Returns the lanes where
// inputs and results are finite.
template <class L, class T>
mask_t<L> block(const Chain<T>& chain, const TaskRequest<T>& request, std::ptrdiff_t first,
                int lanes, const Space<L>& space) {
  const int n = chain.nv, m = request.rows;
  load(chain.nq, lanes, &request.q[first * chain.nq], space.q);
  if (request.bias_acceleration) load(n, lanes, request.qd + first * n, space.qd);
  mask_t<L> valid = within_bounds(chain, space.q, request.bias_acceleration ? space.qd : nullptr);
  const auto given = [&](const T* rows, int count, L* x) {
    load(count, lanes, rows + first * count, x);
    for (int i = 0; i < count; ++i) valid = valid & finite(x[i]);
  };
  if (request.target) given(request.target, request.targets, space.target);
  if (request.command) given(request.velocity, request.velocities, space.velocity);
  if (!all(valid)) return valid;

  forward(chain, space.q, space.joint_poses);
  int row = 0, target = 0, velocity = 0;
  for (int k = 0; k < request.tasks; ++k) {
    const Task<T>& task = request.task[k];
    const Pose<L>* const at = space.joint_poses;
    const L* const goal = request.target ? space.target + target : nullptr;
    if (request.J) task_jacobian(chain, task, at, space.J + row * n, goal);
    if (request.e) {
      task_error(chain, task, at, space.q, goal, space.e + row);
    }
    if (request.bias_acceleration)
      task_bias_acceleration(chain, task, at, space.qd, space.bias_acceleration + row, goal);
    if (request.command) {
      task_command(chain, task, at, space.velocity + velocity, space.command + row, goal);
    }
    row += task.rows;
    target += target_size(task);
    velocity += velocity_size(task);
  }
  const auto result = [&](const L* x, int count, T* rows) {
    if (!rows) return;
    for (int i = 0; i < count; ++i) valid = valid & finite(x[i]);
    store(count, lanes, x, rows + first * count);
  };
  result(space.J, m * n, request.J);
  result(space.e, m, request.e);
  result(space.bias_acceleration, m, request.bias_acceleration);
  result(space.command, m, request.command);
  return valid;
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const TaskKernels SUPPLE_TASK_KERNELS(SUPPLE_ISA);
const TaskKernels SUPPLE_TASK_KERNELS(SUPPLE_ISA) = {
    {&workspace<Space, double, TaskRequest<double>>,
     &run_blocks<Space, double, TaskRequest<double>>},
    {&workspace<Space, float, TaskRequest<float>>, &run_blocks<Space, float, TaskRequest<float>>},
};

}  // namespace supple
