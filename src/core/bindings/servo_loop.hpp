// A control loop behind `supple.Servo`: it runs steps and keeps their memory. What the last step
// did is reported by servo.cpp.
#pragma once

#include "bindings/module.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/isa.hpp"
#include "bindings/held_objects.hpp"
#include "bindings/servo_guard.hpp"
#include "bindings/servo_holding.hpp"
#include "bindings/servo_inputs.hpp"
#include "bindings/servo_limits.hpp"
#include "bindings/servo_memory.hpp"
#include "bindings/servo_python.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"
#include "supple/limits/limits.hpp"

namespace supple {

// A control loop that owns all the memory of a step: a call allocates only the array that it
// returns, and nothing if the caller passes one.
class ServoLoop {
 public:
  // `convert` converts targets and velocities that are not plain arrays to the kernel's layout, and
  // raises an error for a q whose joints cannot be in radians.
  // `secondary_velocity` maps q to the secondary velocity, or is None. `python_step` is a step that
  // the kernel does not have, or None. `open_rows` evaluates tasks that are defined in Python, or
  // is None; it requires a `python_step`. `constraint_rows` maps q to the rows of constraints, [G,
  // h, owner] (count, n + 2), or is None. `collision` is a CollisionModel, or None;
  // `tracking_error` (n,) is how far joints may be from the commanded motion, or empty.
  ServoLoop(nb::object tasks, const ServoSpec& spec, nb::object convert,
            nb::object secondary_velocity, nb::object python_step, nb::object open_rows,
            nb::object constraint_rows, nb::object collision, double clearance,
            const std::vector<double>& tracking_error, bool wrapped, bool stacked_targets,
            bool stacked_velocities)
      : tasks_(std::move(tasks)),
        convert_(std::move(convert)),
        secondary_velocity_(std::move(secondary_velocity)),
        constraint_rows_(std::move(constraint_rows)),
        python_(std::move(python_step), std::move(open_rows)),
        inputs_(spec.inputs),
        task_gains_(spec.task_gains),
        plausible_lower_(spec.plausible_lower),
        plausible_upper_(spec.plausible_upper),
        wrapped_(wrapped),
        stacked_targets_(stacked_targets),
        stacked_velocities_(stacked_velocities) {
    const PyTasks& all = nb::cast<const PyTasks&>(tasks_);
    layout_ = &all.layout();
    const int n = all.chain<double>().nv, count = int(all.tasks<double>().size());
    check_index("held_tasks", 0, count, spec.held_tasks);
    check_index("loops", 0, spec.held_tasks + 1, spec.loops);
    int m = 0;
    for (int k = 0; k < count - spec.held_tasks; ++k) {
      const Task<double>& task = all.tasks<double>()[k];
      rows_.push_back(task.rows);
      m += task.rows, targets_ += target_size(task), velocities_ += velocity_size(task);
    }
    const bool by_priority = spec.mode == ControlMode::priority;
    check_length("inputs", rows_.size(), inputs_.size());
    if (!task_gains_.empty()) check_length("task_gains", rows_.size(), task_gains_.size());
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
              .max_norm = bound_within(spec.limits.max_norm),
              .keep_direction = spec.limits.keep_direction,
              .second_order = spec.second_order,
              .dt = spec.dt,
              .gain = spec.gain,
              .rate_gain = spec.rate_gain,
              .rest_gain = spec.rest_gain,
              .task_gain = task_gains_.empty() ? nullptr : task_gains_.data(),
              .in_python = python_.decides(),
              .curvature = spec.curvature,
              .whole = spec.whole,
              .slow_condition = spec.slow_condition,
              .halt_condition = spec.halt_condition};
    holding_.set(all.tasks<double>(), spec.held_tasks, servo_);
    servo_.loops = spec.loops;
    check_index("directions", 1, max_directions + 1, spec.filter.directions);
    estimates_ = spec.mode == ControlMode::filtered || spec.mode == ControlMode::estimated;
    const bool remembers = estimates_ || steps_[0].damping.rule == Rule::mayorga_rank;
    memory_.allocate(servo_, targets_, velocities_, remembers, isa().servo->scratch(servo_));
    guard_.set(std::move(collision), clearance, tracking_error, servo_);
  }

  nb::object step(nb::handle q, nb::handle velocity, nb::handle target, nb::handle acceleration,
                  nb::handle out) {
    const int n = layout().nq();
    const Configurations at(q, layout(), "q");
    if (at.leading() != 0) raise_input_error("raise_batch", q, "q", n);
    nb::object kept[3];
    const Command<double> command{
        numbers(target, targets_, "target", memory_.target, kept[0]),
        numbers(velocity, velocities_, "velocity", memory_.velocity, kept[1]),
        numbers(acceleration, velocities_, "acceleration", memory_.acceleration, kept[2])};
    nb::object next = result(out, n);
    run(at, command, data_of<double>(next));
    return out.is_none() ? like(q, std::move(next)) : next;
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
    run(Configurations(q, layout(), "q"), command, data_of<double>(result(out, layout().nq())));
  }

