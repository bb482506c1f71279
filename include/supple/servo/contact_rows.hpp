// Rows a·y >= b of the pairs of shapes that one step may bring closer than they should be.
//
// A pair at the distance d that should keep d₀ may approach by a share of d - d₀ in a step; one
// that is closer is driven apart by a share of what is missing. The distance is linear in the
// displacements y near the configuration, with the normal at the nearest points. Rows may be
// missed; whoever reads them gives them a weight. Pairs begin to have rows the earlier, the faster
// their parts move. The plane that separated a pair in an earlier step shows that it is still far
// apart for a fraction of the time of a distance. A foot that stands has no rows with the world;
// one that is about to stand may touch it. Constants are explained in docs/constants.md.
#pragma once

#include "supple/collision/placed.hpp"
#include "supple/limits/equations.hpp"

namespace supple {

// What the pairs of a model should keep.
template <class T>
struct ContactDemand {
  const CollisionModel<T>* model;  // null for none
  T distance;                      // that pairs keep [m]
  T near, reach;    // distances at which rows begin between parts at rest, and fast ones [m]
  T approach;       // share of the remaining distance that one step may take
  T out;            // share of the missing distance that one step should gain
  T fastest;        // most that one step should gain [m]
  T weight;         // of a row [1/m]
  T sudden;         // displacement beyond that of the last step for which rows are prepared [m]
  const int* foot;  // (moving,): index of the foot that a body is, or -1
  T hold;           // factor of the weights of a foot that stands
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

inline constexpr int most_contact_rows = 160;
inline constexpr int most_followed = 32;

// Memory: the shapes in the world, a normal for each pair, and of each body the center and the axes
// in the last step, and a bound of how far its rotation has moved its points since.
template <class T>
struct ContactMemory {
  Placed<T> placed;
  T *normal, *before, *turned;  // (pairs, 3), (moving, 12), (moving,)
};

template <class T>
SUPPLE_FN ContactMemory<T> contacts_in(const CollisionModel<T>& model, T* memory, int& size) {
  ContactMemory<T> m;
  m.placed = placed_in(model, memory, size);
  Arena<T> arena(memory + size);
  m.normal = arena.take(3 * model.pairs);
  m.before = arena.take(12 * model.moving);
  m.turned = arena.take(model.moving);
  size += arena.size();
  return m;
}

template <class T>
SUPPLE_FN void prepare_contacts(const CollisionModel<T>& model, T* memory) {
  int size;
  ContactMemory<T> m = contacts_in(model, memory, size);
  place_fixed(model, m.placed);
  for (int k = 0; k < 3 * model.pairs; ++k) m.normal[k] = T(k % 3 == 2);
}

// Computes how far bodies have turned since the last step.
template <class T>
SUPPLE_FN void measure_turns(const CollisionModel<T>& model, ContactMemory<T>& m) {
  for (int b = 0; b < model.moving; ++b) {
    const Pose<T> at = frame_pose(model.chain.frame[model.body[b].frame], m.placed.joint);
    T* const own = m.before + 12 * b;
    const T now[] = {at.R.x.x, at.R.x.y, at.R.x.z, at.R.y.x, at.R.y.y,
                     at.R.y.z, at.R.z.x, at.R.z.y, at.R.z.z};
    T square(0);
    for (int i = 0; i < 9; ++i) {
      square = fma(now[i] - own[3 + i], now[i] - own[3 + i], square);
      own[3 + i] = now[i];
    }
    m.turned[b] = sqrt(T(0.5) * square) * model.body[b].bound;
  }
}

// Stores the centers of bodies for the next step.
template <class T>
SUPPLE_FN void store_centers(const CollisionModel<T>& model, ContactMemory<T>& m) {
  for (int b = 0; b < model.moving; ++b) {
    T* const own = m.before + 12 * b;
    own[0] = m.placed.cx[b], own[1] = m.placed.cy[b], own[2] = m.placed.cz[b];
  }
}

// Returns a bound of how far the bodies of a group have moved toward each other in the last step.
template <class T>
SUPPLE_FN T approach_of(const CollisionModel<T>& model, const ContactMemory<T>& m,
                        const PairGroup& group) {
  const int a = group.first, b = group.second;
  const T* const old = m.before + 12 * a;
  Vec3<T> moved{m.placed.cx[a] - old[0], m.placed.cy[a] - old[1], m.placed.cz[a] - old[2]};
  T turned = m.turned[a];
  if (b < model.moving) {
    const T* const other = m.before + 12 * b;
    moved = moved - Vec3<T>{m.placed.cx[b] - other[0], m.placed.cy[b] - other[1],
                            m.placed.cz[b] - other[2]};
    turned += m.turned[b];
  }
  return sqrt(dot(moved, moved)) + turned;
}

// Whether a plane with a normal, from the second shape to the first, shows that two shapes are
// farther apart than a distance.
template <class T>
SUPPLE_FN bool plane_separates(const Shape<T>& a, const Shape<T>& b, const Vec3<T>& n,
                               const T& distance) {
  if (a.kind == ShapeKind::half_space || b.kind == ShapeKind::half_space) return false;
  const Vec3<T> gap = support(a, n * T(-1)) - support(b, n);
  return dot(gap, n) - a.radius - b.radius > distance;
}

// Writes the row of a contact: the change of the distance per displacement.
template <class T>
SUPPLE_FN void contact_row(const CollisionModel<T>& model, const Placed<T>& placed,
                           const PairGroup& group, bool swapped, const Contact<T>& contact, int s,
                           T* row) {
  for (int i = 0; i < s; ++i) row[i] = T(0);
  const Vec3<T> n = swapped ? contact.normal * T(-1) : contact.normal;
  const Vec3<T> first = swapped ? contact.second : contact.first,
                second = swapped ? contact.first : contact.second;
  for (int i = group.joints[0]; i < group.joints[1]; ++i) {
    const JointBetween& between = model.between[i];
    const Joint<T>& joint = model.chain.joint[between.joint];
    const Twist<T> twist =
        partial_velocity(joint, placed.joint[between.joint], between.sign > 0 ? first : second);
    row[joint.v_index] += T(between.sign) * joint.scale * dot(n, twist.v);
  }
}

// Writes the rows of all close pairs: row (count, s) with b and weights. y (s,) is the displacement
// of the last step; hold (feet,) are the factors of the weights of the feet. Returns the number of
// rows.
template <class L, class T>
SUPPLE_FN int contact_rows(const ContactDemand<T>& of, const T* q, const T* y, const T* hold, int s,
                           T* row, T* b, T* weight, T* memory) {
  const CollisionModel<T>& model = *of.model;
  int size, count = 0;
  ContactMemory<T> m = contacts_in(model, memory, size);
  place<L>(model, q, m.placed);
  bound_distances<L>(model, m.placed);
  measure_turns(model, m);
  T least, approach;  // of the group
  const auto add = [&](int pair, const PairGroup& group, T ease, T within,
                       const Contact<T>& contact) {
    T* const normal = m.normal + 3 * pair;
    normal[0] = contact.normal.x, normal[1] = contact.normal.y, normal[2] = contact.normal.z;
    if (!(contact.distance < within) || count >= most_contact_rows) return;
    const bool swapped = model.shape[model.pair[2 * pair]].body != group.first;
    contact_row(model, m.placed, group, swapped, contact, s, row + count * s);
    const T room = contact.distance + ease - least;
    b[count] = room < 0 ? min(-room * of.out, of.fastest) : -room * approach;
    weight[count] = of.weight;
    // Rows that only a sudden motion would miss are left out.
    const T spare = padded_dot(0, s, row + count * s, y) - b[count];
    count += spare < of.sudden;
  };
  for (int g = 0; g < model.groups; ++g) {
    const PairGroup& group = model.group[g];
    const bool world = group.second >= model.moving;
    least = of.distance, approach = of.approach;
    if (const int foot = of.foot[group.first]; world && foot >= 0) {
      if (hold[foot] >= of.hold) continue;
      // It may land.
      least *= max(T(2) / hold[foot] - T(1), T(0));
      approach = min(approach * hold[foot], T(1));
    }
    const T ease = eased_by(model, g, least);
    const T lower = lower_bound_of(model, m.placed, group) + ease - least;
    if (!(lower < of.reach)) continue;
    const T room = min(of.near + approach_of(model, m, group) / approach, of.reach);
    if (!(lower < room)) continue;
    const T within = room + least - ease;
    PairGroup runs = group;
    runs.singles[1] = runs.singles[0];
    visit_group<L>(model, m.placed, runs, within, [&](int pair, const Contact<T>& contact) {
      add(pair, group, ease, within, contact);
    });
    for (int i = group.singles[0]; i < group.singles[1]; ++i) {
      const SinglePair& single = model.single[i];
      const Shape<T>&one = m.placed.shape[single.first], &other = m.placed.shape[single.second];
      if (!(lower_bound_of(one, other) < within)) continue;
      const T* const n = m.normal + 3 * single.pair;
      if (plane_separates(one, other, Vec3<T>{n[0], n[1], n[2]}, within)) continue;
      add(single.pair, group, ease, within, distance(one, other));
    }
  }
  store_centers(model, m);
  return count;
}

}  // namespace supple::inline SUPPLE_ISA
