// Lines in space as vectors of fifteen numbers, on which rigid motions act linearly.
#pragma once

#include "supple/ik/turns.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The numbers of a line with the point p and the direction l, or a linear combination of these:
//
//   1,  p,  l,  p·p,  p·l,  p × l,  (p·p) l - 2 (p·l) p
struct LineNumbers {
  double one;
  Vec3<double> p, l;
  double pp, pl;
  Vec3<double> m, n;

  static LineNumbers of(const Line<double>& line) {
    const Vec3<double>&p = line.p, &l = line.h;
    const double pp = dot(p, p), pl = dot(p, l);
    return {1, p, l, pp, pl, cross(p, l), l * pp - p * (2 * pl)};
  }

  // Copies all numbers except the first, which is the same on both sides of an equation.
  void copy(double* to, int stride) const {
    const double values[14] = {p.x, p.y, p.z, l.x, l.y, l.z, pp, pl, m.x, m.y, m.z, n.x, n.y, n.z};
    for (int i = 0; i < 14; ++i) to[i * stride] = values[i];
  }

  // Returns the numbers after a motion: rotate(v) = R v, followed by the translation t.
  template <class Rotate>
  LineNumbers moved(Rotate&& rotate, const Vec3<double>& t) const {
    const Vec3<double> Rp = rotate(p), Rl = rotate(l), Rm = rotate(m), Rn = rotate(n);
    const double tt = dot(t, t), tl = dot(t, Rl);
    return {one,
            Rp + t * one,
            Rl,
            pp + 2 * dot(t, Rp) + tt * one,
            pl + tl,
            Rm + cross(t, Rl),
            Rn - cross(t, Rm) * 2.0 + Rl * tt - t * (2 * (tl + pl))};
  }
  LineNumbers translated(const Vec3<double>& t) const {
    return moved([](const Vec3<double>& v) { return v; }, t);
  }

  // Computes the coefficients of 1, cos q and sin q in the numbers after a rotation about an axis
  // by the angle q or, if `sign` is -1, by -q.
  void rotated(const Line<double>& axis, double sign, LineNumbers* to) const {
    const LineNumbers at = translated(axis.p * -1.0);
    const auto along = [&](const Vec3<double>& v) { return axis.h * dot(axis.h, v); };
    const auto across = [&](const Vec3<double>& v) { return v - along(v); };
    const auto side = [&](const Vec3<double>& v) { return cross(axis.h, v) * sign; };
    const auto each = [&](auto&& part, double scalars) {
      return LineNumbers{scalars * at.one, part(at.p), part(at.l), scalars * at.pp,
                         scalars * at.pl,  part(at.m), part(at.n)}
          .translated(axis.p);
    };
    to[0] = each(along, 1);
    to[1] = each(across, 0);
    to[2] = each(side, 0);
  }
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
