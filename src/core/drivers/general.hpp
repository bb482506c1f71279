// All solutions of arms with six revolute joints of any geometry, as eigenvalues.
//
// From fourteen equations (line_equations.hpp), the eight products of cosines and sines of q1 and
// q2 are eliminated, which leaves six equations in q3, q4 and q5, linear in the products of their
// cosines and sines. In half-angle tangents, and multiplied by 1 and by tan(q4/2), these are twelve
// equations in twelve products of powers of the tangents of q4 and q5, with coefficients that are
// quadratic in tan(q3/2). This is an eigenvalue problem of size 24, whose real eigenvalues give the
// solutions, at most 16 (Raghavan & Roth 1993; Manocha & Canny 1994).
//
// For arms with parallel or intersecting axes, some of the six cyclic numberings of the joints are
// degenerate. All eliminations are by pivots or reflections, so that a degenerate numbering gives
// inaccurate candidates, which are not certain to be complete, but never an error. Tuned constants
// are explained in docs/constants.md.
#pragma once

#include <cmath>

#include "drivers/line_equations.hpp"
#include "drivers/real_eigenvalues.hpp"
#include "kernels/kernels.hpp"

namespace supple::inline SUPPLE_ISA {

// Angles of q3, q4 and q5 [rad] from which half-angle tangents are measured. Half a turn away from
// them a tangent is infinite; a target with such a solution is solved again with the next set.
inline constexpr double general_zeros[general_zero_sets][3] = {
    {0.7, -1.1, 0.4}, {-1.3, 0.5, 2.2}, {2.9, -2.4, -1.7}};
// Largest entry of the matrix of the eigenvalue problem; above it, the problem counts as singular.
// Errors of eigenvalues grow with the square of this entry: one factor is due to the equations, one
// to the matrix.
inline constexpr double general_largest = 1e4;
// Ratio of the largest and the smallest pivot above which the problem is singular, too: of
// dependent equations, both sides are rounding errors, and so are the entries of the matrix.
inline constexpr double general_growth = 1e8;
// Imaginary part, relative to 1 + |t|, up to which an eigenvalue t gives a candidate.
inline constexpr double general_real = 1e-4;
// Factors for the error of an eigenvalue. A complex pair of eigenvalues may stand for real
// solutions if its imaginary part is below general_double times the square root of the error.
// Eigenvectors are not accurate if two eigenvalues differ by less than general_apart times the
// error.
inline constexpr double general_double = 10, general_apart = 1e3;
// Error of a candidate [rad] up to which it may be outside the joint limits.
inline constexpr double candidate_error = 1e-4;

namespace {

// An arm whose joints are numbered cyclically from `start` on.
class GeneralArm {
 public:
  // The arguments are those of `LineEquations`.
  GeneralArm(int start, const Line<double>* axis, const Pose<double>& home, double length)
      : lines_(start, axis, home, length) {}

  const LineEquations& lines() const { return lines_; }

  // Calls emit(turns of the six joints, from the base on) for candidates for the solutions of a
  // target (12,). Returns whether these are certain to contain all solutions of the target.
  template <class Emit>
  bool candidates(const double* target, const double* zeros, Emit&& emit) const {
    const LineDisplacement X = lines_.displacement(target);
    double equations[14][35];  // the products of q1 and q2, then those of q3, q4 and q5
    const bool determined = eliminated(X, equations);
    double powers[6][3][3][3];  // powers of the half-angle tangents of q3, q4 and q5
    in_half_angles(equations, zeros, powers);
    double A[3][12][12];  // coefficients of the powers of tan(q3/2)
    for (int p = 0; p < 3; ++p) {
      for (int i = 0; i < 6; ++i) {
        for (int j = 0; j < 3; ++j) A[p][i][9 + j] = A[p][6 + i][j] = 0;
        for (int j = 0; j < 9; ++j) A[p][i][j] = A[p][6 + i][3 + j] = powers[i][p][j / 3][j % 3];
      }
    }
    double C[24][24] = {};
    for (int i = 0; i < 12; ++i) C[i][12 + i] = 1;
    double growth;
    const double largest = companion(A, C, growth);
    double real[24], imaginary[24];
    if (!finite(largest) || !eigenvalues<24>(C, real, imaginary)) return false;
    double known[4][27];  // map products of q3, q4 and q5 to cosines and sines of q2 and q1
    const bool solved = first_two(equations, known);
    Turn<double> zero[3];
    for (int i = 0; i < 3; ++i) zero[i] = {std::cos(zeros[i]), std::sin(zeros[i])};
    for (int k = 0; k < 24; ++k) {
      const double off = std::abs(imaginary[k]) / (1 + std::hypot(real[k], imaginary[k]));
      if (!(off <= general_real)) continue;
      Turn<double> turn[6], own[6];
      // A pair of complex eigenvalues close to the real axis: two solutions that almost coincide.
      if (!inner_turns(A, real[k] + imaginary[k], zero, turn + 2)) continue;
      if (!outer_turns(known, X, turn)) continue;
      for (int i = 0; i < 6; ++i) own[(i + lines_.start()) % 6] = turn[i];
      emit(own);
    }
    const bool regular = growth < general_growth && largest < general_largest;
    return determined && solved && regular && separate(real, imaginary, largest);
  }

