// The fast path of `solve`: an object that is called in place of the Python function. It solves one
// target with common arguments itself, and passes every other call on to the function.
#define NO_IMPORT_ARRAY
#include "bindings/fast_call.hpp"

#include <nanobind/stl/string.h>
#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/deadline.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// The arguments of a call, apart from the robot and the target.
struct SolveArguments {
  PyObject *tasks = Py_None, *damping = Py_None, *q0 = Py_None;
  double position = 0, rotation = 0, timeout = std::numeric_limits<double>::infinity();
  long max_starts = 0;  // 0: the default
  bool fast = false, nearest = false;

  // `frame` and `tasks` exclude each other.
  bool select(PyObject* given) {
    if (tasks != Py_None) return false;
    tasks = given;
    return true;
  }
};

constexpr int solution_fields = 7;

// The class of a solution: a Python class whose instances hold only its slots. Filling them in
// place takes a tenth of the time of a call of the class.
struct SolutionClass {
  PyTypeObject* type;
  Py_ssize_t offset[solution_fields];  // of the slots, in the order of `__slots__`
};

// Solves one problem. Returns a solution with q (n,), statuses[outcome], position error, rotation
// error, iterations, restarts and None; null without an error if an argument is not in the form
// that is taken here: arrays of float64, tolerances above zero.
PyObject* solve_single(PySolver& solver, PyObject* target, const SolveArguments& arguments,
                       long long began, const SolutionClass& solution, PyObject* statuses) {
  const int n = solver.coordinates();
  const double* const start = arguments.q0 == Py_None ? nullptr : plain(arguments.q0, n);
  double numbers[12 * PySolver::most_tasks];
  if (!solver.take(target, numbers) || (!start && arguments.q0 != Py_None) ||
      !(arguments.position > 0 && std::isfinite(arguments.position)) ||
      !(arguments.rotation > 0 && std::isfinite(arguments.rotation)) || arguments.max_starts < 0 ||
      arguments.max_starts > std::numeric_limits<int>::max() || !(arguments.timeout >= 0)) {
    return nullptr;
  }
  SolveRequest request{};
  npy_intp size = n;
  nb::object q = nb::steal(PyArray_SimpleNew(1, &size, NPY_DOUBLE));
  if (!q.is_valid()) return nullptr;
  Outcome outcome;
  double error[2];
  int effort[2], found;
  std::atomic<std::ptrdiff_t> next{0};
  request.count = 1;
  request.target = numbers;
  request.q0 = start;
  request.single = true;
  request.nearest = start && !arguments.fast;
  request.q = data_of<double>(q);
  request.outcome = &outcome;
  request.error = error;
  request.effort = effort;
  request.found = &found;
  request.next = &next;
  const long long deadline =
      std::isfinite(arguments.timeout) ? began + nanoseconds(arguments.timeout) : 0;
  solver.run({arguments.position, arguments.rotation, int(arguments.max_starts), deadline},
             request);
  if (outcome == Outcome::nonfinite) return nullptr;
  nb::object made = nb::steal(solution.type->tp_alloc(solution.type, 0));
  if (!made.is_valid()) return nullptr;
  PyObject* const parts[solution_fields] = {q.release().ptr(),
                                            Py_NewRef(PyTuple_GET_ITEM(statuses, int(outcome))),
                                            PyFloat_FromDouble(error[0]),
                                            PyFloat_FromDouble(error[1]),
                                            PyLong_FromLong(effort[0]),
                                            PyLong_FromLong(effort[1] - 1),
                                            Py_NewRef(Py_None)};
  bool whole = true;
  for (int i = 0; i < solution_fields; ++i) {
    char* const object = reinterpret_cast<char*>(made.ptr());
    *reinterpret_cast<PyObject**>(object + solution.offset[i]) = parts[i];
    whole &= parts[i] != nullptr;
  }
  return whole ? made.release().ptr() : nullptr;
}

// ---- the object ---------------------------------------------------------------------------------

struct CachedSolver {
  PyObject *robot, *tasks, *damping, *solver;
};

