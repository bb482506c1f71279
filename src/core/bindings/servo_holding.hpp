// The held tasks of a control loop: which are held, where, and how far they are switched on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/servo_report.hpp"
#include "kernels/isa.hpp"
#include "supple/servo/holding.hpp"

namespace supple {

class ServoHolding {
 public:
  static constexpr int most_padding = 16;        // [doubles], of a row
  static constexpr double noticed_error = 1e-9;  // [m or rad]: above it, a task is not held

  // The last `count` tasks are those that may be held. All are held from the first step on.
  void set(const std::vector<Task<double>>& tasks, int count, Servo<double>& servo) {
    servo.held_tasks = count;
    servo.held_task = tasks.data() + (tasks.size() - std::size_t(count));
    servo.held_rows = 0;
    int targets = 0;
    for (int k = 0; k < count; ++k) {
      servo.held_rows += servo.held_task[k].rows;
      sizes_.push_back(target_size(servo.held_task[k]));
      targets += sizes_.back();
    }
    const std::size_t h = servo.held_rows, n = servo.chain.nv;
    now_ = {std::vector<Phase>(count), Doubles(targets, 0.0), Doubles(count, 0.0)};
    next_ = now_;
    share_.assign(count, 0.0), begins_ = aims_ = share_;
    if (count == 0) return;
    A_.assign(h * n, 0.0), e_.assign(h, 0.0), rows_.assign(h * n, 0.0), b_.assign(h, 0.0);
    const std::size_t padded = h * (n + most_padding) + most_padding;
    L_.assign(padded, 0.0), mirror_ = Q_ = L_;
    tau_.assign(h, 0.0), order_.assign(h, 0);
    x_.assign(n + 2 * most_padding, 0.0);
    moves_ = std::make_unique<bool[]>(n);
    coupling_.assign((h + most_padding) * std::size_t(servo.rows) + most_padding, 0.0);
    memory_.assign(holding_memory(servo), 0.0);
  }

  bool any() const { return !share_.empty(); }
  int tasks() const { return int(share_.size()); }
  int target_of(int k) const { return sizes_[k]; }

  // Begins to hold a task at `target` or, if that is null, where the task is when it is fully
  // switched on.
  void hold(int k, const double* target, double over) {
    Phase& phase = now_.phase[k];
    if (target) std::copy_n(target, sizes_[k], now_.target.data() + offset(k));
    if (target || phase.s < 1 || phase.rate < 0) phase.known = phase.given = target != nullptr;
    move(phase, 1, over);
  }
  void release(int k, double over) {
    move(now_.phase[k], 0, over);
    now_.error[k] = 0;
  }

  // Prepares the next step; returns null if no task takes part. `constraints` is the number of rows
  // of the constraints.
  Holding<double>* begin(const Servo<double>& servo, int constraints) {
    next_ = now_;
    bool active = false;
    for (int k = 0; k < tasks(); ++k) {
      Phase& phase = next_.phase[k];
      phase.s = std::clamp(phase.s + phase.rate * servo.dt, 0.0, 1.0);
      const double end = phase.rate > 0 ? 1 : 0;
      if (phase.rate != 0 && std::abs(phase.s - end) < 1e-9) phase.s = end, phase.rate = 0;
      if (phase.s == 0) phase.known = phase.given = false;
      share_[k] = share_of(phase.s);
      begins_[k] = phase.s == 1 && !phase.known;
      phase.known = phase.known || begins_[k] != 0;
      aims_[k] = phase.given && phase.rate >= 0;
      next_.error[k] = 0;
      active = active || phase.s > 0;
    }
    if (!active) return nullptr;
    const int n = servo.chain.nv, most = std::max(servo.rows, n);
    const std::size_t rows = servo.held_rows + constraints;
    if (h_.size() < rows) {
      G_.resize(rows * n), h_.resize(rows), state_.resize(rows);
      search_.resize(constraint_scratch(most, n, int(rows)));
    }
    holding_ = {.target = next_.target.data(),
                .share = share_.data(),
                .begins = begins_.data(),
                .aims = aims_.data(),
                .error = next_.error.data(),
                .A = A_.data(),
                .e = e_.data(),
                .gain = 0,
                .memory = memory_.data(),
                .count = 0,
                .rank = 0,
                .rows = rows_.data(),
                .b = b_.data(),
                .L = aligned(L_),
                .mirror = aligned(mirror_),
                .Q = aligned(Q_),
                .tau = tau_.data(),
                .order = order_.data(),
                .x = aligned(x_),
                .coupling = aligned(coupling_),
                .partial = false,
                .moves = moves_.get(),
                .G = G_.data(),
                .h = h_.data(),
                .state = state_.data(),
                .search = search_.data()};
    return &holding_;
  }
  void accept() { std::swap(now_, next_); }

