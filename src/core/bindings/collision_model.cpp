#define NO_IMPORT_ARRAY
#include "bindings/collision_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "supple/collision/placed.hpp"

namespace supple {
namespace {

// Moves a point toward the farthest of many spheres in shrinking steps, which approaches the center
// of the smallest sphere around them (Bădoiu & Clarkson 2003). Returns the radius of the sphere
// around this point that contains all spheres.
template <class Sphere>
double enclose(int count, Sphere&& sphere, double* center) {
  std::fill_n(center, 3, 0.0);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 3; ++k) center[k] += sphere(i)[k] / count;
  }
  double best[3], least = unbounded * 2;
  for (int round = 1; round <= 200; ++round) {
    int farthest = 0;
    double most = -1;
    for (int i = 0; i < count; ++i) {
      const std::array<double, 4> s = sphere(i);
      const double r = std::hypot(s[0] - center[0], s[1] - center[1], s[2] - center[2]) + s[3];
      if (r > most) most = r, farthest = i;
    }
    if (most < least) least = most, std::copy_n(center, 3, best);
    const std::array<double, 4> s = sphere(farthest);
    for (int k = 0; k < 3; ++k) center[k] += (s[k] - center[k]) / (round + 1);
  }
  std::copy_n(best, 3, center);
  return least * (1 + 1e-14);
}

// Writes a pose (4, 4) as columns and position.
void read_fixed_pose(const double* pose, FixedShape<double>& shape) {
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 3; ++c) shape.rotation[3 * c + r] = pose[4 * r + c];
    shape.position[r] = pose[4 * r + 3];
  }
}

// Shifts the origin of a shape to `center`, a point in its own frame.
void recenter(const double* center, FixedShape<double>& shape) {
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 3; ++c) shape.position[r] += shape.rotation[3 * c + r] * center[c];
  }
}

void check_finite(const char* field, int count, const double* numbers, bool positive) {
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(numbers[i])) throw_field_error(field, "finite", numbers[i]);
    if (positive && numbers[i] < 0) throw_field_error(field, "at least 0", numbers[i]);
  }
}

}  // namespace

OwnedCollisionModel::OwnedCollisionModel(const OwnedChain<double>& chain, const CollisionSpec& spec)
    : chain_(chain) {
  check_finite("pose", 16 * spec.shapes, spec.pose, false);
  check_finite("size", 3 * spec.shapes, spec.size, true);
  check_finite("radius", spec.shapes, spec.radius, true);
  check_finite("speed", spec.shapes, spec.speed, true);
  for (int i = 0; i < spec.shapes; ++i) {
    check_index("kind", 0, int(ShapeKind::hull) + 1, spec.kind[i]);
    check_index("frame", -1, int(chain_.frames.size()), spec.frame[i]);
  }
  for (int k = 0; k < 2 * spec.pairs; ++k) check_index("pairs", 0, spec.shapes, spec.pair[k]);
  add_shapes(spec);
  add_bodies(spec);
  add_pairs(spec);
  const int moving = int(std::count_if(bodies_.begin(), bodies_.end(),
                                       [](const auto& body) { return body.frame >= 0; }));
  view_ = {.chain = chain_.view(),
           .shapes = spec.shapes,
           .spheres = int(shape_of_.size()),
           .bodies = int(bodies_.size()),
           .moving = moving,
           .groups = int(groups_.size()),
           .pairs = spec.pairs,
           .shape = shapes_.data(),
           .body = bodies_.data(),
           .order = order_.data(),
           .shape_of = shape_of_.data(),
           .sphere = spheres_.data(),
           .sphere_stride = int(shape_of_.size()) + sphere_padding,
           .group = groups_.data(),
           .run = runs_.data(),
           .single = singles_.data(),
           .result = result_.data(),
           .between = between_.data(),
           .pair = pairs_.data(),
           .pair_group = pair_group_.data(),
           .allowed = allowed_.data()};
}

