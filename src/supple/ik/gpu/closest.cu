// Finds local minima of the cost near failed starts, in the search's precision; used by explore.cu.
#include "problem.hpp"

namespace supple {

// Minimizes the cost, starting from a failed start q (nq,). Returns whether an iterate met the
// target; `value` receives the smallest cost.
__device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                    float& value) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  SearchReal work[nq + newton_scratch(nv)];
  for (int j = 0; j < nq; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i) {
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  }
  Minimization<SearchReal> minimum = start_minimization(ik, at, work);
  const int iterations = iteration_factor * search_newton_iterations;
  bool met = false;
  for (int i = 0; i < iterations && !met; ++i) {
    evaluate(at);
    met = search_converged(request, at);
    if (minimize<ik>(at, minimum, at.cost)) break;
  }
  for (int j = 0; j < nq; ++j) q[j] = minimum.q[j];
  value = float(minimum.value);
  return met;
}

}  // namespace supple
