// Few problems, or those that search.cu has left: a warp for each, every thread another start.
// `several` says whether the first record_first is enough, or several are max_compared.
// Tuned constants and what chose them: docs/constants.md.
#include "warp.hpp"

namespace supple {
namespace {

constexpr int starts_per_round = 4;  // of a thread; then those that failed are looked at
constexpr int singular = 8;          // so many came near and not there: Newton's method gets on

// Coordinate j of a start of many: every second is one near q0 if a near record_first is wanted.
__device__ double restart_coordinate(const Request& request, int problem, int start, int tried,
                                     int j) {
  if constexpr (several) {
    if (request.nearest && start % 2) {
      const double wide = 0.25 * RobotConstants<double>::seed_range[j],
                   most = seed_scatter < wide ? seed_scatter : wide;
      const double share = sequence_value(start / 2 + 1, RobotConstants<double>::sequence_step[j]);
      return own_start(request, problem, j) + most * (2 * share - 1);
    }
    if (request.nearest) start /= 2;
  }
  return sequence_seed(request.entries, start - 32 + tried, j);
}

// The solutions of a warp's problem: all distinct ones, or the nearest to q0.
struct Solutions {
  int found = 0;
  double least_move = 0;

  __device__ bool enough(const Request& request) const {
    return found >= (request.nearest ? max_compared : request.max_solutions);
  }

