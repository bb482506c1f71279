// What the kernels of position inverse kinematics on a GPU share: problems, starts, answers.
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
constexpr int pace = RobotConstants<SearchReal>::ik.pace;
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
  int* effort;           // (count, 2): iterations, starts beyond the first
  unsigned short* near;  // (count, listed): of the table, the nearest first
  SearchReal* rough;     // (count, n): what `search` has found
  int* left;             // (count,): problems that it has not
  int* counter;          // problems taken by `search`, and problems left
  double position, rotation;             // tolerances [m], [rad]
  float rough_position, rough_rotation;  // those of the search
  int count, entries;
  int max_starts;  // of a problem; 0: the usual number
  int q0_step;     // n, or 0: one start for all
  int nearest;     // whether the answer shall be near q0
  int most;        // answers to a problem, for which q, outcome, error and effort have room
  int* answers;    // (count,): how many there are; null if one is enough
};

// What came of a thread's descent in double.
struct Fine {
  double q[n], cost, position, rotation;
  bool solved;

  __device__ void keep(const IterateState<double>& at) {
    for (int j = 0; j < n; ++j) q[j] = at.q[j];
    cost = at.cost;
    position = at.position;
    rotation = at.rotation;
  }
};

// In iterate.cu, finish.cu, closest.cu and settle.cu: files are compiled at the same time, and
// linked.
extern __device__ void iterate(IterateState<SearchReal>& at);
extern __device__ void finished(const Request& request, int problem, const SearchReal* q,
                                Fine& fine);
extern __device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                           const SearchReal* along, SearchReal length,
                                           float& value);
extern __device__ void settle(const Request& request, int problem, const double* q, float stiff,
                              Fine& fine);

namespace {

// Whether problems have a start of their own: q0, or the posture that is wished.
__device__ bool started(const Request& request) { return request.q0 || Posture::posture; }

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
struct Start {
  T q[n], target[numbers], J[rows * n], e[rows], work[descent_work(RobotConstants<T>::ik)];
  T J_before[remembers ? rows * n : 1];

