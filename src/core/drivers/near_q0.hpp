// Solves one problem on a CPU with a bound on the displacement of each joint from q0. Included only
// by files that are compiled once for each instruction set.
#pragma once

#include "drivers/single.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Writes the box of configurations that are inside the limits and within max_move of q0 (n,), and
// its range of seeds, to `box` (4, n): lower and upper limits, lower ends and widths of the seeds.
// Returns whether the box has configurations: q0 may be outside the limits.
bool box_near(const IkProblem<double>& ik, const double* q0, double max_move, double* box) {
  const int n = ik.chain.nq;
  double *const lower = box, *const upper = box + n, *const low = box + 2 * n, *range = box + 3 * n;
  bool any = true;
  for (int j = 0; j < n; ++j) {
    lower[j] = std::max(ik.lower[j], integrate_coordinate(q0[j], -max_move));
    upper[j] = std::min(ik.upper[j], integrate_coordinate(q0[j], max_move));
    any = any && lower[j] <= upper[j];
    // Seeds fill the box or, if it is wider than the finite range of seeds, a part of the box with
    // the width of that range.
    range[j] = std::min(ik.seed_range[j], upper[j] - lower[j]);
    low[j] = clamped(ik.seed_lower[j], lower[j], upper[j] - range[j]);
  }
  return any;
}

// Replaces the limits and the range of seeds of a problem by those in `box` (4, n).
template <class T>
IkProblem<T> inside(IkProblem<T> ik, const T* box) {
  const int n = ik.chain.nq;
  ik.lower = box;
  ik.upper = box + n;
  ik.seed_lower = box + 2 * n;
  ik.seed_range = box + 3 * n;
  return ik;
}

// Solves a problem like `solve_single`, with joint limits that are at most max_move from q0.
void solve_near_q0(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  const int n = request.polish->chain.nq;
  const bool any =
      box_near(*request.polish, q0_of(request, problem), request.max_move, workspace.box);
  if (!any) return mark_skipped(request, problem, Outcome::unreachable);
  for (int i = 0; i < 4 * n; ++i) workspace.float_box[i] = float(workspace.box[i]);
  const IkProblem<float> search = inside(*request.search, workspace.float_box);
  const IkProblem<float> minimized = inside(*request.minimized, workspace.float_box);
  const IkProblem<double> polish = inside(*request.polish, workspace.box);
  const IkProblem<double> closest = inside(*request.closest, workspace.box);
  SolveRequest near = request;
  near.search = &search;
  near.minimized = &minimized;
  near.polish = &polish;
  near.closest = &closest;
  solve_single(near, workspace, problem);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