  // Takes those of all threads, one after the other.
  __device__ void take(const Request& request, int problem, Polished& polished, int iterations,
                       int starts) {
    const int lane = threadIdx.x % 32;
    unsigned solved = __ballot_sync(everyone, polished.solved);
    const double here =
        polished.solved && request.nearest ? distance_from_q0(request, problem, polished.q) : 0;
    for (; solved && !enough(request); solved &= solved - 1) {
      const int own = __ffs(solved) - 1;
      bool known = false;
      if (request.nearest) {
        const double move = __shfl_sync(everyone, here, own);
        known = found > 0 && !(move < least_move);
        if (!known) least_move = move;
        if (!known && lane == own) {
          record(request, problem, 0, polished, Outcome::solved, iterations, starts);
        }
        ++found;
        continue;
      }
      double q[n];
      for (int j = 0; j < n; ++j) q[j] = __shfl_sync(everyone, polished.q[j], own);
      for (int i = lane; i < found; i += 32) {
        const double* const other = request.q + (problem * request.max_solutions + i) * n;
        bool same = true;
        for (int j = 0; j < n; ++j)
          same &= abs(difference(Posture::turn[j], other[j], q[j])) <= distinct;
        known |= same;
      }
      if (__any_sync(everyone, known)) continue;
      if (lane == own) {
        record(request, problem, found, polished, Outcome::solved, iterations, starts);
      }
      ++found;
      __syncwarp();
    }
  }
};

// The closest pose with the caller's own posture, if that is as close; else what `polished` is.
__device__ void prefer_own(const Request& request, int problem, Polished& polished) {
  double q[n];
  for (int j = 0; j < n; ++j) q[j] = own_start(request, problem, j);
  Polished own;
  settle(request, problem, q, 1, own);
  const double part =
      distance_from_q0(request, problem, own.q) <= near_q0 ? own_cost_near : own_cost_far;
  if (own.cost <= part * polished.cost) polished = own;
}

// Turned back to near q0, for solutions to be max_compared.
__device__ __noinline__ void unwind_polished(const Request& request, int problem,
                                             Polished& polished) {
  StateMemory<double> own;
  IterateState<double> at = own.state();
  for (int j = 0; j < n; ++j) own.q[j] = polished.q[j];
  aim(request, problem, at);
  evaluate<large>(at);
  unwind(request, problem, at);
  polished.store(at);
}

}  // namespace

// A warp for each of the problems that `finish` has left, or of all.
extern "C" __global__ void __launch_bounds__(64) explore(Request request, int left) {
  const int lane = threadIdx.x % 32, total = left ? request.counter[1] : request.count;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 32, stride = gridDim.x * 2;
  const int tried = left ? tries : 0;
  const int most = restart_budget(request.max_starts, request.nearest).all;
  const bool near_own = several && request.nearest;
  // whether a problem's own start comes first: as long as it is on its way, not_a_number is decided
  const bool own_first = near_own || (several && Posture::posture && request.max_solutions == 1);
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  for (int turn = first; turn < total; turn += stride) {
    const int problem = left ? request.left[turn] : turn;
    if (!is_valid(request, problem)) {
      if (!lane) mark_skipped(request, problem);
      continue;
    }
    for (int i = 0; i < numbers; ++i)
      own.target[i] = SearchReal(request.target[problem * numbers + i]);
    float far, before = huge_cost;
    const int entry = nearest(request, own.target, far);
    for (int j = 0; j < n; ++j) own.q[j] = SearchReal(clamped(request.seeds[entry * n + j], j));
    if (near_own && lane % 2) {
      for (int j = 0; j < n; ++j)
        own.q[j] = SearchReal(clamped(restart_coordinate(request, problem, lane, 0, j), j));
    }
    bool mine = false;  // whether it is the problem's own start, in place of the farthest
    if (has_own_start(request)) {
      mine = lane == (near_own ? 0 : first_of(-far == least_of(-far)));
      for (int j = 0; mine && j < n; ++j) {
        own.q[j] = SearchReal(clamped(own_start(request, problem, j), j));
      }
    }
    at.before = -1;
    FailedStarts failures;
    failures.clear(own.q);
    Solutions solutions;
    int start = lane, next = 32, failed = 0, iteration = 0, iterations = 0, missed = 0;
    bool open = true, settled = false;
    const auto record_first = [&](const Polished& polished, bool mine, Outcome outcome) {
      if (!mine) return;
      const int earlier = left ? request.effort[2 * problem] : 0;
      record(request, problem, 0, polished, outcome, iterations + earlier, next + tried);
    };
    for (;;) {
      __syncwarp();
      SearchReal here[n];  // what is measured
      for (int j = 0; j < n; ++j) here[j] = own.q[j];
      if constexpr (large) {
        iterate(at);
      } else {
        evaluate(at);
      }
      ++iteration;
      ++iterations;
      const bool found = open && search_converged(request, at);
      const int patience = near_own && mine ? patient_after : start;
      const bool stalled =
          open &&
          (is_stalled(patience, iteration, iteration_factor, float(at.cost), before) || found);
      Polished polished;
      polished.solved = false;
      if (__any_sync(everyone, found)) {
        SearchReal q[n];  // (what a call can see has no registers)
        for (int j = 0; j < n; ++j) q[j] = here[j];
        if (found) polish_start(request, problem, q, polished);
        int winner = first_of(polished.solved);
        if (winner < 0) missed += __popc(__ballot_sync(everyone, found));
        if (winner < 0 && missed >= singular && !settled) {
          settled = true;
          double from[n];
          for (int j = 0; j < n; ++j) from[j] = q[j];
          if (found) settle(request, problem, from, 1, polished);
          winner = first_of(polished.solved);
        }
        if constexpr (!several) {
          record_first(polished, lane == winner, Outcome::solved);
          if (winner >= 0) break;
        }
      }
      if constexpr (several) {
        if (near_own && mine && stalled && !polished.solved && at.cost < near_miss) {
          double from[n];  // near a singular pose Newton's method gets on
          for (int j = 0; j < n; ++j) from[j] = own_start(request, problem, j);
          settle(request, problem, from, 1, polished);
        }
        if (__any_sync(everyone, polished.solved)) {
          if (near_own && polished.solved) unwind_polished(request, problem, polished);
          const bool ends =
              own_first && mine && polished.solved &&
              (!near_own || distance_from_q0(request, problem, polished.q) <= near_q0);
          if (ends) record(request, problem, 0, polished, Outcome::solved, iterations, 1);
          if (__any_sync(everyone, ends)) break;
          solutions.take(request, problem, polished, iterations, next + tried);
        }
        const bool waits = own_first && __any_sync(everyone, open && mine && !stalled);
        if (solutions.enough(request) && !waits) break;
      }
      const bool solved = polished.solved;
      if (stalled && !solved) failures.store(here, float(at.cost));
      failed += stalled && !solved;
      bool again = stalled && (solved || failed < starts_per_round);
      open = open && !stalled;
      mine = mine && !stalled;
      if (!__any_sync(everyone, open || again)) {  // all have failed: what they have come to
        const bool last = next >= most;
        if (!several || !solutions.found) {
          const int best =
              decide_unreachable(request, problem, failures, next + tried, last, polished);
          if (near_own && lane == best && !polished.solved) prefer_own(request, problem, polished);
          record_first(polished, lane == best,
                       polished.solved ? Outcome::solved : Outcome::unreachable);
          if (best >= 0) break;
        } else if (last) {
          break;
        }
        failed = 0;
        again = true;
      }
      const unsigned asking = __ballot_sync(everyone, again);
      if constexpr (!large) descend(at);
      if (again) {
        start = next + __popc(asking & ((1u << lane) - 1));
        open = start < most;
        for (int j = 0; j < n; ++j) {
          own.q[j] = SearchReal(clamped(restart_coordinate(request, problem, start, tried, j), j));
        }
        at.before = -1;
        iteration = 0;
        before = huge_cost;
      }
      next = min(next + __popc(asking), max(most, 32));
    }
  }
}

}  // namespace supple
