// Cubic splines through points, with continuous second derivatives.
//
// Between its points a spline may overshoot the limits of a joint. Then the slopes and second
// derivatives at both ends of that piece are reduced, and each piece next to a changed point
// becomes three: with two more knots, a piece can have any slope and second derivative at both
// ends. The piece stays inside the limits if its six B-spline coefficients do.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "supple/robot/configuration.hpp"

namespace supple {

// Computes the slopes (count, width) of the cubic spline through q (count, width) at increasing s
// (count,), where count >= 4. At the second and the last but one point, the third derivative is
// continuous too ("not a knot"), which keeps the order of accuracy up to the ends.
inline void spline_slopes(int count, int width, const double* s, const double* q, double* slopes) {
  const int n = count - 1;
  std::vector<double> h(n), diagonal(count), upper(count);
  for (int i = 0; i < n; ++i) h[i] = s[i + 1] - s[i];
  const auto chord = [&](int i, int j) {
    return coordinate_difference(q[(i + 1) * width + j], q[i * width + j]) / h[i];
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

// a + b x + c x² + d x³ for 0 <= x <= h.
struct Cubic {
  double a, b, c, d;

  double at(double x) const { return a + x * (b + x * (c + x * d)); }
  double slope(double x) const { return b + x * (2 * c + x * 3 * d); }
  // The part of the curve from x on, as a function of the distance from x.
  Cubic from(double x) const { return {at(x), slope(x), c + 3 * d * x, d}; }

  // Whether the curve leaves the interval from lower to upper. Rounding errors do not count.
  bool leaves(double h, double lower, double upper) const {
    // The curve does not leave the interval if its four Bernstein coefficients are inside.
    const double end = at(h), second = a + h * b / 3, third = end - h * slope(h) / 3;
    if (std::min({a, second, third, end}) >= lower && std::max({a, second, third, end}) <= upper) {
      return false;
    }
    const double largest = std::max({std::abs(a), std::abs(end), h * std::abs(b)});
    const double rounding = 64 * std::numeric_limits<double>::epsilon() * largest;
    const auto is_out = [&](double x) {
      const double value = at(std::clamp(x, 0.0, h));
      return value < lower - rounding || value > upper + rounding;
    };
    // Extremes are at the roots of b + 2 c x + 3 d x²: far/(3 d) and b/far.
    const double far = -(c + std::copysign(std::sqrt(std::max(c * c - 3 * b * d, 0.0)), c));
    return is_out(0) || is_out(h) || (d != 0 && is_out(far / (3 * d))) ||
           (far != 0 && is_out(b / far));
  }
};

// One coordinate of a spline: values q (count,) at s (count,), `stride` apart, with given slopes.
class LimitedSpline {
 public:
  LimitedSpline(int count, int stride, const double* s, const double* q, const double* slopes,
                double lower, double upper)
      : count_(count),
        stride_(stride),
        s_(s),
        q_(q),
        slopes_(slopes),
        lower_(lower),
        upper_(upper),
        changed_(std::size_t(count), false) {
    // A change may make a neighboring piece leave the limits, so pieces are visited again.
    for (bool again = true; again;) {
      again = false;
      for (int i = 0; i + 1 < count; ++i) again |= limit(i);
      for (int i = count - 2; again && i >= 0; --i) limit(i);
    }
  }

  // Whether piece i consists of three parts.
  bool is_parted(int i) const { return changed_[std::size_t(i)] || changed_[std::size_t(i + 1)]; }

  // The spline between points i and i + 1.
  Cubic plain(int i) const {
    const double h = s_[i + 1] - s_[i], chord = coordinate_difference(value(i + 1), value(i)) / h;
    const double m = slopes_[i * stride_], n = slopes_[(i + 1) * stride_];
    return {value(i), m, (3 * chord - 2 * m - n) / h, (m + n - 2 * chord) / (h * h)};
  }

  // The three parts of piece i, each a third of its length.
  std::array<Cubic, 3> parts(int i) const {
    const double t = (s_[i + 1] - s_[i]) / 3;
    if (!is_parted(i)) {
      const Cubic all = plain(i);
      return {all, all.from(t), all.from(2 * t)};
    }
    const auto [m0, c0] = derivatives(i);
    const auto [m1, c1] = derivatives(i + 1);
    // The third derivative of each part is constant. The sum of the third derivatives, and their
    // moments, follow from the second derivative, the slope and the value at the end.
    const double sum = (c1 - c0) / t, first = ((m1 - m0) / t - 3 * c0) / t;
    const double rise = coordinate_difference(value(i + 1), value(i));
    const double second = 6 * ((rise / t - 3 * m0) / t - 4.5 * c0) / t;
    const double d0 = (second + 2 * sum - 6 * first) / 6, d1 = first - sum / 2 - 2 * d0;
    const double d[] = {d0, d1, sum - d0 - d1};
    std::array<Cubic, 3> made;
    Cubic at{value(i), m0, c0 / 2, 0};
    for (std::size_t k = 0; k < 3; ++k) {
      at.d = d[k] / 6;
      made[k] = at;
      at = at.from(t);
    }
    return made;
  }

 private:
  struct Derivatives {
    double slope, second;
  };

  double value(int i) const { return q_[i * stride_]; }

  // Changes the ends of a piece that leaves the limits; returns whether an end has changed.
  bool limit(int i) {
    const std::size_t k = std::size_t(i);
    if (changed_[k] && changed_[k + 1]) return false;  // inside, up to rounding errors
    const double h = s_[i + 1] - s_[i];
    if (is_parted(i)) {
      const auto own = parts(i);
      const auto leaves = [&](const Cubic& part) { return part.leaves(h / 3, lower_, upper_); };
      if (std::ranges::none_of(own, leaves)) return false;
    } else if (!plain(i).leaves(h, lower_, upper_)) {
      return false;
    }
    changed_[k] = changed_[k + 1] = true;
    return true;
  }

  // Slope and second derivative at a point: those of the spline or, if the point is changed, the
  // nearest ones that keep the limits. With knots at a third of each piece, t, the B-spline
  // coefficients next to a value q are
  //     q + slope t/3,    q + slope t + second t²/3        (with -t for the piece before it)
  // These coefficients must be between the limits. Zero derivatives always satisfy this.
  Derivatives derivatives(int i) const {
    const bool has_after = i + 1 < count_, has_before = i > 0;
    double slope = slopes_[i * stride_];
    const Cubic own = plain(has_after ? i : i - 1);
    double second = has_after ? 2 * own.c : 2 * own.c + 6 * own.d * (s_[i] - s_[i - 1]);
    if (!changed_[std::size_t(i)]) return {slope, second};
    const double up = std::max(coordinate_difference(upper_, value(i)), 0.0);
    const double down = std::max(coordinate_difference(value(i), lower_), 0.0);
    const double none = std::numeric_limits<double>::infinity();
    const double t = has_after ? (s_[i + 1] - s_[i]) / 3 : 0;
    const double r = has_before ? (s_[i] - s_[i - 1]) / 3 : 0;
    double most = none, least = none;  // slope from -least to most
    if (has_after) most = 3 * up / t, least = 3 * down / t;
    if (has_before) most = std::min(most, 3 * down / r), least = std::min(least, 3 * up / r);
    if (has_after && has_before) {  // some second derivative must satisfy both sides
      const double both = 1 / t + 1 / r;
      most = std::min(most, (up / (t * t) + down / (r * r)) / both);
      least = std::min(least, (down / (t * t) + up / (r * r)) / both);
    }
    slope = std::clamp(slope, -least, most);
    double high = none, low = none;  // second derivative from -low to high
    if (has_after) {
      high = 3 * (up - slope * t) / (t * t);
      low = 3 * (down + slope * t) / (t * t);
    }
    if (has_before) {
      high = std::min(high, 3 * (up + slope * r) / (r * r));
      low = std::min(low, 3 * (down - slope * r) / (r * r));
    }
    return {slope, std::clamp(second, -low, std::max(high, -low))};
  }

  const int count_, stride_;
  const double *const s_, *const q_, *const slopes_;
  const double lower_, upper_;
  std::vector<bool> changed_;
};

}  // namespace supple
