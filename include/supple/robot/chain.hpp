// The robot in the form that the kernel reads: a kinematic tree in flat arrays of plain data.
//
// A `Chain` is the part of a robot that moves a chosen set of frames: its joints, parents first,
// and the frames. Fixed joints are merged into the constant poses between the other joints. Every
// joint rotates about, or slides along, the z axis of its own frame. The rotation of that frame
// about z is chosen so that the constant rotation between most joints is a rotation about x alone
// (see docs/kernel.md).
//
// A ball joint is three joints in a row at one point, about the axes x, y and z of the body that it
// carries. The three coordinates of a ball joint are a rotation vector; its velocities are the
// angular velocity in the body's axes. Configurations outside the kernel have a unit quaternion
// instead of the rotation vector (src/core/bindings/configurations.hpp). A free joint is three
// prismatic joints and a ball joint.
#pragma once

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

// The axes in which a twist is expressed: those of the world, of the frame itself, or of a frame of
// the chain given by its index. Spatial coordinates have world axes, and v is the velocity of the
// point of the frame's body that is at the world's origin.
inline constexpr int axes_world = -1;
inline constexpr int axes_body = -2;
inline constexpr int axes_spatial = -3;

enum class Motion : int {
  revolute,
  prismatic,
  ball,       // the first of the three joints of a ball joint
  ball_axis,  // the second and the third
};

// How the constant rotation from the parent's frame to the joint's frame is stored.
enum class Placement : int {
  root,     // the parent is the world: `rotation` and `position` are the joint's pose itself
  twist,    // a rotation about x, by an angle with cosine rotation[0] and sine rotation[1]
  general,  // a full matrix
};

// A joint: T_parent_joint(q) = (rotation, position) · (motion about or along z). The displacement
// is scale * q[q_index] + offset; a revolute joint is rotated further by the constant angle
// `phase`.
template <class T>
struct Joint {
  int parent;  // index of the parent joint in the chain, -1 for the world
  Motion motion;
  Placement placement;
  int q_index;  // index of its position in a configuration
  int v_index;  // index of its speed in a velocity
  // Whether a frame, or a joint other than the next one, is attached to this joint: its full pose
  // is then stored.
  bool branches;
  T scale, offset;  // offset in [rad] or [m]; scale is 1 unless the joint mimics another
  T phase[2];       // cosine and sine; as part of the displacement, the angle would be rounded
  T rotation[9];    // columns x, y, z; for Placement::twist only a cosine and a sine
  T position[3];    // [m] in the parent's frame
};

// A frame fixed to a joint (or to the world, joint = -1) at a constant pose.
template <class T>
struct Frame {
  int joint;
  int support_begin, support_end;  // range in `Chain::support`: the joints that move the frame
  T rotation[9];                   // columns x, y, z, in the joint's frame
  T position[3];                   // [m] in the joint's frame
};

// A joint that moves a frame. `first` is false if an earlier joint that moves the frame has the
// same coordinate (a mimic joint).
struct Support {
  int joint;
  bool first;
};

template <class T>
struct Chain {
  // Lengths of a configuration q and of a velocity q̇ in the kernel (configuration.hpp), which are
  // equal.
  int nq, nv;
  int joints, frames;
  int balls;    // number of ball joints of the robot, in the chain or not
  bool mimics;  // whether some coordinate moves several joints of the chain
  bool phases;  // whether some joint has a phase other than zero
  // Whether displacements must be checked for overflow: some joint is prismatic, or has a scale or
  // offset.
  bool lengths;
  const Joint<T>* joint;
  const Frame<T>* frame;
  const Support* support;
  const int* ball;  // index of the first coordinate of each ball joint
};

}  // namespace supple
