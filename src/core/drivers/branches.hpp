// All solutions of a pose of a 6-joint arm: candidates in closed form, polished and verified by
// damped least squares in double precision, inside the joint limits. An arm of 7 joints has those
// of 6 of its joints, for each value of the other one on a grid. Tuned constants are explained in
// docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <type_traits>
#include <utility>
#include <vector>

#include "supple/ik/branch.hpp"

namespace supple {

// Largest number of iterations that polish all lanes together.
inline constexpr int wide_rounds = 3;

// Options of the search for all solutions.
struct BranchOptions {
  bool wraps;    // whether solutions that differ by full turns are distinct
  bool nearest;  // whether to sort solutions by distance to q0, not by distance from joint limits
};

// Solutions of consecutive targets, one after the other.
struct Branches {
  std::vector<double> q, error;      // (s, n), (s, 2): position [m] and rotation [rad]
  std::vector<signed char> sampled;  // (s,): whether the solution is a sample of a continuum
  std::vector<int> count;            // for each target: number of solutions
  std::vector<signed char> certain;  // for each target: whether these are all solutions

  void clear() {
    q.clear();
    error.clear();
    sampled.clear();
    count.clear();
    certain.clear();
  }
  void append(const Branches& more) {
    q.insert(q.end(), more.q.begin(), more.q.end());
    error.insert(error.end(), more.error.begin(), more.error.end());
    sampled.insert(sampled.end(), more.sampled.begin(), more.sampled.end());
    count.insert(count.end(), more.count.begin(), more.count.end());
    certain.insert(certain.end(), more.certain.begin(), more.certain.end());
  }
};

// Polishes and verifies the candidates of a target, with memory that is reused. Candidates are
// verified several at a time, each on a lane. If the arm's candidates are inexact, all lanes take
// some iterations; candidates that need more are polished one by one.
class BranchPolisher {
 public:
  // `coordinate` holds the index in q of each joint of the arm. `slack` is that of `ClosedForm`; if
  // it is zero, candidates are exact up to rounding, or have at most the given error [rad].
  BranchPolisher(const IkProblem<double>& ik, const int* coordinate, double slack,
                 const BranchOptions& options, double error = 0)
      : ik_(ik),
        tolerances_{ik.position_tolerance, ik.rotation_tolerance},
        slack_(slack),
        error_(error),
        options_(options),
        n_(ik.chain.coordinates) {
    std::copy_n(coordinate, 6, coordinate_);
    for (int j = 0; j < n_; ++j) {
      if (std::ranges::find(coordinate_, j) == std::end(coordinate_)) others_.push_back(j);
    }
    const std::size_t n = std::size_t(n_);
    memory_.resize(size_of_state() + n);
    reference_ = memory_.data() + size_of_state();
    at_ = state(memory_.data());
    wide_memory_.resize(size_of_state());
    wide_ = state(wide_memory_.data());
    std::fill(wide_memory_.begin(), wide_memory_.end(), Lanes(0));
  }

  // Prepares for the candidates of a target, a pose given by the columns of its rotation and its
  // position (12,). Its solutions are appended to `to`. Joints that are not part of the arm stay at
  // q0 or, if q0 is null, as near to zero as their limits allow.
  void begin(const double* target, const double* q0, Branches& to) {
    to_ = &to;
    first_ = to.sampled.size();
    waiting_ = 0;
    certain_ = true;
    for (int i = 0; i < 12; ++i) wide_.target[i] = Lanes(at_.target[i] = target[i]);
    for (int j = 0; j < n_; ++j) {
      at_.q[j] = kept_coordinate(ik_, j, q0);
      reference_[j] = turn_reference(ik_, j, q0);
      wide_.q[j] = Lanes(at_.q[j]);
    }
  }

  // Adds a candidate; it is verified when all lanes have one.
  void offer(const Turn<double>* turn, const Mark& mark) {
    for (int i = 0; i < 6; ++i) {
      set(cosine_[i], waiting_, turn[i].c);
      set(sine_[i], waiting_, turn[i].s);
    }
    mark_[waiting_] = mark;
    if (!exact() && (mark.critical || mark.sampled)) certain_ = false;
    if (++waiting_ == width<Lanes>) verify();
  }

  // Completes the solutions of a target, sorted by their distance to q0 if `nearest`, else by their
  // distance from joint limits, largest first.
  void end(const double* q0) {
    if (waiting_) verify();
    if (options_.wraps) append_wraps(*to_, first_);
    sort(*to_, first_, options_.nearest ? q0 : nullptr);
    to_->count.push_back(int(to_->sampled.size() - first_));
    to_->certain.push_back(certain_);
  }

 private:
  using Lanes = Unrolled<double>;
  static constexpr double full_turn = 6.283185307179586476925286766559;

  bool exact() const { return slack_ == 0; }

