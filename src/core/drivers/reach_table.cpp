// The height h(d) of a point is the support function of the set of positions that it reaches. This
// function is convex, and h(s d) = s h(d) for s > 0. For a point on a joint's body, the height
// follows from the heights hᵢ of the same point in the frame of the body:
//
//   h(d) = d·p + max hᵢ(M(q)ᵀ Rᵀ d)   over the joint's range
//
// with the pose (R, p) of the joint in its parent, and its motion M(q). So the heights are computed
// from the point to the base, and stored after each revolute joint for directions on rings around
// its axis, where the maximum is that of a sliding window. There are two approximations:
// interpolation between the directions of the grid, and between samples of an angle. Both give
// upper bounds, because a convex function is at most the mean of its values around a point. Joints
// that mimic another one are treated as independent, which can only increase the heights. Tuned
// constants are explained in docs/constants.md.
#include "drivers/reach_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "drivers/ring_grid.hpp"
#include "supple/robot/kinematics.hpp"

namespace supple {
namespace {

constexpr int cells = 32;  // cells of the grid along an edge of the cube of directions
constexpr double pi = ring_pi;

using Vec = Vec3<double>;

// A constant pose, followed by the motion of a joint about or along z.
struct Link {
  Pose<double> placement;
  bool revolute;
  double low, high;
};

// A point that is moved by a series of links.
struct Series {
  std::vector<Link> links;
  Vec point;
};

double norm(const Vec& v) { return std::hypot(v.x, v.y, v.z); }

Vec transform(const Pose<double>& T, const Vec& v) { return T.R * v + T.p; }

Pose<double> product(const Pose<double>& A, const Pose<double>& B) {
  return {{A.R * B.R.x, A.R * B.R.y, A.R * B.R.z}, transform(A, B.p)};
}

Pose<double> inverse(const Pose<double>& T) {
  const Rotation<double> R{
      {T.R.x.x, T.R.y.x, T.R.z.x}, {T.R.x.y, T.R.y.y, T.R.z.y}, {T.R.x.z, T.R.y.z, T.R.z.z}};
  return {R, R * (T.p * -1.0)};
}

Pose<double> pose_of(const double* R, const double* p) {
  return {{{R[0], R[1], R[2]}, {R[3], R[4], R[5]}, {R[6], R[7], R[8]}}, {p[0], p[1], p[2]}};
}

Pose<double> placement_of(const Joint<double>& joint) {
  if (joint.placement != Placement::twist) return pose_of(joint.rotation, joint.position);
  const double c = joint.rotation[0], s = joint.rotation[1];
  const double R[9] = {1, 0, 0, 0, c, s, 0, -s, c};
  return pose_of(R, joint.position);
}

// ---- heights of a series ------------------------------------------------------------------------

// Computes the heights of a point that is moved by a series of links, from the point to the base.
class Heights {
 public:
  explicit Heights(Series series) : series_(std::move(series)) {
    const auto& links = series_.links;
    for (const Link& link : links) {
      size_ += norm(link.placement.p);
      if (link.revolute) continue;
      for (double end : {link.low, link.high}) size_ += std::isfinite(end) ? std::abs(end) : 0;
    }
    size_ += norm(series_.point);
    at_ = int(links.size()) - 1;
    grids_.resize(links.size());
    skip();
  }

  bool is_complete() const { return at_ < 0; }

  // Computes some more heights.
  void advance() {
    if (grids_[at_].rings() == 0) {
      sweep_ = std::make_unique<Sweep>(series_.links[at_]);
      grids_[at_] = RingGrid(sweep_->is_full());
    }
    grids_[at_].append(turned(at_, Ring(grids_[at_].rings())));
    if (!grids_[at_].is_complete()) return;
    if (at_ + 1 < int(grids_.size())) grids_[at_ + 1] = RingGrid();
    --at_;
    skip();
  }

