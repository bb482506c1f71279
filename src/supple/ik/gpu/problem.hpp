// What the kernels of position inverse kinematics on a GPU share: problems, starts, solutions.
//
// Compiled when run, for a robot, its tasks and a rule: given.hpp is the text of their constants
// (src/core/drivers/gpu_constants.hpp), and `SearchReal`, the numbers of the search: floats, which
// are fast, unless all shall be doubles. Nothing of floats is returned before it has been measured
// in double.
#pragma once

#include "supple/ik/reachability.hpp"
#include "supple/ik/postprocess.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

constexpr int n = RobotConstants<SearchReal>::ik.chain.coordinates;
constexpr int rows = RobotConstants<SearchReal>::ik.rows;
constexpr int numbers = RobotConstants<SearchReal>::ik.targets;
constexpr int iteration_factor = RobotConstants<SearchReal>::ik.iteration_factor;
constexpr bool remembers = RobotConstants<SearchReal>::ik.step.damping.rule == Rule::mayorga_rank;

// Whether iterations are so large that they are compiled apart from what they are part of: the time
// that the compiler takes grows faster than what it is given, above all where there are calls.
constexpr bool large = rows * n > 100;
constexpr int tries = rows > 6 ? 16 : 8;  // starts of a problem in search.cu
constexpr unsigned everyone = ~0u;

}  // namespace

// What a call is about. (The same layout as `Request` in position.py.)
struct Request {
  const double* target;  // (count, numbers)
  const double* q0;      // (count, n), or null
  const float* table;    // (numbers + 1, entries): what seeds reach, scaled, and half its square
  const double* seeds;   // (entries, n)
  double* q;             // (count, n)
  signed char* outcome;  // (count,)
  double* error;         // (count, 2): position [m], rotation [rad]
  int* effort;           // (count, 2): iterations, starts unreachable_fraction the first
  unsigned short* near;  // (count, listed): of the table, the nearest first
  SearchReal* rough;     // (count, n): what `search` has found
  int* left;             // (count,): problems that it has not
  int* counter;          // problems taken by `search`, and problems left
  double position, rotation;             // tolerances [m], [rad]
  float rough_position, rough_rotation;  // those of the search
  int count, entries;
  int max_starts;     // of a problem; 0: the usual number
  int q0_step;        // n, or 0: one start for all
  int nearest;        // whether the record_first shall be near q0
  int max_solutions;  // solutions to a problem, for which q, outcome, error and effort have room
  int* solutions;     // (count,): how many there are; null if one is enough
};

// What came of a thread's descent in double.
struct Polished {
  double q[n], cost, position, rotation;
  bool solved;

  __device__ void store(const IterateState<double>& at) {
    for (int j = 0; j < n; ++j) q[j] = at.q[j];
    cost = at.cost;
    position = at.position;
    rotation = at.rotation;
  }
};

// In iterate.cu, polish.cu, closest.cu and settle.cu: files are compiled at the same time, and
// linked.
extern __device__ void iterate(IterateState<SearchReal>& at);
extern __device__ void polish_start(const Request& request, int problem, const SearchReal* q,
                                    Polished& polished);
extern __device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                           const SearchReal* along, SearchReal length,
                                           float& value);
extern __device__ void settle(const Request& request, int problem, const double* q,
                              float gain_factor, Polished& polished);

namespace {

// Whether problems have a start of their own: q0, or the posture that is wished.
__device__ bool has_own_start(const Request& request) { return request.q0 || Posture::posture; }

// Coordinate j of the posture that is wished for, or what stands for it.
__device__ double posture(const Request& request, int problem, int j) {
  const int k = Posture::rest[j];
  if (k >= 0) return request.target[problem * numbers + k];
  return ::fmin(::fmax(0.0, RobotConstants<double>::lower[j]), RobotConstants<double>::upper[j]);
}

// Coordinate j of a problem's own start.
__device__ double own_start(const Request& request, int problem, int j) {
  return request.q0 ? request.q0[problem * request.q0_step + j] : posture(request, problem, j);
}

// One start, and the memory it works in.
template <class T>
struct StateMemory {
  T q[n], target[numbers], J[rows * n], e[rows], work[iterate_scratch(RobotConstants<T>::ik)];
  T J_before[remembers ? rows * n : 1];