  // Returns the number of values of an `IterateState` on one lane.
  std::size_t size_of_state() const {
    const std::size_t n = std::size_t(n_), m = std::size_t(ik_.rows);
    return n + std::size_t(ik_.targets) + 2 * m * n + m + std::size_t(iterate_scratch(ik_));
  }
  template <class L>
  IterateState<L> state(L* memory) const {
    const int n = n_, m = ik_.rows;
    IterateState<L> made{};
    made.q = memory;
    made.target = made.q + n;
    made.J = made.target + ik_.targets;
    made.J_before = made.J + m * n;
    made.e = made.J_before + m * n;
    made.work = made.e + m;
    made.before = L(-1);
    return made;
  }

  // Verifies the waiting candidates.
  void verify() {
    mask_t<Lanes> inside = Lanes(0) == Lanes(0), clamped = Lanes(0) != Lanes(0);
    Lanes start[6];
    for (int i = 0; i < 6; ++i) {
      start[i] = unit_angle(cosine_[i], sine_[i]);
      const int j = coordinate_[i];
      wide_.q[j] = placed(ik_, j, reference_[j], slack_ + error_, start[i], inside, clamped);
    }
    if (!any(inside)) {
      waiting_ = 0;
      return;
    }
    if (any(clamped & inside)) {
      evaluate_error(ik_, wide_);
    } else {
      evaluate_turns(ik_, coordinate_, cosine_, sine_, wide_);
    }
    for (int round = 0; round < wide_rounds && is_rough(inside); ++round) {
      evaluate_jacobian(ik_, wide_);
      step(wide_);
      evaluate_error(ik_, wide_);
    }
    for (int k = 0; k < waiting_; ++k) {
      if (!get(inside, k)) continue;
      for (int i = 0; i < 6; ++i) at_.q[coordinate_[i]] = get(wide_.q[coordinate_[i]], k);
      at_.position = get(wide_.position, k);
      at_.rotation = get(wide_.rotation, k);
      if (!tolerances_.hold(at_, branch_fine)) {
        if (!polish()) {
          certain_ = certain_ && exact();
          continue;
        }
        for (int i = 0; i < 6 && !exact(); ++i) {
          const double moved = without_turns(at_.q[coordinate_[i]] - get(start[i], k));
          if (std::abs(moved) > branch_far) certain_ = false;
        }
      }
      if (is_known(*to_, first_)) {
        certain_ = certain_ && exact();
      } else {
        append(*to_, mark_[k].sampled);
      }
    }
    waiting_ = 0;
  }

  // Whether a candidate on one of the lanes `inside` is known to be inexact and is not polished
  // yet.
  bool is_rough(const mask_t<Lanes>& inside) const {
    if (exact() && error_ == 0) return false;
    for (int k = 0; k < waiting_; ++k) {
      if (get(inside, k) && !(get(wide_.position, k) <= branch_fine * tolerances_.position &&
                              get(wide_.rotation, k) <= branch_fine * tolerances_.rotation)) {
        return true;
      }
    }
    return false;
  }

  bool polish() {
    return polish_branch(ik_, tolerances_, at_, [&] { step(at_); });
  }

  // Takes a damped step of the arm's joints. Others may move the frame too, as the fixed joint of a
  // redundant arm does; they stay where `begin` has placed them.
  template <class L>
  void step(IterateState<L>& at) {
    for (int j : others_) {
      for (int i = 0; i < ik_.rows; ++i) at.J[i * n_ + j] = L(0);
    }
    descend(ik_, at);
  }

  bool is_known(const Branches& to, std::size_t first) const {
    for (std::size_t s = first * std::size_t(n_); s < to.q.size(); s += std::size_t(n_)) {
      const double* const q = to.q.data() + s;
      if (std::ranges::all_of(coordinate_, [&](int j) { return is_same_angle(q[j], at_.q[j]); })) {
        return true;
      }
    }
    return false;
  }

  void append(Branches& to, bool sampled) {
    to.q.insert(to.q.end(), at_.q, at_.q + n_);
    to.error.push_back(at_.position);
    to.error.push_back(at_.rotation);
    to.sampled.push_back(sampled);
  }

  // Appends the solutions that differ from those with indices >= `first` by full turns of joints.
  void append_wraps(Branches& to, std::size_t first) {
    const std::size_t n = std::size_t(n_);
    for (int i = 0; i < 6; ++i) {
      const std::size_t j = std::size_t(coordinate_[i]), last = to.sampled.size();
      const double lower = ik_.lower[j], upper = ik_.upper[j];
      if (!(upper - lower < 1e3)) continue;  // a joint without limits has infinitely many wraps
      for (std::size_t s = first; s < last; ++s) {
        const double q = to.q[s * n + j];
        for (double k = std::ceil((lower - q) / full_turn); q + full_turn * k <= upper; ++k) {
          if (k == 0) continue;
          const std::size_t copy = to.sampled.size();
          to.q.resize((copy + 1) * n);
          std::copy_n(to.q.begin() + std::ptrdiff_t(s * n), n,
                      to.q.begin() + std::ptrdiff_t(copy * n));
          to.q[copy * n + j] = q + full_turn * k;
          to.error.push_back(to.error[2 * s]);
          to.error.push_back(to.error[2 * s + 1]);
          to.sampled.push_back(to.sampled[s]);
        }
      }
    }
  }

