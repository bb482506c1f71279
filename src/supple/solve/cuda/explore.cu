// Few problems, or those that search.cu has left: a warp for each, every thread another start.
#include "problem.hpp"

namespace supple {

// In settle.cu, which is compiled at the same time and linked.
extern __device__ void settle(const Request& request, int problem, const float* q, Fine& fine);

namespace {

constexpr int starts_a_round = 4;  // of a thread; then those that failed are looked at
constexpr int singular = 8;        // so many came near and not there: Newton's method gets on

// The least of a warp's costs.
__device__ double least_of(double cost) {
  for (int step = 16; step; step /= 2) cost = ::fmin(cost, __shfl_xor_sync(everyone, cost, step));
  return cost;
}

// The first thread of a warp for which something holds, -1 if for none.
__device__ int first_of(bool holds) { return __ffs(__ballot_sync(everyone, holds)) - 1; }

// The table's nearest entry to a target of those that are this thread's: every 32nd.
__device__ int nearest(const Request& request, const float* target, float& best) {
  int entry = threadIdx.x % 32;
  best = huge_cost;
  for (int i = entry; i < request.entries; i += 32) {
    float far = request.table[numbers * request.entries + i];
    for (int k = 0; k < numbers; ++k) {
      far = fma(request.table[k * request.entries + i], -target[k] * Given<float>::feature_scale[k],
                far);
    }
    if (far < best) best = far, entry = i;
  }
  return entry;
}

}  // namespace

// A warp for each of the problems that `finish` has left, or of all.
extern "C" __global__ void __launch_bounds__(64) explore(Request request, int left) {
  const int lane = threadIdx.x % 32, total = left ? request.counter[1] : request.count;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 32, stride = gridDim.x * 2;
  Start<float> own;
  Descent<float> at = own.descent();
  for (int turn = first; turn < total; turn += stride) {
    const int problem = left ? request.left[turn] : turn;
    if (!sound(request, problem)) {
      if (!lane) leave(request, problem);
      continue;
    }
    for (int i = 0; i < numbers; ++i) own.target[i] = float(request.target[problem * numbers + i]);
    float far, before = huge_cost, kept_cost = huge_cost, kept[n];
    const int entry = nearest(request, own.target, far);
    for (int j = 0; j < n; ++j) own.q[j] = float(clamped(request.seeds[entry * n + j], j));
    if (request.q0) {  // in place of the start that is farthest away
      if (lane == first_of(-far == least_of(-far))) {
        for (int j = 0; j < n; ++j) own.q[j] = float(clamped(request.q0[problem * n + j], j));
      }
    }
    for (int j = 0; j < n; ++j) kept[j] = own.q[j];
    int start = lane, next = 32, failed = 0, iteration = 0, iterations = 0, missed = 0;
    bool open = true, settled = false;
    const auto answer = [&](const Fine& fine, bool mine, Outcome outcome) {
      if (!mine) return;
      const int more = left ? request.effort[2 * problem] : 0;
      record(request, problem, fine, outcome, iterations + more, next + (left ? tries : 0));
    };
    for (;;) {
      __syncwarp();
      measure(at);
      ++iteration;
      ++iterations;
      const bool found =
          open && at.position <= request.rough_position && at.rotation <= request.rough_rotation;
      if (__any_sync(everyone, found)) {
        Fine fine;
        fine.solved = false;
        float q[n];  // (what a call can see has no registers)
        for (int j = 0; j < n; ++j) q[j] = own.q[j];
        if (found) finished(request, problem, q, fine);
        int winner = first_of(fine.solved);
        if (winner < 0) missed += __popc(__ballot_sync(everyone, found));
        if (winner < 0 && missed >= singular && !settled) {
          settled = true;
          if (found) settle(request, problem, q, fine);
          winner = first_of(fine.solved);
        }
        answer(fine, lane == winner, Outcome::solved);
        if (winner >= 0) break;
      }
      const bool stuck = open && (given_up(start, iteration, pace, at.cost, before) || found);
      if (stuck && at.cost < kept_cost) {
        kept_cost = at.cost;
        for (int j = 0; j < n; ++j) kept[j] = own.q[j];
      }
      failed += stuck;
      bool again = stuck && failed < starts_a_round;
      open = open && !stuck;
      if (!__any_sync(everyone, open || again)) {  // all have failed: what they have come to
        Fine fine;
        settle(request, problem, kept, fine);
        const double least = least_of(fine.cost);
        const int best = ::max(0, first_of(fine.cost == least)), winner = first_of(fine.solved);
        const bool same = fine.cost <= (1 + double(same_cost)) * least;
        const int agreed = __popc(__ballot_sync(everyone, same));
        const bool over = agreed >= enough_same || next >= request.max_starts;
        answer(fine, lane == winner, Outcome::solved);
        answer(fine, winner < 0 && over && lane == best, Outcome::unreachable);
        if (winner >= 0 || over) break;
        failed = 0;
        again = true;
      }
      const unsigned asking = __ballot_sync(everyone, again);
      descend(at);
      if (again) {
        start = next + __popc(asking & ((1u << lane) - 1));
        open = start < request.max_starts;
        for (int j = 0; j < n; ++j) {
          own.q[j] = float(clamped(spread(request.entries, start - 32 + (left ? tries : 0), j), j));
        }
        at.before = -1;
        iteration = 0;
        before = huge_cost;
      }
      next = min(next + __popc(asking), max(request.max_starts, 32));
    }
  }
}

}  // namespace supple
