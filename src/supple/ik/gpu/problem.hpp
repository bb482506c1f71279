// Shared parts of the CUDA kernels of position inverse kinematics: problems, starts, solutions. The
// decisions are shared with the CPU (supple/ik/policy.hpp, verdict.hpp).
//
// Compiled at run time for one robot, its tasks and a damping rule: given.hpp holds their constants
// (src/core/drivers/gpu_constants.hpp) and `SearchReal`, the precision of the search: float, which
// is fast, or double on request. No result in float is returned before it is verified in double.
#pragma once

#include "supple/ik/starts.hpp"
#include "supple/ik/verdict.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

constexpr int nq = RobotConstants<SearchReal>::ik.chain.nq;
constexpr int nv = RobotConstants<SearchReal>::ik.chain.nv;
constexpr int rows = RobotConstants<SearchReal>::ik.rows;
constexpr int numbers = RobotConstants<SearchReal>::ik.targets;
constexpr int iteration_factor = RobotConstants<SearchReal>::ik.iteration_factor;
constexpr bool remembers = RobotConstants<SearchReal>::ik.step.damping.rule == Rule::mayorga_rank;

// Tuned constants are explained in docs/constants.md. Largest problem (rows times joints) whose
// iteration is inlined. The iteration of a larger problem is compiled as a separate function,
// because compile time grows faster than the size of a function.
constexpr int largest_inlined = 100;
constexpr bool large = rows * nv > largest_inlined;
constexpr unsigned everyone = ~0u;         // all threads of a warp
constexpr bool checks = world_joints > 0;  // whether solutions must not collide
constexpr int largest_block = 64;          // number of threads in blocks that call `collides`

}  // namespace

// The arguments of a call. (The same layout as `Request` in request.py.)
struct Request {
  const double* target;  // (count, numbers)
  const double* q0;      // (count, nq), or (nq,), or null
  const float* table;    // (numbers + 1, entries): scaled targets of seeds, then half squared norms
  const float* packed;   // the same for `nearest_seeds` (packed_table.py)
  const SearchReal* seeds;  // (entries, nq), inside the limits
  const double* reach;      // a `Reach`: its directions, heights and probes, one after the other
  double* q;                // (count, max_solutions, nq)
  Outcome* outcome;         // (count, max_solutions)
  double* error;            // (count, max_solutions, 2): position [m], rotation [rad]
  int* effort;              // (count, max_solutions, 2): iterations, restarts
  unsigned short* near;     // (count, listed): nearest seed of each part of the table, sorted
  SearchReal* aim;          // (count, numbers): the targets, for `search`
  SearchReal* rough;        // (count, nq): configurations found by `search`
  int* left;                // (count,): problems that `search` has not solved
  int* counter;  // (4,): number of problems that `search` has taken; lengths of the lists
                 // `left` and `blocked`; number of problems that `explore` has taken of `left`
  double position, rotation;             // tolerances [m], [rad]
  float rough_position, rough_rotation;  // tolerances of the search
  int count, entries;
  int directions, probes;  // numbers of directions and probes of `reach`
  int max_seeds;           // for each problem; 0 for the default
  int q0_stride;           // nq, or 0 if all problems share one q0
  int nearest;             // whether the solution nearest to q0 is wanted
  int max_solutions;       // for each problem
  int tries;               // starts of each problem in search.cu
  int* solutions;          // (count,): number of solutions; null if max_solutions is 1
  // The members below are used if `checks`.
  const void* world;    // a `SharedModel`
  const int* joint;     // (world_coordinates,): indices in q, -1 where joints stay; null if none do
  const double* still;  // (count, world_coordinates): where joints stay
  int* blocked;         // (count,): problems whose solutions collide; null if `left` has them
  double* before;       // (count, nq + 2): q and errors before `postprocess`
  double clearance;     // [m], which all pairs keep
  int max_rejected;     // number of colliding solutions after which a search ends
};

// The result of a start that was polished in double precision.
struct Polished {
  double q[nq], cost, position, rotation;
  bool solved;

