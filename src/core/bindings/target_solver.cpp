// The base class of supple.Solver: a prepared search whose call solves one target.
#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <structmember.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/collision_check.hpp"
#include "bindings/configurations.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/search_spec.hpp"

namespace supple {
namespace {

using namespace nb::literals;

constexpr int solution_fields = 12;
// A joint angle in q0 [rad] above this is probably in degrees by mistake: Python then checks q0
// (motion/plausible.py).
constexpr double largest_angle = 4 * 3.141592653589793;

// The Python class of a solution, whose instances have only slots. Writing the slots of a new
// instance takes a tenth of the time of setting them by their descriptors, as object.__setattr__
// does, which in turn takes a tenth of the time of calling the class.
class SolutionClass {
 public:
  explicit SolutionClass(nb::handle given) : class_(nb::borrow(given)) {
    const nb::tuple slots = nb::cast<nb::tuple>(given.attr("__slots__"));
    if (slots.size() != solution_fields)
      throw nb::type_error("the solution class must have 12 slots");
    for (int i = 0; i < solution_fields; ++i) {
      const nb::object slot = given.attr(slots[i]);
      if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type)
        throw nb::type_error("the slots of the solution class must be plain members");
      offset_[i] = reinterpret_cast<PyMemberDescrObject*>(slot.ptr())->d_member->offset;
    }
  }

  // Returns a new solution with these fields, in the order of `__slots__`. An invalid field is one
  // that Python could not make.
  nb::object make(std::array<nb::object, solution_fields> field) const {
    auto* const type = reinterpret_cast<PyTypeObject*>(class_.ptr());
    nb::object made = nb::steal(PyType_GenericAlloc(type, 0));
    bool complete = made.is_valid();
    for (int i = 0; i < solution_fields; ++i) complete = complete && field[i].is_valid();
    if (!complete) throw nb::python_error();
    char* const begin = reinterpret_cast<char*>(made.ptr());
    for (int i = 0; i < solution_fields; ++i) {
      *reinterpret_cast<PyObject**>(begin + offset_[i]) = field[i].release().ptr();
    }
    return made;
  }

  nb::handle type() const { return class_; }

 private:
  nb::object class_;
  std::array<Py_ssize_t, solution_fields> offset_;
};

nb::object bytes_of(const double* numbers, int count) {
  const char* const begin = reinterpret_cast<const char*>(numbers);
  return nb::steal(PyBytes_FromStringAndSize(begin, count * Py_ssize_t(sizeof(double))));
}

class PyTargetSolver {
 public:
  // `kernel` is a PySolver, or None if Python solves all targets. The settings of the search
  // without and with q0 are None if Python must solve these targets, or reject them. `balls` are
  // the indices of the first velocity of each ball joint, and `prismatic` (nv,) tells which
  // coordinates are prismatic. `single` tells whether one task was given instead of a sequence of
  // tasks. `statuses` has the status of each outcome.
  PyTargetSolver(nb::object kernel, nb::object robot, const Ints& balls,
                 const std::vector<bool>& prismatic, bool single,
                 const std::optional<SearchSpec>& without_q0,
                 const std::optional<SearchSpec>& with_q0, nb::type_object solution,
                 const nb::tuple& statuses, nb::object collision, nb::object check)
      : kernel_(std::move(kernel)),
        robot_(std::move(robot)),
        layout_(int(prismatic.size()), balls),
        prismatic_(prismatic),
        single_(single),
        spec_{without_q0, with_q0},
        solution_(solution),
        check_(std::move(check)) {
    for (nb::handle status : statuses) status_.push_back(nb::borrow(status));
    if (kernel_.is_none()) return;
    if (!nb::isinstance<PySolver>(kernel_))
      throw nb::type_error("kernel must be a Solver, or None");
    solver_ = nb::inst_ptr<PySolver>(kernel_);
    check_length("prismatic", std::size_t(solver_->nq()), prismatic.size());
    const double clearance = without_q0 ? without_q0->clearance : with_q0 ? with_q0->clearance : 0;
    collision_.emplace(std::move(collision), solver_->nq(), clearance);
  }

