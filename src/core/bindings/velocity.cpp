#define NO_IMPORT_ARRAY
#include "bindings/velocity.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/batches.hpp"
#include "drivers/gpu_constants.hpp"
#include "kernels/isa.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// What all robots share in one precision, owning its memory.
template <class T>
class OwnedServo {
 public:
  OwnedServo(const PyTasks& tasks, const StepSpec& step, const Doubles& limits, double bound,
             bool scale, double dt)
      : owned_(step, tasks.rows(), tasks.chain<T>().coordinates) {
    const Chain<T> chain = tasks.chain<T>();
    const std::size_t n = std::size_t(chain.coordinates);
    for (const Task<T>& task : tasks.tasks<T>()) rows_.push_back(task.rows);
    if (limits.size() != 4 * n || !(dt > 0)) {
      throw nb::value_error("limits of another robot, or a step that takes no time");
    }
    for (std::size_t j = 0; j < n; ++j) {
      limits_.push_back(
          {T(limits[j]), T(limits[n + j]), T(limits[2 * n + j]), T(limits[3 * n + j])});
    }
    step_ = owned_.view();
    servo_ = {chain,        int(rows_.size()),
              tasks.rows(), tasks.tasks<T>().data(),
              rows_.data(), ControlMode::step,
              &step_,       {},
              {},           limits_.data(),
              T(bound),     scale,
              false,        T(dt),
              T(0),         T(0),
              T(0)};
  }
  OwnedServo(const OwnedServo&) = delete;  // (it points into itself)

  const Servo<T>& view() const { return servo_; }

 private:
  OwnedStep<T> owned_;
  Ints rows_;
  std::vector<JointLimit<T>> limits_;
  Step<T> step_;
  Servo<T> servo_;
};

class PyVelocity {
 public:
  PyVelocity(nb::object tasks, const StepSpec& step, const Doubles& limits, double bound,
             bool scale, double dt)
      : tasks_(std::move(tasks)),
        f64_(nb::cast<const PyTasks&>(tasks_), step, limits, bound, scale, dt),
        f32_(nb::cast<const PyTasks&>(tasks_), step, limits, bound, scale, dt),
        velocities_(nb::cast<const PyTasks&>(tasks_).velocities()) {}

  // (qd, -1), or the first row that is out of bounds in place of -1. `velocity`, and `before` if it
  // is given, have the rows and the type of q.
  nb::tuple follow(nb::handle q, nb::handle velocity, nb::handle before, nb::handle out,
                   int threads) const {
    const int n = f64_.view().chain.coordinates;
    Batch at(q, n, "q"), asked(velocity, velocities_, "twist");
    Batch speed(before.is_none() ? q : before, n, "qd");
    if (!at.same_rows(asked) || !at.same_rows(speed)) throw nb::value_error("rows do not match");
    nb::object result = at.result(out, {n});
    for (Batch* given : {&at, &asked, &speed}) {
      if (given->overlaps(result)) given->copy();
    }
    std::ptrdiff_t bad = -1;
    const auto run = [&]<class T>(const Servo<T>& servo, const VelocityKernel<T>& kernel) {
      const VelocityRequest<T> request{&servo,
                                     at.count(),
                                     velocities_,
                                     at.data<T>(),
                                     before.is_none() ? nullptr : speed.data<T>(),
                                     asked.data<T>(),
                                     data_of<T>(result)};
      const std::size_t bytes = kernel.scratch(request);
      bad = over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
        Scratch scratch(bytes);
        return kernel.run(request, begin, end, scratch.get());
      });
    };
    at.is_double() ? run(f64_.view(), isa().servo->f64) : run(f32_.view(), isa().servo->f32);
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

void bind_velocity(nb::module_& m) {
  nb::class_<PyVelocity>(m, "Velocity", "Joint speeds of many robots. See supple.step.")
      .def(nb::init<nb::object, const StepSpec&, const Doubles&, double, bool, double>(),
           nb::kw_only(), "tasks"_a, "step"_a, "limits"_a, "bound"_a, "scale"_a, "dt"_a)
      .def("follow", &PyVelocity::follow, "q"_a, "velocity"_a, "before"_a.none(), "out"_a.none(),
           "threads"_a,
           nb::sig("def follow(self, q: " SUPPLE_ARRAY ", velocity: " SUPPLE_ARRAY
                   ", before: " SUPPLE_ARRAY " | None, out: " SUPPLE_ARRAY
                   " | None, threads: int) -> tuple[" SUPPLE_ARRAY ", int]"))
      .def("constants", &PyVelocity::constants, "RobotConstants<T>: for a compiler to fold.");
}

}  // namespace supple
