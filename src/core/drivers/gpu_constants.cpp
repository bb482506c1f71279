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
std::string of(const Measure&);
std::string of(const JointLimit<double>&);
std::string of(const Step<double>&);

// Returns the source text ".name = x": members are initialized by name, so that none can take the
// place of another of the same type.
template <class X>
std::string member(const char* name, const X& x) {
  return std::string(".") + name + " = " + of(x);
}
// A member that points to the array of the same name, or is null if there is no such array.
std::string array_of(const char* name, bool there = true) {
  return member(name, there ? name : "nullptr");
}
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
  return braces(member("parent", joint.parent), member("motion", of("Motion", joint.motion)),
                member("placement", of("Placement", joint.placement)),
                member("q_index", joint.q_index), member("v_index", joint.v_index),
                member("branches", joint.branches), member("scale", joint.scale),
                member("offset", joint.offset), member("phase", array(2, joint.phase)),
                member("rotation", array(9, joint.rotation)),
                member("position", array(3, joint.position)));
}
std::string of(const Frame<double>& frame) {
  return braces(member("joint", frame.joint), member("support_begin", frame.support_begin),
                member("support_end", frame.support_end),
                member("rotation", array(9, frame.rotation)),
                member("position", array(3, frame.position)));
}
std::string of(const Support& support) {
  return braces(member("joint", support.joint), member("first", support.first));
}
std::string of(const Measure& measure) { return of("Measure", measure); }
std::string of(const Step<double>& step) {
  const std::string damping =
      braces(member("rule", of("Rule", step.damping.rule)), member("p", array(4, step.damping.p)));
  return braces(member("method", of("Method", step.method)), member("p", step.p),
                member("max_angle", step.max_angle), member("damping", damping),
                array_of("effector", step.effector), array_of("error_clamp", step.error_clamps),
                member("error_clamps", step.error_clamps), array_of("task_scale", step.task_scale),
                array_of("joint_scale", step.joint_scale), array_of("direction", step.direction),
                member("min_weight", step.min_weight));
}
std::string of(const JointLimit<double>& limit) {
  return braces(member("lower", limit.lower), member("upper", limit.upper),
                member("speed", limit.speed), member("acceleration", limit.acceleration),
                member("jerk", limit.jerk));
}

template <class X>
std::string line(const char* type, const char* name, int count, const X* x) {
  return std::string("  static constexpr ") + type + " " + name + "[] = " + array(count, x) + ";\n";
}

std::string laid(const Task<double>& task, int number) {
  const std::string own = std::to_string(number);
  const bool linear = traits_of(task).is_linear;  // its rows and weights are in separate arrays
  const int rows = linear ? 0 : task.rows;
  return braces(member("goal", of("Goal", task.goal)), member("frame", task.frame),
                member("base", task.base), member("axes", task.axes), member("rows", task.rows),
                member("row", array(rows, task.row)), member("weight", array(rows, task.weight)),
                member("coordinate", linear ? "coordinate_" + own : "nullptr"),
                member("posture_weight", linear ? "posture_weight_" + own : "nullptr"),
                member("alternate", task.alternate), member("about", task.about),
                member("ranged", task.ranged), member("lower", array(rows, task.lower)),
                member("upper", array(rows, task.upper)), member("points", task.points),
                member("point", task.points ? "point_" + own : "nullptr"),
                member("share", task.points ? "share_" + own : "nullptr"));
}

