#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/isa.hpp"
#include "bindings/servo_guard.hpp"
#include "bindings/servo_inputs.hpp"
#include "bindings/servo_limits.hpp"
#include "bindings/servo_memory.hpp"
#include "bindings/servo_report.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// A control loop that owns all the memory of a step: a call allocates only the array that it
// returns, and nothing if the caller passes one.
class PyServo {
 public:
  // `convert` converts targets and velocities that are not plain arrays to the kernel's layout, and
  // raises an error for a q whose joints cannot be in radians.
  // `secondary_velocity` maps q to the secondary velocity, or is None. `python_step` is a step that
  // the kernel does not have, or None. `open_rows` evaluates tasks that are defined in Python, or
  // is None; it requires a `python_step`. `constraint_rows` maps q to the rows of constraints, [G,
  // h, owner] (count, n + 2), or is None. `collision` is a CollisionModel, or None;
  // `tracking_error` (n,) is how far joints may be from the commanded motion, or empty.
  PyServo(nb::object tasks, const ServoSpec& spec, nb::object convert,
          nb::object secondary_velocity, nb::object python_step, nb::object open_rows,
          nb::object constraint_rows, nb::object collision, double clearance,
          const std::vector<double>& tracking_error, bool wrapped, bool stacked_targets,
          bool stacked_velocities)
      : tasks_(std::move(tasks)),
        convert_(std::move(convert)),
        secondary_velocity_(std::move(secondary_velocity)),
        python_step_(std::move(python_step)),
        open_rows_(std::move(open_rows)),
        constraint_rows_(std::move(constraint_rows)),
        inputs_(spec.inputs),
        plausible_lower_(spec.plausible_lower),
        plausible_upper_(spec.plausible_upper),
        wrapped_(wrapped),
        stacked_targets_(stacked_targets),
        stacked_velocities_(stacked_velocities) {
    const PyTasks& all = nb::cast<const PyTasks&>(tasks_);
    const int n = all.chain<double>().nv, m = all.rows();
    targets_ = all.targets();
    velocities_ = all.velocities();
    for (const Task<double>& task : all.tasks<double>()) rows_.push_back(task.rows);
    const bool by_priority = spec.mode == ControlMode::priority;
    check_length("inputs", rows_.size(), inputs_.size());
    check_length("steps", by_priority ? rows_.size() : 1, spec.steps.size());
    check_positive("dt", spec.dt);
    if (!plausible_lower_.empty()) check_length("plausible_lower", n, plausible_lower_.size());
    check_length("plausible_upper", plausible_lower_.size(), plausible_upper_.size());
    for (std::size_t k = 0; k < spec.steps.size(); ++k) {
      owned_.emplace_back(spec.steps[k], by_priority ? rows_[k] : m, n);
      steps_.push_back(owned_.back().view());
    }
    limits_.set(spec.limits, n);
    servo_ = {.chain = all.chain<double>(),
              .tasks = int(rows_.size()),
              .rows = m,
              .task = all.tasks<double>().data(),
              .task_rows = rows_.data(),
              .mode = spec.mode,
              .step = steps_.data(),
              .redundancy = {.form = spec.secondary.form,
                             .alpha1 = spec.secondary.alpha1,
                             .max_speed = spec.secondary.max_speed,
                             .step = steps_[0]},
              .filter = {.max_gain = spec.filter.max_gain,
                         .printed = spec.filter.printed,
                         .directions = spec.filter.directions},
              .limit = limits_.in_force(),
              .bound = spec.limits.max_norm,
              .keep_direction = spec.limits.keep_direction,
              .second_order = spec.second_order,
              .dt = spec.dt,
              .gain = spec.gain,
              .rate_gain = spec.rate_gain,
              .rest_gain = spec.rest_gain,
              .in_python = !python_step_.is_none(),
              .curvature = spec.curvature,
              .whole = spec.whole,
              .slow_condition = spec.slow_condition,
              .halt_condition = spec.halt_condition};
    check_index("directions", 1, max_directions + 1, spec.filter.directions);
    estimates_ = spec.mode == ControlMode::filtered || spec.mode == ControlMode::estimated;
    const bool remembers = estimates_ || steps_[0].damping.rule == Rule::mayorga_rank;
    memory_.allocate(servo_, targets_, velocities_, remembers, isa().servo->scratch(servo_));
    guard_.set(std::move(collision), clearance, tracking_error, servo_);
  }

