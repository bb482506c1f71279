// All solutions of poses of a 6-joint arm with a closed form, verified and if necessary polished in
// double precision. The formulas and decisions are those of the CPU (supple/ik/closed_form.hpp,
// supple/ik/branch.hpp).
//
// Two CUDA kernels: `find` computes the candidates of each target with one thread, and `verify`
// checks each candidate with a thread of its own. `find` needs all registers, `verify` few. Both
// solve all targets, or the targets in a list, whose length only the GPU knows. In a world,
// `choose` decides blocked targets, and `keep` drops solutions that collide; both use a thread for
// each solution.
//
// Compiled at run time for one robot: given.hpp holds its constants and those of its arm, `Arm`
// (branches.py), with one sample of each continuum.
#include "supple/ik/branch.hpp"
//
#include "comfort.hpp"

namespace supple {

constexpr int capacity = 8;  // largest number of candidates of a target (`CAPACITY` in branches.py)
constexpr int threads = 64;  // number of threads in a block (`_THREADS` in branches.py)
// Number of blocks that run on a multiprocessor at the same time; it limits the registers of a
// thread.
constexpr int finding = 6, verifying = 8;

// The arguments of a call. (The same layout as `Request` in branches.py.)
struct BranchRequest {
  const double* target;  // (count, 12)
  const double* q0;      // (count, nq), or (nq,), or null
  double* turn;          // (capacity, 6, 2, count): cosines and sines of the joints of candidates
  double* q;             // (count, capacity, nq); NaN after the last solution
  double* error;         // (count, capacity, 2): [m], [rad]; infinite after the last solution
  int* found;            // (count,): number of candidates; after `verify`, of solutions
  signed char* certain;  // (count,): whether no solution is missing or part of a continuum
  double position, rotation;  // tolerances [m], [rad]
  int count;
  int q0_stride;    // nq, or 0 if all targets share one q0
  int nearest;      // whether the solutions nearest to q0 come first
  int comfortable;  // whether the most comfortable solutions come first
  // The problems of the rows of the arrays `turn` to `certain`: row i is entry `first` + i of this
  // list, which has *listed entries. If it is null, row i is problem i.
  const int* list;
  const int* listed;
  int first;
};

namespace {

constexpr bool exact = !(Arm::form.slack > 0);

// Returns the problem of a row, or -1 if there is none.
__device__ int problem_of(const BranchRequest& request, int row) {
  if (row >= request.count) return -1;
  if (!request.list) return row;
  const int i = request.first + row;
  return i < *request.listed ? request.list[i] : -1;
}

__device__ const double* q0_of(const BranchRequest& request, long long problem) {
  return request.q0 ? request.q0 + problem * request.q0_stride : nullptr;
}

// Returns the address of the cosine of joint i of a candidate; its sine is `request.count` numbers
// later.
__device__ double* turn_of(const BranchRequest& request, int row, int candidate, int i) {
  return request.turn + (candidate * 12LL + 2 * i) * request.count + row;
}

__device__ BranchTolerances tolerances(const BranchRequest& request) {
  return {request.position, request.rotation};
}

// A configuration and its errors.
struct Point {
  double q[nq], position, rotation;
};

__device__ __noinline__ bool polished(const BranchRequest& request, IterateState<double>& at) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  return polish_branch(ik, tolerances(request), at, [&] { take_step(at); });
}

// Polishes a candidate whose errors are too large or that was rounded to a limit. The function uses
// memory of its own, so that the caller's numbers stay in registers. Returns whether the result is
// a solution.
__device__ __noinline__ bool repaired(const BranchRequest& request, const double* target,
                                      Point& point, bool& certain) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  StateMemory<double> memory;
  IterateState<double> at = memory.state();
  for (int i = 0; i < numbers; ++i) at.target[i] = target[i];
  for (int j = 0; j < nq; ++j) at.q[j] = point.q[j];
  evaluate_error(ik, at);
  if (!tolerances(request).hold(at, branch_fine)) {
    if (!polished(request, at)) {
      certain = certain && exact;
      return false;
    }
    for (int i = 0; i < 6 && !exact; ++i) {
      const int j = Arm::coordinate[i];
      if (abs(without_turns(coordinate_difference(at.q[j], point.q[j]))) > branch_far)
        certain = false;
    }
  }
  for (int j = 0; j < nq; ++j) point.q[j] = at.q[j];
  point.position = at.position;
  point.rotation = at.rotation;
  return true;
}

