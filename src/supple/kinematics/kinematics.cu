// Poses and Jacobians of a robot at many configurations, one thread for each.
//
// Compiled at run time for one robot and some of its frames: given.hpp holds their constants
// (src/core/drivers/gpu_constants.hpp) and the type `Real`.
#include "device_rows.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = RobotConstants<Real>;
constexpr int n = Constants::chain.nv, nq = n + Constants::chain.balls;
constexpr int frames = Constants::frames, axes = Constants::axes;
constexpr int joints = Constants::chain.joints > 0 ? Constants::chain.joints : 1;

// The arguments of a call. (The same layout as `Request` in gpu_frames.py.)
struct Request {
  const Real* q;    // (count, nq)
  Real* poses;      // (count, frames, 4, 4); null if they are not computed
  Real* jacobians;  // (count, frames, 6, n); null if they are not computed
  long long count;
};

template <bool of_poses, bool of_jacobians>
__device__ __forceinline__ void evaluate(const Request& request) {
  const long long row = own_row();
  if (row >= request.count) return;
  Real q[nq], x[n];
  Pose<Real> joint_poses[joints], reference = {};
  read_row<nq>(request.q, row, q);
  const bool valid = to_kernel(Constants::chain, q, x);
  forward(Constants::chain, x, joint_poses);
  if constexpr (axes >= 0) reference = frame_pose(Constants::chain.frame[axes], joint_poses);
  SUPPLE_UNROLL for (int i = 0; i < frames; ++i) {
    const Pose<Real> pose = frame_pose(Constants::chain.frame[i], joint_poses);
    if constexpr (of_poses) {
      Real matrix[16];
      write_pose(pose, matrix);
      write_row<16>(matrix, valid, row * frames + i, request.poses);
    }
    if constexpr (of_jacobians) {
      Real J[6 * n];
      if constexpr (axes == axes_body) reference = pose;
      const bool turned = axes >= 0 || axes == axes_body;
      const Vec3<Real> origin{Real(0), Real(0), Real(0)};
      write_jacobian(Constants::chain, Constants::chain.frame[i], joint_poses,
                     axes == axes_spatial ? origin : pose.p, turned ? &reference.R : nullptr, J);
      write_row<6 * n>(J, valid, row * frames + i, request.jacobians);
    }
  }
}

}  // namespace

extern "C" __global__ void poses(Request request) { evaluate<true, false>(request); }
extern "C" __global__ void jacobians(Request request) { evaluate<false, true>(request); }
extern "C" __global__ void both(Request request) { evaluate<true, true>(request); }

}  // namespace supple
