// Settings that Python passes, as structs with named fields (specs), and their conversion to the
// kernel's structs.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "supple/ik/iterate.hpp"
#include "supple/ik/target.hpp"
#include "supple/servo/state.hpp"

namespace supple {

namespace nb = nanobind;
using Doubles = std::vector<double>;
using Ints = std::vector<int>;

// Raises ValueError: "`field` must be `expected`; given: `given`".
template <class Given>
[[noreturn]] void throw_field_error(const std::string& field, const std::string& expected,
                                    Given given) {
  const std::string message = field + " must be " + expected + "; given: " + std::to_string(given);
  throw nb::value_error(message.c_str());
}
inline void check_at_least(const char* field, int least, int given) {
  if (given < least) throw_field_error(field, "at least " + std::to_string(least), given);
}
inline void check_index(const char* field, int first, int end, int given) {
  if (given >= first && given < end) return;
  throw_field_error(field, "from " + std::to_string(first) + " to " + std::to_string(end - 1),
                    given);
}
inline void check_length(const char* field, std::size_t expected, std::size_t given) {
  if (given != expected)
    throw_field_error(field, std::to_string(expected) + " entries long", given);
}
inline void check_positive(const char* field, double given) {
  if (!(given > 0)) throw_field_error(field, "above 0", given);
}

// Corresponds to `Joint` of include/supple/robot/chain.hpp.
struct JointSpec {
  int parent = -1;
  Motion motion = Motion::revolute;
  Placement placement = Placement::root;
  int q_index = 0, v_index = 0;
  double scale = 1, offset = 0;
  std::array<double, 2> phase = {1, 0};
  std::array<double, 9> rotation = {};
  std::array<double, 3> position = {};

  bool operator==(const JointSpec&) const = default;
};

// Corresponds to `Frame` of include/supple/robot/chain.hpp.
struct FrameSpec {
  int joint = -1;
  std::array<double, 9> rotation = {};
  std::array<double, 3> position = {};

  bool operator==(const FrameSpec&) const = default;
};

// Corresponds to `Task` of include/supple/task/spec.hpp. `rows` are components of the twist, or
// coordinates of a posture. `lower` and `upper` are the allowed ranges of the rows, empty if no row
// has one.
struct TaskSpec {
  Goal goal{};
  int frame = 0, base = task_world, axes = task_axes_base;
  Ints rows = {};
  Doubles weights = {};
  bool alternate = false;
  int about = -1;
  Doubles lower = {}, upper = {};
  Ints points = {};     // frames of a weighted sum of points
  Doubles shares = {};  // weights of these points
  int leader = -1;      // coordinate of the leader of a coupling, or -1
  Doubles curve = {};   // polynomial of the leader's position, empty or (5,)

  bool operator==(const TaskSpec&) const = default;
};

struct DampingSpec {
  Rule rule = Rule::constant;
  Doubles parameters = {};  // in the order of the comments in `Rule`

  bool operator==(const DampingSpec&) const = default;
  template <class T>
  Damping<T> in_kernel() const {
    Damping<T> made{.rule = rule, .p = {}};
    if (parameters.size() > std::size(made.p)) {
      throw_field_error("parameters", "at most 4 entries long", parameters.size());
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) made.p[i] = T(parameters[i]);
    return made;
  }
};

// A bound on the error of each end effector. `group` is the number of rows of each end effector; if
// it is 0, the end effectors are those of the step.
struct ErrorClampSpec {
  double max_error = std::numeric_limits<double>::infinity();
  int group = 0;

  bool operator==(const ErrorClampSpec&) const = default;
};

// Corresponds to `Step` of include/supple/step/spec.hpp; owns its arrays.
struct StepSpec {
  Method method = Method::damped_quick;
  double parameter = 0;
  int group = 0;        // rows per end effector, for the selective methods; if 0, see `effectors`
  Ints effectors = {};  // (m,): end effector of each row; if empty, each end effector has 3 rows
  std::vector<ErrorClampSpec> error_clamps = {};  // applied in this order
  double max_angle = std::numeric_limits<double>::infinity();
  DampingSpec damping = {};
  Doubles task_scale = {}, joint_scale = {}, direction = {};
  double min_weight = 1;

