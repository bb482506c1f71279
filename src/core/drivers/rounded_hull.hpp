// A convex hull of a few corners, padded (rounded) so that it contains many points.
//
// The point farthest from the hull of the corners so far becomes the next corner. A distance from a
// hull only falls while corners are added: earlier distances are upper bounds, and only points with
// the largest bounds are computed again.
#pragma once

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

#include "supple/collision/gjk.hpp"

namespace supple {

struct RoundedHull {
  std::vector<int> corner;  // indices of points
  double padding;           // [m]: no point is farther than this from the hull of the corners
};

// Adds corners to the given ones until all `count` points (count, 3) are within `close` of their
// hull, or there are `most` corners.
inline RoundedHull rounded_hull(int count, const double* point, std::vector<int> corner, int most,
                                double close) {
  struct Candidate {
    double bound;  // [m]: the point is not farther from the hull
    int index;
    std::size_t corners;  // number of corners for which the bound was computed exactly

    bool operator<(const Candidate& other) const {
      return bound != other.bound ? bound < other.bound : index > other.index;
    }
  };
  std::vector<double> vertex;  // in blocks
  int corners = 0;
  double size = 0;
  for (int i = 0; i < 3 * count; ++i) size = std::max(size, std::abs(point[i]));
  const auto add = [&](int i) {
    const int place = corners % vertex_block, begin = vertex_numbers(corners);
    corners += 1;
    vertex.resize(vertex_numbers(corners));
    double* const block = vertex.data() + (place ? begin - 3 * vertex_block : begin);
    for (int k = 0; k < 3; ++k) {
      // The rest of the block is filled up with copies.
      std::fill(block + k * vertex_block + place, block + (k + 1) * vertex_block, point[3 * i + k]);
    }
  };
  for (const int i : corner) add(i);
  const auto vector_at = [&](int i) {
    return Vec3<double>{point[3 * i], point[3 * i + 1], point[3 * i + 2]};
  };
  const Pose<double> origin{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {0, 0, 0}};
  const auto distance = [&](int i) {
    Shape<double> at{ShapeKind::sphere, 0, {0, 0, 0}, 0, nullptr, 0, origin};
    const Shape<double> hull{ShapeKind::hull, 0,        {0, 0, 0}, corners,
                             vertex.data(),   2 * size, origin};
    at.at.p = vector_at(i);
    Contact<double> found;
    return nearest_of_cores(at, hull, found) ? found.distance : 0.0;
  };
  std::vector<Candidate> first;
  for (int i = 0; i < count; ++i) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const int k : corner) {
      const Vec3<double> apart = vector_at(i) - vector_at(k);
      nearest = std::min(nearest, dot(apart, apart));
    }
    if (nearest > 0) first.push_back({std::sqrt(nearest), i, 0});
  }
  std::priority_queue<Candidate> queue({}, std::move(first));
  while (!queue.empty()) {
    Candidate top = queue.top();
    queue.pop();
    if (top.corners < corner.size()) {
      top.bound = std::min(top.bound, distance(top.index));
      top.corners = corner.size();
      if (top.bound > 0) queue.push(top);
    } else if (top.bound <= close || int(corner.size()) >= most) {
      return {std::move(corner), top.bound};
    } else {
      corner.push_back(top.index);
      add(top.index);
    }
  }
  return {std::move(corner), 0.0};
}

}  // namespace supple
