// A convex function of directions, such as a height (reach_table.cpp), on rings around an axis.
//
// The vertices of a prism around z with `azimuths` sides are the directions of the grid. The
// vertices are on rings of equal z and radius: on the top from its center to its edge, down the
// sides, and on the bottom from its edge to its center. On the side and on each face, a vector is a
// combination of four vertices with positive factors. A convex function h with h(s d) = s h(d) for
// s > 0 is at most the same combination of its values there, so that the interpolation is an upper
// bound. On a ring, a rotation about z by a multiple of the angle between two vertices is a shift.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "supple/math/se3.hpp"

namespace supple {

inline constexpr int ring_azimuths = 192;  // vertices on a ring
inline constexpr int ring_cells = 24;      // cells from the center of the top to its edge
inline const int ring_count = 4 * ring_cells + 1;
inline constexpr double ring_pi = 3.14159265358979323846;
inline const double ring_angle = 2 * ring_pi / ring_azimuths;

// The height of an unbounded set, and the value above which a height is a mean that includes an
// infinite one.
inline constexpr double infinite_height = 1e200, unbounded_height = 1e100;

// Cosines and sines of the azimuths of a ring, minus an angle; the first one again at the end.
struct Azimuths {
  std::vector<double> cosine, sine;

  explicit Azimuths(double angle) : cosine(ring_azimuths + 1), sine(ring_azimuths + 1) {
    for (int i = 0; i <= ring_azimuths; ++i) {
      cosine[i] = std::cos(ring_angle * (i % ring_azimuths) - angle);
      sine[i] = std::sin(ring_angle * (i % ring_azimuths) - angle);
    }
  }
};

// Radius and z of a ring.
struct Ring {
  double radius, z;

  explicit Ring(int number) {
    const double at = double(number) / ring_cells;
    radius = std::min({1.0, at, 4 - at});
    z = std::clamp(2 - at, -1.0, 1.0);
  }
};

using RingValues = std::vector<double>;  // (ring_azimuths,)

inline const Azimuths ring_vertices(0);
inline const double ring_factor = 1 / std::sin(ring_angle);

// Returns the number of the vertex before the azimuth of (x, y), or of one next to it.
inline int about_azimuth(double x, double y) {
  const double across = std::abs(x), up = std::abs(y), large = std::max(across, up);
  const double t = large > 0 ? std::min(across, up) / large : 0;
  // atan(t) with an error below 0.004
  double angle = t * (0.25 * ring_pi + 0.273 * (1 - t));
  if (up > across) angle = 0.5 * ring_pi - angle;
  if (x < 0) angle = ring_pi - angle;
  if (y < 0) angle = 2 * ring_pi - angle;
  return std::min(int(angle * (1 / ring_angle)), ring_azimuths - 1);
}

// Values on the rings. If the function is symmetric about the axis, one value of each ring is kept.
class RingGrid {
 public:
  explicit RingGrid(bool is_symmetric = false) : width_(is_symmetric ? 1 : ring_azimuths + 1) {}

  bool is_complete() const { return rings() == ring_count; }
  int rings() const { return int(value_.size()) / width_; }

  // Appends the values of a ring.
  void append(const RingValues& values) {
    value_.reserve(ring_count * width_);
    value_.push_back(values[0]);
    if (width_ == 1) return;
    value_.insert(value_.end(), values.begin() + 1, values.end());
    value_.push_back(values[0]);
  }

  // Returns an upper bound on the function at any vector.
  double operator()(const Vec3<double>& d) const {
    if (width_ == 1) return at(std::sqrt(d.x * d.x + d.y * d.y), d.z, 0, 0);
    // (x, y) = near e[i] + far e[i + 1] with the vertices e of the unit circle
    const double *const c = ring_vertices.cosine.data(), *const s = ring_vertices.sine.data();
    int i = about_azimuth(d.x, d.y);
    if (d.y * c[i] < d.x * s[i]) {
      i = i > 0 ? i - 1 : ring_azimuths - 1;
    } else if (d.x * s[i + 1] < d.y * c[i + 1]) {
      i = i + 1 < ring_azimuths ? i + 1 : 0;
    }
    const double near = ring_factor * std::max(d.x * s[i + 1] - d.y * c[i + 1], 0.0);
    const double far = ring_factor * std::max(d.y * c[i] - d.x * s[i], 0.0);
    const double radius = near + far;
    return at(radius, d.z, i, radius > 0 ? far / radius : 0);
  }

 private:
  // Interpolates at a point of the prism, scaled: its z, the distance of its side from the axis,
  // and its place on the side, which is the part b of the way from vertex i to the next one.
  double at(double radius, double z, int i, double b) const {
    const double height = std::abs(z), length = std::max(radius, height);
    if (!(length > 0)) return 0;
    double ring = radius < height ? radius / length : 2 - z / length;
    if (radius < height && z < 0) ring = 4 - ring;
    ring *= ring_cells;
    const int number = std::min(int(ring), ring_count - 2), other = width_ > 1;
    const double a = ring - number;
    const double* const p = value_.data() + number * width_ + i;
    const double* const next = p + width_;
    // Products, not differences: a height may be infinite.
    const double upper = (1 - b) * p[0] + b * p[other];
    const double lower = (1 - b) * next[0] + b * next[other];
    const double between = (1 - a) * upper + a * lower;
    return between < unbounded_height ? length * between : infinite_height;
  }

  int width_;
  std::vector<double> value_;  // (ring_count, width_)
};

// Replaces each value of a ring by the largest of it and the `before` values before it.
inline void keep_largest(RingValues& value, int before) {
  for (int width = 1; before > 0; width *= 2) {  // each value is the largest of `width` ones
    const int shift = std::min(width, before);
    const RingValues old = value;
    for (int i = 0; i < ring_azimuths; ++i) {
      value[i] = std::max(old[i], old[(i + ring_azimuths - shift) % ring_azimuths]);
    }
    before -= shift;
  }
}

}  // namespace supple
