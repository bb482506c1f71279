#include "bindings/specs.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cctype>

#include "bindings/spec.hpp"
#include "drivers/enum_names.hpp"

namespace supple {
namespace {

template <class E>
void bind_enum(nb::module_& m, const char* type, const char* doc) {
  nb::enum_<E> made(m, type, doc);
  for (int i = 0; const char* name = name_of(E(i)); ++i) {
    std::string upper(name);
    for (char& letter : upper) letter = char(std::toupper(letter));
    made.value(upper.c_str(), E(i));
  }
}

}  // namespace

void bind_specs(nb::module_& m) {
  bind_enum<Rule>(m, "Rule", "The damping rules of the kernel (include/supple/damping.hpp).");
  bind_enum<Method>(m, "Method", "The steps of the kernel (include/supple/step.hpp).");
  bind_enum<Secondary>(m, "Secondary", "How the kernel adds a secondary velocity to a step.");
  bind_enum<ControlMode>(m, "ControlMode", "How a control loop combines its tasks.");
  bind_enum<Goal>(m, "Goal", "What a task controls.");
  bind_enum<Measure>(m, "Measure", "What a row of a task measures.");
  bind_enum<Motion>(m, "Motion", "How a joint moves.");
  bind_enum<Placement>(m, "Placement", "How the constant rotation of a joint is stored.");

  bind_spec(m, "DampingSpec", "A damping rule and its parameters, in the order of `Rule`.",
            required("rule", &DampingSpec::rule), required("parameters", &DampingSpec::parameters));
  bind_spec(
      m, "StepSpec", "A step as the kernel takes it (include/supple/step.hpp).",
      required("method", &StepSpec::method), optional("parameter", &StepSpec::parameter),
      optional("group", &StepSpec::group), optional("max_error", &StepSpec::max_error),
      optional("error_group", &StepSpec::error_group), optional("max_angle", &StepSpec::max_angle),
      optional("damping", &StepSpec::damping), optional("task_scale", &StepSpec::task_scale),
      optional("joint_scale", &StepSpec::joint_scale), optional("direction", &StepSpec::direction),
      optional("min_weight", &StepSpec::min_weight));
}

}  // namespace supple
