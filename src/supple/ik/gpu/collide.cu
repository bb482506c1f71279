// Decides whether a solution collides; used by explore.cu and reject.cu.
#include "supple/collision/shared.hpp"
//
#include "problem.hpp"

namespace supple {
namespace {

// The threads of a warp, which share the pairs of a configuration.
struct Warp {
  __device__ int index() const { return int(threadIdx.x % 32); }
  __device__ int count() const { return 32; }
  __device__ bool any(bool holds) const { return __any_sync(everyone, holds); }
  __device__ unsigned ballot(bool holds) const { return __ballot_sync(everyone, holds); }
};

__device__ const SharedModel& model_of(const Request& request) {
  return *static_cast<const SharedModel*>(request.world);
}

// The memory of a thread of this warp.
__device__ BodyPoses bodies_of(const Request& request, int thread) {
  const long long warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int numbers = BodyPoses::body_numbers * model_of(request).model.moving;
  return {request.bodies + warp * numbers * 32 + thread, 32};
}

}  // namespace

// Moves the bodies in the memory of this thread to a configuration q (nq,).
__device__ void place(const Request& request, int problem, const double* q) {
  if constexpr (checks) {
    double whole[world_coordinates];
    Pose<double> joint[world_joints];
    for (int k = 0; k < world_coordinates; ++k) {
      const int j = request.joint ? request.joint[k] : k;
      whole[k] = j >= 0 ? q[j] : request.still[problem * world_coordinates + k];
    }
    place_bodies(model_of(request).model, whole, joint, bodies_of(request, threadIdx.x % 32));
  }
}

__device__ bool collides(const Request& request, int own) {
  __syncwarp();
  return collides(model_of(request), bodies_of(request, own), request.clearance, Warp{});
}

}  // namespace supple
