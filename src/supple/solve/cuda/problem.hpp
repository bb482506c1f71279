// What the kernels of position inverse kinematics on a GPU share: problems, starts, answers.
//
// Compiled when run, for a robot, its tasks and a rule: given.hpp is the text of their constants
// (src/core/constants.hpp). Floats are fast and rough here; nothing of them is returned before it
// has been measured in double.
#pragma once

#include "starts.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

constexpr int n = Given<float>::quest.chain.coordinates;
constexpr int rows = Given<float>::quest.rows;
constexpr int numbers = Given<float>::quest.targets;
constexpr int pace = Given<float>::quest.pace;
constexpr bool remembers = Given<float>::quest.step.damping.rule == Rule::mayorga_rank;

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
  float* rough;          // (count, n): what `search` has found
  int* left;             // (count,): problems that it has not
  int* counter;          // problems taken by `search`, and problems left
  double position, rotation;             // tolerances [m], [rad]
  float rough_position, rough_rotation;  // those of the search
  int count, entries, max_starts;
};

// What came of a thread's descent in double.
struct Fine {
  double q[n], cost, position, rotation;
  bool solved;

  __device__ void keep(const Descent<double>& at) {
    for (int j = 0; j < n; ++j) q[j] = at.q[j];
    cost = at.cost;
    position = at.position;
    rotation = at.rotation;
  }
};

namespace {

// One start, and the memory it works in.
template <class T>
struct Start {
  T q[n], target[numbers], J[rows * n], e[rows], work[descent_work(Given<T>::quest)];
  T J_before[remembers ? rows * n : 1];

  __device__ Descent<T> descent() {
    return {q, target, T(0), T(0), T(0), J, e, work, J_before, T(-1)};
  }
};

template <class T>
__device__ __forceinline__ void measure(Descent<T>& at) {
  measure(Given<T>::quest, at);
}

template <class T>
__device__ __forceinline__ void descend(Descent<T>& at) {
  constexpr bool any_rule = !usually_damped(Given<T>::quest);
  descend<any_rule>(Given<T>::quest, Fixed<rows>{}, Fixed<n>{}, at, static_cast<const T*>(nullptr));
}

__device__ double clamped(double x, int j) {
  return ::fmin(::fmax(x, Given<double>::lower[j]), Given<double>::upper[j]);
}

__device__ bool sound(const Request& request, int problem) {
  bool good = true;
  for (int i = 0; i < numbers; ++i) {
    good &= abs(request.target[problem * numbers + i]) <= largest_number;
  }
  for (int j = 0; request.q0 && j < n; ++j) {
    good &= abs(request.q0[problem * n + j]) <= largest_number;
  }
  return good;
}

// Coordinate j of one of the points that are spread evenly over all configurations.
__device__ double spread(int entries, int number, int j) {
  double share = 0.5 + (number + entries + 1) * Given<double>::stride[j];
  share -= double(static_cast<long long>(share));
  return Given<double>::from[j] + share * Given<double>::span[j];
}

__device__ void record(const Request& request, int problem, const Fine& fine, Outcome outcome,
                       int iterations, int starts) {
  for (int j = 0; j < n; ++j) request.q[problem * n + j] = fine.q[j];
  request.outcome[problem] = static_cast<signed char>(outcome);
  request.error[2 * problem] = fine.position;
  request.error[2 * problem + 1] = fine.rotation;
  request.effort[2 * problem] = iterations;
  request.effort[2 * problem + 1] = starts > 1 ? starts - 1 : 0;
}

// A problem that is not looked at.
__device__ void leave(const Request& request, int problem) {
  Fine fine;
  for (int j = 0; j < n; ++j) fine.q[j] = clamped(0, j);
  fine.position = fine.rotation = __longlong_as_double(0x7ff0000000000000ll);  // infinite
  record(request, problem, fine, Outcome::nonfinite, 0, 0);
}

__device__ bool there(const Request& request, const Descent<double>& at) {
  return at.position <= request.position && at.rotation <= request.rotation;
}

__device__ void aim(const Request& request, int problem, Descent<double>& at) {
  for (int i = 0; i < numbers; ++i) at.target[i] = request.target[problem * numbers + i];
}

// Finishes in double what the search has found. (As `finish` in src/core/answers.hpp.)
__device__ __noinline__ void finished(const Request& request, int problem, const float* q,
                                      Fine& fine) {
  Start<double> own;
  Descent<double> at = own.descent();
  for (int j = 0; j < n; ++j) own.q[j] = clamped(double(q[j]), j);
  aim(request, problem, at);
  double least = 1e300;
  for (int i = 0, idle = 0;; ++i) {
    measure(at);
    fine.solved = there(request, at);
    const bool lower = at.cost <= finishing * least;
    if (lower) least = at.cost;
    idle = lower ? 0 : idle + 1;
    if (fine.solved || idle >= waiting * pace || i == pace * finish_iterations) break;
    descend(at);
  }
  fine.keep(at);
}

}  // namespace
}  // namespace supple