  bool operator==(const StepSpec&) const = default;
};

// A `Step` of the kernel for J (rows, columns), in one precision; owns its arrays.
template <class T>
class OwnedStep {
 public:
  OwnedStep(const StepSpec& spec, int rows, int columns)
      : task_scale_(weights("task_scale", spec.task_scale, rows)),
        joint_scale_(weights("joint_scale", spec.joint_scale, columns)),
        direction_(weights("direction", spec.direction, rows)),
        effector_(effectors(spec, spec.group, rows)),
        step_{.method = spec.method,
              .p = T(spec.parameter),
              .max_angle = T(spec.max_angle),
              .damping = spec.damping.in_kernel<T>(),
              .min_weight = T(spec.min_weight)} {
    for (const ErrorClampSpec& clamp : spec.error_clamps) {
      clamped_.push_back(effectors(spec, clamp.group, rows));
      clamp_.push_back({.max_error = T(clamp.max_error), .effector = clamped_.back().data()});
    }
  }

  // Returns a `Step` that points to this object's memory.
  Step<T> view() const {
    const auto or_null = [](const std::vector<T>& all) {
      return all.empty() ? nullptr : all.data();
    };
    Step<T> step = step_;
    step.task_scale = or_null(task_scale_);
    step.joint_scale = or_null(joint_scale_);
    step.direction = or_null(direction_);
    step.effector = effector_.data();
    step.error_clamp = clamp_.data();
    step.error_clamps = int(clamp_.size());
    return step;
  }

 private:
  static std::vector<T> weights(const char* field, const Doubles& given, int size) {
    if (!given.empty()) check_length(field, std::size_t(size), given.size());
    return std::vector<T>(given.begin(), given.end());
  }

  // Returns the end effector of each row, numbered from 0.
  static Ints effectors(const StepSpec& spec, int group, int rows) {
    check_at_least("group", 0, group);
    Ints each = spec.effectors;
    if (group > 0 || each.empty()) {
      const int size = group > 0 ? group : 3;
      each.resize(std::size_t(rows));
      for (int i = 0; i < rows; ++i) each[std::size_t(i)] = i / size;
    }
    check_length("effectors", std::size_t(rows), each.size());
    for (const int k : each) check_index("effectors", 0, rows, k);
    return each;
  }

  std::vector<T> task_scale_, joint_scale_, direction_;
  Ints effector_;
  std::vector<Ints> clamped_;
  std::vector<ErrorClamp<T>> clamp_;
  Step<T> step_;
};

// A step with a secondary velocity: `Redundancy` of include/supple/step/redundancy.hpp.
struct SecondarySpec {
  Secondary form = Secondary::null_space;
  StepSpec step = {};
  double alpha1 = 0, max_speed = 0;

  bool operator==(const SecondarySpec&) const = default;
};

// Numerical filtering: `Filter` of include/supple/step/filtering.hpp.
struct FilterSpec {
  double max_gain = 1;
  bool printed = false;
  int directions = 1;

  bool operator==(const FilterSpec&) const = default;
};

// Limits of n joints; infinite where there is no limit.
struct LimitsSpec {
  Doubles lower = {}, upper = {}, max_speed = {}, max_acceleration = {}, max_jerk = {};  // (n,)
  double max_norm = std::numeric_limits<double>::infinity();  // bound on the norm of q̇
  bool keep_direction = false;  // whether to scale q̇ as a whole, which keeps its direction

  bool operator==(const LimitsSpec&) const = default;
  template <class T>
  std::vector<JointLimit<T>> in_kernel(int n) const {
    check_length("lower", std::size_t(n), lower.size());
    check_length("upper", std::size_t(n), upper.size());
    check_length("max_speed", std::size_t(n), max_speed.size());
    check_length("max_acceleration", std::size_t(n), max_acceleration.size());
    check_length("max_jerk", std::size_t(n), max_jerk.size());
    std::vector<JointLimit<T>> made;
    for (std::size_t j = 0; j < lower.size(); ++j) {
      made.push_back({.lower = T(lower[j]),
                      .upper = T(upper[j]),
                      .speed = T(max_speed[j]),
                      .acceleration = T(max_acceleration[j]),
                      .jerk = T(max_jerk[j])});
    }
    return made;
  }
};

// Sizes of the velocity and target arrays of a task that the compiled control loop reads itself, or
// 0 if Python converts them. `velocity_begin` is the offset of the velocity's values in the twist
// or rows of the kernel. For a frame, a target of size 16 is a pose (4, 4), and one of size 9 a
// rotation (3, 3) or a pose.
struct InputSpec {
  int velocity = 0, velocity_begin = 0, target = 0;
  // A target may also be a whole configuration (nq,), of which only the entries `positions` are
  // used.
  std::vector<int> positions = {};
  int nq = 0;

