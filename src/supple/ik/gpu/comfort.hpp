// The cost of a configuration by which comfortable solutions are preferred (preference.py).
#pragma once

#include "problem.hpp"

namespace supple {
namespace {

// The mean squared distance of the joints from the middle of their comfortable ranges.
__device__ double discomfort(const double* q) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  double sum = 0;
  int count = 0;
  for (int j = 0; j < nv; ++j) {
    const bool limited = ik.lower[j] > -Number<double>::huge || ik.upper[j] < Number<double>::huge;
    if (!limited || !(ik.seed_range[j] > 0)) continue;
    const double away = 2 * coordinate_difference(q[j], ik.seed_lower[j]) - ik.seed_range[j];
    sum += square(away / ik.seed_range[j]);
    ++count;
  }
  return count ? sum / count : 0;
}

}  // namespace
}  // namespace supple
