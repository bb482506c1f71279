// Computes the closest pose in double precision; used by explore.cu.
#include "problem.hpp"

namespace supple {

// Minimizes the error, starting from q, with the weights of `Closest` that define the closest pose.
__device__ void settle(const Request& request, int problem, const double* q, float gain_factor,
                       Polished& polished) {
  constexpr const IkProblem<double>& ik = Closest<double>::ik;
  StateMemory<double> own;
  IterateState<double> at = own.state();
  double work[nq + newton_scratch(nv)];
  for (int j = 0; j < nq; ++j) own.q[j] = clamped(q[j], j);
  set_target(request, problem, at);
  Minimization<double> minimum = start_minimization(ik, at, work, gain_factor);
  bool done = false;
  for (int i = 1;; ++i) {
    evaluate(ik, at);
    polished.solved = converged(request, at);
    if (polished.solved || done) break;
    done = minimize<ik>(at, minimum, at.cost) || i == iteration_factor * polish_newton_iterations;
    for (int j = 0; done && j < nq; ++j) own.q[j] = minimum.q[j];
  }
  polished.store(at);
}

}  // namespace supple
