// The memory of a control loop: its arrays, and its state from one step to the next.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/servo_report.hpp"
#include "supple/limits/constrained.hpp"

namespace supple {

// Two records, that of the last step and that of the step being computed, so that an error in a
// step leaves the last record unchanged; and the arrays that both share.
class ServoMemory {
 public:
  // `remembers` is true if the step keeps J_before or u. `scratch_size` is the number of doubles of
  // scratch memory that the kernel needs.
  void allocate(const Servo<double>& servo, int targets, int velocities, bool remembers,
                int scratch_size) {
    nq_ = servo.chain.nq, n_ = servo.chain.nv, m_ = servo.rows, remembers_ = remembers;
    const int n = n_, m = m_;
    const bool yields = servo.curvature > 0;
    const bool ranged = std::any_of(servo.task, servo.task + servo.tasks,
                                    [](const Task<double>& task) { return task.ranged; });
    const int exact = yields ? m * n + 3 * m + n : 0, offset = yields ? m : 0;
    const int metric_size = servo.in_python ? n * n : 0;
    const int ranges = ranged && !servo.in_python ? ranges_memory(m, n) : 0;
    record_ = 2 * nq_ + 7 * n + 2 * m * n + (3 + max_directions) * m + exact;
    memory_.assign(
        2 * record_ + targets + 2 * velocities + metric_size + offset + ranges + scratch_size, 0.0);
    double* piece = memory_.data();
    const auto take = [&piece](int count) {
      double* taken = piece;
      piece += count;
      return taken;
    };
    for (ServoRecord* record : {&records_[0], &records_[1]}) {
      record->state = {.q = take(nq_),
                       .qd = take(n),
                       .change = take(n),
                       .J = take(m * n),
                       .desired = take(m),
                       .e = take(m),
                       .dq = take(n),
                       .active_set = take(n),
                       .J_before = take(m * n),
                       .v = take(n),
                       .u = take(max_directions * m),
                       .sigma = -1,
                       .chosen_lambda2 = 0,
                       .applied_lambda2 = 0,
                       .limited = 0,
                       .before = -1,
                       .has_previous = false,
                       .self_moves = false,
                       .estimate = {}};
      record->state.direction = take(m);
      record->before = take(n);
      record->change_before = take(n);
      record->from = take(nq_);
      if (yields) {
        record->state.exact_J = take(m * n);
        record->state.stopped = take(n);
        record->state.rate = take(m);
        record->state.slope = take(m);
        record->state.lost = take(m);
      }
    }
    target = take(targets);
    velocity = take(velocities);
    acceleration = take(velocities);
    metric = take(metric_size);
    if (double* const shared = take(offset); offset > 0) {
      for (ServoRecord& record : records_) record.state.offset = shared;
    }
    if (double* const shared = take(ranges); ranges > 0) {
      for (ServoRecord& record : records_) record.state.ranges = shared;
    }
    scratch = piece;
  }

  const ServoRecord& last() const { return *last_; }
  ServoRecord& next() { return *next_; }

  // Starts the next record: copies the last record, with the configuration q(j).
  template <class Q>
  ServoState<double>& begin(Q&& q) {
    const ServoState<double>& last = last_->state;
    ServoState<double>& state = next_->state;
    for (int j = 0; j < nq_; ++j) next_->from[j] = state.q[j] = q(j);
    for (int j = 0; j < n_; ++j) {
      next_->before[j] = state.qd[j] = last.qd[j];
      next_->change_before[j] = state.change[j] = last.change[j];
    }
    std::copy_n(last.direction, m_, state.direction);
    if (last.stopped) std::copy_n(last.stopped, n_, state.stopped);
    if (last.rate) std::copy_n(last.rate, 2 * m_, state.rate);
    state.sigma = last.sigma;
    state.estimate = last.estimate;
    state.chosen_lambda2 = last.chosen_lambda2;
    state.before = last.before;
    state.has_previous = last.has_previous;
    if (remembers_) {
      std::copy_n(last.J_before, m_ * n_, state.J_before);
      std::copy_n(last.u, max_directions * m_, state.u);
    }
    return state;
  }

