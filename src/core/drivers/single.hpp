// Solves one problem on a CPU: each lane runs a different start. Included only by files that are
// compiled once for each instruction set. Tuned constants are explained in docs/constants.md.
#pragma once

#include <algorithm>

#include "drivers/closest.hpp"
#include "drivers/solutions.hpp"
#include "drivers/starts.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Number of seeds of the table that are tried one by one before a search on all lanes.
constexpr int table_attempts = 3;

// ‖e‖² below which a lane is completed in double precision.
constexpr float max_close_cost = 0.02f;

class SingleSolver {
 public:
  // `blocked` tells whether a rejected solution of the problem is recorded already.
  SingleSolver(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem,
               bool blocked)
      : request_(request),
        ik_(*request.polish),
        workspace_(workspace),
        problem_(problem),
        rejected_(blocked) {}

  void run() {
    search();
    if (!request_.failed) return;
    double* const failed = request_.failed + 4 * problem_;
    failed[0] = next_start_;
    failed[1] = failed_;
    for (int k = 0; k < 2; ++k) failed[2 + k] = failed_error_[k];
  }

 private:
  void search() {
    failures().clear();
    if (request_.q0 && try_q0()) return;
    workspace_.seeds[0].count = 0;
    if (!moves_base(request_)) nearest_seeds(request_, problem_, workspace_, workspace_.seeds[0]);
    if (first_suffices() && !request_.q0 && try_table_seeds()) return;
    if (enough()) return record_blocked(false);  // too many solutions were rejected
    int running = 0;
    for (int i = 0; i < lanes; ++i) {
      workspace_.lane[i] = {-1, 0, 0, 0, 0, false, false};
      set_target(request_, workspace_.search, i, problem_);
      if (next_start_ >= request_.max_seeds) continue;  // the lane stays idle
      workspace_.lane[i] = {problem_, next_start_++, 0, 0, 0, false, false};
      start_lane(request_, workspace_, i, workspace_.seeds[0]);
      ++running;
    }
    bool over = false;
    while (running && !over && !enough()) {
      over = iterate(running);
      if (!kept_.found && !rejected_ && decide_failed(false)) return;
    }
    if (kept_.found) return approach_q0();
    if (rejected_) return record_blocked(over);
    if (over) {  // time is up: the running starts count as failed
      evaluate(*request_.search, workspace_.search);
      for (int i = 0; i < lanes; ++i) {
        if (workspace_.lane[i].problem >= 0) record_failure(request_, workspace_, i, failures());
      }
    }
    decide_failed(true);
  }

  // Completes the record of the first rejected solution; `over` tells whether time is up.
  void record_blocked(bool over) {
    const std::ptrdiff_t row = problem_ * request_.max_solutions;
    if (over) request_.outcome[row] = Outcome::timeout;
    request_.effort[2 * row] = iterations_;
    request_.effort[2 * row + 1] = next_start_;
  }

  FailedStarts& failures() { return workspace_.failures[0]; }
  bool decide_failed(bool last) {
    return supple::decide_failed(request_, workspace_, problem_, failures(), iterations_,
                                 next_start_, last);
  }
  bool enough() const {
    return kept_.enough(request_.nearest, request_.max_solutions) ||
           (request_.max_rejected && rejected_ >= request_.max_rejected);
  }

  // Iterates from q0 alone, in double precision; one start suffices if q0 is near a solution.
  // Returns whether the search is complete.
  bool try_q0() {
    if (try_seed(request_.q0 + problem_ * request_.q0_stride, request_.nearest ? 2 : 1)) {
      const bool near = displacement_from_q0() <= near_q0;
      if (request_.posture) improve();
      const bool added = add_solution();
      return enough() || (added && request_.nearest && near);
    }
    return request_.nearest && workspace_.single.cost < near_miss && newton_from_q0();
  }

  // Iterates from each of the most promising seeds, of the table or with a placed base, one after
  // the other: an iteration on one configuration takes less time than one on all lanes, and usually
  // one seed suffices.
  // Returns whether a solution was found.
  bool try_table_seeds() {
    const SeedList& listed = workspace_.seeds[0];
    const int n = ik_.chain.nq;
    const int left = request_.max_seeds - next_start_;
    const bool placed = moves_base(request_);
    const int most = placed ? base_attempts : std::min(table_attempts, listed.count);
    for (int i = 0; i < std::min(most, left) && !stopped(request_); ++i) {
      if (placed) place_base(request_, problem_, workspace_, i);
      if (!try_seed(placed ? workspace_.base_q : listed.q + i * n, 1)) continue;
      improve();
      if (add_solution()) return true;
    }
    return false;
  }

