// What the kinematics of a chain cost, and an iteration of a search.
#pragma once

#include "supple/ik/iterate.hpp"

namespace supple {

struct Operations {
  long multiplications = 0, additions = 0;
  long others = 0;  // quotients, roots, sines and cosines, arc tangents
  long depth = 0;   // of operations that wait for each other, the longest row
};

// Of the poses and Jacobians of all frames of a chain, in world axes; sines and cosines aside.
Operations operations(const Chain<double>& chain);

// Of one iteration of a descent by the usual damping: `measure` and `descend`.
Operations operations(const IkProblem<double>& ik);

}  // namespace supple
