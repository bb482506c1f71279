// The closest pose, in double: for explore.cu.
#include "problem.hpp"

namespace supple {

// From q to the closest pose, by the weights that say what is closest.
__device__ void settle(const Request& request, int problem, const double* q, float stiff,
                       Fine& fine) {
  constexpr const IkProblem<double>& ik = Closest<double>::ik;
  Start<double> own;
  IterateState<double> at = own.descent();
  double work[n + settle_work(n)];
  for (int j = 0; j < n; ++j) own.q[j] = clamped(q[j], j);
  aim(request, problem, at);
  Rest<double> rest = rest_from(ik, at, work, stiff);
  bool done = false;
  for (int i = 1;; ++i) {
    measure(ik, at);
    fine.solved = there(request, at);
    if (fine.solved || done) break;
    done = approach<ik>(at, rest, at.cost, false) || i == pace * fine_iterations;
    for (int j = 0; done && j < n; ++j) own.q[j] = rest.q[j];
  }
  fine.keep(at);
}

}  // namespace supple