// References are counted by hand: this is a plain Python object, not one of nanobind's.
struct FastCall {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject *whole, *kernel_of, *kind, *statuses, *task;
  SolutionClass solution;   // `kind`
  SolveArguments defaults;  // those of the function's signature
  CachedSolver known[4];    // the solvers of the last calls
  int last;
};

bool is_number(PyObject* given, double& number) {
  if (PyFloat_Check(given)) {
    number = PyFloat_AS_DOUBLE(given);
    return true;
  }
  if (!PyLong_CheckExact(given)) return false;
  int beyond = 0;
  const long whole = PyLong_AsLongAndOverflow(given, &beyond);
  number = double(whole);
  return !beyond;
}

bool is_count(PyObject* given, long& count) {
  int beyond = 0;
  if (!PyLong_CheckExact(given)) return false;
  count = PyLong_AsLongAndOverflow(given, &beyond);
  return !beyond && count > 0;
}

bool equals(PyObject* given, const char* word) {
  return PyUnicode_CheckExact(given) && PyUnicode_CompareWithASCIIString(given, word) == 0;
}

bool is_none(PyObject* given, SolveArguments&) { return given == Py_None; }

// The arguments by their names, the most common first; `take` returns whether the fast path accepts
// the value. (Names in a call are interned, so that comparing pointers is enough.)
struct Argument {
  const char* text;
  bool (*take)(PyObject* given, SolveArguments& arguments);
  PyObject* name = nullptr;
};
Argument known_arguments[] = {
    {"q0",
     [](PyObject* given, SolveArguments& arguments) { return (arguments.q0 = given) != nullptr; }},
    {"position_tolerance",
     [](PyObject* given, SolveArguments& arguments) {
       return is_number(given, arguments.position);
     }},
    {"rotation_tolerance",
     [](PyObject* given, SolveArguments& arguments) {
       return is_number(given, arguments.rotation);
     }},
    {"frame",
     [](PyObject* given, SolveArguments& arguments) {
       return given == Py_None || (PyUnicode_CheckExact(given) && arguments.select(given));
     }},
    {"tasks",
     [](PyObject* given, SolveArguments& arguments) {
       return given == Py_None || arguments.select(given);
     }},
    {"prefer",
     [](PyObject* given, SolveArguments& arguments) {
       arguments.fast = equals(given, "fast");
       arguments.nearest = equals(given, "nearest");
       return arguments.fast || arguments.nearest || given == Py_None;
     }},
    {"timeout",
     [](PyObject* given, SolveArguments& arguments) {
       arguments.timeout = std::numeric_limits<double>::infinity();
       return given == Py_None || is_number(given, arguments.timeout);
     }},
    {"max_seeds",
     [](PyObject* given, SolveArguments& arguments) {
       arguments.max_starts = 0;
       return given == Py_None || is_count(given, arguments.max_starts);
     }},
    {"damping", [](PyObject* given,
                   SolveArguments& arguments) { return (arguments.damping = given) != nullptr; }},
    {"threads",  // (one target takes one thread)
     [](PyObject* given, SolveArguments&) {
       long threads;
       return given == Py_None || is_count(given, threads);
     }},
    {"explain", [](PyObject* given, SolveArguments&) { return given == Py_False; }},
    {"device",
     [](PyObject* given, SolveArguments&) { return given == Py_None || equals(given, "cpu"); }},
    {"precision", [](PyObject* given, SolveArguments&) { return equals(given, "mixed"); }},
    {"solutions", is_none},
    {"max_step", is_none},
    {"step", is_none},
    {"max_iterations", is_none},
    {"progress", is_none},
    {"stream", is_none},
};

bool accept(PyObject* name, PyObject* given, SolveArguments& arguments) {
  for (const Argument& one : known_arguments) {
    if (one.name == name) return one.take(given, arguments);
  }
  return false;
}