 private:
  // Eliminates the eight products of q1 and q2 from all but the first eight equations, by
  // Householder reflections. Returns whether all numbers are finite.
  bool eliminated(const LineDisplacement& X, double (&G)[14][35]) const {
    double left[14 * 27], right[14 * 9];
    lines_.sides(X, left, right);
    for (int i = 0; i < 14; ++i) {
      for (int j = 0; j < 8; ++j) G[i][j] = right[9 * i + 1 + j];
      for (int j = 0; j < 27; ++j) G[i][8 + j] = left[27 * i + j];
      G[i][8] -= right[9 * i];
    }
    double sum = 0;
    for (int k = 0; k < 8; ++k) {
      double v[14], size2 = 0;
      for (int i = k; i < 14; ++i) size2 += (v[i] = G[i][k]) * G[i][k];
      sum += size2;
      if (!(size2 > 1e-300)) continue;
      const double norm = sqrt(size2), head = v[k];
      v[k] += std::copysign(norm, head);
      const double tau = 1 / (norm * (norm + std::abs(head)));
      double w[35] = {};
      for (int i = k; i < 14; ++i) {
        for (int j = k; j < 35; ++j) w[j] += v[i] * G[i][j];
      }
      for (int i = k; i < 14; ++i) {
        const double factor = tau * v[i];
        for (int j = k; j < 35; ++j) G[i][j] -= factor * w[j];
      }
    }
    return finite(sum);
  }

  // Computes the matrix that maps the products of q3, q4 and q5 to the cosine and sine of q2 and of
  // q1. Returns whether these are well determined.
  static bool first_two(const double (&G)[14][35], double (&known)[4][27]) {
    // The order of the products is c2, s2, c1, c1 c2, c1 s2, s1, s1 c2, s1 s2.
    constexpr int row[4] = {0, 1, 2, 5};
    double worst = 0, size = 0;
    for (int j = 0; j < 8; ++j) size = max(std::abs(G[j][j]), size);
    const double smallest = max(epsilon * size, 1e-300);
    for (int r = 0; r < 4; ++r) {
      double x[8] = {}, norm2 = 0;  // a row of the inverse of the triangle
      for (int j = row[r]; j < 8; ++j) {
        double value = j == row[r];
        for (int i = row[r]; i < j; ++i) value -= x[i] * G[i][j];
        const double pivot = G[j][j];
        x[j] = value / (std::abs(pivot) > smallest ? pivot : smallest);
        norm2 += x[j] * x[j];
      }
      worst = max(norm2, worst);
      for (int k = 0; k < 27; ++k) {
        known[r][k] = 0;
        for (int i = row[r]; i < 8; ++i) known[r][k] += x[i] * G[i][8 + k];
      }
    }
    return worst < general_largest * general_largest;
  }

  // Converts the last six equations from cosines and sines to half-angle tangents.
  static void in_half_angles(const double (&G)[14][35], const double* zeros,
                             double (&to)[6][3][3][3]) {
    for (int i = 0; i < 6; ++i) {
      double x[27], y[27];
      for (int j = 0; j < 27; ++j) x[j] = G[8 + i][8 + j];
      // Each round converts the angle that varies slowest and makes it the one that varies fastest.
      for (int k = 0; k < 3; ++k) {
        const double c = std::cos(zeros[k]), s = std::sin(zeros[k]);
        for (int j = 0; j < 9; ++j) {
          // (1 + t²) (x0 + x1 cos q + x2 sin q) with q = zero + 2 arctan t
          const double x0 = x[j], x1 = c * x[9 + j] + s * x[18 + j],
                       x2 = c * x[18 + j] - s * x[9 + j];
          y[3 * j] = x0 + x1;
          y[3 * j + 1] = 2 * x2;
          y[3 * j + 2] = x0 - x1;
        }
        for (int j = 0; j < 27; ++j) x[j] = y[j];
      }
      for (int j = 0; j < 27; ++j) (&to[i][0][0][0])[j] = x[j];
    }
  }

