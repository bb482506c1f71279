#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "bindings/batches.hpp"
#include "bindings/collision_check.hpp"
#include "bindings/deadline.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/search_spec.hpp"
#include "bindings/spec.hpp"
#include "drivers/enum_names.hpp"
#include "kernels/isa.hpp"

namespace supple {
namespace {

using namespace nb::literals;

#define SUPPLE_F64 "numpy.typing.NDArray[numpy.float64]"
#define SUPPLE_I32 "numpy.typing.NDArray[numpy.int32]"
#define SUPPLE_I8 "numpy.typing.NDArray[numpy.int8]"

// Converts poses (..., 4, 4) to the kernel's layout (..., 12). Non-finite poses of a batch become
// NaN. Returns None if `given` is not a C-contiguous float64 array of poses; the caller in Python
// then raises the error.
nb::object pose_numbers(nb::handle given, int threads) {
  if (!PyArray_CheckExact(given.ptr())) return nb::none();
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  const int axes = PyArray_NDIM(array);
  npy_intp shape[NPY_MAXDIMS];
  if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(array) || axes < 2 ||
      PyArray_DIM(array, axes - 1) != 4 || PyArray_DIM(array, axes - 2) != 4) {
    return nb::none();
  }
  std::copy_n(PyArray_SHAPE(array), axes - 2, shape);
  shape[axes - 2] = 12;
  nb::object made = new_array(NPY_DOUBLE, axes - 1, shape);
  const auto* const from = static_cast<const double*>(PyArray_DATA(array));
  double* const to = data_of<double>(made);
  const auto read = [=](std::ptrdiff_t begin, std::ptrdiff_t end) -> std::ptrdiff_t {
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      const double* const T = from + 16 * i;
      if (read_pose(T, to + 12 * i)) continue;
      const bool finite = std::all_of(T, T + 16, [](double x) { return std::isfinite(x); });
      if (finite || axes == 2) return i;
      std::fill_n(to + 12 * i, 12, std::numeric_limits<double>::quiet_NaN());
    }
    return -1;
  };
  return over_batch(PyArray_SIZE(array) / 16, threads, read) < 0 ? made : nb::none();
}

