// Configurations and the velocities between them.
//
// A configuration q has `chain.nq` numbers, a velocity or a displacement v has `chain.nv`; in the
// kernel, where the orientation of a ball joint is a rotation vector, these numbers are equal.
// `integrate` and `difference` are the only functions that lead from one to the other:
//
//   integrate(q, v)        the configuration that the velocity v reaches from q in unit time
//   difference(q1, q0)     the velocity that reaches q1 from q0 in unit time
//   integrate(q0, s difference(q1, q0))    interpolates between q0 and q1
//
// No other code adds to a configuration or subtracts configurations (tests/test_configurations.py).
// Joints with one coordinate, which may have position limits and be moved by full turns, have
// functions of their own.
#pragma once

#include "supple/math/se3.hpp"
#include "supple/robot/chain.hpp"

namespace supple::inline SUPPLE_ISA {

// ---- a joint with one coordinate ----------------------------------------------------------------

// Returns the position that a joint reaches from q with the displacement v [rad or m].
template <class L>
SUPPLE_INLINE L integrate_coordinate(const L& q, const L& v) {
  return q + v;
}
// Returns the position that a joint reaches from q at the speed v in the time dt.
template <class L>
SUPPLE_INLINE L integrate_coordinate(const L& q, const L& v, const L& dt) {
  return fma(v, dt, q);
}
// Returns the displacement of a joint from q0 to q1 [rad or m].
template <class L>
SUPPLE_INLINE L coordinate_difference(const L& q1, const L& q0) {
  return q1 - q0;
}

// Returns twice the displacement of a joint from the middle of its range.
template <class L>
SUPPLE_INLINE L twice_from_middle(const L& q, const L& lower, const L& upper) {
  return 2 * q - lower - upper;
}

// ---- a ball joint -------------------------------------------------------------------------------

// Returns the product of two rotations.
template <class L>
SUPPLE_INLINE Rotation<L> operator*(const Rotation<L>& A, const Rotation<L>& B) {
  return {A * B.x, A * B.y, A * B.z};
}
// Reads and writes the rotation vector at an address.
template <class L>
SUPPLE_INLINE Vec3<L> vector_at(const L* x) {
  return {x[0], x[1], x[2]};
}
template <class L>
SUPPLE_INLINE void set_vector(L* x, const Vec3<L>& r) {
  x[0] = r.x, x[1] = r.y, x[2] = r.z;
}
// Returns the orientation that an angular displacement v in the body's axes reaches from r; all are
// rotation vectors. Without a displacement it is r, bit for bit: a lane that does not move keeps
// its configuration while others move.
template <class L>
SUPPLE_FN Vec3<L> integrate_ball(const Vec3<L>& r, const Vec3<L>& v) {
  const mask_t<L> moves = (v.x != L(0)) | (v.y != L(0)) | (v.z != L(0));
  const Vec3<L> to = log(exp(r) * exp(v));
  return {select(moves, to.x, r.x), select(moves, to.y, r.y), select(moves, to.z, r.z)};
}
// Returns the angular displacement from r0 to r1 in the body's axes.
template <class L>
SUPPLE_FN Vec3<L> ball_difference(const Vec3<L>& r1, const Vec3<L>& r0) {
  const Rotation<L> to = exp(r1), from = exp(r0);
  return log(Rotation<L>{into(from, to.x), into(from, to.y), into(from, to.z)});
}

// ---- all joints ---------------------------------------------------------------------------------

// Calls coordinate(j) for each joint with one coordinate, and ball(j) for the first coordinate of
// each ball joint.
template <class T, class Coordinate, class Ball>
SUPPLE_INLINE void visit_joints(const Chain<T>& chain, Coordinate&& coordinate, Ball&& ball) {
  int j = 0;
  for (int b = 0; b < chain.balls; ++b, j += 3) {
    for (; j < chain.ball[b]; ++j) coordinate(j);
    ball(j);
  }
  for (; j < chain.nv; ++j) coordinate(j);
}

// Writes the configuration that the displacement v (nv) reaches from q (nq) to `next` (nq), which
// may be q. For joint j with one coordinate, clip(j, from, to) returns the position where it ends.
// The size nv may be a compile-time constant.
template <class L, class T, class N, class Clip>
SUPPLE_INLINE void integrate(const Chain<T>& chain, N nv, const L* q, const L* v, L* next,
                             Clip&& clip) {
  const auto coordinate = [&](int j) { next[j] = clip(j, q[j], integrate_coordinate(q[j], v[j])); };
  if (chain.balls == 0) {
    for (int j = 0; j < nv; ++j) coordinate(j);
    return;
  }
  visit_joints(chain, coordinate, [&](int j) {
    set_vector(next + j, integrate_ball(vector_at(q + j), vector_at(v + j)));
  });
}
// Writes the configuration that the velocity v (nv) reaches from q in the time dt, as above.
template <class L, class T, class N, class Clip>
SUPPLE_INLINE void integrate(const Chain<T>& chain, N nv, const L* q, const L* v, const L& dt,
                             L* next, Clip&& clip) {
  const auto coordinate = [&](int j) {
    next[j] = clip(j, q[j], integrate_coordinate(q[j], v[j], dt));
  };
  if (chain.balls == 0) {
    for (int j = 0; j < nv; ++j) coordinate(j);
    return;
  }
  visit_joints(chain, coordinate, [&](int j) {
    set_vector(next + j, integrate_ball(vector_at(q + j), vector_at(v + j) * dt));
  });
}
template <class L, class T>
SUPPLE_INLINE void integrate(const Chain<T>& chain, const L* q, const L* v, const L& dt, L* next) {
  integrate(chain, chain.nv, q, v, dt, next, [](int, const L&, const L& to) { return to; });
}

// Writes the displacement from q0 (nq) to q1 (nq) to v (nv).
template <class L, class T>
SUPPLE_INLINE void difference(const Chain<T>& chain, const L* q1, const L* q0, L* v) {
  visit_joints(
      chain, [&](int j) { v[j] = coordinate_difference(q1[j], q0[j]); },
      [&](int j) { set_vector(v + j, ball_difference(vector_at(q1 + j), vector_at(q0 + j))); });
}

// Returns the largest entry of |difference|; scale(j) is the factor of entry j.
template <class L, class T, class Scale>
SUPPLE_INLINE L largest_difference(const Chain<T>& chain, const L* q1, const L* q0, Scale&& scale) {
  L largest(0);
  const auto add = [&](int j, const L& v) { largest = max(abs(v) * scale(j), largest); };
  visit_joints(
      chain, [&](int j) { add(j, coordinate_difference(q1[j], q0[j])); },
      [&](int j) {
        const Vec3<L> v = ball_difference(vector_at(q1 + j), vector_at(q0 + j));
        add(j, v.x), add(j + 1, v.y), add(j + 2, v.z);
      });
  return largest;
}

// Writes the configuration halfway between q0 and q1 (nq each) to `middle` (nq).
template <class L, class T>
SUPPLE_INLINE void halfway(const Chain<T>& chain, const L* q0, const L* q1, L* middle) {
  visit_joints(
      chain, [&](int j) { middle[j] = (q0[j] + q1[j]) / 2; },
      [&](int j) {
        const Vec3<L> from = vector_at(q0 + j), v = ball_difference(vector_at(q1 + j), from);
        set_vector(middle + j, integrate_ball(from, v * (L(1) / L(2))));
      });
}

}  // namespace supple::inline SUPPLE_ISA
