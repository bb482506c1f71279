// Surfaces to stand on, and displacements that take feet out of boxes, for `supple.retargeting`.
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

constexpr double vertical = 1e-6;  // a face whose normal has a smaller vertical part is a wall
constexpr double infinity = std::numeric_limits<double>::infinity();

// Reads boxes (b, 15).
std::vector<TerrainBox> boxes_in(nb::handle boxes) {
  static_assert(sizeof(TerrainBox) == 15 * sizeof(double));
  const std::ptrdiff_t count = rows_of_array(boxes);
  const double* const from = data_in<double>(boxes, NPY_DOUBLE, 15 * count, "boxes");
  std::vector<TerrainBox> made(count);
  for (std::ptrdiff_t k = 0; k < count; ++k) std::copy_n(from + 15 * k, 15, &made[k].R[0][0]);
  return made;
}

// Computes the height and the normal of a box's upper side at (x, y); -inf and zero beside the box.
double top_of(const TerrainBox& box, double x, double y, double* normal) {
  const double level[] = {x - box.center[0], y - box.center[1]};
  const double* const half = box.half;
  std::fill_n(normal, 3, 0.0);
  const double reach = half[0] * half[0] + half[1] * half[1] + half[2] * half[2];
  if (!(level[0] * level[0] + level[1] * level[1] <= reach * (1 + vertical))) return -infinity;
  // Where the vertical line enters and leaves the box, along z from its center.
  double leave = infinity, enter = -infinity;
  int axis = 0;
  for (int i = 0; i < 3; ++i) {
    const double start = box.R[0][i] * level[0] + box.R[1][i] * level[1], way = box.R[2][i];
    if (std::abs(way) < vertical) {  // parallel to these faces
      if (!(std::abs(start) <= half[i])) return -infinity;
      continue;
    }
    const double side = way < 0 ? -1 : 1;
    const double last = (half[i] - side * start) / std::abs(way);
    if (last < leave) leave = last, axis = i;
    enter = std::max(enter, (-half[i] - side * start) / std::abs(way));
  }
  if (!(leave > enter)) return -infinity;
  const double side = box.R[2][axis] < 0 ? -1 : 1;
  for (int k = 0; k < 3; ++k) normal[k] = side * box.R[k][axis];
  return leave + box.center[2];
}

// Returns the height at (x, y) of the plane that is z = 0 in the axes at a pose (4, 4).
double height_of(const double* pose, double x, double y) {
  const double slope_x = pose[2] / pose[10], slope_y = pose[6] / pose[10];
  return pose[11] - ((x - pose[3]) * slope_x + (y - pose[7]) * slope_y);
}

nb::object surfaces(nb::handle planes, nb::handle boxes, nb::handle points) {
  const std::ptrdiff_t p = rows_of_array(planes), n = rows_of_array(points);
  const double* const plane = data_in<double>(planes, NPY_DOUBLE, 16 * p, "planes");
  const std::vector<TerrainBox> box = boxes_in(boxes);
  const std::ptrdiff_t count = p + std::ptrdiff_t(box.size());
  const double* const at = data_in<double>(points, NPY_DOUBLE, 3 * n, "points");
  const npy_intp shape[] = {count, n, 3};
  nb::object heights = new_array(NPY_DOUBLE, 2, shape), normals = new_array(NPY_DOUBLE, 3, shape);
  double* const height = data_of<double>(heights);
  double* const normal = data_of<double>(normals);
  for (std::ptrdiff_t k = 0; k < count; ++k) {
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      const double *const own = at + 3 * i, *const pose = plane + 16 * k;
      double* const up = normal + 3 * (k * n + i);
      if (k < p) {
        height[k * n + i] = height_of(pose, own[0], own[1]);
        for (int j = 0; j < 3; ++j) up[j] = pose[4 * j + 2];
      } else {
        height[k * n + i] = top_of(box[k - p], own[0], own[1], up);
      }
    }
  }
  return nb::make_tuple(heights, normals);
}

nb::object height_below(nb::handle planes, nb::handle boxes, nb::handle points, double inside) {
  const std::ptrdiff_t p = rows_of_array(planes), n = rows_of_array(points);
  const double* const plane = data_in<double>(planes, NPY_DOUBLE, 16 * p, "planes");
  const std::vector<TerrainBox> box = boxes_in(boxes);
  const double* const at = data_in<double>(points, NPY_DOUBLE, 3 * n, "points");
  const npy_intp shape[] = {n};
  nb::object made = new_array(NPY_DOUBLE, 1, shape);
  double* const to = data_of<double>(made);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const double* const own = at + 3 * i;
    double below = -infinity, lowest = 0, normal[3];
    const auto consider = [&](double height) {
      if (!(height > -infinity)) return;
      lowest = std::min(lowest, height);
      if (height <= own[2] + inside) below = std::max(below, height);
    };
    for (std::ptrdiff_t k = 0; k < p; ++k) consider(height_of(plane + 16 * k, own[0], own[1]));
    for (const TerrainBox& one : box) consider(top_of(one, own[0], own[1], normal));
    to[i] = below > -infinity ? below : lowest;
  }
  return made;
}