  nb::object step(nb::handle q, nb::handle velocity, nb::handle target, nb::handle acceleration,
                  nb::handle out) {
    const int n = servo_.chain.nq;
    const Batch at(q, n, "q");
    if (at.leading() != 0) raise_input_error("raise_batch", q, "q", n);
    nb::object kept[3];
    const Command<double> command{
        numbers(target, targets_, "target", memory_.target, kept[0]),
        numbers(velocity, velocities_, "velocity", memory_.velocity, kept[1]),
        numbers(acceleration, velocities_, "acceleration", memory_.acceleration, kept[2])};
    nb::object next = result(out, n);
    run(at, command, data_of<double>(next));
    return next;
  }

  // The same as `step`, for arrays in the kernel's layout that have already been checked.
  void raw(nb::handle q, nb::handle velocity, nb::handle target, nb::handle acceleration,
           nb::handle out) {
    const auto known = [](nb::handle given, int count) -> const double* {
      if (given.is_none()) return nullptr;
      if (!contiguous_data(given, count))
        throw nb::value_error(
            "targets, velocities and accelerations must be C-contiguous float64 arrays with the "
            "sizes of these tasks");
      return static_cast<const double*>(
          PyArray_DATA(reinterpret_cast<PyArrayObject*>(given.ptr())));
    };
    const Command<double> command{known(target, targets_), known(velocity, velocities_),
                                  known(acceleration, velocities_)};
    const int n = servo_.chain.nq;
    run(Batch(q, n, "q"), command, data_of<double>(result(out, n)));
  }

  template <class Visit>
  int visit(Visit&& visit) const {
    for (const nb::object* held : {&tasks_, &convert_, &secondary_velocity_, &python_step_,
                                   &open_rows_, &constraint_rows_, &guard_.object()}) {
      if (const int stop = visit(*held)) return stop;
    }
    return 0;
  }

  // Releases the Python objects that may refer to this servo, which cannot be called afterwards.
  void clear() {
    convert_ = secondary_velocity_ = python_step_ = open_rows_ = constraint_rows_ = nb::none();
  }

  // Restarts the loop with the joint velocities `qd`.
  void reset(nb::handle qd) {
    const Batch speed(qd, servo_.chain.nv, "qd");
    memory_.reset([&speed](int j) { return number(speed, j); });
    limits_.remember_peaks(last(), servo_.dt);
    guard_.forget();
  }

  // Replaces the limits and what depends on them: the gain of the error, the condition numbers of
  // mode "halt", and the evaluation of open tasks.
  void set_limits(const LimitsSpec& limits, double gain, double slow_condition,
                  double halt_condition, nb::object open_rows) {
    limits_.remember_peaks(last(), servo_.dt);
    limits_.set(limits, servo_.chain.nv);
    limits_.apply(last(), servo_);
    servo_.gain = gain;
    servo_.slow_condition = slow_condition;
    servo_.halt_condition = halt_condition;
    open_rows_ = std::move(open_rows);
    guard_.forget();
  }

  nb::object speeds() const { return copy(last().qd, {servo_.chain.nv}); }
  nb::object speeds_before() const { return copy(memory_.last().before, {servo_.chain.nv}); }
  nb::object sides() const { return copy(last().active_set, {servo_.chain.nv}); }
  nb::object from() const { return copy(memory_.last().from, {servo_.chain.nq}); }
  nb::object now() const { return copy(last().q, {servo_.chain.nq}); }
  nb::object jacobian() const { return jacobian_of(last()); }
  nb::object asked() const { return copy(last().desired, {servo_.rows}); }
  nb::object seen() const { return copy(last().e, {servo_.rows}); }
  nb::object before_limits() const { return copy(last().dq, {servo_.chain.nv}); }
  // Returns σ̂, σ_eff, σ_o, α² (see `Estimate`) and λ² of a step that estimates singular values;
  // None for other steps and before the first step.
  nb::object estimates() const {
    const ServoState<double>& state = last();
    if (!estimates_ || !state.has_previous) return nb::none();
    const Estimate<double>& found = state.estimate;
    return nb::make_tuple(state.sigma, found.effective, found.across, found.alpha2, state.lambda2);
  }
  bool held() const { return last().limited != 0; }
  bool begun() const { return last().has_previous; }
  double lambda2() const { return last().applied_lambda2; }
  double chosen() const { return last().lambda2; }
  double beyond() const { return last().beyond; }

