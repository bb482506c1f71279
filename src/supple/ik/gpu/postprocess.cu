// Postprocessing of solutions: 2π wraps, and motion toward a posture or q0, with one thread for
// each solution. Then removes solutions that have become equal to others.
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

// Removes solutions of a problem that equal an earlier one; the others move up. One warp for each
// problem.
extern "C" __global__ void __launch_bounds__(128) drop(Request request) {
  const int problem = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (problem >= request.count) return;
  const long long first = static_cast<long long>(problem) * request.max_solutions;
  const int found = request.solutions[problem];
  int kept = 0;
  for (long long i = first; i < first + found; ++i) {
    bool known = false;
    for (long long k = first + lane; k < first + kept; k += 32) {
      known |= is_same_solution(RobotConstants<double>::ik, Posture::wrap, request.q + k * nq,
                                request.q + i * nq);
    }
    if (__any_sync(everyone, known)) continue;
    const long long to = first + kept++;
    if (lane == 0 && to < i) {
      for (int j = 0; j < nq; ++j) request.q[to * nq + j] = request.q[i * nq + j];
      for (int k = 0; k < 2; ++k) {
        request.error[2 * to + k] = request.error[2 * i + k];
        request.effort[2 * to + k] = request.effort[2 * i + k];
      }
      request.outcome[to] = request.outcome[i];
    }
    __syncwarp();
  }
  if (lane == 0) request.solutions[problem] = kept;
}

}  // namespace supple
