// Finds local minima of the cost near failed starts, in the search's precision; used by explore.cu.
#include "problem.hpp"

namespace supple {
namespace {

// One failed start q (nq,) in one thread (`converge_to_minima`).
struct FailureInThread {
  const Request& request;
  SearchReal* q;
  float& cost;
  bool loaded = false;

  __device__ void evaluate(IterateState<SearchReal>& at) const {
    supple::evaluate(RobotConstants<SearchReal>::ik, at);
  }
  __device__ bool converged(const IterateState<SearchReal>& at) const {
    return search_converged(request, at);
  }
  __device__ bool minimize(IterateState<SearchReal>& at, Minimization<SearchReal>& minimum) const {
    return newton_iteration<RobotConstants<SearchReal>::ik>(at, minimum, at.cost);
  }
  __device__ bool stopped() const { return false; }
  __device__ bool load(int) {
    const bool first = !loaded;
    loaded = true;
    return first;
  }
  // The threads of a warp wait for the slowest one, so that abandoning one start saves no time.
  __device__ bool is_hopeless(int, float) const { return false; }
  __device__ void keep(int, const Minimization<SearchReal>& minimum) {
    for (int j = 0; j < nq; ++j) q[j] = minimum.q[j];
    cost = float(minimum.value);
  }
};

}  // namespace

// Minimizes the cost, starting from a failed start q (nq,). Returns whether an iterate met the
// target; `cost` receives the smallest cost.
__device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                    float& cost) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  SearchReal work[nq + newton_scratch(nv)];
  for (int j = 0; j < nq; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i) {
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  }
  FailureInThread on{request, q, cost};
  return converge_to_minima(ik, at, start_minimization(ik, at, work), on);
}

}  // namespace supple
