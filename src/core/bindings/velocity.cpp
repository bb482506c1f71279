#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/batches.hpp"
#include "drivers/gpu_constants.hpp"
#include "kernels/isa.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"
#include "supple/limits/limits.hpp"
#include "supple/servo/tree_rows.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// Smallest number of robots per thread, for steps toward targets. Tuned constants are explained in
// docs/constants.md.
inline constexpr std::ptrdiff_t least_trees = 32;

// The settings shared by all robots of a batch, in one precision.
template <class T>
class OwnedServo {
 public:
  OwnedServo(const PyTasks& tasks, const StepSpec& step, const LimitsSpec& limits, double dt,
             double gain, const std::vector<double>& task_gains)
      : owned_(step, tasks.rows(), tasks.chain<T>().nv),
        limits_(limits.in_kernel<T>(tasks.chain<T>().nv)),
        gains_(task_gains.begin(), task_gains.end()),
        step_(owned_.view()) {
    check_positive("dt", dt);
    for (const Task<T>& task : tasks.tasks<T>()) rows_.push_back(task.rows);
    servo_ = {.chain = tasks.chain<T>(),
              .tasks = int(rows_.size()),
              .rows = tasks.rows(),
              .task = tasks.tasks<T>().data(),
              .task_rows = rows_.data(),
              .mode = ControlMode::step,
              .step = &step_,
              .redundancy = {},
              .filter = {},
              .limit = limits_.data(),
              .max_norm = bound_within(T(limits.max_norm)),
              .keep_direction = limits.keep_direction,
              .second_order = false,
              .dt = T(dt),
              .gain = T(gain),
              .rate_gain = T(0),
              .rest_gain = T(0),
              .task_gain = gains_.empty() ? nullptr : gains_.data()};
  }
  OwnedServo(const OwnedServo&) = delete;  // contains pointers to its own members

  const Servo<T>& view() const { return servo_; }

 private:
  OwnedStep<T> owned_;
  Ints rows_;
  std::vector<JointLimit<T>> limits_;
  std::vector<T> gains_;
  Step<T> step_;
  Servo<T> servo_;
};

class PyVelocity {
 public:
  PyVelocity(nb::object tasks, const StepSpec& step, const LimitsSpec& limits, double dt,
             double gain, const std::vector<double>& task_gains)
      : tasks_(std::move(tasks)),
        f64_(nb::cast<const PyTasks&>(tasks_), step, limits, dt, gain, task_gains),
        f32_(nb::cast<const PyTasks&>(tasks_), step, limits, dt, gain, task_gains),
        velocities_(nb::cast<const PyTasks&>(tasks_).velocities()) {}

