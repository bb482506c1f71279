// Random walks of one joint inside its limits: no limit of position, speed, acceleration or jerk
// may be exceeded beyond rounding, whatever speeds are commanded.
//
//   soak_limits [walks] [seed]        2000 steps per walk; exit status 1 if a limit was exceeded
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "supple/limits/limits.hpp"

using supple::JointLimit;

namespace {

constexpr int steps = 2000;
constexpr double eps = std::numeric_limits<double>::epsilon();

struct Walk {
  std::mt19937_64 random;

  double uniform(double a = 0, double b = 1) {
    return a + (b - a) * std::uniform_real_distribution<double>()(random);
  }
  double power(double a, double b) { return std::pow(10, uniform(a, b)); }

  // Runs one walk; returns the number of steps that exceed a limit.
  int run() {
    constexpr double none = std::numeric_limits<double>::infinity();
    const double dt = power(-4, -1), speed = power(-2, 1), acceleration = speed / power(-3, 1),
                 jerk = acceleration / power(-3, 0.5), span = power(-3, 1),
                 middle = uniform() < 0.2 ? power(0, 5) : 0;
    const bool braked = uniform() < 0.8, fast = uniform() < 0.1, smooth = uniform() < 0.8;
    const JointLimit<double> limit{middle - span * uniform(), middle + span * uniform(),
                                   fast ? none : speed, braked ? acceleration : none,
                                   smooth ? jerk : none};
    double q = uniform(limit.lower, limit.upper), v = 0, c = 0, command = 0;
    const int style = int(uniform(0, 4));
    const double often = 0.1 * uniform();
    int exceeded = 0;
    for (int k = 0; k < steps; ++k) {
      double low, high;
      supple::joint_box(limit, q, v, c, dt, low, high);
      if (uniform() < often) command = uniform(-3, 3) * speed;
      const double wanted = style == 0   ? (uniform() < 0.5 ? low : high)
                            : style == 1 ? command
                            : style == 2 ? (k % 400 < 200 ? high : low)
                                         : uniform(low, high);
      const double x = std::fmin(std::fmax(wanted, low), high);
      // Clamped as in `advance`, so that rounding does not move a joint past a limit.
      const double next = std::fmin(std::fmax(std::fma(x, dt, q), limit.lower), limit.upper);
      const double change = x - v, rounding = 16 * eps * (std::fabs(x) + std::fabs(v));
      const double passed = std::fabs(std::fma(x, dt, q) - next);
      exceeded += !(low <= high) || !std::isfinite(x) || std::fabs(x) > limit.speed * (1 + 1e-9) ||
                  std::fabs(change) > limit.acceleration * dt * (1 + 1e-9) + rounding ||
                  std::fabs(change - c) > limit.jerk * dt * dt * (1 + 1e-6) + 2 * rounding ||
                  passed > 1e-9 * (std::fabs(q) + span);
      q = next, v = x, c = change;
    }
    return exceeded;
  }
};

}  // namespace

int main(int count, char** given) {
  const long walks = count > 1 ? std::atol(given[1]) : 1000;
  Walk walk{std::mt19937_64(count > 2 ? std::strtoull(given[2], nullptr, 10) : 0)};
  long exceeded = 0;
  for (long k = 0; k < walks; ++k) exceeded += walk.run();
  std::printf("%ld steps, %ld beyond a limit\n", walks * steps, exceeded);
  return exceeded != 0;
}
