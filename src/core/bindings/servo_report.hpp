// Reports about the last step of a control loop: why it differs from its command.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/isa.hpp"
#include "supple/limits/row_search.hpp"
#include "supple/servo/state.hpp"

namespace supple {

// The rows of constraints in a step, G q̇ >= h, and their states after the step.
struct ConstraintRows {
  int count = 0;
  // (count, n), then (count,); `owner` is the index of a constraint, or -1 - k for the pair of
  // shapes with the index k
  std::vector<double> G, h, owner, state;

  // Copies rows [G, h, owner] (given, n + 2), of which none is active yet.
  void assign(const double* from, int given, int n) {
    count = given;
    G.resize(given * n), h.resize(given), owner.resize(given);
    state.assign(given, double(int(RowState::met)));
    for (int i = 0; i < given; ++i, from += n + 2) {
      std::copy_n(from, n, G.data() + i * n);
      h[i] = from[n], owner[i] = from[n + 1];
    }
  }
};

// The inputs and results of a step. The next step is computed in a second record, so that a step
// that ends with an error changes nothing.
struct ServoRecord {
  ServoState<double> state;
  // (n,): joint speeds before the step, their change in the previous step, and q before the step.
  double *before, *change_before, *from;
  ConstraintRows rows;
};

// What changed or limited a step: the flags of StepStatus in Python.
enum StepFlag : int {
  damped = 1 << 0,
  at_norm = 1 << 1,
  at_acceleration = 1 << 2,
  at_speed = 1 << 3,
  at_position = 1 << 4,
  over_acceleration = 1 << 5,
  at_jerk = 1 << 6,
  over_jerk = 1 << 7,
  out_of_reach = 1 << 8,
  direction_lost = 1 << 9,
  halts = 1 << 10,
  over_speed = 1 << 11,
  over_norm = 1 << 12,
  at_constraint = 1 << 13,
  over_constraint = 1 << 14,
  at_collision = 1 << 15,
  over_collision = 1 << 16,
  over_held = 1 << 17
};

// Ratios of a value to its limit: from the first on, the value counts as at the limit; above the
// second, it counts as exceeding the limit. Both leave room for rounding.
inline constexpr double at_limit_ratio = 1 - 1e-9, exceeded_ratio = 1 + 1e-9;
inline constexpr double reported_loss = 0.01;  // smallest reported loss, as a fraction of a command

// Writes to `to` (m) the part of e - J q̇ that lies in the range of J, for q̇ before limits and J as
// used in the step. Returns the length of this part.
inline double lost_part(const Servo<double>& servo, const ServoRecord& record, double* to) {
  const ServoState<double>& state = record.state;
  const int n = servo.chain.nv, m = servo.rows, k = std::min(m, n);
  if (state.lost) {
    std::copy_n(state.lost, m, to);
    return std::sqrt(dot(m, to, to));
  }
  std::fill_n(to, m, 0.0);
  if (state.chosen_lambda2 == 0) return 0;
  const double* const J = state.J;
  std::vector<double> left(m), u(k * m), sigma(k), v(k * n);
  for (int i = 0; i < m; ++i) left[i] = state.e[i] - dot(n, J + i * n, state.dq);
  thin_svd(m, n, J, u.data(), sigma.data(), v.data());
  double size2 = 0;
  for (int i = 0; i < k && sigma[i] > rank_floor(sigma[0]); ++i) {
    const double part = dot(m, u.data() + i * m, left.data());
    for (int r = 0; r < m; ++r) to[r] += part * u[i * m + r];
    size2 += part * part;
  }
  return std::sqrt(size2);
}

// Returns the limit at which a joint is held, and the limits that it exceeds, as flags of
// StepStatus.
inline int joint_flags(const Servo<double>& servo, const ServoRecord& record, int j) {
  const ServoState<double>& state = record.state;
  const JointLimit<double>& limit = servo.limit[j];
  const double dt = servo.dt, q = record.from[j], v = record.before[j], c = record.change_before[j],
               more = state.qd[j] - v;
  const double rounding = 8 * 2.3e-16 * (std::abs(v) + std::abs(state.qd[j]));
  const bool too_hard = std::abs(more) > limit.acceleration * dt * exceeded_ratio;
  int found = too_hard ? over_acceleration : 0;
  if (std::abs(more - c) > limit.jerk * dt * dt * exceeded_ratio + rounding) found |= over_jerk;
  if (state.active_set[j] == 0) return found;
  const double end = too_hard ? (v > 0 ? 1 : -1) : state.active_set[j];
  double low, high;
  isa().f64.box(limit, q, v, c, dt, low, high);
  const double fastest = end > 0 ? high : -low, rise = fastest - end * v;
  if (q < limit.lower || q > limit.upper) return found | at_position;
  if (fastest >= limit.speed * at_limit_ratio) return found | at_speed;
  if (rise >= limit.acceleration * dt * at_limit_ratio) return found | at_acceleration;
  if (rise - end * c >= limit.jerk * dt * dt * at_limit_ratio) return found | at_jerk;
  const bool smooth = limit.jerk < std::numeric_limits<double>::infinity();
  if (end * state.qd[j] < fastest - (1 - at_limit_ratio) * std::abs(fastest)) {
    // The joint is not at the end of its own range of speeds: it settles with limited jerk, or
    // leaves other joints room in the norm.
    if (smooth) return found | at_jerk;
    if (servo.max_norm < std::numeric_limits<double>::infinity()) return found;
  }
  if (!smooth) return found | at_position;
  // The position limit holds the joint, unless the result would be the same without it.
  JointLimit<double> free = limit;
  free.upper = std::numeric_limits<double>::infinity();
  free.lower = -free.upper;
  isa().f64.box(free, q, v, c, dt, low, high);
  const double unbounded = end > 0 ? high : -low;
  const bool same = std::abs(fastest - unbounded) <= (1 - at_limit_ratio) * std::abs(unbounded);
  return found | (same ? at_speed : at_position);
}

// Returns ‖e - J q̇‖/‖e‖ for q̇ before limits.
inline double missed_share(const Servo<double>& servo, const ServoRecord& record) {
  const ServoState<double>& state = record.state;
  const int n = servo.chain.nv, m = servo.rows;
  double left = 0;
  for (int i = 0; i < m; ++i) left += square(state.e[i] - dot(n, state.J + i * n, state.dq));
  return std::sqrt(left / std::max(dot(m, state.e, state.e), Number<double>::tiny));
}

// Subtracts from `rows` (m) what the step performed: J q̇ or, in resolved acceleration, J times the
// acceleration relative to q̈ = -rest_gain q̇.
inline void subtract_performed(const Servo<double>& servo, const ServoRecord& record,
                               double* rows) {
  const ServoState<double>& state = record.state;
  const int n = servo.chain.nv;
  std::vector<double> rate(state.qd, state.qd + n);
  for (int j = 0; j < n && servo.second_order; ++j) {
    rate[j] = (rate[j] - record.before[j]) / servo.dt + servo.rest_gain * record.before[j];
  }
  for (int i = 0; i < servo.rows; ++i) rows[i] -= dot(n, state.J + i * n, rate.data());
}

// Whether a command with this squared norm is only a rounding error of a target that is met.
inline bool is_rounding(const Servo<double>& servo, const ServoState<double>& state, double norm2) {
  const double* const J = state.J;
  const int entries = servo.rows * servo.chain.nv;
  return norm2 <= square(256 * Number<double>::epsilon * servo.gain) * dot(entries, J, J);
}

// Whether jerks are limited, but no acceleration.
inline bool smooth_only(const Servo<double>& servo) {
  const auto limited = [&](double JointLimit<double>::* which) {
    return std::any_of(servo.limit, servo.limit + servo.chain.nv, [&](const auto& limit) {
      return limit.*which < std::numeric_limits<double>::infinity();
    });
  };
  return limited(&JointLimit<double>::jerk) && !limited(&JointLimit<double>::acceleration);
}

// Returns what changed or limited the last step, as flags of StepStatus.
inline int step_flags(const Servo<double>& servo, const ServoRecord& record) {
  const ServoState<double>& state = record.state;
  const int n = servo.chain.nv, m = servo.rows;
  int found = 0;
  double norm2 = 0;
  bool held = false;
  for (int j = 0; j < n; ++j) {
    norm2 += state.qd[j] * state.qd[j];
    held = held || state.active_set[j] != 0;
    found |= joint_flags(servo, record, j);
  }
  const double size = std::sqrt(norm2);
  for (int i = 0; i < record.rows.count; ++i) {
    const double row = record.rows.state[i];
    if (record.rows.owner[i] < 0) continue;  // row of a pair of shapes: see `ServoGuard::flags`
    if (row == double(int(RowState::held))) found |= at_constraint;
    if (row == double(int(RowState::given_up))) found |= over_constraint;
  }
  if (state.halting < 1) found |= halts;
  if (state.course == Course::lost) found |= direction_lost;
  if (state.course == Course::stopped) found |= out_of_reach;
  const bool bounded = servo.max_norm < std::numeric_limits<double>::infinity();
  const bool unexplained = !(held || found);
  if (bounded && state.limited != 0 && (size >= servo.max_norm * at_limit_ratio || unexplained)) {
    found |= at_norm;
  } else if (state.limited != 0 && unexplained && servo.keep_direction) {
    // No joint is at a limit: a faster step could not be followed by a stop within the limits.
    found |= smooth_only(servo) ? at_jerk : at_acceleration;
  }
  const double desired2 = dot(m, state.desired, state.desired);
  if (is_rounding(servo, state, desired2)) return found;
  if (state.lost && dot(m, state.lost, state.lost) > square(reported_loss) * desired2)
    found |= damped;
  if (state.beyond > reported_loss * std::sqrt(desired2)) found |= out_of_reach;
  return found;
}

// Returns the smallest singular value of J in the last step.
inline double sigma_min(const Servo<double>& servo, const ServoRecord& record) {
  const int n = servo.chain.nv, m = servo.rows, k = std::min(m, n);
  std::vector<double> J(record.state.J, record.state.J + m * n), sigma(k), work(m * n);
  singular_values(m, n, J.data(), sigma.data(), work.data());
  return sigma[k - 1];
}

}  // namespace supple