// The solver of the tasks of a robot. On an error it is invalid, and the error is cleared so that
// the Python function reports it; KeyboardInterrupt and SystemExit propagate.
nb::object solver_of(FastCall& self, PyObject* robot, PyObject* tasks, PyObject* damping) {
  for (const CachedSolver& one : self.known) {
    if (one.robot == robot && one.tasks == tasks && one.damping == damping) {
      return nb::borrow(one.solver);
    }
  }
  PyObject* const given[] = {robot, tasks, damping};
  nb::object solver = nb::steal(PyObject_Vectorcall(self.kernel_of, given, 3, nullptr));
  if (!solver.is_valid() || !nb::isinstance<PySolver>(solver)) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return {};
  }
  // Only immutable tasks are cached by identity: a list may hold other tasks in the next call.
  const int is_task = PyObject_IsInstance(tasks, self.task);
  if (is_task < 0) return {};
  const bool fixed =
      tasks == Py_None || is_task || PyTuple_CheckExact(tasks) || PyUnicode_CheckExact(tasks);
  if (!fixed) return solver;
  self.last = (self.last + 1) % int(std::size(self.known));
  const CachedSolver before = self.known[self.last];
  self.known[self.last] = {Py_NewRef(robot), Py_NewRef(tasks), Py_NewRef(damping),
                           Py_NewRef(solver.ptr())};
  Py_XDECREF(before.robot);
  Py_XDECREF(before.tasks);
  Py_XDECREF(before.damping);
  Py_XDECREF(before.solver);
  return solver;
}

PyObject* called(PyObject* object, PyObject* const* args, std::size_t flags, PyObject* names) {
  FastCall& self = *reinterpret_cast<FastCall*>(object);
  SolveArguments arguments = self.defaults;
  bool accepted = PyVectorcall_NARGS(flags) == 2;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; accepted && i < named; ++i) {
    accepted = accept(PyTuple_GET_ITEM(names, i), args[2 + i], arguments);
  }
  accepted = accepted && !(arguments.nearest && arguments.q0 == Py_None);
  const long long began = accepted && std::isfinite(arguments.timeout) ? now() : 0;
  const nb::object solver =
      accepted ? solver_of(self, args[0], arguments.tasks, arguments.damping) : nb::object();
  if (PyErr_Occurred()) return nullptr;
  if (solver.is_valid()) {
    try {
      PyObject* const made = solve_single(*nb::inst_ptr<PySolver>(solver), args[1], arguments,
                                          began, self.solution, self.statuses);
      if (made || PyErr_Occurred()) return made;
    } catch (const std::bad_alloc&) {
      return PyErr_NoMemory();
    }
  }
  return PyObject_Vectorcall(self.whole, args, flags, names);
}

template <class Visit>
int each_held(FastCall& self, Visit&& visit) {
  PyObject** const held[] = {&self.whole, &self.kernel_of, &self.kind, &self.statuses, &self.task};
  for (PyObject** one : held) {
    if (const int result = visit(*one)) return result;
  }
  for (CachedSolver& one : self.known) {
    for (PyObject** part : {&one.robot, &one.tasks, &one.damping, &one.solver}) {
      if (const int result = visit(*part)) return result;
    }
  }
  return 0;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  return each_held(*reinterpret_cast<FastCall*>(object),
                   [&](PyObject* one) { return one ? visit(one, arg) : 0; });
}

int clear(PyObject* object) {
  return each_held(*reinterpret_cast<FastCall*>(object), [](PyObject*& one) {
    Py_CLEAR(one);
    return 0;
  });
}

// Releases the cached solvers, so that none outlives the interpreter.
void release_solvers(FastCall& self) {
  for (CachedSolver& one : self.known) {
    for (PyObject** part : {&one.robot, &one.tasks, &one.damping, &one.solver}) Py_CLEAR(*part);
  }
}
FastCall* every[4];  // all objects

