// Decides whether a configuration collides; used by explore.cu, reject.cu and branches.cu.
#include "supple/collision/shared.hpp"
//
#include "problem.hpp"

namespace supple {

__device__ bool collides(const Request& request, int problem, const double* q) {
  if constexpr (checks) {
    const SharedModel& model = *static_cast<const SharedModel*>(request.world);
    double whole[world_coordinates];
    Pose<double> joint[world_joints];
    PlacedBody<double> bodies[world_bodies];
    PlacedBody<float> rough[world_bodies];
    for (int k = 0; k < world_coordinates; ++k) {
      const int j = request.joint ? request.joint[k] : k;
      whole[k] = j >= 0 ? q[j] : request.still[problem * world_coordinates + k];
    }
    place_bodies(model.exact, whole, joint, bodies);
    return collides(model, bodies, rough, request.clearance);
  }
  return false;
}

}  // namespace supple
