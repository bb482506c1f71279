// Decides whether configurations collide; used by explore.cu, reject.cu and branches.cu.
// nvrtc: -maxrregcount=128
#include "supple/collision/shared.hpp"
//
#include "problem.hpp"

namespace supple {
namespace {

constexpr int body_count = checks ? BodyPoses<float>::body_numbers * world_bodies : 1;
// Whether the poses of all threads of a block fit into shared memory.
constexpr bool in_shared_memory = sizeof(float) * body_count * largest_block <= 40000;
constexpr int own_count = in_shared_memory ? 1 : body_count;

// Moves the bodies to a configuration q of a problem.
template <class T>
__device__ __forceinline__ void place(const Request& request, int problem, const double* q,
                                      const BodyPoses<T>& to) {
  if constexpr (checks) {
    double whole[world_coordinates];
    Pose<double> joint[world_joints];
    for (int k = 0; k < world_coordinates; ++k) {
      const int j = request.joint ? request.joint[k] : k;
      whole[k] = j >= 0 ? q[j] : request.still[problem * world_coordinates + k];
    }
    place_bodies(*static_cast<const SharedModel*>(request.world), whole, joint, to);
  }
}

struct OneThread {
  __device__ int index() const { return 0; }
  __device__ int count() const { return 1; }
  __device__ bool any(bool holds) const { return holds; }
  __device__ unsigned ballot(bool holds) const { return holds; }
};

struct Warp {
  __device__ int index() const { return int(threadIdx.x % 32); }
  __device__ int count() const { return 32; }
  __device__ bool any(bool holds) const { return __any_sync(everyone, holds); }
  __device__ unsigned ballot(bool holds) const { return __ballot_sync(everyone, holds); }
};

__device__ const SharedModel& model_of(const Request& request) {
  return *static_cast<const SharedModel*>(request.world);
}

__device__ __noinline__ bool collides_exactly(const Request& request, int problem,
                                              const double* q) {
  double memory[body_count];
  const BodyPoses<double> bodies{memory, 1};
  place(request, problem, q, bodies);
  const SharedPairs<double>& pairs = model_of(request).exact;
  return closeness(pairs, bodies, request.clearance, 0.0, OneThread{}) == Closeness::closer;
}

// Memory of the poses of a thread's bodies. (In local memory, the poses of the threads would evict
// each other from the cache.)
__device__ float* shared_memory() {
  __shared__ float memory[in_shared_memory ? body_count * largest_block : 1];
  return memory;
}

}  // namespace

__device__ bool collides(const Request& request, int problem, const double* q) {
  float own[own_count];
  BodyPoses<float> bodies{own, 1};
  if constexpr (in_shared_memory) bodies = {shared_memory() + threadIdx.x, largest_block};
  place(request, problem, q, bodies);
  const SharedModel& model = model_of(request);
  const Closeness found =
      closeness(model.rough, bodies, float(request.clearance), model.rounding, OneThread{});
  if (found == Closeness::unsure) return collides_exactly(request, problem, q);
  return found == Closeness::closer;
}

__device__ unsigned colliding(const Request& request, int problem, const double* q, bool there,
                              bool all) {
  if constexpr (!in_shared_memory) {
    return __ballot_sync(everyone, there && collides(request, problem, q));
  }
  float* const memory = shared_memory() + threadIdx.x / 32 * 32;
  const int lane = threadIdx.x % 32;
  if (there) place(request, problem, q, BodyPoses<float>{memory + lane, largest_block});
  const SharedModel& model = model_of(request);
  unsigned hits = 0;
  unsigned left = __ballot_sync(everyone, there);
  __syncwarp();
  for (; left; left &= left - 1) {
    const int own = __ffs(left) - 1;
    const BodyPoses<float> bodies{memory + own, largest_block};
    const Closeness found =
        closeness(model.rough, bodies, float(request.clearance), model.rounding, Warp{});
    bool hit = found == Closeness::closer;
    if (found == Closeness::unsure) {
      hit = lane == own && collides_exactly(request, problem, q);
      hit = __any_sync(everyone, hit);
    }
    if (hit) hits |= 1u << own;
    if (!hit && !all) break;
  }
  return hits;
}

}  // namespace supple
