// The parts of a step of `supple.Servo` that run in Python: the rows of open tasks, and a step that
// the kernel does not have.
#pragma once

#include "bindings/module.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/configurations.hpp"
#include "supple/servo/servo.hpp"

namespace supple {

// Returns a new array with a copy of numbers of the kernel.
inline nb::object copied(const double* from, std::initializer_list<int> shape) {
  npy_intp sizes[2], count = 1;
  int axes = 0;
  for (int size : shape) count *= sizes[axes++] = size;
  nb::object made = new_array(NPY_DOUBLE, axes, sizes);
  for (npy_intp i = 0; i < count; ++i) data_of<double>(made)[i] = from[i];
  return made;
}

// Returns the configuration of coordinates of the kernel.
inline nb::object configuration_of(const Layout& layout, const double* x) {
  const npy_intp size = layout.nq();
  const nb::object made = new_array(NPY_DOUBLE, 1, &size);
  layout.from_kernel(x, data_of<double>(made));
  return made;
}

// The lengths of the targets and of the velocities of all tasks.
struct CommandSize {
  int targets, velocities;
};

class ServoPython {
 public:
  // `step` is a step that the kernel does not have, or None. `open_rows` evaluates tasks that are
  // defined in Python, or is None; it requires a step.
  ServoPython(nb::object step, nb::object open_rows)
      : step_(std::move(step)), open_rows_(std::move(open_rows)) {}

  const nb::object& step() const { return step_; }
  const nb::object& open_rows() const { return open_rows_; }
  bool decides() const { return !step_.is_none(); }
  bool evaluates() const { return !open_rows_.is_none(); }
  void set_open_rows(nb::object open_rows) { open_rows_ = std::move(open_rows); }

  // Discards what the step has remembered of its last call.
  void undo() const { step_.attr("undo")(); }

  // Evaluates J and the desired motion of tasks that are defined in Python, which overwrites the
  // kernel's rows.
  void evaluate(const Servo<double>& servo, const Layout& layout, const Command<double>& command,
                CommandSize size, ServoState<double>& state) const {
    const int n = servo.chain.nv, m = servo.rows;
    const auto given = [](const double* numbers, int count) -> nb::object {
      return numbers ? copied(numbers, {count}) : nb::none();
    };
    const nb::object J = copied(state.J, {m, n}), desired = copied(state.desired, {m});
    open_rows_(J, desired, configuration_of(layout, state.q), copied(state.qd, {n}),
               given(command.target, size.targets), given(command.velocity, size.velocities),
               given(command.acceleration, size.velocities));
    std::copy_n(data_of<double>(J), m * n, state.J);
    std::copy_n(data_of<double>(desired), m, state.desired);
    const double rest = servo.second_order ? servo.rest_gain : 0.0;
    for (int i = 0; i < m; ++i) {
      state.e[i] = state.desired[i] + rest * dot(n, state.J + i * n, state.qd);
    }
  }

  // Calls the step, which returns q̇ or q̈, λ², and the matrix of the norm that it minimizes,
  // flattened (n * n,), or None; in a hierarchy with ranges, the J and e of `Intervals.step`
  // follow. `metric` has room for the matrix.
  void decide(const Servo<double>& servo, const Layout& layout, double* metric,
              ServoState<double>& state) const {
    const int n = servo.chain.nv, m = servo.rows;
    const nb::object J = copied(state.J, {m, n}), e = copied(state.e, {m});
    const nb::tuple parts = nb::cast<nb::tuple>(step_(J, e, configuration_of(layout, state.q)));
    const nb::object dq = parts[0], norm = parts[2];
    if (!contiguous_data(dq, n))
      throw nb::value_error("the step in Python must return an array (n,) of float64");
    for (int j = 0; j < n; ++j) state.dq[j] = data_of<double>(dq)[j];
    state.chosen_lambda2 = nb::cast<double>(parts[1]);
    if (parts.size() == 5) keep_rows(parts[3], parts[4], m, n, state);
    state.metric = nullptr;
    if (norm.is_none()) return;
    if (!contiguous_data(norm, n * n))
      throw nb::value_error("the norm of a step in Python must be an array (n * n,) of float64");
    std::copy_n(data_of<double>(norm), n * n, metric);
    state.metric = metric;
  }

 private:
  // Replaces the rows of the tasks by those that the step returned: J (m, n) and e (m,).
  static void keep_rows(const nb::object& J, const nb::object& e, int m, int n,
                        ServoState<double>& state) {
    if (!contiguous_data(J, m, n) || !contiguous_data(e, m))
      throw nb::value_error("the step in Python must return arrays J (m, n) and e (m,) of float64");
    std::copy_n(data_of<double>(J), m * n, state.J);
    for (int i = 0; i < m; ++i) {
      const double moved = data_of<double>(e)[i] - state.e[i];
      state.e[i] += moved;
      state.desired[i] += moved;
    }
  }

  nb::object step_, open_rows_;
};

}  // namespace supple