  int flags() const {
    return step_flags(servo_, memory_.last()) | limits_.excesses(last()) |
           guard_.flags(memory_.last());
  }
  void set_collision(nb::object model) { guard_.replace(std::move(model), servo_); }
  void move_obstacles(const std::vector<int>& shapes, nb::handle poses) {
    const int count = int(shapes.size());
    const double* const data = contiguous_data(poses, count, 16);
    if (!data) throw nb::value_error("poses must be a C-contiguous float64 array (k, 16)");
    guard_.move(count, shapes.data(), data);
  }
  // The pair of shapes that did not allow the last step as it was, or -1.
  int blocking() const { return guard_.blocking(); }
  double missed() const { return missed_share(servo_, memory_.last()); }
  double sigma_min() const { return supple::sigma_min(servo_, memory_.last()); }

  // Returns the part of the command (m,) that is lost to damping although the joints could perform
  // it.
  nb::object lost() const {
    const nb::object made = copy(last().e, {servo_.rows});
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
    return all;
  }
  void recall(nb::handle all) {
    const double* const from = contiguous_data(all, saved_size());
    if (!from) throw nb::value_error("memory must come from a Servo with the same robot and tasks");
    memory_.recall(from);
    limits_.recall(from + memory_.saved_size());
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

  // Sets the lengths [s] of all steps of a motion, and the next step as the k-th of them.
  void pace(nb::handle lengths, int k) {
    const nb::object kept = nb::borrow(lengths);
    const int count = PyArray_CheckExact(kept.ptr())
                          ? int(PyArray_SIZE(reinterpret_cast<PyArrayObject*>(kept.ptr())))
                          : 0;
    if (k < 0 || k >= count || !contiguous_data(kept, count))
      throw_field_error("k", "an index of lengths", k);
    const double* each = data_of<double>(kept);
    check_positive("lengths[k]", each[k]);
    lengths_ = kept;
    servo_.dt = each[k];
    servo_.later = each + k + 1;
    servo_.later_count = count - k - 1;
  }

 private:
  const ServoState<double>& last() const { return memory_.last().state; }
  int saved_size() const { return memory_.saved_size() + limits_.saved_size(); }

  // Returns the data and the number of rows of an array (count, n + more) of float64.
  std::pair<const double*, int> rows_in(nb::handle given, int more) const {
    const bool array = PyArray_CheckExact(given.ptr());
    auto* const rows = reinterpret_cast<PyArrayObject*>(given.ptr());
    const npy_intp count = array && PyArray_NDIM(rows) == 2 ? PyArray_DIM(rows, 0) : 0;
    const double* const data = contiguous_data(given, count, servo_.chain.nv + more);
    if (!data)
      throw nb::value_error("rows of constraints must be a C-contiguous float64 array of rows");
    return {data, int(count)};
  }

  // Returns number j of a row of floats or doubles.
  static double number(const Batch& row, int j) {
    return row.is_double() ? row.data<double>()[j] : double(row.data<float>()[j]);
  }

  void run(const Batch& at, const Command<double>& command, double* next) {
    const int nq = servo_.chain.nq, n = servo_.chain.nv;
    limits_.apply(last(), servo_);
    for (int j = 0; j < nq; ++j) {
      if (!std::isfinite(number(at, j))) {
        raise_input_error("raise_nonfinite", at.object(), nb::none(), 0);
      }
    }
    for (int j = 0; j < int(plausible_lower_.size()); ++j) {
      const double q = number(at, j);
      if (q < plausible_lower_[j] || q > plausible_upper_[j]) convert_("q", at.object());
    }
    ServoState<double>& state = memory_.begin([&at](int j) { return number(at, j); });
    const ServoKernel& kernel = *isa().servo;
    state.constraints = nullptr;
    if (guard_.active()) {
      all_rows_.clear();
      guard_.append_rows(servo_, memory_.next(), all_rows_);
    }
    if (!constraint_rows_.is_none()) {
      const nb::object rows = constraint_rows_(copy(state.q, {nq}));
      const auto [from, count] = rows_in(rows, 2);
      if (guard_.active()) {
        all_rows_.insert(all_rows_.end(), from, from + count * (n + 2));
      } else {
        memory_.constrain(from, count);
      }
    }
    if (guard_.active()) memory_.constrain(all_rows_.data(), int(all_rows_.size()) / (n + 2));
    if (!secondary_velocity_.is_none()) {
      const nb::object v = secondary_velocity_(copy(state.q, {nq}));
      if (!contiguous_data(v, n))
        throw nb::value_error("secondary_velocity must return an array (n,) of float64");
      for (int j = 0; j < n; ++j) state.v[j] = data_of<double>(v)[j];
    }
    if (python_step_.is_none()) {
      kernel.run(servo_, command, state, memory_.scratch);
    } else {
      kernel.evaluate_tasks(servo_, command, state, memory_.scratch);
      if (!open_rows_.is_none()) evaluate_in_python(command, state);
      decide_in_python(state);
      kernel.advance(servo_, state, memory_.scratch);
    }
    if (guard_.active()) guard_.secure(servo_, memory_.next());
    bool valid = std::isfinite(state.lambda2) && std::isfinite(state.applied_lambda2);
    for (int j = 0; j < nq; ++j) valid = valid && std::isfinite(state.q[j]);
    for (int j = 0; j < n; ++j) valid = valid && std::isfinite(state.qd[j]);
    if (!valid) {
      if (!python_step_.is_none()) python_step_.attr("undo")();
      raise_input_error("raise_overflow", at.object());
    }
    for (int j = 0; j < nq; ++j) next[j] = state.q[j];
    memory_.accept();
    if (guard_.active()) guard_.accept(memory_.last());
  }

  static nb::object copy(const double* from, std::initializer_list<int> shape) {
    npy_intp sizes[2], count = 1;
    int axes = 0;
    for (int size : shape) count *= sizes[axes++] = size;
    nb::object made = new_array(NPY_DOUBLE, axes, sizes);
    for (npy_intp i = 0; i < count; ++i) data_of<double>(made)[i] = from[i];
    return made;
  }

  // Writes `given` in the kernel's layout to `to` and returns a pointer to it; null for None.
  // Anything but an array of the expected kind, or a list or tuple of them, is converted or
  // rejected by Python; `kept` then owns the result.
  const double* numbers(nb::handle given, int count, const char* name, double* to,
                        nb::object& kept) const {
    if (given.is_none()) return nullptr;
    const bool target = to == memory_.target;
    if (servo_.tasks == 1 && put_values(given, servo_.task[0], inputs_[0], target, false, to)) {
      return to;
    }
    const bool stacked = target ? stacked_targets_ : stacked_velocities_;
    if ((servo_.tasks > 1 || wrapped_) &&
        put_each(given, {servo_.task, std::size_t(servo_.tasks)}, inputs_, target, stacked, to)) {
      return to;
    }
    kept = convert_(name, given);
    if (!contiguous_data(kept, count))
      throw nb::value_error(
          "targets, velocities and accelerations must be C-contiguous float64 arrays with the "
          "sizes of these tasks");
    return data_of<double>(kept);
  }

  nb::object result(nb::handle out, int n) const {
    if (out.is_none()) {
      const npy_intp size = n;
      return new_array(NPY_DOUBLE, 1, &size);
    }
    if (!contiguous_data(out, n) ||
        !PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject*>(out.ptr()))) {
      nb::list expected;
      expected.append(n);
      raise_input_error("raise_unusable_out", out, nb::tuple(expected), "float64");
    }
    return nb::borrow(out);
  }

