// Solves many problems on a CPU: each lane works on its own problem and takes the next one when it
// has finished. Included only by files that are compiled once for each instruction set. Tuned
// constants are explained in docs/constants.md.
#pragma once

#include <algorithm>

#include "drivers/closest.hpp"
#include "drivers/single.hpp"
#include "drivers/solutions.hpp"
#include "drivers/starts.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Takes the next valid problem that no thread has taken; returns -1 if there is none.
std::ptrdiff_t take_problem(const SolveRequest& request) {
  for (;;) {
    const std::ptrdiff_t problem = request.next->fetch_add(1, std::memory_order_relaxed);
    if (problem >= request.count) return -1;
    if (is_valid(request, problem)) return problem;
    mark_skipped(request, problem, Outcome::nonfinite);
  }
}

// Marks all problems that no thread has taken as skipped, in blocks because there may be millions
// of them.
void mark_remaining_skipped(const SolveRequest& request) {
  constexpr std::ptrdiff_t block = 512;
  for (std::ptrdiff_t p; (p = request.next->fetch_add(block)) < request.count;) {
    for (const std::ptrdiff_t end = std::min(p + block, request.count); p < end; ++p) {
      mark_skipped(request, p, is_valid(request, p) ? Outcome::timeout : Outcome::nonfinite);
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
      if (workspace_.lane[i].is_new) start_lane(request_, workspace_, i, workspace_.seeds[i]);
    }
    for (int tick = 0; running_; ++tick) {
      iterate();
      if (tick % 4 == 0 && stopped(request_)) return stop();
    }
  }

 private:
  // Gives a lane the next problem.
  void load_problem(int lane) {
    LaneState& state = workspace_.lane[lane];
    const std::ptrdiff_t problem = take_problem(request_);
    running_ += (problem >= 0) - (state.problem >= 0);
    state = {problem, 0, 0, 0, 0, problem >= 0, false};
    if (problem < 0) return;
    workspace_.failures[lane].clear();
    workspace_.seeds[lane].count = 0;
    if (!moves_base(request_)) nearest_seeds(request_, problem, workspace_, workspace_.seeds[lane]);
    set_target(request_, workspace_.search, lane, problem);
  }

  // Begins the next start of a lane's problem. After `hard_after` starts the problem is solved like
  // a single problem, and after the last start its closest pose is recorded; in both cases the lane
  // then takes the next problem.
  void restart(int lane) {
    LaneState& state = workspace_.lane[lane];
    state.is_new = true;
    ++state.start;
    if (state.start < std::min(hard_after, request_.max_seeds)) return;
    if (state.start < request_.max_seeds) {
      solve_single(request_, *workspace_.hard, state.problem, state.blocked);
    } else {
      record_closest(lane, state.start);
    }
    load_problem(lane);
  }

  void record_closest(int lane, int starts) {
    const LaneState& state = workspace_.lane[lane];
    if (state.blocked) return;  // the first rejected solution is recorded
    decide_failed(request_, workspace_, state.problem, workspace_.failures[lane], state.iterations,
                  starts, true);
  }

  void iterate() {
    evaluate(*request_.search, workspace_.search);
    const mask_t<SearchLanes> met = converged(*request_.search, workspace_.search);
    int converging[lanes], count = 0;
    for (int i = 0; i < lanes; ++i) {
      LaneState& state = workspace_.lane[i];
      if (state.problem < 0) continue;
      ++state.iteration;
      ++state.iterations;
      if (get(met, i)) {
        converging[count++] = i;
      } else if (lane_stalled(request_, workspace_, i, state)) {
        record_failure(request_, workspace_, i, workspace_.failures[i]);
        restart(i);
      }
    }
    for (int first = 0; first < count; first += polish_lanes) {
      polish_converged(converging + first, std::min(count - first, polish_lanes));
    }
    descend(*request_.search, workspace_.search);
    for (int i = 0; i < lanes; ++i) {
      if (workspace_.lane[i].is_new) start_lane(request_, workspace_, i, workspace_.seeds[i]);
    }
  }

  // Polishes lanes that have converged in the precision of the search, and records their solutions.
  void polish_converged(const int* converging, int count) {
    const int n = request_.polish->chain.nq;
    for (int f = 0; f < polish_lanes; ++f) {
      const int lane = converging[std::min(f, count - 1)];
      load_configuration(request_, workspace_.polish, f, workspace_.lane[lane].problem,
                         workspace_.lane_q(lane, n));
    }
    const mask_t<PolishLanes> solved = polish(request_, workspace_.polish);
    bool recorded[polish_lanes], rejected[polish_lanes];
    for (int f = 0; f < count; ++f) {
      LaneState& state = workspace_.lane[converging[f]];
      rejected_ = false;
      recorded[f] = get(solved, f) ? record_solution(state, f) : record_singular(state, f);
      rejected[f] = rejected_;
    }
    for (int f = 0; f < count; ++f) {  // a second loop because `restart` may use workspace.polish
      const int lane = converging[f];
      if (!recorded[f] && !rejected[f]) {
        record_failure(request_, workspace_, lane, workspace_.failures[lane]);
      }
      recorded[f] ? load_problem(lane) : restart(lane);
    }
  }

  // Records a solution, unless it is rejected. Returns whether it is accepted.
  bool record_solution(LaneState& state, int f) {
    if (!request_.posture) {
      unwind(request_, workspace_, state.problem, workspace_.polish, f,
             [&] { return get(converged(*request_.polish, workspace_.polish), f); });
      return record_accepted(state, workspace_.polish, f,
                             accepts(request_, workspace_, state.problem, f));
    }
    copy_to_single(state, f);
    evaluate(*request_.polish, workspace_.single);
    return record_single(state);
  }

  // Records a solution on a lane of `at`, as blocked if it is the first one that is rejected.
  template <class L>
  bool record_accepted(LaneState& state, const IterateState<L>& at, int lane, bool accepted) {
    rejected_ = !accepted;
    if (accepted || !state.blocked) {
      record(request_, state.problem, 0, at, lane, accepted ? Outcome::solved : Outcome::blocked,
             state.iterations, state.start + 1);
    }
    state.blocked = state.blocked || !accepted;
    return accepted;
  }

  void copy_to_single(const LaneState& state, int f) {
    for (int j = 0; j < request_.polish->chain.nq; ++j) {
      workspace_.single.q[j] = get(workspace_.polish.q[j], f);
    }
    set_polish_target(request_, workspace_.single, 0, state.problem);
  }

  bool record_single(LaneState& state) {
    postprocess(request_, workspace_, state.problem);
    const bool accepted = !rejects(request_, state.problem, workspace_.single.q);
    return record_accepted(state, workspace_.single, 0, accepted);
  }

  // Tries Newton's method on a lane that polishing did not solve. Returns whether it has found a
  // solution, which is recorded.
  bool record_singular(LaneState& state, int f) {
    copy_to_single(state, f);
    return polish_singular(request_, workspace_) && record_single(state);
  }

  // Ends the search when time is up, and records the best pose so far for each running problem.
  void stop() {
    evaluate(*request_.search, workspace_.search);
    for (int i = 0; i < lanes; ++i) {
      const LaneState& state = workspace_.lane[i];
      if (state.problem < 0) continue;
      record_failure(request_, workspace_, i, workspace_.failures[i]);
      record_closest(i, state.start + 1);
      if (state.blocked) request_.outcome[state.problem] = Outcome::timeout;
    }
    mark_remaining_skipped(request_);
  }

  const SolveRequest& request_;
  Workspace& workspace_;
  int running_ = 0;        // number of lanes with a problem
  bool rejected_ = false;  // whether the last solution was rejected
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
