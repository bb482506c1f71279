// How a solution is differentiated.
#pragma once

// No inline namespace: plain data has the same layout on every instruction set.
namespace supple {

struct SolutionRule {
  bool positions;               // whether the targets are positions, not poses
  double damping;               // λ as a fraction of the norm of the scaled Jacobian
  double slack;                 // distance from a limit up to which a joint is fixed [rad or m]
  const double *lower, *upper;  // (n,): joint limits
  // (n,): the solution moves as little as possible in the coordinates q / joint_scale, as in
  // `IkProblem`; null if all are 1.
  const double* joint_scale;
};

}  // namespace supple