  nb::object jacobian_of(const ServoState<double>& state) const {
    return copy(state.J, {servo_.rows, servo_.chain.nv});
  }

  // Evaluates J and the desired motion of tasks that are defined in Python, which overwrites the
  // kernel's rows.
  void evaluate_in_python(const Command<double>& command, ServoState<double>& state) {
    const int n = servo_.chain.nv, m = servo_.rows;
    const auto given = [](const double* numbers, int count) -> nb::object {
      return numbers ? copy(numbers, {count}) : nb::none();
    };
    const nb::object J = jacobian_of(state), desired = copy(state.desired, {m});
    open_rows_(J, desired, copy(state.q, {servo_.chain.nq}), copy(state.qd, {n}),
               given(command.target, targets_), given(command.velocity, velocities_),
               given(command.acceleration, velocities_));
    std::copy_n(data_of<double>(J), m * n, state.J);
    std::copy_n(data_of<double>(desired), m, state.desired);
    const double rest = servo_.second_order ? servo_.rest_gain : 0.0;
    for (int i = 0; i < m; ++i) {
      state.e[i] = state.desired[i] + rest * dot(n, state.J + i * n, state.qd);
    }
  }

  // Calls a step in Python, which returns q̇ or q̈, λ², and the matrix of the norm that it
  // minimizes, flattened (n * n,), or None.
  void decide_in_python(ServoState<double>& state) {
    const int n = servo_.chain.nv;
    const nb::object e = copy(state.e, {servo_.rows});
    const nb::object made = python_step_(jacobian_of(state), e, copy(state.q, {servo_.chain.nq}));
    const nb::tuple parts = nb::cast<nb::tuple>(made);
    const nb::object dq = parts[0], metric = parts[2];
    if (!contiguous_data(dq, n))
      throw nb::value_error("the step in Python must return an array (n,) of float64");
    for (int j = 0; j < n; ++j) state.dq[j] = data_of<double>(dq)[j];
    state.lambda2 = nb::cast<double>(parts[1]);
    state.metric = nullptr;
    if (metric.is_none()) return;
    if (!contiguous_data(metric, n * n))
      throw nb::value_error("the norm of a step in Python must be an array (n * n,) of float64");
    std::copy_n(data_of<double>(metric), n * n, memory_.metric);
    state.metric = memory_.metric;
  }

