// The interface of the kernel that computes distances and certifies motions.
#pragma once

#include "supple/collision/model.hpp"

namespace supple {

// Distances of the pairs of a collision model in double precision. The scratch memory has
// scratch(model) numbers; `prepare` initializes it, and again after a shape has moved.
struct CollisionKernel {
  int (*scratch)(const CollisionModel<double>&);
  void (*prepare)(const CollisionModel<double>&, double* scratch);
  // Whether some pair is closer than `clearance` at q.
  bool (*collides)(const CollisionModel<double>&, const double* q, double clearance,
                   double* scratch);
  // Writes the distances (pairs,), points (pairs, 2, 3) and normals (pairs, 3) of all pairs.
  void (*distances)(const CollisionModel<double>&, const double* q, double* distance,
                    double* points, double* normal, double* scratch);
  // Returns the closest pair, or -1 if there are none, and writes its distance, points and normal.
  int (*closest)(const CollisionModel<double>&, const double* q, double* distance, double* points,
                 double* normal, double* scratch);
};

}  // namespace supple