  __device__ void store(const IterateState<double>& at) {
    for (int j = 0; j < nq; ++j) q[j] = at.q[j];
    cost = at.cost;
    position = at.position;
    rotation = at.rotation;
  }
};

// Whether a thread works alone, or all threads of a warp on one problem until one of them has a
// solution. Idle threads have no start, and keep their results.
enum class Company { none, starts, idle };

// Defined in iterate.cu, polish.cu, closest.cu and settle.cu: the files are compiled in parallel
// and linked.
extern __device__ void iterate(IterateState<SearchReal>& at);
extern __device__ void polish_start(const Request& request, int problem, const SearchReal* q,
                                    Company company, Polished& polished);
extern __device__ bool converge_to_minimum(const Request& request, int problem, SearchReal* q,
                                           float& value);
// Minimizes the error, starting from q, with the weights of `Closest` that define the closest pose.
extern __device__ void settle(const Request& request, int problem, const double* q,
                              float gain_factor, int most, Company company, Polished& polished);
// Defined in collide.cu: whether a configuration q of a problem is closer to something than the
// clearance.
extern __device__ bool collides(const Request& request, int problem, const double* q);
// The same for the configurations of a warp's threads, which all call it and share the pairs of one
// configuration after the other; `there` tells whether a thread has one. Returns a bit for each
// configuration that collides; unless `all`, only for those before the first that does not collide.
extern __device__ unsigned colliding(const Request& request, int problem, const double* q,
                                     bool there, bool all);