  nb::object tasks_, convert_, secondary_velocity_, python_step_, open_rows_, constraint_rows_,
      lengths_;
  std::vector<OwnedStep<double>> owned_;
  std::vector<Step<double>> steps_;
  ServoLimits limits_;
  Ints rows_;
  std::vector<InputSpec> inputs_;
  Doubles plausible_lower_, plausible_upper_;  // (n,), or empty
  const bool wrapped_;  // whether the value of an only task may be in a sequence of one
  const bool stacked_targets_, stacked_velocities_;  // whether an array may hold those of all tasks
  Servo<double> servo_;
  ServoMemory memory_;
  ServoGuard guard_;
  Doubles all_rows_;  // rows of pairs of shapes, then those of constraints
  int targets_, velocities_;
  bool estimates_;  // whether the step keeps estimated directions u
};

// A Servo and a user's step whose globals refer to the Servo form a reference cycle, which Python's
// garbage collector must be able to find.
int visit_servo(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<PyServo>(self)->visit(
      [&](nb::handle held) { return held.is_valid() ? visit(held.ptr(), arg) : 0; });
}

int clear_servo(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PyServo>(self)->clear();
  return 0;
}

PyType_Slot servo_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_servo)},
                             {Py_tp_clear, reinterpret_cast<void*>(clear_servo)},
                             {0, nullptr}};

}  // namespace

