// All solutions for a pose of a 6-joint arm: candidates in closed form, polished and verified by
// damped least squares in double precision, inside the joint limits.
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

// An arm with a closed form that consists of six joints of a robot.
struct ArmOfRobot {
  ClosedForm<double> form;
  int coordinate[6];  // index in q of each joint of the arm
  Pose<double> home;  // pose of the frame at q = 0
};

// Settings of the search for all solutions.
struct BranchOptions {
  bool wraps;    // whether solutions that differ by full turns are distinct
  bool nearest;  // whether to sort by distance from q0, else by distance from joint limits
};

// Solutions of consecutive targets; s is the number of all of them.
struct Branches {
  std::vector<double> q, error;      // (s, n), (s, 2): position [m] and rotation [rad]
  std::vector<signed char> sampled;  // (s,): whether it is a sample of a continuum of solutions
  std::vector<int> count;            // number of solutions of each target
  std::vector<signed char> certain;  // for each target: whether these are certainly all solutions

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

// Errors [m], [rad] below which a solution needs no more iterations.
inline constexpr double branch_position = 1e-10, branch_rotation = 1e-10;
// Largest number of iterations of a candidate. If the arm's axes are exact, none are needed.
inline constexpr int branch_iterations = 24;
// Solutions that differ by less than this in every joint [rad] are the same: rounding may split a
// double root.
inline constexpr double branch_distinct = 1e-5;
// A seed that moves farther than this [rad] may have converged to the solution of another seed.
inline constexpr double branch_far = 0.1;

// Polishes and verifies the candidates of a target; the memory is reused for the next target.
// Candidates are verified several at a time, one on each lane; those that need iterations are
// polished one by one.
class BranchPolisher {
 public:
  // `coordinate` (6,) are the indices of the arm's joints in q. If `slack` is zero, candidates are
  // exact.
  BranchPolisher(const IkProblem<double>& ik, const int* coordinate, double slack,
                 const BranchOptions& options)
      : ik_(ik), slack_(slack), options_(options), n_(ik.chain.coordinates) {
    std::copy_n(coordinate, 6, coordinate_);
    const std::size_t n = std::size_t(n_);
    memory_.resize(size_of_state() + n);
    seed_ = memory_.data() + size_of_state();
    at_ = state(memory_.data());
    wide_memory_.resize(size_of_state());
    wide_ = state(wide_memory_.data());
    std::fill(wide_memory_.begin(), wide_memory_.end(), Lanes(0));
  }

  // Begins a target, given by its twelve numbers. Its solutions are appended to `to`. Joints that
  // are not in the arm stay at q0 or, without q0, as near to zero as their limits allow.
  void begin(const double* target, const double* q0, Branches& to) {
    to_ = &to;
    first_ = to.sampled.size();
    waiting_ = 0;
    certain_ = true;
    for (int i = 0; i < 12; ++i) wide_.target[i] = Lanes(at_.target[i] = target[i]);
    for (int j = 0; j < n_; ++j) {
      const double middle = 0.5 * (ik_.lower[j] + ik_.upper[j]);
      const double zero = std::clamp(0.0, ik_.lower[j], ik_.upper[j]);
      at_.q[j] = q0 ? std::clamp(q0[j], ik_.lower[j], ik_.upper[j]) : zero;
      seed_[j] = q0 || !std::isfinite(middle) ? at_.q[j] : middle;
      wide_.q[j] = Lanes(at_.q[j]);
    }
  }

  // Adds a candidate, given by the angles of the arm's joints.
  void offer(const Turn<double>* turn, const Mark& mark) {
    for (int i = 0; i < 6; ++i) {
      set(cosine_[i], waiting_, turn[i].c);
      set(sine_[i], waiting_, turn[i].s);
    }
    mark_[waiting_] = mark;
    if (!exact() && (mark.critical || mark.sampled)) certain_ = false;
    if (++waiting_ == width<Lanes>) verify();
  }

  // Ends a target and sorts its solutions: by distance from q0 if options.nearest, else by distance
  // from joint limits.
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

  // Returns the number of lanes of memory of an `IterateState`.
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

  // Returns an angle modulo 2π, between -π and π.
  static double turned(double x) { return x - full_turn * std::nearbyint(x / full_turn); }

