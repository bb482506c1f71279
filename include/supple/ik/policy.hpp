// Decisions that the CPU and GPU drivers share: which input is valid, which solutions are equal or
// preferred, and how solutions are written and merged. The seeds of the starts are in starts.hpp,
// the loops that end a search in verdict.hpp.
//
// The drivers (src/core/drivers, src/supple/ik/gpu) only distribute the work: over lanes on a CPU,
// over threads and warps on a GPU.
#pragma once

#include "supple/ik/postprocess.hpp"
#include "supple/ik/restarts.hpp"

namespace supple {

// The arrays of solutions, with `capacity` rows for each problem. Arrays are C-ordered.
struct SolutionArrays {
  int capacity;
  double* q;         // (problems, capacity, n)
  Outcome* outcome;  // (problems, capacity)
  double* error;     // (problems, capacity, 2): position [m], rotation [rad]
  int* effort;       // (problems, capacity, 2): iterations, starts
  int* found;        // (problems,): number of solutions; null if not needed
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// ---- input and output --------------------------------------------------------------------------

// Whether a target (targets,) and an initial guess q0 (n,; may be null) are finite and so small
// that their squares do not overflow.
SUPPLE_FN bool is_valid(int targets, const double* target, int n, const double* q0) {
  bool valid = true;
  for (int i = 0; i < targets; ++i) valid &= abs(target[i]) <= max_input;
  for (int j = 0; q0 && j < n; ++j) valid &= abs(q0[j]) <= max_input;
  return valid;
}

// Writes solution `number` of a problem; q(j) returns coordinate j.
template <class Index, class Coordinate>
SUPPLE_FN void record(const SolutionArrays& to, int n, Index problem, int number, Coordinate&& q,
                      double position, double rotation, Outcome outcome, int iterations,
                      int starts) {
  const Index row = problem * to.capacity + number;
  for (int j = 0; j < n; ++j) to.q[row * n + j] = q(j);
  to.outcome[row] = outcome;
  to.error[2 * row] = position;
  to.error[2 * row + 1] = rotation;
  to.effort[2 * row] = iterations;
  to.effort[2 * row + 1] = starts;
  if (to.found) to.found[problem] = number + 1;
}

// Writes the result of a problem that was not solved: q(j) returns coordinate j of a substitute for
// the solution, whose errors are infinite.
template <class Index, class Coordinate>
SUPPLE_FN void record_skipped(const SolutionArrays& to, int n, Index problem, Coordinate&& q,
                              Outcome outcome) {
  const double infinite = from_bits(Number<double>::exponent);
  record(to, n, problem, 0, q, infinite, infinite, outcome, 0, 0);
}

// ---- subproblems -------------------------------------------------------------------------------

// The number of joints n, and their limits (n,).
struct JointRange {
  int n;
  const double *lower, *upper;

