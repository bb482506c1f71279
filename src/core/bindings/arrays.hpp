// Reads and creates NumPy arrays through NumPy's C API, because a single call must cost less than a
// microsecond.
#pragma once

#include <nanobind/nanobind.h>

// All source files share one table of NumPy's functions, which module.cpp fills.
#define PY_ARRAY_UNIQUE_SYMBOL supple_numpy
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <initializer_list>

namespace supple {

namespace nb = nanobind;

// The type of arrays in the type stub, in which nanobind by itself would only write `object`.
#define SUPPLE_ARRAY "numpy.typing.NDArray[numpy.floating[typing.Any]]"

// Calls a function of supple/_arrays/checks.py, for rare conversions.
template <class... Args>
nb::object call(const char* function, Args&&... args) {
  return nb::module_::import_("supple._arrays.checks").attr(function)(std::forward<Args>(args)...);
}

// Raises an InputError for an invalid array, by calling a function of
// supple/_arrays/errors.py.
template <class... Args>
[[noreturn]] void raise_input_error(const char* function, Args&&... args) {
  nb::module_::import_("supple._arrays.errors").attr(function)(std::forward<Args>(args)...);
  throw nb::value_error(function);  // unreachable: the function raises
}

// Returns the number of items of a list or tuple, or -1 for other objects.
inline Py_ssize_t items_in(PyObject* given) {
  return PyList_CheckExact(given)    ? PyList_Size(given)
         : PyTuple_CheckExact(given) ? PyTuple_Size(given)
                                     : -1;
}
// Returns item i of a list or tuple, borrowed.
inline PyObject* item_of(PyObject* given, Py_ssize_t i) {
  return PyList_CheckExact(given) ? PyList_GetItem(given, i) : PyTuple_GetItem(given, i);
}

// Converts a result to the array library of an argument, such as PyTorch. If the argument is a
// NumPy array, a list or a tuple, the result is unchanged.
inline nb::object like(nb::handle given, nb::object result) {
  if (PyArray_CheckExact(given.ptr()) || items_in(given.ptr()) >= 0) return result;
  return call("like", given, std::move(result));
}

// Returns a new, uninitialized array.
inline nb::object new_array(int type, int axes, const npy_intp* shape) {
  PyObject* const made = PyArray_SimpleNew(axes, const_cast<npy_intp*>(shape), type);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// Returns the data of a C-contiguous float64 array (n,) or, with m, (n, m); null for any other
// object.
inline const double* contiguous_data(nb::handle given, npy_intp n, npy_intp m = 0) {
  if (!PyArray_CheckExact(given.ptr())) return nullptr;
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  const npy_intp* const shape = PyArray_DIMS(array);
  if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(array) ||
      PyArray_NDIM(array) != (m ? 2 : 1) || shape[0] != n || (m && shape[1] != m)) {
    return nullptr;
  }
  return static_cast<const double*>(PyArray_DATA(array));
}

// Writes a number to `to`. Returns whether `given` is a Python number, or a float64 of NumPy.
inline bool put_number(PyObject* given, double* to) {
  if (PyFloat_Check(given)) {
    *to = PyFloat_AsDouble(given);
    return true;
  }
  if (!PyLong_CheckExact(given)) return false;
  *to = PyLong_AsDouble(given);
  if (*to != -1.0 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

// Copies `rows` times `columns` numbers of type T from memory with these strides [bytes].
template <class T>
void copy_strided(const char* from, npy_intp down, npy_intp right, int rows, int columns,
                  double* to) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      *to++ = double(*reinterpret_cast<const T*>(from + r * down + c * right));
    }
  }
}

