// Decides whether a configuration collides; used by explore.cu, reject.cu and branches.cu.
#include "supple/collision/shared.hpp"
//
#include "problem.hpp"

namespace supple {
namespace {

constexpr int body_count = checks ? BodyPoses<float>::body_numbers * world_bodies : 1;
// Whether the poses of all threads of a block are in shared memory. (In local memory they would
// displace each other from the cache.)
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

__device__ __noinline__ bool collides_exactly(const Request& request, int problem,
                                              const double* q) {
  double memory[body_count];
  const BodyPoses<double> bodies{memory, 1};
  place(request, problem, q, bodies);
  const SharedModel& model = *static_cast<const SharedModel*>(request.world);
  return closeness(model.exact, bodies, request.clearance, 0.0) == Closeness::closer;
}

}  // namespace

__device__ bool collides(const Request& request, int problem, const double* q) {
  __shared__ float shared[in_shared_memory ? body_count * largest_block : 1];
  float own[own_count];
  BodyPoses<float> bodies{own, 1};
  if constexpr (in_shared_memory) bodies = {shared + threadIdx.x, largest_block};
  place(request, problem, q, bodies);
  const SharedModel& model = *static_cast<const SharedModel*>(request.world);
  const Closeness found = closeness(model.rough, bodies, float(request.clearance), model.rounding);
  if (found == Closeness::unsure) return collides_exactly(request, problem, q);
  return found == Closeness::closer;
}

}  // namespace supple