  // Returns the height along a vector, after all links, with a margin for rounding errors.
  double operator()(const Vec& d) const {
    const double found = height(0, d);
    return found < unbounded_height ? found + 1e-12 * size_ : infinite_height;
  }

  void release() { grids_.clear(); }

 private:
  // The angles of a revolute joint, as azimuths of directions that turn against it.
  struct Sweep {
    Azimuths first, last;  // azimuths at the beginning and at the end of the range
    int shifts;            // vertices of a ring in the range, without the first
    double excess;         // 1 / cos(β) - 1; 2 β is the largest angle between two samples

    explicit Sweep(const Link& link) : first(link.low), last(link.high) {
      const double range = link.high - link.low;
      shifts = std::min(int(range / ring_angle), ring_azimuths - 1);
      excess = 1 / std::cos(0.5 * std::min(range, ring_angle)) - 1;
    }
    bool is_full() const { return shifts == ring_azimuths - 1; }
  };

  // Heights along prismatic joints, and of a fixed point on a revolute joint, need no grid.
  bool needs_grid(int k) const {
    return series_.links[k].revolute && k + 1 < int(series_.links.size());
  }
  void skip() {
    while (at_ >= 0 && !needs_grid(at_)) --at_;
  }

  // The height of the point in the coordinates of link k's parent.
  double height(int k, const Vec& d) const {
    if (k == int(series_.links.size())) return dot(series_.point, d);
    const Link& link = series_.links[k];
    const Vec inside = into(link.placement.R, d);
    const double there = dot(link.placement.p, d);
    if (!link.revolute) {
      const double z = inside.z, end = z > 0 ? link.high : link.low;
      if (z != 0 && !std::isfinite(end)) return infinite_height;
      const double further = height(k + 1, inside);
      return further < unbounded_height ? there + (z == 0 ? 0 : z * end) + further
                                        : infinite_height;
    }
    const double turned = needs_grid(k) ? grids_[k](inside) : turned_point(link, inside);
    return turned < unbounded_height ? there + turned : infinite_height;
  }

  // max d·(Rz(θ) point)
  double turned_point(const Link& link, const Vec& d) const {
    const Vec& c = series_.point;
    const double A = d.x * c.x + d.y * c.y, B = d.y * c.x - d.x * c.y;
    const double middle = 0.5 * (link.low + link.high), half = 0.5 * (link.high - link.low);
    double away = std::atan2(B, A) - middle;
    away -= 2 * pi * std::round(away / (2 * pi));
    if (std::abs(away) <= half) return std::hypot(A, B) + d.z * c.z;
    const double end = middle + std::copysign(half, away);
    return A * std::cos(end) + B * std::sin(end) + d.z * c.z;
  }

  // max h(Rz(θ)ᵀ d) for the directions d of a ring, from samples of θ: the beginning of its range,
  // angles that follow in steps of the angle between neighboring directions, and the end of the
  // range. With the part z of d along the axis, a direction between two samples a and b is
  // d = wₐ a + w_b b - (w - 1) z  with
  // 1 <= w = wₐ + w_b <= 1 / cos(β)  where 2 β is the angle between them. So
  // h(d) <= w max(h(a), h(b)) + (w - 1) h(-z).
  RingValues turned(int k, const Ring& ring) const {
    const auto sampled = [&](const Azimuths& azimuth, int i) {
      const double r = ring.radius;
      return height(k + 1, {r * azimuth.cosine[i], r * azimuth.sine[i], ring.z});
    };
    RingValues largest(ring_azimuths);
    if (ring.radius == 0) {
      std::fill(largest.begin(), largest.end(), sampled(sweep_->first, 0));
      return largest;
    }
    for (int i = 0; i < ring_azimuths; ++i) largest[i] = sampled(sweep_->first, i);
    keep_largest(largest, sweep_->shifts);
    const double below = height(k + 1, {0, 0, -ring.z});
    for (int i = 0; i < ring_azimuths; ++i) {
      double& each = largest[i];
      if (!sweep_->is_full()) each = std::max(each, sampled(sweep_->last, i));
      each += sweep_->excess * std::max(each + below, 0.0);
      if (!(each < unbounded_height)) each = infinite_height;
    }
    return largest;
  }