// Returns a contiguous copy of an array as `type`, in native byte order.
inline nb::object converted(PyArrayObject* array, int type) {
  PyObject* const made = PyArray_FromArray(array, PyArray_DescrFromType(type), NPY_ARRAY_CARRAY);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// Whether a type holds numbers that are converted to float64 without an error or a warning.
inline bool is_number_type(int type) {
  return type == NPY_DOUBLE || type == NPY_FLOAT || type == NPY_HALF || PyTypeNum_ISINTEGER(type);
}

// Writes `rows` times `columns` numbers to `to`; a vector has one row. Returns whether `given` is
// an array of this shape, of floats or integers and with any strides, or a list or tuple of
// numbers, nested for a matrix. Python converts other objects, or raises an error.
inline bool put_numbers(nb::handle given, int rows, int columns, double* to) {
  if (PyArray_CheckExact(given.ptr())) {
    auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
    const int axes = rows > 1 ? 2 : 1;
    if (PyArray_NDIM(array) != axes || PyArray_DIM(array, axes - 1) != columns ||
        (axes == 2 && PyArray_DIM(array, 0) != rows) || !is_number_type(PyArray_TYPE(array))) {
      return false;
    }
    const npy_intp down = axes == 2 ? PyArray_STRIDE(array, 0) : 0,
                   right = PyArray_STRIDE(array, axes - 1);
    const char* const from = PyArray_BYTES(array);
    switch (PyArray_ISBEHAVED_RO(array) ? PyArray_TYPE(array) : NPY_NOTYPE) {
      case NPY_DOUBLE:
        copy_strided<double>(from, down, right, rows, columns, to);
        return true;
      case NPY_FLOAT:
        copy_strided<float>(from, down, right, rows, columns, to);
        return true;
      case NPY_INT:
        copy_strided<int>(from, down, right, rows, columns, to);
        return true;
      case NPY_LONG:
        copy_strided<long>(from, down, right, rows, columns, to);
        return true;
      default:
        return put_numbers(converted(array, NPY_DOUBLE), rows, columns, to);
    }
  }
  const int count = rows > 1 ? rows : columns;
  if (items_in(given.ptr()) != count) return false;
  for (int i = 0; i < count; ++i) {
    PyObject* const one = item_of(given.ptr(), i);
    if (rows > 1 ? !put_numbers(one, 1, columns, to + i * columns) : !put_number(one, to + i)) {
      return false;
    }
  }
  return true;
}

// Returns the data of a C-contiguous array of one type with `count` entries in all.
template <class N>
const N* data_in(nb::handle given, int type, std::ptrdiff_t count, const char* name) {
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  if (!PyArray_CheckExact(given.ptr()) || PyArray_TYPE(array) != type ||
      !PyArray_ISCARRAY_RO(array) || PyArray_SIZE(array) != count) {
    const std::string message = std::string(name) + " must be a C-contiguous array of " +
                                (type == NPY_DOUBLE ? "float64" : "int32") + " with " +
                                std::to_string(count) + " entries";
    throw nb::value_error(message.c_str());
  }
  return static_cast<const N*>(PyArray_DATA(array));
}

// Returns the length of the first axis of an array; 0 for any other object.
inline std::ptrdiff_t rows_of_array(nb::handle given) {
  if (!PyArray_CheckExact(given.ptr())) return 0;
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  return PyArray_NDIM(array) > 0 ? PyArray_DIM(array, 0) : 0;
}

// Whether two contiguous arrays share memory; false if one of them is not an array.
inline bool overlap(nb::handle a, nb::handle b) {
  if (!a.is_valid() || !b.is_valid()) return false;
  if (!PyArray_Check(a.ptr()) || !PyArray_Check(b.ptr())) return false;
  auto *x = reinterpret_cast<PyArrayObject*>(a.ptr()),
       *y = reinterpret_cast<PyArrayObject*>(b.ptr());
  const char *p = PyArray_BYTES(x), *q = PyArray_BYTES(y);
  return p < q + PyArray_NBYTES(y) && q < p + PyArray_NBYTES(x);
}

template <class T>
T* data_of(const nb::object& array) {
  return array.is_valid()
             ? static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())))
             : nullptr;
}

