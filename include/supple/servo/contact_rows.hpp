// Rows a·y >= b of the pairs of shapes that one step may bring too close to each other.
//
// A pair at the distance d that should keep d₀ may approach by a share of d - d₀ in a step; a pair
// that is closer than d₀ is driven apart by a share of the missing distance. The distance is
// linearized in the displacements y, with the normal at the nearest points. Rows may be violated:
// the caller adds their weighted violation to its cost. The faster the parts of a pair move, the
// larger is the distance below which the pair has a row. The search for the distance of a pair
// starts from the corners that were nearest in an earlier step. A foot that stands has no rows with
// the world; a foot that is about to stand may touch the world. Constants are explained in
// docs/constants.md.
#pragma once

#include "supple/collision/placed.hpp"
#include "supple/limits/equations.hpp"

namespace supple {

// The distances that the pairs of a model should keep, and the weights of their rows.
template <class T>
struct ContactDemand {
  const CollisionModel<T>* model;  // null for none
  T distance;                      // distance that pairs should keep [m]
  // Distances below which pairs have rows, at rest and at the highest speed [m].
  T distance_at_rest, distance_in_motion;
  T approach_share;    // fraction of d - d₀ by which a pair may approach in a step
  T separation_share;  // fraction of d₀ - d by which a pair is driven apart in a step
  T max_separation;    // largest distance by which a pair is driven apart in a step [m]
  T weight;            // weight of a row [1/m]
  T max_slack;         // rows that the last displacement meets by more than this are left out [m]
  const int* foot;     // (moving,): index of the foot if the body is a foot, else -1
  T hold;              // factor of the weights of a foot that stands
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

inline constexpr int most_contact_rows = 160;
inline constexpr int most_followed = 32;

// Memory that a motion keeps from step to step.
template <class T>
struct ContactMemory {
  Placed<T> placed;
  T* before;   // (moving, 12): the center of each body and the axes of its joint in the last step
  T* turned;   // (moving,) [m]: bound of how far its rotation has moved its points since
  T* travel;   // (1,) [m]: bound of how much closer centers of bodies can have come in all steps
  T* wake;     // (groups,) [m]: travel up to which a group is out of reach
  int* awake;  // (groups,): groups whose `wake` the travel has reached
  T *lower, *moved;    // (groups,) [m]: lower bounds of the distances of groups in `awake`, and how
                       // much closer their bodies can have come in the last step
  T *steps, *visited;  // (1,): number of steps; (groups,): last step that visited a group
  T* closer;           // (groups,) [m]: sum of `moved` since the group was last skipped
  T* gap;              // (pairs,) [m]: lower bound of a distance, plus `closer` when it was found
  LastCorners* last;   // (pairs,)
};

// A group whose pairs may have rows.
template <class T>
struct CloseGroup {
  int group;
  T least, ease, approach, within;
};

template <class T>
SUPPLE_FN ContactMemory<T> contacts_in(const CollisionModel<T>& model, T* memory, int& size) {
  ContactMemory<T> m;
  m.placed = placed_in(model, memory, size);
  Arena<T> arena(memory + size);
  m.before = arena.take(12 * model.moving);
  m.turned = arena.take(model.moving);
  m.travel = arena.take(1);
  m.wake = arena.take(model.groups);
  m.awake = arena.template take_as<int>(model.groups);
  m.lower = arena.take(model.groups), m.moved = arena.take(model.groups);
  m.steps = arena.take(1);
  m.visited = arena.take(model.groups), m.closer = arena.take(model.groups);
  m.gap = arena.take(model.pairs);
  m.last = arena.template take_as<LastCorners>(model.pairs);
  size += arena.size();
  return m;
}

// Initializes the memory of a motion.
template <class T>
SUPPLE_FN void prepare_contacts(const ContactDemand<T>& of, T* memory) {
  const CollisionModel<T>& model = *of.model;
  int size;
  ContactMemory<T> m = contacts_in(model, memory, size);
  place_fixed(model, m.placed);
  for (int i = 0; i < 12 * model.moving; ++i) m.before[i] = Number<T>::huge;
  m.steps[0] = m.travel[0] = T(0);
  for (int g = 0; g < model.groups; ++g) m.wake[g] = m.closer[g] = T(0), m.visited[g] = T(-1);
  for (int k = 0; k < model.pairs; ++k) m.last[k].count = 0;
}

template <class T>
SUPPLE_INLINE Vec3<T> center_of(const Placed<T>& placed, int body) {
  return {placed.cx[body], placed.cy[body], placed.cz[body]};
}

// Computes how far bodies have turned since the last step.
template <class T>
SUPPLE_FN void measure_turns(const CollisionModel<T>& model, ContactMemory<T>& m) {
  for (int b = 0; b < model.moving; ++b) {
    // The frame turns by the same angle as its joint.
    const Rotation<T>& R = m.placed.joint[model.chain.frame[model.body[b].frame].joint].R;
    T* const own = m.before + 12 * b;
    const T now[] = {R.x.x, R.x.y, R.x.z, R.y.x, R.y.y, R.y.z, R.z.x, R.z.y, R.z.z};
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
  Vec3<T> moved = center_of(m.placed, a) - Vec3<T>{old[0], old[1], old[2]};
  T turned = m.turned[a];
  if (b < model.moving) {
    const T* const other = m.before + 12 * b;
    moved = moved - (center_of(m.placed, b) - Vec3<T>{other[0], other[1], other[2]});
    turned += m.turned[b];
  }
  return sqrt(dot(moved, moved)) + turned;
}

// Returns the largest distance by which the center of any body has moved in the last step.
template <class T>
SUPPLE_FN T fastest_center(const CollisionModel<T>& model, const ContactMemory<T>& m) {
  T most(0);
  for (int b = 0; b < model.moving; ++b) {
    const T* const old = m.before + 12 * b;
    const Vec3<T> moved = center_of(m.placed, b) - Vec3<T>{old[0], old[1], old[2]};
    most = max(most, dot(moved, moved));
  }
  return sqrt(most);
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
// of the last step; hold (feet,) are the factors of the weights of the feet. `joint` are the poses
// of the joints at q, or null. Returns the number of rows.
template <class L, class T>
SUPPLE_FN int contact_rows(const ContactDemand<T>& of, const T* q, Pose<T>* joint, const T* y,
                           const T* hold, int s, T* row, T* b, T* weight, T* memory) {
  const CollisionModel<T>& model = *of.model;
  int size, count = 0;
  ContactMemory<T> m = contacts_in(model, memory, size);
  if (joint) {
    m.placed.joint = joint;
    place_shapes<L>(model, m.placed);
  } else {
    place<L>(model, q, m.placed);
  }
  bound_distances<L>(model, m.placed);
  measure_turns(model, m);
  const auto add = [&](int pair, const CloseGroup<T>& close, const Contact<T>& contact) {
    if (!(contact.distance < close.within) || count >= most_contact_rows) return;
    const PairGroup& group = model.group[close.group];
    const bool swapped = model.shape[model.pair[2 * pair]].body != group.first;
    contact_row(model, m.placed, group, swapped, contact, s, row + count * s);
    const T room = contact.distance + close.ease - close.least;
    b[count] =
        room < 0 ? min(-room * of.separation_share, of.max_separation) : -room * close.approach;
    weight[count] = of.weight;
    // Rows that only a sudden motion would miss are left out.
    const T spare = padded_dot(0, s, row + count * s, y) - b[count];
    count += spare < of.max_slack;
  };
  const T now = m.steps[0] += T(1);
  if (now > T(1)) m.travel[0] += T(2 + 1e-9) * fastest_center(model, m);
  const T travel = m.travel[0];
  // The lists are made without branches, because a processor could not predict them.
  int awake = 0, near = 0;
  for (int g = 0; g < model.groups; ++g) {
    m.awake[awake] = g;
    awake += !(travel < m.wake[g]);
  }
  for (int k = 0; k < awake; ++k) {
    const int g = m.awake[k];
    const T lower = lower_bound_of(model, m.placed, model.group[g]);
    const T spare = lower + eased_by(model, g, of.distance) - of.distance - of.distance_in_motion;
    m.wake[g] = spare < 0 ? T(0) : travel + spare;
    m.awake[near] = g, m.lower[near] = lower;
    near += spare < 0;
  }
  for (int k = 0; k < near; ++k) m.moved[k] = approach_of(model, m, model.group[m.awake[k]]);
  for (int k = 0; k < near; ++k) {
    const int g = m.awake[k];
    const PairGroup& group = model.group[g];
    CloseGroup<T> close{g, of.distance, T(0), of.approach_share, T(0)};
    if (const int foot = of.foot[group.first]; group.second >= model.moving && foot >= 0) {
      if (hold[foot] >= of.hold) continue;
      // The foot may land: it may touch the world.
      close.least *= max(T(2) / hold[foot] - T(1), T(0));
      close.approach = min(close.approach * hold[foot], T(1));
    }
    close.ease = eased_by(model, g, close.least);
    close.within = min(of.distance_at_rest + m.moved[k] / close.approach, of.distance_in_motion) +
                   close.least - close.ease;
    m.closer[g] += m.moved[k];
    if (m.visited[g] != now - T(1)) {  // bounds of earlier steps are not valid
      m.closer[g] = T(0);
      for (int i = group.singles[0]; i < group.singles[1]; ++i) {
        m.gap[model.single[i].pair] = -Number<T>::huge;
      }
    }
    m.visited[g] = now;
    const T closer = m.closer[g];
    if (!(m.lower[k] < close.within)) continue;
    if (group.runs[0] < group.runs[1]) {
      PairGroup runs = group;
      runs.singles[1] = runs.singles[0];
      visit_group<L>(model, m.placed, runs, close.within,
                     [&](int pair, const Contact<T>& contact) { add(pair, close, contact); });
    }
    for (int i = group.singles[0]; i < group.singles[1]; ++i) {
      const SinglePair& single = model.single[i];
      T& gap = m.gap[single.pair];
      if (!(gap - closer < close.within)) continue;
      const Shape<T>&one = m.placed.shape[single.first], &other = m.placed.shape[single.second];
      const T lower = lower_bound_of(one, other);
      gap = lower + closer;
      if (!(lower < close.within)) continue;
      const Contact<T> found = distance(one, other, m.last + single.pair, close.within);
      gap = found.distance + closer;
      add(single.pair, close, found);
    }
  }
  store_centers(model, m);
  return count;
}

}  // namespace supple::inline SUPPLE_ISA
