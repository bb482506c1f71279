// A cubic spline through points, with continuous second derivatives.
#pragma once

#include <vector>

namespace supple {

// Computes the slopes (count, width) of the cubic spline through q (count, width) at increasing s
// (count,), where count >= 4. At the second and the last but one point, the third derivative is
// continuous too ("not a knot"), which keeps the order of accuracy up to the ends.
inline void spline_slopes(int count, int width, const double* s, const double* q, double* slopes) {
  const int n = count - 1;
  std::vector<double> h(n), diagonal(count), upper(count);
  for (int i = 0; i < n; ++i) h[i] = s[i + 1] - s[i];
  const auto chord = [&](int i, int j) {
    return (q[(i + 1) * width + j] - q[i * width + j]) / h[i];
  };
  // Rows of the system: lower[i] y[i-1] + diagonal[i] y[i] + upper[i] y[i+1] = right[i]. Gaussian
  // elimination proceeds while they are built.
  diagonal[0] = h[1];
  upper[0] = h[0] + h[1];
  for (int j = 0; j < width; ++j) {
    slopes[j] = ((h[0] + 2 * upper[0]) * h[1] * chord(0, j) + h[0] * h[0] * chord(1, j)) / upper[0];
  }
  for (int i = 1; i <= n; ++i) {
    const bool last = i == n;
    const double lower = last ? h[n - 1] + h[n - 2] : h[i];
    const double factor = lower / diagonal[i - 1];
    diagonal[i] = (last ? h[n - 2] : 2 * (h[i - 1] + h[i])) - factor * upper[i - 1];
    upper[i] = last ? 0 : h[i - 1];
    for (int j = 0; j < width; ++j) {
      const double right = last ? (h[n - 1] * h[n - 1] * chord(n - 2, j) +
                                   (2 * lower + h[n - 1]) * h[n - 2] * chord(n - 1, j)) /
                                      lower
                                : 3 * (h[i] * chord(i - 1, j) + h[i - 1] * chord(i, j));
      slopes[i * width + j] = right - factor * slopes[(i - 1) * width + j];
    }
  }
  for (int j = 0; j < width; ++j) slopes[n * width + j] /= diagonal[n];
  for (int i = n - 1; i >= 0; --i) {
    for (int j = 0; j < width; ++j) {
      slopes[i * width + j] -= upper[i] * slopes[(i + 1) * width + j];
      slopes[i * width + j] /= diagonal[i];
    }
  }
}

}  // namespace supple
