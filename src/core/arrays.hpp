// NumPy arrays in and out, by NumPy's own C interface: a single call must cost less than a microsecond.
#pragma once

#include <nanobind/nanobind.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <initializer_list>

namespace supple {

namespace nb = nanobind;

template <class T>
inline constexpr int numpy_type = sizeof(T) == sizeof(double) ? NPY_DOUBLE : NPY_FLOAT;

// A C-contiguous array of float64 or float32 whose last axis is known to be `width` long.
class Batch {
 public:
  // Takes `given` as it is where it fits. Whatever else it is goes to `coordinates` of
  // supple/kinematics/arrays.py, which converts it or raises the error that says what is wrong.
  Batch(nb::handle given, int width, const char* name) {
    if (fits(given.ptr(), width)) {
      array_ = nb::borrow(given);
      return;
    }
    const nb::object convert = nb::module_::import_("supple.kinematics.arrays").attr("coordinates");
    array_ = convert(given, width, name);
    if (!fits(array_.ptr(), width)) throw nb::type_error("coordinates() returned no fitting array");
  }

  PyArrayObject* array() const { return reinterpret_cast<PyArrayObject*>(array_.ptr()); }
  bool is_double() const { return PyArray_TYPE(array()) == NPY_DOUBLE; }
  int leading() const { return PyArray_NDIM(array()) - 1; }
  // How many rows: the product of the leading axes.
  std::ptrdiff_t count() const {
    return PyArray_MultiplyList(PyArray_SHAPE(array()), leading());
  }
  bool same_rows(const Batch& other) const {
    return leading() == other.leading() && is_double() == other.is_double() &&
           PyArray_CompareLists(PyArray_SHAPE(array()), PyArray_SHAPE(other.array()), leading());
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(PyArray_DATA(array()));
  }
  nb::handle object() const { return array_; }

  // A new array of shape (leading axes..., tail...) and this one's type.
  nb::object like(std::initializer_list<int> tail) const {
    npy_intp shape[NPY_MAXDIMS];
    const int lead = leading();
    if (lead + int(tail.size()) > NPY_MAXDIMS) throw nb::value_error("too many axes");
    int axes = 0;
    for (; axes < lead; ++axes) shape[axes] = PyArray_DIM(array(), axes);
    for (int size : tail) shape[axes++] = size;
    PyObject* made = PyArray_SimpleNew(axes, shape, PyArray_TYPE(array()));
    if (!made) throw nb::python_error();
    return nb::steal(made);
  }

 private:
  static bool fits(PyObject* given, int width) {
    if (!PyArray_CheckExact(given)) return false;
    auto* array = reinterpret_cast<PyArrayObject*>(given);
    const int type = PyArray_TYPE(array);
    const int axes = PyArray_NDIM(array);
    return (type == NPY_DOUBLE || type == NPY_FLOAT) && axes >= 1 &&
           PyArray_DIM(array, axes - 1) == width && PyArray_ISCARRAY_RO(array);
  }

  nb::object array_;
};

template <class T>
T* data_of(const nb::object& array) {
  return array.is_valid() ? static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())))
                          : nullptr;
}

}  // namespace supple