  // Sorts the solutions with indices >= `first` by their costs.
  void sort(Branches& to, std::size_t first, const double* q0) {
    const std::size_t count = to.sampled.size() - first, n = std::size_t(n_);
    order_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      order_[i] = {branch_cost(ik_, to.q.data() + (first + i) * n, q0), i};
    }
    if (std::is_sorted(order_.begin(), order_.end())) return;
    std::sort(order_.begin(), order_.end());
    const auto reorder = [&](auto& values, std::size_t width) {
      sorted_.resize(count * width);
      const auto begin = values.begin() + std::ptrdiff_t(first * width);
      for (std::size_t i = 0; i < count; ++i) {
        std::copy_n(begin + std::ptrdiff_t(order_[i].second * width), width,
                    sorted_.begin() + std::ptrdiff_t(i * width));
      }
      std::transform(sorted_.begin(), sorted_.end(), begin, [](double x) {
        return static_cast<typename std::decay_t<decltype(values)>::value_type>(x);
      });
    };
    reorder(to.q, n);
    reorder(to.error, 2);
    reorder(to.sampled, 1);
  }

  const IkProblem<double> ik_;
  const BranchTolerances tolerances_;
  const double slack_, error_;
  const BranchOptions options_;
  const int n_;
  int coordinate_[6];
  std::vector<int> others_;  // indices in q of the joints that are not part of the arm
  std::vector<double> memory_;
  std::vector<Lanes> wide_memory_;
  double* reference_;        // (n,): angles to which the chosen 2π wraps are nearest
  IterateState<double> at_;  // one candidate
  IterateState<Lanes> wide_;
  // the target and the waiting candidates
  Branches* to_ = nullptr;
  std::size_t first_ = 0;
  bool certain_ = true;
  int waiting_ = 0;
  Lanes cosine_[6], sine_[6];
  Mark mark_[width<Lanes>];
  // memory for sorting
  std::vector<std::pair<double, std::size_t>> order_;
  std::vector<double> sorted_;
};

// Solves targets of an arm one by one, with memory that is reused.
class BranchSolver {
 public:
  using Arm = ArmOfRobot;

  BranchSolver(const ArmOfRobot& arm, const IkProblem<double>& ik, const BranchOptions& options)
      : arm_(arm), polisher_(ik, arm.coordinate, arm.form.slack, options) {}

  // Appends all solutions of a target, given by its twelve numbers, to `to`.
  void solve(const double* target, const double* q0, Branches& to) {
    polisher_.begin(target, q0, to);
    const Pose<double> X = displacement_to(arm_.home, target);
    closed_form_candidates(arm_.form, X, [&](const Candidate<double>& candidate) {
      polisher_.offer(candidate.turn, candidate.mark);
    });
    polisher_.end(q0);
  }

 private:
  const ArmOfRobot arm_;
  BranchPolisher polisher_;
};

// An arm of seven joints, and the arms of six that it becomes with one joint fixed.
struct GridOfArms {
  int coordinate;               // index in q of the fixed joint
  std::vector<double> values;   // its values
  std::vector<ArmOfRobot> arm;  // the arm for each value
};

// Solves targets of an arm of seven joints one by one.
class GridSolver {
 public:
  using Arm = GridOfArms;

  GridSolver(const GridOfArms& grid, const IkProblem<double>& ik, const BranchOptions& options)
      : grid_(grid), q0_(std::size_t(ik.chain.coordinates)) {
    for (const ArmOfRobot& arm : grid.arm) solver_.emplace_back(arm, ik, options);
  }

  // Appends the solutions of a target for all values of the fixed joint to `to`: samples of a
  // continuum. Coordinates of q0 (n,) that are not part of the arm are kept, zero without q0.
  void solve(const double* target, const double* q0, Branches& to) {
    const std::size_t first = to.sampled.size(), fixed = std::size_t(grid_.coordinate);
    if (q0) std::copy_n(q0, q0_.size(), q0_.begin());
    for (std::size_t k = 0; k < solver_.size(); ++k) {
      q0_[fixed] = grid_.values[k];
      solver_[k].solve(target, q0_.data(), to);
      to.count.pop_back();
      to.certain.pop_back();
    }
    std::fill(to.sampled.begin() + std::ptrdiff_t(first), to.sampled.end(), 1);
    to.count.push_back(int(to.sampled.size() - first));
    to.certain.push_back(false);
  }

 private:
  const GridOfArms grid_;
  std::vector<double> q0_;
  std::deque<BranchSolver> solver_;  // (a deque never moves its elements)
};

}  // namespace supple
