// Time-optimal motion along a path q(u): the squared speed b = u̇² as a spline of the path
// parameter u. Primes are derivatives in u; v are the speed limits of the joints.
//
//   minimize  ∫ du/√b
//
//   1 >= b m                                  speed, m = max(q'²/v²)
//   1 >= |q'' b + q' b'/2|                    acceleration
//   1/√b >= |q''' b + 3 q'' b'/2 + q' b''/2|  jerk
//
// In the last two inequalities, derivatives of q are divided by the acceleration or jerk limits of
// their joints. Without jerk limits the problem is convex. With jerk limits it is not, because the
// larger side of the last inequality, 1/√b, is convex. The tangent of 1/√b at the current b lies
// below it, so that a step of Newton's method with this tangent stays inside the limits (Debrouwere
// et al. 2013). A logarithmic barrier keeps the slacks of all inequalities positive. The limits at
// each of the `points` depend on degree + 1 neighboring coefficients of the spline, so the Hessian
// is a band matrix.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace supple {

struct TimingProblem {
  int points, unknowns, joints, degree;  // degree of the spline: 1, or 2 with jerk limits
  const int* first;      // (points,): index of the first coefficient on which a point depends
  const double* basis;   // (points, 3, degree + 1): factors of these coefficients in b, b', b''
  const double* weight;  // (points,): weights of the integral
  const int* kinds;      // (points,): 1 for speed and acceleration, 2 for jerk, 3 for all limits
  const double* speed;   // (points,): m in the inequality of the speed
  const double* acceleration;  // (points, joints, 2): q', q'', divided by acceleration limits
  const double* jerk;  // (points, joints, 3): q', q'', q''' divided by jerk limits; null for none
};

class TimingSolver {
 public:
  static constexpr double reduction = 0.1;  // factor of the barrier's weight per round
  static constexpr int max_steps = 2000;

  explicit TimingSolver(const TimingProblem& problem)
      : p_(problem),
        band_(problem.degree + 1),
        hessian_(std::size_t(problem.unknowns) * band_),
        gradient_(problem.unknowns),
        trial_(problem.unknowns) {}

  // Copies the fastest of `count` sets of positive coefficients `starts` (count, unknowns) to c,
  // scaled so that all limits hold with some slack: speed, acceleration and jerk all grow with the
  // coefficients. If `begin` < 1 (a warm start), coefficients inside all limits are not scaled.
  void choose(int count, const double* starts, double begin, double* c) {
    const bool anew = begin >= 1;
    double best = std::numeric_limits<double>::infinity();
    for (int k = 0; k < count; ++k, starts += p_.unknowns) {
      double time = 0, most = 0;
      measure(starts, &time, &most);
      const double factor = anew || most >= 1 ? (1 - 0.5 * std::min(begin, 1.0)) / most : 1;
      if (!(time / std::sqrt(factor) < best)) continue;
      best = time / std::sqrt(factor);
      for (int i = 0; i < p_.unknowns; ++i) c[i] = starts[i] * factor;
    }
  }

  // Minimizes the duration, starting from positive coefficients c (unknowns,) inside all limits,
  // which are overwritten. The weight of the barrier decreases from round to round: in a convex
  // problem, the duration exceeds the optimum by the fraction `begin` after the first round, and
  // by at most `end` after the last one. Returns the number of Newton steps.
  int solve(double* c, double begin, double end) {
    double count = 0;  // number of inequalities
    for (int i = 0; i < p_.points; ++i) {
      if (accelerates(i)) count += 1 + 2 * p_.joints;
      if (jerks(i)) count += 2 * p_.joints;
    }
    double duration = 0;
    double value = evaluate(c, 0, &duration);
    double mu = begin * duration / count;
    int steps = 0;
    for (;;) {
      double last = 1;  // length of the last step
      value = evaluate(c, mu, &duration);
      for (int inner = 0; inner < 60 && steps < max_steps; ++inner, ++steps) {
        assemble(c, mu);
        const double decrease = newton();
        if (!(decrease > 0.05 * mu * count * 1e-2)) break;
        double step = p_.jerk ? std::min(1.0, 3 * last) : 1;
        double next = std::numeric_limits<double>::infinity();
        for (int tries = 0; tries < 40; ++tries, step *= 0.6) {
          for (int i = 0; i < p_.unknowns; ++i) trial_[i] = c[i] - step * gradient_[i];
          next = evaluate(trial_.data(), mu, &duration);
          if (next <= value - 0.05 * step * decrease) break;
        }
        if (!(next < value)) break;
        std::copy(trial_.begin(), trial_.end(), c);
        value = next;
        last = step;
      }
      if (mu * count < end * duration || steps >= max_steps) return steps;
      mu = std::max(mu * reduction, 0.5 * end * duration / count);
    }
  }

