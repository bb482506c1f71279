#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>

#include "bindings/servo_loop.hpp"
#include "bindings/servo_report.hpp"
#include "bindings/spec.hpp"
#include "drivers/enum_names.hpp"
#include "supple/servo/fitting.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// A control loop with reports on its last step.
class PyServo : public ServoLoop {
 public:
  using ServoLoop::ServoLoop;

  nb::object speeds() const { return copied(last().qd, {servo_.chain.nv}); }
  nb::object speeds_before() const { return copied(memory_.last().before, {servo_.chain.nv}); }
  nb::object sides() const { return copied(last().active_set, {servo_.chain.nv}); }
  nb::object from() const { return configuration_of(layout(), memory_.last().from); }
  nb::object now() const { return configuration_of(layout(), last().q); }
  nb::object jacobian() const { return copied(last().J, {servo_.rows, servo_.chain.nv}); }
  nb::object command() const { return copied(last().desired, {servo_.rows}); }
  nb::object seen() const { return copied(last().e, {servo_.rows}); }
  nb::object before_limits() const { return copied(last().dq, {servo_.chain.nv}); }
  // Returns σ̂, σ_eff, σ_o, α² (see `Estimate`) and λ² of a step that estimates singular values;
  // None for other steps and before the first step.
  nb::object estimates() const {
    const ServoState<double>& state = last();
    if (!estimates_ || !state.has_previous) return nb::none();
    const Estimate<double>& found = state.estimate;
    return nb::make_tuple(state.sigma, found.effective, found.across, found.alpha2,
                          state.chosen_lambda2);
  }
  bool held() const { return last().limited != 0; }
  bool begun() const { return last().has_previous; }
  double chosen_lambda2() const { return last().chosen_lambda2; }
  double applied_lambda2() const { return last().applied_lambda2; }
  double beyond() const { return last().beyond; }

  int flags() const {
    return step_flags(servo_, memory_.last()) | limits_.excesses(last()) |
           guard_.flags(memory_.last()) | holding_.flags();
  }
  // Returns, for each task that may be held, its error and how far the task is switched on, from 0
  // to 1 (tasks, 2); and the targets of these tasks.
  nb::tuple holding() const {
    const int tasks = holding_.tasks();
    std::vector<double> each;
    for (int k = 0; k < tasks; ++k) {
      each.push_back(holding_.error(k)), each.push_back(holding_.share(k));
    }
    const Doubles& targets = holding_.targets();
    return nb::make_tuple(copied(each.data(), {tasks, 2}),
                          copied(targets.data(), {int(targets.size())}));
  }
  // The pair of shapes because of which the last step was changed, or -1.
  int blocking() const { return guard_.blocking(); }
  double missed() const { return missed_share(servo_, memory_.last()); }
  // Returns the part of the command (m,) that the step did not perform: e - J q̇.
  nb::object left() const {
    const nb::object made = copied(last().e, {servo_.rows});
    subtract_performed(servo_, memory_.last(), data_of<double>(made));
    return made;
  }
  double sigma_min() const { return supple::sigma_min(servo_, memory_.last()); }

  // Returns the part of the command (m,) that is lost to damping although the joints could perform
  // it.
  nb::object lost() const {
    const nb::object made = copied(last().e, {servo_.rows});
    lost_part(servo_, memory_.last(), data_of<double>(made));
    return made;
  }

  // Returns the limits of each joint that were active in the last step (n,), as flags of
  // StepStatus.
  nb::object joint_flags() const {
    const npy_intp n = servo_.chain.nv;
    const nb::object made = new_array(NPY_INT64, 1, &n);
    for (int j = 0; j < n; ++j) {
      const int found = supple::joint_flags(servo_, memory_.last(), j);
      data_of<std::int64_t>(made)[j] = limits_.too_fast(last(), j) ? found | over_speed : found;
    }
    return made;
  }

  // Returns the whole state on which later steps, and reports about the last step, depend.
  nb::object memory() const {
    const npy_intp size = saved_size();
    const nb::object all = new_array(NPY_DOUBLE, 1, &size);
    memory_.save(data_of<double>(all));
    limits_.save(data_of<double>(all) + memory_.saved_size());
    holding_.save(data_of<double>(all) + memory_.saved_size() + limits_.saved_size());
    return all;
  }
  void recall(nb::handle all) {
    const double* const from = contiguous_data(all, saved_size());
    if (!from) throw nb::value_error("memory must come from a Servo with the same robot and tasks");
    memory_.recall(from);
    limits_.recall(from + memory_.saved_size());
    holding_.recall(from + memory_.saved_size() + limits_.saved_size());
    limits_.apply(last(), servo_);
    guard_.forget();
  }