  // Returns a solution with the fields q (nq,), statuses[outcome], position error [m], rotation
  // error [rad], iterations, restarts, None, the robot, the bytes of q0 (nq,), the tasks, and, for
  // several tasks, the bytes of the target and the tolerances; last, `check`. Returns an invalid
  // object if Python must convert or reject the target or q0, because one of them is no array or
  // list of numbers or is not finite, or because q0 may be in degrees. Sets `blocked` if all
  // solutions found collide.
  //
  // The call neither checks for signals nor releases the GIL, which would take longer than some
  // searches.
  nb::object solve(nb::handle target, nb::handle q0, bool& blocked) const {
    const bool seeded = !q0.is_none();
    const std::optional<SearchSpec>& spec = spec_[seeded];
    if (!solver_ || !spec) return {};
    const npy_intp nq = layout_.nq(), nv = layout_.nv();
    double numbers[12 * PySolver::max_tasks + 2];
    SolveRequest request{};
    Doubles seed_copy;
    if (seeded && !(request.q0 = contiguous_data(q0, nq))) {
      seed_copy.resize(std::size_t(nq));
      if (!put_numbers(q0, 1, int(nq), seed_copy.data())) return {};
      request.q0 = seed_copy.data();
    }
    Doubles x(layout_.has_balls() ? 2 * nv + nq : 0);  // q0 and the solution in the kernel; unit q0
    double* const unit = x.data() + 2 * nv;
    if (seeded && layout_.has_balls()) {
      if (!layout_.to_kernel(request.q0, x.data())) return {};
      request.q0 = x.data();
      layout_.from_kernel(request.q0, unit);
    }
    for (npy_intp j = 0; seeded && j < nv; ++j) {
      if (!prismatic_[j] && std::abs(request.q0[j]) > largest_angle) return {};
    }
    if (!solver_->read_target(target, single_, numbers)) return {};
    nb::object q = new_array(NPY_DOUBLE, 1, &nq);
    Outcome outcome;
    double error[2];
    int effort[2], found;
    std::atomic<std::ptrdiff_t> next{0};
    request.count = 1;
    request.target = numbers;
    request.single = true;
    request.max_solutions = 1;
    request.nearest = spec->nearest;
    request.comfortable = spec->comfortable;
    request.max_move = spec->max_move;
    request.q = layout_.has_balls() ? x.data() + nv : data_of<double>(q);
    request.outcome = &outcome;
    request.error = error;
    request.effort = effort;
    request.found = &found;
    request.next = &next;
    collision_->apply(request, spec->max_rejected);
    const Bounds bounds{
        .position_tolerance = spec->position_tolerance,
        .rotation_tolerance = spec->rotation_tolerance,
        .max_seeds = spec->max_seeds,
        .deadline = std::isfinite(spec->timeout) ? now() + nanoseconds(spec->timeout) : 0};
    solver_->run(bounds, request);
    if (outcome == Outcome::nonfinite) return {};
    if (layout_.has_balls()) layout_.from_kernel(request.q, data_of<double>(q));
    blocked = outcome == Outcome::blocked;
    nb::object task_targets = nb::none(), seed = nb::none();
    if (solver_->several_tasks()) {
      const int size = solver_->targets();
      numbers[size] = bounds.position_tolerance;
      numbers[size + 1] = bounds.rotation_tolerance;
      task_targets = bytes_of(numbers, size + 2);
    }
    // Bytes are a copy of q0, which the caller may change later, and are made faster than an array.
    if (seeded) seed = bytes_of(layout_.has_balls() ? unit : request.q0, int(nq));
    nb::object position = nb::steal(PyFloat_FromDouble(error[0])),
               rotation = nb::steal(PyFloat_FromDouble(error[1])),
               iterations = nb::steal(PyLong_FromLong(effort[0])),
               restarts = nb::steal(PyLong_FromLong(std::max(effort[1] - 1, 0)));
    return solution_.make({std::move(q), status_.at(std::size_t(outcome)), std::move(position),
                           std::move(rotation), std::move(iterations), std::move(restarts),
                           nb::none(), robot_, std::move(seed), solver_->given_tasks,
                           std::move(task_targets), check_});
  }

