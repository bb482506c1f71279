// Where starts come to rest that have failed: for explore.cu. Apart from it, for it takes as long
// to compile as all the rest, and is seldom run.
#include "problem.hpp"

namespace supple {

// From where a start has failed towards where it comes to rest, in the numbers of the search; with
// `along` (rows,), whose square is `length`, as far along that as it gets: see reach.hpp. Returns
// whether it arrived on the way; `value` is what has become least.
__device__ bool come_to_rest(const Request& request, int problem, Rough* q, const Rough* along,
                             Rough length, float& value) {
  constexpr const Quest<Rough>& quest = Given<Rough>::quest;
  Start<Rough> own;
  Descent<Rough> at = own.descent();
  Rough work[n + settle_work(n)];
  for (int j = 0; j < n; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i) own.target[i] = Rough(request.target[problem * numbers + i]);
  Rest<Rough> rest = rest_from(quest, at, work);
  const int iterations = pace * (along ? climb_iterations : rest_iterations);
  bool arrived = false;
  for (int i = 0; i < iterations && !arrived; ++i) {
    measure(at);
    arrived = there_roughly(request, at);
    const Rough now = along ? remains(quest, at, along, length) : at.cost;
    if (approach(quest, at, rest, now, at.cost, along != nullptr)) break;
  }
  for (int j = 0; j < n; ++j) q[j] = rest.q[j];
  value = float(rest.value);
  return arrived;
}

// To the closest pose, in double, by the weights that say what is closest.
__device__ void settle(const Request& request, int problem, const double* q, float stiff,
                       Fine& fine) {
  constexpr const Quest<double>& quest = Closest<double>::quest;
  Start<double> own;
  Descent<double> at = own.descent();
  double work[n + settle_work(n)];
  for (int j = 0; j < n; ++j) own.q[j] = clamped(q[j], j);
  aim(request, problem, at);
  Rest<double> rest = rest_from(quest, at, work, stiff);
  bool done = false;
  for (int i = 1;; ++i) {
    measure(quest, at);
    fine.solved = there(request, at);
    if (fine.solved || done) break;
    done = approach(quest, at, rest, at.cost, at.cost) || i == pace * fine_iterations;
    for (int j = 0; done && j < n; ++j) own.q[j] = rest.q[j];
  }
  fine.keep(at);
}

}  // namespace supple
