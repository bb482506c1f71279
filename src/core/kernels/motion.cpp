// The batch loops, compiled once for each instruction set, which SUPPLE_ISA names.
//
// This file must not instantiate a template of the standard library: the linker would merge the
// instance with its copies for other instruction sets, which this machine may not be able to run
// (checked by tests/test_symbols.py).
#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "kernels/task_family.hpp"
#include "supple/math/arena.hpp"
#include "supple/limits/box.hpp"
#include "supple/step/damping.hpp"
#include "supple/robot/kinematics.hpp"
#include "supple/robot/rows.hpp"
#include "supple/limits/limits.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/step.hpp"

namespace supple::inline SUPPLE_ISA {

SUPPLE_STEPS()

namespace {

// Scratch memory of one block of lanes.
template <class L>
struct Workspace {
  L *q, *qd, *qdd, *jacobian, *stacked, *work, *sigma, *poses, *bias_acceleration, *bias_jerk;
  Pose<L>* joint_poses;

  template <class T>
  std::size_t allocate(const Chain<T>& chain, const Request<T>& request, void* memory) {
    const int n = chain.nv, f = request.frames;
    Arena<L> arena(static_cast<L*>(memory));
    const int picked = request.sigma || request.manipulability ? request.row_count * n : 0;
    q = arena.take(chain.nq);
    qd = arena.take(request.qd ? n : 0);
    qdd = arena.take(request.qdd ? n : 0);
    joint_poses = arena.template take_as<Pose<L>>(chain.joints);
    poses = arena.take(16 * f);
    bias_acceleration = arena.take(6 * f);
    bias_jerk = arena.take(request.bias_jerk ? 6 * f : 0);
    jacobian = arena.take(request.jacobian || picked ? 6 * f * n : 0);
    stacked = arena.take(picked);
    work = arena.take(picked);
    sigma = arena.take(picked ? n : 0);
    return std::size_t(arena.size()) * sizeof(L);
  }
};

// Returns the rates of the frame in whose axes twists are expressed: those of the frame
// request.axes, or `own`, the rates of the moving frame itself.
template <class L, class T, class R, class Rate>
R rates_of_axes(const Chain<T>& chain, const Request<T>& request, const R& own, Rate&& rate) {
  return request.axes >= 0 ? rate(chain.frame[request.axes]) : own;
}

// Writes the bias acceleration J̇q̇ of one frame whose origin is p. R are the axes of the twist,
// w_R their angular velocity, a and b the linear and angular acceleration in world axes:
//
//   moving axes R   twist R^T [v; w]       d/dt R^T v = R^T (a - w_R × v)
//   spatial         twist [v + p × w; w]   d/dt (v + p × w) = a + v × w + p × b
template <class L, class T>
void write_bias_acceleration(const Chain<T>& chain, const Request<T>& request,
                             const Frame<T>& frame, const Workspace<L>& space, const Vec3<L>& p,
                             const Rotation<L>* in, L* bias_acceleration) {
  const auto rate_of = [&](const Frame<T>& f) {
    return rates(chain, f, space.joint_poses, p, space.qd);
  };
  Rates<L> rate = rate_of(frame);
  if (in) {
    const Vec3<L> spin = rates_of_axes<L>(chain, request, rate, rate_of).w;
    rate.a = into(*in, rate.a - cross(spin, rate.v));
    rate.b = into(*in, rate.b - cross(spin, rate.w));
  }
  if (request.axes == axes_spatial) rate.a = rate.a + cross(rate.v, rate.w) + cross(p, rate.b);
  put(bias_acceleration, 1, rate.a);
  put(bias_acceleration + 3, 1, rate.b);
}

// Writes the bias jerk 2 J̇q̈ + J̈q̇ of one frame whose origin is p: the second derivatives of the
// twists in `write_bias_acceleration` without the terms of q⃛. (a, b) is the full acceleration,
// including the part due to q̈, and (j, c) is its derivative:
//
//   moving axes R   d²/dt² R^T v = R^T (j - 2 w_R × a - b_R × v + w_R × (w_R × v))
//   spatial         d²/dt² (v + p × w) = j + a × w + 2 v × b + p × c
template <class L, class T>
SUPPLE_NOINLINE_HOST void write_bias_jerk(const Chain<T>& chain, const Request<T>& request,
                                          const Frame<T>& frame, const Workspace<L>& space,
                                          const Vec3<L>& p, const Rotation<L>* in, L* bias_jerk) {
  const auto rate_of = [&](const Frame<T>& f) {
    return jerk_rates(chain, f, space.joint_poses, p, space.qd, space.qdd);
  };
  JerkRates<L> rate = rate_of(frame);
  if (in) {
    const JerkRates<L> axes = rates_of_axes<L>(chain, request, rate, rate_of);
    const auto turned = [&](const Vec3<L>& x, const Vec3<L>& dx, const Vec3<L>& ddx) {
      const Vec3<L> moved = cross(axes.w, dx), twice = cross(axes.w, cross(axes.w, x));
      return into(*in, ddx - moved - moved - cross(axes.b, x) + twice);
    };
    rate.j = turned(rate.v, rate.a, rate.j);
    rate.c = turned(rate.w, rate.b, rate.c);
  }
  if (request.axes == axes_spatial) {
    const Vec3<L> twice = cross(rate.v, rate.b);
    rate.j = rate.j + cross(rate.a, rate.w) + twice + twice + cross(p, rate.c);
  }
  put(bias_jerk, 1, rate.j);
  put(bias_jerk + 3, 1, rate.c);
}

// Writes the singular values of the requested rows, and their product, the manipulability. Returns
// the lanes where the product is finite.
template <class L, class T>
mask_t<L> write_sigma(const Chain<T>& chain, const Request<T>& request, std::ptrdiff_t first,
                      int lanes, const Workspace<L>& space) {
  const int n = chain.nv, m = request.row_count;
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) space.stacked[r * n + c] = space.jacobian[request.rows[r] * n + c];
  }
  const int k = m < n ? m : n;
  if (m == 6) {
    singular_values(Fixed<6>{}, n, space.stacked, space.sigma, space.work);
  } else {
    singular_values(m, n, space.stacked, space.sigma, space.work);
  }
  if (request.sigma) store(k, lanes, space.sigma, request.sigma + first * k);
  if (!request.manipulability) return L(0) == L(0);
  const L product = manipulability(k, space.sigma);
  store(1, lanes, &product, request.manipulability + first);
  return finite(product);
}

