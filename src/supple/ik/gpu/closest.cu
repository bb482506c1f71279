// Where starts come to rest that have failed, in the numbers of the search: for explore.cu.
#include "problem.hpp"

namespace supple {

// From where a start has failed towards where it comes to rest; with `along` (rows,), whose square
// is `length`, as far along that as it gets: see ik/reachability.hpp. Returns whether it arrived on
// the way; `value` is what has become least.
__device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                    const SearchReal* along, SearchReal length, float& value) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  Start<SearchReal> own;
  IterateState<SearchReal> at = own.descent();
  SearchReal work[n + settle_work(n)];
  for (int j = 0; j < n; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i)
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  Rest<SearchReal> rest = rest_from(ik, at, work);
  const int iterations = pace * (along ? climb_iterations : rest_iterations);
  bool arrived = false;
  for (int i = 0; i < iterations && !arrived; ++i) {
    measure(at);
    arrived = there_roughly(request, at);
    const SearchReal now = along ? remains(ik, at, along, length) : at.cost;
    if (approach<ik>(at, rest, now, along != nullptr)) break;
  }
  for (int j = 0; j < n; ++j) q[j] = rest.q[j];
  value = float(rest.value);
  return arrived;
}

}  // namespace supple
