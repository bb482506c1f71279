// Visits the Python objects that an instance of a C++ class holds. A user's object may refer back
// to the instance, for example a task whose class is defined in the same module as a Solver;
// Python's garbage collector finds such a cycle only if it can visit what the instance holds. Every
// cycle also contains a mutable Python object, such as the dictionary of a module, which the
// collector clears. Therefore these classes need no Py_tp_clear.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>

namespace supple {

namespace nb = nanobind;

// Calls visit(object) for each of some objects, which may be invalid, until `visit` returns a
// number other than zero; returns this number.
template <class Visit>
int visit_each(Visit&& visit, std::initializer_list<nb::handle> held) {
  for (const nb::handle object : held) {
    if (!object.is_valid()) continue;
    if (const int stop = visit(object)) return stop;
  }
  return 0;
}

// The slot Py_tp_traverse of a class with a member visit(f), which calls f(object) for each object
// that it holds, as `visit_each` does.
template <class Class>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<Class>(self)->visit(
      [&](nb::handle object) { return visit(object.ptr(), arg); });
}

template <class Class>
inline PyType_Slot held_objects[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse<Class>)},
                                     {0, nullptr}};

}  // namespace supple
