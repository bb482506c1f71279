// The fast path of `solve`: a callable object that replaces the Python function. It solves a single
// target with common arguments itself. If the only option is solutions="all", it calls a prepared
// function. Every other call is passed on to the Python function.
#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/ik_solver.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// ---- arguments ----------------------------------------------------------------------------------

// The keyword arguments that the fast path reads. All others must have their default values.
enum Keyword {
  frame,
  tasks,
  q0,
  prefer,
  max_move,
  position_tolerance,
  rotation_tolerance,
  damping,
  timeout,
  max_seeds,
  threads,
  device,
  keywords
};
constexpr const char* keyword_text[keywords] = {"frame",
                                                "tasks",
                                                "q0",
                                                "prefer",
                                                "max_move",
                                                "position_tolerance",
                                                "rotation_tolerance",
                                                "damping",
                                                "timeout",
                                                "max_seeds",
                                                "threads",
                                                "device"};
// Interned strings, like the names in a call, so that comparing pointers suffices.
PyObject *keyword_name[keywords], *solutions_name;

// Values of the keyword arguments; objects are borrowed references.
struct SolveArguments {
  PyObject *frame, *tasks, *q0, *damping;
  bool fast, nearest, comfortable;  // whether `prefer` has this value
  double max_move;                  // 0 if there is no bound
  double timeout;                   // infinite if there is no limit
  Bounds bounds;
};

bool is_number(PyObject* given, double& number) {
  if (PyFloat_Check(given)) {
    number = PyFloat_AS_DOUBLE(given);
    return true;
  }
  if (!PyLong_CheckExact(given)) return false;
  int overflow = 0;
  number = double(PyLong_AsLongAndOverflow(given, &overflow));
  return !overflow;
}

bool is_tolerance(PyObject* given, double& number) {
  return is_number(given, number) && number > 0 && std::isfinite(number);
}

// Reads a positive count that fits an int, or None, which gives 0 (the default). Returns false for
// anything else.
bool is_count(PyObject* given, int& count) {
  double number = 0;
  if (given == Py_None) return (count = 0, true);
  if (!PyLong_CheckExact(given) || !is_number(given, number)) return false;
  if (!(number > 0 && number <= std::numeric_limits<int>::max())) return false;
  count = int(number);
  return true;
}

bool equals(PyObject* given, const char* word) {
  return PyUnicode_CheckExact(given) && PyUnicode_CompareWithASCIIString(given, word) == 0;
}

// Reads one argument. Returns false if it is invalid, or in a form that the fast path does not
// support.
bool read(Keyword keyword, PyObject* given, SolveArguments& arguments) {
  int thread_count;  // only checked, because a single target uses one thread
  switch (keyword) {
    case frame:
      arguments.frame = given;
      return given == Py_None || PyUnicode_CheckExact(given);
    case tasks:
      arguments.tasks = given;
      return true;
    case q0:
      arguments.q0 = given;
      return true;
    case prefer:
      arguments.fast = equals(given, "fast");
      arguments.nearest = equals(given, "nearest");
      arguments.comfortable = equals(given, "comfortable");
      return arguments.fast || arguments.nearest || arguments.comfortable || given == Py_None;
    case max_move:
      arguments.max_move = 0;
      return given == Py_None || is_tolerance(given, arguments.max_move);
    case position_tolerance:
      return is_tolerance(given, arguments.bounds.position);
    case rotation_tolerance:
      return is_tolerance(given, arguments.bounds.rotation);
    case damping:
      arguments.damping = given;
      return true;
    case timeout:
      arguments.timeout = std::numeric_limits<double>::infinity();
      return given == Py_None || (is_number(given, arguments.timeout) && arguments.timeout >= 0);
    case max_seeds:
      return is_count(given, arguments.bounds.max_starts);
    case threads:
      return is_count(given, thread_count);
    case device:
      return given == Py_None || equals(given, "cpu");
    default:
      return false;
  }
}

// Whether the arguments are consistent with each other.
bool agree(const SolveArguments& arguments) {
  return (arguments.frame == Py_None || arguments.tasks == Py_None) &&
         !((arguments.nearest || arguments.max_move > 0) && arguments.q0 == Py_None);
}

// ---- one solution -------------------------------------------------------------------------------

constexpr int solution_fields = 11;
constexpr double largest_angle = 4 * 3.141592653589793;  // as in supple.kinematics.plausible [rad]

// The Python class of a solution, whose instances have only slots. Writing to the slots directly
// takes a tenth of the time of calling the class.
struct SolutionClass {
  PyTypeObject* type;
  Py_ssize_t offset[solution_fields];  // offsets of the slots, in the order of `__slots__`

