// Routes through configurations in layers (drivers/route.hpp), as seen from Python. Included only
// by paths.cpp.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/batches.hpp"
#include "drivers/route.hpp"

namespace supple {
namespace {

// Returns the data of a C-contiguous array of a type and shape.
template <class T>
const T* checked(nb::handle given, int type, std::initializer_list<npy_intp> shape,
                 const char* name) {
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  const bool fits = PyArray_CheckExact(given.ptr()) && PyArray_TYPE(array) == type &&
                    PyArray_ISCARRAY_RO(array) && PyArray_NDIM(array) == int(shape.size()) &&
                    PyArray_CompareLists(PyArray_DIMS(array), std::data(shape), int(shape.size()));
  if (fits) return static_cast<const T*>(PyArray_DATA(array));
  std::string expected;
  for (npy_intp size : shape) expected += (expected.empty() ? "" : ", ") + std::to_string(size);
  const std::string message = std::string(name) + " must be a C-contiguous array of shape (" +
                              expected + (shape.size() == 1 ? ",)" : ")");
  throw nb::value_error(message.c_str());
}

nb::object as_array(const std::vector<int>& from) {
  const npy_intp size = npy_intp(from.size());
  nb::object made = new_array(NPY_INT, 1, &size);
  std::copy(from.begin(), from.end(), data_of<int>(made));
  return made;
}

// Configurations in layers and the steps between them, as seen from Python. The arrays must outlive
// the graph.
class PyRoutes {
 public:
  PyRoutes(nb::object x, nb::object q, nb::object weights, nb::object turns, nb::object units)
      : x_(std::move(x)),
        q_(std::move(q)),
        weights_(std::move(weights)),
        turns_(std::move(turns)),
        units_(std::move(units)) {
    if (!PyArray_CheckExact(q_.ptr()) ||
        PyArray_NDIM(reinterpret_cast<PyArrayObject*>(q_.ptr())) != 3) {
      throw nb::value_error("q must be an array of three axes");
    }
    const npy_intp* const shape = PyArray_DIMS(reinterpret_cast<PyArrayObject*>(q_.ptr()));
    const npy_intp layers = shape[0], columns = shape[1], n = shape[2];
    check_at_least("layers", 1, int(layers));
    check_at_least("columns", 1, int(columns));
    check_at_least("joints", 1, int(n));
    const double* const unit = checked<double>(units_, NPY_DOUBLE, {n}, "units");
    const bool all_one = std::all_of(unit, unit + n, [](double each) { return each == 1; });
    graph_ = {.layers = int(layers),
              .columns = int(columns),
              .joints = {int(n), checked<double>(turns_, NPY_DOUBLE, {n}, "turns"),
                         all_one ? nullptr : unit},
              .x = checked<double>(x_, NPY_DOUBLE, {layers}, "x"),
              .q = checked<double>(q_, NPY_DOUBLE, {layers, columns, n}, "q"),
              .weight = weights_.is_none()
                            ? nullptr
                            : checked<double>(weights_, NPY_DOUBLE, {layers, columns}, "weights"),
              .branches = true,
              .end = nullptr,
              .from = nullptr,
              .to = nullptr};
  }

  // Uses given steps instead of branches: from columns `from` to columns `to` of the next layer,
  // where the steps of layer i end before the index end[i] (layers - 1,).
  void set_steps(nb::object end, nb::object from, nb::object to) {
    const npy_intp count = npy_intp(nb::len(from)), layers = graph_.layers;
    graph_.end = checked<int>(end, NPY_INT, {layers - 1}, "end");
    graph_.from = checked<int>(from, NPY_INT, {count}, "from_");
    graph_.to = checked<int>(to, NPY_INT, {count}, "to");
    graph_.branches = false;
    for (npy_intp i = 0; i + 1 < layers; ++i) {
      check_index("end", i ? graph_.end[i - 1] : 0, int(count) + 1, graph_.end[i]);
    }
    for (npy_intp k = 0; k < count; ++k) {
      check_index("from_", 0, graph_.columns, graph_.from[k]);
      check_index("to", 0, graph_.columns, graph_.to[k]);
    }
    steps_ = nb::make_tuple(end, from, to);
  }

  // Returns the steps (end, from, to) between those configurations of successive layers that differ
  // in every joint by less than its `reach` (n,).
  nb::tuple near_steps(nb::handle reach) const {
    const double* const far = checked<double>(reach, NPY_DOUBLE, {graph_.joints.n}, "reach");
    const NearSteps steps = supple::near_steps(graph_, far);
    return nb::make_tuple(as_array(steps.end), as_array(steps.from), as_array(steps.to));
  }

  // Returns the parts of the route with the fewest changes: for each, its first layer and a column
  // in each layer.
  nb::list fewest_changes(const std::vector<int>& begin) const {
    check_at_least("the number of columns to begin in", 1, int(begin.size()));
    for (int column : begin) check_index("begin", 0, graph_.columns, column);
    nb::list made;
    for (const RoutePart& part : RouteSearch(graph_).fewest_changes(begin)) {
      made.append(nb::make_tuple(part.layer, as_array(part.columns)));
    }
    return made;
  }

  // Returns the layer and column of the cheapest configuration in the last layer that is reachable
  // from a configuration without a change.
  nb::tuple farthest(int layer, int column) const {
    check_index("layer", 0, graph_.layers, layer);
    check_index("column", 0, graph_.columns, column);
    const int node = RouteSearch(graph_).farthest(layer, column);
    return nb::make_tuple(node / graph_.columns, node % graph_.columns);
  }

 private:
  nb::object x_, q_, weights_, turns_, units_;
  nb::object steps_;
  RouteGraph graph_{};
};

}  // namespace
}  // namespace supple