  // Postprocesses the solution in workspace.single, unless the result would be rejected although
  // the solution is not.
  void improve() {
    const int n = ik_.chain.nq;
    const bool moves = request_.posture || (request_.nearest && request_.q0);
    IterateState<double>& at = workspace_.single;
    if (!request_.rejects || !moves || rejects(request_, problem_, at.q)) {
      return postprocess(request_, workspace_, problem_);
    }
    for (int j = 0; j < n; ++j) workspace_.kept[j] = at.q[j];
    postprocess(request_, workspace_, problem_);
    if (!rejects(request_, problem_, at.q)) return;
    for (int j = 0; j < n; ++j) at.q[j] = workspace_.kept[j];
    evaluate(ik_, at);
  }

  // Iterates from one seed in double precision while the cost falls fast enough. `patience`
  // multiplies the number of iterations between checks of the cost. Returns whether it has
  // converged.
  template <class T>
  bool try_seed(const T* q, int patience) {
    IterateState<double>& at = workspace_.single;
    const int factor = patience * ik_.iteration_factor;
    load_configuration(request_, at, 0, problem_, q);
    ++next_start_;
    double cost = 3e300;
    for (int i = 0; i < patience * factor * max_iterations; ++i, ++iterations_) {
      evaluate_error(ik_, at);
      if (converged(ik_, at)) return true;
      if (i % (factor * window) == 0) {
        if (!(at.cost <= double(progress) * cost)) break;
        cost = at.cost;
      }
      if (i % stop_interval == stop_interval - 1 && stopped(request_)) break;
      evaluate_jacobian(ik_, at);
      descend(ik_, at);
    }
    count_failure(at, 0);
    record_failure(ik_.chain.nq, at.q, float(at.cost), failures());
    return false;
  }

  // Counts a failed start, and keeps the errors of the best failed start for the report.
  template <class L>
  void count_failure(const IterateState<L>& at, int lane) {
    ++failed_;
    const double cost = get(at.cost, lane);
    if (!(cost < failed_cost_)) return;
    failed_cost_ = cost;
    failed_error_[0] = get(at.position, lane);
    failed_error_[1] = get(at.rotation, lane);
  }

  // Tries Newton's method from q0; it converges to a singular pose as well. Returns whether it has
  // found a solution near q0.
  bool newton_from_q0() {
    const int best = find_closest(request_, workspace_, problem_, nullptr);
    if (!get(converged(ik_, workspace_.polish), best)) return false;
    for (int j = 0; j < ik_.chain.nq; ++j) {
      workspace_.single.q[j] = get(workspace_.polish.q[j], best);
    }
    evaluate(ik_, workspace_.single);
    return add_solution() && displacement_from_q0() <= near_q0;
  }

  // Moves the nearest solution even closer to q0, in the null space of the tasks.
  void approach_q0() {
    if (!request_.nearest) return;
    load_configuration(request_, workspace_.single, 0, problem_,
                       request_.q + problem_ * ik_.chain.nq);
    evaluate(ik_, workspace_.single);
    postprocess(request_, workspace_, problem_);
    if (!request_.posture && !(displacement_from_q0() < kept_.least_displacement)) return;
    if (rejects(request_, problem_, workspace_.single.q)) return;
    record(request_, problem_, 0, workspace_.single, 0, Outcome::solved, iterations_, next_start_);
  }

  // Returns the largest joint displacement from q0 to workspace.single.
  double displacement_from_q0() const {
    const double* const q0 = request_.q0 + problem_ * request_.q0_stride;
    return max_displacement(
        ik_, [&](int j) { return workspace_.single.q[j]; }, [&](int j) { return q0[j]; });
  }

  // Records the solution in workspace.single, unless it was found before. If `nearest` is
  // requested, records it only if it is nearer to q0 than the others. Returns whether it is
  // accepted; the first rejected solution is recorded in case that no other is accepted.
  bool add_solution() {
    unwind_solution(request_, workspace_, problem_);
    if (rejects(request_, problem_, workspace_.single.q)) {
      if (!rejected_++ && !kept_.found) {
        record(request_, problem_, 0, workspace_.single, 0, Outcome::blocked, iterations_,
               next_start_);
      }
      return false;
    }
    kept_.add(request_.nearest, Found{*this});
    return true;
  }

