#define NO_IMPORT_ARRAY
#include "bindings/module.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/specs.hpp"
#include "drivers/gil.hpp"
#include "drivers/spline.hpp"
#include "drivers/timing.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// Returns the data of an array (n,) or, with m, (n, m).
const double* checked(nb::handle given, npy_intp n, npy_intp m, const char* name) {
  const double* const data = contiguous_data(given, n, m);
  if (!data) {
    const std::string shape = std::to_string(n) + (m ? ", " + std::to_string(m) : ",");
    const std::string message =
        std::string(name) + " must be a C-contiguous float64 array of shape (" + shape + ")";
    throw nb::value_error(message.c_str());
  }
  return data;
}

// Returns the slopes (N, n) of the spline through q (N, n) at s (N,).
nb::object slopes(nb::handle s, nb::handle q, int width) {
  const npy_intp count = nb::len(s);
  if (count < 4) throw_field_error("s", "at least 4 entries long", count);
  const npy_intp shape[] = {count, width};
  nb::object made = new_array(NPY_DOUBLE, 2, shape);
  spline_slopes(int(count), width, checked(s, count, 0, "s"), checked(q, count, width, "q"),
                data_of<double>(made));
  return made;
}

// Returns the coefficients of the squared speed (timing.hpp), starting from the fastest of some
// positive coefficients `starts` (k, unknowns).
nb::object squared_speed(const Ints& first, const Ints& kinds, nb::handle basis, nb::handle weight,
                         nb::handle speed, nb::handle acceleration, nb::handle jerk,
                         nb::handle starts, int joints, int degree, double begin, double end) {
  const npy_intp points = npy_intp(first.size()), count = nb::len(starts);
  if (count < 1) throw_field_error("starts", "at least 1 entry long", count);
  const npy_intp unknowns = nb::len(nb::object(starts[0]));
  for (int each : first) {
    if (each < 0 || each + degree >= unknowns)
      throw_field_error("each entry of first", "from 0 to " + std::to_string(unknowns - degree - 1),
                        each);
  }
  if (kinds.size() != first.size())
    throw_field_error("kinds", "as long as first", npy_intp(kinds.size()));
  const int all = jerk.is_none() ? 1 : 3;
  for (int each : kinds) {
    if (each < 0 || each > all)
      throw_field_error("each entry of kinds", "from 0 to " + std::to_string(all), each);
  }
  const npy_intp shape[] = {unknowns};
  nb::object made = new_array(NPY_DOUBLE, 1, shape);
  double* const c = data_of<double>(made);
  const double* const given = checked(starts, count, unknowns, "starts");
  TimingSolver solver({
      .points = int(points),
      .unknowns = int(unknowns),
      .joints = joints,
      .degree = degree,
      .first = first.data(),
      .basis = checked(basis, points, 3 * (degree + 1), "basis"),
      .weight = checked(weight, points, 0, "weight"),
      .kinds = kinds.data(),
      .speed = checked(speed, points, 0, "speed"),
      .acceleration = checked(acceleration, points, 2 * joints, "acceleration"),
      .jerk = jerk.is_none() ? nullptr : checked(jerk, points, 3 * joints, "jerk"),
  });
  const Unlocked unlocked;
  solver.choose(int(count), given, begin, c);
  solver.solve(c, begin, end);
  return made;
}

}  // namespace

void bind_timing(nb::module_& m) {
  m.def("spline_slopes", &slopes, "s"_a, "q"_a, "width"_a,
        "Return the slopes (N, n) of the cubic spline through q (N, n) at s (N,), N >= 4.",
        nb::sig("def spline_slopes(s: " SUPPLE_ARRAY ", q: " SUPPLE_ARRAY
                ", width: int) -> " SUPPLE_ARRAY));
  m.def("squared_speed", &squared_speed, nb::kw_only(), "first"_a, "kinds"_a, "basis"_a, "weight"_a,
        "speed"_a, "acceleration"_a, "jerk"_a.none(), "starts"_a, "joints"_a, "degree"_a, "begin"_a,
        "end"_a,
        "Return the spline coefficients of the squared speed of the fastest motion along a path.",
        nb::sig("def squared_speed(*, first: collections.abc.Sequence[int]"
                ", kinds: collections.abc.Sequence[int], basis: " SUPPLE_ARRAY
                ", weight: " SUPPLE_ARRAY ", speed: " SUPPLE_ARRAY ", acceleration: " SUPPLE_ARRAY
                ", jerk: " SUPPLE_ARRAY " | None, starts: " SUPPLE_ARRAY
                ", joints: int, degree: int, begin: float, end: float) -> " SUPPLE_ARRAY));
}

}  // namespace supple
