// Postprocessing of solutions: 2π wraps, and motion toward a posture or q0. One thread for each
// solution.
#include "problem.hpp"

namespace supple {

extern "C" __global__ void __launch_bounds__(128) postprocess(Request request) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x, problem = row / request.max_solutions;
  if (row >= request.count * request.max_solutions) return;
  const int number = row % request.max_solutions;
  if (request.solutions && number >= request.solutions[problem]) return;
  const Outcome outcome = request.outcome[row];
  if (outcome == Outcome::nonfinite) return;
  if constexpr (checks) {
    double* const before = request.before + row * (nq + 2);
    for (int j = 0; j < nq; ++j) before[j] = request.q[row * nq + j];
    for (int k = 0; k < 2; ++k) before[nq + k] = request.error[2 * row + k];
  }
  StateMemory<double> own;
  IterateState<double> at = own.state();
  for (int j = 0; j < nq; ++j) own.q[j] = request.q[row * nq + j];
  set_target(request, problem, at);
  evaluate<large>(at);
  unwind(request, problem, at);
  // A solution that was found from q0 itself is final. One that was chosen among several is moved
  // nearer to q0 if possible.
  const bool chosen = request.nearest && !Posture::has_posture && request.effort[2 * row + 1] > 0;
  if (outcome == Outcome::solved && (chosen || Posture::has_posture)) {
    double work[nq + 4 * nv], kept[nq];
    for (int j = 0; j < nq; ++j) kept[j] = own.q[j];
    const auto toward = [&](int j) {
      return Posture::has_posture ? posture(request, problem, j) : own_start(request, problem, j);
    };
    const auto weight = [](int j) {
      return Posture::has_posture ? Posture::posture_weight[j]
                                  : 1 / square(joint_unit(RobotConstants<double>::ik, j));
    };
    approach_posture_with_wraps(
        RobotConstants<double>::ik, at, work, toward, weight, [] { return true; },
        [&] { return polish<true>(request, at); }, [&] { return unwind(request, problem, at); });
    if (chosen && !(displacement_from_start(request, problem, own.q) <
                    displacement_from_start(request, problem, kept))) {
      for (int j = 0; j < nq; ++j) own.q[j] = kept[j];
      evaluate<large>(at);
    }
  }
  for (int j = 0; j < nq; ++j) request.q[row * nq + j] = own.q[j];
  request.error[2 * row] = at.position;
  request.error[2 * row + 1] = at.rotation;
}

}  // namespace supple
