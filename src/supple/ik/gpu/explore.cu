// Solves a small number of problems, or the problems that search.cu has not solved: one warp for
// each problem, and a different start in each thread. `several` selects whether solutions are
// compared or the first one is returned. Tuned constants are explained in docs/constants.md.
#include "view.hpp"
#include "warp.hpp"

namespace supple {
namespace {

constexpr int starts_per_round = 4;  // starts of a thread between reviews of the failed starts
constexpr int singular = 8;          // near misses after which Newton's method is tried again

constexpr int warp_size = 32;

// A problem that a warp solves. The first start of each thread has a seed from the thread's part of
// the table; the starts from number `warp_size` on have other seeds.
struct Problem {
  const Request& request;
  int number, lane;
  int tried, earlier;  // starts of the problem in search.cu, and their iterations
  int most;            // largest number of starts
  bool near_own;       // whether the solution nearest to the problem's own start is wanted
  bool own_first;      // whether no result is accepted while the problem's own start is running

  __device__ Problem(const Request& request, int number, bool left)
      : request(request),
        number(number),
        lane(threadIdx.x % warp_size),
        tried(left ? request.tries : 0),
        earlier(left ? request.effort[2 * number] : 0),
        most(restart_budget(request.max_seeds, request.nearest).all),
        near_own(several && request.nearest),
        own_first(near_own || (several && Posture::has_posture && request.max_solutions == 1)) {}