  __device__ IterateState<T> state() {
    return {q, target, T(0), T(0), T(0), J, e, work, J_before, T(-1)};
  }
};

template <class T>
__device__ __noinline__ void evaluate_noinline(IterateState<T>& at) {
  evaluate(RobotConstants<T>::ik, at);
}

template <bool separate = false, class T>
__device__ __forceinline__ void evaluate(IterateState<T>& at) {
  if constexpr (separate) return evaluate_noinline(at);
  evaluate(RobotConstants<T>::ik, at);
}

template <class T>
__device__ __forceinline__ void descend(IterateState<T>& at) {
  constexpr bool any_rule = !uses_error_norm(RobotConstants<T>::ik);
  constexpr bool long_joints = RobotConstants<T>::ik.joint_scale != nullptr;
  descend<any_rule, long_joints>(RobotConstants<T>::ik, Fixed<rows>{}, Fixed<n>{}, at);
}

template <const auto& ik, class T>
__device__ __noinline__ bool minimize_noinline(IterateState<T>& at, Minimization<T>& minimum,
                                               T value, bool flat) {
  return minimize(ik, at, minimum, value, at.cost, flat);
}

// One step of Newton's method towards the least value.
template <const auto& ik, class T>
__device__ __forceinline__ bool minimize(IterateState<T>& at, Minimization<T>& minimum, T value,
                                         bool flat) {
  if constexpr (large) return minimize_noinline<ik>(at, minimum, value, flat);
  return minimize(ik, at, minimum, value, at.cost, flat);
}

__device__ double clamped(double x, int j) {
  return ::fmin(::fmax(x, RobotConstants<double>::lower[j]), RobotConstants<double>::upper[j]);
}

__device__ bool is_valid(const Request& request, int problem) {
  bool good = true;
  for (int i = 0; i < numbers; ++i) {
    good &= abs(request.target[problem * numbers + i]) <= max_input;
  }
  for (int j = 0; request.q0 && j < n; ++j) {
    good &= abs(request.q0[problem * request.q0_step + j]) <= max_input;
  }
  return good;
}

// Coordinate j of a seed unreachable_fraction those of the table.
__device__ double sequence_seed(int entries, int seed, int j) {
  const double share = seed_fraction(seed, entries, RobotConstants<double>::sequence_step[j]);
  return RobotConstants<double>::seed_lower[j] + share * RobotConstants<double>::seed_range[j];
}

// The record_first of some number to a problem.
__device__ void record(const Request& request, int problem, int number, const Polished& polished,
                       Outcome outcome, int iterations, int starts) {
  const int row = problem * request.max_solutions + number;
  for (int j = 0; j < n; ++j) request.q[row * n + j] = polished.q[j];
  request.outcome[row] = static_cast<signed char>(outcome);
  request.error[2 * row] = polished.position;
  request.error[2 * row + 1] = polished.rotation;
  request.effort[2 * row] = iterations;
  request.effort[2 * row + 1] = starts > 1 ? starts - 1 : 0;
  if (request.solutions) request.solutions[problem] = number + 1;
}

// A problem that is not looked at.
__device__ void mark_skipped(const Request& request, int problem) {
  Polished polished;
  for (int j = 0; j < n; ++j) polished.q[j] = clamped(0, j);
  polished.position = polished.rotation = __longlong_as_double(0x7ff0000000000000ll);  // infinite
  record(request, problem, 0, polished, Outcome::nonfinite, 0, 0);
}

__device__ bool search_converged(const Request& request, const IterateState<SearchReal>& at) {
  const SearchReal tolerance =
      resolved_tolerance(RobotConstants<SearchReal>::ik, at, SearchReal(request.rough_position));
  return at.position <= tolerance && at.rotation <= request.rough_rotation;
}

__device__ bool converged(const Request& request, const IterateState<double>& at) {
  return at.position <= request.position && at.rotation <= request.rotation;
}

__device__ void aim(const Request& request, int problem, IterateState<double>& at) {
  for (int i = 0; i < numbers; ++i) at.target[i] = request.target[problem * numbers + i];
}

// Descends in double as long as the error falls. Returns whether it converged; J is that of the end
// only if it is `wanted`. (As `finish` in src/core/drivers/solutions.hpp.)
template <bool wanted>
__device__ bool polish(const Request& request, IterateState<double>& at) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  constexpr bool late = !wanted && !large;  // no J before a step needs it
  double least = 1e300;
  for (int i = 0, idle = 0;; ++i) {
    if constexpr (late) {
      evaluate_error(ik, at);
    } else {
      evaluate<large>(at);
    }
    const bool solved = converged(request, at), lower = at.cost <= polish_progress * least;
    if (lower) least = at.cost;
    idle = lower ? 0 : idle + 1;
    if (solved || idle >= polish_window * iteration_factor ||
        i == iteration_factor * max_polish_iterations)
      return solved;
    if constexpr (late) evaluate_jacobian(ik, at);
    descend(at);
  }
}

// The largest move of a joint from a problem's own start.
__device__ double distance_from_q0(const Request& request, int problem, const double* q) {
  double most = 0;
  for (int j = 0; j < n; ++j) most = ::fmax(most, abs(q[j] - own_start(request, problem, j)));
  return most;
}

// Whether whole turns are looked at: not where the first record_first will do.
__device__ bool unwinding_matters(const Request& request) {
  return Posture::turns && (Posture::posture || request.nearest || request.max_solutions > 1);
}

// A posture with its joints turned back to where they should be: at rest, near q0, or in the
// middle; a solution stays one. Right after `measure`, and so at the end. Returns whether any was.
__device__ __noinline__ bool unwind(const Request& request, int problem, IterateState<double>& at) {
  if (!unwinding_matters(request)) return false;
  const bool solved = converged(request, at);
  double kept[n];
  bool turned = false;
  for (int j = 0; j < n; ++j) {
    kept[j] = at.q[j];
    if (!(Posture::turn[j] > 0)) continue;
    double to = RobotConstants<double>::seed_lower[j] + 0.5 * RobotConstants<double>::seed_range[j];
    if (request.q0) to = request.q0[problem * request.q0_step + j];
    if (Posture::rest[j] >= 0) to = posture(request, problem, j);
    at.q[j] = nearest_wrap(kept[j], to, Posture::turn[j], RobotConstants<double>::lower[j],
                           RobotConstants<double>::upper[j]);
    turned |= at.q[j] != kept[j];
  }
  for (int looks = turned ? 2 : 0; looks; --looks) {
    evaluate<large>(at);
    if (looks == 1) return false;
    if (!solved || converged(request, at)) return true;
    for (int j = 0; j < n; ++j) at.q[j] = kept[j];  // rounding would spoil it
  }
  return false;
}

}  // namespace
}  // namespace supple
