// The interface of the adjoints: gradients of a loss through kinematics, solutions and steps.
#pragma once

#include <cstddef>

#include "supple/ik/solution_rule.hpp"
#include "supple/robot/chain.hpp"

namespace supple {

// All arrays are C-ordered, for `count` configurations q (count, n) and the first `frames` frames
// of a chain. x_bar is the gradient of a loss with respect to x. Poses, twists and Jacobians are in
// world axes.

// Gradients with respect to q, from those with respect to poses or Jacobians; null if not given.
struct KinematicsAdjoint {
  std::ptrdiff_t count;
  int frames;
  const double* q;
  const double* poses_bar;     // (count, frames, 4, 4)
  const double* jacobian_bar;  // (count, frames, 6, n)
  double* q_bar;               // (count, n)
};

// Gradients with respect to the targets and seeds of solutions q.
struct SolutionAdjoint {
  std::ptrdiff_t count;
  int frames;
  SolutionRule rule;
  const double* q;               // (count, n)
  const unsigned char* success;  // (count,): whether q meets its target; otherwise gradients are 0
  const double* q_bar;           // (count, n)
  double* targets_bar;           // (count, frames, 4, 4)
  double* q0_bar;                // (count, n)
};

// The damped step for twists x (count, frames, 6) and, with `qd_bar`, its adjoint.
struct StepAdjoint {
  std::ptrdiff_t count;
  int frames;
  double lambda2;
  const double *q, *x;
  const double* qd_bar;  // (count, n); null for the step itself
  double* qd;            // (count, n): result if qd_bar is null
  double *q_bar, *x_bar;
};

// Bytes of scratch memory, and a loop over rows begin to end - 1 that returns the index of the
// first row with a configuration out of bounds, or -1.
template <class Request>
struct AdjointLoop {
  std::size_t (*scratch)(const Chain<double>&, const Request&);
  std::ptrdiff_t (*run)(const Chain<double>&, const Request&, std::ptrdiff_t begin,
                        std::ptrdiff_t end, void* scratch);
};

struct AdjointKernel {
  AdjointLoop<KinematicsAdjoint> kinematics;
  AdjointLoop<SolutionAdjoint> solution;
  AdjointLoop<StepAdjoint> step;
};

}  // namespace supple
