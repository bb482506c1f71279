// Operation counts of the kinematics of a chain, and of one iteration of position inverse
// kinematics.
#pragma once

#include "supple/ik/iterate.hpp"

namespace supple {

struct Operations {
  long multiplications = 0, additions = 0;
  long others = 0;  // divisions, square roots, sines and cosines, arc tangents
  long depth = 0;   // length of the longest chain of dependent operations
};

// Counts the operations for the poses and Jacobians of all frames of a chain, in world axes,
// without sines and cosines.
Operations operations(const Chain<double>& chain);

// Counts the operations of one iteration, `evaluate` and `descend`, with the default damping.
Operations operations(const IkProblem<double>& ik);

}  // namespace supple