namespace {

// Takes the next number of a shared counter for each active thread, with one atomic operation.
__device__ int take(int* counter) {
  const unsigned asking = __activemask(), lane = threadIdx.x % 32;
  const int leader = __ffs(asking) - 1;
  int first = 0;
  if (lane == leader) first = atomicAdd(counter, __popc(asking));
  return __shfl_sync(asking, first, leader) + __popc(asking & ((1u << lane) - 1));
}

// Whether each problem has a start of its own: q0, or the posture of a posture task.
__device__ bool has_own_start(const Request& request) { return request.q0 || Posture::has_posture; }

// Coordinate j of the posture or, without one, the value nearest to zero that the limits allow.
__device__ double posture(const Request& request, int problem, int j) {
  const int k = Posture::posture[j];
  if (k >= 0) return request.target[problem * numbers + k];
  return ::fmin(::fmax(0.0, RobotConstants<double>::lower[j]), RobotConstants<double>::upper[j]);
}

// Coordinate j of a problem's own start.
__device__ double own_start(const Request& request, int problem, int j) {
  return request.q0 ? request.q0[problem * request.q0_stride + j] : posture(request, problem, j);
}

// The memory of an `IterateState`, which is kept in registers if all indices are compile-time
// constants.
template <class T>
struct StateMemory {
  T q[nq], target[numbers], J[rows * nv], e[rows], work[iterate_scratch(RobotConstants<T>::ik)];
  T J_before[remembers ? rows * nv : 1];

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
__device__ __forceinline__ void take_step(IterateState<T>& at) {
  constexpr bool any_rule = !uses_error_norm(RobotConstants<T>::ik);
  constexpr bool slides = RobotConstants<T>::ik.joint_scale != nullptr;
  descend<any_rule, slides>(RobotConstants<T>::ik, Fixed<rows>{}, Fixed<nv>{}, at);
}

template <const auto& ik, class T>
__device__ __noinline__ bool newton_iteration_noinline(IterateState<T>& at,
                                                       Minimization<T>& minimum, T value) {
  return minimize(ik, at, minimum, value, at.cost);
}

// Performs one iteration of Newton's method.
template <const auto& ik, class T>
__device__ __forceinline__ bool newton_iteration(IterateState<T>& at, Minimization<T>& minimum,
                                                 T value) {
  if constexpr (large) return newton_iteration_noinline<ik>(at, minimum, value);
  return minimize(ik, at, minimum, value, at.cost);
}

__device__ double clamped(double x, int j) {
  return ::fmin(::fmax(x, RobotConstants<double>::lower[j]), RobotConstants<double>::upper[j]);
}

__device__ bool is_valid(const Request& request, int problem) {
  return supple::is_valid(numbers, request.target + problem * numbers, nq,
                          request.q0 ? request.q0 + problem * request.q0_stride : nullptr);
}

// Coordinate j of a seed of the sequence, of which the table has used the first `entries` values.
__device__ double sequence_seed(int entries, int seed, int j) {
  return supple::sequence_seed(RobotConstants<double>::ik, seed, entries, j);
}

__device__ SolutionArrays solution_arrays(const Request& request) {
  return {request.max_solutions, request.q,      request.outcome,
          request.error,         request.effort, request.solutions};
}

// Writes solution `number` of a problem.
__device__ void record(const Request& request, int problem, int number, const Polished& polished,
                       Outcome outcome, int iterations, int starts) {
  const auto q = [&](int j) { return polished.q[j]; };
  supple::record(solution_arrays(request), nq, problem, number, q, polished.position,
                 polished.rotation, outcome, iterations, starts > 1 ? starts - 1 : 0);
}

// Writes the result of a problem that is not searched because its input is not finite.
__device__ void mark_skipped(const Request& request, int problem) {
  record_skipped(
      solution_arrays(request), nq, problem, [](int j) { return clamped(0, j); },
      Outcome::nonfinite);
}

__device__ bool search_converged(const Request& request, const IterateState<SearchReal>& at) {
  const SearchReal tolerance =
      resolved_tolerance(RobotConstants<SearchReal>::ik, at, SearchReal(request.rough_position));
  return at.position <= tolerance && at.rotation <= request.rough_rotation;
}

__device__ bool meets_tolerances(const Request& request, const IterateState<double>& at) {
  return at.position <= request.position && at.rotation <= request.rotation;
}

__device__ void set_target(const Request& request, int problem, IterateState<double>& at) {
  for (int i = 0; i < numbers; ++i) at.target[i] = request.target[problem * numbers + i];
}

// Takes a step of polishing with J and the solution of the equations in the precision of the
// search; e has the precision of the state. One such step reduces the error of a search to about
// 1e-10, like one in double precision, unless the pose is nearly singular.
__device__ __forceinline__ void take_rough_step(IterateState<double>& at) {
  constexpr const IkProblem<SearchReal>& ik = RobotConstants<SearchReal>::ik;
  constexpr bool any_rule = !uses_error_norm(ik), slides = ik.joint_scale != nullptr;
  StateMemory<SearchReal> own;
  IterateState<SearchReal> rough = own.state();
  for (int j = 0; j < nq; ++j) own.q[j] = SearchReal(at.q[j]);
  for (int i = 0; i < numbers; ++i) own.target[i] = SearchReal(at.target[i]);
  for (int i = 0; i < rows; ++i) own.e[i] = SearchReal(at.e[i]);
  rough.cost = SearchReal(at.cost);
  // (Computing the poses again takes less time than keeping those in double precision.)
  forward(ik.chain, own.q, reinterpret_cast<Pose<SearchReal>*>(own.work));
  evaluate_jacobian(ik, rough);
  const SearchReal* const step =
      damped_step<any_rule, slides>(ik, Fixed<rows>{}, Fixed<nv>{}, rough);
  double dq[nv];
  for (int j = 0; j < nv; ++j) dq[j] = step[j];
  move_within_limits(RobotConstants<double>::ik, Fixed<nv>{}, dq, at.q);
}

// Damping of a polishing step in double precision, relative to that of the search: less damping
// speeds up the convergence toward a singular pose, which is linear.
constexpr double polish_damping = 0.01;

// Takes a step of polishing from q in double precision, given e and its squared norm. This function
// is not inlined: it is rarely needed, and would displace the state of `polish` from registers.
__device__ __noinline__ void take_fine_step(const double* target, const double* e, double cost,
                                            double* q) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  StateMemory<double> own;
  IterateState<double> at = own.state();
  for (int j = 0; j < nq; ++j) own.q[j] = q[j];
  for (int i = 0; i < numbers; ++i) own.target[i] = target[i];
  forward(ik.chain, own.q, reinterpret_cast<Pose<double>*>(own.work));
  for (int i = 0; i < rows; ++i) own.e[i] = e[i];
  evaluate_jacobian(ik, at);
  at.cost = cost * polish_damping * polish_damping;  // λ² is a multiple of ‖e‖
  take_step(at);
  for (int j = 0; j < nq; ++j) q[j] = own.q[j];
}

// Polishes in one thread (supple/ik/verdict.hpp). `late` tells whether J is evaluated only when a
// step needs it.
template <bool late>
struct PolishInThread {
  const Request& request;
  bool together;
  mutable int steps = 0;