  explicit SolutionClass(nb::handle given) : type(reinterpret_cast<PyTypeObject*>(given.ptr())) {
    const nb::tuple slots = nb::cast<nb::tuple>(given.attr("__slots__"));
    if (slots.size() != solution_fields)
      throw nb::type_error("the solution class must have 11 slots");
    for (int i = 0; i < solution_fields; ++i) {
      const nb::object slot = given.attr(slots[i]);
      if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type)
        throw nb::type_error("the slots of the solution class must be plain members");
      offset[i] = reinterpret_cast<PyMemberDescrObject*>(slot.ptr())->d_member->offset;
    }
  }

  // Returns a new solution with these fields. Takes ownership of the references to them.
  nb::object make(const std::array<PyObject*, solution_fields>& field) const {
    nb::object made = nb::steal(type->tp_alloc(type, 0));
    bool complete = made.is_valid();
    for (int i = 0; i < solution_fields; ++i) {
      complete = complete && field[i];
      if (made.is_valid()) {
        *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(made.ptr()) + offset[i]) = field[i];
      } else {
        Py_XDECREF(field[i]);
      }
    }
    if (!complete) throw nb::python_error();
    return made;
  }
};

// Solves one problem. Returns a solution with the fields q (n,), statuses[outcome], position error
// [m], rotation error [rad], iterations, restarts, None, the robot, the bytes of the initial guess
// q0 (n,), the tasks, and, for several tasks, the bytes of the target and the tolerances. Returns
// an invalid object if the target or the initial guess is not an array of float64, not finite, or
// if the initial guess may be in degrees.
nb::object solve_single(PySolver& solver, PyObject* robot, PyObject* target,
                        const SolveArguments& arguments, const SolutionClass& solution,
                        const nb::tuple& statuses) {
  const npy_intp n = solver.coordinates();
  const bool guessed = arguments.q0 != Py_None;
  double numbers[12 * PySolver::max_tasks + 2];
  SolveRequest request{};
  if (guessed && !(request.q0 = contiguous_data(arguments.q0, n))) return {};
  for (npy_intp j = 0; guessed && j < n; ++j) {
    if (std::abs(request.q0[j]) > largest_angle) return {};
  }
  if (!solver.read_target(target, numbers)) return {};
  nb::object q = new_array(NPY_DOUBLE, 1, &n);
  Outcome outcome;
  double error[2];
  int effort[2], found;
  std::atomic<std::ptrdiff_t> next{0};
  request.count = 1;
  request.target = numbers;
  request.single = true;
  request.max_solutions = 1;
  request.nearest = guessed && !arguments.fast && !arguments.comfortable;
  request.comfortable = arguments.comfortable || !(guessed || arguments.fast);
  request.max_move = arguments.max_move;
  request.q = data_of<double>(q);
  request.outcome = &outcome;
  request.error = error;
  request.effort = effort;
  request.found = &found;
  request.next = &next;
  solver.run(arguments.bounds, request);
  if (outcome == Outcome::nonfinite) return {};
  // A copy, because the caller may change q0 later. A bytes object is made faster than an array.
  const char* const guess = reinterpret_cast<const char*>(request.q0);
  PyObject* const start = guessed ? PyBytes_FromStringAndSize(guess, n * Py_ssize_t(sizeof(double)))
                                  : Py_NewRef(Py_None);
  const bool several = solver.several_tasks();
  const int asked_size = solver.targets() + 2;
  numbers[asked_size - 2] = arguments.bounds.position;
  numbers[asked_size - 1] = arguments.bounds.rotation;
  PyObject* const asked = several
                              ? PyBytes_FromStringAndSize(reinterpret_cast<const char*>(numbers),
                                                          asked_size * Py_ssize_t(sizeof(double)))
                              : Py_NewRef(Py_None);
  PyObject* const tasks = Py_NewRef(solver.given_tasks.ptr());
  return solution.make({q.release().ptr(), Py_NewRef(statuses[int(outcome)].ptr()),
                        PyFloat_FromDouble(error[0]), PyFloat_FromDouble(error[1]),
                        PyLong_FromLong(effort[0]), PyLong_FromLong(std::max(effort[1] - 1, 0)),
                        Py_NewRef(Py_None), Py_NewRef(robot), start, tasks, asked});
}

// ---- the object ---------------------------------------------------------------------------------

struct FastCall {
  PyObject ob_base;
  vectorcallfunc call;
  nb::object function, solver_of, all_solver_of, task;
  nb::dict all_defaults;              // defaults of the function's keyword arguments
  nb::tuple statuses, near_statuses;  // the status of each outcome: without and with max_move
  SolutionClass solution;
  SolveArguments defaults;
};

FastCall& as_fast_call(PyObject* object) { return *reinterpret_cast<FastCall*>(object); }