  bool operator==(const InputSpec&) const = default;
};

struct ServoSpec {
  ControlMode mode = ControlMode::step;
  std::vector<StepSpec> steps = {};  // one for each task if tasks have priorities, else one
  SecondarySpec secondary = {};      // for the mode `secondary`
  FilterSpec filter = {};            // for the mode `filtered`
  LimitsSpec limits = {};
  bool second_order = false;            // whether accelerations are resolved, not velocities
  double dt = 0;                        // [s]
  double gain = 0;                      // gain of the error [1/s], or [1/s²] if second_order
  double rate_gain = 0, rest_gain = 0;  // [1/s], if second_order: see `Servo`
  double curvature = 0;                 // κ dt if the step is that of servo/yielding.hpp, else 0
  Doubles task_gains = {};  // factors on the gain, one for each task; empty if all are 1
  bool whole = false;       // whether to stop where a step cannot perform the whole command
  double slow_condition = 0, halt_condition = 0;  // condition numbers: see `Servo`
  std::vector<InputSpec> inputs = {};             // one for each task
  int held_tasks = 0;  // number of tasks, after those with inputs, that may be held
  int loops = 0;       // how many of the held tasks, the first ones, are loops of the robot
  // (n,), or empty. Coordinates outside this range are probably in degrees: Python is called to
  // check them again, and raises the error (`check_plausible`).
  Doubles plausible_lower = {}, plausible_upper = {};

  bool operator==(const ServoSpec&) const = default;
};

// The kind of a task's target (pose, position or direction), and the offset of its values in the
// kernel's target array.
struct TargetSpec {
  TargetKind kind = TargetKind::pose;
  int begin = 0;

  bool operator==(const TargetSpec&) const = default;
};

// A problem of position inverse kinematics: `IkProblem` of include/supple/ik/problem.hpp, and the
// settings of the search. The first `primary` tasks, with m rows, must be met; the others are
// postures.
struct SolverSpec {
  int primary = 1;
  std::vector<Measure> measures = {};  // (m,)
  // (m,): weights of the rows for the closest pose, for the minimization of failed starts, and for
  // the search
  Doubles weights = {}, bounded_weights = {}, relaxed_weights = {};
  Doubles lower = {}, upper = {};                                   // (n,): joint limits
  Doubles seed_lower = {}, seed_range = {}, seed_stride = {};       // (n,): see `IkProblem`
  Doubles joint_scale = {}, joint_unit = {}, max_joint_steps = {};  // (n,), or empty
  Doubles wrap = {};   // (n,): 2π for joints with 2π wraps, else 0
  StepSpec step = {};  // only its damping and direction are used
  // Gains of Newton's method for the search, for the minimization of failed starts, and for the
  // closest pose.
  double newton_gain = 0, bounded_newton_gain = 0, closest_newton_gain = 0;
  double max_step = 1;          // largest step of a joint in one iteration [rad or m]
  int iteration_factor = 1;     // factor of all iteration limits
  double float_tolerance = 0;   // smallest position tolerance of the search in float [m]
  int default_starts = 0;       // default number of starts; 0 for that of `restart_budget`
  double max_lambda2 = 0;       // bound on λ² if joints are scaled
  Ints posture_index = {};      // (n,): index of its posture in a target, -1 for none; or empty
  Doubles posture_weight = {};  // (n,): weights of the postures, at most 1; or empty
  Doubles feature_scale = {};   // (targets,): weights for looking up seeds in the table
  int table_size = 1;           // number of seeds in the table
  Ints limb_row = {}, limb_first_joint = {}, limb_joint = {};  // see `Limbs`; or empty
  std::vector<TargetSpec> targets = {};  // targets of the fast path in the caller's order, or empty

  bool operator==(const SolverSpec&) const = default;
};

void bind_specs(nb::module_& m);

}  // namespace supple
