// The adjoints on lanes, compiled once for each instruction set, which SUPPLE_ISA names.
//
// As motion.cpp, this file must not instantiate a template of the standard library.
#include "kernels/adjoint.hpp"

#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "supple/math/arena.hpp"
#include "supple/robot/adjoint.hpp"
#include "supple/step/adjoint.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Scratch memory of one block of lanes.
template <class L>
struct AdjointSpace {
  L *q, *q_bar, *poses_bar, *jacobian, *jacobian_bar, *x, *y, *x_bar, *qd, *factor;
  Pose<L>* joint_poses;

  template <class Request>
  std::size_t allocate(const Chain<double>& chain, const Request& request, void* memory) {
    const int n = chain.nv, f = request.frames, m = 6 * f;
    Arena<L> arena(static_cast<L*>(memory));
    joint_poses = arena.template take_as<Pose<L>>(chain.joints);
    q = arena.take(n);
    q_bar = arena.take(n);
    qd = arena.take(n);
    poses_bar = arena.take(16 * f);
    x = arena.take(m);
    y = arena.take(m);
    x_bar = arena.take(m);
    jacobian = arena.take(m * n);
    jacobian_bar = arena.take(m * n);
    factor = arena.take(solution_adjoint_memory(m, n) + m * m);
    return std::size_t(arena.size()) * sizeof(L);
  }
};

// Calls each(frame, pose, i) for all frames of a request.
template <class L, class Each>
void each_frame(const Chain<double>& chain, int frames, const Pose<L>* joint_poses, Each&& each) {
  for (int i = 0; i < frames; ++i) {
    each(chain.frame[i], frame_pose(chain.frame[i], joint_poses), i);
  }
}

// Calls visit with the number of rows, as a constant for one pose.
template <class Visit>
void with_rows(int m, Visit&& visit) {
  m == 6 ? visit(Fixed<6>{}) : visit(m);
}

// Writes the Jacobian of all frames; of each only the first `rows` rows, 3 or 6.
template <class L>
void stack_jacobian(const Chain<double>& chain, int frames, int rows, const AdjointSpace<L>& at) {
  const int n = chain.nv;
  for (int k = 0; k < rows * frames * n; ++k) at.jacobian[k] = L(0);
  each_frame(chain, frames, at.joint_poses, [&](const auto& frame, const Pose<L>& pose, int i) {
    L* const J = at.jacobian + i * rows * n;
    jacobian(chain, frame, at.joint_poses, pose.p, [&](int c, const Twist<L>& twist, bool) {
      const L column[6] = {twist.v.x, twist.v.y, twist.v.z, twist.w.x, twist.w.y, twist.w.z};
      for (int r = 0; r < rows; ++r) J[r * n + c] = J[r * n + c] + column[r];
    });
  });
}

template <class L>
mask_t<L> block(const Chain<double>& chain, const KinematicsAdjoint& request, std::ptrdiff_t first,
                int lanes, const AdjointSpace<L>& at) {
  const int n = chain.nv, f = request.frames;
  load(n, lanes, request.q + first * n, at.q);
  const mask_t<L> valid = within_bounds(chain, at.q, static_cast<const L*>(nullptr));
  if (!all(valid)) return valid;
  if (request.poses_bar) load(16 * f, lanes, request.poses_bar + first * 16 * f, at.poses_bar);
  if (request.jacobian_bar)
    load(6 * f * n, lanes, request.jacobian_bar + first * 6 * f * n, at.jacobian_bar);
  for (int j = 0; j < n; ++j) at.q_bar[j] = L(0);
  forward(chain, at.q, at.joint_poses);
  each_frame(chain, f, at.joint_poses, [&](const auto& frame, const Pose<L>& pose, int i) {
    if (request.poses_bar) {
      const Twist<L> bar = twist_gradient(pose.R, at.poses_bar + 16 * i);
      add_twist_adjoint(chain, frame, at.joint_poses, pose.p, bar, at.q_bar);
    }
    if (request.jacobian_bar)
      add_jacobian_adjoint(chain, frame, at.joint_poses, pose.p, at.jacobian_bar + 6 * n * i,
                           at.q_bar);
  });
  store(n, lanes, at.q_bar, request.q_bar + first * n);
  return valid;
}