 private:
  TimingProblem p_;
  int band_;
  std::vector<double> hessian_, gradient_, trial_;

  bool accelerates(int point) const { return p_.kinds[point] & 1; }
  bool jerks(int point) const { return p_.kinds[point] & 2; }

  // Computes b, b' and b'' at a point.
  void at(const double* c, int point, double* b) const {
    const double* const phi = p_.basis + std::size_t(point) * 3 * band_;
    const double* const own = c + p_.first[point];
    for (int d = 0; d < 3; ++d) {
      b[d] = 0;
      for (int k = 0; k < band_; ++k) b[d] += phi[d * band_ + k] * own[k];
    }
  }

  static double acceleration(const double* d, const double* b) {
    return d[1] * b[0] + 0.5 * d[0] * b[1];
  }
  static double jerk(const double* d, const double* b) {
    return d[2] * b[0] + 1.5 * d[1] * b[1] + 0.5 * d[0] * b[2];
  }

  // Computes the duration with coefficients c, and the factor by which to divide them so that the
  // motion just keeps all limits.
  void measure(const double* c, double* duration, double* most) const {
    for (int i = 0; i < p_.points; ++i) {
      double b[3];
      at(c, i, b);
      *duration += p_.weight[i] / std::sqrt(b[0]);
      double third = 0;
      if (accelerates(i)) *most = std::max(*most, b[0] * p_.speed[i]);
      for (int j = 0; j < p_.joints; ++j) {
        const std::size_t k = std::size_t(i) * p_.joints + j;
        if (accelerates(i))
          *most = std::max(*most, std::abs(acceleration(p_.acceleration + 2 * k, b)));
        if (jerks(i)) third = std::max(third, std::abs(jerk(p_.jerk + 3 * k, b)));
      }
      *most = std::max(*most, std::cbrt(third * third * b[0]));
    }
  }

  // Returns the duration plus the barrier; infinite outside the limits.
  double evaluate(const double* c, double mu, double* duration) const {
    const double outside = std::numeric_limits<double>::infinity();
    double time = 0, barrier = 0;
    for (int i = 0; i < p_.unknowns; ++i) {  // if all coefficients are positive, so is b
      if (!(c[i] > 0)) return outside;
      barrier -= std::log(c[i]);
    }
    for (int i = 0; i < p_.points; ++i) {
      double b[3];
      at(c, i, b);
      if (!(b[0] > 0)) return outside;
      const double root = 1 / std::sqrt(b[0]);
      time += p_.weight[i] * root;
      double slack = 1, least = 1;
      if (accelerates(i)) {
        slack = 1 - b[0] * p_.speed[i];
        if (!(slack > 0)) return outside;
        const double* d = p_.acceleration + std::size_t(i) * p_.joints * 2;
        least = slack;
        for (int j = 0; j < p_.joints; ++j, d += 2) {
          const double f = acceleration(d, b), own = 1 - f * f;  // (1 - f)(1 + f)
          least = std::min(least, own);
          slack *= own;
        }
        if (!(least > 0)) return outside;
        barrier -= std::log(slack);
      }
      if (jerks(i)) {
        const double* e = p_.jerk + std::size_t(i) * p_.joints * 3;
        slack = 1;
        for (int j = 0; j < p_.joints; ++j, e += 3) {
          const double f = jerk(e, b) / root, own = 1 - f * f;
          least = std::min(least, own);
          slack *= own;
        }
        if (!(least > 0)) return outside;
        barrier -= std::log(slack) + 2 * p_.joints * std::log(root);
      }
    }
    *duration = time;
    return time + mu * barrier;
  }

