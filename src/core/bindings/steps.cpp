// Damping rules, steps and limits on batches: the kernel's twins of supple/motion.
#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/batches.hpp"
#include "bindings/specs.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernels.hpp"
#include "supple/limits/limits.hpp"

namespace supple {
namespace {

using namespace nb::literals;

void check_same_rows(const Batch& one, const Batch& other, const char* names) {
  if (one.same_rows(other)) return;
  const auto rows = [](const Batch& batch) {
    return std::to_string(batch.count()) + " rows of " +
           (batch.is_double() ? "float64" : "float32");
  };
  const std::string message = std::string(names) +
                              " must have the same batch axes and type; given: " + rows(one) +
                              " and " + rows(other);
  throw nb::value_error(message.c_str());
}

// Evaluates a damping rule (the kernel's twin of supple/damping/) on a batch of singular
// values. `sigma`, `gamma` and `history` are described in `DampingRequest`.
nb::object lambda2_of(const DampingSpec& spec, nb::handle sigma, nb::handle gamma,
                      nb::handle history, int values, bool redundant) {
  check_at_least("values", 1, values);
  if (values > 64) throw_field_error("values", "at most 64", values);
  const Batch s(sigma, values, "sigma"), g(gamma, values, "gamma"), h(history, 3, "history");
  check_same_rows(s, g, "sigma and gamma");
  check_same_rows(s, h, "sigma and history");
  nb::object out = s.result({}, {});
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    const DampingRequest<T> request{.count = s.count(),
                                    .values = values,
                                    .redundant = redundant,
                                    .damping = spec.in_kernel<T>(),
                                    .sigma = s.data<T>(),
                                    .gamma = g.data<T>(),
                                    .history = h.data<T>(),
                                    .lambda2 = data_of<T>(out)};
    over_batch(request.count, 1, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      kernel.damp(request, begin, end);
      return std::ptrdiff_t(-1);
    });
  };
  s.is_double() ? run(isa().f64) : run(isa().f32);
  return out;
}

// Evaluates a step (the kernel's twin of supple/steps/) on a batch. Each matrix of J is
// flattened by rows, (..., rows * columns); `history` is described in `StepRequest`.
nb::tuple steps(const StepSpec& spec, nb::handle J, nb::handle e, nb::handle history, int rows,
                int columns, int threads) {
  check_at_least("rows", 1, rows);
  check_at_least("columns", 1, columns);
  const Batch j(J, rows * columns, "J"), task(e, rows, "e"), past(history, 2, "history");
  check_same_rows(j, task, "J and e");
  check_same_rows(j, past, "J and history");
  nb::object dq = j.result({}, {columns}), lambda2 = j.result({}, {});
  std::ptrdiff_t bad = -1;
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    const OwnedStep<T> step(spec, rows, columns);
    const StepRequest<T> request{.count = j.count(),
                                 .rows = rows,
                                 .columns = columns,
                                 .step = step.view(),
                                 .J = j.data<T>(),
                                 .e = task.data<T>(),
                                 .history = past.data<T>(),
                                 .dq = data_of<T>(dq),
                                 .lambda2 = data_of<T>(lambda2)};
    const std::size_t bytes = kernel.step_scratch(request);
    bad = over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      return kernel.step(request, begin, end, scratch.get());
    });
  };
  j.is_double() ? run(isa().f64) : run(isa().f32);
  return nb::make_tuple(std::move(dq), std::move(lambda2), bad);
}

// Limits steps to boxes (bounds on each joint velocity) by `limited_step` or, with
// `keep_direction`, `scale_into_box`.
nb::tuple limited(nb::handle J, nb::handle dq, nb::handle lambda2, nb::handle low, nb::handle high,
                  double max_norm, bool keep_direction, int rows, int columns, int threads) {
  check_at_least("rows", 1, rows);
  check_at_least("columns", 1, columns);
  const Batch j(J, rows * columns, "J"), damping(lambda2, 1, "lambda2"), l(low, columns, "low"),
      h(high, columns, "high");
  Batch step(dq, columns, "dq");
  check_same_rows(j, step, "J and dq");
  check_same_rows(j, damping, "J and lambda2");
  check_same_rows(j, l, "J and low");
  check_same_rows(j, h, "J and high");
  step.copy();
  nb::object active_set = j.result({}, {columns}), applied = j.result({}, {});
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    const LimitRequest<T> request{.count = j.count(),
                                  .rows = rows,
                                  .columns = columns,
                                  .max_norm = bound_within(T(max_norm)),
                                  .keep_direction = keep_direction,
                                  .J = j.data<T>(),
                                  .lambda2 = damping.data<T>(),
                                  .low = l.data<T>(),
                                  .high = h.data<T>(),
                                  .dq = data_of<T>(nb::borrow(step.object())),
                                  .active_set = data_of<T>(active_set),
                                  .applied_lambda2 = data_of<T>(applied)};
    const std::size_t bytes = kernel.limit_scratch(request);
    over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      kernel.limit(request, begin, end, scratch.get());
      return std::ptrdiff_t(-1);
    });
  };
  j.is_double() ? run(isa().f64) : run(isa().f32);
  return nb::make_tuple(nb::borrow(step.object()), std::move(active_set), std::move(applied));
}

