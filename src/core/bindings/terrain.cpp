// Ways of feet out of boxes, for `supple.retargeting`.
#define NO_IMPORT_ARRAY
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"

namespace supple {

namespace {

using namespace nb::literals;

// A box: its rotation by rows, its center [m] and half of its edges [m].
struct TerrainBox {
  double R[3][3], center[3], half[3];
};

// Adds to `out` the way of a body with points (count, 3) at a pose (4, 4) out of a box.
void leave_box(const TerrainBox& box, const double* pose, const double* points, int count,
               double margin, double longer, double lowest, double* out) {
  double turned[3][3], moved[3], room[3];  // in the axes of the box
  for (int i = 0; i < 3; ++i) {
    room[i] = box.half[i] + margin;
    moved[i] = 0;
    for (int j = 0; j < 3; ++j) turned[i][j] = 0;
    for (int k = 0; k < 3; ++k) {
      moved[i] += box.R[k][i] * (pose[4 * k + 3] + out[k] - box.center[k]);
      for (int j = 0; j < 3; ++j) turned[i][j] += box.R[k][i] * pose[4 * k + j];
    }
  }
  constexpr double none = -std::numeric_limits<double>::infinity();
  double way[2][3] = {{none, none, none}, {none, none, none}};  // to the upper and lower faces
  for (int p = 0; p < count; ++p) {
    double own[3];
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      const double* const at = points + 3 * p;
      own[i] = moved[i] + turned[i][0] * at[0] + turned[i][1] * at[1] + turned[i][2] * at[2];
      inside = inside && std::abs(own[i]) < room[i];
    }
    if (!inside) continue;
    for (int i = 0; i < 3; ++i) {
      way[0][i] = std::max(way[0][i], room[i] - own[i]);
      way[1][i] = std::max(way[1][i], room[i] + own[i]);
    }
  }
  if (way[0][0] == none) return;
  const auto exits = [&](int side, int i) { return (side ? -1 : 1) * box.R[2][i] > lowest; };
  double least = std::numeric_limits<double>::infinity();
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < 3; ++i) {
      if (exits(side, i)) least = std::min(least, way[side][i]);
    }
  }
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < 3; ++i) {
      if (!exits(side, i)) continue;
      const double share = std::clamp((longer - way[side][i] / least) / (longer - 1), 0.0, 1.0);
      const double by = (side ? -1 : 1) * share * way[side][i];
      for (int k = 0; k < 3; ++k) out[k] += by * box.R[k][i];
    }
  }
}

nb::object way_out(nb::handle boxes, nb::handle poses, nb::handle points, nb::handle margin,
                   double longer, double lowest) {
  const std::ptrdiff_t k = rows_of_array(poses), b = rows_of_array(boxes),
                       n = rows_of_array(points);
  const double* const box = data_in<double>(boxes, NPY_DOUBLE, 15 * b, "boxes");
  const double* const pose = data_in<double>(poses, NPY_DOUBLE, 16 * k, "poses");
  const double* const point = data_in<double>(points, NPY_DOUBLE, 3 * n, "points");
  const double* const margins = data_in<double>(margin, NPY_DOUBLE, k, "margin");
  const npy_intp shape[] = {k, 3};
  nb::object made = new_array(NPY_DOUBLE, 2, shape);
  double* const out = data_of<double>(made);
  std::fill_n(out, 3 * k, 0.0);
  for (std::ptrdiff_t i = 0; i < k; ++i) {
    for (std::ptrdiff_t j = 0; j < b; ++j) {
      TerrainBox own;
      static_assert(sizeof own == 15 * sizeof(double));
      std::copy_n(box + 15 * j, 15, &own.R[0][0]);
      leave_box(own, pose + 16 * i, point, int(n), margins[i], longer, lowest, out + 3 * i);
    }
  }
  return made;
}

}  // namespace

void bind_terrain(nb::module_& m) {
  m.def("way_out", &way_out, "boxes"_a, "poses"_a, "points"_a, "margin"_a, "longer"_a, "lowest"_a,
        "Return displacements (k, 3) that take bodies out of boxes.",
        nb::sig("def way_out(boxes: numpy.typing.NDArray[numpy.float64], poses: "
                "numpy.typing.NDArray[numpy.float64], points: numpy.typing.NDArray[numpy.float64], "
                "margin: numpy.typing.NDArray[numpy.float64], longer: float, lowest: float) -> "
                "numpy.typing.NDArray[numpy.float64]"));
}

}  // namespace supple