  SUPPLE_INLINE double clamped(double q, int j) const {
    return q < lower[j] ? lower[j] : q > upper[j] ? upper[j] : q;
  }
};

// The outcome of two subproblems together. If one is out of reach, so is the whole problem.
SUPPLE_FN Outcome worse(Outcome a, Outcome b) {
  constexpr Outcome order[] = {Outcome::nonfinite, Outcome::unreachable, Outcome::timeout,
                               Outcome::not_converged, Outcome::blocked};
  for (const Outcome each : order) {
    if (a == each || b == each) return each;
  }
  return Outcome::solved;
}

// Initializes the merged solution of a problem's subproblems: every joint is at q0 (n,) or, without
// q0, as near to zero as its limits allow. The solution's number of starts is `starts`.
template <class Index>
SUPPLE_FN void begin_merge(const SolutionArrays& whole, const JointRange& joints, Index problem,
                           const double* q0, int starts) {
  const auto q = [&](int j) {
    return joints.clamped(q0 && abs(q0[j]) <= max_input ? q0[j] : 0, j);
  };
  if (is_valid(0, nullptr, joints.n, q0)) {
    record(whole, joints.n, problem, 0, q, 0, 0, Outcome::solved, 0, starts);
  } else {
    record_skipped(whole, joints.n, problem, q, Outcome::nonfinite);
  }
}

// Merges the solution of a subproblem with `n` joints, whose indices in the whole problem are
// `joint` (n,). The result has the larger errors, the worse outcome and the total effort; the first
// `starts` starts of the subproblem are not added, because `begin_merge` counts them. An invalid
// subproblem makes the whole problem invalid.
template <class Index>
SUPPLE_FN void merge_part(const SolutionArrays& part, int n, const int* joint,
                          const SolutionArrays& whole, const JointRange& joints, Index problem,
                          int starts) {
  const Outcome mine = part.outcome[problem], worst = whole.outcome[problem];
  if (mine == Outcome::nonfinite || worst == Outcome::nonfinite) {
    const auto neutral = [&](int j) { return joints.clamped(0, j); };
    return record_skipped(whole, joints.n, problem, neutral, Outcome::nonfinite);
  }
  for (int j = 0; j < n; ++j) whole.q[problem * joints.n + joint[j]] = part.q[problem * n + j];
  for (Index i = 2 * problem; i < 2 * problem + 2; ++i) {
    whole.error[i] = max(whole.error[i], part.error[i]);
  }
  const int more = part.effort[2 * problem + 1] - starts;
  whole.effort[2 * problem] += part.effort[2 * problem];
  whole.effort[2 * problem + 1] += more > 0 ? more : 0;
  whole.outcome[problem] = worse(mine, worst);
}

// ---- choice of solutions -----------------------------------------------------------------------

// Whether two configurations are the same solution, up to 2π wraps: wrap (n,) is 2π for a joint
// that has 2π wraps, else 0.
SUPPLE_FN bool is_same_solution(const IkProblem<double>& ik, const double* wrap, const double* a,
                                const double* b) {
  bool same = true;
  visit_joints(
      ik.chain,
      [&](int j) {
        const double away = abs(wrapped_difference(wrap ? wrap[j] : 0, a[j], b[j]));
        same &= away <= distinct * joint_unit(ik, j);
      },
      [&](int j) {
        const Vec3<double> away = ball_difference(vector_at(a + j), vector_at(b + j));
        same &= abs(away.x) <= distinct && abs(away.y) <= distinct && abs(away.z) <= distinct;
      });
  return same;
}

// Returns the largest displacement of a joint between two configurations, in units of `joint_unit`;
// a(j) and b(j) are their coordinates.
template <class A, class B>
SUPPLE_FN double max_displacement(const IkProblem<double>& ik, A&& a, B&& b) {
  double largest = 0;
  visit_joints(
      ik.chain,
      [&](int j) {
        largest = max(largest, abs(coordinate_difference(a(j), b(j))) / joint_unit(ik, j));
      },
      [&](int j) {
        const Vec3<double> to{a(j), a(j + 1), a(j + 2)}, from{b(j), b(j + 1), b(j + 2)};
        const Vec3<double> turn = ball_difference(to, from);
        largest = max(max(largest, abs(turn.x)), max(abs(turn.y), abs(turn.z)));
      });
  return largest;
}

// Whether the closest pose that was found from q0 is preferred to the one with the smallest cost: a
// slightly higher cost is accepted to avoid jumps along a path, and an even higher cost if the
// joints stay near q0.
SUPPLE_FN bool prefers_own(double own_cost, double own_displacement, double best_cost) {
  const double ratio = own_displacement <= near_q0 ? own_cost_near : own_cost_far;
  return own_cost <= ratio * best_cost;
}

// Whether joints are unwound (moved by full turns). This is not needed if the caller accepts any
// solution.
SUPPLE_FN bool unwinding_matters(bool has_wraps, bool has_posture, bool nearest,
                                 int max_solutions) {
  return has_wraps && (has_posture || nearest || max_solutions > 1);
}

// Returns the angle toward which joint j is unwound: target[posture] if `posture` is not negative,
// else q0[j] if q0 (n,) is given, else the middle of its range.
SUPPLE_FN double wrap_reference(const IkProblem<double>& ik, int j, int posture,
                                const double* target, const double* q0) {
  if (posture >= 0) return target[posture];
  if (q0) return q0[j];
  return ik.seed_lower[j] + 0.5 * ik.seed_range[j];
}

}  // namespace supple::inline SUPPLE_ISA
