// What the kinematics of a chain cost.
#pragma once

#include "supple/robot.hpp"

namespace supple {

struct Operations {
  long multiplications = 0, additions = 0;
};

// Of the poses and Jacobians of all frames of a chain, in world axes; sines and cosines aside.
Operations operations(const Chain<double>& chain);

}  // namespace supple
