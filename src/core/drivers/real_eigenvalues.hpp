// The eigenvalues of a small real matrix that need not be symmetric: balancing, reduction to
// Hessenberg form, and Francis's double-shift QR iteration (Golub & Van Loan, section 7.5).
#pragma once

#include <cmath>

#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// A square matrix in row-major order.
template <int n>
using Square = double[n][n];

// Scales the rows and columns of A by powers of two, so that the norms of row i and column i are
// similar. This is a similarity transformation without rounding errors.
template <int n>
void balance(Square<n>& A) {
  bool changed = true;
  for (int sweep = 0; sweep < 5 && changed; ++sweep) {
    changed = false;
    double columns[n] = {};
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) columns[j] += std::abs(A[i][j]);
    }
    for (int i = 0; i < n; ++i) {
      double row = -std::abs(A[i][i]);
      for (int j = 0; j < n; ++j) row += std::abs(A[i][j]);
      const double column = columns[i] - std::abs(A[i][i]);
      if (!(row > 0 && column > 0)) continue;
      const int exponent = (std::ilogb(row) - std::ilogb(column)) / 2;
      const double f = std::ldexp(1.0, exponent);
      if (exponent == 0 || !(column * f + row / f < 0.95 * (column + row))) continue;
      changed = true;
      for (int j = 0; j < n; ++j) {
        const double before = std::abs(A[i][j]);
        A[i][j] /= f;
        columns[j] += std::abs(A[i][j]) - before;
      }
      columns[i] *= f;
      for (int j = 0; j < n; ++j) A[j][i] *= f;
    }
  }
}

// Reduces A to upper Hessenberg form with the same eigenvalues, by Householder reflections.
template <int n>
void reduce_to_hessenberg(Square<n>& A) {
  for (int k = 0; k + 2 < n; ++k) {
    double v[n] = {}, below = 0;
    for (int i = k + 2; i < n; ++i) below += A[i][k] * A[i][k];
    if (below == 0) continue;
    const double head = A[k + 1][k], norm = sqrt(head * head + below);
    for (int i = k + 1; i < n; ++i) v[i] = A[i][k];
    v[k + 1] += std::copysign(norm, head);
    const double tau = 1 / (norm * (norm + std::abs(head)));
    // A <- (I - tau v vᵀ) A, without the columns that are zero already
    double w[n] = {};
    for (int i = k + 1; i < n; ++i) {
      for (int j = k + 1; j < n; ++j) w[j] += v[i] * A[i][j];
    }
    for (int i = k + 1; i < n; ++i) {
      const double factor = tau * v[i];
      for (int j = k + 1; j < n; ++j) A[i][j] -= factor * w[j];
    }
    A[k + 1][k] = -std::copysign(norm, head);
    for (int i = k + 2; i < n; ++i) A[i][k] = 0;
    // A <- A (I - tau v vᵀ), four rows at a time
    static_assert(n % 4 == 0);
    for (int i = 0; i < n; i += 4) {
      double dot[4] = {};
      for (int j = k + 1; j < n; ++j) {
        for (int r = 0; r < 4; ++r) dot[r] += A[i + r][j] * v[j];
      }
      for (int r = 0; r < 4; ++r) {
        const double factor = tau * dot[r];
        for (int j = k + 1; j < n; ++j) A[i + r][j] -= factor * v[j];
      }
    }
  }
}

