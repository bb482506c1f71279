// Many problems: every lane is another one, exchanged for the next as soon as it is done. For files
// that are compiled once for each instruction set.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "drivers/single.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The next problem that no thread has taken and that can be solved; -1 if there is none.
std::ptrdiff_t take_problem(const SolveRequest& request, Workspace& workspace) {
  for (;;) {
    const std::ptrdiff_t problem = request.next->fetch_add(1, std::memory_order_relaxed);
    if (problem >= request.count) return -1;
    if (is_valid(request, problem)) return problem;
    mark_skipped(request, problem, workspace, Outcome::nonfinite);
  }
}

// Every problem that is left: time is up. (A block at a time: there may be millions.)
void mark_remaining_skipped(const SolveRequest& request, Workspace& workspace) {
  constexpr std::ptrdiff_t block = 512;
  for (std::ptrdiff_t p; (p = request.next->fetch_add(block)) < request.count;) {
    for (const std::ptrdiff_t end = std::min(p + block, request.count); p < end; ++p) {
      mark_skipped(request, p, workspace,
                   is_valid(request, p) ? Outcome::timeout : Outcome::nonfinite);
    }
  }
}

class BatchSolver {
 public:
  BatchSolver(const SolveRequest& request, Workspace& workspace)
      : request_(request), workspace_(workspace) {}

  void run() {
    for (int i = 0; i < lanes; ++i) {
      workspace_.lane[i].problem = -1;
      load_problem(i);
      if (workspace_.lane[i].fresh) start_lane(request_, workspace_, i, workspace_.seeds[i]);
    }
    for (int tick = 0; running_; ++tick) {
      iterate();
      if (tick % 4 == 0 && stopped(request_)) return stop();
    }
  }

 private:
  // Another problem for a lane.
  void load_problem(int lane) {
    LaneState& slot = workspace_.lane[lane];
    const std::ptrdiff_t problem = take_problem(request_, workspace_);
    running_ += (problem >= 0) - (slot.problem >= 0);
    slot = {problem, 0, 0, 0, 0, problem >= 0};
    if (problem < 0) return;
    workspace_.failures[lane].clear();
    nearest_seeds(request_, problem, workspace_, workspace_.seeds[lane]);
    set_target(request_, workspace_, lane, problem);
  }

  // Another start of the lane's problem, unless there have been enough: then it is solved as if
  // table_attempts, or the closest pose is all that is left to find.
  void restart(int lane) {
    LaneState& slot = workspace_.lane[lane];
    slot.fresh = true;
    ++slot.start;
    if (slot.start < std::min(hard_after, request_.max_starts)) return;
    if (slot.start < request_.max_starts) {
      solve_alone(request_, *workspace_.hard, slot.problem);
    } else {
      decide_unreachable(lane, slot.start);
    }
    load_problem(lane);
  }

  void decide_unreachable(int lane, int starts) {
    const LaneState& slot = workspace_.lane[lane];
    supple::decide_unreachable(request_, workspace_, slot.problem, workspace_.failures[lane],
                               slot.iterations, starts, true);
  }

  void iterate() {
    evaluate(*request_.search, workspace_.search);
    const mask_t<SearchLanes> there = converged(*request_.search, workspace_.search);
    int converging[lanes], count = 0;
    for (int i = 0; i < lanes; ++i) {
      LaneState& slot = workspace_.lane[i];
      if (slot.problem < 0) continue;
      ++slot.iteration;
      ++slot.iterations;
      if (get(there, i)) {
        converging[count++] = i;
      } else if (lane_stalled(request_, workspace_, i, slot)) {
        record_failure(request_, workspace_, i, workspace_.failures[i]);
        restart(i);
      }
    }
    for (int first = 0; first < count; first += polish_lanes) {
      polish_converged(converging + first, std::min(count - first, polish_lanes));
    }
    descend(*request_.search, workspace_.search);
    for (int i = 0; i < lanes; ++i) {
      if (workspace_.lane[i].fresh) start_lane(request_, workspace_, i, workspace_.seeds[i]);
    }
  }

  // Lanes that have converged, as far as floats tell.
  void polish_converged(const int* converging, int count) {
    const int n = request_.polish->chain.coordinates;
    for (int f = 0; f < polish_lanes; ++f) {
      const int lane = converging[std::min(f, count - 1)];
      load_configuration(request_, workspace_.polish, f, workspace_.lane[lane].problem,
                         workspace_.lane_q(lane, n));
    }
    const mask_t<PolishLanes> solved = polish(request_, workspace_.polish);
    bool answered[polish_lanes];
    for (int f = 0; f < count; ++f) {
      answered[f] = get(solved, f) || singular(workspace_.lane[converging[f]], f);
      if (get(solved, f)) record_solution(workspace_.lane[converging[f]], f);
    }
    for (int f = 0; f < count; ++f) {  // (afterwards: `restart` may need workspace.polish)
      const int lane = converging[f];
      if (!answered[f]) record_failure(request_, workspace_, lane, workspace_.failures[lane]);
      answered[f] ? load_problem(lane) : restart(lane);
    }
  }

  void record_solution(const LaneState& slot, int f) {
    if (!request_.posture) {
      return record(request_, slot.problem, 0, workspace_.polish, f, Outcome::solved,
                    slot.iterations, slot.start + 1);
    }
    copy_to_single(slot, f);
    evaluate(*request_.polish, workspace_.single);
    record_single(slot);
  }

  void copy_to_single(const LaneState& slot, int f) {
    for (int j = 0; j < request_.polish->chain.coordinates; ++j) {
      workspace_.single.q[j] = get(workspace_.polish.q[j], f);
    }
    set_polish_target(request_, workspace_.single, 0, slot.problem);
  }

  void record_single(const LaneState& slot) {
    postprocess(request_, workspace_, slot.problem);
    record(request_, slot.problem, 0, workspace_.single, 0, Outcome::solved, slot.iterations,
           slot.start + 1);
  }

  // One that did not arrive after all. Returns whether Newton's method got it there.
  bool singular(const LaneState& slot, int f) {
    copy_to_single(slot, f);
    if (!polish_singular(request_, workspace_)) return false;
    record_single(slot);
    return true;
  }

  // Time is up: the best so far of the problems that are being solved.
  void stop() {
    evaluate(*request_.search, workspace_.search);
    for (int i = 0; i < lanes; ++i) {
      const LaneState& slot = workspace_.lane[i];
      if (slot.problem < 0) continue;
      record_failure(request_, workspace_, i, workspace_.failures[i]);
      decide_unreachable(i, slot.start + 1);
    }
    mark_remaining_skipped(request_, workspace_);
  }

  const SolveRequest& request_;
  Workspace& workspace_;
  int running_ = 0;
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
