// Control steps and velocity inverse kinematics, compiled once for each instruction set, which
// SUPPLE_ISA names.
#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "kernels/task_family.hpp"
#include "supple/math/arena.hpp"
#include "supple/servo/ranges.hpp"
#include "supple/servo/servo.hpp"
#include "supple/servo/tree_step.hpp"
#include "supple/servo/velocity.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

template <class T>
int scratch(const Servo<T>& servo) {
  return servo_scratch(servo);
}

template <class T>
void evaluate_tasks_of(const Servo<T>& servo, const Command<T>& command, ServoState<T>& state,
                       T* memory) {
  evaluate_tasks(servo, command, state, memory);
}

template <class T>
void advance_and_store(const Servo<T>& servo, ServoState<T>& state, T* memory) {
  advance(servo, state, memory);
  store_history(servo, state, memory);
}

template <class T>
void run(const Servo<T>& servo, const Command<T>& command, ServoState<T>& state, T* memory) {
  evaluate_tasks(servo, command, state, memory);
  if (state.holding) project_held(servo, state, reinterpret_cast<const Pose<T>*>(memory));
  if (state.ranges) {
    run_in_ranges(servo, state, memory);
    return store_history(servo, state, memory);
  }
  take_step(servo, state, memory);
  advance_and_store(servo, state, memory);
}

template <class T>
void project_held_of(const Servo<T>& servo, ServoState<T>& state) {
  project_held(servo, state);
}

template <class T>
void measure_held_of(const Servo<T>& servo, const ServoState<T>& state) {
  measure_held(servo, state);
}

// Scratch memory of one block of robots, one on each lane.
template <class L>
struct Robots {
  L *q, *velocity, *scratch;
  ServoState<L> state = {};

  template <class T>
  std::size_t allocate(const Chain<T>& chain, const VelocityRequest<T>& request, void* memory) {
    const int m = request.servo->rows, n = chain.nv;
    Arena<L> arena(static_cast<L*>(memory));
    state = {.q = arena.take(chain.nq),
             .qd = arena.take(n),
             .change = nullptr,
             .J = arena.take(m * n),
             .desired = arena.take(m),
             .e = arena.take(m),
             .dq = arena.take(n),
             .active_set = arena.take(n),
             .J_before = nullptr,
             .v = nullptr,
             .u = nullptr,
             .sigma = L(-1),
             .chosen_lambda2 = L(0),
             .applied_lambda2 = L(0),
             .limited = L(0),
             .before = L(-1),
             .has_previous = false,
             .self_moves = false};
    q = state.q;
    velocity = arena.take(request.velocities);
    scratch = arena.take(resolve_scratch(*request.servo));
    return std::size_t(arena.size()) * sizeof(L);
  }
};

template <class L, class T>
mask_t<L> block(const Chain<T>& chain, const VelocityRequest<T>& request, std::ptrdiff_t first,
                int lanes, Robots<L>& space) {
  const int n = chain.nv, k = request.velocities;
  L* const qd = space.state.qd;
  load(chain.nq, lanes, &request.q[first * chain.nq], space.q);
  load(k, lanes, request.velocity + first * k, space.velocity);
  for (int j = 0; j < n; ++j) qd[j] = L(0);
  if (request.before) load(n, lanes, request.before + first * n, qd);
  mask_t<L> valid = within_bounds(chain, space.q, qd);
  for (int i = 0; i < k; ++i) valid = valid & finite(space.velocity[i]);
  if (!all(valid)) return valid;
  L* const memory = space.scratch;
  resolve_velocity(*request.servo, request.servo->rows, n, space.velocity, space.state, memory,
                   memory, memory);
  for (int j = 0; j < n; ++j) valid = valid & finite(qd[j]);
  if (all(valid)) store(n, lanes, qd, request.qd + first * n);
  return valid;
}

template <class T>
std::size_t velocity_memory(const VelocityRequest<T>& request) {
  return workspace<Robots>(request.servo->chain, request);
}

template <class T>
std::ptrdiff_t resolve_all(const VelocityRequest<T>& request, std::ptrdiff_t begin,
                           std::ptrdiff_t end, void* memory) {
  return run_blocks<Robots>(request.servo->chain, request, begin, end, memory);
}

// Scratch memory of one block of robots that move toward targets, one on each lane.
template <class L>
struct TreeRobots {
  L *q, *qd, *target, *low, *high, *active_set, *rest;
  TreeWork<L> work;
  TreePlan plan;

  std::size_t allocate(const Chain<double>& chain, const TreeRequest& request, void* memory) {
    const Servo<double>& servo = *request.servo;
    const int n = chain.nv, items = attachments(servo.tasks, servo.task);
    Arena<L> arena(static_cast<L*>(memory));
    int *const slot = arena.template take_as<int>(chain.joints),
               *const leader = arena.template take_as<int>(chain.joints),
               *const begin = arena.template take_as<int>(chain.joints + 1);
    Attachment* const item = arena.template take_as<Attachment>(items);
    plan = {chain.joints, slot, leader, begin, item};
    if (memory) plan = make_plan(chain, servo.tasks, servo.task, slot, leader, begin, item);
    // (an upper bound: each joint may have a slot)
    L* const own = arena.take(tree_scratch(chain.joints, chain.joints, servo.tasks, servo.rows, n));
    work = tree_work(chain.joints, plan.slots, servo.tasks, servo.rows, n, own);
    q = arena.take(n), qd = arena.take(n), target = arena.take(request.targets);
    low = arena.take(n), high = arena.take(n), active_set = arena.take(n);
    rest = arena.take(limit_scratch(chain.joints, chain.joints, n));
    return std::size_t(arena.size()) * sizeof(L);
  }
};

template <class L, class T>
mask_t<L> block(const Chain<T>& chain, const TreeRequest& request, std::ptrdiff_t first, int lanes,
                TreeRobots<L>& space) {
  const Servo<double>& servo = *request.servo;
  const int n = chain.nv, k = request.targets;
  load(n, lanes, request.q + first * n, space.q);
  load(k, lanes, request.target + first * k, space.target);
  for (int j = 0; j < n; ++j) space.qd[j] = L(0);
  if (request.before) load(n, lanes, request.before + first * n, space.qd);
  mask_t<L> valid = within_bounds(chain, space.q, space.qd);
  if (!all(valid)) return valid;
  const int K = multipliers(servo);
  const TreeFunctions<L, double, int> tree{servo, space.plan, K, space.work};
  valid = tree_velocity(servo, request.lambda2, space.q, space.qd, space.target, space.low,
                        space.high, space.work, space.active_set, space.rest, tree);
  if (all(valid)) store(n, lanes, space.work.x, request.qd + first * n);
  return valid;
}

std::size_t tree_memory(const TreeRequest& request) {
  return workspace<TreeRobots>(request.servo->chain, request);
}

std::ptrdiff_t resolve_trees(const TreeRequest& request, std::ptrdiff_t begin, std::ptrdiff_t end,
                             void* memory) {
  return run_blocks<TreeRobots>(request.servo->chain, request, begin, end, memory);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA);
const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA) = {
    &scratch<double>,
    &evaluate_tasks_of<double>,
    &advance_and_store<double>,
    &run<double>,
    &project_held_of<double>,
    &measure_held_of<double>,
    {&velocity_memory<double>, &resolve_all<double>},
    {&velocity_memory<float>, &resolve_all<float>},
    {&tree_memory, &resolve_trees},
};

}  // namespace supple