void deallocate(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  std::replace(std::begin(every), std::end(every), reinterpret_cast<FastCall*>(object),
               static_cast<FastCall*>(nullptr));
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

// Attributes are those of the function, even its class: help, signature and annotations work.
PyObject* attribute(PyObject* object, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<FastCall*>(object)->whole, name);
}
PyObject* doc(PyObject* object, void*) {  // (help bypasses the above)
  return PyObject_GetAttrString(reinterpret_cast<FastCall*>(object)->whole, "__doc__");
}
PyObject* repr(PyObject* object) {
  return PyObject_Repr(reinterpret_cast<FastCall*>(object)->whole);
}
PyObject* bound(PyObject* object, PyObject* to, PyObject*) {
  return to && to != Py_None ? PyMethod_New(object, to) : Py_NewRef(object);
}

PyTypeObject* direct_type() {
  static PyTypeObject* made = nullptr;
  if (made) return made;
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
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                             slots};
  made = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!made) throw nb::python_error();
  return made;
}

// The defaults of a function's keyword arguments, all of which must be in the table above.
SolveArguments defaults_of(nb::handle whole) {
  const nb::dict given = nb::cast<nb::dict>(whole.attr("__kwdefaults__"));
  SolveArguments defaults{};
  for (const Argument& one : known_arguments) {
    PyObject* const value = PyDict_GetItemWithError(given.ptr(), one.name);
    if (!value || !one.take(value, defaults)) {
      throw nb::type_error(
          (std::string("the fast path does not know this default of ") + one.text).c_str());
    }
  }
  for (auto [name, value] : given) {
    const auto is_name = [&](const Argument& one) { return one.name == name.ptr(); };
    if (!std::any_of(std::begin(known_arguments), std::end(known_arguments), is_name)) {
      throw nb::type_error(
          ("the fast path does not know the argument " + nb::cast<std::string>(name)).c_str());
    }
  }
  return defaults;
}

nb::object direct(nb::object whole, nb::object kernel_of, nb::type_object kind, nb::tuple statuses,
                  nb::type_object task) {
  PyTypeObject* const type = direct_type();
  const SolveArguments defaults = defaults_of(whole);
  SolutionClass solution{reinterpret_cast<PyTypeObject*>(kind.ptr()), {}};
  const nb::tuple slots = nb::cast<nb::tuple>(kind.attr("__slots__"));
  if (slots.size() != solution_fields) throw nb::type_error("kind must have 7 slots");
  for (int i = 0; i < solution_fields; ++i) {
    const nb::object slot = kind.attr(slots[i]);
    if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type) throw nb::type_error("kind must have slots");
    solution.offset[i] = reinterpret_cast<PyMemberDescrObject*>(slot.ptr())->d_member->offset;
  }
  nb::object made = nb::steal(type->tp_alloc(type, 0));
  if (!made.is_valid()) throw nb::python_error();
  FastCall& self = *reinterpret_cast<FastCall*>(made.ptr());
  self.call = &called;
  self.solution = solution;
  self.defaults = defaults;
  self.whole = whole.release().ptr();
  self.kernel_of = kernel_of.release().ptr();
  self.kind = kind.release().ptr();
  self.statuses = statuses.release().ptr();
  self.task = task.release().ptr();
  *std::find(std::begin(every), std::end(every) - 1, nullptr) = &self;
  return made;
}

}  // namespace

void bind_call(nb::module_& m) {
  for (Argument& one : known_arguments) one.name = PyUnicode_InternFromString(one.text);
  m.def("direct", &direct, "whole"_a, "kernel_of"_a, "kind"_a, "statuses"_a, "task"_a,
        "Return the function `whole` with a fast path for one target and common arguments.",
        nb::sig("def direct(whole: typing.Any, kernel_of: typing.Any, kind: type[typing.Any], "
                "statuses: tuple[object, ...], task: type[typing.Any]) -> typing.Any"));
  m.def(
      "forget",
      [] {
        for (FastCall* one : every) {
          if (one) release_solvers(*one);
        }
      },
      "Release the cached solvers of the last calls.");
  // (pickled by name, like a function)
  nb::module_::import_("copyreg").attr("pickle")(
      nb::handle(reinterpret_cast<PyObject*>(direct_type())),
      nb::module_::import_("operator").attr("attrgetter")("__qualname__"));
}

}  // namespace supple
