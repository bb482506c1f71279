// The shapes of a robot at one configuration, and the distances of its pairs.
#pragma once

#include "supple/collision/distance.hpp"
#include "supple/collision/model.hpp"
#include "supple/math/arena.hpp"
#include "supple/robot/kinematics.hpp"

namespace supple::inline SUPPLE_ISA {

// Entries after the last sphere that a pack may read.
inline constexpr int sphere_padding = 16;

// Memory for the shapes of a model in the world.
template <class T>
struct Placed {
  Pose<T>* joint;   // (joints,)
  T *x, *y, *z;     // (spheres,): centers of the spheres of moving bodies
  T *cx, *cy, *cz;  // (moving,): centers of bounding spheres
  T* lower;  // (bodies - moving, moving): lower bounds of distances of centers from the world
  Shape<T>* shape;  // (shapes,)
};

template <class T>
SUPPLE_FN int padded_count(int count) {
  return count + sphere_padding;
}

// Returns a `Placed` with arrays in `memory`; `size` receives the total number of entries of these
// arrays.
template <class T>
SUPPLE_FN Placed<T> placed_in(const CollisionModel<T>& model, T* memory, int& size) {
  Arena<T> arena(memory);
  constexpr int pose = int(sizeof(Pose<T>) / sizeof(T)), shape = int(sizeof(Shape<T>) / sizeof(T));
  static_assert(sizeof(Shape<T>) % sizeof(T) == 0);
  Placed<T> made;
  made.joint = reinterpret_cast<Pose<T>*>(arena.take(pose * model.chain.joints));
  T** const spheres[] = {&made.x, &made.y, &made.z};
  T** const centers[] = {&made.cx, &made.cy, &made.cz};
  for (T** to : spheres) *to = arena.take(padded_count<T>(model.spheres));
  for (T** to : centers) *to = arena.take(padded_count<T>(model.moving));
  made.lower = arena.take((model.bodies - model.moving) * padded_count<T>(model.moving));
  made.shape = reinterpret_cast<Shape<T>*>(arena.take(shape * model.shapes));
  size = arena.size();
  return made;
}

template <class T>
SUPPLE_FN Pose<T> pose_of(const FixedShape<T>& shape) {
  return {constant_rotation<T>(shape.rotation), constant_vector<T>(shape.position)};
}

// Returns a shape that is placed at a pose in the world.
template <class T>
SUPPLE_FN Shape<T> shape_at(const FixedShape<T>& s, const Pose<T>& at) {
  return {s.kind, s.radius, constant_vector<T>(s.half), s.vertices, s.vertex, s.bound, at};
}

// Returns the pose in the world of a shape that is fixed to a body, whose pose in the world is
// `at`.
template <class T>
SUPPLE_FN Pose<T> pose_on(const Pose<T>& at, const FixedShape<T>& s) {
  const Pose<T> own = pose_of(s);
  return {{at.R * own.R.x, at.R * own.R.y, at.R * own.R.z}, at.p + at.R * own.p};
}

// Copies everything that does not depend on the configuration.
template <class T>
SUPPLE_FN void place_fixed(const CollisionModel<T>& model, Placed<T>& placed) {
  for (int i = 0; i < model.shapes; ++i) {
    const FixedShape<T>& s = model.shape[i];
    placed.shape[i] = shape_at(s, pose_of(s));
  }
  T* const arrays[] = {placed.x, placed.y, placed.z, placed.cx, placed.cy, placed.cz};
  for (int k = 0; k < 6; ++k) {
    const int count = padded_count<T>(k < 3 ? model.spheres : model.moving);
    for (int i = 0; i < count; ++i) arrays[k][i] = T(0);
  }
}

// Moves all shapes to the poses of the joints.
template <class L, class T>
SUPPLE_FN void place_shapes(const CollisionModel<T>& model, Placed<T>& placed) {
  const T* const local = model.sphere;
  for (int b = 0; b < model.moving; ++b) {
    const Body<T>& body = model.body[b];
    const Pose<T> at = frame_pose(model.chain.frame[body.frame], placed.joint);
    const Vec3<T> center = at.p + at.R * constant_vector<T>(body.center);
    placed.cx[b] = center.x, placed.cy[b] = center.y, placed.cz[b] = center.z;
    const Rotation<L> R{broadcast<L>(at.R.x), broadcast<L>(at.R.y), broadcast<L>(at.R.z)};
    const Vec3<L> p = broadcast<L>(at.p);
    for (int i = body.spheres[0]; i < body.spheres[1]; i += width<L>) {
      const Vec3<L> c{load_lanes<L>(local + i), load_lanes<L>(local + model.sphere_stride + i),
                      load_lanes<L>(local + 2 * model.sphere_stride + i)};
      // Lanes beyond the last sphere are overwritten by the next body.
      const Vec3<L> moved = p + R * c;
      store_lanes(moved.x, placed.x + i);
      store_lanes(moved.y, placed.y + i);
      store_lanes(moved.z, placed.z + i);
    }
    for (int k = body.shapes[0]; k < body.shapes[1]; ++k) {
      const int i = model.order[k], s = model.shape[i].sphere;
      if (s >= 0) {
        placed.shape[i].at.p = {placed.x[s], placed.y[s], placed.z[s]};
        continue;
      }
      placed.shape[i].at = pose_on(at, model.shape[i]);
    }
  }
}

// Moves all shapes to a configuration q.
template <class L, class T>
SUPPLE_FN void place(const CollisionModel<T>& model, const T* q, Placed<T>& placed) {
  forward(model.chain, q, placed.joint);
  place_shapes<L>(model, placed);
}

// Lower bounds of the distances of points from a shape of the world.
template <class L, class T>
SUPPLE_INLINE L lower_bound_of(const Shape<T>& shape, const Vec3<L>& point) {
  const L around(shape.kind == ShapeKind::hull ? shape.bound : shape.radius);
  return distance_to_core(shape, point).distance - around;
}

// Computes lower bounds of the distances of all moving bodies from all shapes of the world.
template <class L, class T>
SUPPLE_FN void bound_distances(const CollisionModel<T>& model, Placed<T>& placed) {
  const int stride = padded_count<T>(model.moving);
  for (int w = model.moving; w < model.bodies; ++w) {
    const Shape<T>& shape = placed.shape[model.order[model.body[w].shapes[0]]];
    T* const to = placed.lower + (w - model.moving) * stride;
    for (int b = 0; b < model.moving; b += width<L>) {
      const Vec3<L> c{load_lanes<L>(placed.cx + b), load_lanes<L>(placed.cy + b),
                      load_lanes<L>(placed.cz + b)};
      store_lanes(lower_bound_of(shape, c), to + b);
    }
  }
}

// Returns the distance [m] that is added to the distances of the pairs of a group before a
// comparison with a clearance [m], because links that are always closer than the clearance by
// construction need not keep all of it.
template <class T>
SUPPLE_INLINE T eased_by(const CollisionModel<T>& model, int group, const T& clearance) {
  return max(clearance - model.allowed[group], T(0));
}

// Returns a lower bound of the distances of all pairs of a group.
template <class T>
SUPPLE_INLINE T lower_bound_of(const CollisionModel<T>& model, const Placed<T>& placed,
                               const PairGroup& group) {
  const int a = group.first, b = group.second;
  if (b >= model.moving) {
    return placed.lower[(b - model.moving) * padded_count<T>(model.moving) + a] -
           model.body[a].bound;
  }
  const T x = placed.cx[a] - placed.cx[b], y = placed.cy[a] - placed.cy[b],
          z = placed.cz[a] - placed.cz[b];
  return sqrt(x * x + y * y + z * z) - model.body[a].bound - model.body[b].bound;
}

// The distances of spheres from a shape that is not a hull.
template <class L, class T>
SUPPLE_INLINE L sphere_distance(const Shape<T>& other, const Vec3<L>& center, const L& radius) {
  return distance_to_core(other, center).distance - radius - L(other.radius);
}

// The distances of a pack of spheres from the other shape of their run.
template <class L, class T>
SUPPLE_INLINE L run_distance(const CollisionModel<T>& model, const Placed<T>& placed,
                             const Shape<T>& other, int i) {
  const Vec3<L> c{load_lanes<L>(placed.x + i), load_lanes<L>(placed.y + i),
                  load_lanes<L>(placed.z + i)};
  const L radius = load_lanes<L>(model.sphere + 3 * model.sphere_stride + i);
  return sphere_distance(other, c, radius);
}

// Returns the distance of the bounding spheres of two shapes, a lower bound of the distance of the
// shapes.
template <class T>
SUPPLE_INLINE T lower_bound_of(const Shape<T>& a, const Shape<T>& b) {
  if (a.kind == ShapeKind::half_space || b.kind == ShapeKind::half_space) return -Number<T>::huge;
  const Vec3<T> apart = a.at.p - b.at.p;
  return sqrt(dot(apart, apart)) - a.bound - b.bound;
}

// Whether a sphere of a run may be closer to the other shape than `margin`, according to the
// bounding spheres of the other shape and of the body that carries the run.
template <class T>
SUPPLE_INLINE bool run_within(const CollisionModel<T>& model, const Placed<T>& placed,
                              const SphereRun& run, const T& margin) {
  const int b = model.shape[model.shape_of[run.begin]].body;
  const Shape<T>& other = placed.shape[run.other];
  const T x = placed.cx[b] - other.at.p.x, y = placed.cy[b] - other.at.p.y,
          z = placed.cz[b] - other.at.p.z, reach = margin + model.body[b].bound + other.bound;
  return !(reach < 0) && !(x * x + y * y + z * z > reach * reach);
}

// Which spheres of a pack are closer than `margin` to the other shape of their run.
template <class L, class T>
SUPPLE_INLINE mask_t<L> run_closer(const CollisionModel<T>& model, const Placed<T>& placed,
                                   const Shape<T>& other, int i, const T& margin) {
  if (other.kind != ShapeKind::sphere) return run_distance<L>(model, placed, other, i) < L(margin);
  const L x = load_lanes<L>(placed.x + i) - L(other.at.p.x),
          y = load_lanes<L>(placed.y + i) - L(other.at.p.y),
          z = load_lanes<L>(placed.z + i) - L(other.at.p.z);
  const L reach =
      load_lanes<L>(model.sphere + 3 * model.sphere_stride + i) + L(other.radius + margin);
  return (x * x + y * y + z * z < reach * reach) & (reach > L(T(0)));
}

// Calls visit(pair, contact) for all pairs of a group that are closer than `margin`, and
// possibly others.
template <class L, class T, class Visit>
SUPPLE_FN void visit_group(const CollisionModel<T>& model, const Placed<T>& placed,
                           const PairGroup& group, const T& margin, Visit&& visit) {
  for (int r = group.runs[0]; r < group.runs[1]; ++r) {
    const SphereRun& run = model.run[r];
    const Shape<T>& other = placed.shape[run.other];
    if (!run_within(model, placed, run, margin)) continue;
    for (int i = run.begin; i < run.end; i += width<L>) {
      const mask_t<L> close = run_closer<L>(model, placed, other, i, margin);
      if (!any(close)) continue;
      for (int k = 0; k < width<L> && i + k < run.end; ++k) {
        if (!get(close, k)) continue;
        const Contact<T> found = distance(placed.shape[model.shape_of[i + k]], other);
        visit(model.result[run.result + i + k - run.begin], run.second ? reversed(found) : found);
      }
    }
  }
  for (int s = group.singles[0]; s < group.singles[1]; ++s) {
    const SinglePair& single = model.single[s];
    const Shape<T>&a = placed.shape[single.first], &b = placed.shape[single.second];
    if (lower_bound_of(a, b) < margin) visit(single.pair, distance(a, b));
  }
}

// Whether a pair of a group is closer than `clearance`.
template <class L, class T>
SUPPLE_FN bool group_collides(const CollisionModel<T>& model, const Placed<T>& placed,
                              const PairGroup& group, const T& clearance) {
  for (int r = group.runs[0]; r < group.runs[1]; ++r) {
    const SphereRun& run = model.run[r];
    const Shape<T>& other = placed.shape[run.other];
    if (!run_within(model, placed, run, clearance)) continue;
    for (int i = run.begin; i < run.end; i += width<L>) {
      const mask_t<L> close = run_closer<L>(model, placed, other, i, clearance);
      if (!any(close)) continue;
      for (int k = 0; k < width<L> && i + k < run.end; ++k) {
        if (get(close, k)) return true;
      }
    }
  }
  for (int s = group.singles[0]; s < group.singles[1]; ++s) {
    const Shape<T>&a = placed.shape[model.single[s].first],
          &b = placed.shape[model.single[s].second];
    if (lower_bound_of(a, b) < clearance && is_closer(a, b, clearance)) return true;
  }
  return false;
}

// Writes which pairs (pairs,) are closer than a distance.
template <class L, class T>
SUPPLE_FN void mark_closer(const CollisionModel<T>& model, const Placed<T>& placed, const T& margin,
                           bool* to) {
  for (int k = 0; k < model.pairs; ++k) to[k] = false;
  for (int g = 0; g < model.groups; ++g) {
    const PairGroup& group = model.group[g];
    for (int r = group.runs[0]; r < group.runs[1]; ++r) {
      const SphereRun& run = model.run[r];
      for (int i = run.begin; i < run.end; i += width<L>) {
        const L d = run_distance<L>(model, placed, placed.shape[run.other], i);
        for (int k = 0; k < width<L> && i + k < run.end; ++k) {
          to[model.result[run.result + i + k - run.begin]] = get(d, k) < margin;
        }
      }
    }
    for (int s = group.singles[0]; s < group.singles[1]; ++s) {
      const SinglePair& single = model.single[s];
      const Shape<T>&a = placed.shape[single.first], &b = placed.shape[single.second];
      to[single.pair] = lower_bound_of(a, b) < margin && is_closer(a, b, margin);
    }
  }
}

// Whether some pair is closer than `clearance`, or than its allowed clearance if that is smaller.
template <class L, class T>
SUPPLE_FN bool collides(const CollisionModel<T>& model, Placed<T>& placed, const T& clearance) {
  bound_distances<L>(model, placed);
  for (int g = 0; g < model.groups; ++g) {
    const PairGroup& group = model.group[g];
    const T least = clearance - eased_by(model, g, clearance);
    if (lower_bound_of(model, placed, group) < least &&
        group_collides<L>(model, placed, group, least)) {
      return true;
    }
  }
  return false;
}

// Finds the pair with the smallest sum of distance and `eased_by` for `clearance`. Returns the
// index of the pair, or -1 if there are no pairs; `found` receives the contact of the pair, with
// this sum as its distance.
template <class L, class T>
SUPPLE_FN int closest_pair(const CollisionModel<T>& model, Placed<T>& placed, const T& clearance,
                           Contact<T>& found) {
  bound_distances<L>(model, placed);
  int first = -1, best = -1;
  T least = Number<T>::huge, nearest = Number<T>::huge;
  for (int g = 0; g < model.groups; ++g) {
    const T lower = lower_bound_of(model, placed, model.group[g]) + eased_by(model, g, clearance);
    if (lower < nearest) nearest = lower, first = g;
  }
  const auto visit = [&](int g) {
    const T ease = eased_by(model, g, clearance);
    if (!(lower_bound_of(model, placed, model.group[g]) + ease < least)) return;
    visit_group<L>(model, placed, model.group[g], least - ease,
                   [&](int pair, const Contact<T>& contact) {
                     const T counts = contact.distance + ease;
                     if (!(counts < least || (counts == least && pair < best))) return;
                     least = counts, best = pair, found = contact;
                     found.distance = counts;
                   });
  };
  if (first >= 0) visit(first);
  for (int g = 0; g < model.groups; ++g) {
    if (g != first) visit(g);
  }
  return best;
}

}  // namespace supple::inline SUPPLE_ISA
