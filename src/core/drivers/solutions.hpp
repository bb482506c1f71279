// Solutions of a search on a CPU: polished in double precision, postprocessed and recorded.
// Included only by files that are compiled once for each instruction set. Tuned constants are
// explained in docs/constants.md.
#pragma once

#include "drivers/workspace.hpp"
#include "supple/ik/verdict.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Returns the initial guess (n,) of a problem, or null.
const double* q0_of(const SolveRequest& request, std::ptrdiff_t problem) {
  return request.q0 ? request.q0 + problem * request.q0_stride : nullptr;
}

// Returns coordinate j of the result for a problem that is not solved: that of the initial guess
// or, without a guess, the value nearest to zero that the joint limits allow.
double fallback_coordinate(const SolveRequest& request, std::ptrdiff_t problem, int j) {
  const IkProblem<double>& ik = *request.polish;
  const double* const q0 = q0_of(request, problem);
  const double q = q0 ? q0[j] : clamped(0, ik.lower[j], ik.upper[j]);
  return clamped(q == q && magnitude(q) < 1e300 ? q : 0, ik.lower[j], ik.upper[j]);
}

SolutionArrays solution_arrays(const SolveRequest& request) {
  return {request.max_solutions, request.q,      request.outcome,
          request.error,         request.effort, request.found};
}

template <class L>
void record(const SolveRequest& request, std::ptrdiff_t problem, int solution,
            const IterateState<L>& at, int lane, Outcome outcome, int iterations, int starts) {
  const auto q = [&](int j) { return get(at.q[j], lane); };
  record(solution_arrays(request), request.polish->chain.nq, problem, solution, q,
         get(at.position, lane), get(at.rotation, lane), outcome, iterations, starts);
}

// Records the result of a problem that is skipped, for example because its input is not finite.
void mark_skipped(const SolveRequest& request, std::ptrdiff_t problem, Outcome outcome) {
  const IkProblem<double>& ik = *request.polish;
  const auto q = [&](int j) {
    return outcome == Outcome::nonfinite ? clamped(0, ik.lower[j], ik.upper[j])
                                         : fallback_coordinate(request, problem, j);
  };
  record_skipped(solution_arrays(request), ik.chain.nq, problem, q, outcome);
}

bool is_valid(const SolveRequest& request, std::ptrdiff_t problem) {
  const IkProblem<double>& ik = *request.polish;
  return supple::is_valid(ik.targets, request.target + problem * ik.targets, ik.chain.nq,
                          q0_of(request, problem));
}

// Runs the loops of supple/ik/verdict.hpp on lanes.
template <class T>
struct LaneExecutor {
  const SolveRequest& request;
  const IkProblem<T>& ik;

  template <class L>
  void evaluate_error(IterateState<L>& at) const {
    supple::evaluate_error(ik, at);
  }
  template <class L>
  void evaluate(IterateState<L>& at) const {
    supple::evaluate(ik, at);
  }
  template <class L>
  mask_t<L> converged(const IterateState<L>& at) const {
    return supple::converged(ik, at);
  }
  template <class L>
  void descend(IterateState<L>& at) const {
    evaluate_jacobian(ik, at);
    supple::descend(ik, at);
  }
  template <class L>
  mask_t<L> minimize(IterateState<L>& at, Minimization<L>& minimum) const {
    return supple::minimize(ik, at, minimum, at.cost, at.cost);
  }
  template <class Mask>
  bool any(const Mask& lanes) const {
    using supple::any;
    return any(lanes);
  }
  template <class Mask>
  bool enough(const Mask&) const {
    return false;
  }
  bool stopped() const { return supple::stopped(request); }
};

// Polishes configurations of the search in double precision. Returns the lanes where the
// configurations have become solutions.
template <class L>
mask_t<L> polish(const SolveRequest& request, IterateState<L>& at) {
  return polish(*request.polish, at, LaneExecutor<double>{request, *request.polish});
}

// Polishes workspace.single by Newton's method. Returns whether the result is a solution.
bool polish_singular(const SolveRequest& request, Workspace& workspace) {
  const IkProblem<double>& ik = *request.polish;
  IterateState<double>& at = workspace.single;
  const Minimization<double> minimum = start_minimization(ik, at, workspace.single_work);
  return minimize_error(ik, at, minimum, LaneExecutor<double>{request, ik});
}

// ---- postprocessing ----------------------------------------------------------------------------

bool unwinding_matters(const SolveRequest& request) {
  return supple::unwinding_matters(request.wrap, request.posture,
                                   request.nearest || request.comfortable, request.max_solutions);
}

// Moves the joints of one lane by full turns toward the posture, q0 or the middle of their range,
// unless acceptable() rejects the result. Returns whether the configuration has changed.
template <class L, class Acceptable>
bool unwind(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
            IterateState<L>& at, int lane, Acceptable&& acceptable) {
  const IkProblem<double>& ik = *request.polish;
  if (!unwinding_matters(request)) return false;
  const double* const target = request.target + problem * ik.targets;
  const double* const q0 = q0_of(request, problem);
  const auto reference = [&](int j) {
    return wrap_reference(ik, j, request.posture ? request.posture[j] : -1, target, q0);
  };
  return unwind(
      ik, at, lane, request.wrap, workspace.posture_work, reference,
      [&] { evaluate_error(ik, at); }, acceptable);
}

// Chooses the 2π wraps of the solution in workspace.single (`unwind`), unless the result would not
// be a solution. Returns whether a joint was wrapped.
bool unwind_solution(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  IterateState<double>& at = workspace.single;
  return unwind(request, workspace, problem, at, 0, [&] { return converged(*request.polish, at); });
}

// Moves a solution in workspace.single toward a posture; posture(j) and weight(j) return its
// coordinates and their weights.
template <class Posture, class Weight>
[[gnu::noinline]] void approach_posture(const SolveRequest& request, Workspace& workspace,
                                        std::ptrdiff_t problem, Posture&& posture, Weight&& weight,
                                        int most = posture_iterations) {
  const IkProblem<double>& ik = *request.polish;
  IterateState<double>& at = workspace.single;
  const auto ready = [&] {
    if (stopped(request)) return false;
    evaluate_jacobian(ik, at);
    return true;
  };
  approach_posture_with_wraps(
      ik, at, workspace.posture_work, posture, weight, ready, [&] { return polish(request, at); },
      [&] { return unwind_solution(request, workspace, problem); }, most);
}

// Whether a prismatic joint has a long range, as those of a moving base.
bool has_long_joint(const IkProblem<double>& ik) {
  for (int j = 0; j < ik.chain.nv; ++j) {
    if (is_long(ik, j)) return true;
  }
  return false;
}

// Postprocesses a solution in workspace.single: chooses 2π wraps, then moves toward the posture or
// q0.
void postprocess(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  unwind_solution(request, workspace, problem);
  if (request.posture) {
    const double* const target = request.target + problem * request.polish->targets;
    approach_posture(
        request, workspace, problem,
        [&](int j) { return request.posture[j] < 0 ? 0 : target[request.posture[j]]; },
        [&](int j) { return request.posture_weight[j]; });
  } else if (request.nearest && request.q0) {
    const double* const q0 = q0_of(request, problem);
    approach_posture(
        request, workspace, problem, [&](int j) { return q0[j]; },
        [&](int j) { return 1 / square(joint_unit(*request.polish, j)); },
        has_long_joint(*request.polish) ? base_posture_iterations : posture_iterations);
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