// A C-contiguous array of float64 or float32 whose last axis has the length `width`.
class Batch {
 public:
  // Uses `given` itself if it is such an array.
  Batch(nb::handle given, int width, const char* name)
      : array_(fits(given.ptr(), width) ? nb::borrow(given) : converted(given, width, name)) {}

  PyArrayObject* array() const { return reinterpret_cast<PyArrayObject*>(array_.ptr()); }
  bool is_double() const { return PyArray_TYPE(array()) == NPY_DOUBLE; }
  int leading() const { return PyArray_NDIM(array()) - 1; }
  // Number of rows: the product of the leading axes.
  std::ptrdiff_t count() const { return PyArray_MultiplyList(PyArray_SHAPE(array()), leading()); }
  bool same_rows(const Batch& other) const {
    return leading() == other.leading() && is_double() == other.is_double() &&
           PyArray_CompareLists(PyArray_SHAPE(array()), PyArray_SHAPE(other.array()), leading());
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(PyArray_DATA(array()));
  }
  nb::handle object() const { return array_; }
  bool overlaps(nb::handle other) const { return overlap(array_, other); }
  void copy() { array_ = nb::steal(PyArray_NewCopy(array(), NPY_CORDER)); }
  void replace(nb::object array) { array_ = std::move(array); }

  // Returns an array of the same type with the shape (leading axes..., tail...): `out` if it is
  // given, else a new array.
  nb::object result(nb::handle out, std::initializer_list<int> tail) const {
    npy_intp shape[NPY_MAXDIMS];
    int axes = 0;
    for (; axes < leading(); ++axes) shape[axes] = PyArray_DIM(array(), axes);
    for (int size : tail) {
      if (axes == NPY_MAXDIMS) raise_input_error("raise_too_many_axes", axes);
      shape[axes++] = size;
    }
    if (out.is_valid() && !out.is_none()) return checked(out, axes, shape);
    return new_array(PyArray_TYPE(array()), axes, shape);
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

  // Converts an array of numbers of this width, or a list of as many numbers; float32 stays
  // float32. Any other object is passed to `coordinates` of supple/_arrays/checks.py, which
  // converts it or raises an error. Not inlined, because a call with an array that fits takes less
  // than 1 µs.
  NB_NOINLINE static nb::object converted(nb::handle given, int width, const char* name) {
    const npy_intp size = width;
    if (PyArray_CheckExact(given.ptr())) {
      auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
      const int type = PyArray_TYPE(array), axes = PyArray_NDIM(array);
      if (is_number_type(type) && axes > 0 && PyArray_DIM(array, axes - 1) == width)
        return supple::converted(array, type == NPY_FLOAT ? NPY_FLOAT : NPY_DOUBLE);
    } else if (items_in(given.ptr()) == size) {
      nb::object made = new_array(NPY_DOUBLE, 1, &size);
      if (put_numbers(given, 1, width, data_of<double>(made))) return made;
    }
    nb::object made = call("coordinates", given, width, name);
    if (!fits(made.ptr(), width))
      throw nb::type_error(
          "coordinates() must return a C-contiguous float array whose last axis has the given "
          "length");
    return made;
  }

  nb::object checked(nb::handle out, int axes, const npy_intp* shape) const {
    auto* given = reinterpret_cast<PyArrayObject*>(out.ptr());
    if (!PyArray_CheckExact(out.ptr()) || PyArray_TYPE(given) != PyArray_TYPE(array()) ||
        PyArray_NDIM(given) != axes || !PyArray_CompareLists(PyArray_SHAPE(given), shape, axes) ||
        !PyArray_ISCARRAY(given)) {
      nb::list expected;
      for (int i = 0; i < axes; ++i) expected.append(shape[i]);
      raise_input_error("raise_unusable_out", out, nb::tuple(expected), array_.attr("dtype"));
    }
    return nb::borrow(out);
  }

  nb::object array_;
};

}  // namespace supple