// Evaluates a candidate: its configuration inside the limits and its errors. Returns whether it is
// a solution; `certain` becomes false if a solution may be missing.
__device__ bool solves(const BranchRequest& request, int row, int problem, int candidate,
                       Point& point, bool& certain) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  const double* const q0 = q0_of(request, problem);
  const double* const target = request.target + static_cast<long long>(problem) * numbers;
  StateMemory<double> memory;
  IterateState<double> at = memory.state();
  for (int i = 0; i < numbers; ++i) at.target[i] = target[i];
  for (int j = 0; j < nq; ++j) at.q[j] = kept_coordinate(ik, j, q0);
  bool inside = true, clamped = false;
  double cosine[6], sine[6];
  for (int i = 0; i < 6; ++i) {
    const int j = Arm::coordinate[i];
    const double* const turn = turn_of(request, row, candidate, i);
    cosine[i] = turn[0];
    sine[i] = turn[request.count];
    at.q[j] = placed(ik, j, turn_reference(ik, j, q0), Arm::form.slack,
                     unit_angle(cosine[i], sine[i]), inside, clamped);
  }
  if (!inside) return false;
  evaluate_turns(ik, Arm::coordinate, cosine, sine, at);
  for (int j = 0; j < nq; ++j) point.q[j] = at.q[j];
  point.position = at.position;
  point.rotation = at.rotation;
  if (!clamped && tolerances(request).hold(at, branch_fine)) return true;
  Point other = point;
  if (!repaired(request, target, other, certain)) return false;
  point = other;
  return true;
}

// The work of a thread: a row and its problem (-1 if there is none), the number of a solution, and
// the first of the `capacity` threads of its warp that have the same row.
struct Place {
  int row, problem, number, first;
};

__device__ Place place_of_thread(const BranchRequest& request) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int row = static_cast<int>(i / capacity);
  return {row, problem_of(request, row), static_cast<int>(i % capacity),
          static_cast<int>(threadIdx.x) % 32 / capacity * capacity};
}

__device__ void write_row(const BranchRequest& request, long long to, const double* q,
                          const double* errors) {
  for (int j = 0; j < nq; ++j) request.q[to * nq + j] = q[j];
  for (int k = 0; k < 2; ++k) request.error[to * 2 + k] = errors[k];
}

// Marks a row without a solution.
__device__ void clear_row(const BranchRequest& request, long long to) {
  const double nowhere = __longlong_as_double(0x7ff8000000000000ll);
  const double infinite = __longlong_as_double(0x7ff0000000000000ll);
  for (int j = 0; j < nq; ++j) request.q[to * nq + j] = nowhere;
  for (int k = 0; k < 2; ++k) request.error[to * 2 + k] = infinite;
}

// Whether an earlier candidate of the same target is the same solution. All threads of a warp call
// this function; the candidates of a target are `capacity` consecutive threads, the first of which
// is `first`.
__device__ bool is_known(const Point& point, bool solution, int first, int number) {
  bool known = false;
  for (int k = 0; k < capacity - 1; ++k) {
    const bool there = __shfl_sync(everyone, static_cast<int>(solution), first + k) != 0;
    bool same = there && solution && k < number;
    for (int i = 0; i < 6; ++i) {
      if (!__any_sync(everyone, same)) break;
      const double mine = point.q[Arm::coordinate[i]];
      const double other = __shfl_sync(everyone, mine, first + k);
      same = same && is_same_angle(mine, other);
    }
    known = known || same;
  }
  return known;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, finding) find(BranchRequest request) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x, problem = problem_of(request, row);
  if (problem < 0) return;
  double target[numbers];
  for (int i = 0; i < numbers; ++i) {
    target[i] = request.target[static_cast<long long>(problem) * numbers + i];
  }
  int count = 0;
  bool certain = supple::is_valid(numbers, target, nq, q0_of(request, problem));
  if (certain) {
    closed_form_candidates(Arm::form, displacement_to(Arm::home, target),
                           [&](const Candidate<double>& one) {
                             const bool critical = one.mark.critical && !exact;
                             if (one.mark.sampled || critical || count == capacity) certain = false;
                             if (count == capacity) return;
                             for (int i = 0; i < 6; ++i) {
                               double* const turn = turn_of(request, row, count, i);
                               turn[0] = one.turn[i].c;
                               turn[request.count] = one.turn[i].s;
                             }
                             ++count;
                           });
  }
  request.found[row] = count;
  request.certain[row] = certain;
}