  // Computes the lower half of the matrix of the eigenvalue problem, -A2⁻¹ (A0, A1), by elimination
  // with pivots. Returns its largest entry. `growth` is the factor by which rounding errors grow;
  // it is large if A2 is singular.
  static double companion(const double (&A)[3][12][12], double (&C)[24][24], double& growth) {
    double M[12][36];
    for (int i = 0; i < 12; ++i) {
      for (int j = 0; j < 12; ++j) {
        M[i][j] = A[2][i][j];
        M[i][12 + j] = -A[0][i][j];
        M[i][24 + j] = -A[1][i][j];
      }
    }
    double size = 1e-300, smallest = Number<double>::huge;
    for (int k = 0; k < 12; ++k) {
      int pivot = k;
      for (int i = k + 1; i < 12; ++i) {
        if (std::abs(M[i][k]) > std::abs(M[pivot][k])) pivot = i;
      }
      if (pivot != k) exchange(M[k] + k, M[pivot] + k, 36 - k);
      size = max(std::abs(M[k][k]), size);
      if (!(std::abs(M[k][k]) > epsilon * size)) M[k][k] = epsilon * size;
      smallest = min(std::abs(M[k][k]), smallest);
      const double inverse = 1 / M[k][k];
      for (int i = k + 1; i < 12; ++i) {
        const double factor = M[i][k] * inverse;
        for (int j = k + 1; j < 36; ++j) M[i][j] -= factor * M[k][j];
      }
    }
    growth = size / smallest;
    double largest = 1;
    for (int k = 11; k >= 0; --k) {
      double* const row = C[12 + k];
      for (int j = 0; j < 24; ++j) row[j] = M[k][12 + j];
      for (int i = k + 1; i < 12; ++i) {
        for (int j = 0; j < 24; ++j) row[j] -= M[k][i] * C[12 + i][j];
      }
      const double inverse = 1 / M[k][k];
      for (int j = 0; j < 24; ++j) {
        row[j] *= inverse;
        if (!(std::abs(row[j]) <= largest)) largest = std::abs(row[j]);
      }
    }
    return largest;
  }

  // Computes q3, q4 and q5 from an eigenvalue t, the half-angle tangent of q3: the null vector of
  // A0 + t A1 + t² A2 holds the products of powers of the other tangents.
  static bool inner_turns(const double (&A)[3][12][12], double t, const Turn<double>* zero,
                          Turn<double>* turn) {
    const double scale = 1 / (1 + t * t), f1 = t * scale, f2 = t * f1;
    double M[12][12], v[12], next[12];
    for (int i = 0; i < 12; ++i) {
      for (int j = 0; j < 12; ++j) {
        M[i][j] = scale * A[0][i][j] + f1 * A[1][i][j] + f2 * A[2][i][j];
      }
    }
    null_vector(M, v, next);
    double row[3] = {}, column[3] = {};  // sums of a·a, b·b and a·b over neighboring terms a, b
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 3; ++j) {
        const double x = v[3 * i + j];
        if (i < 3) add_pair(row, x, v[3 * (i + 1) + j]);
        if (j < 2) add_pair(column, x, v[3 * i + j + 1]);
      }
    }
    turn[0] = zero[0] * double_angle(t, 1);
    turn[1] = zero[1] * ratio(row);
    turn[2] = zero[2] * ratio(column);
    return finite(turn[1].c) && finite(turn[2].c);
  }

  static void add_pair(double (&sums)[3], double a, double b) {
    sums[0] += a * a;
    sums[1] += b * b;
    sums[2] += a * b;
  }
  // Returns the angle 2 arctan(y / x).
  static Turn<double> double_angle(double y, double x) {
    const double size = x * x + y * y;
    return {(x * x - y * y) / size, 2 * x * y / size};
  }
  // Returns 2 arctan(r), with the ratio r = b / a fitted to the neighboring terms of a sequence.
  static Turn<double> ratio(const double (&sums)[3]) {
    return sums[1] > sums[0] ? double_angle(sums[1], sums[2]) : double_angle(sums[2], sums[0]);
  }

