// The extension module supple._core: converts arguments, chooses an instruction set and starts
// threads.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/chain.hpp"
#include "bindings/module.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"
#include "drivers/gil.hpp"
#include "drivers/gpu_constants.hpp"
#include "drivers/operation_count.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernels.hpp"

namespace supple {
namespace {

using namespace nb::literals;

#define SUPPLE_SIG(name, more, result) \
  nb::sig("def " name "(self, q: numpy.typing.ArrayLike, " more ") -> " result)
#define SUPPLE_OUT(name) name ": " SUPPLE_ARRAY " | None = None"

NB_MODULE(_core, m) {
  if (_import_array() < 0) throw nb::python_error();
  m.doc() = "The compiled part of supple. Not for direct use: see supple.Robot.";

  m.def(
      "isa", [] { return std::string(isa().isa); },
      "Return the name of the instruction set in use.");
  m.def(
      "isas", [] { return available_isas(); },
      "Return the names of the instruction sets that this machine can run, best last.");
  m.def(
      "use_isa", [](const std::string& name) { use_isa(name); }, "name"_a,
      "Switch to another instruction set of `isas()`.");
  m.def(
      "lane_widths", [] { return nb::make_tuple(isa().width_double, isa().width_float); },
      "Return the number of lanes of a batch in double and in single precision.",
      nb::sig("def lane_widths() -> tuple[int, int]"));

  bind_specs(m);  // first, because the signatures of the other functions contain specs
  nb::class_<PyChain>(m, "Chain", "The joints that move a set of frames, ready for the kernel.")
      .def(nb::init<int, Ints, const std::vector<JointSpec>&, const std::vector<FrameSpec>&, int,
                    bool, int, Ints>(),
           nb::kw_only(), "nv"_a, "balls"_a, "joints"_a, "frames"_a, "outputs"_a, "stack"_a,
           "axes"_a, "rows"_a)
      .def(
          "poses",
          [](const PyChain& c, nb::handle q, int threads, nb::object out) {
            return like(
                q, c.evaluate(q, {}, threads, {.poses = true}, {.poses = std::move(out)}).poses);
          },
          "q"_a.none(), "threads"_a, "out"_a.none() = nb::none(),
          SUPPLE_SIG("poses", "threads: int, " SUPPLE_OUT("out"), SUPPLE_ARRAY))
      .def(
          "jacobian",
          [](const PyChain& c, nb::handle q, int threads, nb::object out) {
            return like(q,
                        c.evaluate(q, {}, threads, {.jacobian = true}, {.jacobian = std::move(out)})
                            .jacobian);
          },
          "q"_a.none(), "threads"_a, "out"_a.none() = nb::none(),
          SUPPLE_SIG("jacobian", "threads: int, " SUPPLE_OUT("out"), SUPPLE_ARRAY))
      .def(
          "poses_and_jacobian",
          [](const PyChain& c, nb::handle q, int threads, nb::object poses, nb::object jacobian) {
            Outputs out = c.evaluate(q, {}, threads, {.poses = true, .jacobian = true},
                                     {.poses = std::move(poses), .jacobian = std::move(jacobian)});
            return nb::make_tuple(like(q, std::move(out.poses)), like(q, std::move(out.jacobian)));
          },
          "q"_a.none(), "threads"_a, "poses"_a.none() = nb::none(),
          "jacobian"_a.none() = nb::none(),
          SUPPLE_SIG("poses_and_jacobian",
                     "threads: int, " SUPPLE_OUT("poses") ", " SUPPLE_OUT("jacobian"),
                     "tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"))
      .def(
          "bias_acceleration",
          [](const PyChain& c, nb::handle q, nb::handle qd, int threads) {
            return like(
                q,
                c.evaluate(q, {.qd = qd}, threads, {.bias_acceleration = true}).bias_acceleration);
          },
          "q"_a.none(), "qd"_a.none(), "threads"_a,
          SUPPLE_SIG("bias_acceleration", "qd: numpy.typing.ArrayLike, threads: int", SUPPLE_ARRAY))
      .def(
          "bias_jerk",
          [](const PyChain& c, nb::handle q, nb::handle qd, nb::handle qdd, int threads) {
            return c.evaluate(q, {.qd = qd, .qdd = qdd}, threads, {.bias_jerk = true}).bias_jerk;
          },
          "q"_a.none(), "qd"_a.none(), "qdd"_a.none(), "threads"_a,
          SUPPLE_SIG("bias_jerk",
                     "qd: numpy.typing.ArrayLike, qdd: numpy.typing.ArrayLike, threads: int",
                     SUPPLE_ARRAY))
      .def(
          "singular_values",
          [](const PyChain& c, nb::handle q, int threads) {
            return like(q, c.evaluate(q, {}, threads, {.sigma = true}).sigma);
          },
          "q"_a.none(), "threads"_a, SUPPLE_SIG("singular_values", "threads: int", SUPPLE_ARRAY))
      .def(
          "manipulability",
          [](const PyChain& c, nb::handle q, int threads) {
            return like(q, c.evaluate(q, {}, threads, {.manipulability = true}).manipulability);
          },
          "q"_a.none(), "threads"_a, SUPPLE_SIG("manipulability", "threads: int", SUPPLE_ARRAY))
      .def(
          "operations",
          [](const PyChain& c) {
            const Operations count = operations(c.owned<double>().view());
            return nb::make_tuple(count.multiplications, count.additions);
          },
          nb::sig("def operations(self) -> tuple[int, int]"))
      .def(
          "constants",
          [](const PyChain& c) {
            return text::constants("RobotConstants", c.owned<double>().view(), c.outputs(),
                                   c.axes());
          },
          "Return C++ source that defines the chain as the constants RobotConstants<T>.")
      .def_prop_ro(
          "frame_axes",
          [](const PyChain& c) {
            return c.stacks() ? nb::make_tuple(c.outputs()) : nb::make_tuple();
          },
          nb::sig("def frame_axes(self) -> tuple[int, ...]"),
          "The axes of frames in results: (k,) for several frames, () for one.");

  m.def("close_down", &close_down, "patience"_a,
        "Stop the work of other threads at exit; wait at most `patience` [s] until it has ended.");
  m.def(
      "after_fork", [] { at_work = 0; },
      "Reset the number of working threads after a fork, which does not copy threads.");
  m.def(
      "set_leak_warnings", [](bool wanted) { nb::set_leak_warnings(wanted); }, "wanted"_a,
      "Set whether objects that are still alive at exit are reported.");

  bind_steps(m);
  bind_tasks(m);
  bind_servo(m);
  bind_velocities(m);
  bind_solver(m);
  bind_branches(m);
  bind_target_solver(m);
  bind_timing(m);
  bind_paths(m);
  bind_collision(m);
  bind_following(m);
  bind_terrain(m);
  bind_launches(m);
  bind_adjoints(m);
  bind_xla(m);
}

}  // namespace
}  // namespace supple
