// The robot as the kernel sees it: a flat kinematic tree in plain data.
//
// A `Chain` is the part of a robot that moves a chosen set of frames: its joints, parents first,
// and the frames. Fixed joints are folded into the constants. Every joint rotates about, or slides
// along, the z axis of its own frame; the frames are rotated about that axis so that the constant
// rotation between most joints is a single twist about x (see docs/kernel.md).
#pragma once

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

enum class Motion : int { revolute, prismatic };

// The storage of the constant rotation from the parent's frame to the joint's frame.
enum class Placement : int {
  root,     // the parent is the world: `rotation` and `position` are the joint's pose itself
  twist,    // about x by an angle with cosine rotation[0] and sine rotation[1]
  general,  // a full matrix
};

// A joint: T_parent_joint(q) = (rotation, position) · motion about or along z by the displacement
// scale * q[coordinate] + offset. A revolute joint is also rotated about z by the phase.
template <class T>
struct Joint {
  int parent;  // index of the parent joint in the chain, -1 for the world
  Motion motion;
  Placement placement;
  int coordinate;  // index into q
  // Whether a frame, or a joint that is not the next one, is attached: the full pose is then kept.
  bool branches;
  T scale, offset;  // [rad] or [m]; scale is 1 unless the joint mimics another
  T phase[2];       // its cosine and sine: adding the angle to the offset would round large angles
  T rotation[9];    // columns x, y, z; or the cosine and sine of a twist
  T position[3];    // [m] in the parent's frame
};

// A frame fixed to a joint (or to the world, joint = -1) at a constant pose.
template <class T>
struct Frame {
  int joint;
  int support_begin, support_end;  // range of its joints in `Chain::support`, root first
  T rotation[9];                   // columns x, y, z, in the joint's frame
  T position[3];                   // [m] in the joint's frame
};

// A joint that moves a frame. `first` is false if an earlier joint of the frame has the same
// coordinate.
struct Support {
  int joint;
  bool first;
};

template <class T>
struct Chain {
  int coordinates;  // length of q
  int joints, frames;
  bool mimics;   // whether some coordinate moves several joints of the chain
  bool phases;   // whether some joint has a phase other than zero
  bool lengths;  // whether a displacement may be out of bounds: some joint is prismatic or a mimic
  const Joint<T>* joint;
  const Frame<T>* frame;
  const Support* support;
};

}  // namespace supple