  // Computes the null vector of a singular M, which is overwritten, by inverse iteration.
  static void null_vector(double (&M)[12][12], double* v, double* work) {
    int order[12];
    for (int i = 0; i < 12; ++i) order[i] = i;
    double size = 0;
    for (int k = 0; k < 12; ++k) {
      int pivot = k;
      for (int i = k + 1; i < 12; ++i) {
        if (std::abs(M[i][k]) > std::abs(M[pivot][k])) pivot = i;
      }
      if (pivot != k) {
        exchange(M[k], M[pivot], 12);
        exchange(order + k, order + pivot, 1);
      }
      size = max(std::abs(M[k][k]), size);
      const double smallest = max(epsilon * size, 1e-300);
      if (!(std::abs(M[k][k]) > smallest)) M[k][k] = smallest;
      const double inverse = 1 / M[k][k];
      for (int i = k + 1; i < 12; ++i) {
        const double factor = M[i][k] *= inverse;
        for (int j = k + 1; j < 12; ++j) M[i][j] -= factor * M[k][j];
      }
    }
    for (int i = 0; i < 12; ++i) v[i] = 1;  // (as if L x = 1 had been solved)
    for (int round = 0; round < 2; ++round) {
      if (round) {
        for (int i = 0; i < 12; ++i) {
          work[i] = v[order[i]];
          for (int j = 0; j < i; ++j) work[i] -= M[i][j] * work[j];
        }
        for (int i = 0; i < 12; ++i) v[i] = work[i];
      }
      double largest = 0;
      for (int i = 11; i >= 0; --i) {
        for (int j = i + 1; j < 12; ++j) v[i] -= M[i][j] * v[j];
        v[i] /= M[i][i];
        largest = max(std::abs(v[i]), largest);
      }
      for (int i = 0; i < 12; ++i) v[i] /= largest;
    }
  }

  // Computes q1, q2 and q6 from q3, q4 and q5. Returns false if they are not determined.
  bool outer_turns(const double (&known)[4][27], const LineDisplacement& X,
                   Turn<double>* turn) const {
    double value[4] = {};
    for (int k = 0; k < 27; ++k) {
      const auto factor = [](const Turn<double>& q, int i) {
        return i == 0 ? 1.0 : i == 1 ? q.c : q.s;
      };
      const double x = factor(turn[2], k / 9) * factor(turn[3], k / 3 % 3) * factor(turn[4], k % 3);
      for (int r = 0; r < 4; ++r) value[r] += known[r][k] * x;
    }
    const auto unit = [](double c, double s, Turn<double>& to) {
      const double size = std::hypot(c, s);
      to = {c / size, s / size};
      return size > 0 && finite(size);
    };
    if (!unit(value[2], value[3], turn[0]) || !unit(value[0], value[1], turn[1])) return false;
    // X, followed by the inverses of the other rotations, rotates a vector orthogonal to axis 6 by
    // q6.
    const Vec3<double>& h = lines_.direction(5);
    const Vec3<double> across =
        std::abs(h.x) < 0.6 ? Vec3<double>{0, h.z, -h.y} : Vec3<double>{-h.z, 0, h.x};
    Vec3<double> v = across;
    for (int i = 0; i < 6; ++i) {
      if (i == lines_.place()) v = X.R * v;
      if (i < 5) v = rotated(v, lines_.direction(i), -turn[i]);
    }
    return unit(dot(v, across), dot(v, cross(h, across)), turn[5]);
  }

  template <class X>
  static void exchange(X* a, X* b, int count) {
    for (int i = 0; i < count; ++i) {
      const X before = a[i];
      a[i] = b[i];
      b[i] = before;
    }
  }
  // Sorts numbers in ascending order, by insertion.
  static void sort(double* x, int count) {
    for (int k = 1; k < count; ++k) {
      const double own = x[k];
      int i = k;
      for (; i > 0 && own < x[i - 1]; --i) x[i] = x[i - 1];
      x[i] = own;
    }
  }

  // Whether eigenvalues are separate enough for their number and their eigenvectors to be certain.
  static bool separate(const double* real, const double* imaginary, double largest) {
    const double error = epsilon * largest * largest;
    double on_axis[24];
    int count = 0;
    for (int k = 0; k < 24; ++k) {
      const double im = std::abs(imaginary[k]);
      if (im == 0) {
        on_axis[count++] = real[k];
      } else if (im <= general_double * sqrt(error) * (1 + std::hypot(real[k], im))) {
        return false;
      }
    }
    sort(on_axis, count);
    for (int k = 1; k < count; ++k) {
      if (!(on_axis[k] - on_axis[k - 1] > general_apart * error)) return false;
    }
    return true;
  }

  static constexpr double epsilon = Number<double>::epsilon;

  LineEquations lines_;
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
