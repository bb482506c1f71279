// The extension module supple._core: converts arguments, chooses an instruction set, spreads
// threads.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "arrays.hpp"
#include "batches.hpp"
#include "chain.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "tasks.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// The kernel's twin of the rules of supple/motion/damping.py, on a batch of spectra.
nb::object lambda2(int rule, const Doubles& parameters, nb::handle sigma, nb::handle gamma,
                   nb::handle history, int values) {
  if (rule < 0 || rule > int(Rule::optimal_newton) || parameters.size() > 4 || values < 1 ||
      values > 64) {
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

// The kernel's twin of the steps of supple/motion/step.py, on a batch. J comes as (..., m n).
nb::tuple steps(int method, double parameter, int group, double max_error, int error_group,
                double max_angle, int rule, const Doubles& parameters, nb::handle J, nb::handle e,
                nb::handle history, int rows, int columns, int threads) {
  if (method < 0 || method > int(Method::selective_soft) || rule < 0 ||
      rule > int(Rule::optimal_newton) || parameters.size() > 4 || group < 1 || error_group < 1 ||
      rows < 1 || columns < 1) {
    throw nb::value_error("no such method or rule, or sizes that are not positive");
  }
  const Batch j(J, rows * columns, "J"), task(e, rows, "e"), past(history, 2, "history");
  if (!j.same_rows(task) || !j.same_rows(past)) throw nb::value_error("rows that do not match");
  nb::object dq = j.result({}, {columns}), lambda2 = j.result({}, {});
  std::ptrdiff_t bad = -1;
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    Step<T> how{Method(method), T(parameter), group,           T(max_error),
                error_group,    T(max_angle), {Rule(rule), {}}};
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

#define SUPPLE_SIG(name, more, result) \
  nb::sig("def " name "(self, q: numpy.typing.ArrayLike, " more ") -> " result)
#define SUPPLE_OUT(name) name ": " SUPPLE_ARRAY " | None = None"

NB_MODULE(_core, m) {
  if (_import_array() < 0) throw nb::python_error();
  m.doc() = "The compiled part of supple. Not for direct use: see supple.Robot.";

  m.def("isa", [] { return std::string(isa().isa); }, "Name of the instruction set in use.");
  m.def(
      "isas", [] { return available_isas(); },
      "Instruction sets that this machine can run, best last.");
  m.def(
      "use_isa", [](const std::string& name) { use_isa(name); }, "name"_a,
      "Switches to another instruction set of `isas()`.");
  m.def(
      "lane_widths", [] { return nb::make_tuple(isa().width_double, isa().width_float); },
      "Lanes of a batch in double and in single precision.",
      nb::sig("def lane_widths() -> tuple[int, int]"));

  m.def("lambda2", &lambda2, "rule"_a, "parameters"_a, "sigma"_a, "gamma"_a, "history"_a,
        "values"_a, "lambda2 of a batch of spectra by a rule of supple.motion.damping.",
        nb::sig("def lambda2(rule: int, parameters: collections.abc.Sequence[float], sigma: "
                "numpy.typing.ArrayLike, gamma: numpy.typing.ArrayLike, history: "
                "numpy.typing.ArrayLike, values: int) -> " SUPPLE_ARRAY));

  m.def("steps", &steps, "method"_a, "parameter"_a, "group"_a, "max_error"_a, "error_group"_a,
        "max_angle"_a, "rule"_a, "parameters"_a, "J"_a, "e"_a, "history"_a, "rows"_a, "columns"_a,
        "threads"_a,
        "dq, lambda2 and the first row that is not finite (or -1) of a batch of steps.",
        nb::sig(
            "def steps(method: int, parameter: float, group: int, max_error: float, error_group: "
            "int, max_angle: "
            "float, rule: int, parameters: collections.abc.Sequence[float], J: "
            "numpy.typing.ArrayLike, e: numpy.typing.ArrayLike, history: "
            "numpy.typing.ArrayLike, rows: int, columns: int, threads: int) -> tuple[" SUPPLE_ARRAY
            ", " SUPPLE_ARRAY ", int]"));

  nb::class_<PyChain>(m, "Chain", "The joints that move a set of frames, ready for the kernel.")
      .def(nb::init<int, const Ints&, const Ints&, const Ints&, const Ints&, const Doubles&,
                    const Doubles&, const Doubles&, const Doubles&, const Doubles&, const Ints&,
                    const Doubles&, const Doubles&, int, bool, int, Ints>(),
           nb::kw_only(), "coordinates"_a, "parent"_a, "motion"_a, "placement"_a, "coordinate"_a,
           "scale"_a, "offset"_a, "phase"_a, "rotation"_a, "position"_a, "frame_joint"_a,
           "frame_rotation"_a, "frame_position"_a, "frames"_a, "stack"_a, "axes"_a, "rows"_a)
      .def(
          "poses",
          [](const PyChain& c, nb::handle q, int threads, nb::object out) {
            return c.evaluate(q, {}, threads, {.poses = true}, {.poses = std::move(out)}).poses;
          },
          "q"_a.none(), "threads"_a, "out"_a.none() = nb::none(),
          SUPPLE_SIG("poses", "threads: int, " SUPPLE_OUT("out"), SUPPLE_ARRAY))
      .def(
          "jacobian",
          [](const PyChain& c, nb::handle q, int threads, nb::object out) {
            return c.evaluate(q, {}, threads, {.jacobian = true}, {.jacobian = std::move(out)})
                .jacobian;
          },
          "q"_a.none(), "threads"_a, "out"_a.none() = nb::none(),
          SUPPLE_SIG("jacobian", "threads: int, " SUPPLE_OUT("out"), SUPPLE_ARRAY))
      .def(
          "poses_and_jacobian",
          [](const PyChain& c, nb::handle q, int threads, nb::object poses, nb::object jacobian) {
            Outputs out = c.evaluate(q, {}, threads, {.poses = true, .jacobian = true},
                                     {.poses = std::move(poses), .jacobian = std::move(jacobian)});
            return nb::make_tuple(std::move(out.poses), std::move(out.jacobian));
          },
          "q"_a.none(), "threads"_a, "poses"_a.none() = nb::none(),
          "jacobian"_a.none() = nb::none(),
          SUPPLE_SIG("poses_and_jacobian",
                     "threads: int, " SUPPLE_OUT("poses") ", " SUPPLE_OUT("jacobian"),
                     "tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"))
      .def(
          "drift",
          [](const PyChain& c, nb::handle q, nb::handle qd, int threads) {
            return c.evaluate(q, qd, threads, {.drift = true}).drift;
          },
          "q"_a.none(), "qd"_a.none(), "threads"_a,
          SUPPLE_SIG("drift", "qd: numpy.typing.ArrayLike, threads: int", SUPPLE_ARRAY))
      .def(
          "singular_values",
          [](const PyChain& c, nb::handle q, int threads) {
            return c.evaluate(q, {}, threads, {.sigma = true}).sigma;
          },
          "q"_a.none(), "threads"_a, SUPPLE_SIG("singular_values", "threads: int", SUPPLE_ARRAY))
      .def(
          "manipulability",
          [](const PyChain& c, nb::handle q, int threads) {
            return c.evaluate(q, {}, threads, {.manipulability = true}).manipulability;
          },
          "q"_a.none(), "threads"_a, SUPPLE_SIG("manipulability", "threads: int", SUPPLE_ARRAY));

  bind_tasks(m);
}

}  // namespace
}  // namespace supple
