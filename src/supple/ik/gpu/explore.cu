// Solves a small number of problems, or the problems that search.cu has not solved: one warp for
// each problem, and a different start in each thread. `several` selects whether solutions are
// compared or the first one is returned. Tuned constants are explained in docs/constants.md.
#include "view.hpp"
#include "warp.hpp"

namespace supple {
namespace {

constexpr int starts_per_round = 4;  // starts of a thread between reviews of the failed starts
constexpr int singular = 8;          // near misses after which Newton's method is tried again

// Coordinate j of the seed of a start near q0.
__device__ double near_coordinate(const Request& request, int problem, int start, int j) {
  return seed_near(RobotConstants<double>::ik, own_start(request, problem, j), start / 2, j);
}

// Moves q to the best corner of the joint ranges for a seed of the sequence.
__device__ __noinline__ void start_at_corner(const Request& request, int problem, int seed,
                                             SearchReal* q) {
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  for (int i = 0; i < numbers; ++i)
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  choose_corner(RobotConstants<SearchReal>::ik, RobotConstants<double>::ik, seed, request.entries,
                at, [&](int) {
                  for (int j = 0; j < nq; ++j) q[j] = own.q[j];
                });
}

// Moves q to the seed of a restart. If the solution nearest to q0 is wanted, every second seed is
// near q0.
__device__ void restart(const Request& request, int problem, int start, int tried, SearchReal* q) {
  if constexpr (several) {
    if (request.nearest && start % 2) {
      for (int j = 0; j < nq; ++j)
        q[j] = SearchReal(clamped(near_coordinate(request, problem, start, j), j));
      return;
    }
    if (request.nearest) start /= 2;
  }
  const int seed = start - 32 + tried;
  for (int j = 0; j < nq; ++j)
    q[j] = SearchReal(clamped(sequence_seed(request.entries, seed, j), j));
  if (is_corner_seed(seed)) {
    SearchReal corner[nq];  // a copy, because arrays that are passed to a function leave registers
    start_at_corner(request, problem, seed, corner);
    for (int j = 0; j < nq; ++j) q[j] = corner[j];
  }
}

// The solution of one thread, which is added to those of the warp's problem (`KeptSolutions`).
struct FoundInWarp {
  const Request& request;
  int problem, own;  // `own` is the thread that has found it
  const Polished& polished;
  double from_start;  // this thread's displacement from the problem's own start
  int iterations, starts;

