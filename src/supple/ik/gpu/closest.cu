// Finds local minima of the cost near failed starts, in the search's precision; used by explore.cu.
#include "problem.hpp"

namespace supple {

// Minimizes the cost, starting from a failed start q (n,). If `along` (rows,), with the squared
// norm `length`, is not null, moves the frames as far along that direction as possible instead (see
// supple/ik/reachability.hpp). Returns whether an iterate met the target; `value` receives the
// smallest value of the objective.
__device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                    const SearchReal* along, SearchReal length, float& value) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  SearchReal work[n + newton_scratch(n)];
  for (int j = 0; j < n; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i) {
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  }
  Minimization<SearchReal> minimum = start_minimization(ik, at, work);
  const int iterations = iteration_factor * (along ? climb_iterations : search_newton_iterations);
  bool met = false;
  for (int i = 0; i < iterations && !met; ++i) {
    evaluate(at);
    met = search_converged(request, at);
    const SearchReal now = along ? error_along(ik, at, along, length) : at.cost;
    if (minimize<ik>(at, minimum, now, along != nullptr)) break;
  }
  for (int j = 0; j < n; ++j) q[j] = minimum.q[j];
  value = float(minimum.value);
  return met;
}

// Returns the minimum of e·e(q) near this thread's share of the corners of the joint ranges.
__device__ float least_at_corners(const Request& request, int problem, int starts,
                                  const SearchReal* along, SearchReal length) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  for (int i = 0; i < numbers; ++i) {
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  }
  SearchReal least = huge_cost;
  for (int corner = threadIdx.x % 32; corner < verdict_corners; corner += 32) {
    for (int j = 0; j < n; ++j) {
      own.q[j] = SearchReal(clamped(corner_seed(request.entries, starts, corner, j), j));
    }
    least = min(least, descend_corner(ik, at, along, length));
  }
  return float(least);
}

}  // namespace supple