  // Computes the gradient and the Hessian of duration plus barrier, the Hessian without the
  // negative curvature due to 1/√b.
  void assemble(const double* c, double mu) {
    std::fill(hessian_.begin(), hessian_.end(), 0.0);
    for (int i = 0; i < p_.unknowns; ++i) {
      gradient_[i] = -mu / c[i];
      hessian_[std::size_t(i) * band_] = mu / (c[i] * c[i]);
    }
    for (int i = 0; i < p_.points; ++i) {
      double b[3];
      at(c, i, b);
      const double root = 1 / std::sqrt(b[0]), per_b = root / b[0];
      double g[3] = {-0.5 * p_.weight[i] * per_b, 0, 0};
      double h[3][3] = {{0.75 * p_.weight[i] * per_b / b[0], 0, 0}, {0, 0, 0}, {0, 0, 0}};
      if (accelerates(i)) {
        const double m = mu * p_.speed[i] / (1 - b[0] * p_.speed[i]);
        g[0] += m;
        h[0][0] += m * m / mu;
        const double* d = p_.acceleration + std::size_t(i) * p_.joints * 2;
        for (int j = 0; j < p_.joints; ++j, d += 2) {  // slacks 1 - f and 1 + f
          const double f = acceleration(d, b), inverse = 1 / (1 - f * f);
          const double first = 2 * mu * f * inverse,
                       second = 2 * mu * (1 + f * f) * inverse * inverse;
          const double n[2] = {d[1], 0.5 * d[0]};
          g[0] += first * n[0];
          g[1] += first * n[1];
          h[0][0] += second * n[0] * n[0];
          h[1][0] += second * n[0] * n[1];
          h[1][1] += second * n[1] * n[1];
        }
      }
      if (jerks(i)) {
        const double* e = p_.jerk + std::size_t(i) * p_.joints * 3;
        const double tangent = -0.5 * per_b;  // derivative of 1/√b
        double inverses = 0, squares = 0, mixed[3] = {0, 0, 0};
        for (int j = 0; j < p_.joints; ++j, e += 3) {  // slacks root - f and root + f
          const double f = jerk(e, b), inverse = 1 / (root * root - f * f);
          const double first = 2 * mu * f * inverse;
          const double second = 2 * mu * (root * root + f * f) * inverse * inverse;
          const double both = 2 * root * first * inverse;
          const double n[3] = {e[2], 1.5 * e[1], 0.5 * e[0]};
          inverses += 2 * mu * root * inverse;
          squares += second;
          for (int r = 0; r < 3; ++r) {
            g[r] += first * n[r];
            mixed[r] += both * n[r];
            for (int s = 0; s <= r; ++s) h[r][s] += second * n[r] * n[s];
          }
        }
        g[0] -= tangent * inverses;
        for (int r = 0; r < 3; ++r) h[r][0] -= tangent * mixed[r];
        h[0][0] += tangent * (tangent * squares - mixed[0]);
        h[0][0] -= std::min(inverses, p_.weight[i]) * 0.75 * per_b / b[0];
      }
      scatter(i, g, h);
    }
  }

  void scatter(int point, const double* g, const double (*h)[3]) {
    const double* const phi = p_.basis + std::size_t(point) * 3 * band_;
    const int first = p_.first[point];
    for (int k = 0; k < band_; ++k) {
      double own[3] = {0, 0, 0};
      for (int r = 0; r < 3; ++r) {
        gradient_[first + k] += g[r] * phi[r * band_ + k];
        for (int s = 0; s < 3; ++s)
          own[r] += h[std::max(r, s)][std::min(r, s)] * phi[s * band_ + k];
      }
      for (int l = 0; l <= k; ++l) {
        double sum = 0;
        for (int r = 0; r < 3; ++r) sum += own[r] * phi[r * band_ + l];
        hessian_[std::size_t(first + k) * band_ + (k - l)] += sum;
      }
    }
  }

  // Replaces the gradient g by Newton's step H⁻¹ g, with a banded L D Lᵀ of the Hessian H. Returns
  // gᵀ H⁻¹ g.
  double newton() {
    const int n = p_.unknowns, w = band_ - 1;
    double* const h = hessian_.data();  // h[i, k]: entry (i, i - k)
    double decrease = 0;
    for (int i = 0; i < n; ++i) {
      double* const row = h + std::size_t(i) * band_;
      for (int k = std::min(w, i); k >= 1; --k) {  // row[k] becomes L(i, i - k) D
        const double* const other = h + std::size_t(i - k) * band_;
        for (int m = 1; k + m <= std::min(w, i); ++m) row[k] -= row[k + m] * other[m];
      }
      for (int k = std::min(w, i); k >= 1; --k) {
        const double d = h[std::size_t(i - k) * band_];
        const double l = row[k] / d;
        row[0] -= l * row[k];
        row[k] = l;
        gradient_[i] -= l * gradient_[i - k];
      }
      row[0] = std::max(row[0], std::numeric_limits<double>::min());
      decrease += gradient_[i] * gradient_[i] / row[0];
    }
    for (int i = n - 1; i >= 0; --i) {
      gradient_[i] /= h[std::size_t(i) * band_];
      for (int k = 1; k <= w && i + k < n; ++k) {
        gradient_[i] -= h[std::size_t(i + k) * band_ + k] * gradient_[i + k];
      }
    }
    return decrease;
  }
};

}  // namespace supple
