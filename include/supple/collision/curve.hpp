// A lower bound of the distances of all pairs along a curve of the joints.
//
// The curve consists of cubic pieces. The curve is divided until the bound of certificate.hpp is
// close enough to the smallest distance computed so far. The shapes are placed in the middle of a
// part; one motion leads from there to the beginning of the part, and another to its end. The loss
// by curvature (κ) in each of these motions is a quarter of that in one motion along the whole
// part.
//
// Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/collision/certificate.hpp"
#include "supple/robot/configuration.hpp"

namespace supple {

// Cubic pieces: piece i is the sum of coefficient[k][i] (u - s[i])^k from s[i] to s[i + 1]. For a
// ball joint the sum is a rotation vector, by which the joint turns from the orientation anchor[i].
template <class T>
struct JointCurve {
  int pieces;
  const T* s;            // (pieces + 1,): increasing
  const T* coefficient;  // (4, pieces, nq)
  const T* anchor;       // (pieces, nq): rotation vectors; null without ball joints
};

template <class T>
struct CurveDemand {
  T clearance;  // [m]: distance that is certified
  T absolute;   // [m]
  T relative;   // the bound is within max(absolute, relative * distance) of the smallest distance
  bool first;   // whether to end at the first part that is not certified
};

// Bounds of the distances along a curve.
template <class T>
struct CurveBound {
  T bound;       // [m]: no pair is closer anywhere on the curve
  T seen;        // [m]: the smallest distance that was computed
  T begin, end;  // the first part that is not certified
  int pair;      // a pair that may be too close there, or -1 if the whole curve is certified
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Number of places at which distances are computed before the curve is divided.
inline constexpr int first_places = 17;
// Largest number of times that a part of the curve is halved, and number of parts above which no
// part is halved.
inline constexpr int most_halvings = 40, most_parts = 200'000;
// A part on which the angles of all joints add up to more than this [rad] is halved at once,
// because its bound would be poor.
template <class T>
inline constexpr T longest_turn = T(0.5);
// A part whose smallest distance exceeds the clearance by less than this [m] is not divided any
// more, and is not certified.
template <class T>
inline constexpr T undivided_gap = T(1e-7);

template <class T>
struct CurveMemory {
  Placed<T> placed;
  NearPair<T>* near;                      // (pairs,)
  T *reach, *along[2], *off[2];           // (joints,)
  T* bound;                               // (moving,)
  T *at, *end, *delta, *aside, *lo, *hi;  // (nq,)
};

template <class T>
SUPPLE_FN CurveMemory<T> curve_in(const CollisionModel<T>& model, T* memory, int& size) {
  Arena<T> arena(memory);
  CurveMemory<T> made;
  int used;
  made.placed = placed_in(model, arena.rest(), used);
  arena.take(used);
  made.near = arena.template take_as<NearPair<T>>(model.pairs);
  T** const by_joint[] = {&made.reach, &made.along[0], &made.along[1], &made.off[0], &made.off[1]};
  for (T** to : by_joint) *to = arena.take(model.chain.joints);
  made.bound = arena.take(model.moving);
  T** const by_coordinate[] = {&made.at, &made.end, &made.delta, &made.aside, &made.lo, &made.hi};
  for (T** to : by_coordinate) *to = arena.take(model.chain.nq);
  size = arena.size();
  return made;
}

// The value and the slope of a coordinate of a piece, `x` after its beginning.
template <class T>
SUPPLE_INLINE T piece_value(const JointCurve<T>& curve, int width, int piece, int j, T x) {
  const T* const c = curve.coefficient + piece * width + j;
  const int stride = curve.pieces * width;
  return fma(x, fma(x, fma(x, c[3 * stride], c[2 * stride]), c[stride]), c[0]);
}
template <class T>
SUPPLE_INLINE T piece_slope(const JointCurve<T>& curve, int width, int piece, int j, T x) {
  const T* const c = curve.coefficient + piece * width + j;
  const int stride = curve.pieces * width;
  return fma(x, fma(x, T(3) * c[3 * stride], T(2) * c[2 * stride]), c[stride]);
}

// Index of the piece that contains u, or of the one that ends at u if `before`.
template <class T>
SUPPLE_FN int piece_at(const JointCurve<T>& curve, T u, bool before) {
  int low = 0, high = curve.pieces - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (curve.s[middle] < u || (curve.s[middle] == u && !before)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

template <class T>
SUPPLE_FN void curve_position(const JointCurve<T>& curve, const Chain<T>& chain, T u, T* to) {
  const int piece = piece_at(curve, u, false), width = chain.nq, stride = curve.pieces * width;
  const T x = u - curve.s[piece];
  visit_joints(
      chain, [&](int j) { to[j] = piece_value(curve, width, piece, j, x); },
      [&](int j) {
        Vec3<T> r{T(0), T(0), T(0)};
        const T* const c = curve.coefficient + piece * width + j;
        for (int k = 3; k >= 0; --k) r = fma(r, x, vector_at(c + k * stride));
        set_vector(to + j, integrate_ball(vector_at(curve.anchor + piece * width + j), r));
      });
}

// Returns a bound on the deviation of the rotation of a ball joint from its chord, on the part from
// x0 to x1 after the beginning of a piece. `c` is the first coefficient; the others follow at
// intervals of `stride` numbers.
//
// Let r(x) be the rotation vector, and φ(x) the rotation vector from an end of the part to x. The
// angular velocity is ω = J(r) r' = J(φ) φ'. As ‖J‖ <= 1 and ‖dJ[a] b‖ <= ‖a‖ ‖b‖/2,
//
//   ‖φ''‖ <= ‖J(φ)⁻¹‖ (‖ω'‖ + ‖φ'‖²/2),   ‖ω'‖ <= ‖r''‖ + ‖r'‖²/2,   ‖φ'‖ <= ‖J(φ)⁻¹‖ ‖r'‖,
//
// and ‖J(φ)⁻¹‖ = (θ/2)/sin(θ/2) for θ = ‖φ‖. The chord is a straight line in φ, so that the
// deviation is at most (x1 - x0)²/8 of the largest ‖φ''‖. Neither the chord nor the curve is longer
// than the angle by which the joint turns, so that the deviation is at most twice this angle.
template <class T>
SUPPLE_FN T turned_aside(const T* c, int stride, const T& x0, const T& x1, bool whole) {
  const auto length = [](const Vec3<T>& a) { return sqrt(dot(a, a)); };
  const Vec3<T> at = vector_at(c), slope = vector_at(c + stride),
                second = vector_at(c + 2 * stride) * T(2), third = vector_at(c + 3 * stride) * T(6);
  const T h = x1 - x0;
  const Vec3<T> bend = fma(third, x0, second), last = fma(third, x1, second);
  const Vec3<T> rate = fma(fma(third, T(0.5) * x0, second), x0, slope);
  // the slope is inside the hull of its Bernstein coefficients
  const T fastest = max(length(rate), max(length(fma(bend, T(0.5) * h, rate)),
                                          length(fma(bend + last, T(0.5) * h, rate))));
  const T angle = fastest * h;
  const bool one_axis = !(dot(at, at) + dot(second, second) + dot(third, third) > 0);
  if (one_axis && whole) return T(0);
  if (!whole || angle > T(1)) return T(2) * angle;
  constexpr T inverse(1.043);  // above (θ/2)/sin(θ/2) for θ = 1
  const T turning = max(length(bend), length(last)) + T(0.5) * fastest * fastest;
  return T(0.125) * h * h * inverse *
         (turning + T(0.5) * (inverse * fastest) * (inverse * fastest));
}

// Writes the chord (n,) from the position `from` (n,) at u to that at v, and the largest deviations
// (n,) of the curve from the chord, by the Bernstein coefficients of the curve minus the chord. The
// three deviations of a ball joint are equal.
template <class T>
SUPPLE_FN void curve_chord(const JointCurve<T>& curve, const Chain<T>& chain, T u, T v,
                           const T* from, T* end, T* chord, T* aside) {
  const int width = chain.nq;
  curve_position(curve, chain, v, end);
  difference(chain, static_cast<const T*>(end), from, chord);
  for (int j = 0; j < width; ++j) aside[j] = T(0);
  const T low = min(u, v), high = max(u, v), length = v - u;
  const int first = piece_at(curve, low, false), last = piece_at(curve, high, true);
  for (int i = first; i <= last; ++i) {
    const T begin = max(curve.s[i], low), stop = min(curve.s[i + 1], high),
            third = (stop - begin) / T(3);
    if (!(third > 0)) continue;
    const auto coordinate = [&](int j) {
      const T x0 = begin - curve.s[i], x1 = stop - curve.s[i];
      const T y0 = piece_value(curve, width, i, j, x0), y3 = piece_value(curve, width, i, j, x1);
      const T y[] = {y0, fma(third, piece_slope(curve, width, i, j, x0), y0),
                     fma(-third, piece_slope(curve, width, i, j, x1), y3), y3};
      for (int k = 0; k < 4; ++k) {
        const T share = (begin + T(k) * third - u) / length;
        const T on_chord = integrate_coordinate(from[j], chord[j], share);
        aside[j] = max(aside[j], abs(coordinate_difference(y[k], on_chord)));
      }
    };
    visit_joints(chain, coordinate, [&](int j) {
      const T* const c = curve.coefficient + i * width + j;
      const T off = turned_aside(c, curve.pieces * width, begin - curve.s[i], stop - curve.s[i],
                                 first == last);
      for (int k = j; k < j + 3; ++k) aside[k] += off;
    });
  }
  // On one piece, only the two inner Bernstein coefficients of a cubic differ from the chord, and
  // their weights add up to at most 3/4.
  if (first == last) {
    visit_joints(chain, [&](int j) { aside[j] *= T(0.75); }, [](int) {});
  }
}

// A bound for one part of a curve.
template <class T>
struct PartBound {
  T bound;     // [m]: no pair is closer anywhere on the part
  T distance;  // [m]: distance of the closest pair in the middle of the part, at most the margin
  int pair;    // the pair that determines `bound`, or -1 if `bound` is the margin
};

// Returns a bound, at most `margin`, of the distances on the part of the curve that `prepare_part`
// has written to m.
template <class L, class T>
SUPPLE_FN PartBound<T> part_bound(const CollisionModel<T>& model, CurveMemory<T>& m, T margin,
                                  T clearance) {
  place<L>(model, m.at, m.placed);
  const int count = near_pairs<L>(model, m.placed, m.reach, margin, clearance, T(0), m.bound,
                                  model.pairs, m.near);
  PartBound<T> made{margin, margin, -1};
  for (int i = 0; i < count; ++i) {
    made.distance = min(made.distance, m.near[i].distance);
    for (int k = 0; k < 2; ++k) {
      const GapBounds<T> gaps = gap_bounds(model, m.placed, m.near[i], {m.along[k], m.off[k]});
      const T least = min(gaps.start, gaps.end);
      if (least < made.bound) made.bound = least, made.pair = m.near[i].pair;
    }
  }
  return made;
}

// Writes the middle of a part and the motions from there to its two ends. Returns the sum of the
// angles by which the joints turn.
template <class T>
SUPPLE_FN T prepare_part(const CollisionModel<T>& model, const JointCurve<T>& curve, T begin,
                         T middle, T end, CurveMemory<T>& m) {
  const Chain<T>& chain = model.chain;
  curve_position(curve, chain, middle, m.at);
  T turn(0);
  for (int j = 0; j < chain.joints; ++j) m.reach[j] = T(0);
  for (int k = 0; k < 2; ++k) {
    curve_chord(curve, chain, middle, k ? end : begin, m.at, m.end, m.delta, m.aside);
    for (int j = 0; j < chain.joints; ++j) {
      const Joint<T>& joint = chain.joint[j];
      m.along[k][j] = joint.scale * m.delta[joint.v_index];
      m.off[k][j] = abs(joint.scale * m.aside[joint.v_index]);
      const T size = abs(m.along[k][j]) + m.off[k][j];
      m.reach[j] = max(m.reach[j], size);
      if (joint.motion != Motion::prismatic) turn += size;
    }
  }
  return turn;
}

// Returns the place where a part is divided: its middle or, with ball joints, the end of a piece
// inside the part, beyond which ball joints turn about other axes.
template <class T>
SUPPLE_FN T division(const JointCurve<T>& curve, const Chain<T>& chain, T begin, T end) {
  if (chain.balls > 0) {
    const int first = piece_at(curve, begin, false), last = piece_at(curve, end, true);
    if (first < last) return curve.s[(first + last + 1) / 2];
  }
  return begin + T(0.5) * (end - begin);
}

// Returns a bound of the distances of all pairs along a curve.
template <class L, class T>
SUPPLE_FN CurveBound<T> curve_bound(const CollisionModel<T>& model, const JointCurve<T>& curve,
                                    const CurveDemand<T>& demand, CurveMemory<T>& m) {
  const T low = curve.s[0], high = curve.s[curve.pieces], length = high - low;
  CurveBound<T> made{Number<T>::huge, Number<T>::huge, low, high, -1};
  for (int i = 0; i < first_places; ++i) {
    curve_position(curve, model.chain, fma(length, T(i) / T(first_places - 1), low), m.at);
    place<L>(model, m.at, m.placed);
    Contact<T> contact;
    if (closest_pair<L>(model, m.placed, demand.clearance, contact) >= 0)
      made.seen = min(made.seen, contact.distance);
  }
  // A stack of the ends of the parts that are left, with the first part on top.
  T ends[most_halvings + 2];
  int halvings[most_halvings + 2], left = 1, parts = 0;
  ends[0] = high, halvings[0] = 0;
  T begin = low;
  while (left > 0) {
    const T end = ends[left - 1], middle = division(curve, model.chain, begin, end);
    const int depth = halvings[left - 1];
    const bool divisible = depth < most_halvings && parts < most_parts;
    const T turn = prepare_part(model, curve, begin, middle, end, m);
    bool done = !(turn > longest_turn<T>) || !divisible;
    if (done) {
      parts += 1;
      const PartBound<T> part =
          part_bound<L>(model, m, max(made.seen, demand.clearance), demand.clearance);
      made.seen = min(made.seen, part.distance);
      const T close = made.seen - max(demand.absolute, demand.relative * abs(made.seen));
      const bool free = part.bound >= demand.clearance;
      const bool hopeless = part.distance < demand.clearance + undivided_gap<T>;
      done =
          !divisible || ((free || hopeless) && (part.bound >= close || (hopeless && demand.first)));
      if (done) {
        made.bound = min(made.bound, part.bound);
        if (!free && made.pair < 0) {
          made.begin = begin, made.end = end, made.pair = part.pair;
          if (demand.first) return made;
        }
      }
    }
    if (done) {
      begin = end;
      left -= 1;
    } else {
      halvings[left - 1] = depth + 1;
      ends[left] = middle;
      halvings[left] = depth + 1;
      left += 1;
    }
  }
  return made;
}

}  // namespace supple::inline SUPPLE_ISA
