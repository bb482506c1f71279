// Where starts come to rest that have failed, in the numbers of the search: for explore.cu.
#include "problem.hpp"

namespace supple {

// From where a start has failed towards where it comes to rest; with `along` (rows,), whose square
// is `length`, as far along that as it gets: see ik/reachability.hpp. Returns whether it arrived on
// the way; `value` is what has become least.
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
    if (approach<quest>(at, rest, now, along != nullptr)) break;
  }
  for (int j = 0; j < n; ++j) q[j] = rest.q[j];
  value = float(rest.value);
  return arrived;
}

}  // namespace supple
