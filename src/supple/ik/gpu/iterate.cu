// One iteration of a start, for problems that are too large to be inlined into explore.cu.
#include "problem.hpp"

namespace supple {

// Evaluates the state and takes a step: on return q is the next configuration, but the errors are
// still those of the previous configuration.
__device__ void iterate(IterateState<SearchReal>& at) {
  if constexpr (large) {
    StateMemory<SearchReal> own;
    IterateState<SearchReal> here = own.state();
    for (int j = 0; j < nq; ++j) own.q[j] = at.q[j];
    for (int i = 0; i < numbers; ++i) own.target[i] = at.target[i];
    here.J_before = at.J_before;
    here.before = at.before;
    evaluate(here);
    at.position = here.position;
    at.rotation = here.rotation;
    at.cost = here.cost;
    take_step(here);
    at.before = here.before;
    for (int j = 0; j < nq; ++j) at.q[j] = own.q[j];
  }
}

}  // namespace supple