  // Returns (qd, bad), where `bad` is the index of the first row with an input or result that is
  // not finite, or -1. `velocity` and `before`, if given, have the rows and the type of q.
  nb::tuple follow(nb::handle q, nb::handle velocity, nb::handle before, nb::handle out,
                   int threads) const {
    const int n = f64_.view().chain.nv;
    Configurations at(q, nb::cast<const PyTasks&>(tasks_).layout(), "q");
    Batch asked(velocity, velocities_, "twist");
    Batch speed(before.is_none() ? at.object() : before, n, "qd");
    if (!at.same_rows(asked) || !at.same_rows(speed))
      throw nb::value_error("q, velocity and before must have the same batch axes and type");
    nb::object result = at.result(out, {n});
    for (Batch* given : {static_cast<Batch*>(&at), &asked, &speed}) {
      if (given->overlaps(result)) given->copy();
    }
    std::ptrdiff_t bad = -1;
    const auto run = [&]<class T>(const Servo<T>& servo, const VelocityKernel<T>& kernel) {
      const VelocityRequest<T> request{.servo = &servo,
                                       .count = at.count(),
                                       .velocities = velocities_,
                                       .q = at.data<T>(),
                                       .before = before.is_none() ? nullptr : speed.data<T>(),
                                       .velocity = asked.data<T>(),
                                       .qd = data_of<T>(result)};
      const std::size_t bytes = kernel.scratch(request);
      bad = over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
        Scratch scratch(bytes);
        return kernel.run(request, begin, end, scratch.get());
      });
    };
    at.is_double() ? run(f64_.view(), isa().servo->f64) : run(f32_.view(), isa().servo->f32);
    return nb::make_tuple(std::move(result), bad);
  }

  // Returns (qd, bad) for the targets of all tasks (..., targets), as `follow` does for velocities.
  // All arrays are float64.
  nb::tuple reach(nb::handle q, nb::handle target, nb::handle before, nb::handle out,
                  int threads) const {
    const Servo<double>& servo = f64_.view();
    const PyTasks& tasks = nb::cast<const PyTasks&>(tasks_);
    const int n = servo.chain.nv;
    for (const Task<double>& task : tasks.tasks<double>()) {
      if (!fits_tree(task)) throw nb::value_error("the rows of a task do not fit a tree of joints");
    }
    Configurations at(q, tasks.layout(), "q");
    Batch asked(target, tasks.targets(), "target");
    Batch speed(before.is_none() ? at.object() : before, n, "qd");
    if (!at.is_double() || !at.same_rows(asked) || !at.same_rows(speed))
      throw nb::value_error("q, target and before must have the same batch axes and be float64");
    nb::object result = at.result(out, {n});
    for (Batch* given : {static_cast<Batch*>(&at), &asked, &speed}) {
      if (given->overlaps(result)) given->copy();
    }
    const TreeRequest request{.servo = &servo,
                              .lambda2 = servo.step->damping.p[0],
                              .count = at.count(),
                              .targets = tasks.targets(),
                              .q = at.data<double>(),
                              .before = before.is_none() ? nullptr : speed.data<double>(),
                              .target = asked.data<double>(),
                              .qd = data_of<double>(result)};
    const TreeKernel& kernel = isa().servo->tree;
    const std::size_t bytes = kernel.scratch(request);
    const std::ptrdiff_t bad = over_batch(
        request.count, threads,
        [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
          Scratch scratch(bytes);
          return kernel.run(request, begin, end, scratch.get());
        },
        least_trees);
    return nb::make_tuple(std::move(result), bad);
  }

  std::string constants() const { return text::constants("RobotConstants", f64_.view()); }

 private:
  nb::object tasks_;
  OwnedServo<double> f64_;
  OwnedServo<float> f32_;
  int velocities_;
};

}  // namespace

void bind_velocities(nb::module_& m) {
  m.attr("MAX_MULTIPLIERS") = SUPPLE_MULTIPLIERS;
  nb::class_<PyVelocity>(m, "Velocity", "Joint speeds of many robots. See supple.step.")
      .def(nb::init<nb::object, const StepSpec&, const LimitsSpec&, double, double,
                    const std::vector<double>&>(),
           nb::kw_only(), "tasks"_a, "step"_a, "limits"_a, "dt"_a, "gain"_a = 0.0,
           "task_gains"_a = std::vector<double>{})
      .def("reach", &PyVelocity::reach, "q"_a, "target"_a, "before"_a.none(), "out"_a.none(),
           "threads"_a,
           nb::sig("def reach(self, q: " SUPPLE_ARRAY ", target: " SUPPLE_ARRAY
                   ", before: " SUPPLE_ARRAY " | None, out: " SUPPLE_ARRAY
                   " | None, threads: int) -> tuple[" SUPPLE_ARRAY ", int]"))
      .def("follow", &PyVelocity::follow, "q"_a, "velocity"_a, "before"_a.none(), "out"_a.none(),
           "threads"_a,
           nb::sig("def follow(self, q: " SUPPLE_ARRAY ", velocity: " SUPPLE_ARRAY
                   ", before: " SUPPLE_ARRAY " | None, out: " SUPPLE_ARRAY
                   " | None, threads: int) -> tuple[" SUPPLE_ARRAY ", int]"))
      .def("constants", &PyVelocity::constants,
           "Return C++ source that defines the robot as the constants RobotConstants<T>.");
}

}  // namespace supple
