#define NO_IMPORT_ARRAY
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "bindings/collision.hpp"
#include "bindings/module.hpp"
#include "drivers/rounded_hull.hpp"
#include "kernels/collision.hpp"

namespace supple {
namespace {

using namespace nb::literals;

nb::object doubles(std::initializer_list<npy_intp> shape) {
  return new_array(NPY_DOUBLE, int(shape.size()), shape.begin());
}

// Returns q (nq,) in the kernel's coordinates; raises an error for another shape.
Configurations one_configuration(nb::handle q, const Layout& layout) {
  Configurations at(q, layout, "q");
  if (at.leading() != 0) raise_input_error("raise_batch", q, "q", layout.nq());
  return at;
}

}  // namespace

PyCollisionModel::PyCollisionModel(const PyChain& chain, nb::handle kind, nb::handle frame,
                                   nb::handle pose, nb::handle size, nb::handle radius,
                                   nb::handle vertices, nb::handle first_vertex, nb::handle speed,
                                   nb::handle pairs, nb::handle allowed)
    : layout_(chain.layout()) {
  const std::ptrdiff_t s = rows_of_array(kind), k = rows_of_array(pairs);
  CollisionSpec spec{.shapes = int(s), .pairs = int(k)};
  spec.kind = data_in<int>(kind, NPY_INT32, s, "kind");
  spec.frame = data_in<int>(frame, NPY_INT32, s, "frame");
  spec.pose = data_in<double>(pose, NPY_DOUBLE, 16 * s, "pose");
  spec.size = data_in<double>(size, NPY_DOUBLE, 3 * s, "size");
  spec.radius = data_in<double>(radius, NPY_DOUBLE, s, "radius");
  spec.first_vertex = data_in<int>(first_vertex, NPY_INT32, s + 1, "first_vertex");
  for (std::ptrdiff_t i = 0; i < s; ++i) {
    check_at_least("first_vertex", spec.first_vertex[i], spec.first_vertex[i + 1]);
  }
  check_index("first_vertex", 0, 1, spec.first_vertex[0]);
  spec.vertices =
      data_in<double>(vertices, NPY_DOUBLE, 3 * std::ptrdiff_t(spec.first_vertex[s]), "vertices");
  spec.speed = data_in<double>(speed, NPY_DOUBLE, s, "speed");
  spec.pair = data_in<int>(pairs, NPY_INT32, 2 * k, "pairs");
  if (!allowed.is_none()) spec.allowed = data_in<double>(allowed, NPY_DOUBLE, k, "allowed");
  owned_ = std::make_unique<OwnedCollisionModel>(chain.owned<double>(), spec);
}

void PyCollisionModel::configuration(const Batch& at, std::ptrdiff_t row, double* q) const {
  const int n = view().chain.nq;
  for (int j = 0; j < n; ++j) {
    const std::ptrdiff_t i = row * n + j;
    q[j] = at.is_double() ? at.data<double>()[i] : double(at.data<float>()[i]);
    if (!std::isfinite(q[j])) raise_input_error("raise_nonfinite", at.object(), nb::none(), row);
  }
}

nb::object PyCollisionModel::distances(nb::handle given) const {
  const CollisionModel<double>& model = view();
  std::vector<double> q(model.chain.nq);
  configuration(one_configuration(given, layout_), 0, q.data());
  const nb::object distance = doubles({model.pairs}), points = doubles({model.pairs, 2, 3}),
                   normal = doubles({model.pairs, 3});
  const CollisionKernel& kernel = *isa().collision;
  Scratch scratch(kernel.scratch(model) * sizeof(double));
  double* const memory = static_cast<double*>(scratch.get());
  kernel.prepare(model, memory);
  kernel.distances(model, q.data(), data_of<double>(distance), data_of<double>(points),
                   data_of<double>(normal), memory);
  return nb::make_tuple(distance, points, normal);
}

nb::object PyCollisionModel::min_distance(nb::handle given, double clearance) const {
  const CollisionModel<double>& model = view();
  std::vector<double> q(model.chain.nq);
  configuration(one_configuration(given, layout_), 0, q.data());
  const CollisionKernel& kernel = *isa().collision;
  Scratch scratch(kernel.scratch(model) * sizeof(double));
  double* const memory = static_cast<double*>(scratch.get());
  kernel.prepare(model, memory);
  double distance = INFINITY, points[6], normal[3];
  const int pair = kernel.closest(model, q.data(), clearance, &distance, points, normal, memory);
  return nb::make_tuple(distance, pair);
}

nb::object PyCollisionModel::collides(nb::handle given, double clearance, int threads) const {
  const CollisionModel<double>& model = view();
  const int n = model.chain.nq;
  const Configurations at(given, layout_, "q");
  const std::ptrdiff_t count = at.count();
  const nb::object made = new_array(NPY_BOOL, at.leading(), PyArray_DIMS(at.array()));
  std::vector<double> all(std::size_t(count) * n);
  for (std::ptrdiff_t i = 0; i < count; ++i) configuration(at, i, all.data() + i * n);
  const CollisionKernel& kernel = *isa().collision;
  const std::size_t bytes = kernel.scratch(model) * sizeof(double);
  bool* const to = data_of<bool>(made);
  const auto work = [&](std::ptrdiff_t begin, std::ptrdiff_t end) -> std::ptrdiff_t {
    Scratch scratch(bytes);
    double* const memory = static_cast<double*>(scratch.get());
    kernel.prepare(model, memory);
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      to[i] = kernel.collides(model, all.data() + i * n, clearance, memory);
    }
    return -1;
  };
  if (count < 32) {
    work(0, count);
  } else {
    over_batch(count, threads, work);
  }
  return made;
}