  // Returns the seed of a start. In the first start of each thread, a seed of the table replaces
  // that of the sequence; without `near_own`, the problem's own start replaces one of these.
  __device__ StartSeed seed(int start) const { return seed_of({near_own, near_own, 0, 0}, start); }
};

// Progress of the search for a problem.
struct Progress {
  // In this thread: the number of its start, whether it is running, whether it is the problem's own
  // start, its iterations and its cost at the last check; starts that have failed since the review.
  int start;
  bool open, own;
  int iteration;
  float before;
  int failed;
  // In the warp: the number of the next start, iterations, near misses, how often Newton's method
  // was tried for them, and whether the search has ended with solutions that collide.
  int next, iterations, missed, settled;
  bool undecided;
};

// Totals of a problem's search.
__device__ int iterations_of(const Problem& of, const Progress& now) {
  return now.iterations + of.earlier;
}
__device__ int starts_of(const Problem& of, const Progress& now) { return now.next + of.tried; }

// Writes the result of this thread if `mine` is true.
__device__ __forceinline__ void record_first(const Problem& of, const Progress& now,
                                             const Polished& polished, bool mine, Outcome outcome) {
  if (!mine) return;
  record(of.request, of.number, 0, polished, outcome, iterations_of(of, now), starts_of(of, now));
}

// Moves q to the corner of the joint ranges with the smallest cost among the candidates of a seed.
//
// The driver of the CPU evaluates the candidates in its lanes. Code shared with that driver would
// need pointers to the limits, which are constants here, and would make `explore` 10 % slower.
__device__ __noinline__ void start_at_corner(const Request& request, int problem, int seed,
                                             SearchReal* q) {
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  for (int i = 0; i < numbers; ++i)
    own.target[i] = SearchReal(request.target[problem * numbers + i]);
  SearchReal least = huge_cost;
  for (int candidate = 0; candidate < corner_candidates; ++candidate) {
    for (int j = 0; j < nq; ++j) {
      const IkProblem<double>& ik = RobotConstants<double>::ik;
      const double side = corner_side(seed, candidate, request.entries, ik.seed_stride[j]);
      own.q[j] = SearchReal(clamped(ik.seed_lower[j] + side * ik.seed_range[j], j));
    }
    evaluate_error(RobotConstants<SearchReal>::ik, at);
    if (!(at.cost < least)) continue;
    least = at.cost;
    for (int j = 0; j < nq; ++j) q[j] = own.q[j];
  }
}

// Moves q to a seed near the problem's own start.
__device__ __forceinline__ void start_near_own(const Problem& of, int seed, SearchReal* q) {
  for (int j = 0; j < nq; ++j) {
    const double own = own_start(of.request, of.number, j);
    q[j] = SearchReal(clamped(seed_near(RobotConstants<double>::ik, own, seed, j), j));
  }
}

// Begins the first start of this thread, and moves q to its seed.
__device__ __forceinline__ Progress begin(const Problem& of, const SearchReal* target,
                                          SearchReal* q) {
  float far;
  const int entry = nearest(of.request, target, far);
  for (int j = 0; j < nq; ++j) q[j] = of.request.seeds[entry * nq + j];
  const StartSeed seed = of.seed(of.lane);
  if (seed.from == Seed::near_own) start_near_own(of, seed.number, q);
  bool own = false;
  if (has_own_start(of.request)) {
    own = of.near_own ? seed.from == Seed::own : of.lane == first_of(-far == least_of(-far));
    for (int j = 0; own && j < nq; ++j) {
      q[j] = SearchReal(clamped(own_start(of.request, of.number, j), j));
    }
  }
  return {of.lane, true, own, 0, huge_cost, 0, warp_size, 0, 0, 0, false};
}

// Moves q to the seed of a later start.
__device__ __forceinline__ void restart(const Problem& of, int start, SearchReal* q) {
  const StartSeed seed = of.seed(start);
  if constexpr (several) {
    if (seed.from == Seed::near_own) return start_near_own(of, seed.number, q);
  }
  const int number = seed.number - (warp_size - of.near_own) + of.tried;
  for (int j = 0; j < nq; ++j)
    q[j] = SearchReal(clamped(sequence_seed(of.request.entries, number, j), j));
  if (is_corner_seed(number)) {
    SearchReal corner[nq];  // a copy, because arrays that are passed to a function leave registers
    start_at_corner(of.request, of.number, number, corner);
    for (int j = 0; j < nq; ++j) q[j] = corner[j];
  }
}

// Gives the threads that want another start (`again`) the next starts, and moves q to their seeds.
__device__ __forceinline__ void take_starts(const Problem& of, Progress& now, bool again,
                                            SearchReal* q) {
  const unsigned asking = __ballot_sync(everyone, again);
  if (again) {
    now.start = now.next + __popc(asking & ((1u << of.lane) - 1));
    now.open = now.start < of.most;
    restart(of, now.start, q);
    now.iteration = 0;
    now.before = huge_cost;
  }
  now.next = min(now.next + __popc(asking), max(of.most, warp_size));
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
// first that does not collide. Returns whether the solution of this thread is rejected. `rejected`
// counts the rejected solutions; the first of them is written, unless another solution was written
// before.
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

// Polishes the configurations `here` of the threads for which `found` is true. Tries Newton's
// method if several threads have nearly met the target. `reject` rejects polished solutions that
// collide; `collided` is set if it rejects one.
template <class Reject>
__device__ __forceinline__ void polish_found(const Problem& of, Progress& now,
                                             const SearchReal* here, bool found, bool& collided,
                                             Polished& polished, Reject&& reject) {
  SearchReal q[nq];  // a copy, because arrays that are passed to a function leave registers
  for (int j = 0; j < nq; ++j) q[j] = here[j];
  if constexpr (several) {
    if (found) polish_start(of.request, of.number, q, Company::none, polished);
  } else {
    const Company company = found ? Company::starts : Company::idle;
    polish_start(of.request, of.number, q, company, polished);
  }
  reject();
  if (__any_sync(everyone, polished.solved)) return;
  now.missed += __popc(__ballot_sync(everyone, found && !collided));
  if (now.missed < (now.settled ? singular : 1) || now.settled >= 2) return;
  ++now.settled;
  double from[nq];
  for (int j = 0; j < nq; ++j) from[j] = q[j];
  const Company company = found && !collided ? Company::starts : Company::idle;
  settle(of.request, of.number, from, min_gain_factor, few_newton_iterations, company, polished);
  reject();
}

// Adds the solutions of the threads to those that are kept, after trying Newton's method from the
// problem's own start if that has stalled with a small cost. Returns whether the search is over.
template <class Reject>
__device__ __forceinline__ bool compare_solutions(const Problem& of, Progress& now, SearchReal cost,
                                                  bool stalled, bool collided, const int& rejected,
                                                  Polished& polished, KeptSolutions& kept,
                                                  Reject&& reject) {
  const Request& request = of.request;
  const bool singular_own =
      of.near_own && now.own && stalled && !polished.solved && !collided && cost < near_miss;
  if (singular_own) {
    double from[nq];  // Newton's method also converges to a singular pose
    for (int j = 0; j < nq; ++j) from[j] = own_start(request, of.number, j);
    settle(request, of.number, from, 1, polish_newton_iterations, Company::none, polished);
  }
  if (checks && __any_sync(everyone, singular_own)) reject();
  if (__any_sync(everyone, polished.solved)) {
    if (of.near_own && polished.solved) unwind_polished(request, of.number, polished);
    const bool ends =
        of.own_first && now.own && polished.solved &&
        (!of.near_own || displacement_from_start(request, of.number, polished.q) <= near_q0);
    if (ends) record(request, of.number, 0, polished, Outcome::solved, now.iterations, 1);
    if (__any_sync(everyone, ends)) return true;
    keep_solutions(request, of.number, polished, now.iterations, starts_of(of, now), kept);
  }
  const bool waits = of.own_first && __any_sync(everyone, now.open && now.own && !stalled);
  const bool enough = kept.enough(request.nearest, request.max_solutions) ||
                      (checks && rejected >= request.max_rejected);
  if (!enough || waits) return false;
  now.undecided = rejected > 0;
  return true;
}

// Reviews the failed starts of all threads, unless the problem has solutions. Records the result if
// the problem is decided or there are no more starts. Returns whether the search is over.
__device__ __forceinline__ bool review(const Problem& of, Progress& now, FailedStarts& failures,
                                       bool has_solutions, Polished& polished) {
  const bool last = now.next >= of.most;
  if (has_solutions) return last;
  const int best =
      decide_failed(of.request, of.number, failures, starts_of(of, now), last, polished);
  if (of.near_own && of.lane == best && !polished.solved) {
    prefer_own(of.request, of.number, polished);
  }
  Outcome outcome = outcome_of(polished.solved, false, failures.bound);
  if constexpr (checks) {
    const bool solves = of.lane == best && outcome == Outcome::solved;
    if (solves && collides(of.request, of.number, polished.q)) outcome = Outcome::blocked;
    now.undecided = __any_sync(everyone, of.lane == best && outcome == Outcome::blocked);
  }
  record_first(of, now, polished, of.lane == best, outcome);
  return best >= 0;
}

// Completes the record of a problem with solutions that collide. All solutions of the arm are
// computed afterwards for problems in `blocked`, if it exists.
__device__ void record_blocked(const Problem& of, const Progress& now, int rejected) {
  const Request& request = of.request;
  if (of.lane || !(rejected || now.undecided)) return;
  if (request.blocked && now.undecided) {
    request.outcome[of.number] = Outcome::blocked;
    request.blocked[atomicAdd(request.counter + 2, 1)] = of.number;
  }
  if (request.outcome[of.number] == Outcome::blocked) {
    request.effort[2 * of.number] = iterations_of(of, now);
    request.effort[2 * of.number + 1] = starts_of(of, now) - 1;
  }
}

// Searches until the problem is decided, with the target in the state `at`.
__device__ __forceinline__ void solve(const Problem& of, IterateState<SearchReal>& at,
                                      int rejected) {
  const Request& request = of.request;
  Progress now = begin(of, at.target, at.q);
  at.before = -1;
  FailedStarts failures;
  failures.clear(at.q);
  KeptSolutions kept;
  for (;;) {
    __syncwarp();
    SearchReal here[nq];  // the configuration that is evaluated
    for (int j = 0; j < nq; ++j) here[j] = at.q[j];
    if constexpr (large) {
      iterate(at);
    } else {
      evaluate(at);
    }
    ++now.iteration;
    ++now.iterations;
    const bool found = now.open && search_converged(request, at);
    const int patience = of.near_own && now.own ? patient_after : now.start;
    const bool stalled = now.open && (is_stalled(patience, now.iteration, iteration_factor,
                                                 float(at.cost), now.before) ||
                                      found);
    Polished polished;
    polished.solved = false;
    bool collided = false;
    const auto reject = [&] {
      if constexpr (checks) {
        collided |= reject_colliding(request, of.number, polished, iterations_of(of, now),
                                     starts_of(of, now), kept, rejected);
      }
    };
    if (__any_sync(everyone, found)) {
      polish_found(of, now, here, found, collided, polished, reject);
      if constexpr (!several) {
        const int winner = first_of(polished.solved);
        record_first(of, now, polished, of.lane == winner, Outcome::solved);
        if (winner >= 0) break;
      }
    }
    if constexpr (several) {
      if (compare_solutions(of, now, at.cost, stalled, collided, rejected, polished, kept,
                            reject)) {
        break;
      }
    } else if (checks && rejected >= request.max_rejected) {
      now.undecided = true;
      break;
    }
    const bool solved = polished.solved || collided;
    if (stalled && !solved) failures.store(here, float(at.cost));
    now.failed += stalled && !solved;
    bool again = stalled && (solved || now.failed < starts_per_round);
    now.open = now.open && !stalled;
    now.own = now.own && !stalled;
    if (!__any_sync(everyone, now.open || again)) {  // all threads have failed
      const bool has_solutions = (several && kept.found) || (checks && rejected);
      if (review(of, now, failures, has_solutions, polished)) break;
      now.failed = 0;
      again = true;
    }
    if constexpr (!large) take_step(at);
    take_starts(of, now, again, at.q);
    if (again) at.before = -1;
  }
  __syncwarp();
  if constexpr (checks) record_blocked(of, now, rejected);
}

}  // namespace

// Runs one warp for each problem that `finish` has left unsolved, or for every problem. If `view`
// has data, the targets are read from it first (`read_target`).
extern "C" __global__ void __launch_bounds__(64)
    explore(Request request, int left, View view, TargetKind kind) {
  const int lane = threadIdx.x % warp_size, total = left ? request.counter[1] : request.count;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / warp_size, stride = gridDim.x * 2;
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
    const bool was_blocked = checks && left && request.outcome[problem] == Outcome::blocked;
    solve(Problem(request, problem, left), at, was_blocked);
  }
}

}  // namespace supple