nb::object rise(nb::handle planes, nb::handle poses, nb::handle points, nb::handle clear) {
  const std::ptrdiff_t p = rows_of_array(planes), k = rows_of_array(poses),
                       n = rows_of_array(points);
  const double* const plane = data_in<double>(planes, NPY_DOUBLE, 16 * p, "planes");
  const double* const pose = data_in<double>(poses, NPY_DOUBLE, 16 * k, "poses");
  const double* const point = data_in<double>(points, NPY_DOUBLE, 3 * n, "points");
  const double* const least = data_in<double>(clear, NPY_DOUBLE, k, "clear");
  const npy_intp shape[] = {k};
  nb::object made = new_array(NPY_DOUBLE, 1, shape);
  double* const to = data_of<double>(made);
  for (std::ptrdiff_t i = 0; i < k; ++i) {
    const double* const own = pose + 16 * i;
    to[i] = 0;
    for (std::ptrdiff_t j = 0; j < p; ++j) {
      const double* const T = plane + 16 * j;
      double up[3], above = 0, lowest = infinity;  // the normal in the axes of the body
      for (int a = 0; a < 3; ++a) {
        up[a] = own[a] * T[2] + own[4 + a] * T[6] + own[8 + a] * T[10];
        above += (own[4 * a + 3] - T[4 * a + 3]) * T[4 * a + 2];
      }
      for (std::ptrdiff_t q = 0; q < n; ++q) {
        const double* const x = point + 3 * q;
        lowest = std::min(lowest, x[0] * up[0] + x[1] * up[1] + x[2] * up[2]);
      }
      to[i] = std::max(to[i], least[i] - (lowest + above) / T[10]);
    }
  }
  return made;
}

// Adds to `out` the displacement that takes a body with points (count, 3) at a pose (4, 4) out of a
// box.
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
  constexpr double none = -infinity;
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
  double least = infinity;
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
  const std::ptrdiff_t k = rows_of_array(poses), n = rows_of_array(points);
  const std::vector<TerrainBox> box = boxes_in(boxes);
  const double* const pose = data_in<double>(poses, NPY_DOUBLE, 16 * k, "poses");
  const double* const point = data_in<double>(points, NPY_DOUBLE, 3 * n, "points");
  const double* const margins = data_in<double>(margin, NPY_DOUBLE, k, "margin");
  const npy_intp shape[] = {k, 3};
  nb::object made = new_array(NPY_DOUBLE, 2, shape);
  double* const out = data_of<double>(made);
  std::fill_n(out, 3 * k, 0.0);
  for (std::ptrdiff_t i = 0; i < k; ++i) {
    for (const TerrainBox& one : box) {
      leave_box(one, pose + 16 * i, point, int(n), margins[i], longer, lowest, out + 3 * i);
    }
  }
  return made;
}

}  // namespace

#define SUPPLE_DOUBLES "numpy.typing.NDArray[numpy.float64]"

void bind_terrain(nb::module_& m) {
  m.attr("VERTICAL_PART") = vertical;
  m.def("surfaces", &surfaces, "planes"_a, "boxes"_a, "points"_a,
        "Return the heights (s, n) of surfaces at points (n, 3), and their normals (s, n, 3).",
        nb::sig("def surfaces(planes: " SUPPLE_DOUBLES ", boxes: " SUPPLE_DOUBLES
                ", points: " SUPPLE_DOUBLES ") -> tuple[" SUPPLE_DOUBLES ", " SUPPLE_DOUBLES "]"));
  m.def("height_below", &height_below, "planes"_a, "boxes"_a, "points"_a, "inside"_a,
        "Return the height (n,) of the highest surface at or below points (n, 3).",
        nb::sig("def height_below(planes: " SUPPLE_DOUBLES ", boxes: " SUPPLE_DOUBLES
                ", points: " SUPPLE_DOUBLES ", inside: float) -> " SUPPLE_DOUBLES));
  m.def("rise", &rise, "planes"_a, "poses"_a, "points"_a, "clear"_a,
        "Return how far bodies (k,) must rise to be clear of planes.",
        nb::sig("def rise(planes: " SUPPLE_DOUBLES ", poses: " SUPPLE_DOUBLES
                ", points: " SUPPLE_DOUBLES ", clear: " SUPPLE_DOUBLES ") -> " SUPPLE_DOUBLES));
  m.def("way_out", &way_out, "boxes"_a, "poses"_a, "points"_a, "margin"_a, "longer"_a, "lowest"_a,
        "Return displacements (k, 3) that take bodies out of boxes.",
        nb::sig("def way_out(boxes: " SUPPLE_DOUBLES ", poses: " SUPPLE_DOUBLES
                ", points: " SUPPLE_DOUBLES ", margin: " SUPPLE_DOUBLES
                ", longer: float, lowest: float) -> " SUPPLE_DOUBLES));
}

}  // namespace supple
