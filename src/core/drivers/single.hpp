// One problem: every lane is another start. For files that are compiled once for each instruction
// set.
#pragma once

#include "drivers/closest.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

class SingleSolver {
 public:
  SingleSolver(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem)
      : request_(request), quest_(*request.fine), workspace_(workspace), problem_(problem) {}

  void run() {
    search();
    if (!request_.failed) return;
    double* const failed = request_.failed + 4 * problem_;
    failed[0] = next_;
    failed[1] = failed_;
    for (int k = 0; k < 2; ++k) failed[2 + k] = failed_error_[k];
  }

 private:
  void search() {
    failures().clear();
    if (request_.q0 && from_caller()) return;
    nearest_seeds(request_, problem_, workspace_, workspace_.listed[0]);
    if (hurry() && !request_.q0 && from_table()) return;
    int running = 0;
    for (int i = 0; i < lanes; ++i) {
      workspace_.slot[i] = {-1, 0, 0, 0, 0, false};
      aim(request_, workspace_, i, problem_);
      if (next_ >= request_.max_starts) continue;  // an idle lane is never started
      workspace_.slot[i] = {problem_, next_++, 0, 0, 0, false};
      begin(request_, workspace_, i, workspace_.listed[0]);
      ++running;
    }
    bool over = false;
    while (running && !over && !enough()) {
      over = iterate(running);
      if (!found_ && conclude(false)) return;
    }
    if (found_) return draw_near();
    if (over) {  // the best so far is what the lanes have now
      measure(*request_.wide, workspace_.wide);
      for (int i = 0; i < lanes; ++i) {
        if (workspace_.slot[i].problem >= 0) keep(request_, workspace_, i, failures());
      }
    }
    conclude(true);
  }

  FailedStarts& failures() { return workspace_.failures[0]; }
  bool conclude(bool last) {
    return supple::conclude(request_, workspace_, problem_, failures(), iterations_, next_, last);
  }
  bool enough() const { return found_ == (request_.nearest ? compared : request_.most); }

  // From the caller's start, in double and alone: near a solution this is all. Returns whether it
  // is enough.
  bool from_caller() {
    if (go_alone(request_.q0 + problem_ * request_.q0_stride, request_.nearest ? 2 : 1)) {
      const bool near = moved() <= near_start;
      if (request_.rest) suit(request_, workspace_, problem_);
      add();
      return enough() || (request_.nearest && near);
    }
    return request_.nearest && workspace_.lone.cost < near_miss && settled_near();
  }

  // From the table's most promising likewise: the iterations of a single number are shorter than
  // those of all lanes, and most often this is enough.
  bool from_table() {
    const SeedList& listed = workspace_.listed[0];
    const int n = quest_.chain.coordinates;
    const int some = std::min({alone, listed.count, request_.max_starts - next_});
    for (int i = 0; i < some && !stopped(request_); ++i) {
      if (!go_alone(listed.q + i * n, 1)) continue;
      suit(request_, workspace_, problem_);
      add();
      return true;
    }
    return false;
  }

  // Descends alone and in double, as long as the cost falls. Returns whether it arrived.
  template <class T>
  bool go_alone(const T* q, int patience) {
    IterateState<double>& at = workspace_.lone;
    const int pace = patience * quest_.pace;
    put_in(request_, at, 0, problem_, q);
    ++next_;
    double cost = 3e300;
    for (int i = 0; i < patience * pace * max_iterations; ++i, ++iterations_) {
      look(quest_, at);
      if (arrived(quest_, at)) return true;
      if (i % (pace * window) == 0) {
        if (!(at.cost <= double(progress) * cost)) break;
        cost = at.cost;
      }
      if (i % looks == looks - 1 && stopped(request_)) break;
      differentiate(quest_, at);
      descend(quest_, at);
    }
    note_failure(at, 0);
    keep(quest_.chain.coordinates, at.q, float(at.cost), failures());
    return false;
  }

  // A start that failed, for whoever asks how near the best of them came.
  template <class L>
  void note_failure(const IterateState<L>& at, int lane) {
    ++failed_;
    const double cost = get(at.cost, lane);
    if (!(cost < failed_cost_)) return;
    failed_cost_ = cost;
    failed_error_[0] = get(at.position, lane);
    failed_error_[1] = get(at.rotation, lane);
  }

  // Where that has failed: Newton's method, which gets to a singular pose. Returns whether it did.
  bool settled_near() {
    const int best = find_closest(request_, workspace_, problem_, nullptr);
    if (!get(arrived(quest_, workspace_.fine), best)) return false;
    for (int j = 0; j < quest_.chain.coordinates; ++j) {
      workspace_.lone.q[j] = get(workspace_.fine.q[j], best);
    }
    measure(quest_, workspace_.lone);
    add();
    return moved() <= near_start;
  }