// Returns an array of zeros.
nb::object zeros(int type, std::initializer_list<npy_intp> shape) {
  PyObject* made = PyArray_ZEROS(int(shape.size()), const_cast<npy_intp*>(shape.begin()), type, 0);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// Solves the problems of a request on threads, without the GIL.
void run_batch(PySolver& solver, const Bounds& bounds, const SolveRequest& arrays, int threads,
               Deadline::Report report) {
  PySolver::Prepared prepared(solver, bounds, arrays);
  SolveRequest& request = prepared.request;
  Deadline deadline(bounds.deadline, request.count, std::move(report));
  request.next = &deadline.next;
  request.stop = &Deadline::stop;
  request.stop_context = &deadline;
  {
    const Unlocked unlocked;
    run_on_threads(request, threads);
  }
  deadline.finish();
}

// Returns the table of heights: directions (3, D), heights (P, D), and probes (P, 6), as
// `ReachProbe`.
nb::tuple reach_arrays(PySolver& solver) {
  const Reach& reach = solver.reach();
  const auto copied = [](const double* from, npy_intp rows, npy_intp columns) {
    nb::object made = zeros(NPY_DOUBLE, {rows, columns});
    std::copy_n(from, rows * columns, data_of<double>(made));
    return made;
  };
  static_assert(sizeof(ReachProbe) == 6 * sizeof(double));
  return nb::make_tuple(copied(reach.direction, 3, reach.directions),
                        copied(reach.height, reach.probes, reach.directions),
                        copied(reinterpret_cast<const double*>(reach.probe), reach.probes, 6));
}

// Returns a request for the problems `first` to `first + count - 1` of another request, with one
// solution each.
SolveRequest some_of(const SolveRequest& all, std::ptrdiff_t first, std::ptrdiff_t count,
                     const PySolver& solver) {
  SolveRequest some = all;
  some.count = count;
  some.target += first * solver.targets();
  if (some.q0) some.q0 += first * some.q0_stride;
  some.q += first * solver.nq();
  some.outcome += first;
  some.error += 2 * first;
  some.effort += 2 * first;
  some.found += first;
  if (some.failed) some.failed += 4 * first;
  return some;
}

// Solves a batch of B targets in the kernel's layout (B, k), with q0 (n,), (B, n) or None. Returns,
// with s = max_solutions: q (B, s, n), outcomes (B, s), errors and efforts (B, s, 2), the number of
// solutions (B,) and, with `explain` and `single`, the number of starts, the number of failed
// starts and the two errors of the best failed start (B, 4). Solutions at which two parts of a
// CollisionModel `collision` are closer than the clearance are rejected.
nb::tuple solve_batch(PySolver& solver, nb::handle targets, nb::handle q0, const SearchSpec& spec,
                      nb::handle progress, nb::object collision) {
  const int n = solver.nq(), most = spec.max_solutions;
  const CollisionCheck check(std::move(collision), n, spec.clearance);
  check_at_least("max_solutions", 1, most);
  check_at_least("merged_at_once", 1, spec.merged_at_once);
  if (spec.max_move > 0 && q0.is_none()) throw nb::value_error("max_move needs q0; given: None");
  const Batch target(targets, solver.targets(), "targets");
  if (!target.is_double()) throw nb::value_error("targets must be float64; given: float32");
  const npy_intp count = target.count();
  SolveRequest request{};
  std::unique_ptr<Batch> start;
  if (!q0.is_none()) {
    start = std::make_unique<Batch>(q0, n, "q0");
    if (!start->is_double()) throw nb::value_error("q0 must be float64; given: float32");
    if (start->leading()) check_length("q0", std::size_t(count), std::size_t(start->count()));
    request.q0 = start->data<double>();
    request.q0_stride = start->leading() ? n : 0;
  }
  nb::object q = zeros(NPY_DOUBLE, {count, most, n}), outcome = zeros(NPY_INT8, {count, most}),
             error = zeros(NPY_DOUBLE, {count, most, 2}), effort = zeros(NPY_INT, {count, most, 2}),
             found = zeros(NPY_INT, {count}),
             failed = zeros(NPY_DOUBLE, {spec.explain ? count : 0, 4});
  request.count = count;
  request.target = target.data<double>();
  request.max_solutions = most;
  request.nearest = spec.nearest;
  request.comfortable = spec.comfortable;
  request.max_move = spec.max_move;
  request.single = spec.single || spec.nearest || spec.max_move > 0 || most > 1;
  check.apply(request, spec.max_rejected);
  request.q = data_of<double>(q);
  request.outcome = data_of<Outcome>(outcome);
  request.error = data_of<double>(error);
  request.effort = data_of<int>(effort);
  request.found = data_of<int>(found);
  request.failed = spec.explain ? data_of<double>(failed) : nullptr;

  const Bounds bounds{
      .position_tolerance = spec.position_tolerance,
      .rotation_tolerance = spec.rotation_tolerance,
      .max_seeds = spec.max_seeds,
      .deadline = std::isfinite(spec.timeout) ? now() + nanoseconds(spec.timeout) : 0};
  const auto report = [&](std::ptrdiff_t done) {
    if (!progress.is_none()) progress(done, count);
  };
  const int parts = most > 1 ? 0 : solver.subproblems(request);
  if (!parts) {
    run_batch(solver, bounds, request, spec.threads, report);
  } else {
    // Targets are solved in chunks of `merged_at_once`, each with all its subproblems, so that most
    // results are complete when time is up.
    SubproblemArrays own;
    std::ptrdiff_t first = 0;
    do {
      const std::ptrdiff_t size = std::min<std::ptrdiff_t>(spec.merged_at_once, count - first);
      const auto run = [&](PySolver& part, int i, const Bounds& within, const SolveRequest& one) {
        run_batch(part, within, one, spec.threads,
                  [&](std::ptrdiff_t done) { report(first + (i * size + done) / parts); });
      };
      solver.run_subproblems(bounds, some_of(request, first, size, solver), own, run);
      first += size;
    } while (first < count);
  }
  return nb::make_tuple(q, outcome, error, effort, found, failed);
}

}  // namespace