  // Held tasks stay held: those without a given target are held where they are in the next step.
  void restart() {
    for (Phase& phase : now_.phase) phase.known = phase.given;
    std::fill(now_.error.begin(), now_.error.end(), 0.0);
  }

  double error(int k) const { return now_.error[k]; }
  double share(int k) const { return share_of(now_.phase[k].s); }
  int flags() const {
    const auto missed = [](double error) { return error > noticed_error; };
    return std::any_of(now_.error.begin(), now_.error.end(), missed) ? over_held : 0;
  }
  const Doubles& targets() const { return now_.target; }

  // Number of doubles that `save` writes.
  int saved_size() const { return 5 * tasks() + int(now_.target.size()); }
  void save(double* to) const {
    for (int k = 0; k < tasks(); ++k) {
      const Phase& phase = now_.phase[k];
      const double all[] = {phase.s, phase.rate, double(phase.known), double(phase.given),
                            now_.error[k]};
      to = std::copy_n(all, 5, to);
    }
    std::copy(now_.target.begin(), now_.target.end(), to);
  }
  void recall(const double* from) {
    for (int k = 0; k < tasks(); ++k, from += 5) {
      now_.phase[k] = {from[0], from[1], from[2] != 0, from[3] != 0};
      now_.error[k] = from[4];
    }
    std::copy_n(from, now_.target.size(), now_.target.data());
  }

 private:
  // How far a task is switched on, from 0 to 1, the rate at which this changes [1/s], and whether
  // its target is known, and was given by the user.
  struct Phase {
    double s = 1, rate = 0;
    bool known = false, given = false;
  };
  struct Record {
    std::vector<Phase> phase;
    Doubles target, error;
  };

  // Maps s from 0 to 1 to a factor from 0 to 1, with zero slope and curvature at both ends.
  static double share_of(double s) { return s * s * s * (10 + s * (6 * s - 15)); }

  // Returns the first address in an array that is aligned to a pack, because packs across cache
  // lines take twice the time. The array has most_padding unused entries.
  static double* aligned(Doubles& array) {
    constexpr std::size_t width = 8 * sizeof(double);
    const auto past = reinterpret_cast<std::uintptr_t>(array.data()) % width;
    return array.data() + (past ? (width - past) / sizeof(double) : 0);
  }
  static void move(Phase& phase, double to, double over) {
    phase.rate = phase.s == to ? 0 : (to - 0.5) * 2 / std::max(over, 1e-300);
    if (!(over > 0)) phase.s = to, phase.rate = 0;
  }
  int offset(int k) const {
    int sum = 0;
    for (int i = 0; i < k; ++i) sum += sizes_[i];
    return sum;
  }

  Record now_, next_;
  Ints sizes_;
  Doubles share_, begins_, aims_, A_, e_, rows_, b_, L_, mirror_, Q_, tau_, x_, coupling_, memory_,
      G_, h_, state_, search_;
  std::unique_ptr<bool[]> moves_;
  Ints order_;
  Holding<double> holding_;
};

}  // namespace supple
