// All solutions of a pose of a 6-joint arm: candidates in closed form, polished and verified by
// damped least squares in double precision, inside the joint limits.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "supple/ik/closed_form.hpp"
#include "supple/ik/iterate.hpp"

namespace supple {

// An arm with a closed form among the joints of a robot.
struct ArmOfRobot {
  ClosedForm<double> form;
  int coordinate[6];  // of each joint of the arm, in q
  Pose<double> home;  // of the frame at q = 0
};

// How all solutions are searched.
struct BranchOptions {
  bool wraps;    // whether solutions that differ by full turns are distinct
  bool nearest;  // whether those nearest to q0 come first, otherwise those far from joint limits
};

// Solutions of consecutive targets, one after the other.
struct Branches {
  std::vector<double> q, error;      // (s, n), (s, 2): position [m] and rotation [rad]
  std::vector<signed char> sampled;  // (s,): one of a continuum
  std::vector<int> count;            // of each target
  std::vector<signed char> certain;  // for each target: whether these are all solutions

  void append(const Branches& more) {
    q.insert(q.end(), more.q.begin(), more.q.end());
    error.insert(error.end(), more.error.begin(), more.error.end());
    sampled.insert(sampled.end(), more.sampled.begin(), more.sampled.end());
    count.insert(count.end(), more.count.begin(), more.count.end());
    certain.insert(certain.end(), more.certain.begin(), more.certain.end());
  }
};

// Errors [m], [rad] of a solution that needs no more iterations.
inline constexpr double branch_position = 1e-10, branch_rotation = 1e-10;
// Most iterations of a candidate. Those of an exact arm need none.
inline constexpr int branch_iterations = 24;
// Solutions that differ by less in every joint [rad] are the same: a double root that rounding
// splits.
inline constexpr double branch_distinct = 1e-5;
// A seed that moves farther than this [rad] may have lost its solution to that of another seed.
inline constexpr double branch_far = 0.1;

// Solves targets one by one, with memory that is reused.
class BranchSolver {
 public:
  BranchSolver(const ArmOfRobot& arm, const IkProblem<double>& ik, const BranchOptions& options)
      : arm_(arm), ik_(ik), options_(options), n_(ik.chain.coordinates) {
    const std::size_t n = std::size_t(n_), m = std::size_t(ik.rows);
    memory_.resize(2 * n + std::size_t(ik.targets) + 2 * m * n + m +
                   std::size_t(iterate_scratch(ik)));
    double* next = memory_.data();
    const auto take = [&](std::size_t count) {
      double* const taken = next;
      next += count;
      return taken;
    };
    at_.q = take(n);
    seed_ = take(n);
    at_.target = take(std::size_t(ik.targets));
    at_.J = take(m * n);
    at_.J_before = take(m * n);
    at_.e = take(m);
    at_.work = take(std::size_t(iterate_scratch(ik)));
    at_.before = -1;
  }

  // Appends all solutions of a target, given by its twelve numbers, to `to`. Joints that are not in
  // the arm stay at q0; without it as near to zero as their limits allow.
  void solve(const double* target, const double* q0, Branches& to) {
    const std::size_t before = to.q.size() / std::size_t(n_);
    std::copy_n(target, 12, at_.target);
    for (int j = 0; j < n_; ++j) {
      const double middle = 0.5 * (ik_.lower[j] + ik_.upper[j]);
      // the middle of a range that has one, else zero
      const double rest =
          std::isfinite(middle) ? middle : std::clamp(0.0, ik_.lower[j], ik_.upper[j]);
      seed_[j] = q0 ? q0[j] : rest;
      at_.q[j] = std::clamp(q0 ? q0[j] : 0.0, ik_.lower[j], ik_.upper[j]);
    }
    bool certain = true;
    const bool exact = arm_.form.slack == 0;
    // X = T M⁻¹, the displacement from the pose at q = 0
    const auto column = [&](int i) {
      return Vec3<double>{target[3 * i], target[3 * i + 1], target[3 * i + 2]};
    };
    const Rotation<double> R{column(0), column(1), column(2)};
    Pose<double> X;
    X.R = times_transpose(R, arm_.home.R);
    X.p = column(3) - X.R * arm_.home.p;
    closed_form_candidates(arm_.form, X, [&](const Candidate<double>& candidate) {
      double start[6];
      angles_of(candidate, start);
      bool inside = true;
      for (int i = 0; i < 6; ++i) inside = inside && place(arm_.coordinate[i], start[i]);
      if (!exact && (candidate.mark.critical || candidate.mark.sampled)) certain = false;
      if (!inside) return;
      if (!polish()) {
        certain = certain && exact;
        return;
      }
      if (!exact) {
        double moved = 0;
        for (int i = 0; i < 6; ++i) {
          moved = std::max(moved, std::abs(turned(at_.q[arm_.coordinate[i]] - start[i])));
        }
        if (moved > branch_far) certain = false;
      }
      if (is_known(to, before)) {
        certain = certain && exact;
        return;
      }
      append(to, candidate.mark.sampled);
    });
    if (options_.wraps) append_wraps(to, before);
    sort(to, before, options_.nearest ? q0 : nullptr);
    to.count.push_back(int(to.q.size() / std::size_t(n_) - before));
    to.certain.push_back(certain);
  }

