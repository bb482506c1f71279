// The forms of targets. Reads and checks a pose, and makes its rotation orthonormal.
#pragma once

#include "supple/math/lane.hpp"

namespace supple {

// The forms of targets that are read without Python.
enum class TargetKind : int {
  pose,         // (4, 4)
  position,     // (3,), stored as a pose whose rotation is ignored
  direction,    // (3,), a vector of any length
  orientation,  // (3, 3), or a pose whose position is ignored
  numbers,      // the values in the kernel's own layout
  other,        // any other form, converted in Python
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Largest entry of |RᵀR - I| that is corrected; the same value as POSE_TOLERANCE in
// supple/describe/_pose.py.
inline constexpr double max_rotation_residual = 1e-3;

// Residual |RᵀR - I| up to which a rotation is not changed: products of rotations have such
// rounding errors.
inline constexpr double rotation_rounding = 1e-14;

// Replaces a matrix, given by its columns R (3, 3), by the nearest rotation. Returns false if an
// entry of |RᵀR - I| exceeds `max_rotation_residual`, or the determinant is negative. Newton's
// iteration for the polar factor squares the residual: 1e-3, 1e-6, 1e-12, 0.
SUPPLE_FN bool orthonormalize(double (*R)[3]) {
  for (int pass = 0;; ++pass) {
    double G[3][3], residual = 0;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j <= i; ++j) {
        G[i][j] = G[j][i] = R[i][0] * R[j][0] + R[i][1] * R[j][1] + R[i][2] * R[j][2];
        const double off = abs(G[i][j] - (i == j));
        if (!(off <= max_rotation_residual)) return false;
        residual = off > residual ? off : residual;
      }
    }
    if (residual <= rotation_rounding || pass == 3) break;
    double next[3][3];
    for (int i = 0; i < 3; ++i) {
      for (int r = 0; r < 3; ++r) {
        next[i][r] = 1.5 * R[i][r];
        for (int j = 0; j < 3; ++j) next[i][r] -= 0.5 * R[j][r] * G[j][i];
      }
    }
    for (int i = 0; i < 9; ++i) R[i / 3][i % 3] = next[i / 3][i % 3];
  }
  const double det = R[0][0] * (R[1][1] * R[2][2] - R[1][2] * R[2][1]) -
                     R[0][1] * (R[1][0] * R[2][2] - R[1][2] * R[2][0]) +
                     R[0][2] * (R[1][0] * R[2][1] - R[1][1] * R[2][0]);
  return det > 0;
}

// Writes the twelve numbers of a pose: the columns of its rotation, then its position. entry(r, c)
// returns an entry of a pose (4, 4) or, without `has_position`, of a rotation (3, 3), whose
// position is zero. `last_row_tolerance` is the tolerance on the last row of a pose, 0 0 0 1.
// Returns false if the matrix is not a pose.
template <class Entry>
SUPPLE_FN bool read_pose(Entry&& entry, bool has_position, double last_row_tolerance,
                         double* numbers) {
  double column[4][3] = {};
  for (int c = 0; c < (has_position ? 4 : 3); ++c) {
    for (int r = 0; r < 3; ++r) column[c][r] = entry(r, c);
    if (has_position && !(abs(entry(3, c) - (c == 3)) <= last_row_tolerance)) return false;
  }
  if (!orthonormalize(column)) return false;
  for (int i = 0; i < 12; ++i) numbers[i] = column[i / 3][i % 3];
  return true;
}

// Writes the unit vector of a direction (3,), by the same operations as `unit` in
// supple/tasks/fields.py. The result is NaN if the direction is zero or not finite.
SUPPLE_FN void read_direction(double x, double y, double z, double* numbers) {
  double largest = abs(x);
  if (abs(y) > largest) largest = abs(y);
  if (abs(z) > largest) largest = abs(z);
  const double a = x / largest, b = y / largest, c = z / largest;
  const double length = sqrt(a * a + b * b + c * c);
  numbers[0] = a / length;
  numbers[1] = b / length;
  numbers[2] = c / length;
}

}  // namespace supple::inline SUPPLE_ISA