nb::object PyCollisionModel::closer(nb::handle given, double distance) const {
  const CollisionModel<double>& model = view();
  const int n = model.chain.nq;
  const Configurations at(given, layout_, "q");
  const npy_intp shape[] = {at.count(), model.pairs};
  const nb::object made = new_array(NPY_BOOL, 2, shape);
  const CollisionKernel& kernel = *isa().collision;
  Scratch scratch(kernel.scratch(model) * sizeof(double));
  double* const memory = static_cast<double*>(scratch.get());
  kernel.prepare(model, memory);
  std::vector<double> q(n);
  for (std::ptrdiff_t i = 0; i < at.count(); ++i) {
    configuration(at, i, q.data());
    kernel.closer(model, q.data(), distance, data_of<bool>(made) + i * model.pairs, memory);
  }
  return made;
}

nb::object PyCollisionModel::curve_bound(nb::handle s, nb::handle coefficients, nb::handle anchors,
                                         double clearance, double absolute, double relative,
                                         bool first) const {
  const CollisionModel<double>& model = view();
  const std::ptrdiff_t pieces = rows_of_array(s) - 1, n = model.chain.nq;
  check_at_least("s", 2, int(pieces) + 1);
  const JointCurve<double> curve{
      int(pieces), data_in<double>(s, NPY_DOUBLE, pieces + 1, "s"),
      data_in<double>(coefficients, NPY_DOUBLE, 4 * pieces * n, "coefficients"),
      model.chain.balls ? data_in<double>(anchors, NPY_DOUBLE, pieces * n, "anchors") : nullptr};
  for (std::ptrdiff_t i = 0; i < pieces; ++i) {
    if (!(curve.s[i] < curve.s[i + 1])) throw_field_error("s", "increasing", curve.s[i + 1]);
  }
  for (std::ptrdiff_t i = 0; i < 4 * pieces * n; ++i) {
    if (!std::isfinite(curve.coefficient[i]))
      throw_field_error("coefficients", "finite", curve.coefficient[i]);
  }
  for (std::ptrdiff_t i = 0; curve.anchor && i < pieces * n; ++i) {
    if (!std::isfinite(curve.anchor[i])) throw_field_error("anchors", "finite", curve.anchor[i]);
  }
  const CollisionKernel& kernel = *isa().collision;
  Scratch scratch(kernel.curve_scratch(model) * sizeof(double));
  const CurveBound<double> found = kernel.curve_bound(
      model, curve, {clearance, absolute, relative, first}, static_cast<double*>(scratch.get()));
  return nb::make_tuple(found.bound, found.seen, found.begin, found.end, found.pair);
}

nb::object PyCollisionModel::cost(nb::handle given, double distance) const {
  const CollisionModel<double>& model = view();
  std::vector<double> q(model.chain.nq);
  configuration(one_configuration(given, layout_), 0, q.data());
  const nb::object gradient = doubles({model.chain.nv});
  const CollisionKernel& kernel = *isa().collision;
  Scratch scratch(kernel.curve_scratch(model) * sizeof(double));
  const double found = kernel.cost(model, q.data(), distance, data_of<double>(gradient),
                                   static_cast<double*>(scratch.get()));
  return nb::make_tuple(found, gradient);
}

nb::object PyCollisionModel::packed(std::uintptr_t address, double size, double rounding) const {
  const std::vector<unsigned char> bytes = owned_->packed(address, size, rounding);
  const npy_intp count = npy_intp(bytes.size());
  const nb::object made = new_array(NPY_UINT8, 1, &count);
  std::copy(bytes.begin(), bytes.end(), data_of<unsigned char>(made));
  return made;
}

void PyCollisionModel::move(int shape, nb::handle pose) {
  move(shape, data_in<double>(pose, NPY_DOUBLE, 16, "pose"));
}

void PyCollisionModel::move(int shape, const double* pose) {
  owned_->move(shape, pose);
  ++moves_;
  if (view().shape[shape].speed == 0) ++jumps_;
}