// Evaluates configurations first to first + lanes - 1, one on each lane. Returns the lanes where
// inputs and results are finite.
template <class L, class T>
mask_t<L> block(const Chain<T>& chain, const Request<T>& request, std::ptrdiff_t first, int lanes,
                const Workspace<L>& space) {
  const int n = chain.nv, f = request.frames;
  load(chain.nq, lanes, &request.q[first * chain.nq], space.q);
  if (request.qd) load(n, lanes, request.qd + first * n, space.qd);
  if (request.qdd) load(n, lanes, request.qdd + first * n, space.qdd);
  mask_t<L> valid = within_bounds(chain, space.q, request.qd ? space.qd : nullptr);
  if (!all(valid)) return valid;

  forward(chain, space.q, space.joint_poses);
  Pose<L> reference;
  const bool turned = request.axes >= 0 || request.axes == axes_body;
  const Rotation<L>* in = turned ? &reference.R : nullptr;
  if (request.axes >= 0) reference = frame_pose(chain.frame[request.axes], space.joint_poses);

  for (int i = 0; i < f; ++i) {
    const Frame<T>& frame = chain.frame[i];
    const Pose<L> pose = frame_pose(frame, space.joint_poses);
    if (request.axes == axes_body) reference = pose;
    if (request.poses) write_pose(pose, space.poses + 16 * i);
    if (request.jacobian || request.sigma || request.manipulability) {
      Vec3<L> p = pose.p;
      if (request.axes == axes_spatial) p = {L(0), L(0), L(0)};
      write_jacobian(chain, frame, space.joint_poses, p, in, space.jacobian + 6 * n * i);
    }
    if (request.bias_acceleration)
      write_bias_acceleration(chain, request, frame, space, pose.p, in,
                              space.bias_acceleration + 6 * i);
    if (request.bias_jerk)
      write_bias_jerk(chain, request, frame, space, pose.p, in, space.bias_jerk + 6 * i);
  }
  if (request.qd) {  // results are quadratic in the speeds and may overflow
    const L* bias = request.bias_jerk ? space.bias_jerk : space.bias_acceleration;
    for (int k = 0; k < 6 * f; ++k) valid = valid & finite(bias[k]);
    if (!all(valid)) return valid;
  }
  if (request.poses) store(16 * f, lanes, space.poses, request.poses + first * 16 * f);
  if (request.jacobian)
    store(6 * f * n, lanes, space.jacobian, request.jacobian + first * 6 * f * n);
  if (request.bias_acceleration)
    store(6 * f, lanes, space.bias_acceleration, request.bias_acceleration + first * 6 * f);
  if (request.bias_jerk) store(6 * f, lanes, space.bias_jerk, request.bias_jerk + first * 6 * f);
  if (request.sigma || request.manipulability) {
    return write_sigma(chain, request, first, lanes, space);
  }
  return valid;
}

