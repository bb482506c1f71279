// Lists of solutions of poses: removes duplicates, adds solutions that differ by full turns of
// joints, and sorts all of them. The solutions themselves come from the kernel
// (kernels/branches.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "drivers/scratch.hpp"
#include "kernels/isa.hpp"
#include "supple/ik/branch.hpp"

namespace supple {

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

// Solves targets of an arm one by one, with memory that is reused.
class BranchSolver {
 public:
  using Arm = supple::Arm;

  BranchSolver(const Arm& arm, const IkProblem<double>& ik, const BranchOptions& options)
      : kernel_(isa().branches),
        ik_(ik),
        options_(options),
        n_(std::size_t(ik.chain.nq)),
        memory_(std::make_unique<Scratch>(kernel_->memory(ik, arm))) {
    std::copy_n(arm.coordinate, 6, coordinate_);
    kernel_->prepare(ik, arm, memory_->get());
  }

  // Appends the solutions of a target (12,) to `to`, sorted by their distance to q0 if `nearest`,
  // else by their distance from joint limits, largest first.
  void solve(const double* target, const double* q0, Branches& to) {
    to_ = &to;
    first_ = to.sampled.size();
    const SolutionSink sink{this, &take};
    const bool certain = kernel_->solve(memory_->get(), target, q0, sink);
    if (options_.wraps) append_wraps();
    sort(options_.nearest ? q0 : nullptr);
    to.count.push_back(int(to.sampled.size() - first_));
    to.certain.push_back(certain);
  }

 private:
  static constexpr double full_turn = 6.283185307179586476925286766559;

  // Appends a solution unless it is known. Returns whether it is new.
  static bool take(void* solver, const double* q, double position, double rotation, bool sampled) {
    BranchSolver& self = *static_cast<BranchSolver*>(solver);
    if (self.is_known(q)) return false;
    Branches& to = *self.to_;
    to.q.insert(to.q.end(), q, &q[self.n_]);
    to.error.push_back(position);
    to.error.push_back(rotation);
    to.sampled.push_back(sampled);
    return true;
  }

  bool is_known(const double* given) const {
    for (std::size_t s = first_ * n_; s < to_->q.size(); s += n_) {
      const double* const q = to_->q.data() + s;
      if (std::ranges::all_of(coordinate_, [&](int j) { return is_same_angle(q[j], given[j]); })) {
        return true;
      }
    }
    return false;
  }

  // Appends the solutions that differ from those of the target by full turns of joints.
  void append_wraps() {
    Branches& to = *to_;
    for (int i = 0; i < 6; ++i) {
      const std::size_t j = std::size_t(coordinate_[i]), last = to.sampled.size();
      const double lower = ik_.lower[j], upper = ik_.upper[j];
      if (!(upper - lower < 1e3)) continue;  // a joint without limits has infinitely many wraps
      for (std::size_t s = first_; s < last; ++s) {
        const double q = to.q[s * n_ + j];
        double k = std::ceil(coordinate_difference(lower, q) / full_turn), turned;
        for (; (turned = integrate_coordinate(q, full_turn * k)) <= upper; ++k) {
          if (k == 0) continue;
          const std::size_t copy = to.sampled.size();
          to.q.resize((copy + 1) * n_);
          std::copy_n(to.q.begin() + std::ptrdiff_t(s * n_), n_,
                      to.q.begin() + std::ptrdiff_t(copy * n_));
          to.q[copy * n_ + j] = turned;
          to.error.push_back(to.error[2 * s]);
          to.error.push_back(to.error[2 * s + 1]);
          to.sampled.push_back(to.sampled[s]);
        }
      }
    }
  }

  // Sorts the solutions of the target by their costs.
  void sort(const double* q0) {
    Branches& to = *to_;
    const std::size_t count = to.sampled.size() - first_;
    order_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      order_[i] = {branch_cost(ik_, to.q.data() + (first_ + i) * n_, q0), i};
    }
    if (std::is_sorted(order_.begin(), order_.end())) return;
    std::sort(order_.begin(), order_.end());
    const auto reorder = [&](auto& values, std::size_t width) {
      sorted_.resize(count * width);
      const auto begin = values.begin() + std::ptrdiff_t(first_ * width);
      for (std::size_t i = 0; i < count; ++i) {
        std::copy_n(begin + std::ptrdiff_t(order_[i].second * width), width,
                    sorted_.begin() + std::ptrdiff_t(i * width));
      }
      std::transform(sorted_.begin(), sorted_.end(), begin, [](double x) {
        return static_cast<typename std::decay_t<decltype(values)>::value_type>(x);
      });
    };
    reorder(to.q, n_);
    reorder(to.error, 2);
    reorder(to.sampled, 1);
  }

  const BranchKernel* kernel_;
  IkProblem<double> ik_;
  BranchOptions options_;
  std::size_t n_;
  int coordinate_[6];
  std::unique_ptr<Scratch> memory_;  // memory of the kernel
  // the target
  Branches* to_ = nullptr;
  std::size_t first_ = 0;
  // memory for sorting
  std::vector<std::pair<double, std::size_t>> order_;
  std::vector<double> sorted_;
};

// An arm of seven joints, and the arms of six joints that remain when one joint is fixed.
struct GridOfArms {
  int coordinate;              // index in q of the fixed joint
  std::vector<double> values;  // values of the fixed joint
  std::vector<Arm> arm;        // the arm for each value
};

// Solves targets of an arm of seven joints one by one.
class GridSolver {
 public:
  using Arm = GridOfArms;

  GridSolver(const GridOfArms& grid, const IkProblem<double>& ik, const BranchOptions& options)
      : grid_(grid), q0_(std::size_t(ik.chain.nq)) {
    for (const supple::Arm& arm : grid.arm) solver_.emplace_back(arm, ik, options);
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
  GridOfArms grid_;
  std::vector<double> q0_;
  std::vector<BranchSolver> solver_;
};

}  // namespace supple