// The solvers of the last calls. The array is never destroyed, because its destructor would run
// after the end of the interpreter.
struct CachedSolver {
  nb::object robot, tasks, damping, solver;
};
auto& cached_solvers = *new std::array<CachedSolver, 4>;

// Returns the solver for the tasks of a robot. On an error the returned object is invalid, and the
// error is cleared so that the Python function reports it; KeyboardInterrupt and SystemExit
// propagate.
nb::object find_solver(const FastCall& self, PyObject* robot, PyObject* tasks, PyObject* damping) {
  for (const CachedSolver& one : cached_solvers) {
    if (one.robot.ptr() == robot && one.tasks.ptr() == tasks && one.damping.ptr() == damping) {
      return one.solver;
    }
  }
  PyObject* const given[] = {robot, tasks, damping};
  nb::object solver = nb::steal(PyObject_Vectorcall(self.solver_of.ptr(), given, 3, nullptr));
  if (!solver.is_valid() || !nb::isinstance<PySolver>(solver)) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return {};
  }
  // Only immutable tasks are cached, because they are compared by identity: a list may contain
  // other tasks in the next call.
  const int is_task = PyObject_IsInstance(tasks, self.task.ptr());
  if (is_task < 0) return {};
  const bool fixed =
      tasks == Py_None || is_task || PyTuple_CheckExact(tasks) || PyUnicode_CheckExact(tasks);
  if (!fixed || closing) return solver;  // at exit, nothing would release the cache
  static std::size_t last = 0;
  last = (last + 1) % cached_solvers.size();
  // The previous entry is destroyed only at the end, because its destructors may run Python code
  // that calls `solve`.
  const CachedSolver before = std::exchange(
      cached_solvers[last], {nb::borrow(robot), nb::borrow(tasks), nb::borrow(damping), solver});
  return solver;
}

// Reads the keyword arguments of a call. Returns false if the fast path does not support one of
// them.
bool read_all(const FastCall& self, PyObject* const* args, PyObject* names,
              SolveArguments& arguments) {
  const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    const auto known = std::find(keyword_name, keyword_name + keywords, name) - keyword_name;
    if (known < keywords) {
      if (!read(Keyword(known), args[i], arguments)) return false;
    } else if (PyDict_GetItemWithError(self.all_defaults.ptr(), name) != args[i]) {
      return false;
    }
  }
  return agree(arguments);
}

// Returns a solution, or an invalid object if the fast path does not apply; a Python error may then
// be set.
nb::object solve_directly(const FastCall& self, PyObject* const* args, PyObject* names) {
  SolveArguments arguments = self.defaults;
  if (!read_all(self, args + 2, names, arguments)) return {};
  const double limit = arguments.timeout;
  arguments.bounds.deadline = std::isfinite(limit) ? now() + nanoseconds(limit) : 0;
  PyObject* const tasks = arguments.frame != Py_None ? arguments.frame : arguments.tasks;
  const nb::object solver = find_solver(self, args[0], tasks, arguments.damping);
  if (!solver.is_valid()) return {};
  const nb::tuple& statuses = arguments.max_move > 0 ? self.near_statuses : self.statuses;
  return solve_single(*nb::inst_ptr<PySolver>(solver), args[0], args[1], arguments, self.solution,
                      statuses);
}