void bind_solver(nb::module_& m) {
  m.def("pose_numbers", &pose_numbers, "poses"_a.none(), "threads"_a,
        "Return poses (..., 4, 4) in the kernel's layout (..., 12), or None for other arrays.",
        nb::sig("def pose_numbers(poses: object, threads: int) -> " SUPPLE_F64 " | None"));
  m.attr("MIDDLE_SPACING") = middle_spacing;
  bind_enum<Outcome>(m, "Outcome", "The outcomes of a search.");
  bind_enum<Cost>(m, "Cost", "Costs by which a GPU chooses among several solutions.");
  m.attr("FLOAT_RESOLUTION") = float_resolution;
  m.attr("MAX_INPUT") = max_input;
  m.attr("MAX_TASKS") = PySolver::max_tasks;
  m.attr("EVEN_SEEDS") = even_seeds;
  m.attr("LOOKED_UP_DISCOMFORT") = looked_up_discomfort;
  bind_spec(m, "SearchSpec", "Settings of a search. See supple.ik.driver.",
            required("position_tolerance", &SearchSpec::position_tolerance),
            required("rotation_tolerance", &SearchSpec::rotation_tolerance),
            required("max_seeds", &SearchSpec::max_seeds),
            required("timeout", &SearchSpec::timeout),
            required("max_solutions", &SearchSpec::max_solutions),
            required("single", &SearchSpec::single), required("nearest", &SearchSpec::nearest),
            required("comfortable", &SearchSpec::comfortable),
            required("max_move", &SearchSpec::max_move), required("explain", &SearchSpec::explain),
            required("threads", &SearchSpec::threads),
            required("merged_at_once", &SearchSpec::merged_at_once),
            required("clearance", &SearchSpec::clearance),
            required("max_rejected", &SearchSpec::max_rejected));
  nb::class_<PySolver>(m, "Solver", nb::type_slots(held_objects<PySolver>),
                       "Position inverse kinematics of some tasks. See supple.solve.")
      .def(nb::init<nb::object, const SolverSpec&>(), nb::kw_only(), "tasks"_a, "spec"_a)
      .def("operations", &PySolver::operations,
           nb::sig("def operations(self) -> tuple[int, int, int, int]"),
           "Return multiplications, additions, other operations and depth of one iteration.")
      .def("set_subproblems", &PySolver::set_subproblems, "subproblems"_a,
           nb::sig("def set_subproblems(self, subproblems: list[tuple[Solver, list[int], "
                   "list[int]]]) -> None"),
           "Set the subproblems: for each its solver, and the indices of its coordinates and "
           "target values.")
      .def("set_moving", &PySolver::set_moving, "subproblem"_a,
           nb::sig("def set_moving(self, subproblem: tuple[Solver, list[int], list[int]]) -> None"),
           "Set the problem of the joints that move a task, for solutions that may be rejected.")
      .def("set_base", &PySolver::set_base, nb::kw_only(), "pose"_a, "joints"_a, "rest"_a, "axis"_a,
           "reached"_a, "limbs"_a,
           nb::sig("def set_base(self, *, pose: Solver, joints: list[int], rest: list[float], "
                   "axis: list[float], reached: list[float], limbs: list[tuple[Solver, "
                   "list[int], list[int]]]) -> None"),
           "Set how seeds place the free base of a robot with several limbs.")
      .def_rw("given_tasks", &PySolver::given_tasks,
              "The tasks as Python objects, for the results.")
      .def("reach", &reach_arrays,
           nb::sig("def reach(self) -> tuple[" SUPPLE_F64 ", " SUPPLE_F64 ", " SUPPLE_F64 "]"),
           "Return the heights of frames: directions (3, D), heights (P, D) and probes (P, 6). See "
           "supple/ik/reachability.hpp.")
      .def_prop_ro("seeds", &PySolver::seeds, "Size of the table of seeds: 0 until it is complete.")
      .def("constants", &PySolver::constants,
           "Return C++ source that defines the problem as constants, RobotConstants<T> and "
           "Closest<T>.")
      .def("solve_batch", &solve_batch, "targets"_a, "q0"_a.none(), "spec"_a, "progress"_a.none(),
           "collision"_a.none() = nb::none(),
           nb::sig("def solve_batch(self, targets: numpy.typing.ArrayLike, q0: "
                   "numpy.typing.ArrayLike | None, spec: SearchSpec, progress: typing.Any, "
                   "collision: CollisionModel | None = None) -> tuple[" SUPPLE_F64 ", " SUPPLE_I8
                   ", " SUPPLE_F64 ", " SUPPLE_I32 ", " SUPPLE_I32 ", " SUPPLE_F64 "]"));
}

}  // namespace supple
