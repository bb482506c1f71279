// All configurations of a 6-joint arm that reach a pose, in closed form.
//
// All six joints are revolute, and three consecutive axes intersect in a point or are parallel
// (Pieper 1968). An arm is given by its axes in the world at q = 0, and a target by the
// displacement X of the frame from its pose at q = 0:
//
//   X = E1(q1) E2(q2) ... E6(q6)         Ei: rotation about axis i, a line in space
//
// Joints may be renumbered cyclically, so that the three special axes have the numbers that the
// formulas expect: E1 can be moved to the end if its axis is transformed by X⁻¹,
//
//   X = E2 E3 E4 E5 E6 E1'               E1' = X⁻¹ E1 X
//
// Both kinds of arms lead to the same problem, two linear equations in the cosines and sines of two
// joints (`two_joints`). In general this leads to a quartic equation; if neighboring axes intersect
// or are parallel, as in most arms, to two quadratic equations. The other joints follow one by one
// from the subproblems of Paden and Kahan. The results are candidates: exact up to rounding if the
// axes intersect or are parallel exactly, and seeds to be polished if they do so only
// approximately.
//
// Where an angle is not determined by the target, the solutions form a continuum, and the angle is
// sampled.
#pragma once

#include "supple/ik/turns.hpp"

namespace supple::inline SUPPLE_ISA {

// Kinds of arms: the three special axes intersect in a point (spherical), or they are parallel.
enum class ArmKind : int { spherical, parallel };

// A 6-joint arm with a closed form.
template <class T>
struct ClosedForm {
  ArmKind kind;
  int first;        // index of the first of the three special joints, 0 to 3
  Line<T> axis[6];  // in the world at q = 0; in a spherical arm the special axes share the point p
  T length;         // length of the arm [m]
  T slack;          // relative error up to which an equation counts as having a real root
  int samples;      // number of samples of an angle that is not determined
};

template <class T>
struct Candidate {
  Turn<T> turn[6];
  Mark mark;
};

// Calls emit(q4, q5, q6, mark) for all angles of three joints with axes h4, h5, h6 such that R4 R5
// R6 = R, where rotate(x) = R x and u = Rᵀ h4.
template <class T, class Rotate, class Emit>
SUPPLE_FN void wrist_turns(const Vec3<T>& h4, const Vec3<T>& h5, const Vec3<T>& h6, Rotate&& rotate,
                           const Vec3<T>& u, T slack, int samples, Emit&& emit) {
  // Compute q5 from h4·R5 h6 = h4·R h6.
  const Vec3<T> v = rotate(h6);
  const T mean = dot(h4, h5) * dot(h5, h6);
  const Turns<T> q5s =
      turns_with(dot(h4, h6) - mean, dot(h4, cross(h5, h6)), dot(h4, v) - mean, T(1), slack);
  for (int i = 0; i < q5s.count; ++i) {
    const Turn<T> q5 = q5s.turn[i];
    const Vec3<T> at6 = rotated(h6, h5, q5), at4 = rotated(h4, h5, -q5);
    Turn<T> q4, q6;
    if (turn_onto(h4, at6, v, T(1), q4) && turn_onto(h6, u, at4, T(1), q6)) {
      emit(q4, q5, q6, Mark{false, q5s.critical});
      continue;
    }
    // Axes 4 and 6 are aligned: q4 is not determined, and q6 compensates for it.
    const Vec3<T> across = cross(h6, abs(dot(h6, h5)) < T(0.9) ? h5 : h4), turned = rotate(across);
    for (int k = 0; k < samples; ++k) {
      const Turn<T> other = sampled_turn(q4, k, samples);
      turn_onto(h6, across, rotated(rotated(turned, h4, -other), h5, -q5), T(1), q6);
      emit(other, q5, q6, Mark{true, q5s.critical});
    }
  }
}

// Calls emit(candidate) for each candidate of an arm whose axes 4, 5 and 6 intersect in the point
// axis[5].p.
template <class T, class Emit>
SUPPLE_FN void spherical_turns(const ClosedForm<T>& arm, const Line<T>* axis, const Pose<T>& X,
                               Emit&& emit) {
  // With the intersection w of the last three axes, x = E1⁻¹ X w and y = E3 w lie on circles. x and
  // y have the same distance from axis 2 and the same height along it, because E2 turns one into
  // the other, which gives two equations for q1 and q3.
  const Vec3<T> w = axis[5].p, P = transformed(X, w);
  const Vec3<T>&h1 = axis[0].h, &h2 = axis[1].h, &h3 = axis[2].h;
  const Vec3<T> r1 = P - axis[0].p, r3 = w - axis[2].p;
  const Vec3<T> along1 = h1 * dot(h1, r1), along3 = h3 * dot(h3, r3);
  const Vec3<T> flat1 = r1 - along1, flat3 = r3 - along3;
  const Vec3<T> side1 = cross(h1, r1), side3 = cross(h3, r3);
  const Vec3<T> d1 = axis[0].p - axis[1].p, d3 = axis[2].p - axis[1].p;
  const T per_length = T(1) / arm.length;
  const T A[2][2] = {{dot(h2, flat1), -dot(h2, side1)},
                     {dot(d1, flat1) * per_length, -dot(d1, side1) * per_length}};
  const T B[2][2] = {{-dot(h2, flat3), -dot(h2, side3)},
                     {-dot(d3, flat3) * per_length, -dot(d3, side3) * per_length}};
  const T c[2] = {dot(h2, d3 - d1) + dot(h2, along3 - along1),
                  (T(0.5) * (dot(r3, r3) + dot(d3, d3) - dot(r1, r1) - dot(d1, d1)) +
                   dot(along3, d3) - dot(along1, d1)) *
                      per_length};
  const auto each = [&](const TwoTurns<T>& pair) {
    const Vec3<T> x = rotated(P, axis[0], -pair.u) - axis[1].p;
    const Vec3<T> y = rotated(w, axis[2], pair.v) - axis[1].p;
    Turn<T> first;
    const bool fixed2 = turn_onto(h2, y, x, arm.length, first);
    const int rounds = fixed2 ? 1 : arm.samples;
    for (int k = 0; k < rounds; ++k) {
      const Turn<T> q2 = k == 0 ? first : sampled_turn(first, k, rounds);
      const auto rotate = [&](const Vec3<T>& v) {
        return rotated(rotated(rotated(X.R * v, h1, -pair.u), h2, -q2), h3, -pair.v);
      };
      const Vec3<T> u =
          into(X.R, rotated(rotated(rotated(axis[3].h, h3, pair.v), h2, q2), h1, pair.u));
      wrist_turns(axis[3].h, axis[4].h, axis[5].h, rotate, u, arm.slack, arm.samples,
                  [&](const Turn<T>& q4, const Turn<T>& q5, const Turn<T>& q6, const Mark& mark) {
                    emit(Candidate<T>{{pair.u, q2, pair.v, q4, q5, q6},
                                      mark | pair.mark | Mark{!fixed2, false}});
                  });
    }
  };
  two_joints(A, B, c, arm.length, arm.slack, arm.samples, each);
}

// Returns the point of a line that is nearest to another line; line.p if they are parallel.
template <class T>
SUPPLE_FN Vec3<T> nearest_point(const Line<T>& line, const Line<T>& other) {
  const Vec3<T> n = cross(line.h, other.h);
  const T n2 = dot(n, n);
  if (n2 < T(1e-12)) return line.p;
  return fma(line.h, dot(cross(other.p - line.p, other.h), n) / n2, line.p);
}

// Calls emit(candidate) for each candidate of an arm whose axes 2, 3 and 4 are parallel.
template <class T, class Emit>
SUPPLE_FN void parallel_turns(const ClosedForm<T>& arm, const Line<T>* axis, const Pose<T>& X,
                              Emit&& emit) {
  const Vec3<T>&h1 = axis[0].h, &h = axis[1].h, &h5 = axis[4].h, &h6 = axis[5].h;
  // E2, E3 and E4 do not change components along h, the direction of their axes. For a point w of
  // axis 6 and its direction h6, this gives two equations for q1 and q5: h·(E1⁻¹ X w - E5 w) = 0
  // and h·(R1ᵀ R h6 - R5 h6) = 0.
  const Vec3<T> w = nearest_point(axis[5], axis[4]), P = transformed(X, w), n = X.R * h6;
  const Vec3<T> r1 = P - axis[0].p, r5 = w - axis[4].p;
  const T h_1 = dot(h, h1), h_5 = dot(h, h5);
  const T L = arm.length;
  const T A[2][2] = {{dot(h, r1) - h_1 * dot(h1, r1), -dot(h, cross(h1, r1))},
                     {L * (dot(h, n) - h_1 * dot(h1, n)), -L * dot(h, cross(h1, n))}};
  const T B[2][2] = {{h_5 * dot(h5, r5) - dot(h, r5), -dot(h, cross(h5, r5))},
                     {L * (h_5 * dot(h5, h6) - dot(h, h6)), -L * dot(h, cross(h5, h6))}};
  const T c[2] = {dot(h, axis[4].p - axis[0].p) + h_5 * dot(h5, r5) - h_1 * dot(h1, r1),
                  L * (h_5 * dot(h5, h6) - h_1 * dot(h1, n))};
  // A vector perpendicular to h.
  const Vec3<T> across = abs(h.x) < T(0.6) ? Vec3<T>{T(0), h.z, -h.y} : Vec3<T>{-h.z, T(0), h.x};
  const T sign3 = dot(h, axis[2].h), sign4 = dot(h, axis[3].h);
  const auto flat = [&](const Vec3<T>& v) { return v - h * dot(h, v); };
  const Vec3<T> upper = flat(axis[2].p - axis[1].p), fore = flat(axis[3].p - axis[2].p);
  const Vec3<T> side = cross(h, fore);

  // Computes the angles of joints 2, 3 and 4, which form a planar arm, for given q1, q5 and q6.
  const auto planar = [&](const Turn<T>& q1, const Turn<T>& q5, const Turn<T>& q6,
                          const Mark& mark) {
    const auto back = [&](const Vec3<T>& v) {  // R1ᵀ R R6ᵀ R5ᵀ v
      return rotated(X.R * rotated(rotated(v, h5, -q5), h6, -q6), h1, -q1);
    };
    Turn<T> sum;
    turn_onto(h, across, back(across), T(1), sum);
    const Vec3<T> x4 = rotated(rotated(axis[3].p, axis[4], -q5), axis[5], -q6);
    const Vec3<T> g = flat(rotated(transformed(X, x4), axis[0], -q1) - axis[1].p);
    const T d = T(0.5) * (dot(g, g) - dot(upper, upper) - dot(fore, fore));
    const Turns<T> q3s = turns_with(dot(upper, fore), dot(upper, side), d, L * L, arm.slack);
    for (int i = 0; i < q3s.count; ++i) {
      const Turn<T> q3 = q3s.turn[i];
      Turn<T> first;
      const bool fixed2 = turn_onto(h, upper + fore * q3.c + side * q3.s, g, L, first);
      const int rounds = fixed2 ? 1 : arm.samples;
      for (int k = 0; k < rounds; ++k) {
        const Turn<T> q2 = k == 0 ? first : sampled_turn(first, k, rounds);
        const Turn<T> q4 = sum * -(q2 * q3);
        emit(Candidate<T>{{q1, q2, sign3 < T(0) ? -q3 : q3, sign4 < T(0) ? -q4 : q4, q5, q6},
                          mark | Mark{!fixed2, q3s.critical}});
      }
    }
  };
  const auto each = [&](const TwoTurns<T>& pair) {
    const Vec3<T> at = rotated(h, h5, -pair.v), u = into(X.R, rotated(h, h1, pair.u));
    Turn<T> q6;
    if (turn_onto(h6, u, at, T(1), q6)) return planar(pair.u, pair.v, q6, pair.mark);
    // Axis 6 is parallel to axes 2, 3 and 4: q6 is not determined.
    for (int k = 0; k < arm.samples; ++k) {
      planar(pair.u, pair.v, sampled_turn(q6, k, arm.samples), Mark{true, pair.mark.critical});
    }
  };
  two_joints(A, B, c, L, arm.slack, arm.samples, each);
}

// Calls emit(candidate) for all configurations of an arm with the axes `axis`, whose special joints
// have the numbers that the formulas expect.
template <class T, class Emit>
SUPPLE_FN void ordered_turns(const ClosedForm<T>& arm, const Line<T>* axis, const Pose<T>& X,
                             Emit&& emit) {
  if (arm.kind == ArmKind::spherical) {
    spherical_turns(arm, axis, X, emit);
  } else {
    parallel_turns(arm, axis, X, emit);
  }
}

// Calls emit(candidate) for all configurations that displace the frame by X from its pose at q = 0.
template <class T, class Emit>
SUPPLE_FN void closed_form_candidates(const ClosedForm<T>& arm, const Pose<T>& X, Emit&& emit) {
  // In the formulas, the special joints are the last three (spherical) or joints 2 to 4 (parallel).
  const bool spherical = arm.kind == ArmKind::spherical;
  const int start = (arm.first + (spherical ? 3 : 5)) % 6;
  if (start == 0) return ordered_turns(arm, arm.axis, X, emit);
  Line<T> axis[6];
  for (int i = 0; i < 6; ++i) {
    const int j = start + i;
    axis[i] = j < 6 ? arm.axis[j] : transformed_back(X, arm.axis[j - 6]);
  }
  ordered_turns(arm, axis, X, [&](const Candidate<T>& shifted) {
    Candidate<T> candidate{{}, shifted.mark};
    for (int i = 0; i < 6; ++i) candidate.turn[(start + i) % 6] = shifted.turn[i];
    emit(candidate);
  });
}

}  // namespace supple::inline SUPPLE_ISA