void OwnedCollisionModel::add_shapes(const CollisionSpec& spec) {
  const int end = spec.shapes > 0 ? spec.first_vertex[spec.shapes] : 0;
  check_finite("vertices", 3 * end, spec.vertices, false);
  std::size_t numbers = 0;
  for (int i = 0; i < spec.shapes; ++i) {
    numbers += vertex_numbers(spec.first_vertex[i + 1] - spec.first_vertex[i]);
  }
  vertices_.assign(numbers, 0.0);
  double* block = vertices_.data();
  center_.assign(3 * spec.shapes, 0.0);
  for (int i = 0; i < spec.shapes; ++i) {
    const ShapeKind kind = ShapeKind(spec.kind[i]);
    const double* const size = spec.size + 3 * i;
    const double r = size[0], length = size[1];
    FixedShape<double> made{.kind = kind,
                            .radius = spec.radius[i],
                            .half = {},
                            .vertices = 0,
                            .vertex = nullptr,
                            .bound = 0,
                            .rotation = {},
                            .position = {},
                            .speed = spec.speed[i],
                            .body = -1,
                            .sphere = -1};
    read_fixed_pose(spec.pose + 16 * i, made);
    switch (kind) {
      case ShapeKind::sphere:
        made.radius = made.bound = r;
        break;
      case ShapeKind::capsule:
        made.radius = r, made.half[2] = length / 2, made.bound = r + length / 2;
        break;
      case ShapeKind::box:
        made.radius = 0;
        for (int k = 0; k < 3; ++k) made.half[k] = size[k] / 2;
        made.bound = std::hypot(made.half[0], made.half[1], made.half[2]);
        break;
      case ShapeKind::cylinder:
        made.radius = 0, made.half[0] = r, made.half[2] = length / 2;
        made.bound = std::hypot(r, length / 2);
        break;
      case ShapeKind::half_space:
        made.radius = 0, made.bound = unbounded;
        break;
      case ShapeKind::hull: {
        const int first = spec.first_vertex[i], count = spec.first_vertex[i + 1] - first;
        check_at_least("the number of vertices of a hull", 1, count);
        check_index("first_vertex", 0, end - count + 1, first);
        const double* const points = spec.vertices + 3 * first;
        double* const center = center_.data() + 3 * i;
        const auto vertex = [&](int v) {
          return std::array{points[3 * v], points[3 * v + 1], points[3 * v + 2], 0.0};
        };
        made.bound = enclose(count, vertex, center) + made.radius;
        made.vertices = count, made.vertex = block;
        for (int v = 0; v < vertex_numbers(count) / 3; ++v) {
          double* const to = block + v / vertex_block * vertex_block * 3 + v % vertex_block;
          for (int k = 0; k < 3; ++k) {
            to[k * vertex_block] = points[v < count ? 3 * v + k : k] - center[k];
          }
        }
        block += vertex_numbers(count);
        recenter(center, made);
        break;
      }
    }
    made.bound *= 1 + 1e-14;
    shapes_.push_back(made);
  }
}

void OwnedCollisionModel::bound(Body<double>& body) const {
  const int first = body.shapes[0], count = body.shapes[1] - first;
  const auto around = [&](int k) {
    const FixedShape<double>& s = shapes_[order_[first + k]];
    return std::array{s.position[0], s.position[1], s.position[2], s.bound};
  };
  if (count == 1) {  // as each shape of the world
    std::copy_n(shapes_[order_[first]].position, 3, body.center);
    body.bound = shapes_[order_[first]].bound;
    return;
  }
  body.bound = enclose(count, around, body.center);
}

void OwnedCollisionModel::add_bodies(const CollisionSpec& spec) {
  std::map<int, std::vector<int>> by_frame;
  std::vector<int> of_world;
  for (int i = 0; i < spec.shapes; ++i) {
    const int frame = spec.frame[i];
    if (frame >= 0 && chain_.frames[frame].joint >= 0) {
      by_frame[frame].push_back(i);
      continue;
    }
    of_world.push_back(i);
    if (frame < 0) continue;
    // A frame that no joint moves: its shapes are shapes of the world.
    const Frame<double>& at = chain_.frames[frame];
    const Pose<double> base{constant_rotation<double>(at.rotation),
                            constant_vector<double>(at.position)},
        own = pose_of(shapes_[i]);
    const Vec3<double> columns[] = {base.R * own.R.x, base.R * own.R.y, base.R * own.R.z,
                                    base.p + base.R * own.p};
    for (int c = 0; c < 4; ++c) {
      double* const to = c < 3 ? shapes_[i].rotation + 3 * c : shapes_[i].position;
      to[0] = columns[c].x, to[1] = columns[c].y, to[2] = columns[c].z;
    }
  }
  const auto add = [&](int frame, const std::vector<int>& shapes) {
    Body<double> body{.frame = frame,
                      .center = {},
                      .bound = 0,
                      .spheres = {int(shape_of_.size()), 0},
                      .shapes = {int(order_.size()), 0}};
    for (const int i : shapes) {
      shapes_[i].body = int(bodies_.size());
      order_.push_back(i);
      if (frame < 0 || shapes_[i].kind != ShapeKind::sphere) continue;
      shapes_[i].sphere = int(shape_of_.size());
      shape_of_.push_back(i);
    }
    body.spheres[1] = int(shape_of_.size());
    body.shapes[1] = int(order_.size());
    bound(body);
    bodies_.push_back(body);
  };
  for (const auto& [frame, shapes] : by_frame) add(frame, shapes);
  for (const int i : of_world) add(-1, {i});
  const int stride = int(shape_of_.size()) + sphere_padding;
  spheres_.assign(4 * stride, 0.0);
  for (std::size_t s = 0; s < shape_of_.size(); ++s) {
    const FixedShape<double>& shape = shapes_[shape_of_[s]];
    for (int k = 0; k < 3; ++k) spheres_[k * stride + s] = shape.position[k];
    spheres_[3 * stride + s] = shape.radius;
  }
}

