// All solutions of a pose of a 6-joint arm of any geometry: candidates from eigenvalues, polished
// and verified as those in closed form. Tuned constants are explained in docs/constants.md.
#pragma once

#include <utility>
#include <vector>

#include "drivers/branches.hpp"
#include "drivers/general.hpp"

namespace supple {

// Error of a candidate [rad] up to which it may be outside the joint limits.
inline constexpr double candidate_error = 1e-4;

// An arm of any geometry that is part of a robot.
struct GeneralArmOfRobot {
  std::vector<GeneralArm> numberings;  // best first
  int coordinate[6];                   // index in q of each joint of the arm
};

// Solves targets of an arm one by one, with memory that is reused.
class GeneralSolver {
 public:
  using Arm = GeneralArmOfRobot;

  GeneralSolver(Arm arm, const IkProblem<double>& ik, const BranchOptions& options)
      : arm_(std::move(arm)), polisher_(ik, arm_.coordinate, 0, options, candidate_error) {}

  // Appends the solutions of a target, given by its twelve numbers, to `to`. The target is solved
  // with one numbering after the other, and with all zeros of half-angle tangents, until its
  // solutions are complete.
  void solve(const double* target, const double* q0, Branches& to) {
    polisher_.begin(target, q0, to);
    bool certain = false;
    for (const GeneralArm& arm : arm_.numberings) {
      for (int i = 0; i < general_zero_sets && !certain; ++i) {
        certain = arm.candidates(target, general_zeros[i],
                                 [&](const Turn<double>* turn) { polisher_.offer(turn, {}); });
      }
    }
    polisher_.end(q0);
    to.certain.back() = certain;
  }

 private:
  const Arm arm_;
  BranchPolisher polisher_;
};

}  // namespace supple
