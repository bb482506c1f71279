#include "drivers/gpu_constants.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "drivers/enum_names.hpp"

namespace supple::text {
namespace {

std::string of(const char* x) { return x; }
std::string of(const std::string& x) { return x; }
std::string of(int x) { return std::to_string(x); }
std::string of(bool x) { return x ? "true" : "false"; }
std::string hexadecimal(double x) {
  char written[40];
  std::snprintf(written, sizeof(written), "%a", x);
  return written;
}
std::string of(double x) {
  // Infinite limits become the largest number of the type, which no value exceeds.
  const std::string huge = x < 0 ? "-Number<T>::huge" : "Number<T>::huge";
  if (std::isinf(x)) return huge;
  const double size = std::abs(x);
  const bool fits = size == 0 || (size >= std::numeric_limits<float>::min() &&
                                  size <= std::numeric_limits<float>::max());
  if (fits) return "T(" + hexadecimal(x) + ")";
  // A compiler may refuse to convert a number outside the range of normal floats at compile time,
  // so the nearest float is written as well.
  const float nearest = float(x);
  const std::string rounded = std::isinf(nearest) ? huge : hexadecimal(double(nearest));
  return "T(sizeof(T) == sizeof(float) ? " + rounded + " : " + hexadecimal(x) + ")";
}
std::string of(float x) { return of(double(x)); }
template <class E>
std::string of(const char* name, E x) {
  return std::string(name) + "::" + name_of(x);
}

std::string of(const Joint<double>&);
std::string of(const Frame<double>&);
std::string of(const Support&);
std::string of(const Task<double>&);
std::string of(const Measure&);
std::string of(const JointLimit<double>&);
std::string of(const Step<double>&);

// Returns the source text "{a, b, c}".
template <class... X>
std::string braces(const X&... x) {
  std::string list;
  ((list += (list.empty() ? "{" : ", ") + of(x)), ...);
  return list + "}";
}
template <class X>
std::string array(int count, const X* x) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i ? ", " : "") + of(x[i]);
  return "{" + list + "}";
}

std::string of(const Joint<double>& joint) {
  return braces(joint.parent, of("Motion", joint.motion), of("Placement", joint.placement),
                joint.coordinate, joint.branches, joint.scale, joint.offset, array(2, joint.phase),
                array(9, joint.rotation), array(3, joint.position));
}
std::string of(const Frame<double>& frame) {
  return braces(frame.joint, frame.support_begin, frame.support_end, array(9, frame.rotation),
                array(3, frame.position));
}
std::string of(const Support& support) { return braces(support.joint, support.first); }
std::string of(const Task<double>& task) {
  return braces(of("Goal", task.goal), task.frame, task.base, task.axes, task.rows,
                array(task.rows, task.row), array(task.rows, task.weight), "nullptr", "nullptr",
                task.alternate, task.about, task.ranged, array(task.rows, task.lower),
                array(task.rows, task.upper));
}
std::string of(const Measure& measure) { return of("Measure", measure); }
std::string of(const Step<double>& step) {
  return braces(of("Method", step.method), step.p, step.max_angle,
                braces(of("Rule", step.damping.rule), array(4, step.damping.p)),
                step.effector ? "effector" : "nullptr",
                step.error_clamps ? "error_clamp" : "nullptr", step.error_clamps,
                step.task_scale ? "task_scale" : "nullptr",
                step.joint_scale ? "joint_scale" : "nullptr",
                step.direction ? "direction" : "nullptr", step.min_weight);
}
std::string of(const JointLimit<double>& limit) {
  return braces(limit.lower, limit.upper, limit.speed, limit.acceleration, limit.jerk);
}

template <class X>
std::string line(const char* type, const char* name, int count, const X* x) {
  return std::string("  static constexpr ") + type + " " + name + "[] = " + array(count, x) + ";\n";
}