// `lines` returns C++ lines that define the arrays of a chain, of tasks, or of a step. `laid`
// returns an initializer of the chain that refers to these arrays.
std::string lines(const Chain<double>& chain) {
  int supports = 0;
  for (int f = 0; f < chain.frames; ++f) supports = std::max(supports, chain.frame[f].support_end);
  return (chain.joints ? line("Joint<T>", "joint", chain.joints, chain.joint) : "") +
         line("Frame<T>", "frame", chain.frames, chain.frame) +
         (supports ? line("Support", "support", supports, chain.support) : "") +
         (chain.balls ? line("int", "ball", chain.balls, chain.ball) : "");
}
std::string laid(const Chain<double>& chain) {
  return braces(member("nq", chain.nq), member("nv", chain.nv), member("joints", chain.joints),
                member("frames", chain.frames), member("balls", chain.balls),
                member("mimics", chain.mimics), member("phases", chain.phases),
                member("lengths", chain.lengths), array_of("joint", chain.joints > 0),
                member("frame", "frame"), array_of("support", chain.joints > 0),
                array_of("ball", chain.balls > 0));
}
std::string lines(int tasks, const Task<double>* task) {
  std::string all, list;
  for (int k = 0; k < tasks; ++k) {
    const std::string own = std::to_string(k);
    if (task[k].points) {
      all += line("int", ("point_" + own).c_str(), task[k].points, task[k].point) +
             line("T", ("share_" + own).c_str(), task[k].points, task[k].share);
    }
    if (traits_of(task[k]).is_linear) {
      all += line("int", ("coordinate_" + own).c_str(), task[k].rows, task[k].coordinate) +
             line("T", ("posture_weight_" + own).c_str(), task[k].rows, task[k].posture_weight);
    }
    list += (k ? ", " : "") + laid(task[k], k);
  }
  return all + "  static constexpr Task<T> task[] = {" + list + "};\n";
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
    clamps += (k ? ", " : "") + braces(member("max_error", step.error_clamp[k].max_error),
                                       member("effector", name.c_str()));
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
  const int nq = ik.chain.nq, nv = ik.chain.nv;
  std::string all = lines(ik.chain);
  all += lines(ik.tasks, ik.task);
  all += line("Measure", "measure", ik.rows, ik.measure);
  all += line("T", "weight", ik.rows, ik.weight);
  all += line("T", "tolerance_unit", ik.rows, ik.tolerance_unit);
  all += line("T", "lower", nq, ik.lower) + line("T", "upper", nq, ik.upper);
  all += line("T", "seed_lower", nq, ik.seed_lower) + line("T", "seed_range", nq, ik.seed_range);
  all += line("T", "seed_stride", nq, ik.seed_stride);
  if (ik.joint_scale) {
    all += line("T", "joint_scale", nv, ik.joint_scale) +
           line("T", "joint_unit", nv, ik.joint_unit) +
           line("T", "max_joint_steps", nv, ik.max_joint_steps);
  }
  all += line("T", "feature_scale", ik.targets, feature_scale);
  all += lines(ik.step, ik.rows, nv);
  all +=
      "  static constexpr IkProblem<T> ik = " +
      braces(member("chain", laid(ik.chain)), member("tasks", ik.tasks), member("rows", ik.rows),
             member("targets", ik.targets), array_of("task"), array_of("measure"),
             array_of("weight"), array_of("tolerance_unit"), array_of("lower"), array_of("upper"),
             array_of("seed_lower"), array_of("seed_range"), array_of("seed_stride"),
             member("position_tolerance", "T(0)"), member("rotation_tolerance", "T(0)"),
             member("step", of(ik.step)), member("newton_gain", ik.newton_gain),
             member("max_joint_step", ik.max_joint_step),
             member("iteration_factor", ik.iteration_factor), member("max_lambda2", ik.max_lambda2),
             array_of("joint_scale", ik.joint_scale), array_of("joint_unit", ik.joint_scale),
             array_of("max_joint_steps", ik.joint_scale)) +
      ";\n";
  return in_struct(name, all);
}

std::string constants(const char* name, const Servo<double>& servo) {
  const int n = servo.chain.nv;
  std::string all = lines(servo.chain) + lines(*servo.step, servo.rows, n);
  all += lines(servo.tasks, servo.task);
  all += line("int", "task_rows", servo.tasks, servo.task_rows);
  all += line("JointLimit<T>", "limit", n, servo.limit);
  if (servo.task_gain) all += line("T", "task_gain", servo.tasks, servo.task_gain);
  all += line("Step<T>", "step", 1, servo.step);
  const std::string max_norm = of(servo.max_norm);  // the source reduces it by rounding errors of T
  all += "  static constexpr Servo<T> servo = " +
         braces(member("chain", laid(servo.chain)), member("tasks", servo.tasks),
                member("rows", servo.rows), array_of("task"), array_of("task_rows"),
                member("mode", of("ControlMode", servo.mode)), array_of("step"),
                member("redundancy", "{}"), member("filter", "{}"), array_of("limit"),
                member("max_norm",
                       std::isinf(servo.max_norm) ? max_norm : "bound_within(" + max_norm + ")"),
                member("keep_direction", servo.keep_direction),
                member("second_order", servo.second_order), member("dt", servo.dt),
                member("gain", servo.gain), member("rate_gain", servo.rate_gain),
                member("rest_gain", servo.rest_gain), array_of("task_gain", servo.task_gain)) +
         ";\n";
  return in_struct(name, all);
}

std::string constants(const char* name, const Chain<double>& chain, int frames, int axes) {
  return in_struct(name, lines(chain) + "  static constexpr Chain<T> chain = " + laid(chain) +
                             ";\n  static constexpr int frames = " + of(frames) +
                             ", axes = " + of(axes) + ";\n");
}

std::string posture_constants(std::vector<int> posture, std::vector<double> posture_weight,
                              const std::vector<double>& wrap) {
  const int n = int(wrap.size());
  const bool has_posture = !posture.empty();
  const bool has_wraps = std::any_of(wrap.begin(), wrap.end(), [](double x) { return x > 0; });
  posture.resize(wrap.size(), -1);
  posture_weight.resize(wrap.size(), 0);
  return "namespace supple {\n\nstruct Posture {\n  using T = double;\n"
         "  static constexpr bool has_posture = " +
         of(has_posture) + ", has_wraps = " + of(has_wraps) + ";\n" +
         line("int", "posture", n, posture.data()) +
         line("T", "posture_weight", n, posture_weight.data()) + line("T", "wrap", n, wrap.data()) +
         "};\n\n}  // namespace supple\n";
}

}  // namespace supple::text
