// Few problems, or those that search.cu has left: a warp for each, every thread another start.
// `several` says whether the first answer is enough, or several are compared.
// Tuned constants and what chose them: docs/constants.md.
#include "warp.hpp"

namespace supple {
namespace {

constexpr int starts_a_round = 4;  // of a thread; then those that failed are looked at
constexpr int singular = 8;        // so many came near and not there: Newton's method gets on

// Coordinate j of a start of many: every second is one near q0 if a near answer is wanted.
__device__ double more(const Request& request, int problem, int start, int tried, int j) {
  if constexpr (several) {
    if (request.nearest && start % 2) {
      const double wide = 0.25 * RobotConstants<double>::span[j],
                   most = scatter < wide ? scatter : wide;
      const double share = share_of(start / 2 + 1, RobotConstants<double>::stride[j]);
      return own_start(request, problem, j) + most * (2 * share - 1);
    }
    if (request.nearest) start /= 2;
  }
  return spread(request.entries, start - 32 + tried, j);
}

// The answers of a warp's problem: all distinct ones, or the nearest to q0.
struct Answers {
  int found = 0;
  double least_move = 0;

  __device__ bool enough(const Request& request) const {
    return found >= (request.nearest ? compared : request.most);
  }

  // Takes those of all threads, one after the other.
  __device__ void take(const Request& request, int problem, Fine& fine, int iterations,
                       int starts) {
    const int lane = threadIdx.x % 32;
    unsigned solved = __ballot_sync(everyone, fine.solved);
    const double here = fine.solved && request.nearest ? moved(request, problem, fine.q) : 0;
    for (; solved && !enough(request); solved &= solved - 1) {
      const int own = __ffs(solved) - 1;
      bool known = false;
      if (request.nearest) {
        const double move = __shfl_sync(everyone, here, own);
        known = found > 0 && !(move < least_move);
        if (!known) least_move = move;
        if (!known && lane == own) {
          record(request, problem, 0, fine, Outcome::solved, iterations, starts);
        }
        ++found;
        continue;
      }
      double q[n];
      for (int j = 0; j < n; ++j) q[j] = __shfl_sync(everyone, fine.q[j], own);
      for (int i = lane; i < found; i += 32) {
        const double* const other = request.q + (problem * request.most + i) * n;
        bool same = true;
        for (int j = 0; j < n; ++j)
          same &= abs(difference(Posture::turn[j], other[j], q[j])) <= apart;
        known |= same;
      }
      if (__any_sync(everyone, known)) continue;
      if (lane == own) {
        record(request, problem, found, fine, Outcome::solved, iterations, starts);
      }
      ++found;
      __syncwarp();
    }
  }
};

// The closest pose with the caller's own posture, if that is as close; else what `fine` is.
__device__ void prefer_own(const Request& request, int problem, Fine& fine) {
  double q[n];
  for (int j = 0; j < n; ++j) q[j] = own_start(request, problem, j);
  Fine own;
  settle(request, problem, q, 1, own);
  const double part = moved(request, problem, own.q) <= near_start ? as_good : as_close;
  if (own.cost <= part * fine.cost) fine = own;
}

// Turned back to near q0, for answers to be compared.
__device__ __noinline__ void turned_back(const Request& request, int problem, Fine& fine) {
  Start<double> own;
  IterateState<double> at = own.descent();
  for (int j = 0; j < n; ++j) own.q[j] = fine.q[j];
  aim(request, problem, at);
  measure<large>(at);
  unwind(request, problem, at);
  fine.keep(at);
}

}  // namespace

// A warp for each of the problems that `finish` has left, or of all.
extern "C" __global__ void __launch_bounds__(64) explore(Request request, int left) {
  const int lane = threadIdx.x % 32, total = left ? request.counter[1] : request.count;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 32, stride = gridDim.x * 2;
  const int tried = left ? tries : 0;
  const int most = start_budget(request.max_starts, request.nearest).all;
  const bool near_own = several && request.nearest;
  // whether a problem's own start comes first: as long as it is on its way, nothing is decided
  const bool own_first = near_own || (several && Posture::posture && request.most == 1);
  Start<SearchReal> own;
  IterateState<SearchReal> at = own.descent();
  for (int turn = first; turn < total; turn += stride) {
    const int problem = left ? request.left[turn] : turn;
    if (!sound(request, problem)) {
      if (!lane) leave(request, problem);
      continue;
    }
    for (int i = 0; i < numbers; ++i)
      own.target[i] = SearchReal(request.target[problem * numbers + i]);
    float far, before = huge_cost;
    const int entry = nearest(request, own.target, far);
    for (int j = 0; j < n; ++j) own.q[j] = SearchReal(clamped(request.seeds[entry * n + j], j));
    if (near_own && lane % 2) {
      for (int j = 0; j < n; ++j)
        own.q[j] = SearchReal(clamped(more(request, problem, lane, 0, j), j));
    }
    bool mine = false;  // whether it is the problem's own start, in place of the farthest
    if (started(request)) {
      mine = lane == (near_own ? 0 : first_of(-far == least_of(-far)));
      for (int j = 0; mine && j < n; ++j) {
        own.q[j] = SearchReal(clamped(own_start(request, problem, j), j));
      }
    }
    at.before = -1;
    FailedStarts failures;
    failures.clear(own.q);
    Answers answers;
    int start = lane, next = 32, failed = 0, iteration = 0, iterations = 0, missed = 0;
    bool open = true, settled = false;
    const auto answer = [&](const Fine& fine, bool mine, Outcome outcome) {
      if (!mine) return;
      const int earlier = left ? request.effort[2 * problem] : 0;
      record(request, problem, 0, fine, outcome, iterations + earlier, next + tried);
    };
    for (;;) {
      __syncwarp();
      SearchReal here[n];  // what is measured
      for (int j = 0; j < n; ++j) here[j] = own.q[j];
      if constexpr (large) {
        iterate(at);
      } else {
        measure(at);
      }
      ++iteration;
      ++iterations;
      const bool found = open && there_roughly(request, at);
      const int patience = near_own && mine ? patient_from : start;
      const bool stuck =
          open && (given_up(patience, iteration, pace, float(at.cost), before) || found);
      Fine fine;
      fine.solved = false;
      if (__any_sync(everyone, found)) {
        SearchReal q[n];  // (what a call can see has no registers)
        for (int j = 0; j < n; ++j) q[j] = here[j];
        if (found) finished(request, problem, q, fine);
        int winner = first_of(fine.solved);
        if (winner < 0) missed += __popc(__ballot_sync(everyone, found));
        if (winner < 0 && missed >= singular && !settled) {
          settled = true;
          double from[n];
          for (int j = 0; j < n; ++j) from[j] = q[j];
          if (found) settle(request, problem, from, 1, fine);
          winner = first_of(fine.solved);
        }
        if constexpr (!several) {
          answer(fine, lane == winner, Outcome::solved);
          if (winner >= 0) break;
        }
      }
      if constexpr (several) {
        if (near_own && mine && stuck && !fine.solved && at.cost < near_miss) {
          double from[n];  // near a singular pose Newton's method gets on
          for (int j = 0; j < n; ++j) from[j] = own_start(request, problem, j);
          settle(request, problem, from, 1, fine);
        }
        if (__any_sync(everyone, fine.solved)) {
          if (near_own && fine.solved) turned_back(request, problem, fine);
          const bool ends = own_first && mine && fine.solved &&
                            (!near_own || moved(request, problem, fine.q) <= near_start);
          if (ends) record(request, problem, 0, fine, Outcome::solved, iterations, 1);
          if (__any_sync(everyone, ends)) break;
          answers.take(request, problem, fine, iterations, next + tried);
        }
        const bool waits = own_first && __any_sync(everyone, open && mine && !stuck);
        if (answers.enough(request) && !waits) break;
      }
      const bool solved = fine.solved;
      if (stuck && !solved) failures.keep(here, float(at.cost));
      failed += stuck && !solved;
      bool again = stuck && (solved || failed < starts_a_round);
      open = open && !stuck;
      mine = mine && !stuck;
      if (!__any_sync(everyone, open || again)) {  // all have failed: what they have come to
        const bool last = next >= most;
        if (!several || !answers.found) {
          const int best = conclude(request, problem, failures, next + tried, last, fine);
          if (near_own && lane == best && !fine.solved) prefer_own(request, problem, fine);
          answer(fine, lane == best, fine.solved ? Outcome::solved : Outcome::unreachable);
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
          own.q[j] = SearchReal(clamped(more(request, problem, start, tried, j), j));
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
