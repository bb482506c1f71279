// What a search has found, in double: for search.cu and explore.cu.
#include "problem.hpp"

namespace supple {

__device__ void finished(const Request& request, int problem, const SearchReal* q, Fine& fine) {
  Start<double> own;
  IterateState<double> at = own.descent();
  for (int j = 0; j < n; ++j) own.q[j] = clamped(double(q[j]), j);
  aim(request, problem, at);
  fine.solved = arrive<false>(request, at);
  fine.keep(at);
}

}  // namespace supple
