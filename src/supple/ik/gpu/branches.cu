// All solutions of poses of a 6-joint arm with a closed form, polished and verified in double
// precision: one thread for each target. The formulas and decisions are those of the CPU
// (supple/ik/closed_form.hpp, supple/ik/branch.hpp).
//
// Compiled at run time for one robot: given.hpp holds its constants and those of the arm, `Arm`
// (branches.py), which has one sample of each continuum.
#include "supple/ik/branch.hpp"
//
#include "problem.hpp"

namespace supple {

constexpr int capacity = 8;  // solutions of a target (the same as `CAPACITY` in branches.py)

// The arguments of a call. (The same layout as `Request` in branches.py.)
struct BranchRequest {
  const double* target;       // (count, 12)
  const double* q0;           // (count, n), or (n,), or null
  double* q;                  // (count, capacity, n); NaN beyond the solutions
  double* error;              // (count, capacity, 2): position [m], rotation [rad]; infinite beyond
  int* found;                 // (count,): number of solutions
  signed char* certain;       // (count,): whether these are all, and none belongs to a continuum
  double position, rotation;  // tolerances [m], [rad]
  int count;
  int q0_step;  // n, or 0 if all targets share one q0
  int nearest;  // whether those nearest to q0 come first
};

namespace {

// Candidates of a target.
struct Candidates {
  Turn<double> turn[capacity][6];
  int count;
  bool certain;
};

__device__ __noinline__ void find(const double* target, Candidates& all) {
  all.count = 0;
  all.certain = true;
  closed_form_candidates(Arm::form, displacement_to(Arm::home, target),
                         [&](const Candidate<double>& one) {
                           const bool critical = one.mark.critical && Arm::form.slack > 0;
                           if (one.mark.sampled || critical) all.certain = false;
                           if (all.count == capacity) {
                             all.certain = false;
                             return;
                           }
                           for (int i = 0; i < 6; ++i) all.turn[all.count][i] = one.turn[i];
                           ++all.count;
                         });
}

__device__ __noinline__ bool polished(const BranchRequest& request, IterateState<double>& at) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  return polish_branch(
      ik, at, [&] { return at.position <= request.position && at.rotation <= request.rotation; },
      [&] { descend(at); });
}

// Solutions of a target, in the order in which they are found.
struct Solved {
  double q[capacity][n], error[capacity][2];
  int count;
};

// Verifies a candidate, and adds it if it is a new solution. Returns whether it is certain that no
// solution is lost.
__device__ bool verify(const BranchRequest& request, const double* target, const double* q0,
                       const Turn<double>* turn, Solved& found) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  constexpr bool exact = !(Arm::form.slack > 0);
  StateMemory<double> memory;
  IterateState<double> at = memory.state();
  for (int i = 0; i < numbers; ++i) at.target[i] = target[i];
  for (int j = 0; j < n; ++j) at.q[j] = kept_coordinate(ik, j, q0);
  bool inside = true;
  double start[6];
  for (int i = 0; i < 6; ++i) {
    const int j = Arm::coordinate[i];
    start[i] = angle_of(turn[i]);
    at.q[j] = placed(ik, j, turn_reference(ik, j, q0), Arm::form.slack, start[i], inside);
  }
  if (!inside) return true;
  evaluate_error(ik, at);
  bool certain = true;
  if (!is_fine(at)) {
    if (!polished(request, at)) return exact;
    for (int i = 0; i < 6 && !exact; ++i) {
      if (abs(without_turns(at.q[Arm::coordinate[i]] - start[i])) > branch_far) certain = false;
    }
  }
  for (int k = 0; k < found.count; ++k) {
    if (is_same_branch(Arm::coordinate, found.q[k], at.q)) return exact;
  }
  for (int j = 0; j < n; ++j) found.q[found.count][j] = at.q[j];
  found.error[found.count][0] = at.position;
  found.error[found.count][1] = at.rotation;
  ++found.count;
  return certain;
}

// Writes the solutions of a target, sorted by their costs.
__device__ void write(const BranchRequest& request, int problem, const double* q0,
                      const Solved& found) {
  double cost[capacity];
  for (int k = 0; k < capacity; ++k) {
    cost[k] = k < found.count ? branch_cost(RobotConstants<double>::ik, found.q[k],
                                            request.nearest ? q0 : nullptr)
                              : Number<double>::huge;
  }
  double* const q = request.q + static_cast<long long>(problem) * (capacity * n);
  double* const error = request.error + static_cast<long long>(problem) * (capacity * 2);
  const double nowhere = __longlong_as_double(0x7ff8000000000000ll);
  const double infinite = __longlong_as_double(0x7ff0000000000000ll);
  for (int k = 0; k < capacity; ++k) {
    int place = 0;  // in the order of costs; of equal ones the first comes first
    for (int i = 0; i < capacity; ++i) place += cost[i] < cost[k] || (cost[i] == cost[k] && i < k);
    const bool there = k < found.count;
    for (int j = 0; j < n; ++j) q[place * n + j] = there ? found.q[k][j] : nowhere;
    for (int i = 0; i < 2; ++i) error[place * 2 + i] = there ? found.error[k][i] : infinite;
  }
}

}  // namespace

extern "C" __global__ void branches(BranchRequest request) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= request.count) return;
  double target[numbers];
  for (int i = 0; i < numbers; ++i) {
    target[i] = request.target[static_cast<long long>(problem) * numbers + i];
  }
  const double* const q0 =
      request.q0 ? request.q0 + static_cast<long long>(problem) * request.q0_step : nullptr;
  Solved found;
  found.count = 0;
  bool certain = false;
  if (is_valid(numbers, target, n, q0)) {
    Candidates all;
    find(target, all);
    certain = all.certain;
    for (int k = 0; k < all.count; ++k) {
      certain = verify(request, target, q0, all.turn[k], found) && certain;
    }
  }
  write(request, problem, q0, found);
  request.found[problem] = found.count;
  request.certain[problem] = certain;
}

}  // namespace supple