  // The solution in workspace.single, which is added to the others (`KeptSolutions`).
  struct Found {
    const SingleSolver& of;

    double displacement() const { return of.displacement_from_q0(); }
    bool is_known(int found) const {
      const int n = of.ik_.chain.nq;
      const double* known = of.request_.q + of.problem_ * of.request_.max_solutions * n;
      for (int i = 0; i < found; ++i, known += n) {
        if (is_same_solution(of.ik_, of.request_.wrap, known, of.workspace_.single.q)) return true;
      }
      return false;
    }
    void write(int number) const {
      record(of.request_, of.problem_, number, of.workspace_.single, 0, Outcome::solved,
             of.iterations_, of.next_start_);
    }
  };

  // Whether the search ends with the first solution.
  bool first_suffices() const { return request_.max_solutions == 1 && !request_.nearest; }

  // Completes the best lane in double precision if a few more iterations should suffice: an
  // iteration on one configuration is faster than one on all lanes. Returns whether it has
  // converged to a solution; if that is rejected, the lane takes the next start.
  bool finish_best_lane(int& running) {
    int best = -1;
    float least = close_cost_;
    for (int i = 0; i < lanes; ++i) {
      const float cost = get(workspace_.search.cost, i);
      if (cost < least && workspace_.lane[i].problem >= 0) best = i, least = cost;
    }
    if (best < 0) return false;
    close_cost_ = 0.1f * least;  // the next attempt must be much closer
    IterateState<double>& at = workspace_.single;
    load_configuration(request_, at, 0, problem_, workspace_.lane_q(best, ik_.chain.nq));
    for (double cost = 3e300;; cost = at.cost) {
      evaluate_error(ik_, at);
      if (converged(ik_, at)) break;
      if (!(at.cost < 0.3 * cost)) return false;
      evaluate_jacobian(ik_, at);
      descend(ik_, at);
    }
    improve();
    if (add_solution()) return true;
    close_cost_ = max_close_cost;
    take_next_start(workspace_.lane[best], running);
    return false;
  }

  // Gives a lane the next start; it becomes idle if there is none.
  void take_next_start(LaneState& state, int& running) {
    state.is_new = next_start_ < request_.max_seeds;
    if (state.is_new) {
      state.start = next_start_++;
    } else {
      state.problem = -1;
      --running;
    }
  }

  // Runs one iteration of every lane. Returns whether time is up.
  bool iterate(int& running) {
    evaluate(*request_.search, workspace_.search);
    const mask_t<SearchLanes> met = converged(*request_.search, workspace_.search);
    ++iterations_;
    if (first_suffices() && finish_best_lane(running)) return false;
    for (int i = 0; i < lanes && !enough(); ++i) {
      LaneState& state = workspace_.lane[i];
      if (state.problem < 0 || state.is_new) continue;
      ++state.iteration;
      if (get(met, i)) {
        load_configuration(request_, workspace_.single, 0, problem_,
                           workspace_.lane_q(i, ik_.chain.nq));
        if (polish(request_, workspace_.single) || polish_singular(request_, workspace_)) {
          if (!request_.nearest) improve();
          add_solution();
        } else {
          count_failure(workspace_.single, 0);
          record_failure(request_, workspace_, i, failures());
        }
      } else if (lane_stalled(request_, workspace_, i, state)) {
        count_failure(workspace_.search, i);
        record_failure(request_, workspace_, i, failures());
      } else {
        continue;
      }
      take_next_start(state, running);
    }
    if (enough()) return false;
    descend(*request_.search, workspace_.search);
    for (int i = 0; i < lanes; ++i) {
      if (workspace_.lane[i].is_new) start_lane(request_, workspace_, i, workspace_.seeds[0]);
    }
    return stopped(request_);
  }

  const SolveRequest& request_;
  const IkProblem<double>& ik_;
  Workspace& workspace_;
  std::ptrdiff_t problem_;
  int next_start_ = 0, iterations_ = 0;
  KeptSolutions kept_;
  float close_cost_ = max_close_cost;
  int rejected_;                                       // number of rejected solutions
  int failed_ = 0;                                     // number of failed starts
  double failed_cost_ = 3e300, failed_error_[2] = {};  // cost, errors of the best failed start
};

// Not inlined: the functions that it calls then have one caller only, and are inlined into it.
[[gnu::noinline]] void solve_single(const SolveRequest& request, Workspace& workspace,
                                    std::ptrdiff_t problem, bool blocked = false) {
  SingleSolver(request, workspace, problem, blocked).run();
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
