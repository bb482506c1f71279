// The fourteen equations that hold at the solutions of a 6-joint arm, linear in products of cosines
// and sines of its joint angles.
//
// The fifteen numbers of a line (line_numbers.hpp) are transformed by a rigid motion as by a
// matrix. The matrix E_i of a rotation about axis i is linear in the cosine and sine of q_i. Let X
// be the displacement of the frame from its pose at q = 0. The condition E1 E2 E3 E4 E5 E6 = X,
// applied to the line of axis 6, which E6 does not move, gives
//
//   E3 E4 E5 line = E2⁻¹ E1⁻¹ X line
//
// The joints can be numbered cyclically from any joint on, which moves X to another place in the
// product: on the right side, or as X⁻¹ on the left side.
#pragma once

#include "drivers/line_numbers.hpp"
#include "supple/ik/branch.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// A displacement of the frame and the translation of its inverse, in the coordinates of lines.
struct LineDisplacement {
  Rotation<double> R;
  Vec3<double> t, back;
};

// The equations of an arm whose joints are numbered cyclically from `start` on.
class LineEquations {
 public:
  // `axis` are the six axes in the world at q = 0, `home` is the pose of the frame at q = 0, and
  // `length` is the length of the arm [m].
  LineEquations(int start, const Line<double>* axis, const Pose<double>& home, double length)
      : start_(start), home_(home), unit_(0.5 * length) {
    center_ = {0, 0, 0};
    for (int i = 0; i < 6; ++i) center_ = center_ + axis[i].p * (1.0 / 6);
    for (int i = 0; i < 6; ++i) {
      const Line<double>& from = axis[(i + start) % 6];
      axis_[i] = {from.h, (from.p - center_) * (1 / unit_)};
    }
    if (x_is_on_left()) {
      right_side(nullptr, fixed_);
    } else {
      left_side(nullptr, fixed_);
    }
  }

  int start() const { return start_; }
  // Number of rotations, from E1⁻¹ on, after which X acts.
  int place() const { return (6 - start_) % 6; }
  // Returns the direction of axis i, numbered from `start` on.
  const Vec3<double>& direction(int i) const { return axis_[i].h; }

  // Returns the displacement of the frame from its pose at q = 0 to a target (12,).
  LineDisplacement displacement(const double* target) const {
    const Pose<double> X = displacement_to(home_, target);
    const Vec3<double> t = (X.p + X.R * center_ - center_) * (1 / unit_);
    return {X.R, t, into(X.R, t) * -1.0};
  }

  // Computes both sides of the equations: coefficients (14, 27) of the products of 1, cosine and
  // sine of q3, q4 and q5, and (14, 9) of those of q1 and q2.
  void sides(const LineDisplacement& X, double* left, double* right) const {
    if (x_is_on_left()) {
      left_side(&X, left);
      for (int i = 0; i < 14 * 9; ++i) right[i] = fixed_[i];
    } else {
      right_side(&X, right);
      for (int i = 0; i < 14 * 27; ++i) left[i] = fixed_[i];
    }
  }

 private:
  bool x_is_on_left() const { return start_ >= 1 && start_ <= 3; }

  // Computes E3 E4 E5 line. If X is given, X⁻¹ acts after start - 1 of the rotations.
  void left_side(const LineDisplacement* X, double* to) const {
    LineNumbers made[27], next[27];
    made[0] = LineNumbers::of(axis_[5]);
    int count = 1;
    for (int i = 0; i <= 3; ++i) {
      if (X && i == start_ - 1) {
        const auto back = [&](const Vec3<double>& v) { return into(X->R, v); };
        for (int k = 0; k < count; ++k) made[k] = made[k].moved(back, X->back);
      }
      if (i == 3) break;
      for (int k = 0; k < count; ++k) {
        LineNumbers three[3];
        made[k].rotated(axis_[4 - i], 1, three);
        for (int j = 0; j < 3; ++j) next[j * count + k] = three[j];
      }
      count *= 3;
      for (int k = 0; k < count; ++k) made[k] = next[k];
    }
    for (int k = 0; k < 27; ++k) made[k].copy(to + k, 27);
  }

  // Computes E2⁻¹ E1⁻¹ line. If X is given, X acts after `place` of the rotations.
  void right_side(const LineDisplacement* X, double* to) const {
    LineNumbers made[9], next[9];
    made[0] = LineNumbers::of(axis_[5]);
    int count = 1;
    for (int i = 0; i <= 2; ++i) {
      if (X && i == place()) {
        const auto rotate = [&](const Vec3<double>& v) { return X->R * v; };
        for (int k = 0; k < count; ++k) made[k] = made[k].moved(rotate, X->t);
      }
      if (i == 2) break;
      for (int k = 0; k < count; ++k) made[k].rotated(axis_[i], -1, next + 3 * k);
      count *= 3;
      for (int k = 0; k < count; ++k) made[k] = next[k];
    }
    for (int k = 0; k < 9; ++k) made[k].copy(to + k, 9);
  }

  int start_;
  Pose<double> home_;
  Vec3<double> center_;    // mean of the points on the axes [m], the origin of coordinates of lines
  double unit_;            // half the length of the arm [m], the unit of these coordinates
  Line<double> axis_[6];   // in these coordinates, numbered from `start` on
  double fixed_[14 * 27];  // side of the equations without X: (14, 27), or (14, 9) in a part of it
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
