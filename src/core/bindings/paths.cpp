#define NO_IMPORT_ARRAY
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "bindings/batches.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/module.hpp"
#include "bindings/routes.hpp"
#include "bindings/spec.hpp"
#include "drivers/between.hpp"
#include "drivers/deviation.hpp"
#include "drivers/spline.hpp"
#include "kernels/isa.hpp"

namespace supple {
namespace {

using namespace nb::literals;

#define SUPPLE_F64 "numpy.typing.NDArray[numpy.float64]"
#define SUPPLE_I32 "numpy.typing.NDArray[numpy.int32]"

// Smallest number of tracks per thread.
constexpr std::ptrdiff_t few_tracks = 8;

// How configurations are tracked along a path.
struct TrackSpec {
  double jump = 0, reach = 0;                             // [unit of the joints], [m]
  double exact_position = 0, exact_rotation = 0;          // [m], [rad]
  double position_tolerance = 0, rotation_tolerance = 0;  // [m], [rad]
  Doubles units{};                                        // (n,)
  int divisions = 0;
  int threads = 1;

  bool operator==(const TrackSpec&) const = default;
};

// Returns the tracks (steps + 1, K, n) of configurations q (K, n), NaN after their ends. The
// targets (1 or K, steps * 2^(divisions + 1) + 1, k) are shared by all tracks, or given for each of
// them.
nb::object tracked(const PySolver& solver, nb::handle q, nb::handle targets,
                   const TrackSpec& spec) {
  check_index("divisions", 0, 16, spec.divisions);
  check_length("units", std::size_t(solver.nq()), spec.units.size());
  const Batch start(q, solver.nq(), "q"), target(targets, solver.targets(), "targets");
  if (!start.is_double() || !target.is_double() || start.leading() != 1 || target.leading() != 2) {
    throw nb::value_error("q must be float64 (K, n), and targets float64 (R, S, k)");
  }
  const std::ptrdiff_t n = solver.nq(), k = solver.targets(), count = start.count();
  const npy_intp* const shape = PyArray_DIMS(target.array());
  const std::ptrdiff_t each = 2 << spec.divisions, steps = (shape[1] - 1) / each;
  if (shape[1] != steps * each + 1) {
    throw_field_error("the number of targets", "a multiple of the intervals of a step, plus 1",
                      shape[1]);
  }
  if (shape[0] != 1) check_length("targets", std::size_t(count), std::size_t(shape[0]));
  const npy_intp made_shape[] = {steps + 1, count, n};
  nb::object made = new_array(NPY_DOUBLE, 3, made_shape);
  double* const to = data_of<double>(made);
  std::fill_n(to, (steps + 1) * count * n, std::numeric_limits<double>::quiet_NaN());
  const IkProblem<double> ik = solver.fine().within(spec.exact_position, spec.exact_rotation);
  const TrackRequest request{.ik = &ik,
                             .jump = spec.jump,
                             .reach = spec.reach,
                             .exact_position = spec.exact_position,
                             .exact_rotation = spec.exact_rotation,
                             .position_tolerance = spec.position_tolerance,
                             .rotation_tolerance = spec.rotation_tolerance,
                             .divisions = spec.divisions,
                             .intervals = int(each),
                             .unit = spec.units.data()};
  const PathKernel& kernel = *isa().paths;
  over_batch(
      count, spec.threads,
      [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
        Scratch memory(kernel.track_memory(request));
        for (std::ptrdiff_t i = begin; i < end; ++i) {
          const double* const own = start.data<double>() + i * n;
          const double* const course =
              target.data<double>() + (shape[0] == 1 ? 0 : i * shape[1] * k);
          std::copy_n(own, n, to + i * n);
          double* const next = to + (count + i) * n;
          const std::ptrdiff_t done =
              kernel.track(request, own, course, steps, count * n, next, memory.get());
          if (done < steps) {
            std::fill_n(next + done * count * n, n, std::numeric_limits<double>::quiet_NaN());
          }
        }
        return std::ptrdiff_t(-1);
      },
      few_tracks);
  return made;
}

// Returns the largest errors (K, 2) [m, rad] of configurations q (K, c, n) at c places of each of K
// intervals, whose targets (K * c, k) are given, and the largest second differences (K, 2) of these
// errors.
nb::tuple interval_errors_of(const PySolver& solver, nb::handle q, nb::handle targets) {
  const npy_intp n = solver.nq(), size = solver.targets();
  const Batch given(q, int(n), "q");
  if (!given.is_double() || given.leading() != 2) throw nb::value_error("q must be (K, c, n)");
  const npy_intp* const shape = PyArray_DIMS(given.array());
  const npy_intp count = shape[0], places = shape[1], made_shape[] = {count, 2};
  const double* const target =
      checked<double>(targets, NPY_DOUBLE, {count * places, size}, "targets");
  nb::object at = new_array(NPY_DOUBLE, 2, made_shape), bend = new_array(NPY_DOUBLE, 2, made_shape);
  std::fill_n(data_of<double>(at), 2 * count, 0.0);
  std::fill_n(data_of<double>(bend), 2 * count, 0.0);
  const IkProblem<double> ik = solver.fine().within(1, 1);
  interval_errors(ik, int(count), int(places), given.data<double>(), target, data_of<double>(at),
                  data_of<double>(bend));
  return nb::make_tuple(at, bend);
}

// Returns the indices of configurations q (K, n) that are farther than `distance` from known ones
// (M, n) and from each other. The distance is the largest difference of a joint, without multiples
// of its full turn in `turns` (n,), unless that is zero.
nb::object apart(nb::handle q, nb::handle known, nb::handle turns, double distance) {
  const int n = int(nb::len(turns));
  const Batch given(q, n, "q"), others(known, n, "known");
  if (!given.is_double() || !others.is_double()) throw nb::value_error("q must be float64");
  const JointSpace joints{n, checked<double>(turns, NPY_DOUBLE, {n}, "turns")};
  const std::vector<double> reach(std::size_t(n), distance);
  std::vector<int> kept;
  for (int i = 0; i < int(given.count()); ++i) {
    const double* const own = given.data<double>() + i * n;
    const auto is_near = [&](const double* other) {
      return joints.are_near(own, other, reach.data(), 0);
    };
    bool alone = std::ranges::none_of(
        kept, [&](int other) { return is_near(given.data<double>() + other * n); });
    for (std::ptrdiff_t k = 0; alone && k < others.count(); ++k) {
      alone = !is_near(others.data<double>() + k * n);
    }
    if (alone) kept.push_back(i);
  }
  return as_array(kept);
}

// Returns, for each solution `before` (R, k, n) of a place, the index (R, k) of the nearest
// solution `after` (R, k, n) at the next place. The index is -1 unless that solution is nearer than
// `jump`, is not on the other side of a fold (signs (R, k), zero at a fold), and has the solution
// `before` as its own nearest one.
nb::object nearest_pairs(nb::handle before, nb::handle after, nb::handle sides_before,
                         nb::handle sides_after, nb::handle turns, double jump) {
  const npy_intp n = npy_intp(nb::len(turns)), rows = npy_intp(nb::len(before));
  auto* const array = reinterpret_cast<PyArrayObject*>(before.ptr());
  const npy_intp k =
      PyArray_CheckExact(before.ptr()) && PyArray_NDIM(array) == 3 ? PyArray_DIM(array, 1) : 0;
  const JointSpace joints{int(n), checked<double>(turns, NPY_DOUBLE, {n}, "turns")};
  const double* const a = checked<double>(before, NPY_DOUBLE, {rows, k, n}, "before");
  const double* const b = checked<double>(after, NPY_DOUBLE, {rows, k, n}, "after");
  const double* const side_a = checked<double>(sides_before, NPY_DOUBLE, {rows, k}, "sides_before");
  const double* const side_b = checked<double>(sides_after, NPY_DOUBLE, {rows, k}, "sides_after");
  const npy_intp shape[] = {rows, k};
  nb::object made = new_array(NPY_INT, 2, shape);
  const double huge = std::numeric_limits<double>::infinity();
  const std::size_t each = std::size_t(k);
  std::vector<double> least_a(each), least_b(each);
  std::vector<int> of_a(each), of_b(each);
  for (npy_intp r = 0; r < rows; ++r) {
    std::ranges::fill(least_a, huge);
    std::ranges::fill(least_b, huge);
    for (std::size_t i = 0; i < each; ++i) {
      for (std::size_t j = 0; j < each; ++j) {
        if (side_a[r * k + npy_intp(i)] * side_b[r * k + npy_intp(j)] < 0) continue;
        const double far =
            joints.distance(a + (r * k + npy_intp(i)) * n, b + (r * k + npy_intp(j)) * n);
        if (far < least_a[i]) {
          least_a[i] = far;
          of_a[i] = int(j);
        }
        if (far < least_b[j]) {
          least_b[j] = far;
          of_b[j] = int(i);
        }
      }
    }
    int* const to = data_of<int>(made) + r * k;
    for (std::size_t i = 0; i < each; ++i) {
      const bool mutual = least_a[i] < jump && of_b[std::size_t(of_a[i])] == int(i);
      to[i] = mutual ? of_a[i] : -1;
    }
  }
  return made;
}

// Returns the targets (K, k) at places (K,) between those of a path (drivers/between.hpp).
nb::object targets_between(nb::handle x, nb::handle numbers, const Ints& rotations,
                           nb::handle turns, nb::handle places) {
  const npy_intp count = npy_intp(nb::len(x)), wanted = npy_intp(nb::len(places));
  check_at_least("the number of targets", 2, int(count));
  auto* const array = reinterpret_cast<PyArrayObject*>(numbers.ptr());
  const bool is_matrix = PyArray_CheckExact(numbers.ptr()) && PyArray_NDIM(array) == 2;
  const npy_intp size = is_matrix ? PyArray_DIM(array, 1) : 0;
  for (int begin : rotations) check_index("rotations", 0, int(size) - 8, begin);
  const npy_intp turning = npy_intp(rotations.size());
  const PathOfTargets path{
      count,
      size,
      checked<double>(x, NPY_DOUBLE, {count}, "x"),
      checked<double>(numbers, NPY_DOUBLE, {count, size}, "numbers"),
      {rotations.begin(), rotations.end()},
      checked<double>(turns, NPY_DOUBLE, {count - 1, turning, 3}, "turns"),
  };
  const double* const at = checked<double>(places, NPY_DOUBLE, {wanted}, "places");
  const npy_intp shape[] = {wanted, size};
  nb::object made = new_array(NPY_DOUBLE, 2, shape);
  for (npy_intp i = 0; i < wanted; ++i)
    target_between(path, at[i], data_of<double>(made) + i * size);
  return made;
}

// Returns the knots (M + 1,) and the coefficients (4, M, n) of the pieces of a spline through
// q (N, n) at s (N,) that stays between limits (n,): with the given slopes (N, n) where that is
// possible.
nb::tuple spline_inside(nb::handle s, nb::handle q, nb::handle slopes, nb::handle lower,
                        nb::handle upper) {
  const npy_intp count = npy_intp(nb::len(s)), n = npy_intp(nb::len(lower));
  check_at_least("the number of points", 2, int(count));
  const double* const at = checked<double>(s, NPY_DOUBLE, {count}, "s");
  const double* const point = checked<double>(q, NPY_DOUBLE, {count, n}, "q");
  const double* const slope = checked<double>(slopes, NPY_DOUBLE, {count, n}, "slopes");
  const double* const low = checked<double>(lower, NPY_DOUBLE, {n}, "lower");
  const double* const high = checked<double>(upper, NPY_DOUBLE, {n}, "upper");
  std::vector<LimitedSpline> each;
  each.reserve(std::size_t(n));
  std::vector<bool> parted(std::size_t(count - 1), false);
  for (npy_intp j = 0; j < n; ++j) {
    each.emplace_back(int(count), int(n), at, point + j, slope + j, low[j], high[j]);
    for (npy_intp i = 0; i + 1 < count; ++i) {
      if (each.back().is_parted(int(i))) parted[std::size_t(i)] = true;
    }
  }
  const npy_intp more = npy_intp(std::ranges::count(parted, true));
  const npy_intp pieces = count - 1 + 2 * more, ends = pieces + 1, shape[] = {4, pieces, n};
  nb::object knots = new_array(NPY_DOUBLE, 1, &ends), made = new_array(NPY_DOUBLE, 3, shape);
  double *const x = data_of<double>(knots), *const to = data_of<double>(made);
  const auto write = [&](npy_intp piece, npy_intp j, const Cubic& own) {
    const double values[] = {own.a, own.b, own.c, own.d};
    for (npy_intp k = 0; k < 4; ++k) to[(k * pieces + piece) * n + j] = values[k];
  };
  npy_intp piece = 0;
  for (npy_intp i = 0; i + 1 < count; ++i) {
    const bool three = parted[std::size_t(i)];
    for (npy_intp j = 0; j < n; ++j) {
      const LimitedSpline& own = each[std::size_t(j)];
      if (!three) {
        write(piece, j, own.plain(int(i)));
        continue;
      }
      const auto parts = own.parts(int(i));
      for (std::size_t k = 0; k < 3; ++k) write(piece + npy_intp(k), j, parts[k]);
    }
    for (npy_intp k = 0; k < (three ? 3 : 1); ++k) {
      x[piece++] = at[i] + double(k) * (at[i + 1] - at[i]) / 3;
    }
  }
  x[pieces] = at[count - 1];
  return nb::make_tuple(knots, made);
}

}  // namespace

void bind_paths(nb::module_& m) {
  nb::class_<PyRoutes>(m, "Routes", "Routes through configurations along a path.")
      .def(
          nb::init<nb::object, nb::object, nb::object, nb::object, nb::object>(), nb::kw_only(),
          "x"_a, "q"_a, "weights"_a.none(), "turns"_a, "units"_a,
          nb::sig("def __init__(self, *, x: " SUPPLE_F64 ", q: " SUPPLE_F64 ", weights: " SUPPLE_F64
                  " | None, turns: " SUPPLE_F64 ", units: " SUPPLE_F64 ") -> None"))
      .def("set_steps", &PyRoutes::set_steps, "end"_a, "from_"_a, "to"_a,
           nb::sig("def set_steps(self, end: " SUPPLE_I32 ", from_: " SUPPLE_I32 ", to: " SUPPLE_I32
                   ") -> None"))
      .def("near_steps", &PyRoutes::near_steps, "reach"_a,
           nb::sig("def near_steps(self, reach: " SUPPLE_F64 ") -> tuple[" SUPPLE_I32
                   ", " SUPPLE_I32 ", " SUPPLE_I32 "]"))
      .def(
          "fewest_changes", &PyRoutes::fewest_changes, "begin"_a,
          nb::sig("def fewest_changes(self, begin: list[int]) -> list[tuple[int, " SUPPLE_I32 "]]"))
      .def("farthest", &PyRoutes::farthest, "layer"_a, "column"_a,
           nb::sig("def farthest(self, layer: int, column: int) -> tuple[int, int]"));
  m.def("interval_errors", &interval_errors_of, "solver"_a, "q"_a, "targets"_a,
        "Return the largest errors at places of intervals, and their largest second differences.",
        nb::sig("def interval_errors(solver: Solver, q: " SUPPLE_F64 ", targets: " SUPPLE_F64
                ") -> tuple[" SUPPLE_F64 ", " SUPPLE_F64 "]"));
  m.def("apart", &apart, "q"_a, "known"_a, "turns"_a, "distance"_a,
        "Return the indices of configurations far from each other and from known ones.",
        nb::sig("def apart(q: " SUPPLE_F64 ", known: " SUPPLE_F64 ", turns: " SUPPLE_F64
                ", distance: float) -> " SUPPLE_I32));
  m.def("nearest_pairs", &nearest_pairs, "before"_a, "after"_a, "sides_before"_a, "sides_after"_a,
        "turns"_a, "jump"_a, "Return the nearest solutions (R, k) at the next place, or -1.",
        nb::sig("def nearest_pairs(before: " SUPPLE_F64 ", after: " SUPPLE_F64
                ", sides_before: " SUPPLE_F64 ", sides_after: " SUPPLE_F64 ", turns: " SUPPLE_F64
                ", jump: float) -> " SUPPLE_I32));
  m.def("targets_between", &targets_between, "x"_a, "numbers"_a, "rotations"_a, "turns"_a,
        "places"_a, "Return the targets (K, k) at places (K,) between those of a path.",
        nb::sig("def targets_between(x: " SUPPLE_F64 ", numbers: " SUPPLE_F64
                ", rotations: list[int], turns: " SUPPLE_F64 ", places: " SUPPLE_F64
                ") -> " SUPPLE_F64));
  m.def("spline_inside", &spline_inside, "s"_a, "q"_a, "slopes"_a, "lower"_a, "upper"_a,
        "Return the knots and coefficients of a spline through q that stays between limits.",
        nb::sig("def spline_inside(s: " SUPPLE_F64 ", q: " SUPPLE_F64 ", slopes: " SUPPLE_F64
                ", lower: " SUPPLE_F64 ", upper: " SUPPLE_F64 ") -> tuple[" SUPPLE_F64
                ", " SUPPLE_F64 "]"));
  bind_spec(m, "TrackSpec", "How configurations are tracked. See supple.paths.problem.",
            required("jump", &TrackSpec::jump), required("reach", &TrackSpec::reach),
            required("exact_position", &TrackSpec::exact_position),
            required("exact_rotation", &TrackSpec::exact_rotation),
            required("position_tolerance", &TrackSpec::position_tolerance),
            required("rotation_tolerance", &TrackSpec::rotation_tolerance),
            required("units", &TrackSpec::units), required("divisions", &TrackSpec::divisions),
            required("threads", &TrackSpec::threads));
  m.def("tracked", &tracked, "solver"_a, "q"_a, "targets"_a, "spec"_a,
        "Return the tracks (S + 1, K, n) of configurations (K, n) along a path.",
        nb::sig("def tracked(solver: Solver, q: " SUPPLE_F64 ", targets: " SUPPLE_F64
                ", spec: TrackSpec) -> " SUPPLE_F64));
}

}  // namespace supple
