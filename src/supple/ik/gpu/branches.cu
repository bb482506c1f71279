// All solutions of poses of a 6-joint arm with a closed form, verified and if necessary polished in
// double precision. The formulas and decisions are those of the CPU (supple/ik/closed_form.hpp,
// supple/ik/branch.hpp).
//
// Two CUDA kernels: `find` computes the candidates of each target with one thread, and `verify`
// checks each candidate with a thread of its own. `find` needs all registers, `verify` few.
//
// Compiled at run time for one robot: given.hpp holds its constants and those of its arm, `Arm`
// (branches.py), with one sample of each continuum.
#include "supple/ik/branch.hpp"
//
#include "problem.hpp"

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
  int q0_stride;  // nq, or 0 if all targets share one q0
  int nearest;    // whether the solutions nearest to q0 come first
};

namespace {

constexpr bool exact = !(Arm::form.slack > 0);

__device__ const double* q0_of(const BranchRequest& request, long long problem) {
  return request.q0 ? request.q0 + problem * request.q0_stride : nullptr;
}

// Returns the address of the cosine of joint i of a candidate; its sine is `request.count` numbers
// later.
__device__ double* turn_of(const BranchRequest& request, int problem, int candidate, int i) {
  return request.turn + (candidate * 12LL + 2 * i) * request.count + problem;
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

// Polishes a candidate whose errors are too large or that was rounded to a limit. It uses memory of
// its own, so that the caller's numbers stay in registers. Returns whether the result is a
// solution.
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
__device__ bool solves(const BranchRequest& request, int problem, int candidate, Point& point,
                       bool& certain) {
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
    const double* const turn = turn_of(request, problem, candidate, i);
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

// Whether an earlier candidate of the same target is the same solution. All threads of a warp call
// it; the candidates of a target are `capacity` consecutive threads, the first of which is `first`.
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
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= request.count) return;
  double target[numbers];
  for (int i = 0; i < numbers; ++i) {
    target[i] = request.target[static_cast<long long>(problem) * numbers + i];
  }
  int count = 0;
  bool certain = is_valid(numbers, target, nq, q0_of(request, problem));
  if (certain) {
    closed_form_candidates(Arm::form, displacement_to(Arm::home, target),
                           [&](const Candidate<double>& one) {
                             const bool critical = one.mark.critical && !exact;
                             if (one.mark.sampled || critical || count == capacity) certain = false;
                             if (count == capacity) return;
                             for (int i = 0; i < 6; ++i) {
                               double* const turn = turn_of(request, problem, count, i);
                               turn[0] = one.turn[i].c;
                               turn[request.count] = one.turn[i].s;
                             }
                             ++count;
                           });
  }
  request.found[problem] = count;
  request.certain[problem] = certain;
}

extern "C" __global__ void __launch_bounds__(threads, verifying) verify(BranchRequest request) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int problem = static_cast<int>(row / capacity), number = static_cast<int>(row % capacity);
  const int first = static_cast<int>(threadIdx.x) % 32 / capacity * capacity;
  const bool there = problem < request.count;
  const int candidates = there ? request.found[problem] : 0;
  bool certain = there && request.certain[problem];
  Point point;
  bool solution = number < candidates && solves(request, problem, number, point, certain);
  if (is_known(point, solution, first, number)) {
    solution = false;
    certain = certain && exact;
  }
  // The index at which the row is written: solutions come first, sorted by cost and then by number.
  const double* const q0 = there && request.nearest ? q0_of(request, problem) : nullptr;
  const double cost =
      solution ? branch_cost(RobotConstants<double>::ik, point.q, q0) : Number<double>::huge;
  int place = 0;
  for (int k = 0; k < capacity; ++k) {
    const double other = __shfl_sync(everyone, cost, first + k);
    place += other < cost || (other == cost && k < number);
  }
  const unsigned group = (1u << capacity) - 1;
  const unsigned solutions = __ballot_sync(everyone, solution) >> first & group;
  const unsigned uncertain = __ballot_sync(everyone, !certain) >> first & group;
  if (!there) return;
  const double nowhere = __longlong_as_double(0x7ff8000000000000ll);
  const double infinite = __longlong_as_double(0x7ff0000000000000ll);
  const long long to = static_cast<long long>(problem) * capacity + place;
  for (int j = 0; j < nq; ++j) request.q[to * nq + j] = solution ? point.q[j] : nowhere;
  request.error[to * 2] = solution ? point.position : infinite;
  request.error[to * 2 + 1] = solution ? point.rotation : infinite;
  if (number == 0) {
    request.found[problem] = __popc(solutions);
    request.certain[problem] = uncertain == 0;
  }
}

}  // namespace supple
