// Computes the closest pose in double precision; used by explore.cu.
#include "problem.hpp"

namespace supple {
namespace {

// Minimizes the error in one thread (`minimize_error`).
struct SettleInThread {
  const Request& request;

  __device__ void evaluate(IterateState<double>& at) const {
    supple::evaluate(Closest<double>::ik, at);
  }
  __device__ bool converged(const IterateState<double>& at) const {
    return meets_tolerances(request, at);
  }
  __device__ bool minimize(IterateState<double>& at, Minimization<double>& minimum) const {
    return newton_iteration<Closest<double>::ik>(at, minimum, at.cost);
  }
  __device__ bool stopped() const { return false; }
};

}  // namespace

// Minimizes the error, starting from q, with the weights of `Closest` that define the closest pose.
__device__ void settle(const Request& request, int problem, const double* q, float gain_factor,
                       Polished& polished) {
  constexpr const IkProblem<double>& ik = Closest<double>::ik;
  StateMemory<double> own;
  IterateState<double> at = own.state();
  double work[nq + newton_scratch(nv)];
  for (int j = 0; j < nq; ++j) own.q[j] = clamped(q[j], j);
  set_target(request, problem, at);
  const Minimization<double> minimum = start_minimization(ik, at, work, gain_factor);
  polished.solved = minimize_error(ik, at, minimum, SettleInThread{request});
  polished.store(at);
}

}  // namespace supple