  // Adds constraints to the next step: rows [G, h, owner] (count, n + 2).
  void constrain(const double* from, int count) {
    ConstraintRows& rows = next_->rows;
    rows.assign(from, count, n_);
    const std::size_t size = constraint_scratch(std::max(m_, n_), n_, count);
    if (row_scratch_.size() < size) row_scratch_.resize(size);
    constraints_ = {count, rows.G.data(), rows.h.data(), rows.state.data(), row_scratch_.data()};
    next_->state.constraints = count > 0 ? &constraints_ : nullptr;
  }

  // Replaces the rows of the last step, [G, h, owner, state] (count, n + 3).
  void recall_rows(const double* from, int count) {
    std::vector<double> given(count * (n_ + 2));
    for (int i = 0; i < count; ++i) std::copy_n(from + i * (n_ + 3), n_ + 2, &given[i * (n_ + 2)]);
    last_->rows.assign(given.data(), count, n_);
    for (int i = 0; i < count; ++i) last_->rows.state[i] = from[i * (n_ + 3) + n_ + 2];
  }

  // Makes the next record the last one.
  void accept() { std::swap(last_, next_); }

  // Restarts the loop with the joint velocities qd(j).
  template <class Speeds>
  void reset(Speeds&& qd) {
    ServoState<double>& state = last_->state;
    for (int j = 0; j < n_; ++j) {
      last_->before[j] = state.qd[j] = qd(j);
      last_->change_before[j] = 0;
      state.active_set[j] = state.dq[j] = state.change[j] = 0;
      if (state.stopped) state.stopped[j] = 0;
    }
    last_->rows.assign(nullptr, 0, n_);
    std::fill_n(state.direction, m_, 0.0);
    state.course = Course::kept;
    state.halting = 1;
    state.before = state.sigma = -1;
    state.has_previous = false;
    state.chosen_lambda2 = state.applied_lambda2 = state.limited = 0;
    state.beyond = 0;
    if (state.rate) std::fill_n(state.rate, 3 * m_, 0.0);
  }

  // Number of doubles that `save` writes.
  int saved_size() const { return record_ + scalars; }

  void save(double* to) const {
    const ServoState<double>& state = last_->state;
    const Estimate<double>& found = state.estimate;
    const double rest[scalars] = {state.sigma,   state.chosen_lambda2, state.applied_lambda2,
                                  state.limited, state.before,         double(state.has_previous),
                                  found.largest, found.effective,      found.across,
                                  found.alpha2,  state.beyond,         double(int(state.course)),
                                  state.halting};
    std::copy_n(state.q, record_, to);
    std::copy_n(rest, scalars, to + record_);
  }

  void recall(const double* from) {
    ServoState<double>& state = last_->state;
    std::copy_n(from, record_, state.q);
    from += record_;
    state.sigma = from[0], state.chosen_lambda2 = from[1], state.applied_lambda2 = from[2],
    state.limited = from[3];
    state.before = from[4], state.has_previous = from[5] != 0;
    state.estimate = {from[6], from[7], from[8], from[9]};
    state.beyond = from[10], state.course = Course(int(from[11])), state.halting = from[12];
  }

  // Arrays for the next command, for the matrix (n, n) of the norm that a step in Python minimizes,
  // and for the kernel.
  double *target, *velocity, *acceleration, *metric, *scratch;

 private:
  static constexpr int scalars = 13;  // number of scalars in a record, besides its arrays

  std::vector<double> memory_, row_scratch_;
  Constraints<double> constraints_;
  ServoRecord records_[2], *last_ = records_, *next_ = records_ + 1;
  int nq_, n_, m_, record_;
  bool remembers_;
};

}  // namespace supple