// Multiplies the rows of positions by a factor that gives them the norm of the rows of rotations,
// so that damping does not depend on the unit of length. Returns the factor.
template <class L>
L balance_rows(int frames, int n, L* J) {
  L squares[2] = {L(0), L(0)};
  for (int r = 0; r < 6 * frames; ++r) {
    L& sum = squares[r / 3 % 2];
    sum = sum + dot(n, J + r * n, J + r * n);
  }
  const mask_t<L> both = (squares[0] > L(0)) & (squares[1] > L(0));
  const L scale = select(both, sqrt(squares[1] / select(both, squares[0], L(1))), L(1));
  for (int r = 0; r < 6 * frames; ++r) {
    if (r / 3 % 2) continue;
    for (int j = 0; j < n; ++j) J[r * n + j] = J[r * n + j] * scale;
  }
  return scale;
}

template <class L>
mask_t<L> block(const Chain<double>& chain, const SolutionAdjoint& request, std::ptrdiff_t first,
                int lanes, const AdjointSpace<L>& at) {
  const int n = chain.nv, f = request.frames, rows = request.positions ? 3 : 6, m = rows * f;
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
  forward(chain, at.q, at.joint_poses);
  stack_jacobian(chain, f, rows, at);
  for (int j = 0; j < n; ++j) {
    const mask_t<L> free = (at.q[j] > L(request.lower[j] + request.slack)) &
                           (at.q[j] < L(request.upper[j] - request.slack));
    at.q_bar[j] = select(free, at.q_bar[j], L(0));
    for (int r = 0; r < m; ++r) at.jacobian[r * n + j] = select(free, at.jacobian[r * n + j], L(0));
  }
  const L scale = request.positions ? L(1) : balance_rows(f, n, at.jacobian);
  L squares(0);
  for (int r = 0; r < m; ++r) squares = squares + dot(n, at.jacobian + r * n, at.jacobian + r * n);
  const L lambda2 = squares * L(request.damping * request.damping);
  with_rows(m, [&](auto size) {
    solution_adjoint(size, n, at.jacobian, lambda2, at.q_bar, at.x_bar, at.factor);
  });
  store(n, lanes, at.q_bar, request.q0_bar + first * n);
  each_frame(chain, f, at.joint_poses, [&](const auto&, const Pose<L>& pose, int i) {
    const L *const v = at.x_bar + rows * i, *const w = v + 3;
    const Vec3<L> turn = request.positions ? Vec3<L>{L(0), L(0), L(0)} : Vec3<L>{w[0], w[1], w[2]};
    const Twist<L> bar{Vec3<L>{v[0], v[1], v[2]} * scale, turn};
    write_pose_gradient(pose.R, bar, at.poses_bar + 16 * i);
  });
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
  forward(chain, at.q, at.joint_poses);
  stack_jacobian(chain, f, 6, at);
  with_rows(m, [&](auto size) {
    damped_step(size, n, at.jacobian, at.x, L(request.lambda2), at.factor, at.y, at.qd);
  });
  if (!request.qd_bar) {
    store(n, lanes, at.qd, request.qd + first * n);
    return valid;
  }
  load(n, lanes, request.qd_bar + first * n, at.q_bar);
  with_rows(m, [&](auto size) {
    step_adjoint(size, n, at.jacobian, at.factor, at.y, at.qd, at.q_bar, at.x_bar, at.jacobian_bar);
  });
  for (int j = 0; j < n; ++j) at.q_bar[j] = L(0);
  each_frame(chain, f, at.joint_poses, [&](const auto& frame, const Pose<L>& pose, int i) {
    add_jacobian_adjoint(chain, frame, at.joint_poses, pose.p, at.jacobian_bar + 6 * n * i,
                         at.q_bar);
  });
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
