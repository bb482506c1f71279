// Position inverse kinematics, compiled once for each instruction set, which SUPPLE_ISA names.
//
// In a batch with one solution for each problem, each lane solves its own problem (batch.hpp). For
// a single problem, or for several solutions of each problem, each lane runs a different start of
// the same problem (single.hpp). The iteration itself is in include/supple/ik/iterate.hpp, the
// decisions shared with the GPU are in ik/policy.hpp, seeds in starts.hpp, results in solutions.hpp
// and closest.hpp. near_q0.hpp bounds the displacement from q0.
#include <new>

#include "drivers/batch.hpp"
#include "drivers/near_q0.hpp"
#include "drivers/workspace.hpp"
#include "kernels/ik_family.hpp"

namespace supple::inline SUPPLE_ISA {

SUPPLE_ITERATION()

namespace {

// Bytes of the Workspace at the beginning of the memory. The arrays that it points to follow.
constexpr std::size_t header = (sizeof(Workspace) + 63) / 64 * 64;

std::size_t workspace_memory(const SolveRequest& request) {
  Workspace workspace;
  return header + workspace.allocate(request, nullptr);
}

Workspace* make_workspace(const SolveRequest& request, void* memory) {
  Workspace* const workspace = new (memory) Workspace;
  workspace->allocate(request, static_cast<unsigned char*>(memory) + header);
  workspace->clear(request);
  workspace->hard = nullptr;
  return workspace;
}

// A batch has a second workspace, for problems that are solved like single ones.
std::size_t solve_memory(const SolveRequest& request) {
  return workspace_memory(request) * (request.single ? 1 : 2) + 64;
}

void prepare(const SolveRequest& request, void* memory) {
  Workspace* const workspace = make_workspace(request, memory);
  if (request.single) return;
  workspace->hard =
      make_workspace(request, static_cast<unsigned char*>(memory) + workspace_memory(request));
}

void solve_one(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  if (request.max_move > 0) return solve_near_q0(request, workspace, problem);
  solve_single(request, workspace, problem);
}

void solve(const SolveRequest& request, void* memory) {
  Workspace& workspace = *static_cast<Workspace*>(memory);
  if (!request.single) return BatchSolver(request, workspace).run();
  if (request.count == 1) {
    if (!is_valid(request, 0)) return mark_skipped(request, 0, Outcome::nonfinite);
    return solve_one(request, workspace, 0);
  }
  for (std::ptrdiff_t p; (p = take_problem(request)) >= 0;) {
    solve_one(request, workspace, p);
    if (stopped(request)) return mark_remaining_skipped(request);
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA);
const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA) = {lanes, &solve_memory, &prepare, &solve};

}  // namespace supple
