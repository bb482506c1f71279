// Configurations and the velocities between them.
//
// A configuration q has `chain.nq` numbers, a velocity or a displacement v has `chain.nv`.
// `integrate` and `difference` are the only functions from one to the other:
//
//   integrate(q, v)        the configuration that the velocity v reaches from q in unit time
//   difference(q1, q0)     the velocity that reaches q1 from q0 in unit time
//   integrate(q0, s difference(q1, q0))    interpolates between q0 and q1
//
// No other code adds to a configuration or subtracts configurations
// (tests/test_configurations.py). For a joint with one coordinate, which has a position limit or
// may differ by full turns, there are the functions of a single coordinate.
#pragma once

#include "supple/math/lane.hpp"
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

// ---- all joints ---------------------------------------------------------------------------------

// Writes the configuration that the displacement v (nv) reaches from q (nq) to `next` (nq), which
// may be q. For joint j with one coordinate, clip(j, from, to) returns the position where it ends.
// The size nv may be a compile-time constant.
template <class L, class T, class N, class Clip>
SUPPLE_INLINE void integrate(const Chain<T>&, N nv, const L* q, const L* v, L* next, Clip&& clip) {
  for (int j = 0; j < nv; ++j) next[j] = clip(j, q[j], integrate_coordinate(q[j], v[j]));
}
// The same for the velocity v (nv) in the time dt.
template <class L, class T, class N, class Clip>
SUPPLE_INLINE void integrate(const Chain<T>&, N nv, const L* q, const L* v, const L& dt, L* next,
                             Clip&& clip) {
  for (int j = 0; j < nv; ++j) next[j] = clip(j, q[j], integrate_coordinate(q[j], v[j], dt));
}
template <class L, class T>
SUPPLE_INLINE void integrate(const Chain<T>& chain, const L* q, const L* v, const L& dt, L* next) {
  integrate(chain, chain.nv, q, v, dt, next, [](int, const L&, const L& to) { return to; });
}

// Writes the displacement from q0 (nq) to q1 (nq) to v (nv).
template <class L, class T>
SUPPLE_INLINE void difference(const Chain<T>& chain, const L* q1, const L* q0, L* v) {
  for (int j = 0; j < chain.nv; ++j) v[j] = coordinate_difference(q1[j], q0[j]);
}

// Returns the largest entry of |difference|; scale(j) is the factor of entry j.
template <class L, class T, class Scale>
SUPPLE_INLINE L largest_difference(const Chain<T>& chain, const L* q1, const L* q0, Scale&& scale) {
  L largest(0);
  for (int j = 0; j < chain.nv; ++j) {
    largest = max(abs(coordinate_difference(q1[j], q0[j])) * scale(j), largest);
  }
  return largest;
}

// Writes the configuration halfway between q0 and q1 (nq each) to `middle` (nq).
template <class L, class T>
SUPPLE_INLINE void halfway(const Chain<T>& chain, const L* q0, const L* q1, L* middle) {
  for (int j = 0; j < chain.nq; ++j) middle[j] = (q0[j] + q1[j]) / 2;
}

}  // namespace supple::inline SUPPLE_ISA
