// Damping rules, steps and limits on batches: the kernel's twins of supple/motion.
#define NO_IMPORT_ARRAY
#include "bindings/steps.hpp"

#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/batches.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernels.hpp"

namespace supple {
namespace {

using namespace nb::literals;
using Doubles = std::vector<double>;

// The kernel's twin of the rules of supple/motion/damping/, on a batch of spectra.
nb::object lambda2_of(int rule, const Doubles& parameters, nb::handle sigma, nb::handle gamma,
                      nb::handle history, int values) {
  if (rule < 0 || rule > int(last_rule) || parameters.size() > 4 || values < 1 || values > 64) {
    throw nb::value_error("no such rule, too many parameters, or not 1 to 64 singular values");
  }
  const Batch s(sigma, values, "sigma"), g(gamma, values, "gamma"), h(history, 3, "history");
  if (!s.same_rows(g) || !s.same_rows(h)) throw nb::value_error("rows that do not match");
  nb::object out = s.result({}, {});
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    Damping<T> damping{Rule(rule), {}};
    for (std::size_t i = 0; i < parameters.size(); ++i) damping.p[i] = T(parameters[i]);
    const DampingRequest<T> request{s.count(),   values,      damping,        s.data<T>(),
                                    g.data<T>(), h.data<T>(), data_of<T>(out)};
    over_batch(request.count, 1, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      kernel.damp(request, begin, end);
      return std::ptrdiff_t(-1);
    });
  };
  s.is_double() ? run(isa().f64) : run(isa().f32);
  return out;
}

// The kernel's twin of the steps of supple/motion/steps/, on a batch. J comes as (..., m n).
nb::tuple steps(int method, double parameter, int group, double max_error, int error_group,
                double max_angle, int rule, const Doubles& parameters, const Doubles& task_scale,
                const Doubles& joint_scale, const Doubles& direction, double min_weight,
                nb::handle J, nb::handle e, nb::handle history, int rows, int columns,
                int threads) {
  if (method < 0 || method > int(Method::damped_quick) || rule < 0 || rule > int(last_rule) ||
      parameters.size() > 4 || group < 1 || error_group < 1 || rows < 1 || columns < 1) {
    throw nb::value_error("no such method or rule, or sizes that are not positive");
  }
  const auto fits = [](const Doubles& given, int size) {
    return given.empty() || given.size() == std::size_t(size);
  };
  if (!fits(task_scale, rows) || !fits(joint_scale, columns) || !fits(direction, rows)) {
    throw nb::value_error("weights or a direction that do not match J");
  }
  const Batch j(J, rows * columns, "J"), task(e, rows, "e"), past(history, 2, "history");
  if (!j.same_rows(task) || !j.same_rows(past)) throw nb::value_error("rows that do not match");
  nb::object dq = j.result({}, {columns}), lambda2 = j.result({}, {});
  std::ptrdiff_t bad = -1;
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    const auto numbers = [](const Doubles& given) {
      return std::vector<T>(given.begin(), given.end());
    };
    const std::vector<T> task_of = numbers(task_scale), joint_of = numbers(joint_scale),
                         direction_of = numbers(direction);
    const auto or_null = [](const std::vector<T>& v) { return v.empty() ? nullptr : v.data(); };
    Step<T> how{Method(method),        T(parameter),     group,
                T(max_error),          error_group,      T(max_angle),
                {Rule(rule), {}},      or_null(task_of), or_null(joint_of),
                or_null(direction_of), T(min_weight)};
    for (std::size_t i = 0; i < parameters.size(); ++i) how.damping.p[i] = T(parameters[i]);
    const StepRequest<T> request{j.count(),          rows,           columns,        how,
                                 j.data<T>(),        task.data<T>(), past.data<T>(), data_of<T>(dq),
                                 data_of<T>(lambda2)};
    const std::size_t bytes = kernel.step_scratch(request);
    bad = over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      return kernel.step(request, begin, end, scratch.get());
    });
  };
  j.is_double() ? run(isa().f64) : run(isa().f32);
  return nb::make_tuple(std::move(dq), std::move(lambda2), bad);
}

