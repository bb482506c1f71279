// Computes the closest pose in double precision; used by explore.cu.
#include "problem.hpp"

namespace supple {
namespace {

// Minimizes the error in one thread, or in all threads of a warp (`minimize_error`).
struct Settle {
  const Request& request;
  bool together;

  __device__ void evaluate(IterateState<double>& at) const {
    supple::evaluate(Closest<double>::ik, at);
  }
  __device__ bool converged(const IterateState<double>& at) const {
    return meets_tolerances(request, at);
  }
  __device__ bool minimize(IterateState<double>& at, Minimization<double>& minimum) const {
    return newton_iteration<Closest<double>::ik>(at, minimum, at.cost);
  }
  __device__ bool any(bool holds) const { return together ? __any_sync(everyone, holds) : holds; }
  __device__ bool stopped() const { return false; }
};

}  // namespace

__device__ void settle(const Request& request, int problem, const double* q, float gain_factor,
                       int most, Company company, Polished& polished) {
  constexpr const IkProblem<double>& ik = Closest<double>::ik;
  StateMemory<double> own;
  IterateState<double> at = own.state();
  double work[nq + newton_scratch(nv)];
  for (int j = 0; j < nq; ++j) own.q[j] = clamped(q[j], j);
  set_target(request, problem, at);
  const Minimization<double> minimum = start_minimization(ik, at, work, gain_factor);
  const bool solved = minimize_error(ik, at, minimum, Settle{request, company != Company::none},
                                     most, company == Company::idle);
  if (company == Company::idle) return;
  polished.solved = solved;
  polished.store(at);
}

}  // namespace supple
