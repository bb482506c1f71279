// Solutions made to postprocess what is wished: joints turned back by whole turns, and drawn
// towards a posture, or towards the caller's start. A thread for each record_first, after it was
// found.
#include "problem.hpp"

namespace supple {

extern "C" __global__ void __launch_bounds__(128) postprocess(Request request) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x, problem = row / request.max_solutions;
  if (row >= request.count * request.max_solutions) return;
  const int number = row % request.max_solutions;
  if (request.solutions && number >= request.solutions[problem]) return;
  const Outcome outcome = Outcome(request.outcome[row]);
  if (outcome == Outcome::nonfinite) return;
  StateMemory<double> own;
  IterateState<double> at = own.state();
  for (int j = 0; j < n; ++j) own.q[j] = request.q[row * n + j];
  aim(request, problem, at);
  evaluate<large>(at);
  unwind(request, problem, at);
  // (what is near q0 at once is the record_first; of others the nearest is drawn nearer, if that
  // helps)
  const bool chosen = request.nearest && !Posture::posture && request.effort[2 * row + 1] > 0;
  if (outcome == Outcome::solved && (chosen || Posture::posture)) {
    double work[5 * n], kept[n];
    for (int j = 0; j < n; ++j) kept[j] = own.q[j];
    const auto rest = [&](int j) {
      return Posture::posture ? posture(request, problem, j) : own_start(request, problem, j);
    };
    const auto weight = [](int j) { return Posture::posture ? Posture::pull[j] : 1.0; };
    for (int round = 0; round < posture_rounds; ++round) {
      approach_posture(
          RobotConstants<double>::ik, at, work, rest, weight, [] { return true; },
          [&] { return polish<true>(request, at); });
      // (each joint for itself: all together came nearer)
      if (!unwind(request, problem, at)) break;
    }
    if (chosen &&
        !(distance_from_q0(request, problem, own.q) < distance_from_q0(request, problem, kept))) {
      for (int j = 0; j < n; ++j) own.q[j] = kept[j];
      evaluate<large>(at);
    }
  }
  for (int j = 0; j < n; ++j) request.q[row * n + j] = own.q[j];
  request.error[2 * row] = at.position;
  request.error[2 * row + 1] = at.rotation;
}

}  // namespace supple