// Returns the indices of corners (k,) and the padding of a rounded hull of points (v, 3).
nb::object corners_of(nb::handle points, const std::vector<int>& first, int most, double close) {
  const std::ptrdiff_t count = rows_of_array(points);
  const double* const data = data_in<double>(points, NPY_DOUBLE, 3 * count, "points");
  check_at_least("first", 1, int(first.size()));
  for (const int i : first) check_index("first", 0, int(count), i);
  for (std::ptrdiff_t i = 0; i < 3 * count; ++i) {
    if (!std::isfinite(data[i])) throw_field_error("points", "finite", data[i]);
  }
  const RoundedHull made = rounded_hull(int(count), data, first, most, close);
  return nb::make_tuple(made.corner, made.padding);
}

void bind_collision(nb::module_& m) {
  m.def("rounded_hull", &corners_of, "points"_a, "first"_a, "most"_a, "close"_a,
        nb::sig("def rounded_hull(points: " SUPPLE_ARRAY
                ", first: list[int], most: int, close: float) -> tuple[list[int], float]"));
  nb::class_<PyCollisionModel>(m, "CollisionModel",
                               "The shapes of a robot and its world, and the pairs to check.")
      .def(nb::init<const PyChain&, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle,
                    nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
           "chain"_a, nb::kw_only(), "kind"_a, "frame"_a, "pose"_a, "size"_a, "radius"_a,
           "vertices"_a, "first_vertex"_a, "speed"_a, "pairs"_a, "allowed"_a = nb::none(),
           nb::sig("def __init__(self, chain: Chain, *, kind: numpy.typing.NDArray[numpy.int32], "
                   "frame: numpy.typing.NDArray[numpy.int32], pose: " SUPPLE_ARRAY
                   ", size: " SUPPLE_ARRAY ", radius: " SUPPLE_ARRAY ", vertices: " SUPPLE_ARRAY
                   ", first_vertex: numpy.typing.NDArray[numpy.int32], speed: " SUPPLE_ARRAY
                   ", pairs: numpy.typing.NDArray[numpy.int32], allowed: " SUPPLE_ARRAY
                   " | None = None) -> None"))
      .def("distances", &PyCollisionModel::distances, "q"_a,
           nb::sig("def distances(self, q: numpy.typing.ArrayLike) -> "
                   "tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"))
      .def("min_distance", &PyCollisionModel::min_distance, "q"_a, "clearance"_a = -INFINITY,
           nb::sig("def min_distance(self, q: numpy.typing.ArrayLike, clearance: float = "
                   "float('-inf')) -> tuple[float, int]"))
      .def("collides", &PyCollisionModel::collides, "q"_a, "clearance"_a, "threads"_a = 1,
           nb::sig("def collides(self, q: numpy.typing.ArrayLike, clearance: float, threads: int = "
                   "1) -> numpy.typing.NDArray[numpy.bool_]"))
      .def("closer", &PyCollisionModel::closer, "q"_a, "distance"_a,
           nb::sig("def closer(self, q: numpy.typing.ArrayLike, distance: float) -> "
                   "numpy.typing.NDArray[numpy.bool_]"))
      .def("curve_bound", &PyCollisionModel::curve_bound, "s"_a, "coefficients"_a, "anchors"_a,
           nb::kw_only(), "clearance"_a, "absolute"_a, "relative"_a, "first"_a,
           nb::sig("def curve_bound(self, s: " SUPPLE_ARRAY ", coefficients: " SUPPLE_ARRAY
                   ", anchors: " SUPPLE_ARRAY
                   ", *, clearance: float, absolute: float, relative: float, first: bool) -> "
                   "tuple[float, float, float, float, int]"))
      .def("cost", &PyCollisionModel::cost, "q"_a, "distance"_a,
           nb::sig("def cost(self, q: numpy.typing.ArrayLike, distance: float) -> "
                   "tuple[float, " SUPPLE_ARRAY "]"))
      .def("move", nb::overload_cast<int, nb::handle>(&PyCollisionModel::move), nb::lock_self(),
           "shape"_a, "pose"_a,
           nb::sig("def move(self, shape: int, pose: " SUPPLE_ARRAY ") -> None"))
      .def("packed", &PyCollisionModel::packed, "address"_a, "size"_a, "rounding"_a,
           nb::sig("def packed(self, address: int, size: float, rounding: float) -> "
                   "numpy.typing.NDArray[numpy.uint8]"))
      .def_prop_ro(
          "sizes",
          [](const PyCollisionModel& model) {
            const CollisionModel<double>& view = model.view();
            return nb::make_tuple(view.chain.joints, view.chain.nq, view.moving);
          },
          nb::sig("def sizes(self) -> tuple[int, int, int]"),
          "Numbers of joints, of coordinates and of bodies that move.")
      .def_prop_ro(
          "pair_count", [](const PyCollisionModel& model) { return model.view().pairs; },
          nb::sig("def pair_count(self) -> int"));
}

}  // namespace supple