// Performs a QR step on the active block of rows and columns `first` to `last` of a Hessenberg
// matrix H. The two shifts are the eigenvalues of a matrix with the diagonal a, d and the product
// bc of its other entries.
template <int n>
void francis_step(Square<n>& H, int first, int last, double a, double d, double bc) {
  const double h00 = H[first][first], h10 = H[first + 1][first], h11 = H[first + 1][first + 1];
  // The first column of (H - shift 1)(H - shift 2), divided by h10. Differences are taken first,
  // because the shifts may be equal to h00 up to rounding.
  double x = ((a - h00) * (d - h00) - bc) / h10 + H[first][first + 1];
  double y = (h11 - h00) - (a - h00) - (d - h00);
  double z = H[first + 2][first + 1];
  for (int k = first; k < last; ++k) {
    const bool three = k + 2 <= last;
    if (!three) z = 0;
    const double scale = std::abs(x) + std::abs(y) + std::abs(z);
    if (scale > 0) {
      x /= scale;
      y /= scale;
      z /= scale;
      // The reflection I - (1, b, c)ᵀ (p, q, r) maps (x, y, z) to (-norm, 0, 0).
      const double norm = std::copysign(sqrt(x * x + y * y + z * z), x);
      const double head = x + norm, b = y / head, c = z / head;
      const double p = head / norm, q = y / norm, r = z / norm;
      if (k > first) {
        H[k][k - 1] = -norm * scale;
        H[k + 1][k - 1] = 0;
        if (three) H[k + 2][k - 1] = 0;
      }
      double *const h0 = H[k], *const h1 = H[k + 1], *const h2 = H[three ? k + 2 : k + 1];
      if (three) {
        for (int j = k; j <= last; ++j) {
          const double f = p * h0[j] + q * h1[j] + r * h2[j];
          h0[j] -= f;
          h1[j] -= b * f;
          h2[j] -= c * f;
        }
        const int end = k + 3 < last ? k + 3 : last;
        for (int i = first; i <= end; ++i) {
          double* const h = H[i] + k;
          const double f = h[0] + b * h[1] + c * h[2];
          h[0] -= p * f;
          h[1] -= q * f;
          h[2] -= r * f;
        }
      } else {
        for (int j = k; j <= last; ++j) {
          const double f = p * h0[j] + q * h1[j];
          h0[j] -= f;
          h1[j] -= b * f;
        }
        for (int i = first; i <= last; ++i) {
          double* const h = H[i] + k;
          const double f = h[0] + b * h[1];
          h[0] -= p * f;
          h[1] -= q * f;
        }
      }
    }
    if (k + 1 < last) {
      x = H[k + 1][k];
      y = H[k + 2][k];
      z = k + 3 <= last ? H[k + 3][k] : 0;
    }
  }
}

// Computes the eigenvalues of A, which is overwritten. Returns false if the iteration does not
// converge.
template <int n>
bool eigenvalues(Square<n>& A, double* real, double* imaginary) {
  constexpr double epsilon = Number<double>::epsilon;
  balance<n>(A);
  reduce_to_hessenberg<n>(A);
  // Entries below the diagonal count as zero if they are rounding errors relative to their
  // neighbors on the diagonal or, if these nearly vanish and the iteration stagnates, relative to
  // the whole matrix.
  double norm = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) norm += A[i][j] * A[i][j];
  }
  norm = sqrt(norm);
  int last = n - 1, iteration = 0;
  while (last >= 0) {
    int first = last;
    for (; first > 0; --first) {
      double size = std::abs(A[first - 1][first - 1]) + std::abs(A[first][first]);
      if (iteration >= 10) size = max(norm, size);
      if (std::abs(A[first][first - 1]) <= epsilon * size) break;
    }
    if (first == last) {
      real[last] = A[last][last];
      imaginary[last] = 0;
      last -= 1;
      iteration = 0;
      continue;
    }
    const double a = A[last - 1][last - 1], b = A[last - 1][last], c = A[last][last - 1],
                 d = A[last][last];
    if (first == last - 1) {
      const double half = 0.5 * (a - d), inside = half * half + b * c;
      const double root = sqrt(std::abs(inside));
      if (inside >= 0) {
        const double far = half + std::copysign(root, half);
        real[last - 1] = d + far;
        real[last] = far != 0 ? d - b * c / far : d;
        imaginary[last - 1] = imaginary[last] = 0;
      } else {
        real[last - 1] = real[last] = d + half;
        imaginary[last - 1] = root;
        imaginary[last] = -root;
      }
      last -= 2;
      iteration = 0;
      continue;
    }
    if (++iteration > 60) return false;
    if (iteration % 10 == 0) {  // exceptional shifts break a cycle
      const double size = std::abs(c) + std::abs(A[last - 1][last - 2]), shift = d + 0.75 * size;
      francis_step<n>(A, first, last, shift, shift, -0.4375 * size * size);
    } else {
      francis_step<n>(A, first, last, a, d, b * c);
    }
  }
  return true;
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
