// Targets between those of a path.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace supple {

// Targets (count, size) at increasing places x (count,), where count >= 2. Between two of them,
// numbers are interpolated linearly, and a rotation turns at a constant rate.
struct PathOfTargets {
  std::ptrdiff_t count, size;
  const double *x, *numbers;
  std::vector<std::ptrdiff_t> rotations;  // (r,): where the columns of each rotation begin
  const double* turns;                    // (count - 1, r, 3): rotation vectors in body axes [rad]
};

// Writes the target (size,) at a place to `to`.
inline void target_between(const PathOfTargets& path, double place, double* to) {
  const double* const after = std::upper_bound(path.x, path.x + path.count, place);
  const std::ptrdiff_t i = std::clamp<std::ptrdiff_t>(after - path.x - 1, 0, path.count - 2);
  const double f = (place - path.x[i]) / (path.x[i + 1] - path.x[i]);
  const double *const a = path.numbers + i * path.size, *const b = a + path.size;
  for (std::ptrdiff_t j = 0; j < path.size; ++j) to[j] = (1 - f) * a[j] + f * b[j];
  const double* turn = path.turns + i * std::ptrdiff_t(path.rotations.size()) * 3;
  for (std::ptrdiff_t begin : path.rotations) {
    // R0 exp(v) = R0 + s R0 K + t R0 K² with K = [v]×; the rows of `to` are the columns of R.
    const double v[3] = {f * turn[0], f * turn[1], f * turn[2]};
    const double half = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) / 2;
    const double k = half > 1e-8 ? std::sin(half) / half : 1.0;
    const double s = k * std::cos(half), t = k * k / 2;
    const double E[3][3] = {{1 - t * (v[1] * v[1] + v[2] * v[2]), t * v[0] * v[1] - s * v[2],
                             t * v[0] * v[2] + s * v[1]},
                            {t * v[0] * v[1] + s * v[2], 1 - t * (v[0] * v[0] + v[2] * v[2]),
                             t * v[1] * v[2] - s * v[0]},
                            {t * v[0] * v[2] - s * v[1], t * v[1] * v[2] + s * v[0],
                             1 - t * (v[0] * v[0] + v[1] * v[1])}};
    for (int column = 0; column < 3; ++column) {
      for (int r = 0; r < 3; ++r) {
        double sum = 0;
        for (int c = 0; c < 3; ++c) sum += a[begin + 3 * c + r] * E[c][column];
        to[begin + 3 * column + r] = sum;
      }
    }
    turn += 3;
  }
}

}  // namespace supple
