// Builds a `CollisionModel` and owns its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/chain.hpp"
#include "supple/collision/model.hpp"

namespace supple {

// Shapes and pairs as Python gives them; arrays are C-ordered.
struct CollisionSpec {
  int shapes = 0, pairs = 0;
  const int* kind = nullptr;          // (shapes,): ShapeKind
  const int* frame = nullptr;         // (shapes,): frame of the chain, -1 for the world
  const double* pose = nullptr;       // (shapes, 4, 4)
  const double* size = nullptr;       // (shapes, 3)
  const double* radius = nullptr;     // (shapes,)
  const double* vertices = nullptr;   // (first_vertex[shapes], 3)
  const int* first_vertex = nullptr;  // (shapes + 1,)
  const double* speed = nullptr;      // (shapes,)
  const int* pair = nullptr;          // (pairs, 2)
  const double* allowed = nullptr;    // (pairs,): sufficient clearance; null if infinite
};

// Stands for an infinite length [m], such as the radius of a sphere around a half-space.
inline constexpr double unbounded = 1e300;

class OwnedCollisionModel {
 public:
  OwnedCollisionModel(const OwnedChain<double>& chain, const CollisionSpec& spec);

  const CollisionModel<double>& view() const { return view_; }

  // Returns a `SharedModel` and all that it points to, for a copy at an address in other memory.
  // `size` is the largest coordinate of a frame of the robot, and `rounding` bounds the rounding
  // errors of distances [m].
  std::vector<unsigned char> packed(std::uintptr_t address, double size, double rounding) const;

  // Sets the pose (4, 4) of a shape of the world.
  void move(int shape, const double* pose);

 private:
  void add_shapes(const CollisionSpec& spec);
  void add_bodies(const CollisionSpec& spec);
  void add_pairs(const CollisionSpec& spec);
  void add_group(std::vector<int> pairs);
  void bound(Body<double>& body) const;

  OwnedChain<double> chain_;
  std::vector<FixedShape<double>> shapes_;
  std::vector<double> center_;  // (shapes, 3): of the bounding sphere in the given pose
  std::vector<double> vertices_, spheres_, allowed_;
  std::vector<Body<double>> bodies_;
  std::vector<int> order_, shape_of_, result_, pairs_, pair_group_;
  std::vector<PairGroup> groups_;
  std::vector<SphereRun> runs_;
  std::vector<SinglePair> singles_;
  std::vector<JointBetween> between_;
  CollisionModel<double> view_;
};

}  // namespace supple
