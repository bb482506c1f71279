// The shapes of a robot and its world, and the pairs to check, in the form that the kernel reads.
//
// Shapes that one frame moves form a body; each shape of the world is a body of its own. Pairs are
// grouped by their two bodies, whose bounding spheres are compared first. Within a group, spheres
// are compared in runs: consecutive spheres of one body with the same other shape, on lanes. The
// same clearance suffices for all pairs of a group.
#pragma once

#include "supple/robot/chain.hpp"

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

enum class ShapeKind : int { sphere, capsule, box, cylinder, half_space, hull };

// Vertices of a hull are stored in blocks: x, then y, then z of each vertex. The last block is
// filled up with copies of a vertex.
inline constexpr int vertex_block = 8;

// A shape as it is fixed to its frame. See `Shape` in shape.hpp.
template <class T>
struct FixedShape {
  ShapeKind kind;
  T radius;
  T half[3];
  int vertices;
  const T* vertex;   // (blocks, 3, vertex_block)
  T bound;           // [m]: radius of a sphere around the position that contains the shape
  T rotation[9];     // columns x, y, z, in the frame
  T position[3];     // [m] in the frame
  T speed;           // [m/s]: bound of the speed of a shape in the world
  int body, sphere;  // index of its body; index among all spheres of moving bodies, or -1
};

template <class T>
struct Body {
  int frame;       // index of the chain's frame, -1 for a shape of the world
  T center[3];     // [m], of the bounding sphere in the frame
  T bound;         // [m], its radius
  int spheres[2];  // range of its spheres
  int shapes[2];   // range of its shapes in `CollisionModel::order`
};

// Spheres [begin, end) against one other shape. Sphere begin + i belongs to the pair
// `CollisionModel::result`[result + i].
struct SphereRun {
  int begin, end, other, result;  // `result`: index of the first entry in `CollisionModel::result`
  bool second;                    // whether the spheres are the second shapes of their pairs
};

// A pair that is not part of a run.
struct SinglePair {
  int first, second, pair;
};

// All pairs of shapes of two bodies. The first body moves.
struct PairGroup {
  int first, second;
  int runs[2], singles[2];  // ranges
  int joints[2];            // range in `CollisionModel::between`
};

// A joint between two bodies: it moves one of them relative to the other.
struct JointBetween {
  int joint;
  int sign;  // 1 if it moves the first body, -1 if it moves the second
};

template <class T>
struct CollisionModel {
  Chain<T> chain;
  int shapes, spheres, bodies, moving;  // the first `moving` bodies are not of the world
  int groups, pairs;
  const FixedShape<T>* shape;
  const Body<T>* body;
  const int* order;     // (shapes,): shapes in the order of their bodies
  const int* shape_of;  // (spheres,): the shape of each sphere
  const T* sphere;      // (4, spheres + padding): x, y, z in the frame [m] and radius [m]
  int sphere_stride;    // spheres + padding
  const PairGroup* group;
  const SphereRun* run;
  const SinglePair* single;
  const int* result;            // indices of pairs
  const JointBetween* between;  // ordered from the second body to the first
  const int* pair;              // (pairs, 2): shapes of each pair
  const int* pair_group;        // (pairs,): group of each pair
  const T* allowed;             // (groups,) [m]: clearance that suffices for the pairs of a group
};

}  // namespace supple