extern "C" __global__ void __launch_bounds__(threads, verifying) verify(BranchRequest request) {
  const Place at = place_of_thread(request);
  const int row = at.row, problem = at.problem, number = at.number, first = at.first;
  const bool there = problem >= 0;
  const int candidates = there ? request.found[row] : 0;
  bool certain = there && request.certain[row];
  Point point;
  bool solution = number < candidates && solves(request, row, problem, number, point, certain);
  if (is_known(point, solution, first, number)) {
    solution = false;
    certain = certain && exact;
  }
  // The index at which the candidate is written: solutions come first, sorted by cost, then number.
  const double* const q0 = there && request.nearest ? q0_of(request, problem) : nullptr;
  double cost = Number<double>::huge;
  if (solution) {
    cost = request.comfortable ? discomfort(point.q)
                               : branch_cost(RobotConstants<double>::ik, point.q, q0);
  }
  int place = 0;
  for (int k = 0; k < capacity; ++k) {
    const double other = __shfl_sync(everyone, cost, first + k);
    place += other < cost || (other == cost && k < number);
  }
  const unsigned group = (1u << capacity) - 1;
  const unsigned solutions = __ballot_sync(everyone, solution) >> first & group;
  const unsigned uncertain = __ballot_sync(everyone, !certain) >> first & group;
  if (!there) return;
  const long long to = static_cast<long long>(row) * capacity + place;
  const double errors[] = {point.position, point.rotation};
  if (solution) {
    write_row(request, to, point.q, errors);
  } else {
    clear_row(request, to);
  }
  if (number == 0) {
    request.found[row] = __popc(solutions);
    request.certain[row] = uncertain == 0;
  }
}

namespace {

// Whether the solution of a thread, which must exist, does not collide. `q` and `errors` receive
// the solution.
__device__ bool is_free(const Request& world, const BranchRequest& request, const Place& at,
                        double* q, double* errors) {
  const long long from = static_cast<long long>(at.row) * capacity + at.number;
  for (int j = 0; j < nq; ++j) q[j] = request.q[from * nq + j];
  for (int k = 0; k < 2; ++k) errors[k] = request.error[from * 2 + k];
  if constexpr (checks) return !collides(world, at.problem, q);
  return true;
}

}  // namespace

// Decides problems whose solutions found so far collide: writes the first solution that does not
// collide. If there is none, the problem is blocked; it is left to `explore` if there may be more
// solutions.
extern "C" __global__ void __launch_bounds__(threads) choose(Request world, BranchRequest request) {
  if constexpr (checks) {
    const Place at = place_of_thread(request);
    const bool there = at.problem >= 0;
    const int found = there ? request.found[at.row] : 0;
    double q[nq], errors[2];
    const bool free = at.number < found && is_free(world, request, at, q, errors);
    const unsigned group = (1u << capacity) - 1;
    const unsigned all = __ballot_sync(everyone, free) >> at.first & group;
    if (free && __ffs(all) - 1 == at.number) {
      for (int j = 0; j < nq; ++j) world.q[at.problem * nq + j] = q[j];
      for (int k = 0; k < 2; ++k) world.error[2 * at.problem + k] = errors[k];
      world.outcome[at.problem] = Outcome::solved;
    }
    const bool open = there && !all && !(found && request.certain[at.row]);
    if (open && at.number == 0) world.left[take(world.counter + 1)] = at.problem;
  }
}

// Drops the solutions that collide; the others move up.
extern "C" __global__ void __launch_bounds__(threads) keep(Request world, BranchRequest request) {
  if constexpr (checks) {
    const Place at = place_of_thread(request);
    const bool there = at.problem >= 0;
    const int found = there ? request.found[at.row] : 0;
    double q[nq], errors[2];
    const bool free = at.number < found && is_free(world, request, at, q, errors);
    const unsigned group = (1u << capacity) - 1;
    const unsigned all = __ballot_sync(everyone, free) >> at.first & group;
    if (!there) return;
    const long long first = static_cast<long long>(at.row) * capacity;
    const int kept = __popc(all), before = __popc(all & ((1u << at.number) - 1));
    if (at.number >= kept && at.number < found) {  // (a row that no solution moves to)
      clear_row(request, first + at.number);
    }
    if (free) write_row(request, first + before, q, errors);
    if (at.number == 0) request.found[at.row] = kept;
  }
}

}  // namespace supple
