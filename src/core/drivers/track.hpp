// Configurations that are tracked along a path by damped least squares, which slides along the
// joint limits.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "supple/ik/iterate.hpp"

namespace supple {

// Largest number of iterations of a step. One that needs more is divided.
inline constexpr int track_iterations = 16;

// How closely a track follows a path.
struct TrackOptions {
  double jump;   // displacement of a joint above which a step is divided, in its unit
  double reach;  // the largest lever arm of a joint [m]
  double exact_position, exact_rotation;  // errors at the ends of a step [m], [rad]
  double position, rotation;              // errors halfway that are always allowed [m], [rad]
  int divisions;                          // how often a step is halved
  std::vector<double> unit;               // (n,): units of the joints
};

// Tracks configurations one by one, with memory that is reused.
class Tracker {
 public:
  Tracker(const IkProblem<double>& ik, const TrackOptions& options)
      : ik_(ik), options_(options), n_(std::size_t(ik.chain.coordinates)) {
    const std::size_t m = std::size_t(ik.rows);
    memory_.resize(n_ + std::size_t(ik.targets) + 2 * m * n_ + m +
                   std::size_t(iterate_scratch(ik)));
    at_.q = memory_.data();
    at_.target = at_.q + n_;
    at_.J = at_.target + ik.targets;
    at_.J_before = at_.J + m * n_;
    at_.e = at_.J_before + m * n_;
    at_.work = at_.e + m;
    middle_.resize(std::size_t(options.divisions) * n_);
    for (double unit : options.unit) per_unit_.push_back(1 / unit);
  }

  // Number of intervals between the targets of one step: its smallest parts have a target halfway.
  static int intervals(int divisions) { return 2 << divisions; }

  // Tracks q (n,) through a step whose targets (intervals + 1, targets) are given; returns whether
  // that is possible, with the end in `then` (n,).
  bool advance(const double* q, const double* targets, double* then) {
    return advance(q, targets, intervals(options_.divisions), options_.divisions, then);
  }

 private:
  // A step that is long, or on which the tool leaves the path, is halved.
  bool advance(const double* q, const double* targets, int intervals, int divisions, double* then) {
    const double* const half = targets + intervals / 2 * ik_.targets;
    if (reaches(q, targets + intervals * ik_.targets, then) && keeps(q, half, then)) return true;
    if (divisions == 0) return false;
    double* const middle = middle_.data() + std::size_t(divisions - 1) * n_;
    return advance(q, targets, intervals / 2, divisions - 1, middle) &&
           advance(middle, half, intervals / 2, divisions - 1, then);
  }

  // Searches from q for a solution of a target, and writes it to `then`.
  bool reaches(const double* q, const double* target, double* then) {
    std::copy_n(target, ik_.targets, at_.target);
    std::copy_n(q, n_, at_.q);
    at_.before = -1;
    for (int i = 0; i < track_iterations; ++i) {
      evaluate_error(ik_, at_);
      if (!(moved(q, at_.q) < options_.jump)) return false;
      if (at_.position <= options_.exact_position && at_.rotation <= options_.exact_rotation) {
        std::copy_n(at_.q, n_, then);
        return true;
      }
      evaluate_jacobian(ik_, at_);
      descend(ik_, at_);
    }
    return false;
  }

  // Whether the tool is on the path halfway. The joints' straight line bends away from it by at
  // most the square of their step; a jump does more than that.
  bool keeps(const double* q, const double* target, const double* then) {
    std::copy_n(target, ik_.targets, at_.target);
    for (std::size_t j = 0; j < n_; ++j) at_.q[j] = (q[j] + then[j]) / 2;
    evaluate_error(ik_, at_);
    const double most = moved(q, then), bend = most * most;
    const double far = bend * options_.reach + options_.exact_position;
    return at_.position <= std::max(far, options_.position) &&
           at_.rotation <= std::max(bend + options_.exact_rotation, options_.rotation);
  }

  double moved(const double* a, const double* b) const {
    double most = 0;
    for (std::size_t j = 0; j < n_; ++j) {
      most = std::max(most, std::abs(b[j] - a[j]) * per_unit_[j]);
    }
    return most;
  }

  const IkProblem<double> ik_;
  const TrackOptions options_;
  const std::size_t n_;
  std::vector<double> memory_, middle_, per_unit_;
  IterateState<double> at_{};
};

}  // namespace supple