// Returns all solutions of one target if the only keyword argument is solutions="all". If the fast
// path does not apply, returns an invalid object, possibly with a Python error set.
nb::object solve_all(const FastCall& self, PyObject* const* args, PyObject* names) {
  const bool all = names && PyTuple_GET_SIZE(names) == 1 &&
                   PyTuple_GET_ITEM(names, 0) == solutions_name && equals(args[2], "all");
  if (!all) return {};
  const nb::object solver =
      nb::steal(PyObject_Vectorcall(self.all_solver_of.ptr(), args, 1, nullptr));
  if (!solver.is_valid() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
  if (!solver.is_valid() || solver.is_none()) return {};
  nb::object made = nb::steal(PyObject_Vectorcall(solver.ptr(), args + 1, 1, nullptr));
  return made.is_none() ? nb::object() : made;
}

PyObject* called(PyObject* object, PyObject* const* args, std::size_t flags, PyObject* names) {
  const FastCall& self = as_fast_call(object);
  if (PyVectorcall_NARGS(flags) == 2) {
    try {
      nb::object made = solve_all(self, args, names);
      if (!made.is_valid() && !PyErr_Occurred()) made = solve_directly(self, args, names);
      if (made.is_valid() || PyErr_Occurred()) return made.release().ptr();
    } catch (nb::python_error& error) {
      error.restore();
      return nullptr;
    } catch (const std::bad_alloc&) {
      return PyErr_NoMemory();
    }
  }
  return PyObject_Vectorcall(self.function.ptr(), args, flags, names);
}

// The function's globals refer back to this object. The garbage collector must know of this cycle,
// or the module and its caches outlive the interpreter.
int traverse(PyObject* object, visitproc visit, void* arg) {
  const FastCall& self = as_fast_call(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self.function.ptr());
  Py_VISIT(self.solver_of.ptr());
  Py_VISIT(self.all_solver_of.ptr());
  Py_VISIT(self.task.ptr());
  Py_VISIT(self.all_defaults.ptr());
  Py_VISIT(self.statuses.ptr());
  Py_VISIT(self.near_statuses.ptr());
  return 0;
}

int clear(PyObject* object) {
  FastCall& self = as_fast_call(object);
  self.function.reset();
  self.solver_of.reset();
  self.all_solver_of.reset();
  self.task.reset();
  self.all_defaults.reset();
  self.statuses.reset();
  self.near_statuses.reset();
  return 0;
}

void deallocate(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  as_fast_call(object).~FastCall();
  type->tp_free(object);
  Py_DECREF(type);
}

// All attributes, even the class, are those of the Python function, so that help, signatures and
// annotations work.
PyObject* attribute(PyObject* object, PyObject* name) {
  return PyObject_GetAttr(as_fast_call(object).function.ptr(), name);
}
PyObject* doc(PyObject* object, void*) {  // help() does not use `attribute`
  return PyObject_GetAttrString(as_fast_call(object).function.ptr(), "__doc__");
}
PyObject* repr(PyObject* object) { return PyObject_Repr(as_fast_call(object).function.ptr()); }
PyObject* bound(PyObject* object, PyObject* to, PyObject*) {
  return to && to != Py_None ? PyMethod_New(object, to) : Py_NewRef(object);
}

nb::object fast_call_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(FastCall, call), READONLY, nullptr}, {}};
  static PyGetSetDef gets[] = {{"__doc__", doc, nullptr, nullptr, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
                                {Py_tp_repr, reinterpret_cast<void*>(repr)},
                                {Py_tp_members, members},
                                {Py_tp_getset, gets},
                                {0, nullptr}};
  static PyType_Spec spec = {"supple._core.FastCall", sizeof(FastCall), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
                             slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  if (!type) throw nb::python_error();
  return nb::borrow(type);
}

nb::object with_fast_path(nb::object function, nb::object solver_of, nb::object all_solver_of,
                          nb::type_object solution, nb::tuple statuses, nb::tuple near_statuses,
                          nb::type_object task) {
  const nb::object type = fast_call_type();
  const SolutionClass solution_class(solution);
  const nb::dict all = nb::cast<nb::dict>(function.attr("__kwdefaults__"));
  SolveArguments defaults{};
  for (int i = 0; i < keywords; ++i) {
    PyObject* const given = PyDict_GetItemWithError(all.ptr(), keyword_name[i]);
    if (given && read(Keyword(i), given, defaults)) continue;
    throw nb::type_error(
        (std::string("the fast path does not support the default of ") + keyword_text[i]).c_str());
  }
  auto* const kind = reinterpret_cast<PyTypeObject*>(type.ptr());
  PyObject* const made = kind->tp_alloc(kind, 0);
  if (!made) throw nb::python_error();
  const PyObject head = *made;
  new (made) FastCall{head, &called,  function,      solver_of,      all_solver_of, task,
                      all,  statuses, near_statuses, solution_class, defaults};
  return nb::steal(made);
}

}  // namespace

void bind_fast_path(nb::module_& m) {
  for (int i = 0; i < keywords; ++i) keyword_name[i] = PyUnicode_InternFromString(keyword_text[i]);
  solutions_name = PyUnicode_InternFromString("solutions");
  m.def("with_fast_path", &with_fast_path, "function"_a, "solver_of"_a, "all_solver_of"_a,
        "solution"_a, "statuses"_a, "near_statuses"_a, "task"_a,
        "Return the function `solve` with a fast path for one target and common arguments.",
        nb::sig("def with_fast_path(function: typing.Any, solver_of: typing.Any, all_solver_of: "
                "typing.Any, solution: type[typing.Any], statuses: tuple[object, ...], "
                "near_statuses: tuple[object, ...], task: type[typing.Any]) -> typing.Any"));
  m.def(
      "release_solvers", [] { cached_solvers.fill({}); },
      "Release the cached solvers of the last calls.");
  // The object is pickled by name, like a function.
  nb::module_::import_("copyreg").attr("pickle")(
      fast_call_type(), nb::module_::import_("operator").attr("attrgetter")("__qualname__"));
}

}  // namespace supple