  // Returns the constraints of the last step as rows [G, h, owner, state] (count, n + 3).
  nb::object rows() const {
    const ConstraintRows& from = memory_.last().rows;
    const int n = servo_.chain.nv;
    const npy_intp sizes[] = {from.count, n + 3};
    const nb::object made = new_array(NPY_DOUBLE, 2, sizes);
    double* to = data_of<double>(made);
    for (int i = 0; i < from.count; ++i) {
      to = std::copy_n(from.G.data() + i * n, n, to);
      *to++ = from.h[i], *to++ = from.owner[i], *to++ = from.state[i];
    }
    return made;
  }
  void recall_rows(nb::handle all) {
    const auto [from, count] = rows_in(all, 3);
    memory_.recall_rows(from, count);
  }
};

}  // namespace

void bind_servo(nb::module_& m) {
  bind_enum<RowState>(m, "RowState", "What a row of a constraint has done to a step.");
  nb::enum_<StepFlag>(m, "StepFlag", "What changed or limited a step: the flags of StepStatus.")
      .value("DAMPED", damped)
      .value("NORM_LIMIT", at_norm)
      .value("ACCELERATION_LIMIT", at_acceleration)
      .value("SPEED_LIMIT", at_speed)
      .value("POSITION_LIMIT", at_position)
      .value("ACCELERATION_EXCEEDED", over_acceleration)
      .value("JERK_LIMIT", at_jerk)
      .value("JERK_EXCEEDED", over_jerk)
      .value("OUT_OF_REACH", out_of_reach)
      .value("DIRECTION_LOST", direction_lost)
      .value("HALTING", halts)
      .value("SPEED_EXCEEDED", over_speed)
      .value("NORM_EXCEEDED", over_norm)
      .value("CONSTRAINT_LIMIT", at_constraint)
      .value("CONSTRAINT_EXCEEDED", over_constraint)
      .value("COLLISION_LIMIT", at_collision)
      .value("COLLISION_EXCEEDED", over_collision)
      .value("HELD_EXCEEDED", over_held);
  m.attr("AT_LIMIT_RATIO") = at_limit_ratio;
  m.attr("EXCEEDED_RATIO") = exceeded_ratio;
  m.attr("NOTICED_ERROR") = ServoHolding::noticed_error;
  m.attr("PRIORITY_WEIGHT") = priority_weight<double>;
  m.attr("WEIGHTED_RIDGE") = weighted_ridge<double>;

  nb::class_<PyServo>(m, "Servo", nb::type_slots(held_objects<PyServo>),
                      "One step of a control loop. Not for direct use: see supple.Servo.")
      .def(nb::init<nb::object, const ServoSpec&, nb::object, nb::object, nb::object, nb::object,
                    nb::object, nb::object, double, const std::vector<double>&, bool, bool, bool>(),
           nb::kw_only(), "tasks"_a, "spec"_a, "convert"_a, "secondary_velocity"_a.none(),
           "python_step"_a.none(), "open_rows"_a.none() = nb::none(),
           "constraint_rows"_a.none() = nb::none(), "collision"_a.none() = nb::none(),
           "clearance"_a = 0.0, "tracking_error"_a = std::vector<double>{}, "wrapped"_a = false,
           "stacked_targets"_a = false, "stacked_velocities"_a = false)
      .def("__call__", &PyServo::step, nb::lock_self(), "q"_a.none(),
           "velocity"_a.none() = nb::none(), "target"_a.none() = nb::none(),
           "acceleration"_a.none() = nb::none(), "out"_a.none() = nb::none(),
           nb::sig("def __call__(self, q: numpy.typing.ArrayLike, velocity: typing.Any = None, "
                   "target: typing.Any = None, acceleration: typing.Any = None, out: " SUPPLE_ARRAY
                   " | None = None) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_reset", &PyServo::reset, nb::lock_self(), "qd"_a,
           nb::sig("def _reset(self, qd: numpy.typing.ArrayLike) -> None"))
      .def("_set_limits", &PyServo::set_limits, nb::lock_self(), nb::kw_only(), "limits"_a,
           "gain"_a, "slow_condition"_a, "halt_condition"_a, "open_rows"_a.none(),
           nb::sig("def _set_limits(self, *, limits: LimitsSpec, gain: float, slow_condition: "
                   "float, halt_condition: float, open_rows: typing.Any) -> None"))
      .def("_hold", &PyServo::hold, nb::lock_self(), "k"_a, "target"_a.none(), "over"_a,
           nb::sig("def _hold(self, k: int, target: " SUPPLE_ARRAY " | None, over: float) -> None"))
      .def("_release", &PyServo::release, nb::lock_self(), "k"_a, "over"_a,
           nb::sig("def _release(self, k: int, over: float) -> None"))
      .def_prop_ro("_holding", &PyServo::holding,
                   nb::sig("def _holding(self) -> tuple[numpy.typing.NDArray[numpy.float64], "
                           "numpy.typing.NDArray[numpy.float64]]"))
      .def_prop_ro("_qd", &PyServo::speeds,
                   nb::sig("def _qd(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_side", &PyServo::sides,
                   nb::sig("def _side(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_from", &PyServo::from,
                   nb::sig("def _from(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_now", &PyServo::now,
                   nb::sig("def _now(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_J", &PyServo::jacobian,
                   nb::sig("def _J(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_command", &PyServo::command,
                   nb::sig("def _command(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_e", &PyServo::seen,
                   nb::sig("def _e(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_step", &PyServo::before_limits,
                   nb::sig("def _step(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro(
          "_estimates", &PyServo::estimates,
          nb::sig("def _estimates(self) -> tuple[float, float, float, float, float] | None"))
      .def_prop_ro("_held", &PyServo::held, nb::sig("def _held(self) -> bool"))
      .def("_raw", &PyServo::raw, nb::lock_self(), "q"_a, "velocity"_a.none(), "target"_a.none(),
           "acceleration"_a.none(), "out"_a,
           nb::sig("def _raw(self, q: " SUPPLE_ARRAY ", velocity: " SUPPLE_ARRAY
                   " | None, target: " SUPPLE_ARRAY " | None, acceleration: " SUPPLE_ARRAY
                   " | None, out: " SUPPLE_ARRAY ") -> None"))
      .def("_pace", &PyServo::pace, nb::lock_self(), "lengths"_a, "k"_a,
           nb::sig("def _pace(self, lengths: " SUPPLE_ARRAY ", k: int) -> None"))
      .def_prop_ro("_before", &PyServo::speeds_before,
                   nb::sig("def _before(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_move_obstacles", &PyServo::move_obstacles, nb::lock_self(), "shapes"_a, "poses"_a,
           nb::sig("def _move_obstacles(self, shapes: list[int], poses: "
                   "numpy.typing.NDArray[numpy.float64]) -> None"))
      .def("_set_collision", &PyServo::set_collision, nb::lock_self(), "model"_a.none(),
           nb::sig("def _set_collision(self, model: CollisionModel | None) -> None"))
      .def_prop_ro("_blocking", &PyServo::blocking, nb::sig("def _blocking(self) -> int"))
      .def_prop_ro("_chosen_lambda2", &PyServo::chosen_lambda2,
                   nb::sig("def _chosen_lambda2(self) -> float"))
      .def_prop_ro("_flags", &PyServo::flags, nb::sig("def _flags(self) -> int"))
      .def_prop_ro("_joint_flags", &PyServo::joint_flags,
                   nb::sig("def _joint_flags(self) -> numpy.typing.NDArray[numpy.int64]"))
      .def_prop_ro("_sigma_min", &PyServo::sigma_min, nb::sig("def _sigma_min(self) -> float"))
      .def_prop_ro("_lost", &PyServo::lost,
                   nb::sig("def _lost(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_missed", &PyServo::missed, nb::sig("def _missed(self) -> float"))
      .def_prop_ro("_left", &PyServo::left,
                   nb::sig("def _left(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_beyond", &PyServo::beyond, nb::sig("def _beyond(self) -> float"))
      .def_prop_ro("_memory", &PyServo::memory,
                   nb::sig("def _memory(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_recall", &PyServo::recall, nb::lock_self(), "memory"_a,
           nb::sig("def _recall(self, memory: " SUPPLE_ARRAY ") -> None"))
      .def_prop_ro("_rows", &PyServo::rows,
                   nb::sig("def _rows(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_recall_rows", &PyServo::recall_rows, nb::lock_self(), "rows"_a,
           nb::sig("def _recall_rows(self, rows: " SUPPLE_ARRAY ") -> None"))
      .def_prop_ro(
          "_begun", [](const PyServo& servo) { return servo.begun(); },
          nb::sig("def _begun(self) -> bool"))
      .def_prop_ro("_applied_lambda2", &PyServo::applied_lambda2,
                   nb::sig("def _applied_lambda2(self) -> float"));
}

}  // namespace supple
