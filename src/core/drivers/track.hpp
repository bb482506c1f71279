// Configurations that are tracked along a path by damped least squares, which slides along the
// joint limits. Included only by files that are compiled once for each instruction set.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include <cstddef>

#include "kernels/kernels.hpp"
#include "supple/ik/iterate.hpp"
#include "supple/math/arena.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest number of iterations of a step. A step that needs more is divided.
inline constexpr int track_iterations = 16;

namespace {

// Tracks a configuration, in memory that the caller owns.
class Tracker {
 public:
  explicit Tracker(const TrackRequest& request)
      : ik_(*request.ik), request_(request), n_(ik_.chain.nq) {}

  // Places the arrays in a block of memory, which may be null. Returns the block's size in doubles.
  int allocate(double* memory) {
    Arena<double> arena(memory);
    const int m = ik_.rows, nv = ik_.chain.nv;
    at_.q = arena.take(n_);
    at_.target = arena.take(ik_.targets);
    at_.J = arena.take(m * nv);
    at_.J_before = arena.take(m * nv);
    at_.e = arena.take(m);
    at_.work = arena.take(iterate_scratch(ik_));
    middle_ = arena.take(request_.divisions * n_);
    per_unit_ = arena.take(nv);
    if (memory) {
      for (int j = 0; j < nv; ++j) per_unit_[j] = 1 / request_.unit[j];
    }
    return arena.size();
  }

  // Tracks q (n,) through a step whose targets (intervals + 1, targets) are given; returns whether
  // that is possible, with the end in `then` (n,).
  bool advance(const double* q, const double* targets, double* then) {
    return advance(q, targets, request_.intervals, request_.divisions, then);
  }

 private:
  // A step that is long, or on which the tool leaves the path, is halved.
  bool advance(const double* q, const double* targets, int intervals, int divisions, double* then) {
    const double* const half = targets + intervals / 2 * ik_.targets;
    if (reaches(q, targets + intervals * ik_.targets, then) && keeps(q, half, then)) return true;
    if (divisions == 0) return false;
    double* const middle = middle_ + (divisions - 1) * n_;
    return advance(q, targets, intervals / 2, divisions - 1, middle) &&
           advance(middle, half, intervals / 2, divisions - 1, then);
  }

  // Searches from q for a solution of a target, and writes it to `then`.
  bool reaches(const double* q, const double* target, double* then) {
    for (int i = 0; i < ik_.targets; ++i) at_.target[i] = target[i];
    for (int j = 0; j < n_; ++j) at_.q[j] = q[j];
    at_.before = -1;
    for (int i = 0; i < track_iterations; ++i) {
      evaluate_error(ik_, at_);
      if (!(moved(q, at_.q) < request_.jump)) return false;
      if (at_.position <= request_.exact_position && at_.rotation <= request_.exact_rotation) {
        for (int j = 0; j < n_; ++j) then[j] = at_.q[j];
        return true;
      }
      evaluate_jacobian(ik_, at_);
      descend(ik_, at_);
    }
    return false;
  }

  // Whether the tool is on the path halfway. A straight motion of the joints deviates from the path
  // by at most about the square of its length; a jump deviates farther.
  bool keeps(const double* q, const double* target, const double* then) {
    for (int i = 0; i < ik_.targets; ++i) at_.target[i] = target[i];
    halfway(ik_.chain, q, then, at_.q);
    evaluate_error(ik_, at_);
    const double most = moved(q, then), bend = most * most;
    const double far = bend * request_.reach + request_.exact_position;
    return at_.position <= max(request_.position_tolerance, far) &&
           at_.rotation <= max(request_.rotation_tolerance, bend + request_.exact_rotation);
  }

  double moved(const double* a, const double* b) const {
    return largest_difference(ik_.chain, b, a, [&](int j) { return per_unit_[j]; });
  }

  const IkProblem<double>& ik_;
  const TrackRequest& request_;
  const int n_;
  double *middle_ = nullptr, *per_unit_ = nullptr;
  IterateState<double> at_{};
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