// Maximum number of singular values of one Jacobian.
constexpr int max_values = 64;

template <class T>
void damp(const DampingRequest<T>& request, std::ptrdiff_t begin, std::ptrdiff_t end) {
  using L = Pack<T, batch_width<T>>;
  const int k = request.values;
  L sigma[max_values], gamma[max_values], history[3];
  for (std::ptrdiff_t first = begin; first < end; first += width<L>) {
    const int lanes = end - first < width<L> ? int(end - first) : width<L>;
    load(k, lanes, request.sigma + first * k, sigma);
    load(k, lanes, request.gamma + first * k, gamma);
    load(3, lanes, request.history + first * 3, history);
    const Spectrum<L> spectrum{
        k, sigma, gamma, history[0], history[1], history[2], request.redundant};
    const L result = lambda2(request.damping, spectrum);
    store(1, lanes, &result, request.lambda2 + first);
  }
}

template <class T>
std::size_t step_memory(const StepRequest<T>& request) {
  using L = Pack<T, batch_width<T>>;
  const int m = request.rows, n = request.columns;
  return sizeof(L) * std::size_t(m * n + m + n + 2 + step_scratch(m, n));
}

template <class L, class T>
std::ptrdiff_t step_lanes(const StepRequest<T>& request, std::ptrdiff_t begin, std::ptrdiff_t end,
                          void* memory) {
  const int m = request.rows, n = request.columns;
  L* J = static_cast<L*>(memory);
  L *e = J + m * n, *dq = e + m, *history = dq + n, *scratch = history + 2;
  for (std::ptrdiff_t first = begin; first < end; first += width<L>) {
    const int lanes = end - first < width<L> ? int(end - first) : width<L>;
    load(m * n, lanes, request.J + first * m * n, J);
    load(m, lanes, request.e + first * m, e);
    load(2, lanes, request.history + first * 2, history);
    mask_t<L> valid = L(0) == L(0);
    for (int i = 0; i < m * n + m; ++i) valid = valid & finite(J[i]);
    if (!all(valid)) return first + first_false<L>(valid, lanes);
    const L damping = step(request.step, m, n, J, e, history[0], history[1], dq, scratch);
    valid = valid & finite(damping);
    for (int j = 0; j < n; ++j) valid = valid & finite(dq[j]);
    if (!all(valid)) return first + first_false<L>(valid, lanes);
    store(n, lanes, dq, request.dq + first * n);
    store(1, lanes, &damping, request.lambda2 + first);
  }
  return -1;
}

template <class T>
std::ptrdiff_t steps(const StepRequest<T>& request, std::ptrdiff_t begin, std::ptrdiff_t end,
                     void* memory) {
  if constexpr (has_scalar_path<T>) {
    if (end - begin == 1) return step_lanes<T>(request, begin, end, memory);
  }
  return step_lanes<Pack<T, batch_width<T>>>(request, begin, end, memory);
}