  // The nearest of the solutions is drawn nearer, as far as the task leaves freedom.
  void draw_near() {
    if (!request_.nearest) return;
    put_in(request_, workspace_.lone, 0, problem_, request_.q + problem_ * quest_.chain.coordinates);
    measure(quest_, workspace_.lone);
    suit(request_, workspace_, problem_);
    if (!request_.rest && !(moved() < least_move_)) return;
    record(request_, problem_, 0, workspace_.lone, 0, Outcome::solved, iterations_, next_);
  }

  // The largest move of a joint from the caller's start.
  double moved() const {
    double most = 0;
    for (int j = 0; j < quest_.chain.coordinates; ++j) {
      most = std::max(most, size(workspace_.lone.q[j] - request_.q0[problem_ * request_.q0_stride + j]));
    }
    return most;
  }

  // What workspace.lone holds is a solution, perhaps a known one.
  void add() {
    const int n = quest_.chain.coordinates;
    unwind_solution(request_, workspace_, problem_);
    if (request_.nearest) {
      const double move = moved();
      if (++found_ > 1 && !(move < least_move_)) return;
      least_move_ = move;
      return record(request_, problem_, 0, workspace_.lone, 0, Outcome::solved, iterations_, next_);
    }
    const double* known = request_.q + problem_ * request_.most * n;
    for (int i = 0; i < found_; ++i, known += n) {
      bool same = true;
      for (int j = 0; j < n; ++j) {
        const double turn = request_.turn ? request_.turn[j] : 0;
        same &= size(difference(turn, known[j], workspace_.lone.q[j])) <= apart;
      }
      if (same) return;
    }
    record(request_, problem_, found_++, workspace_.lone, 0, Outcome::solved, iterations_, next_);
  }

  // Whether the first solution is all that is wanted.
  bool hurry() const { return request_.most == 1 && !request_.nearest; }

  // The best lane goes on alone and in double if it is so close that it should arrive in a few
  // iterations: those of a single number are shorter. Returns whether it did.
  bool close_in() {
    int best = -1;
    float least = close_;
    for (int i = 0; i < lanes; ++i) {
      const float cost = get(workspace_.wide.cost, i);
      if (cost < least && workspace_.slot[i].problem >= 0) best = i, least = cost;
    }
    if (best < 0) return false;
    close_ = 0.1f * least;  // (next time it must be much closer)
    IterateState<double>& at = workspace_.lone;
    put_in(request_, at, 0, problem_, workspace_.lane_q(best, quest_.chain.coordinates));
    for (double cost = 3e300;; cost = at.cost) {
      look(quest_, at);
      if (arrived(quest_, at)) break;
      if (!(at.cost < 0.3 * cost)) return false;
      differentiate(quest_, at);
      descend(quest_, at);
    }
    suit(request_, workspace_, problem_);
    add();
    return true;
  }

  // Every lane by one iteration. Returns whether time is up.
  bool iterate(int& running) {
    measure(*request_.wide, workspace_.wide);
    const mask_t<Wide> there = arrived(*request_.wide, workspace_.wide);
    ++iterations_;
    if (hurry() && close_in()) return false;
    for (int i = 0; i < lanes && !enough(); ++i) {
      LaneState& slot = workspace_.slot[i];
      if (slot.problem < 0) continue;
      ++slot.iteration;
      if (get(there, i)) {
        put_in(request_, workspace_.lone, 0, problem_, workspace_.lane_q(i, quest_.chain.coordinates));
        if (finish(request_, workspace_.lone) || finish_singular(request_, workspace_)) {
          if (!request_.nearest) suit(request_, workspace_, problem_);
          add();
        } else {
          note_failure(workspace_.lone, 0);
          keep(request_, workspace_, i, failures());
        }
      } else if (stuck(request_, workspace_, i, slot)) {
        note_failure(workspace_.wide, i);
        keep(request_, workspace_, i, failures());
      } else {
        continue;
      }
      slot.fresh = next_ < request_.max_starts;
      if (slot.fresh) {
        slot.start = next_++;
      } else {
        slot.problem = -1;
        --running;
      }
    }
    if (enough()) return false;
    descend(*request_.wide, workspace_.wide);
    for (int i = 0; i < lanes; ++i) {
      if (workspace_.slot[i].fresh) begin(request_, workspace_, i, workspace_.listed[0]);
    }
    return stopped(request_);
  }

  const SolveRequest& request_;
  const IkProblem<double>& quest_;
  Workspace& workspace_;
  std::ptrdiff_t problem_;
  int found_ = 0, next_ = 0, iterations_ = 0;
  double least_move_ = 0;
  float close_ = 0.02f;  // ‖e‖² of a lane that is worth going on with alone
  int failed_ = 0;
  double failed_cost_ = 3e300, failed_error_[2] = {};  // of the best of the failed starts
};

// (Not inlined, so that what it calls is called from one place alone, and inlined there.)
[[gnu::noinline]] void solve_alone(const SolveRequest& request, Workspace& workspace,
                                   std::ptrdiff_t problem) {
  SingleSolver(request, workspace, problem).run();
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