// Steps put inside boxes by `limited_step` or, with `scale`, `scale_into_box`.
nb::tuple limited(nb::handle J, nb::handle dq, nb::handle lambda2, nb::handle low, nb::handle high,
                  double bound, bool scale, int rows, int columns, int threads) {
  if (rows < 1 || columns < 1) throw nb::value_error("sizes that are not positive");
  const Batch j(J, rows * columns, "J"), damping(lambda2, 1, "lambda2"), l(low, columns, "low"),
      h(high, columns, "high");
  Batch step(dq, columns, "dq");
  if (!j.same_rows(step) || !j.same_rows(damping) || !j.same_rows(l) || !j.same_rows(h)) {
    throw nb::value_error("rows that do not match");
  }
  step.copy();
  nb::object side = j.result({}, {columns}), used = j.result({}, {});
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    const LimitRequest<T> request{j.count(),
                                  rows,
                                  columns,
                                  T(bound),
                                  scale,
                                  j.data<T>(),
                                  damping.data<T>(),
                                  l.data<T>(),
                                  h.data<T>(),
                                  data_of<T>(nb::borrow(step.object())),
                                  data_of<T>(side),
                                  data_of<T>(used)};
    const std::size_t bytes = kernel.limit_scratch(request);
    over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      kernel.limit(request, begin, end, scratch.get());
      return std::ptrdiff_t(-1);
    });
  };
  j.is_double() ? run(isa().f64) : run(isa().f32);
  return nb::make_tuple(nb::borrow(step.object()), std::move(side), std::move(used));
}

// (6, n): lower, upper, speed, acceleration, q, speed now -> (2, n): low, high.
nb::object joint_boxes(nb::handle numbers, double dt) {
  auto* given = reinterpret_cast<PyArrayObject*>(numbers.ptr());
  if (!PyArray_CheckExact(numbers.ptr()) || PyArray_NDIM(given) != 2 ||
      PyArray_DIM(given, 0) != 6 || PyArray_TYPE(given) != NPY_DOUBLE || !PyArray_ISCARRAY(given)) {
    throw nb::value_error("six rows of numbers");
  }
  const npy_intp n = PyArray_DIM(given, 1), shape[] = {2, n};
  nb::object box = nb::steal(PyArray_SimpleNew(2, shape, NPY_DOUBLE));
  const auto* in = static_cast<const double*>(PyArray_DATA(given));
  double* out = data_of<double>(box);
  for (npy_intp j = 0; j < n; ++j) {
    const JointLimit<double> limit{in[j], in[n + j], in[2 * n + j], in[3 * n + j]};
    isa().f64.box(limit, in[4 * n + j], in[5 * n + j], dt, out[j], out[n + j]);
  }
  return box;
}

}  // namespace

void bind_motion(nb::module_& m) {
  m.def("lambda2", &lambda2_of, "rule"_a, "parameters"_a, "sigma"_a, "gamma"_a, "history"_a,
        "values"_a, "lambda2 of a batch of spectra by a rule of supple.motion.damping.",
        nb::sig("def lambda2(rule: int, parameters: collections.abc.Sequence[float], sigma: "
                "numpy.typing.ArrayLike, gamma: numpy.typing.ArrayLike, history: "
                "numpy.typing.ArrayLike, values: int) -> " SUPPLE_ARRAY));

  m.def("steps", &steps, "method"_a, "parameter"_a, "group"_a, "max_error"_a, "error_group"_a,
        "max_angle"_a, "rule"_a, "parameters"_a, "task_scale"_a, "joint_scale"_a, "direction"_a,
        "min_weight"_a, "J"_a, "e"_a, "history"_a, "rows"_a, "columns"_a, "threads"_a,
        "dq, lambda2 and the first row that is not finite (or -1) of a batch of steps.",
        nb::sig(
            "def steps(method: int, parameter: float, group: int, max_error: float, error_group: "
            "int, max_angle: "
            "float, rule: int, parameters: collections.abc.Sequence[float], task_scale: "
            "collections.abc.Sequence[float], joint_scale: collections.abc.Sequence[float], "
            "direction: collections.abc.Sequence[float], min_weight: float, J: "
            "numpy.typing.ArrayLike, e: numpy.typing.ArrayLike, history: "
            "numpy.typing.ArrayLike, rows: int, columns: int, threads: int) -> tuple[" SUPPLE_ARRAY
            ", " SUPPLE_ARRAY ", int]"));

  m.def("joint_box", &joint_boxes, "numbers"_a, "dt"_a,
        "Where joint speeds may be: (6, n) limits, positions and speeds -> (2, n).",
        nb::sig("def joint_box(numbers: " SUPPLE_ARRAY ", dt: float) -> " SUPPLE_ARRAY));

  m.def("limited", &limited, "J"_a, "dq"_a, "lambda2"_a, "low"_a, "high"_a, "bound"_a, "scale"_a,
        "rows"_a, "columns"_a, "threads"_a,
        "dq inside boxes, which end each entry is at (-1, 0, 1), and the damping that was used.",
        nb::sig("def limited(J: numpy.typing.ArrayLike, dq: numpy.typing.ArrayLike, lambda2: "
                "numpy.typing.ArrayLike, low: numpy.typing.ArrayLike, high: "
                "numpy.typing.ArrayLike, bound: float, scale: bool, rows: int, columns: int, "
                "threads: int) -> tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"));
}

}  // namespace supple
