// Chains that own their memory, made of plain lists of numbers.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "supple/robot.hpp"

namespace supple {

namespace nb = nanobind;

// A chain in one precision, owning its memory.
template <class T>
struct OwnedChain {
  std::vector<Joint<T>> joints;
  std::vector<Frame<T>> frames;
  std::vector<Support> support;
  int coordinates = 0;
  bool mimics = false, phases = false, lengths = false;

  Chain<T> view() const {
    return {coordinates, int(joints.size()), int(frames.size()), mimics,        phases,
            lengths,     joints.data(),      frames.data(),      support.data()};
  }
};

using Doubles = std::vector<double>;
using Ints = std::vector<int>;

template <class T>
OwnedChain<T> build(int coordinates, const Ints& parent, const Ints& motion, const Ints& placement,
                    const Ints& coordinate, const Doubles& scale, const Doubles& offset,
                    const Doubles& phase, const Doubles& rotation, const Doubles& position,
                    const Ints& frame_joint, const Doubles& frame_rotation,
                    const Doubles& frame_position) {
  OwnedChain<T> chain;
  chain.coordinates = coordinates;
  const int count = int(parent.size());
  const auto copy = [](const Doubles& from, std::size_t at, int n, T* to) {
    for (int i = 0; i < n; ++i) to[i] = T(from.at(at + i));
  };
  Ints uses(coordinates, 0);
  for (int j = 0; j < count; ++j) {
    Joint<T> joint{parent.at(j),
                   Motion(motion.at(j)),
                   Placement(placement.at(j)),
                   coordinate.at(j),
                   false,
                   T(scale.at(j)),
                   T(offset.at(j)),
                   {},
                   {},
                   {}};
    const bool root = joint.placement == Placement::root;
    if (joint.parent >= j || joint.parent < -1 || root != (joint.parent == -1)) {
      throw nb::value_error("a chain's joints come after their parents");
    }
    copy(phase, 2 * std::size_t(j), 2, joint.phase);
    chain.phases |= joint.phase[0] != T(1) || joint.phase[1] != T(0);
    copy(rotation, 9 * std::size_t(j), 9, joint.rotation);
    copy(position, 3 * std::size_t(j), 3, joint.position);
    chain.mimics |= ++uses.at(joint.coordinate) > 1;
    chain.lengths |=
        joint.motion == Motion::prismatic || joint.scale != T(1) || joint.offset != T(0);
    if (joint.parent >= 0 && joint.parent != j - 1) chain.joints[joint.parent].branches = true;
    chain.joints.push_back(joint);
  }
  for (std::size_t f = 0; f < frame_joint.size(); ++f) {
    Frame<T> frame{frame_joint[f], int(chain.support.size()), 0, {}, {}};
    if (frame.joint >= count) throw nb::value_error("a frame sits on a joint that is not there");
    if (frame.joint >= 0) chain.joints[frame.joint].branches = true;
    Ints path;
    for (int j = frame.joint; j >= 0; j = parent[j]) path.push_back(j);
    std::vector<bool> seen(coordinates, false);
    for (auto j = path.rbegin(); j != path.rend(); ++j) {
      const int c = coordinate[*j];
      chain.support.push_back({*j, !seen[c]});
      seen[c] = true;
    }
    frame.support_end = int(chain.support.size());
    copy(frame_rotation, 9 * f, 9, frame.rotation);
    copy(frame_position, 3 * f, 3, frame.position);
    chain.frames.push_back(frame);
  }
  return chain;
}

}  // namespace supple
