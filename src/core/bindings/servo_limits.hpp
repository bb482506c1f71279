// The limits of a control loop: as they are set, and as they are in force in the next step.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "bindings/servo_report.hpp"
#include "bindings/specs.hpp"
#include "supple/limits/limits.hpp"

namespace supple {

// After a change of limits, or a reset, joints may be faster than their limits on speed, or all of
// them together faster than the bound on the norm. They then slow down as fast as their limits on
// acceleration and jerk allow: until then, the limits in force are the lowest speeds that the
// limits on acceleration and jerk allow, but not above the speeds at the time of the change
// (`remember_peaks`).
class ServoLimits {
 public:
  // Factor of the speed of a joint with a jerk limit that leaves room for the rounding errors of
  // many steps. Without this factor, a joint that peaks at its speed in force would exceed its jerk
  // limit.
  static constexpr double rounding_room = 1 + 1e-10;

  void set(const LimitsSpec& limits, int n) {
    set_ = limits.in_kernel<double>(n);
    in_force_.resize(set_.size());
    std::copy(set_.begin(), set_.end(), in_force_.begin());
    max_norm_ = bound_within(limits.max_norm);
    peaks_.resize(std::size_t(n) + 1);
  }

  const JointLimit<double>* in_force() const { return in_force_.data(); }

  // Remembers the largest speed of each joint, and the norm of these speeds, if the joints stop
  // from now on within the limits in force.
  void remember_peaks(const ServoState<double>& last, double dt) {
    double norm2 = 0;
    for (std::size_t j = 0; j < set_.size(); ++j) {
      const double speed = last.qd[j];
      peaks_[j] = peak_after(in_force_[j], speed - last.change[j], speed, dt) * room(j);
      norm2 += peaks_[j] * peaks_[j];
    }
    peaks_.back() = std::sqrt(norm2);
    slows_down_ = true;
  }

  // Sets the limits in force, and `max_norm` of the control loop, for the step after `last`.
  void apply(const ServoState<double>& last, Servo<double>& servo) {
    if (!slows_down_) return;
    slows_down_ = false;
    double norm2 = 0;
    for (std::size_t j = 0; j < set_.size(); ++j) {
      const double lowest = lowest_peak(set_[j], last.qd[j], last.change[j], servo.dt) * room(j);
      in_force_[j].speed = std::max(set_[j].speed, std::min(peaks_[j], lowest));
      slows_down_ = slows_down_ || in_force_[j].speed > set_[j].speed;
      norm2 += lowest * lowest;
    }
    servo.max_norm = std::max(max_norm_, std::min(peaks_.back(), std::sqrt(norm2)));
    slows_down_ = slows_down_ || servo.max_norm > max_norm_;
  }

  // Whether a joint exceeded its speed limit in the last step.
  bool too_fast(const ServoState<double>& last, int j) const {
    return std::abs(last.qd[j]) > set_[std::size_t(j)].speed * exceeded_ratio;
  }

  // Returns the limits on speed and norm that the last step exceeded, as flags of StepStatus.
  int excesses(const ServoState<double>& last) const {
    int found = 0;
    double norm2 = 0;
    for (int j = 0; j < int(set_.size()); ++j) {
      norm2 += last.qd[j] * last.qd[j];
      if (too_fast(last, j)) found |= over_speed;
    }
    return std::sqrt(norm2) > max_norm_ * exceeded_ratio ? found | over_norm : found;
  }

  // Number of doubles that `save` writes.
  int saved_size() const { return int(peaks_.size()); }
  void save(double* to) const { std::copy(peaks_.begin(), peaks_.end(), to); }
  void recall(const double* from) {
    std::copy_n(from, peaks_.size(), peaks_.begin());
    slows_down_ = true;
  }

 private:
  double room(std::size_t j) const {
    return set_[j].jerk < Number<double>::huge ? rounding_room : 1;
  }

  std::vector<JointLimit<double>> set_, in_force_;  // the second keeps its address
  double max_norm_ = 0;                             // bound on the norm of all speeds, as set
  Doubles peaks_;            // (n + 1,): largest speeds, and norm, while joints slow down
  bool slows_down_ = false;  // whether the limits in force may be above those that are set
};

}  // namespace supple