  __device__ double displacement() const { return __shfl_sync(everyone, from_start, own); }
  __device__ bool is_known(int found) const {
    double q[nq];
    for (int j = 0; j < nq; ++j) q[j] = __shfl_sync(everyone, polished.q[j], own);
    bool known = false;
    for (int i = threadIdx.x % 32; i < found; i += 32) {
      const double* const other = request.q + (problem * request.max_solutions + i) * nq;
      known |= is_same_solution(RobotConstants<double>::ik, Posture::wrap, other, q);
    }
    return __any_sync(everyone, known);
  }
  __device__ void write(int number) const {
    if (threadIdx.x % 32 == own) {
      record(request, problem, number, polished, Outcome::solved, iterations, starts);
    }
    __syncwarp();
  }
};

// Adds the solutions of all threads, one after the other.
__device__ void keep_solutions(const Request& request, int problem, const Polished& polished,
                               int iterations, int starts, KeptSolutions& kept) {
  const double from_start = polished.solved && request.nearest
                                ? displacement_from_start(request, problem, polished.q)
                                : 0;
  unsigned solved = __ballot_sync(everyone, polished.solved);
  for (; solved && !kept.enough(request.nearest, request.max_solutions); solved &= solved - 1) {
    const int own = __ffs(solved) - 1;
    kept.add(request.nearest,
             FoundInWarp{request, problem, own, polished, from_start, iterations, starts});
  }
}

// Replaces the closest pose by the closest pose found from the problem's own start, if
// `prefers_own` accepts it.
__device__ void prefer_own(const Request& request, int problem, Polished& polished) {
  double q[nq];
  for (int j = 0; j < nq; ++j) q[j] = own_start(request, problem, j);
  Polished own;
  settle(request, problem, q, 1, polish_newton_iterations, Company::none, own);
  const double displacement = displacement_from_start(request, problem, own.q);
  if (prefers_own(own.cost, displacement, polished.cost)) polished = own;
}

// Wraps the joints of a solution toward q0, before it is compared with others.
__device__ __noinline__ void unwind_polished(const Request& request, int problem,
                                             Polished& polished) {
  StateMemory<double> own;
  IterateState<double> at = own.state();
  for (int j = 0; j < nq; ++j) own.q[j] = polished.q[j];
  set_target(request, problem, at);
  evaluate<large>(at);
  unwind(request, problem, at);
  polished.store(at);
}

// Rejects the solutions of the warp's threads that collide; unless `several`, only those before the
// first that is free. Returns whether the solution of this thread is rejected. `rejected` counts
// the rejected ones, the first of which is written, unless another solution was written before.
__device__ __noinline__ bool reject_colliding(const Request& request, int problem,
                                              Polished& polished, int iterations, int starts,
                                              const KeptSolutions& kept, int& rejected) {
  bool mine = false;
  if constexpr (checks) {
    const int lane = threadIdx.x % 32;
    const unsigned hits = colliding(request, problem, polished.q, polished.solved, several);
    mine = hits >> lane & 1;
    if (mine) polished.solved = false;
    if (!rejected && !kept.found && lane == __ffs(hits) - 1) {
      record(request, problem, 0, polished, Outcome::blocked, iterations, starts);
    }
    rejected += __popc(hits);
  }
  return mine;
}

}  // namespace

// Runs one warp for each problem that `finish` has left unsolved, or for every problem. If `view`
// has data, the targets are read from it first (`read_target`).
extern "C" __global__ void __launch_bounds__(64)
    explore(Request request, int left, View view, TargetKind kind) {
  const int lane = threadIdx.x % 32, total = left ? request.counter[1] : request.count;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 32, stride = gridDim.x * 2;
  const int tried = left ? request.tries : 0;
  const int most = restart_budget(request.max_seeds, request.nearest).all;
  const bool near_own = several && request.nearest;
  // Whether the problem's own start has precedence: no result is accepted while it is running.
  const bool own_first =
      near_own || (several && Posture::has_posture && request.max_solutions == 1);
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  // Some problems take much longer than others, so each warp takes the next one when it is done.
  const auto next_turn = [&](int turn) {
    if (!left) return turn + stride;
    int taken = 0;
    if (!lane) taken = atomicAdd(request.counter + 3, 1);
    return __shfl_sync(everyone, taken, 0);
  };
  for (int turn = left ? next_turn(0) : first; turn < total; turn = next_turn(turn)) {
    const int problem = left ? request.left[turn] : turn;
    if (view.data) {
      __syncwarp();
      if (!lane) read_target(view, kind, problem, numbers, const_cast<double*>(request.target));
      __syncwarp();
    }
    if (!is_valid(request, problem)) {
      if (!lane) mark_skipped(request, problem);
      continue;
    }
    for (int i = 0; i < numbers; ++i)
      own.target[i] = SearchReal(request.target[problem * numbers + i]);
    float far, before = huge_cost;
    const int entry = nearest(request, own.target, far);
    for (int j = 0; j < nq; ++j) own.q[j] = request.seeds[entry * nq + j];
    if (near_own && lane % 2) {
      for (int j = 0; j < nq; ++j)
        own.q[j] = SearchReal(clamped(near_coordinate(request, problem, lane, j), j));
    }
    bool mine = false;  // whether this thread runs the problem's own start, not a seed
    if (has_own_start(request)) {
      mine = lane == (near_own ? 0 : first_of(-far == least_of(-far)));
      for (int j = 0; mine && j < nq; ++j) {
        own.q[j] = SearchReal(clamped(own_start(request, problem, j), j));
      }
    }
    at.before = -1;
    FailedStarts failures;
    failures.clear(own.q);
    KeptSolutions kept;
    const int earlier = left ? request.effort[2 * problem] : 0;
    int rejected = checks && left && request.outcome[problem] == Outcome::blocked;
    int start = lane, next = 32, failed = 0, iteration = 0, iterations = 0, missed = 0;
    int settled = 0;  // number of times that Newton's method was tried
    bool open = true;
    bool undecided = false;  // whether the search has ended with solutions that collide
    const auto record_first = [&](const Polished& polished, bool mine, Outcome outcome) {
      if (!mine) return;
      record(request, problem, 0, polished, outcome, iterations + earlier, next + tried);
    };
    for (;;) {
      __syncwarp();
      SearchReal here[nq];  // the configuration that is evaluated
      for (int j = 0; j < nq; ++j) here[j] = own.q[j];
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
      bool collided = false;
      const auto reject = [&] {
        if constexpr (checks) {
          collided |= reject_colliding(request, problem, polished, iterations + earlier,
                                       next + tried, kept, rejected);
        }
      };
      if (__any_sync(everyone, found)) {
        SearchReal q[nq];  // a copy, because arrays that are passed to a function leave registers
        for (int j = 0; j < nq; ++j) q[j] = here[j];
        if constexpr (several) {
          if (found) polish_start(request, problem, q, Company::none, polished);
        } else {
          const Company company = found ? Company::starts : Company::idle;
          polish_start(request, problem, q, company, polished);
        }
        reject();
        int winner = first_of(polished.solved);
        if (winner < 0) missed += __popc(__ballot_sync(everyone, found && !collided));
        if (winner < 0 && missed >= (settled ? singular : 1) && settled < 2) {
          ++settled;
          double from[nq];
          for (int j = 0; j < nq; ++j) from[j] = q[j];
          const Company company = found && !collided ? Company::starts : Company::idle;
          settle(request, problem, from, min_gain_factor, few_newton_iterations, company, polished);
          reject();
          winner = first_of(polished.solved);
        }
        if constexpr (!several) {
          record_first(polished, lane == winner, Outcome::solved);
          if (winner >= 0) break;
        }
      }
      if constexpr (several) {
        const bool singular_own =
            near_own && mine && stalled && !polished.solved && !collided && at.cost < near_miss;
        if (singular_own) {
          double from[nq];  // Newton's method also converges to a singular pose
          for (int j = 0; j < nq; ++j) from[j] = own_start(request, problem, j);
          settle(request, problem, from, 1, polish_newton_iterations, Company::none, polished);
        }
        if (checks && __any_sync(everyone, singular_own)) reject();
        if (__any_sync(everyone, polished.solved)) {
          if (near_own && polished.solved) unwind_polished(request, problem, polished);
          const bool ends =
              own_first && mine && polished.solved &&
              (!near_own || displacement_from_start(request, problem, polished.q) <= near_q0);
          if (ends) record(request, problem, 0, polished, Outcome::solved, iterations, 1);
          if (__any_sync(everyone, ends)) break;
          keep_solutions(request, problem, polished, iterations, next + tried, kept);
        }
        const bool waits = own_first && __any_sync(everyone, open && mine && !stalled);
        const bool enough = kept.enough(request.nearest, request.max_solutions) ||
                            (checks && rejected >= request.max_rejected);
        if (enough && !waits) {
          undecided = rejected > 0;
          break;
        }
      } else if (checks && rejected >= request.max_rejected) {
        undecided = true;
        break;
      }
      const bool solved = polished.solved || collided;
      if (stalled && !solved) failures.store(here, float(at.cost));
      failed += stalled && !solved;
      bool again = stalled && (solved || failed < starts_per_round);
      open = open && !stalled;
      mine = mine && !stalled;
      if (!__any_sync(everyone, open || again)) {  // all threads have failed
        const bool last = next >= most;
        if ((!several || !kept.found) && !(checks && rejected)) {
          const int best = decide_failed(request, problem, failures, next + tried, last, polished);
          if (near_own && lane == best && !polished.solved) prefer_own(request, problem, polished);
          Outcome outcome = outcome_of(polished.solved, false, failures.bound);
          if constexpr (checks) {
            const bool solves = lane == best && outcome == Outcome::solved;
            if (solves && collides(request, problem, polished.q)) outcome = Outcome::blocked;
            undecided = __any_sync(everyone, lane == best && outcome == Outcome::blocked);
          }
          record_first(polished, lane == best, outcome);
          if (best >= 0) break;
        } else if (last) {
          break;
        }
        failed = 0;
        again = true;
      }
      const unsigned asking = __ballot_sync(everyone, again);
      if constexpr (!large) take_step(at);
      if (again) {
        start = next + __popc(asking & ((1u << lane) - 1));
        open = start < most;
        restart(request, problem, start, tried, own.q);
        at.before = -1;
        iteration = 0;
        before = huge_cost;
      }
      next = min(next + __popc(asking), max(most, 32));
    }
    __syncwarp();
    if (checks && !lane && (rejected || undecided)) {
      // All solutions of the arm are computed afterwards for problems in `blocked`, if it exists.
      if (request.blocked && undecided) {
        request.outcome[problem] = Outcome::blocked;
        request.blocked[atomicAdd(request.counter + 2, 1)] = problem;
      }
      if (request.outcome[problem] == Outcome::blocked) {
        request.effort[2 * problem] = iterations + earlier;
        request.effort[2 * problem + 1] = next + tried - 1;
      }
    }
  }
}

}  // namespace supple