 private:
  static constexpr double full_turn = 6.283185307179586476925286766559;

  // The angles of a candidate; several share a pack, which is faster.
  static void angles_of(const Candidate<double>& candidate, double* angle) {
    using L = Unrolled<double>;
    constexpr int W = width<L>;
    for (int first = 0; first < 6; first += W) {
      L s(0), c(1);
      const int count = std::min(W, 6 - first);
      for (int i = 0; i < count; ++i) {
        set(s, i, candidate.turn[first + i].s);
        set(c, i, candidate.turn[first + i].c);
      }
      const L angles = atan2(s, c);
      for (int i = 0; i < count; ++i) angle[first + i] = get(angles, i);
    }
  }

  static double turned(double x) { return x - full_turn * std::nearbyint(x / full_turn); }

  // Sets coordinate j to an angle inside its limits, up to full turns: the one nearest to its seed.
  // Returns false if there is none.
  bool place(int j, double angle) {
    // A nominal arm may be outside where the real one is just inside.
    const double over = 1e-9 + 10 * arm_.form.slack;
    const double lower = ik_.lower[j], upper = ik_.upper[j];
    double q = angle + full_turn * std::nearbyint((seed_[j] - angle) / full_turn);
    if (q < lower - over) q += full_turn * std::ceil((lower - over - q) / full_turn);
    if (q > upper + over) q -= full_turn * std::ceil((q - upper - over) / full_turn);
    if (q < lower - over) return false;
    at_.q[j] = std::clamp(q, lower, upper);
    return true;
  }

  // Polishes the configuration; returns whether it is a solution.
  bool polish() {
    double before = Number<double>::huge;
    for (int i = 0; i < branch_iterations; ++i) {
      evaluate_error(ik_, at_);
      if (at_.position <= branch_position && at_.rotation <= branch_rotation) return true;
      if (at_.cost > 0.25 * before && converged(ik_, at_)) return true;
      before = at_.cost;
      evaluate_jacobian(ik_, at_);
      descend(ik_, at_);
    }
    evaluate_error(ik_, at_);
    return converged(ik_, at_);
  }

  bool is_known(const Branches& to, std::size_t first) const {
    for (std::size_t s = first * std::size_t(n_); s < to.q.size(); s += std::size_t(n_)) {
      bool same = true;
      for (int i = 0; i < 6 && same; ++i) {
        const int j = arm_.coordinate[i];
        same = std::abs(turned(to.q[s + std::size_t(j)] - at_.q[j])) <= branch_distinct;
      }
      if (same) return true;
    }
    return false;
  }

  void append(Branches& to, bool sampled) {
    to.q.insert(to.q.end(), at_.q, at_.q + n_);
    to.error.push_back(at_.position);
    to.error.push_back(at_.rotation);
    to.sampled.push_back(sampled);
  }

  // Appends the solutions that differ from those since `first` by full turns of some joints.
  void append_wraps(Branches& to, std::size_t first) {
    const std::size_t n = std::size_t(n_);
    for (int i = 0; i < 6; ++i) {
      const std::size_t j = std::size_t(arm_.coordinate[i]), last = to.sampled.size();
      const double lower = ik_.lower[j], upper = ik_.upper[j];
      if (!(upper - lower < 1e3)) continue;  // a joint without limits has infinitely many
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

  // The largest displacement from q0, or proximity to a limit, as in supple/ik/preference.py.
  double cost_of(const double* q, const double* q0) const {
    double cost = 0;
    for (int j = 0; j < n_; ++j) {
      const double range = ik_.upper[j] - ik_.lower[j];
      if (q0) {
        cost = std::max(cost, std::abs(q[j] - q0[j]));
      } else if (range > 0 && range < 1e300) {
        cost = std::max(cost, std::abs(2 * q[j] - ik_.lower[j] - ik_.upper[j]) / range);
      }
    }
    return cost;
  }

  // Sorts the solutions since `first` by their costs.
  void sort(Branches& to, std::size_t first, const double* q0) {
    const std::size_t count = to.sampled.size() - first, n = std::size_t(n_);
    order_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      order_[i] = {cost_of(to.q.data() + (first + i) * n, q0), i};
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

  const ArmOfRobot& arm_;
  const IkProblem<double>& ik_;
  BranchOptions options_;
  int n_;
  std::vector<double> memory_;
  double* seed_;
  std::vector<std::pair<double, std::size_t>> order_;
  std::vector<double> sorted_;
  IterateState<double> at_{};
};

}  // namespace supple
