// A control loop's distance from obstacles: rows of constraints, and a certified step.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "bindings/collision.hpp"
#include "bindings/servo_memory.hpp"
#include "kernels/collision.hpp"
#include "kernels/isa.hpp"
#include "supple/robot/configuration.hpp"

namespace supple {

class ServoGuard {
 public:
  // `model` is None without obstacles. `tracking` (n,) is how far joints may be from the commanded
  // motion [rad or m]; empty if they follow it exactly.
  void set(nb::object model, double clearance, const std::vector<double>& tracking,
           const Servo<double>& servo) {
    object_ = std::move(model);
    if (object_.is_none()) return;
    if (!nb::isinstance<PyCollisionModel>(object_))
      throw nb::type_error("collision must be a CollisionModel or None");
    model_ = nb::inst_ptr<PyCollisionModel>(object_);
    const int n = servo.chain.nv, nq = servo.chain.nq;
    check_length("the collision model's coordinates", nq, model_->view().chain.nq);
    if (!(clearance >= 0) || !std::isfinite(clearance))
      throw_field_error("clearance", "finite and at least 0", clearance);
    const CollisionModel<double>& view = model_->view();
    memory_.assign(isa().collision->guard_scratch(view), 0.0);
    const std::size_t rows = most_guard_rows(view);
    G_.resize(rows * n), h_.resize(rows), pairs_.resize(rows);
    tracking_.assign(tracking.begin(), tracking.end());
    if (!tracking_.empty()) check_length("tracking_error", n, tracking_.size());
    guard_ = {.clearance = clearance,
              .tracking = tracking_.empty() ? nullptr : tracking_.data(),
              .dt = servo.dt,
              .paced = false,
              .limit = servo.limit,
              .stop = StopKind::none,
              .near = 0,
              .memory = memory_.data()};
    predicted_.assign(nq, 0.0);
    next_.assign(n, 0.0);
  }

  // Replaces the model by that of a later world. The certified stop remains certified if obstacles
  // have moved by no more than their speeds allow, and nothing else has changed.
  void replace(nb::object model, const Servo<double>& servo) {
    const nb::object before = object_;  // keeps the old model alive
    const PyCollisionModel* const old = model_;
    const StopKind stop = guard_.stop;
    const double clearance = guard_.clearance, elapsed = elapsed_;
    const Doubles predicted = predicted_;
    model_ = nullptr;
    set(std::move(model), clearance, std::vector<double>(tracking_.begin(), tracking_.end()),
        servo);
    elapsed_ = 0;
    moves_ = -1;
    if (!old || !model_) return;
    predicted_ = predicted;
    jumps_ = model_->jumps();
    if (complies(old->view(), model_->view(), elapsed)) guard_.stop = stop;
  }

  // Moves shapes of the world to poses (count, 4, 4). The certified stop remains certified if none
  // has moved farther than its speed allows since the last move, or since the model was set. The
  // model belongs to this loop alone.
  void move(int count, const int* shapes, const double* poses) {
    if (!model_) return;
    auto* const model = nb::inst_ptr<PyCollisionModel>(object_);
    for (int k = 0; k < count; ++k) {
      check_index("shape", 0, model->view().shapes, shapes[k]);
      const FixedShape<double> before = model->view().shape[shapes[k]];
      model->move(shapes[k], poses + 16 * k);
      const FixedShape<double>& now = model->view().shape[shapes[k]];
      if (displacement(before, now) > now.speed * elapsed_ * (1 + 1e-9)) forget();
    }
    jumps_ = model->jumps();
    elapsed_ = 0;
  }

  bool active() const { return model_ != nullptr; }
  const nb::object& object() const { return object_; }
  const PyCollisionModel* model() const { return model_; }
  double clearance() const { return guard_.clearance; }

  // Discards the certified stop, which is not valid any more.
  void forget() { guard_.stop = StopKind::none; }

  // Appends the rows [G, h, owner] (count, n + 2) of the pairs near q to `rows`; the owner of a row
  // is -1 - pair.
  void append_rows(const Servo<double>& servo, const ServoRecord& next, std::vector<double>& rows) {
    const int n = servo.chain.nv;
    const CollisionModel<double>& view = model_->view();
    if (moves_ != model_->moves()) {
      isa().collision->guard_prepare(view, memory_.data());
      guard_.near = 0;
      moves_ = model_->moves();
    }
    const double off =
        largest_difference(servo.chain, next.from, static_cast<const double*>(predicted_.data()),
                           [&](int j) { return 1 / (1 + std::abs(predicted_[j])); });
    if (off > 1e-12) forget();
    if (jumps_ != model_->jumps()) forget(), jumps_ = model_->jumps();
    guard_.dt = servo.dt;
    guard_.paced = servo.later_count > 0;
    const int count = isa().collision->guard_rows(view, guard_, next.from, next.before, G_.data(),
                                                  h_.data(), pairs_.data(), inside_next_);
    for (int i = 0; i < count; ++i) {
      rows.insert(rows.end(), G_.begin() + i * n, G_.begin() + (i + 1) * n);
      rows.push_back(h_[i]), rows.push_back(-1.0 - pairs_[i]);
    }
  }

