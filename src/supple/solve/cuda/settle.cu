// Where starts come to rest that have failed: for explore.cu. Apart from it, for it takes as long
// to compile as all the rest, and is seldom run.
#include "problem.hpp"

namespace supple {

// From where a start has failed to where it comes to rest, by the weights that say what is closest.
__device__ void settle(const Request& request, int problem, const float* q, Fine& fine) {
  constexpr const Quest<double>& quest = Closest<double>::quest;
  Start<double> own;
  Descent<double> at = own.descent();
  double work[n + settle_work(n)];
  for (int j = 0; j < n; ++j) own.q[j] = clamped(double(q[j]), j);
  aim(request, problem, at);
  Rest<double> rest = rest_from(quest, at, work);
  for (int i = pace * fine_iterations;; --i) {  // and at last where it was best
    measure(quest, at);
    if (i < 0 || there(request, at)) break;
    if (i == 0 || approach(quest, at, rest, at.cost, at.cost)) {
      for (int j = 0; j < n; ++j) own.q[j] = rest.q[j];
      i = 0;
    }
  }
  fine.solved = there(request, at);
  fine.keep(at);
}

}  // namespace supple