  template <class Visit>
  int visit(Visit&& visit) const {
    return visit_each(visit, {tasks_, convert_, secondary_velocity_, python_.step(),
                              python_.open_rows(), constraint_rows_, guard_.object()});
  }

  // Restarts the loop with the joint velocities `qd`.
  void reset(nb::handle qd) {
    const Batch speed(qd, servo_.chain.nv, "qd");
    memory_.reset([&speed](int j) { return number(speed, j); });
    limits_.remember_peaks(last(), servo_.dt);
    guard_.forget();
    holding_.restart();
  }

  // Begins to hold a task within `over` [s], at a target in the kernel's layout, or where it is
  // (None).
  void hold(int k, nb::handle target, double over) {
    check_index("k", 0, holding_.tasks(), k);
    const double* const given =
        target.is_none() ? nullptr : contiguous_data(target, holding_.target_of(k));
    if (!given && !target.is_none())
      throw nb::value_error("target must be a C-contiguous float64 array of the task's target");
    holding_.hold(k, given, over);
  }
  void release(int k, double over) {
    check_index("k", 0, holding_.tasks(), k);
    holding_.release(k, over);
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
    python_.set_open_rows(std::move(open_rows));
    guard_.forget();
  }

  void set_collision(nb::object model) { guard_.replace(std::move(model), servo_); }
  void move_obstacles(const std::vector<int>& shapes, nb::handle poses) {
    const int count = int(shapes.size());
    const double* const data = contiguous_data(poses, count, 16);
    if (!data) throw nb::value_error("poses must be a C-contiguous float64 array (k, 16)");
    guard_.move(count, shapes.data(), data);
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

 protected:
  const ServoState<double>& last() const { return memory_.last().state; }
  int saved_size() const {
    return memory_.saved_size() + limits_.saved_size() + holding_.saved_size();
  }

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

  const Layout& layout() const { return *layout_; }

  Servo<double> servo_;
  ServoMemory memory_;
  ServoLimits limits_;
  ServoGuard guard_;
  ServoHolding holding_;
  bool estimates_;  // whether the step keeps estimated directions u

 private:
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
      const nb::object rows = constraint_rows_(configuration_of(layout(), state.q));
      const auto [from, count] = rows_in(rows, 2);
      if (guard_.active()) {
        all_rows_.insert(all_rows_.end(), from, from + count * (n + 2));
      } else {
        memory_.constrain(from, count);
      }
    }
    if (guard_.active()) memory_.constrain(all_rows_.data(), int(all_rows_.size()) / (n + 2));
    state.holding = nullptr;
    if (holding_.any()) {
      state.holding = holding_.begin(servo_, state.constraints ? state.constraints->count : 0);
    }
    if (!secondary_velocity_.is_none()) {
      const nb::object v = secondary_velocity_(configuration_of(layout(), state.q));
      if (!contiguous_data(v, n))
        throw nb::value_error("secondary_velocity must return an array (n,) of float64");
      for (int j = 0; j < n; ++j) state.v[j] = data_of<double>(v)[j];
    }
    if (!python_.decides()) {
      kernel.run(servo_, command, state, memory_.scratch);
    } else {
      kernel.evaluate_tasks(servo_, command, state, memory_.scratch);
      if (python_.evaluates()) {
        python_.evaluate(servo_, layout(), command, {targets_, velocities_}, state);
      }
      if (state.holding) kernel.project_held(servo_, state);
      python_.decide(servo_, layout(), memory_.metric, state);
      kernel.advance(servo_, state, memory_.scratch);
    }
    if (guard_.active()) {
      guard_.secure(servo_, memory_.next());
      if (state.holding) kernel.measure_held(servo_, state);
    }
    bool valid = std::isfinite(state.chosen_lambda2) && std::isfinite(state.applied_lambda2);
    for (int j = 0; j < nq; ++j) valid = valid && std::isfinite(state.q[j]);
    for (int j = 0; j < n; ++j) valid = valid && std::isfinite(state.qd[j]);
    if (!valid) {
      if (python_.decides()) python_.undo();
      raise_input_error("raise_overflow", at.object());
    }
    layout().from_kernel(state.q, next);
    memory_.accept();
    if (holding_.any()) holding_.accept();
    if (guard_.active()) guard_.accept(memory_.last());
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

  const Layout* layout_;  // the layout of `tasks_`
  nb::object tasks_, convert_, secondary_velocity_, constraint_rows_, lengths_;
  ServoPython python_;
  std::vector<OwnedStep<double>> owned_;
  std::vector<Step<double>> steps_;
  Ints rows_;
  std::vector<InputSpec> inputs_;
  std::vector<double> task_gains_;
  Doubles plausible_lower_, plausible_upper_;  // (n,), or empty
  const bool wrapped_;  // whether the value of a single task may be in a sequence
  const bool stacked_targets_, stacked_velocities_;  // whether an array may hold those of all tasks
  Doubles all_rows_;  // rows of pairs of shapes, then those of constraints
  int targets_ = 0, velocities_ = 0;
};

}  // namespace supple