void bind_servo(nb::module_& m) {
  nb::class_<PyServo>(m, "Servo", nb::type_slots(servo_slots),
                      "One step of a control loop. Not for direct use: see supple.Servo.")
      .def(nb::init<nb::object, const ServoSpec&, nb::object, nb::object, nb::object, nb::object,
                    nb::object, nb::object, double, const std::vector<double>&, bool, bool, bool>(),
           nb::kw_only(), "tasks"_a, "spec"_a, "convert"_a, "secondary_velocity"_a.none(),
           "python_step"_a.none(), "open_rows"_a.none() = nb::none(),
           "constraint_rows"_a.none() = nb::none(), "collision"_a.none() = nb::none(),
           "clearance"_a = 0.0, "tracking_error"_a = std::vector<double>{}, "wrapped"_a = false,
           "stacked_targets"_a = false, "stacked_velocities"_a = false)
      .def("__call__", &PyServo::step, "q"_a.none(), "velocity"_a.none() = nb::none(),
           "target"_a.none() = nb::none(), "acceleration"_a.none() = nb::none(),
           "out"_a.none() = nb::none(),
           nb::sig("def __call__(self, q: numpy.typing.ArrayLike, velocity: typing.Any = None, "
                   "target: typing.Any = None, acceleration: typing.Any = None, out: " SUPPLE_ARRAY
                   " | None = None) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_reset", &PyServo::reset, "qd"_a,
           nb::sig("def _reset(self, qd: numpy.typing.ArrayLike) -> None"))
      .def("_set_limits", &PyServo::set_limits, nb::kw_only(), "limits"_a, "gain"_a,
           "slow_condition"_a, "halt_condition"_a, "open_rows"_a.none(),
           nb::sig("def _set_limits(self, *, limits: LimitsSpec, gain: float, slow_condition: "
                   "float, halt_condition: float, open_rows: typing.Any) -> None"))
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
      .def_prop_ro("_asked", &PyServo::asked,
                   nb::sig("def _asked(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_e", &PyServo::seen,
                   nb::sig("def _e(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_step", &PyServo::before_limits,
                   nb::sig("def _step(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro(
          "_estimates", &PyServo::estimates,
          nb::sig("def _estimates(self) -> tuple[float, float, float, float, float] | None"))
      .def_prop_ro("_held", &PyServo::held, nb::sig("def _held(self) -> bool"))
      .def("_raw", &PyServo::raw, "q"_a, "velocity"_a.none(), "target"_a.none(),
           "acceleration"_a.none(), "out"_a,
           nb::sig("def _raw(self, q: " SUPPLE_ARRAY ", velocity: " SUPPLE_ARRAY
                   " | None, target: " SUPPLE_ARRAY " | None, acceleration: " SUPPLE_ARRAY
                   " | None, out: " SUPPLE_ARRAY ") -> None"))
      .def("_pace", &PyServo::pace, "lengths"_a, "k"_a,
           nb::sig("def _pace(self, lengths: " SUPPLE_ARRAY ", k: int) -> None"))
      .def_prop_ro("_before", &PyServo::speeds_before,
                   nb::sig("def _before(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_move_obstacles", &PyServo::move_obstacles, "shapes"_a, "poses"_a,
           nb::sig("def _move_obstacles(self, shapes: list[int], poses: "
                   "numpy.typing.NDArray[numpy.float64]) -> None"))
      .def("_set_collision", &PyServo::set_collision, "model"_a.none(),
           nb::sig("def _set_collision(self, model: CollisionModel | None) -> None"))
      .def_prop_ro("_blocking", &PyServo::blocking, nb::sig("def _blocking(self) -> int"))
      .def_prop_ro("_chosen", &PyServo::chosen, nb::sig("def _chosen(self) -> float"))
      .def_prop_ro("_flags", &PyServo::flags, nb::sig("def _flags(self) -> int"))
      .def_prop_ro("_joint_flags", &PyServo::joint_flags,
                   nb::sig("def _joint_flags(self) -> numpy.typing.NDArray[numpy.int64]"))
      .def_prop_ro("_sigma_min", &PyServo::sigma_min, nb::sig("def _sigma_min(self) -> float"))
      .def_prop_ro("_lost", &PyServo::lost,
                   nb::sig("def _lost(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_missed", &PyServo::missed, nb::sig("def _missed(self) -> float"))
      .def_prop_ro("_beyond", &PyServo::beyond, nb::sig("def _beyond(self) -> float"))
      .def_prop_ro("_memory", &PyServo::memory,
                   nb::sig("def _memory(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_recall", &PyServo::recall, "memory"_a,
           nb::sig("def _recall(self, memory: " SUPPLE_ARRAY ") -> None"))
      .def_prop_ro("_rows", &PyServo::rows,
                   nb::sig("def _rows(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_recall_rows", &PyServo::recall_rows, "rows"_a,
           nb::sig("def _recall_rows(self, rows: " SUPPLE_ARRAY ") -> None"))
      .def_prop_ro(
          "_begun", [](const PyServo& servo) { return servo.begun(); },
          nb::sig("def _begun(self) -> bool"))
      .def_prop_ro("_lambda2", &PyServo::lambda2, nb::sig("def _lambda2(self) -> float"));
}

}  // namespace supple