  Series series_;
  double size_ = 0;
  int at_;                        // the link whose grid is being computed
  std::vector<RingGrid> grids_;   // around the axis of each link; empty if it is not needed
  std::unique_ptr<Sweep> sweep_;  // the sweep of link at_
};

// ---- series of a task ---------------------------------------------------------------------------

// Returns the links from the base of a task to its frame, and the pose of the frame on the last.
std::pair<std::vector<Link>, Pose<double>> links_of(const IkProblem<double>& ik,
                                                    const Task<double>& task) {
  const Chain<double>& chain = ik.chain;
  const auto path = [&](int joint) {  // from the joint to the root
    std::vector<int> found;
    for (; joint >= 0; joint = chain.joint[joint].parent) found.push_back(joint);
    return found;
  };
  const auto frame_pose = [&](int number) {
    return pose_of(chain.frame[number].rotation, chain.frame[number].position);
  };
  std::vector<int> up, down = path(chain.frame[task.frame].joint);
  Pose<double> pending{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {0, 0, 0}};
  if (task.base != task_world) {
    up = path(chain.frame[task.base].joint);
    pending = inverse(frame_pose(task.base));
  }
  while (!up.empty() && !down.empty() && up.back() == down.back()) up.pop_back(), down.pop_back();
  std::vector<Link> links;
  const auto add_motion = [&](int number, double sign) {
    const Joint<double>& joint = chain.joint[number];
    const int j = joint.q_index;
    const double phase =
        joint.motion == Motion::revolute ? std::atan2(joint.phase[1], joint.phase[0]) : 0;
    double ends[2];
    for (int i = 0; i < 2; ++i) {
      const double q = i ? ik.upper[j] : ik.lower[j];
      ends[i] = sign * ((joint.scale != 0 ? joint.scale * q : 0) + joint.offset + phase);
    }
    Link link{pending, joint.motion == Motion::revolute, std::min(ends[0], ends[1]),
              std::max(ends[0], ends[1])};
    if (link.revolute && !(link.high - link.low < 2 * pi)) link.low = -pi, link.high = pi;
    links.push_back(link);
    pending = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {0, 0, 0}};
  };
  for (int number : up) {
    add_motion(number, -1);
    pending = inverse(placement_of(chain.joint[number]));
  }
  std::reverse(down.begin(), down.end());
  for (int number : down) {
    pending = product(pending, placement_of(chain.joint[number]));
    add_motion(number, 1);
  }
  return {links, product(pending, frame_pose(task.frame))};
}

// The coordinate, along the last axis, of the point of this axis that is nearest to the axis before
// it. In a wrist whose axes intersect, this point is their intersection.
double nearest_on_axis(const Pose<double>& last) {
  const Vec z = last.R.z, p = last.p;
  const double across = z.x * z.x + z.y * z.y;
  return across > 1e-9 ? -(p.x * z.x + p.y * z.y) / across : 0;
}

// The series of points of a task, and their probes. A task without position rows has none.
struct TaskProbes {
  std::vector<Series> series;
  std::vector<ReachProbe> probe;
  std::array<bool, 3> row{};  // whether the position along x, y, z is determined

