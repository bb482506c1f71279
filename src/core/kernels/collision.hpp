// The interface of the kernel that computes distances and certifies motions.
#pragma once

#include "supple/collision/curve.hpp"
#include "supple/servo/guard.hpp"

namespace supple {

// Distances of the pairs of a collision model in double precision. The scratch memory has
// scratch(model) numbers; `prepare` initializes it, and must be called again after a shape has
// moved.
struct CollisionKernel {
  int (*scratch)(const CollisionModel<double>&);
  void (*prepare)(const CollisionModel<double>&, double* scratch);
  // Whether some pair is closer at q than the smaller of `clearance` and the clearance that the
  // pair is allowed.
  bool (*collides)(const CollisionModel<double>&, const double* q, double clearance,
                   double* scratch);
  // Writes which pairs (pairs,) are closer than a distance at q.
  void (*closer)(const CollisionModel<double>&, const double* q, double distance, bool* closer,
                 double* scratch);
  // Writes the distances (pairs,), points (pairs, 2, 3) and normals (pairs, 3) of all pairs.
  void (*distances)(const CollisionModel<double>&, const double* q, double* distance,
                    double* points, double* normal, double* scratch);
  // Returns the closest pair, or -1 if there are no pairs, and writes its points, normal and
  // distance. If a clearance below `clearance` suffices for a pair, the difference is added to its
  // distance.
  int (*closest)(const CollisionModel<double>&, const double* q, double clearance, double* distance,
                 double* points, double* normal, double* scratch);
  // A control loop that keeps its distance from obstacles (servo/guard.hpp). The memory of such a
  // loop has guard_scratch(model) numbers; `guard_prepare` initializes it, and must be called again
  // after a shape has moved.
  int (*guard_scratch)(const CollisionModel<double>&);
  void (*guard_prepare)(const CollisionModel<double>&, double* memory);
  int (*guard_rows)(const CollisionModel<double>&, Guard<double>&, const double* q, const double* v,
                    double* G, double* h, int* pairs, bool& inside);
  GuardedStep (*guard_step)(const CollisionModel<double>&, Guard<double>&, const double* q,
                            const double* v, const double* change, double* x);
  // A bound of the distances along a curve (collision/curve.hpp), with curve_scratch(model) numbers
  // of memory, which need no preparation.
  int (*curve_scratch)(const CollisionModel<double>&);
  CurveBound<double> (*curve_bound)(const CollisionModel<double>&, const JointCurve<double>&,
                                    const CurveDemand<double>&, double* memory);
  // The cost of pairs that are closer than a distance at q, and its gradient (n,), with as much
  // memory as `curve_bound`.
  double (*cost)(const CollisionModel<double>&, const double* q, double distance, double* gradient,
                 double* memory);
};

}  // namespace supple