  __device__ IterateState<T> descent() {
    return {q, target, T(0), T(0), T(0), J, e, work, J_before, T(-1)};
  }
};

template <class T>
__device__ __noinline__ void measure_apart(IterateState<T>& at) {
  measure(RobotConstants<T>::ik, at);
}

template <bool apart = false, class T>
__device__ __forceinline__ void measure(IterateState<T>& at) {
  if constexpr (apart) return measure_apart(at);
  measure(RobotConstants<T>::ik, at);
}

template <class T>
__device__ __forceinline__ void descend(IterateState<T>& at) {
  constexpr bool any_rule = !usually_damped(RobotConstants<T>::ik);
  constexpr bool long_joints = RobotConstants<T>::ik.joint_scale != nullptr;
  descend<any_rule, long_joints>(RobotConstants<T>::ik, Fixed<rows>{}, Fixed<n>{}, at);
}

template <const auto& ik, class T>
__device__ __noinline__ bool approach_apart(IterateState<T>& at, Rest<T>& rest, T value,
                                            bool flat) {
  return approach(ik, at, rest, value, at.cost, flat);
}

// One step of Newton's method towards the least value.
template <const auto& ik, class T>
__device__ __forceinline__ bool approach(IterateState<T>& at, Rest<T>& rest, T value, bool flat) {
  if constexpr (large) return approach_apart<ik>(at, rest, value, flat);
  return approach(ik, at, rest, value, at.cost, flat);
}

__device__ double clamped(double x, int j) {
  return ::fmin(::fmax(x, RobotConstants<double>::lower[j]), RobotConstants<double>::upper[j]);
}

__device__ bool sound(const Request& request, int problem) {
  bool good = true;
  for (int i = 0; i < numbers; ++i) {
    good &= abs(request.target[problem * numbers + i]) <= largest_number;
  }
  for (int j = 0; request.q0 && j < n; ++j) {
    good &= abs(request.q0[problem * request.q0_step + j]) <= largest_number;
  }
  return good;
}

// Coordinate j of a seed beyond those of the table.
__device__ double spread(int entries, int seed, int j) {
  const double share = seed_share(seed, entries, RobotConstants<double>::stride[j]);
  return RobotConstants<double>::from[j] + share * RobotConstants<double>::span[j];
}

// The answer of some number to a problem.
__device__ void record(const Request& request, int problem, int number, const Fine& fine,
                       Outcome outcome, int iterations, int starts) {
  const int row = problem * request.most + number;
  for (int j = 0; j < n; ++j) request.q[row * n + j] = fine.q[j];
  request.outcome[row] = static_cast<signed char>(outcome);
  request.error[2 * row] = fine.position;
  request.error[2 * row + 1] = fine.rotation;
  request.effort[2 * row] = iterations;
  request.effort[2 * row + 1] = starts > 1 ? starts - 1 : 0;
  if (request.answers) request.answers[problem] = number + 1;
}

// A problem that is not looked at.
__device__ void leave(const Request& request, int problem) {
  Fine fine;
  for (int j = 0; j < n; ++j) fine.q[j] = clamped(0, j);
  fine.position = fine.rotation = __longlong_as_double(0x7ff0000000000000ll);  // infinite
  record(request, problem, 0, fine, Outcome::nonfinite, 0, 0);
}

__device__ bool there_roughly(const Request& request, const IterateState<SearchReal>& at) {
  const SearchReal tolerance =
      resolved_tolerance(RobotConstants<SearchReal>::ik, at, SearchReal(request.rough_position));
  return at.position <= tolerance && at.rotation <= request.rough_rotation;
}

__device__ bool there(const Request& request, const IterateState<double>& at) {
  return at.position <= request.position && at.rotation <= request.rotation;
}

__device__ void aim(const Request& request, int problem, IterateState<double>& at) {
  for (int i = 0; i < numbers; ++i) at.target[i] = request.target[problem * numbers + i];
}

// Descends in double as long as the error falls. Returns whether it arrived; J is that of the end
// only if it is `wanted`. (As `finish` in src/core/drivers/solutions.hpp.)
template <bool wanted>
__device__ bool arrive(const Request& request, IterateState<double>& at) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  constexpr bool late = !wanted && !large;  // no J before a step needs it
  double least = 1e300;
  for (int i = 0, idle = 0;; ++i) {
    if constexpr (late) {
      look(ik, at);
    } else {
      measure<large>(at);
    }
    const bool solved = there(request, at), lower = at.cost <= finishing * least;
    if (lower) least = at.cost;
    idle = lower ? 0 : idle + 1;
    if (solved || idle >= waiting * pace || i == pace * finish_iterations) return solved;
    if constexpr (late) differentiate(ik, at);
    descend(at);
  }
}

// The largest move of a joint from a problem's own start.
__device__ double moved(const Request& request, int problem, const double* q) {
  double most = 0;
  for (int j = 0; j < n; ++j) most = ::fmax(most, abs(q[j] - own_start(request, problem, j)));
  return most;
}

// Whether whole turns are looked at: not where the first answer will do.
__device__ bool turns_count(const Request& request) {
  return Posture::turns && (Posture::posture || request.nearest || request.most > 1);
}

// A posture with its joints turned back to where they should be: at rest, near q0, or in the
// middle; a solution stays one. Right after `measure`, and so at the end. Returns whether any was.
__device__ __noinline__ bool unwind(const Request& request, int problem, IterateState<double>& at) {
  if (!turns_count(request)) return false;
  const bool solved = there(request, at);
  double kept[n];
  bool turned = false;
  for (int j = 0; j < n; ++j) {
    kept[j] = at.q[j];
    if (!(Posture::turn[j] > 0)) continue;
    double to = RobotConstants<double>::from[j] + 0.5 * RobotConstants<double>::span[j];
    if (request.q0) to = request.q0[problem * request.q0_step + j];
    if (Posture::rest[j] >= 0) to = posture(request, problem, j);
    at.q[j] = nearest_turn(kept[j], to, Posture::turn[j], RobotConstants<double>::lower[j],
                           RobotConstants<double>::upper[j]);
    turned |= at.q[j] != kept[j];
  }
  for (int looks = turned ? 2 : 0; looks; --looks) {
    measure<large>(at);
    if (looks == 1) return false;
    if (!solved || there(request, at)) return true;
    for (int j = 0; j < n; ++j) at.q[j] = kept[j];  // rounding would spoil it
  }
  return false;
}

}  // namespace
}  // namespace supple
