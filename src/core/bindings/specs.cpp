#include "bindings/specs.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/spec.hpp"
#include "drivers/enum_names.hpp"
#include "kernels/kernels.hpp"

namespace supple {

void bind_text_and_replace(nb::handle type, const char* name, std::vector<const char*> fields) {
  const auto text = [name, fields](nb::handle self) {
    std::string list;
    for (const char* field : fields) {
      list += (list.empty() ? "" : ", ") + std::string(field) + "=" +
              nb::cast<std::string>(nb::repr(self.attr(field)));
    }
    return std::string(name) + "(" + list + ")";
  };
  const auto hash = [text](nb::handle self) { return nb::hash(nb::cast(text(self))); };
  const auto replace = [fields](nb::handle self, nb::kwargs changes) {
    nb::dict all;
    for (const char* field : fields) all[field] = self.attr(field);
    all.update(changes);
    return self.type()(**all);
  };
  std::string signature = "def replace(self, **changes: object) -> ";
  signature += name;
  const auto method = [&](const char* of, auto function, const auto&... extra) {
    nb::cpp_function_def(function, nb::scope(type), nb::name(of), nb::is_method(), extra...);
  };
  method("__repr__", text);
  method("__hash__", hash);
  method("replace", replace, nb::sig(signature.c_str()),
         "Return a copy in which some fields have other values.");
}

void bind_specs(nb::module_& m) {
  bind_enum<Rule>(m, "Rule", "The damping rules of the kernel (include/supple/step/damping.hpp).");
  bind_enum<Method>(m, "Method", "The steps of the kernel (include/supple/step/spec.hpp).");
  bind_enum<Secondary>(m, "Secondary", "Ways to add a secondary velocity to a step.");
  bind_enum<ControlMode>(m, "ControlMode", "How a control loop combines its tasks.");
  bind_enum<Goal>(m, "Goal", "What a task controls.");
  bind_enum<Target>(m, "Target", "What the values of a target are in the kernel.");
  bind_enum<Measure>(m, "Measure", "What a row of a task measures.");
  bind_enum<Motion>(m, "Motion", "How a joint moves.");
  bind_enum<Placement>(m, "Placement", "How the constant rotation of a joint is stored.");
  bind_enum<ShapeKind>(m, "ShapeKind", "The kinds of shapes of collision models.");

  bind_enum<TargetKind>(m, "TargetKind", "Forms of targets that are read without Python.");

  m.attr("AXES_WORLD") = axes_world;
  m.attr("AXES_BODY") = axes_body;
  m.attr("AXES_SPATIAL") = axes_spatial;
  m.attr("TASK_WORLD") = task_world;
  m.attr("TASK_AXES_BASE") = task_axes_base;
  m.attr("TASK_AXES_FRAME") = task_axes_frame;
  m.attr("TASK_AXES_SPATIAL") = task_axes_spatial;
  m.attr("TASK_TILT") = task_tilt;

  bind_spec(m, "JointSpec", "A joint of a chain (include/supple/robot/chain.hpp).",
            required("parent", &JointSpec::parent), required("motion", &JointSpec::motion),
            required("placement", &JointSpec::placement), required("q_index", &JointSpec::q_index),
            required("v_index", &JointSpec::v_index), required("scale", &JointSpec::scale),
            required("offset", &JointSpec::offset), required("phase", &JointSpec::phase),
            required("rotation", &JointSpec::rotation), required("position", &JointSpec::position));
  bind_spec(m, "FrameSpec", "A frame of a chain (include/supple/robot/chain.hpp).",
            required("joint", &FrameSpec::joint), required("rotation", &FrameSpec::rotation),
            required("position", &FrameSpec::position));
  bind_spec(m, "TaskSpec", "A task (include/supple/task/task.hpp).",
            required("goal", &TaskSpec::goal), required("frame", &TaskSpec::frame),
            required("base", &TaskSpec::base), required("axes", &TaskSpec::axes),
            required("rows", &TaskSpec::rows), required("weights", &TaskSpec::weights),
            optional("alternate", &TaskSpec::alternate), optional("about", &TaskSpec::about),
            optional("lower", &TaskSpec::lower), optional("upper", &TaskSpec::upper),
            optional("points", &TaskSpec::points), optional("shares", &TaskSpec::shares),
            optional("leader", &TaskSpec::leader), optional("curve", &TaskSpec::curve));
  bind_spec(m, "DampingSpec", "A damping rule and its parameters, in the order of `Rule`.",
            required("rule", &DampingSpec::rule), required("parameters", &DampingSpec::parameters));
  bind_spec(m, "ErrorClampSpec", "A bound on the error of each end effector.",
            required("max_error", &ErrorClampSpec::max_error),
            optional("group", &ErrorClampSpec::group));
  bind_spec(m, "StepSpec", "Settings of a step (include/supple/step/spec.hpp).",
            required("method", &StepSpec::method), optional("parameter", &StepSpec::parameter),
            optional("group", &StepSpec::group), optional("effectors", &StepSpec::effectors),
            optional("error_clamps", &StepSpec::error_clamps),
            optional("max_angle", &StepSpec::max_angle), optional("damping", &StepSpec::damping),
            optional("task_scale", &StepSpec::task_scale),
            optional("joint_scale", &StepSpec::joint_scale),
            optional("direction", &StepSpec::direction),
            optional("min_weight", &StepSpec::min_weight));
  bind_spec(m, "SecondarySpec", "A step with a secondary velocity.",
            required("form", &SecondarySpec::form), required("step", &SecondarySpec::step),
            optional("alpha1", &SecondarySpec::alpha1),
            optional("max_speed", &SecondarySpec::max_speed));
  bind_spec(m, "FilterSpec", "Settings of numerical filtering.",
            required("max_gain", &FilterSpec::max_gain), required("printed", &FilterSpec::printed),
            required("directions", &FilterSpec::directions));
  bind_spec(m, "LimitsSpec", "Limits of n joints; infinite where there is no limit.",
            required("lower", &LimitsSpec::lower), required("upper", &LimitsSpec::upper),
            required("max_speed", &LimitsSpec::max_speed),
            required("max_acceleration", &LimitsSpec::max_acceleration),
            required("max_jerk", &LimitsSpec::max_jerk),
            required("max_norm", &LimitsSpec::max_norm),
            required("keep_direction", &LimitsSpec::keep_direction));
  bind_spec(m, "InputSpec", "Sizes of a task's velocity and target; 0 if Python converts them.",
            optional("velocity", &InputSpec::velocity),
            optional("velocity_begin", &InputSpec::velocity_begin),
            optional("target", &InputSpec::target), optional("positions", &InputSpec::positions),
            optional("nq", &InputSpec::nq));
  bind_spec(m, "ServoSpec", "Settings of a control loop.", required("mode", &ServoSpec::mode),
            required("steps", &ServoSpec::steps), optional("secondary", &ServoSpec::secondary),
            optional("filter", &ServoSpec::filter), required("limits", &ServoSpec::limits),
            required("second_order", &ServoSpec::second_order), required("dt", &ServoSpec::dt),
            required("gain", &ServoSpec::gain), optional("task_gains", &ServoSpec::task_gains),
            required("rate_gain", &ServoSpec::rate_gain),
            required("rest_gain", &ServoSpec::rest_gain),
            optional("curvature", &ServoSpec::curvature), optional("whole", &ServoSpec::whole),
            optional("slow_condition", &ServoSpec::slow_condition),
            optional("halt_condition", &ServoSpec::halt_condition),
            required("inputs", &ServoSpec::inputs), optional("held_tasks", &ServoSpec::held_tasks),
            optional("loops", &ServoSpec::loops),
            optional("plausible_lower", &ServoSpec::plausible_lower),
            optional("plausible_upper", &ServoSpec::plausible_upper));
  bind_spec(m, "TargetSpec",
            "The kind of a target, and the offset of its values in the kernel's layout.",
            required("kind", &TargetSpec::kind), required("begin", &TargetSpec::begin));
  bind_spec(
      m, "SolverSpec", "Settings of a solver of position inverse kinematics.",
      required("primary", &SolverSpec::primary), required("measures", &SolverSpec::measures),
      required("weights", &SolverSpec::weights),
      required("bounded_weights", &SolverSpec::bounded_weights),
      required("relaxed_weights", &SolverSpec::relaxed_weights),
      required("lower", &SolverSpec::lower), required("upper", &SolverSpec::upper),
      required("seed_lower", &SolverSpec::seed_lower),
      required("seed_range", &SolverSpec::seed_range),
      required("seed_stride", &SolverSpec::seed_stride),
      required("joint_scale", &SolverSpec::joint_scale),
      required("joint_unit", &SolverSpec::joint_unit),
      required("max_joint_steps", &SolverSpec::max_joint_steps),
      required("wrap", &SolverSpec::wrap), required("step", &SolverSpec::step),
      required("newton_gain", &SolverSpec::newton_gain),
      required("bounded_newton_gain", &SolverSpec::bounded_newton_gain),
      required("closest_newton_gain", &SolverSpec::closest_newton_gain),
      required("max_step", &SolverSpec::max_step),
      required("iteration_factor", &SolverSpec::iteration_factor),
      required("float_tolerance", &SolverSpec::float_tolerance),
      required("default_starts", &SolverSpec::default_starts),
      required("max_lambda2", &SolverSpec::max_lambda2),
      required("posture_index", &SolverSpec::posture_index),
      required("posture_weight", &SolverSpec::posture_weight),
      required("feature_scale", &SolverSpec::feature_scale),
      required("table_size", &SolverSpec::table_size), required("limb_row", &SolverSpec::limb_row),
      required("limb_first_joint", &SolverSpec::limb_first_joint),
      required("limb_joint", &SolverSpec::limb_joint), required("targets", &SolverSpec::targets));
}

}  // namespace supple
