// Many problems: every lane is another one, exchanged for the next as soon as it is done. For files
// that are compiled once for each instruction set.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "drivers/single.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The next problem that no thread has taken and that can be solved; -1 if there is none.
std::ptrdiff_t take(const SolveRequest& request, Workspace& workspace) {
  for (;;) {
    const std::ptrdiff_t problem = request.next->fetch_add(1, std::memory_order_relaxed);
    if (problem >= request.count) return -1;
    if (sound(request, problem)) return problem;
    leave(request, problem, workspace, Outcome::nonfinite);
  }
}

// Every problem that is left: time is up. (A block at a time: there may be millions.)
void leave_all(const SolveRequest& request, Workspace& workspace) {
  constexpr std::ptrdiff_t block = 512;
  for (std::ptrdiff_t p; (p = request.next->fetch_add(block)) < request.count;) {
    for (const std::ptrdiff_t end = std::min(p + block, request.count); p < end; ++p) {
      leave(request, p, workspace, sound(request, p) ? Outcome::timeout : Outcome::nonfinite);
    }
  }
}

class BatchSolver {
 public:
  BatchSolver(const SolveRequest& request, Workspace& workspace) : request_(request), workspace_(workspace) {}

  void run() {
    for (int i = 0; i < lanes; ++i) {
      workspace_.slot[i].problem = -1;
      load(i);
      if (workspace_.slot[i].fresh) begin(request_, workspace_, i, workspace_.listed[i]);
    }
    for (int tick = 0; running_; ++tick) {
      iterate();
      if (tick % 4 == 0 && stopped(request_)) return stop();
    }
  }

 private:
  // Another problem for a lane.
  void load(int lane) {
    LaneState& slot = workspace_.slot[lane];
    const std::ptrdiff_t problem = take(request_, workspace_);
    running_ += (problem >= 0) - (slot.problem >= 0);
    slot = {problem, 0, 0, 0, 0, problem >= 0};
    if (problem < 0) return;
    workspace_.failures[lane].clear();
    nearest_seeds(request_, problem, workspace_, workspace_.listed[lane]);
    aim(request_, workspace_, lane, problem);
  }

  // Another start of the lane's problem, unless there have been enough: then it is solved as if
  // alone, or the closest pose is all that is left to find.
  void again(int lane) {
    LaneState& slot = workspace_.slot[lane];
    slot.fresh = true;
    ++slot.start;
    if (slot.start < std::min(hard_after, request_.max_starts)) return;
    if (slot.start < request_.max_starts) {
      solve_alone(request_, *workspace_.hard, slot.problem);
    } else {
      conclude(lane, slot.start);
    }
    load(lane);
  }

  void conclude(int lane, int starts) {
    const LaneState& slot = workspace_.slot[lane];
    supple::conclude(request_, workspace_, slot.problem, workspace_.failures[lane], slot.iterations, starts,
                     true);
  }

  void iterate() {
    measure(*request_.wide, workspace_.wide);
    const mask_t<Wide> there = arrived(*request_.wide, workspace_.wide);
    int arriving[lanes], many = 0;
    for (int i = 0; i < lanes; ++i) {
      LaneState& slot = workspace_.slot[i];
      if (slot.problem < 0) continue;
      ++slot.iteration;
      ++slot.iterations;
      if (get(there, i)) {
        arriving[many++] = i;
      } else if (stuck(request_, workspace_, i, slot)) {
        keep(request_, workspace_, i, workspace_.failures[i]);
        again(i);
      }
    }
    for (int first = 0; first < many; first += fine_lanes) {
      finish_some(arriving + first, std::min(many - first, fine_lanes));
    }
    descend(*request_.wide, workspace_.wide);
    for (int i = 0; i < lanes; ++i) {
      if (workspace_.slot[i].fresh) begin(request_, workspace_, i, workspace_.listed[i]);
    }
  }

  // Lanes that have arrived, as far as floats tell.
  void finish_some(const int* arriving, int few) {
    const int n = request_.fine->chain.coordinates;
    for (int f = 0; f < fine_lanes; ++f) {
      const int lane = arriving[std::min(f, few - 1)];
      put_in(request_, workspace_.fine, f, workspace_.slot[lane].problem, workspace_.lane_q(lane, n));
    }
    const mask_t<Fine> solved = finish(request_, workspace_.fine);
    bool answered[fine_lanes];
    for (int f = 0; f < few; ++f) {
      answered[f] = get(solved, f) || singular(workspace_.slot[arriving[f]], f);
      if (get(solved, f)) answer(workspace_.slot[arriving[f]], f);
    }
    for (int f = 0; f < few; ++f) {  // (afterwards: `again` may need workspace.fine)
      const int lane = arriving[f];
      if (!answered[f]) keep(request_, workspace_, lane, workspace_.failures[lane]);
      answered[f] ? load(lane) : again(lane);
    }
  }

  void answer(const LaneState& slot, int f) {
    if (!request_.rest) {
      return record(request_, slot.problem, 0, workspace_.fine, f, Outcome::solved, slot.iterations,
                    slot.start + 1);
    }
    take_out(slot, f);
    measure(*request_.fine, workspace_.lone);
    answer_alone(slot);
  }

  void take_out(const LaneState& slot, int f) {
    for (int j = 0; j < request_.fine->chain.coordinates; ++j) {
      workspace_.lone.q[j] = get(workspace_.fine.q[j], f);
    }
    aim_finely(request_, workspace_.lone, 0, slot.problem);
  }

  void answer_alone(const LaneState& slot) {
    suit(request_, workspace_, slot.problem);
    record(request_, slot.problem, 0, workspace_.lone, 0, Outcome::solved, slot.iterations,
           slot.start + 1);
  }

  // One that did not arrive after all. Returns whether Newton's method got it there.
  bool singular(const LaneState& slot, int f) {
    take_out(slot, f);
    if (!finish_singular(request_, workspace_)) return false;
    answer_alone(slot);
    return true;
  }

  // Time is up: the best so far of the problems that are being solved.
  void stop() {
    measure(*request_.wide, workspace_.wide);
    for (int i = 0; i < lanes; ++i) {
      const LaneState& slot = workspace_.slot[i];
      if (slot.problem < 0) continue;
      keep(request_, workspace_, i, workspace_.failures[i]);
      conclude(i, slot.start + 1);
    }
    leave_all(request_, workspace_);
  }

  const SolveRequest& request_;
  Workspace& workspace_;
  int running_ = 0;
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
