// Gradients of a loss through kinematics, damped steps and solutions, one thread for each
// configuration (supple/ik/gradients.hpp). Arrays have the type `Real`, the work is done in double.
//
// Compiled at run time for one robot and some of its frames: given.hpp holds their constants
// (src/core/drivers/gpu_constants.hpp), the type `Real`, `positions`, and the limits and scales
// of the joints.
#include "device_rows.hpp"
#include "supple/ik/gradients.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = RobotConstants<double>;
constexpr int n = Constants::chain.nv, nq = n + Constants::chain.balls;
constexpr int f = Constants::frames, m = 6 * f, numbers = positions ? 3 : 16;
constexpr int joints = Constants::chain.joints > 0 ? Constants::chain.joints : 1;

// The arguments of a call. (The same layout as `Request` in gradients.py.)
struct Request {
  const Real *q, *twist;         // (count, nq), (count, f, 6)
  const Real* bar;               // the gradient with respect to the results of the function
  const unsigned char* success;  // (count,): whether q meets its target; otherwise gradients are 0
  Real *result, *other;          // the gradients, or the step; `other` may be null
  long long count;
  double parameter;  // the damping λ² of a step, or that of a solution relative to the norm of J
};

// The memory of one thread.
struct Own {
  double given[nq], q[n], q_bar[n], qd[n], poses_bar[16 * f], x[m], y[m], x_bar[m];
  double jacobian[m * n], jacobian_bar[m * n], factor[m * m + solution_adjoint_memory(m, n)];
  Pose<double> joint_poses[joints];

  __device__ __forceinline__ GradientSpace<double> space() {
    return {q, q_bar, qd, poses_bar, x, y, x_bar, jacobian, jacobian_bar, factor, joint_poses};
  }
  // Reads the configuration. Returns whether it is valid.
  __device__ __forceinline__ bool read(const Request& request, long long row) {
    read_row<nq>(request.q, row, given);
    return to_kernel(Constants::chain, given, q);
  }
  // Writes the gradient q_bar with respect to the configuration.
  __device__ __forceinline__ void write(bool valid, long long row, Real* to) const {
    double all[nq];
    from_velocities(Constants::chain, given, q_bar, all);
    write_row<nq>(all, valid, row, to);
  }
};

template <bool of_poses>
__device__ __forceinline__ void kinematics_backward(const Request& request) {
  const long long row = own_row();
  if (row >= request.count) return;
  Own own;
  const bool valid = own.read(request, row);
  if constexpr (of_poses) {
    read_row<16 * f>(request.bar, row, own.poses_bar);
  } else {
    read_row<m * n>(request.bar, row, own.jacobian_bar);
  }
  kinematics_gradient(Constants::chain, f, of_poses, !of_poses, own.space());
  own.write(valid, row, request.result);
}

}  // namespace

extern "C" __global__ void fk_backward(Request request) { kinematics_backward<true>(request); }
extern "C" __global__ void jacobian_backward(Request request) {
  kinematics_backward<false>(request);
}

extern "C" __global__ void solve_backward(Request request) {
  const long long row = own_row();
  if (row >= request.count) return;
  Own own;
  const bool valid = request.success[row] && own.read(request, row);
  double bar[nq];
  read_row<nq>(request.bar, row, bar);
  if (!valid) {  // the configuration may be anything
    for (int i = 0; i < nq; ++i) own.given[i] = 1, bar[i] = 0;
    for (int j = 0; j < n; ++j) own.q[j] = 0;
  }
  to_velocities(Constants::chain, own.given, bar, own.q_bar);
  const SolutionRule rule{positions,     request.parameter, slack,
                          Joints::lower, Joints::upper,     Joints::scale};
  solution_gradient(Constants::chain, f, rule, own.space());
  SUPPLE_UNROLL for (int i = 0; i < f; ++i) {
    double* const pose = own.poses_bar + 16 * i;
    const double position[3] = {pose[3], pose[7], pose[11]};
    write_row<numbers>(positions ? position : pose, valid, row * f + i, request.result);
  }
  if (request.other) own.write(valid, row, request.other);
}

extern "C" __global__ void step_forward(Request request) {
  const long long row = own_row();
  if (row >= request.count) return;
  Own own;
  const bool valid = own.read(request, row);
  read_row<m>(request.twist, row, own.x);
  frame_step(Constants::chain, f, request.parameter, own.space());
  write_row<n>(own.qd, valid, row, request.result);
}

extern "C" __global__ void step_backward(Request request) {
  const long long row = own_row();
  if (row >= request.count) return;
  Own own;
  const bool valid = own.read(request, row);
  read_row<m>(request.twist, row, own.x);
  frame_step(Constants::chain, f, request.parameter, own.space());
  read_row<n>(request.bar, row, own.q_bar);
  frame_step_gradient(Constants::chain, f, own.space());
  own.write(valid, row, request.result);
  write_row<m>(own.x_bar, valid, row, request.other);
}

}  // namespace supple
