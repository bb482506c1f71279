// Settings as they cross from Python: structs with named fields, and the kernel's form of them.
#pragma once

#include <nanobind/nanobind.h>

#include <limits>
#include <string>
#include <vector>

#include "supple/step.hpp"

namespace supple {

namespace nb = nanobind;
using Doubles = std::vector<double>;
using Ints = std::vector<int>;

// Raises ValueError: "`field` must be `expected`; given: `given`".
template <class Given>
[[noreturn]] void refuse_field(const std::string& field, const std::string& expected, Given given) {
  const std::string message = field + " must be " + expected + "; given: " + std::to_string(given);
  throw nb::value_error(message.c_str());
}
inline void check_at_least(const char* field, int least, int given) {
  if (given < least) refuse_field(field, "at least " + std::to_string(least), given);
}
inline void check_length(const char* field, std::size_t expected, std::size_t given) {
  if (given != expected) refuse_field(field, std::to_string(expected) + " entries long", given);
}
inline void check_positive(const char* field, double given) {
  if (!(given > 0)) refuse_field(field, "above 0", given);
}

struct DampingSpec {
  Rule rule = Rule::constant;
  Doubles parameters = {};  // in the order that `Rule` gives

  bool operator==(const DampingSpec&) const = default;
  template <class T>
  Damping<T> in_kernel() const {
    Damping<T> made{.rule = rule, .p = {}};
    if (parameters.size() > std::size(made.p)) {
      refuse_field("parameters", "at most 4 entries long", parameters.size());
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) made.p[i] = T(parameters[i]);
    return made;
  }
};

// `Step` of include/supple/step.hpp, owning its weights.
struct StepSpec {
  Method method = Method::damped_quick;
  double parameter = 0;
  int group = 3;
  double max_error = std::numeric_limits<double>::infinity();
  int error_group = 3;
  double max_angle = std::numeric_limits<double>::infinity();
  DampingSpec damping = {};
  Doubles task_scale = {}, joint_scale = {}, direction = {};
  double min_weight = 1;

  bool operator==(const StepSpec&) const = default;
};

// The kernel's form of a step for J (rows, columns), in one precision.
template <class T>
class OwnedStep {
 public:
  OwnedStep(const StepSpec& spec, int rows, int columns)
      : task_scale_(weights("task_scale", spec.task_scale, rows)),
        joint_scale_(weights("joint_scale", spec.joint_scale, columns)),
        direction_(weights("direction", spec.direction, rows)),
        step_{.method = spec.method,
              .p = T(spec.parameter),
              .group = spec.group,
              .max_error = T(spec.max_error),
              .error_group = spec.error_group,
              .max_angle = T(spec.max_angle),
              .damping = spec.damping.in_kernel<T>(),
              .min_weight = T(spec.min_weight)} {
    check_at_least("group", 1, spec.group);
    check_at_least("error_group", 1, spec.error_group);
  }

  // Points into this object's memory.
  Step<T> view() const {
    const auto or_null = [](const std::vector<T>& all) {
      return all.empty() ? nullptr : all.data();
    };
    Step<T> step = step_;
    step.task_scale = or_null(task_scale_);
    step.joint_scale = or_null(joint_scale_);
    step.direction = or_null(direction_);
    return step;
  }

 private:
  static std::vector<T> weights(const char* field, const Doubles& given, int size) {
    if (!given.empty()) check_length(field, std::size_t(size), given.size());
    return std::vector<T>(given.begin(), given.end());
  }

  std::vector<T> task_scale_, joint_scale_, direction_;
  Step<T> step_;
};

void bind_specs(nb::module_& m);

}  // namespace supple