// Returns the bounds (2, n) on the joint speeds of the next step: lower, then upper.
nb::object joint_boxes(Doubles lower, Doubles upper, Doubles max_speed, Doubles max_acceleration,
                       Doubles max_jerk, const Doubles& q, const Doubles& qd, const Doubles& change,
                       double dt) {
  const int n = int(q.size());
  check_length("qd", q.size(), qd.size());
  check_length("change", q.size(), change.size());
  check_positive("dt", dt);
  const LimitsSpec limits{.lower = std::move(lower),
                          .upper = std::move(upper),
                          .max_speed = std::move(max_speed),
                          .max_acceleration = std::move(max_acceleration),
                          .max_jerk = std::move(max_jerk)};
  const std::vector<JointLimit<double>> limit = limits.in_kernel<double>(n);
  const npy_intp shape[] = {2, n};
  const nb::object box = new_array(NPY_DOUBLE, 2, shape);
  double* const low = data_of<double>(box);
  for (int j = 0; j < n; ++j) {
    isa().f64.box(limit[j], q[j], qd[j], change[j], dt, low[j], low[n + j]);
  }
  return box;
}

}  // namespace

void bind_steps(nb::module_& m) {
  m.attr("MAX_DIRECTIONS") = max_directions;
  m.attr("PARALLEL_WITHIN") = parallel_within;
  m.attr("RESERVE_SIZE") = reserve_size;
  m.def("lambda2", &lambda2_of, "damping"_a, nb::kw_only(), "sigma"_a, "gamma"_a, "history"_a,
        "values"_a, "redundant"_a = false,
        "Return lambda2 of a batch of spectra by a rule of supple.damping.",
        nb::sig("def lambda2(damping: DampingSpec, *, sigma: numpy.typing.ArrayLike, gamma: "
                "numpy.typing.ArrayLike, history: numpy.typing.ArrayLike, values: int, "
                "redundant: bool = False) -> " SUPPLE_ARRAY));

  m.def("steps", &steps, "step"_a, nb::kw_only(), "J"_a, "e"_a, "history"_a, "rows"_a, "columns"_a,
        "threads"_a,
        "Return dq and lambda2 of a batch, and the index of the first nonfinite row, or -1.",
        nb::sig("def steps(step: StepSpec, *, J: numpy.typing.ArrayLike, e: "
                "numpy.typing.ArrayLike, history: numpy.typing.ArrayLike, rows: int, columns: int, "
                "threads: int) -> tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY ", int]"));

  m.def("joint_box", &joint_boxes, nb::kw_only(), "lower"_a, "upper"_a, "max_speed"_a,
        "max_acceleration"_a, "max_jerk"_a, "q"_a, "qd"_a, "change"_a, "dt"_a,
        "Return the bounds (2, n) on the joint speeds of the next step: lower, upper.",
        nb::sig("def joint_box(*, lower: " SUPPLE_ARRAY ", upper: " SUPPLE_ARRAY
                ", max_speed: " SUPPLE_ARRAY ", max_acceleration: " SUPPLE_ARRAY
                ", max_jerk: " SUPPLE_ARRAY ", q: " SUPPLE_ARRAY ", qd: " SUPPLE_ARRAY
                ", change: " SUPPLE_ARRAY ", dt: float) -> " SUPPLE_ARRAY));

  m.def("limited", &limited, nb::kw_only(), "J"_a, "dq"_a, "lambda2"_a, "low"_a, "high"_a,
        "max_norm"_a, "keep_direction"_a, "rows"_a, "columns"_a, "threads"_a,
        "Return dq inside boxes, its active set (-1, 0 or 1), and the damping applied.",
        nb::sig("def limited(*, J: numpy.typing.ArrayLike, dq: numpy.typing.ArrayLike, lambda2: "
                "numpy.typing.ArrayLike, low: numpy.typing.ArrayLike, high: "
                "numpy.typing.ArrayLike, max_norm: float, keep_direction: bool, rows: int, "
                "columns: int, threads: int) "
                "-> tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"));
}

}  // namespace supple
