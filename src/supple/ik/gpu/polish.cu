// Polishes a configuration that the search has found; used by search.cu and explore.cu.
#include "problem.hpp"

namespace supple {

__device__ void polish_start(const Request& request, int problem, const SearchReal* q,
                             Company company, Polished& polished) {
  StateMemory<double> own;
  IterateState<double> at = own.state();
  for (int j = 0; j < nq; ++j) own.q[j] = clamped(double(q[j]), j);
  set_target(request, problem, at);
  const bool solved = polish<false>(request, at, company);
  if (company == Company::idle) return;
  polished.solved = solved;
  polished.store(at);
}

}  // namespace supple