  __device__ void evaluate_error(IterateState<double>& at) const {
    if constexpr (late) {
      supple::evaluate_error(RobotConstants<double>::ik, at);
    } else {
      evaluate<large>(at);
    }
  }
  __device__ bool converged(const IterateState<double>& at) const {
    return meets_tolerances(request, at);
  }
  __device__ void descend(IterateState<double>& at) const {
    if constexpr (late && !remembers) {
      if (sizeof(SearchReal) < sizeof(double) && !steps++) return take_rough_step(at);
      double q[nq], target[numbers], e[rows];  // copies, so that `at` stays in registers
      for (int j = 0; j < nq; ++j) q[j] = at.q[j];
      for (int i = 0; i < numbers; ++i) target[i] = at.target[i];
      for (int i = 0; i < rows; ++i) e[i] = at.e[i];
      take_fine_step(target, e, at.cost, q);
      for (int j = 0; j < nq; ++j) at.q[j] = q[j];
      return;
    }
    if constexpr (late) evaluate_jacobian(RobotConstants<double>::ik, at);
    at.cost *= polish_damping * polish_damping;  // λ² is a multiple of ‖e‖
    take_step(at);
  }
  __device__ bool any(bool holds) const { return together ? __any_sync(everyone, holds) : holds; }
  __device__ bool enough(bool solved) const { return together && any(solved); }
  __device__ bool stopped() const { return false; }
};

// Polishes in double precision as long as the cost falls. Returns whether it has converged. On
// return, J is guaranteed to match q only with `needs_jacobian`.
template <bool needs_jacobian>
__device__ bool polish(const Request& request, IterateState<double>& at,
                       Company company = Company::none) {
  return polish(RobotConstants<double>::ik, at,
                PolishInThread < !needs_jacobian && !large > {request, company != Company::none},
                company != Company::idle);
}

// The largest joint displacement from a problem's own start.
__device__ double displacement_from_start(const Request& request, int problem, const double* q) {
  return max_displacement(
      RobotConstants<double>::ik, [&](int j) { return q[j]; },
      [&](int j) { return own_start(request, problem, j); });
}

// Wraps the joints of a configuration toward the posture, q0 or the middle of their range, such
// that a solution remains a solution. To be called after `evaluate`; leaves the state evaluated.
// Returns whether the configuration has changed.
__device__ __noinline__ bool unwind(const Request& request, int problem, IterateState<double>& at) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  const bool matters = unwinding_matters(Posture::has_wraps, Posture::has_posture, request.nearest,
                                         request.max_solutions);
  if (!matters) return false;
  const bool solved = meets_tolerances(request, at);
  double kept[nq];
  const auto reference = [&](int j) {
    const double* const q0 = request.q0 ? request.q0 + problem * request.q0_stride : nullptr;
    return wrap_reference(ik, j, Posture::posture[j], request.target + problem * numbers, q0);
  };
  return supple::unwind(
      ik, at, 0, Posture::wrap, kept, reference, [&] { evaluate<large>(at); },
      [&] { return !solved || meets_tolerances(request, at); });
}

}  // namespace
}  // namespace supple
