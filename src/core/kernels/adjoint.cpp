// The adjoints on lanes, compiled once for each instruction set, which SUPPLE_ISA names.
//
// As motion.cpp, this file must not instantiate a template of the standard library.
#include "kernels/adjoint.hpp"

#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "supple/ik/gradients.hpp"
#include "supple/math/arena.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Scratch memory of one block of lanes.
template <class L>
struct AdjointSpace : GradientSpace<L> {
  template <class Request>
  std::size_t allocate(const Chain<double>& chain, const Request& request, void* memory) {
    const int n = chain.nv, f = request.frames, m = 6 * f;
    Arena<L> arena(static_cast<L*>(memory));
    this->joint_poses = arena.template take_as<Pose<L>>(chain.joints);
    this->q = arena.take(n);
    this->q_bar = arena.take(n);
    this->qd = arena.take(n);
    this->poses_bar = arena.take(16 * f);
    this->x = arena.take(m);
    this->y = arena.take(m);
    this->x_bar = arena.take(m);
    this->jacobian = arena.take(m * n);
    this->jacobian_bar = arena.take(m * n);
    this->factor = arena.take(solution_adjoint_memory(m, n) + m * m);
    return std::size_t(arena.size()) * sizeof(L);
  }
};

template <class L>
mask_t<L> block(const Chain<double>& chain, const KinematicsAdjoint& request, std::ptrdiff_t first,
                int lanes, const AdjointSpace<L>& at) {
  const int n = chain.nv, f = request.frames;
  load(n, lanes, request.q + first * n, at.q);
  const mask_t<L> valid = within_bounds(chain, at.q, static_cast<const L*>(nullptr));
  if (!all(valid)) return valid;
  const bool poses = request.poses_bar, jacobians = request.jacobian_bar;
  if (poses) load(16 * f, lanes, request.poses_bar + first * 16 * f, at.poses_bar);
  if (jacobians) load(6 * f * n, lanes, request.jacobian_bar + first * 6 * f * n, at.jacobian_bar);
  kinematics_gradient(chain, f, poses, jacobians, at);
  store(n, lanes, at.q_bar, request.q_bar + first * n);
  return valid;
}

template <class L>
mask_t<L> block(const Chain<double>& chain, const SolutionAdjoint& request, std::ptrdiff_t first,
                int lanes, const AdjointSpace<L>& at) {
  const int n = chain.nv, f = request.frames;
  load(n, lanes, request.q + first * n, at.q);
  load(n, lanes, request.q_bar + first * n, at.q_bar);
  L success(0);
  for (int i = 0; i < width<L>; ++i)
    set(success, i, request.success[first + (i < lanes ? i : lanes - 1)] ? 1.0 : 0.0);
  const mask_t<L> solved = success > L(0);
  for (int j = 0; j < n; ++j) {
    at.q[j] = select(solved, at.q[j], L(0));
    at.q_bar[j] = select(solved, at.q_bar[j], L(0));
  }
  const mask_t<L> valid = within_bounds(chain, at.q, static_cast<const L*>(nullptr));
  if (!all(valid)) return valid;
  solution_gradient(chain, f, request.rule, at);
  store(n, lanes, at.q_bar, request.q0_bar + first * n);
  store(16 * f, lanes, at.poses_bar, request.targets_bar + first * 16 * f);
  return valid;
}

template <class L>
mask_t<L> block(const Chain<double>& chain, const StepAdjoint& request, std::ptrdiff_t first,
                int lanes, const AdjointSpace<L>& at) {
  const int n = chain.nv, f = request.frames, m = 6 * f;
  load(n, lanes, request.q + first * n, at.q);
  load(m, lanes, request.x + first * m, at.x);
  const mask_t<L> valid = within_bounds(chain, at.q, static_cast<const L*>(nullptr));
  if (!all(valid)) return valid;
  frame_step(chain, f, request.lambda2, at);
  if (!request.qd_bar) {
    store(n, lanes, at.qd, request.qd + first * n);
    return valid;
  }
  load(n, lanes, request.qd_bar + first * n, at.q_bar);
  frame_step_gradient(chain, f, at);
  store(n, lanes, at.q_bar, request.q_bar + first * n);
  store(m, lanes, at.x_bar, request.x_bar + first * m);
  return valid;
}

template <class Request>
constexpr AdjointLoop<Request> loop() {
  return {&workspace<AdjointSpace, double, Request>, &run_blocks<AdjointSpace, double, Request>};
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const AdjointKernel SUPPLE_ADJOINT_KERNEL(SUPPLE_ISA);
const AdjointKernel SUPPLE_ADJOINT_KERNEL(SUPPLE_ISA) = {
    loop<KinematicsAdjoint>(), loop<SolutionAdjoint>(), loop<StepAdjoint>()};

}  // namespace supple