  // Verifies the waiting candidates, and appends those that are new solutions.
  void verify() {
    mask_t<Lanes> inside = Lanes(0) == Lanes(0);
    Lanes start[6];
    for (int i = 0; i < 6; ++i) {
      start[i] = atan2(sine_[i], cosine_[i]);
      wide_.q[coordinate_[i]] = placed(coordinate_[i], start[i], inside);
    }
    evaluate_error(ik_, wide_);
    for (int k = 0; k < waiting_; ++k) {
      if (!get(inside, k)) continue;
      for (int i = 0; i < 6; ++i) at_.q[coordinate_[i]] = get(wide_.q[coordinate_[i]], k);
      at_.position = get(wide_.position, k);
      at_.rotation = get(wide_.rotation, k);
      if (!is_fine()) {
        if (!polish()) {
          certain_ = certain_ && exact();
          continue;
        }
        for (int i = 0; i < 6 && !exact(); ++i) {
          const double moved = turned(at_.q[coordinate_[i]] - get(start[i], k));
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

  // Returns `angle` plus the multiple of 2π that brings it nearest to seed_[j], inside the limits
  // of coordinate j. Lanes where there is no such angle are removed from `inside`.
  Lanes placed(int j, const Lanes& angle, mask_t<Lanes>& inside) const {
    // If the axes are not exact, a candidate may be outside its limits although its solution is
    // inside.
    const double over = 1e-9 + 10 * slack_, lower = ik_.lower[j], upper = ik_.upper[j];
    const Lanes turns = (Lanes(seed_[j]) - angle) * Lanes(1 / full_turn);
    const Lanes magic(Number<double>::round_magic);
    Lanes q = angle + ((turns + magic) - magic) * Lanes(full_turn);
    const mask_t<Lanes> low = q<Lanes(lower - over), high = q> Lanes(upper + over);
    if (any(low | high)) {  // the seed is inside the limits, so the next turn toward it may be
      q = select(low, q + Lanes(full_turn), select(high, q - Lanes(full_turn), q));
      inside = inside & (q >= Lanes(lower - over)) & (q <= Lanes(upper + over));
    }
    return min(max(q, Lanes(lower)), Lanes(upper));
  }

  bool is_fine() const {
    return at_.position <= branch_position && at_.rotation <= branch_rotation;
  }

  // Polishes the configuration; returns whether it is a solution.
  bool polish() {
    double before = Number<double>::huge;
    for (int i = 0; i < branch_iterations; ++i) {
      evaluate_error(ik_, at_);
      if (is_fine()) return true;
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
        const int j = coordinate_[i];
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

  // Appends the solutions that differ from those from index `first` on by full turns of some
  // joints.
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

  // Returns the largest displacement from q0 or, without q0, the largest proximity to a joint
  // limit, as in supple/ik/preference.py.
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

  // Sorts the solutions from index `first` on by `cost_of`.
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

  const IkProblem<double> ik_;
  const double slack_;
  const BranchOptions options_;
  const int n_;
  int coordinate_[6];
  std::vector<double> memory_;
  std::vector<Lanes> wide_memory_;
  double* seed_;             // (n,): angles are chosen nearest to it, up to full turns
  IterateState<double> at_;  // one candidate
  IterateState<Lanes> wide_;
  // The current target and its waiting candidates.
  Branches* to_ = nullptr;
  std::size_t first_ = 0;
  bool certain_ = true;
  int waiting_ = 0;
  Lanes cosine_[6], sine_[6];
  Mark mark_[width<Lanes>];
  // Scratch memory for sorting.
  std::vector<std::pair<double, std::size_t>> order_;
  std::vector<double> sorted_;
};

// Solves the targets of an arm one by one; the memory is reused.
class BranchSolver {
 public:
  BranchSolver(const ArmOfRobot& arm, const IkProblem<double>& ik, const BranchOptions& options)
      : arm_(arm), polisher_(ik, arm.coordinate, arm.form.slack, options) {}

  // Appends all solutions of a target, given by its twelve numbers, to `to`.
  void solve(const double* target, const double* q0, Branches& to) {
    polisher_.begin(target, q0, to);
    // X = T M⁻¹, the displacement from the pose M at q = 0 to the target T.
    const auto column = [&](int i) {
      return Vec3<double>{target[3 * i], target[3 * i + 1], target[3 * i + 2]};
    };
    const Rotation<double> R{column(0), column(1), column(2)};
    Pose<double> X;
    X.R = times_transpose(R, arm_.home.R);
    X.p = column(3) - X.R * arm_.home.p;
    closed_form_candidates(arm_.form, X, [&](const Candidate<double>& candidate) {
      polisher_.offer(candidate.turn, candidate.mark);
    });
    polisher_.end(q0);
  }

 private:
  const ArmOfRobot arm_;
  BranchPolisher polisher_;
};

}  // namespace supple
