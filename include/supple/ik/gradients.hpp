// Gradients of a loss through kinematics, damped steps and solutions, for one configuration on each
// lane, or on each thread of a GPU.
//
// x_bar is the gradient of the loss with respect to x; matrices are C-ordered, and those of several
// frames follow each other. Poses, twists and Jacobians are in world axes.
#pragma once

#include "supple/ik/solution_rule.hpp"
#include "supple/robot/adjoint.hpp"
#include "supple/robot/rows.hpp"
#include "supple/step/adjoint.hpp"

namespace supple::inline SUPPLE_ISA {

// Memory of one configuration with n velocities and f frames; m is 6 f.
template <class L>
struct GradientSpace {
  L *q, *q_bar, *qd;           // (n,)
  L* poses_bar;                // (f, 4, 4)
  L *x, *y, *x_bar;            // (m,)
  L *jacobian, *jacobian_bar;  // (m, n)
  L* factor;                   // (solution_adjoint_memory(m, n) + m m,)
  Pose<L>* joint_poses;        // (joints,)
};

// Calls each(frame, pose, i) for the first `frames` frames of a chain.
template <class L, class T, class Each>
SUPPLE_INLINE void each_frame(const Chain<T>& chain, int frames, const Pose<L>* joint_poses,
                              Each&& each) {
  SUPPLE_UNROLL for (int i = 0; i < frames; ++i) {
    each(chain.frame[i], frame_pose(chain.frame[i], joint_poses), i);
  }
}

// Calls visit with the number of rows, which is a compile-time constant for a single pose.
template <class Visit>
SUPPLE_INLINE void with_rows(int m, Visit&& visit) {
  m == 6 ? visit(Fixed<6>{}) : visit(m);
}

// Writes the Jacobians of all frames, of each frame only the first `rows` rows (3 or 6).
template <class L, class T>
SUPPLE_INLINE void stack_jacobian(const Chain<T>& chain, int frames, int rows,
                                  const GradientSpace<L>& at) {
  const int n = chain.nv;
  SUPPLE_UNROLL for (int k = 0; k < rows * frames * n; ++k) at.jacobian[k] = L(0);
  each_frame(chain, frames, at.joint_poses, [&](const auto& frame, const Pose<L>& pose, int i) {
    L* const J = at.jacobian + i * rows * n;
    jacobian(chain, frame, at.joint_poses, pose.p, [&](int c, const Twist<L>& twist, bool) {
      const L column[6] = {twist.v.x, twist.v.y, twist.v.z, twist.w.x, twist.w.y, twist.w.z};
      for (int r = 0; r < rows; ++r) J[r * n + c] = J[r * n + c] + column[r];
    });
  });
}

// Computes q_bar from the gradients with respect to poses and to Jacobians at q; `of_poses` and
// `of_jacobians` say which of the two are given.
template <class L, class T>
SUPPLE_INLINE void kinematics_gradient(const Chain<T>& chain, int frames, bool of_poses,
                                       bool of_jacobians, const GradientSpace<L>& at) {
  const int n = chain.nv;
  SUPPLE_UNROLL for (int j = 0; j < n; ++j) at.q_bar[j] = L(0);
  forward(chain, at.q, at.joint_poses);
  each_frame(chain, frames, at.joint_poses, [&](const auto& frame, const Pose<L>& pose, int i) {
    if (of_poses) {
      const Twist<L> bar = twist_gradient(pose.R, at.poses_bar + 16 * i);
      add_twist_adjoint(chain, frame, at.joint_poses, pose.p, bar, at.q_bar);
    }
    if (of_jacobians)
      add_jacobian_adjoint(chain, frame, at.joint_poses, pose.p, at.jacobian_bar + 6 * n * i,
                           at.q_bar);
  });
}

// Multiplies the rows of positions by a factor that gives them the norm of the rows of rotations,
// so that damping does not depend on the unit of length. Returns the factor.
template <class L>
SUPPLE_INLINE L balance_rows(int frames, int n, L* J) {
  L squares[2] = {L(0), L(0)};
  SUPPLE_UNROLL for (int r = 0; r < 6 * frames; ++r) {
    L& sum = squares[r / 3 % 2];
    sum = sum + dot(n, J + r * n, J + r * n);
  }
  const mask_t<L> both = (squares[0] > L(0)) & (squares[1] > L(0));
  const L scale = select(both, sqrt(squares[1] / select(both, squares[0], L(1))), L(1));
  SUPPLE_UNROLL for (int r = 0; r < 6 * frames; ++r) {
    if (r / 3 % 2) continue;
    for (int j = 0; j < n; ++j) J[r * n + j] = J[r * n + j] * scale;
  }
  return scale;
}

// Computes poses_bar, the gradient with respect to the targets of a solution q, from q_bar, the
// gradient with respect to q; then overwrites q_bar by the gradient with respect to its seed.
template <class L, class T>
SUPPLE_INLINE void solution_gradient(const Chain<T>& chain, int frames, const SolutionRule& rule,
                                     const GradientSpace<L>& at) {
  const int n = chain.nv, rows = rule.positions ? 3 : 6, m = rows * frames;
  forward(chain, at.q, at.joint_poses);
  stack_jacobian(chain, frames, rows, at);
  SUPPLE_UNROLL for (int j = 0; j < n; ++j) {
    const mask_t<L> free =
        (at.q[j] > L(rule.lower[j] + rule.slack)) & (at.q[j] < L(rule.upper[j] - rule.slack));
    at.q_bar[j] = select(free, at.q_bar[j], L(0));
    for (int r = 0; r < m; ++r) at.jacobian[r * n + j] = select(free, at.jacobian[r * n + j], L(0));
    if (!rule.joint_scale) continue;
    at.q_bar[j] = at.q_bar[j] * L(rule.joint_scale[j]);
    for (int r = 0; r < m; ++r)
      at.jacobian[r * n + j] = at.jacobian[r * n + j] * L(rule.joint_scale[j]);
  }
  const L scale = rule.positions ? L(1) : balance_rows(frames, n, at.jacobian);
  L squares(0);
  for (int r = 0; r < m; ++r) squares = squares + dot(n, at.jacobian + r * n, at.jacobian + r * n);
  const L lambda2 = squares * L(rule.damping * rule.damping);
  with_rows(m, [&](auto size) {
    solution_adjoint(size, n, at.jacobian, lambda2, at.q_bar, at.x_bar, at.factor);
  });
  if (rule.joint_scale) {
    SUPPLE_UNROLL for (int j = 0; j < n; ++j) at.q_bar[j] = at.q_bar[j] / L(rule.joint_scale[j]);
  }
  each_frame(chain, frames, at.joint_poses, [&](const auto&, const Pose<L>& pose, int i) {
    const L *const v = at.x_bar + rows * i, *const w = v + 3;
    const Vec3<L> turn = rule.positions ? Vec3<L>{L(0), L(0), L(0)} : Vec3<L>{w[0], w[1], w[2]};
    const Twist<L> bar{Vec3<L>{v[0], v[1], v[2]} * scale, turn};
    write_pose_gradient(pose.R, bar, at.poses_bar + 16 * i);
  });
}

// The damped step qd at q for the twists x.
template <class L, class T>
SUPPLE_INLINE void frame_step(const Chain<T>& chain, int frames, double lambda2,
                              const GradientSpace<L>& at) {
  const int n = chain.nv, m = 6 * frames;
  forward(chain, at.q, at.joint_poses);
  stack_jacobian(chain, frames, 6, at);
  with_rows(m, [&](auto size) {
    damped_step(size, n, at.jacobian, at.x, L(lambda2), at.factor, at.y, at.qd);
  });
}

// The gradients q_bar and x_bar of the damped step that `frame_step` has computed before. On entry,
// q_bar is the gradient with respect to the step.
template <class L, class T>
SUPPLE_INLINE void frame_step_gradient(const Chain<T>& chain, int frames,
                                       const GradientSpace<L>& at) {
  const int n = chain.nv, m = 6 * frames;
  with_rows(m, [&](auto size) {
    step_adjoint(size, n, at.jacobian, at.factor, at.y, at.qd, at.q_bar, at.x_bar, at.jacobian_bar);
  });
  SUPPLE_UNROLL for (int j = 0; j < n; ++j) at.q_bar[j] = L(0);
  each_frame(chain, frames, at.joint_poses, [&](const auto& frame, const Pose<L>& pose, int i) {
    add_jacobian_adjoint(chain, frame, at.joint_poses, pose.p, at.jacobian_bar + 6 * n * i,
                         at.q_bar);
  });
}

}  // namespace supple::inline SUPPLE_ISA