  // Replaces the step of `next` by one that is certified.
  void secure(const Servo<double>& servo, ServoRecord& next) {
    const int n = servo.chain.nv;
    ServoState<double>& state = next.state;
    std::copy_n(state.qd, n, next_.data());
    made_next_ = isa().collision->guard_step(model_->view(), guard_, next.from, next.before,
                                             next.change_before, next_.data());
    if (!made_next_.changed) return;
    // Rounding must not move a joint past a limit that it has not passed.
    const auto clip = [&](int j, double from, double to) {
      const JointLimit<double>& limit = servo.limit[j];
      if (from <= limit.upper) to = std::min(to, limit.upper);
      return from >= limit.lower ? std::max(to, limit.lower) : to;
    };
    integrate(servo.chain, n, static_cast<const double*>(next.from),
              static_cast<const double*>(next_.data()), servo.dt, state.q, clip);
    for (int j = 0; j < n; ++j) {
      state.qd[j] = next_[j];
      state.change[j] = next_[j] - next.before[j];
    }
    state.limited = 1;
    for (int i = 0; i < servo.rows; ++i) {
      double along = 0;
      for (int j = 0; j < n; ++j) along += state.J[i * n + j] * state.qd[j];
      state.direction[i] = along;
    }
  }

  // To be called when the step of `secure` has been taken.
  void accept(const ServoRecord& taken) {
    made_ = made_next_;
    inside_ = inside_next_;
    guard_.stop = made_.stop;
    elapsed_ += guard_.dt;
    std::copy_n(taken.state.q, predicted_.size(), predicted_.data());
  }

  // Returns what obstacles did to the last step, as flags of StepStatus.
  int flags(const ServoRecord& last) const {
    if (!active()) return 0;
    bool held = made_.changed;
    for (int i = 0; i < last.rows.count; ++i) {
      held = held || (last.rows.owner[i] < 0 && last.rows.state[i] != double(int(RowState::met)));
    }
    const bool exceeded = inside_ || (made_.changed && made_.stop == StopKind::none);
    return (held ? at_collision : 0) | (exceeded ? over_collision : 0);
  }

  // The pair because of which the last step was changed, or -1.
  int blocking() const { return made_.pair; }

 private:
  // Bound of the distance by which points of a shape have moved [m].
  static double displacement(const FixedShape<double>& a, const FixedShape<double>& b) {
    double shift = 0, turn = 0;
    for (int k = 0; k < 3; ++k) shift += square(a.position[k] - b.position[k]);
    for (int k = 0; k < 9; ++k) turn += square(a.rotation[k] - b.rotation[k]);
    // Points of a half-space that rotates at all move by any distance: its `bound` is huge.
    return std::sqrt(shift) + (turn > 0 ? std::sqrt(turn) * a.bound : 0);
  }

  // Whether shapes of the world have moved by at most their speeds times `elapsed`, and all else is
  // the same.
  static bool complies(const CollisionModel<double>& old, const CollisionModel<double>& now,
                       double elapsed) {
    if (old.shapes != now.shapes || old.pairs != now.pairs || old.moving != now.moving ||
        old.groups != now.groups || !std::equal(old.pair, old.pair + 2 * old.pairs, now.pair) ||
        !std::equal(old.allowed, old.allowed + old.groups, now.allowed)) {
      return false;
    }
    for (int i = 0; i < now.shapes; ++i) {
      const FixedShape<double>&a = old.shape[i], &b = now.shape[i];
      if (a.kind != b.kind || a.radius != b.radius || a.bound != b.bound ||
          !std::equal(a.half, a.half + 3, b.half) || a.vertices != b.vertices ||
          old.body[a.body].frame != now.body[b.body].frame ||
          !std::equal(a.vertex, a.vertex + vertex_numbers(a.vertices), b.vertex)) {
        return false;
      }
      const bool fixed = now.body[b.body].frame >= 0;
      if (displacement(a, b) > (fixed ? 0 : b.speed * elapsed * (1 + 1e-9))) return false;
    }
    return true;
  }

  nb::object object_ = nb::none();
  const PyCollisionModel* model_ = nullptr;
  Guard<double> guard_{};
  GuardedStep made_{}, made_next_{};
  bool inside_ = false, inside_next_ = false;
  int moves_ = -1, jumps_ = 0;
  double elapsed_ = 0;  // [s], since the model was set
  Doubles memory_, G_, h_, predicted_, next_, tracking_;
  Ints pairs_;
};

}  // namespace supple
