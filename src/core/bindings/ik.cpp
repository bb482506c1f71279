#define NO_IMPORT_ARRAY
#include "bindings/ik.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "bindings/batches.hpp"
#include "kernels/isa.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/deadline.hpp"

namespace supple {
namespace {

using namespace nb::literals;

#define SUPPLE_F64 "numpy.typing.NDArray[numpy.float64]"
#define SUPPLE_I32 "numpy.typing.NDArray[numpy.int32]"
#define SUPPLE_I8 "numpy.typing.NDArray[numpy.int8]"

// Poses (..., 4, 4) as the kernel's numbers (..., 12); poses of a batch that are not finite become
// NaN. None if this is not a C-contiguous float64 array of poses: Python raises the error.
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
  nb::object made = nb::steal(PyArray_SimpleNew(axes - 1, shape, NPY_DOUBLE));
  if (!made.is_valid()) throw nb::python_error();
  const auto* const from = static_cast<const double*>(PyArray_DATA(array));
  double* const to = data_of<double>(made);
  const auto some = [=](std::ptrdiff_t begin, std::ptrdiff_t end) -> std::ptrdiff_t {
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      const double* const T = from + 16 * i;
      if (straight(T, to + 12 * i)) continue;
      const bool sound = std::all_of(T, T + 16, [](double x) { return std::isfinite(x); });
      if (sound || axes == 2) return i;
      std::fill_n(to + 12 * i, 12, std::numeric_limits<double>::quiet_NaN());
    }
    return -1;
  };
  return over_batch(PyArray_SIZE(array) / 16, threads, some) < 0 ? made : nb::none();
}

nb::object array(int type, std::initializer_list<npy_intp> shape) {
  PyObject* made = PyArray_ZEROS(int(shape.size()), const_cast<npy_intp*>(shape.begin()), type, 0);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// Solves a batch: the kernel's numbers (B, k) and q0 (n,) or (B, n) -> q (B, most, n), outcome
// (B, most), errors and efforts (B, most, 2), the number of solutions (B,), and, if `explain` and
// `single`, the number of starts, of failed ones, and the errors of the best failed one (B, 4).
nb::tuple many(PySolver& solver, nb::handle targets, nb::handle q0, double position,
               double rotation, int max_starts, double timeout, int most, bool single, bool nearest,
               int threads, nb::handle progress, bool explain) {
  const int n = solver.coordinates();
  const Batch aim(targets, solver.targets(), "targets");
  const npy_intp count = aim.count();
  const long long deadline = std::isfinite(timeout) ? now() + nanoseconds(timeout) : 0;
  SolveRequest said{};
  said.nearest = nearest;
  PySolver::Prepared asked(solver, {position, rotation, max_starts, deadline}, said);
  SolveRequest& request = asked.request;
  request.count = count;
  request.target = aim.data<double>();
  std::unique_ptr<Batch> start;
  if (!q0.is_none()) {
    start = std::make_unique<Batch>(q0, n, "q0");
    request.q0 = start->data<double>();
    request.q0_stride = start->leading() ? n : 0;
  }
  check_at_least("most", 1, most);
  if (!aim.is_double()) throw nb::value_error("targets must be float64");
  if (start && !start->is_double()) throw nb::value_error("q0 must be float64");
  if (start && start->leading()) {
    check_length("q0", std::size_t(count), std::size_t(start->count()));
  }
  nb::object q = array(NPY_DOUBLE, {count, most, n}), outcome = array(NPY_INT8, {count, most}),
             error = array(NPY_DOUBLE, {count, most, 2}), effort = array(NPY_INT, {count, most, 2}),
             found = array(NPY_INT, {count}), failed = array(NPY_DOUBLE, {explain ? count : 0, 4});
  request.max_solutions = most;
  request.single = single || nearest || most > 1;
  request.q = data_of<double>(q);
  request.outcome = data_of<Outcome>(outcome);
  request.error = data_of<double>(error);
  request.effort = data_of<int>(effort);
  request.found = data_of<int>(found);
  request.failed = explain ? data_of<double>(failed) : nullptr;
  Deadline watch(deadline, count, progress);
  request.next = &watch.next;
  request.stop = &Deadline::stop;
  request.stop_context = &watch;
  const std::size_t bytes = isa().solve->scratch(request);
  {
    const Unlocked unlocked;
    const npy_intp useful = std::min<npy_intp>(threads, (count + 31) / 32);
    parallel(std::max<npy_intp>(1, useful), 1, threads, [&](std::ptrdiff_t, std::ptrdiff_t) {
      Scratch room(bytes);
      isa().solve->prepare(request, room.get());
      isa().solve->run(request, room.get());
    });
  }
  watch.finish();
  return nb::make_tuple(q, outcome, error, effort, found, failed);
}

}  // namespace

void bind_solve(nb::module_& m) {
  m.def("pose_numbers", &pose_numbers, "poses"_a.none(), "threads"_a,
        "Poses (..., 4, 4) as the kernel takes them (..., 12), or None.",
        nb::sig("def pose_numbers(poses: object, threads: int) -> " SUPPLE_F64 " | None"));
  nb::class_<PySolver>(m, "Solver", "Position inverse kinematics of some tasks. See supple.solve.")
      .def(nb::init<nb::object, const SolverSpec&>(), nb::kw_only(), "tasks"_a, "spec"_a)
      .def("operations", &PySolver::operations,
           nb::sig("def operations(self) -> tuple[int, int, int, int]"),
           "Multiplications, additions, others and depth of an iteration: operation_count.hpp.")
      .def("divide", &PySolver::divide, "parts"_a,
           nb::sig("def divide(self, parts: list[tuple[Solver, list[int], list[int]]]) -> None"),
           "Set the subproblems: a solver, its coordinates and its numbers of a target each.")
      .def_prop_ro("seeds", &PySolver::seeds, "Size of the table of seeds: 0 until it is complete.")
      .def("constants", &PySolver::constants,
           "Return the C++ source of RobotConstants<T> and Closest<T>, for a compiler to fold.")
      .def("many", &many, "targets"_a, "q0"_a.none(), "position_tolerance"_a,
           "rotation_tolerance"_a, "max_starts"_a, "timeout"_a, "most"_a, "single"_a, "nearest"_a,
           "threads"_a, "progress"_a.none(), "explain"_a,
           nb::sig("def many(self, targets: numpy.typing.ArrayLike, q0: numpy.typing.ArrayLike | "
                   "None, position_tolerance: float, rotation_tolerance: float, max_starts: int, "
                   "timeout: float, most: int, single: bool, nearest: bool, threads: int, "
                   "progress: typing.Any, explain: bool) -> tuple[" SUPPLE_F64 ", " SUPPLE_I8
                   ", " SUPPLE_F64 ", " SUPPLE_I32 ", " SUPPLE_I32 ", " SUPPLE_F64 "]"));
}

}  // namespace supple