// `lines` returns C++ lines that define the arrays of a chain, or of a step. `laid` returns an
// initializer of the chain that refers to these arrays.
std::string lines(const Chain<double>& chain) {
  int supports = 0;
  for (int f = 0; f < chain.frames; ++f) supports = std::max(supports, chain.frame[f].support_end);
  return line("Joint<T>", "joint", chain.joints, chain.joint) +
         line("Frame<T>", "frame", chain.frames, chain.frame) +
         line("Support", "support", supports, chain.support);
}
std::string laid(const Chain<double>& chain) {
  return braces(chain.coordinates, chain.joints, chain.frames, chain.mimics, chain.phases,
                chain.lengths, "joint", "frame", "support");
}
std::string lines(const Step<double>& step, int rows, int columns) {
  std::string all;
  if (step.task_scale) all += line("T", "task_scale", rows, step.task_scale);
  if (step.joint_scale) all += line("T", "joint_scale", columns, step.joint_scale);
  if (step.direction) all += line("T", "direction", rows, step.direction);
  if (step.effector) all += line("int", "effector", rows, step.effector);
  std::string clamps;
  for (int k = 0; k < step.error_clamps; ++k) {
    const std::string name = "clamp_effector_" + std::to_string(k);
    all += line("int", name.c_str(), rows, step.error_clamp[k].effector);
    clamps += (k ? ", " : "") + braces(step.error_clamp[k].max_error, name.c_str());
  }
  if (step.error_clamps)
    all += "  static constexpr ErrorClamp<T> error_clamp[] = {" + clamps + "};\n";
  return all;
}
std::string in_struct(const char* name, const std::string& all) {
  return std::string("namespace supple {\n\ntemplate <class T>\nstruct ") + name + " {\n" + all +
         "};\n\n}  // namespace supple\n";
}

}  // namespace

std::string constants(const char* name, const IkProblem<double>& ik, const float* feature_scale) {
  const int n = ik.chain.coordinates;
  std::string all = lines(ik.chain);
  all += line("Task<T>", "task", ik.tasks, ik.task);
  all += line("Measure", "measure", ik.rows, ik.measure);
  all += line("T", "weight", ik.rows, ik.weight);
  all += line("T", "tolerance_unit", ik.rows, ik.tolerance_unit);
  all += line("T", "lower", n, ik.lower) + line("T", "upper", n, ik.upper);
  all += line("T", "seed_lower", n, ik.seed_lower) + line("T", "seed_range", n, ik.seed_range);
  all += line("T", "sequence_step", n, ik.sequence_step);
  if (ik.joint_scale) {
    all += line("T", "joint_scale", n, ik.joint_scale) + line("T", "joint_unit", n, ik.joint_unit) +
           line("T", "max_joint_steps", n, ik.max_joint_steps);
  }
  all += line("T", "feature_scale", ik.targets, feature_scale);
  all += lines(ik.step, ik.rows, n);
  all += "  static constexpr IkProblem<T> ik = " +
         braces(laid(ik.chain), ik.tasks, ik.rows, ik.targets, "task", "measure", "weight",
                "tolerance_unit", "lower", "upper", "seed_lower", "seed_range", "sequence_step",
                "T(0)", "T(0)", of(ik.step), ik.newton_gain, ik.max_joint_step, ik.iteration_factor,
                ik.max_lambda2, ik.joint_scale ? "joint_scale" : "nullptr",
                ik.joint_scale ? "joint_unit" : "nullptr",
                ik.joint_scale ? "max_joint_steps" : "nullptr") +
         ";\n";
  return in_struct(name, all);
}

std::string constants(const char* name, const Servo<double>& servo) {
  const int n = servo.chain.coordinates;
  std::string all = lines(servo.chain) + lines(*servo.step, servo.rows, n);
  all += line("Task<T>", "task", servo.tasks, servo.task);
  all += line("int", "task_rows", servo.tasks, servo.task_rows);
  all += line("JointLimit<T>", "limit", n, servo.limit);
  all += line("Step<T>", "step", 1, servo.step);
  all += "  static constexpr Servo<T> servo = " +
         braces(laid(servo.chain), servo.tasks, servo.rows, "task", "task_rows",
                of("ControlMode", servo.mode), "step", "{}", "{}", "limit", servo.bound,
                servo.keep_direction, servo.acceleration_level, servo.dt, servo.gain,
                servo.rate_gain, servo.rest_gain) +
         ";\n";
  return in_struct(name, all);
}

std::string wishes(std::vector<int> rest, std::vector<double> pull,
                   const std::vector<double>& turn) {
  const int n = int(turn.size());
  const bool posture = !rest.empty();
  const bool turns = std::any_of(turn.begin(), turn.end(), [](double x) { return x > 0; });
  rest.resize(turn.size(), -1);
  pull.resize(turn.size(), 0);
  return "namespace supple {\n\nstruct Posture {\n  using T = double;\n"
         "  static constexpr bool posture = " +
         of(posture) + ", turns = " + of(turns) + ";\n" + line("int", "rest", n, rest.data()) +
         line("T", "pull", n, pull.data()) + line("T", "turn", n, turn.data()) +
         "};\n\n}  // namespace supple\n";
}

}  // namespace supple::text