void OwnedCollisionModel::add_pairs(const CollisionSpec& spec) {
  pairs_.assign(spec.pair, spec.pair + 2 * spec.pairs);
  pair_group_.assign(spec.pairs, -1);
  std::map<std::tuple<int, int, double>, std::vector<int>> by_bodies;
  for (int k = 0; k < spec.pairs; ++k) {
    const int i = pairs_[2 * k], j = pairs_[2 * k + 1];
    int a = shapes_[i].body, b = shapes_[j].body;
    const auto moves = [&](int body) { return bodies_[body].frame >= 0; };
    if (a == b || (!moves(a) && !moves(b)))
      throw_field_error("pairs", "pairs of shapes that some joint moves relative to each other", k);
    if (shapes_[i].kind == ShapeKind::half_space && shapes_[j].kind == ShapeKind::half_space)
      throw_field_error("pairs", "pairs of shapes of which one at most is a half-space", k);
    if (!moves(a) || (moves(b) && a > b)) std::swap(a, b);
    const double allowed = spec.allowed ? spec.allowed[k] : unbounded;
    if (std::isnan(allowed)) throw_field_error("allowed", "a number", allowed);
    by_bodies[{b, a, std::min(allowed, unbounded)}].push_back(k);
  }
  for (auto& [key, pairs] : by_bodies) {
    allowed_.push_back(std::get<2>(key));
    groups_.push_back({.first = std::get<1>(key),
                       .second = std::get<0>(key),
                       .runs = {int(runs_.size()), 0},
                       .singles = {int(singles_.size()), 0},
                       .joints = {int(between_.size()), 0}});
    add_group(std::move(pairs));
  }
}

void OwnedCollisionModel::add_group(std::vector<int> pairs) {
  PairGroup& group = groups_.back();
  // Joints that move only one of the two bodies, from the second body to the first.
  const auto joints_of = [&](int body) {
    std::vector<int> found;
    const int frame = bodies_[body].frame;
    if (frame < 0) return found;
    for (int s = chain_.frames[frame].support_begin; s < chain_.frames[frame].support_end; ++s) {
      found.push_back(chain_.support[s].joint);
    }
    return found;
  };
  const std::vector<int> of_first = joints_of(group.first), of_second = joints_of(group.second);
  const auto has = [](const std::vector<int>& all, int j) {
    return std::find(all.begin(), all.end(), j) != all.end();
  };
  for (auto j = of_second.rbegin(); j != of_second.rend(); ++j) {
    if (!has(of_first, *j)) between_.push_back({*j, -1});
  }
  for (const int j : of_first) {
    if (!has(of_second, j)) between_.push_back({j, 1});
  }
  group.joints[1] = int(between_.size());
  if (group.joints[0] == group.joints[1])
    throw_field_error("pairs", "pairs of shapes that some joint moves relative to each other",
                      pairs[0]);
  // Pairs in runs: other shape, whether the sphere is second in the pair, sphere, pair.
  std::vector<std::tuple<int, bool, int, int>> in_runs;
  for (const int k : pairs) {
    pair_group_[k] = int(groups_.size()) - 1;
    const int i = pairs_[2 * k], j = pairs_[2 * k + 1];
    const auto fits = [&](int sphere, int other) {
      return shapes_[sphere].sphere >= 0 && shapes_[other].kind != ShapeKind::hull;
    };
    if (fits(i, j)) {
      in_runs.emplace_back(j, false, shapes_[i].sphere, k);
    } else if (fits(j, i)) {
      in_runs.emplace_back(i, true, shapes_[j].sphere, k);
    } else {
      singles_.push_back({i, j, k});
    }
  }
  group.singles[1] = int(singles_.size());
  std::sort(in_runs.begin(), in_runs.end());
  for (std::size_t r = 0; r < in_runs.size(); ++r) {
    const auto [other, second, sphere, k] = in_runs[r];
    const bool continues = int(runs_.size()) > group.runs[0] && runs_.back().other == other &&
                           runs_.back().second == second && runs_.back().end == sphere;
    if (!continues) runs_.push_back({sphere, sphere, other, int(result_.size()), second});
    runs_.back().end = sphere + 1;
    result_.push_back(k);
  }
  group.runs[1] = int(runs_.size());
}

void OwnedCollisionModel::move(int shape, const double* pose) {
  check_index("shape", 0, int(shapes_.size()), shape);
  check_finite("pose", 16, pose, false);
  FixedShape<double>& moved = shapes_[shape];
  Body<double>& body = bodies_[moved.body];
  if (body.frame >= 0) throw_field_error("shape", "a shape of the world", shape);
  read_fixed_pose(pose, moved);
  recenter(center_.data() + 3 * shape, moved);
  bound(body);
}

}  // namespace supple