template <class T>
std::size_t limit_memory(const LimitRequest<T>& request) {
  using L = Pack<T, batch_width<T>>;
  const int m = request.rows, n = request.columns;
  return sizeof(L) * std::size_t(m * n + 4 * n + 1 + limited_scratch(m, n));
}

template <class T>
void limit(const LimitRequest<T>& request, std::ptrdiff_t begin, std::ptrdiff_t end, void* memory) {
  using L = Pack<T, batch_width<T>>;
  const int m = request.rows, n = request.columns;
  L* J = static_cast<L*>(memory);
  L *low = J + m * n, *high = low + n, *x = high + n, *active_set = x + n,
    *lambda2 = active_set + n;
  L* const scratch = lambda2 + 1;
  for (std::ptrdiff_t first = begin; first < end; first += width<L>) {
    const int lanes = end - first < width<L> ? int(end - first) : width<L>;
    load(m * n, lanes, request.J + first * m * n, J);
    load(n, lanes, request.low + first * n, low);
    load(n, lanes, request.high + first * n, high);
    load(n, lanes, request.dq + first * n, x);
    load(1, lanes, request.lambda2 + first, lambda2);
    L applied_lambda2 = *lambda2;
    if (request.keep_direction) {
      scale_into_box(n, low, high, L(request.max_norm), x, active_set);
    } else {
      applied_lambda2 =
          limited_step(m, n, J, *lambda2, low, high, L(request.max_norm), x, active_set, scratch);
    }
    store(n, lanes, x, request.dq + first * n);
    store(n, lanes, active_set, request.active_set + first * n);
    store(1, lanes, &applied_lambda2, request.applied_lambda2 + first);
  }
}

template <class T>
void box(const JointLimit<T>& limit, T q, T speed, T change, T dt, T& low, T& high) {
  joint_box(limit, q, speed, change, dt, low, high);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

#define SUPPLE_TEXT(a) #a
#define SUPPLE_NAME(a) SUPPLE_TEXT(a)

extern const TaskKernels SUPPLE_TASK_KERNELS(SUPPLE_ISA);
extern const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA);
extern const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA);
#ifndef SUPPLE_BRANCHES_ISA  // another instruction set, where that is as fast
#define SUPPLE_BRANCHES_ISA SUPPLE_ISA
#endif
extern const BranchKernel SUPPLE_BRANCH_KERNEL(SUPPLE_BRANCHES_ISA);
extern const PathKernel SUPPLE_PATH_KERNEL(SUPPLE_ISA);
extern const CollisionKernel SUPPLE_COLLISION_KERNEL(SUPPLE_ISA);
extern const AdjointKernel SUPPLE_ADJOINT_KERNEL(SUPPLE_ISA);
extern const Kernels SUPPLE_KERNELS(SUPPLE_ISA);
const Kernels SUPPLE_KERNELS(SUPPLE_ISA) = {
    SUPPLE_NAME(SUPPLE_ISA),
    batch_width<double>,
    batch_width<float>,
    {&workspace<Workspace, double, Request<double>>,
     &run_blocks<Workspace, double, Request<double>>, &damp<double>, &step_memory<double>,
     &steps<double>, &limit_memory<double>, &limit<double>, &box<double>},
    {&workspace<Workspace, float, Request<float>>, &run_blocks<Workspace, float, Request<float>>,
     &damp<float>, &step_memory<float>, &steps<float>, &limit_memory<float>, &limit<float>,
     &box<float>},
    &SUPPLE_TASK_KERNELS(SUPPLE_ISA),
    &SUPPLE_SERVO_KERNEL(SUPPLE_ISA),
    &SUPPLE_SOLVE_KERNEL(SUPPLE_ISA),
    &SUPPLE_BRANCH_KERNEL(SUPPLE_BRANCHES_ISA),
    &SUPPLE_PATH_KERNEL(SUPPLE_ISA),
    &SUPPLE_COLLISION_KERNEL(SUPPLE_ISA),
    &SUPPLE_ADJOINT_KERNEL(SUPPLE_ISA),
};

}  // namespace supple