  TaskProbes(const IkProblem<double>& ik, const Task<double>& task, int target) {
    if (!has_pose(task) || task.axes == task_axes_spatial) return;
    int positions = 0, rotations = 0;
    double weight = 1e300;
    for (int i = 0; i < task.rows; ++i) {
      if (is_ranged(task, i)) continue;
      if (task.row[i] < 3) {
        row[task.row[i]] = true;
        weight = std::min(weight, task.weight[i]);
        ++positions;
      } else if (task.row[i] < 6 && task.about < 0) {
        ++rotations;
      }
    }
    // Fewer than three position rows have constant directions only in the axes of the base.
    if (!positions || (positions < 3 && task.axes != task_axes_base)) return;
    auto [links, frame] = links_of(ik, task);
    if (links.empty()) return;
    const std::size_t last = links.size() - 1;
    if (positions == 3 && rotations == 3 && last > 0 && links[last].revolute) {
      const Vec on_axis{0, 0, nearest_on_axis(links[last].placement)};
      const Vec c = transform(inverse(frame), on_axis);
      series.push_back(
          {{links.begin(), links.end() - 1}, transform(links[last].placement, on_axis)});
      probe.push_back({double(target), {c.x, c.y, c.z}, norm(c), weight});
    }
    series.push_back({links, frame.p});
    probe.push_back({double(target), {0, 0, 0}, 0, weight});
  }
};

// ---- the directions of the table ----------------------------------------------------------------

// Directions on the surface of a cube: on each of its six faces, (cells + 1)² points (±1, u, v) in
// cyclic order of the axes, with u and v from -1 to 1.
const int edge = cells + 1, face_size = edge * edge, grid_size = 6 * face_size;

Vec grid_direction(int number) {
  const int face = number / face_size, i = number / edge % edge, j = number % edge;
  double d[3];
  d[face / 2] = face % 2 ? -1 : 1;
  d[(face / 2 + 1) % 3] = -1 + 2.0 * i / cells;
  d[(face / 2 + 2) % 3] = -1 + 2.0 * j / cells;
  return {d[0], d[1], d[2]};
}

}  // namespace

// The state of a table under construction; each array has an entry for each probe.
struct ReachTable::Draft {
  std::vector<Heights> heights;
  std::vector<std::array<bool, 3>> row;  // whether the position along x, y, z is determined
};

ReachTable::ReachTable(const IkProblem<double>& ik) : draft_(std::make_unique<Draft>()) {
  int target = 0;
  for (int k = 0; k < ik.tasks; target += target_size(ik.task[k]), ++k) {
    const TaskProbes task(ik, ik.task[k], target);
    for (const Series& series : task.series) draft_->heights.emplace_back(series);
    probe_.insert(probe_.end(), task.probe.begin(), task.probe.end());
    draft_->row.resize(probe_.size(), task.row);
  }
}

ReachTable::~ReachTable() = default;

const Reach* ReachTable::view(int count, bool (*stop)(void*), void* context) {
  const std::lock_guard<std::mutex> lock(building_);
  if (direction_.empty()) {  // the memory keeps its address, because other threads read from it
    direction_.resize(3 * grid_size);
    height_.resize(probe_.size() * grid_size);
    for (int i = 0; i < grid_size; ++i) {
      const Vec d = grid_direction(i);
      const double size = norm(d);
      direction_[i] = d.x / size;
      direction_[grid_size + i] = d.y / size;
      direction_[2 * grid_size + i] = d.z / size;
    }
    reach_ = {grid_size, probes(), direction_.data(), height_.data(), probe_.data()};
  }
  for (; complete_ < count; ++complete_) {
    Heights& heights = draft_->heights[complete_];
    while (!heights.is_complete()) {
      if (stop && stop(context)) return nullptr;
      heights.advance();
    }
    write(complete_);
  }
  if (complete_ == probes()) draft_.reset();
  return &reach_;
}

// Copies the heights of a probe into the table.
void ReachTable::write(int number) {
  const auto& row = draft_->row[number];
  for (int i = 0; i < grid_size; ++i) {
    const Vec d = grid_direction(i);
    const bool counts = (row[0] || d.x == 0) && (row[1] || d.y == 0) && (row[2] || d.z == 0);
    height_[std::size_t(number) * grid_size + i] =
        counts ? draft_->heights[number](d) / norm(d) : infinite_height;
  }
  draft_->heights[number].release();
}

}  // namespace supple