  // (The statuses refer to no object of a user.)
  template <class Visit>
  int visit(Visit&& visit) const {
    const nb::handle model = collision_ ? collision_->object() : nb::handle();
    return visit_each(visit, {kernel_, robot_, solution_.type(), check_, model});
  }

 private:
  nb::object kernel_, robot_;
  Layout layout_;
  std::vector<bool> prismatic_;        // (nv,)
  bool single_;                        // whether a target is that of one task, not of a sequence
  std::optional<SearchSpec> spec_[2];  // without and with q0
  SolutionClass solution_;
  std::vector<nb::object> status_;           // the status of each outcome
  nb::object check_;                         // the check of solutions, as a Python object
  std::optional<CollisionCheck> collision_;  // the same for the kernel
  PySolver* solver_ = nullptr;               // the solver in `kernel_`
};

// Solves one target. Python's method `_solve_one` takes all arguments that are not read here
// (`args`, `named`), and the targets that the kernel cannot read; `_settled` takes the solutions
// that collide. q0 is null if the arguments have another form.
template <class InPython>
PyObject* solve_one(PyObject* self, PyObject* target, PyObject* q0, InPython&& in_python) {
  try {
    if (q0 && nb::inst_ready(self)) {
      bool blocked = false;
      nb::object made = nb::inst_ptr<PyTargetSolver>(self)->solve(target, q0, blocked);
      if (blocked)
        made = nb::handle(self).attr("_settled")(made, nb::handle(target), nb::handle(q0));
      if (made.is_valid()) return made.release().ptr();
    }
    return in_python(nb::object(nb::handle(self).attr("_solve_one")).ptr());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// solver(target), solver(target, q0) or solver(target, q0=q0).
//
// A method `__call__` would be looked up in each call and its arguments converted twice, which
// takes a tenth of the time of a short search.
PyObject* call(PyObject* self, PyObject* args, PyObject* named) {
  static PyObject* const q0_name = PyUnicode_InternFromString("q0");
  const Py_ssize_t count = PyTuple_Size(args), more = named ? PyDict_Size(named) : 0;
  PyObject* q0 = nullptr;
  if (count == 1 && more == 0) q0 = Py_None;
  if (count == 1 && more == 1) q0 = PyDict_GetItemWithError(named, q0_name);
  if (count == 2 && more == 0) q0 = PyTuple_GetItem(args, 1);
  return solve_one(self, q0 ? PyTuple_GetItem(args, 0) : nullptr, q0,
                   [&](PyObject* in_python) { return PyObject_Call(in_python, args, named); });
}

// The call with target and q0, for `supple.solve`: without a tuple of the arguments.
PyObject* call_known(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "_known takes a target and q0");
  return solve_one(self, args[0], args[1], [&](PyObject* in_python) {
    return PyObject_CallFunctionObjArgs(in_python, args[0], args[1], nullptr);
  });
}

PyMethodDef methods[] = {
    {"_known", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_known)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call)},
                       {Py_tp_methods, methods},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse<PyTargetSolver>)},
                       {0, nullptr}};

}  // namespace

void bind_target_solver(nb::module_& m) {
  m.attr("LARGEST_ANGLE") = largest_angle;
  nb::class_<PyTargetSolver>(m, "TargetSolver", nb::type_slots(slots),
                             "A search for one target. Not for direct use: see supple.Solver.")
      .def(nb::init<nb::object, nb::object, const Ints&, const std::vector<bool>&, bool,
                    const std::optional<SearchSpec>&, const std::optional<SearchSpec>&,
                    nb::type_object, nb::tuple, nb::object, nb::object>(),
           nb::kw_only(), "kernel"_a.none(), "robot"_a, "balls"_a, "prismatic"_a, "single"_a,
           "without_q0"_a.none(), "with_q0"_a.none(), "solution"_a, "statuses"_a,
           "collision"_a.none(), "check"_a.none(),
           nb::sig("def __init__(self, *, kernel: Solver | None, robot: object, balls: list[int], "
                   "prismatic: list[bool], single: bool, without_q0: SearchSpec | None, with_q0: "
                   "SearchSpec | "
                   "None, solution: type[typing.Any], statuses: tuple[object, ...], collision: "
                   "CollisionModel | None, check: object) -> None"));
}

}  // namespace supple
