// Counts the operations of the kernel by running its kinematics on a lane type that counts them.
#include "drivers/operation_count.hpp"

#include <algorithm>
#include <vector>

#include "supple/ik/iterate.hpp"

namespace supple::inline SUPPLE_ISA {

namespace {
thread_local Operations tally;
}

// A number that has the interface of a lane and counts the operations on it. A fused multiply-add
// counts as one multiplication and one addition; signs, comparisons and selections are not counted.
// `ready` is the length of the longest chain of dependent operations that leads to the number; a
// fused operation or an elementary function has length one.
struct Counted {
  double x;
  long ready = 0;

  Counted() = default;
  Counted(double number, long known = 0) : x(number), ready(known) {}

  static long after(Counted a, Counted b) { return 1 + std::max(a.ready, b.ready); }
  static Counted elementary(double value, long known) {
    return (++tally.others, Counted(value, known));
  }

  friend Counted operator+(Counted a, Counted b) {
    return (++tally.additions, Counted(a.x + b.x, after(a, b)));
  }
  friend Counted operator-(Counted a, Counted b) {
    return (++tally.additions, Counted(a.x - b.x, after(a, b)));
  }
  friend Counted operator*(Counted a, Counted b) {
    return (++tally.multiplications, Counted(a.x * b.x, after(a, b)));
  }
  friend Counted operator/(Counted a, Counted b) { return elementary(a.x / b.x, after(a, b)); }
  friend Counted operator-(Counted a) { return {-a.x, a.ready}; }
  friend Counted fma(Counted a, Counted b, Counted c) {
    return {(a * b + c).x, 1 + std::max({a.ready, b.ready, c.ready})};
  }
  friend Counted abs(Counted a) { return {abs(a.x), a.ready}; }
  friend Counted sqrt(Counted a) { return elementary(sqrt(a.x), 1 + a.ready); }
  friend Counted atan2(Counted y, Counted x) { return elementary(atan2(y.x, x.x), after(y, x)); }
  friend void sincos(Counted a, Counted& s, Counted& c) {
    s = elementary(0, 1 + a.ready);
    c = elementary(1, 1 + a.ready);
    sincos(a.x, s.x, c.x);
  }
  friend void sincos_in_range(Counted a, Counted& s, Counted& c) { sincos(a, s, c); }
  friend Counted select(bool which, Counted a, Counted b) { return which ? a : b; }
  friend bool operator==(Counted a, Counted b) { return a.x == b.x; }
  friend bool operator!=(Counted a, Counted b) { return a.x != b.x; }
  friend bool operator<=(Counted a, Counted b) { return a.x <= b.x; }
  friend bool operator>=(Counted a, Counted b) { return a.x >= b.x; }
  friend bool operator<(Counted a, Counted b) { return a.x < b.x; }
  friend bool operator>(Counted a, Counted b) { return a.x > b.x; }
  friend double get(Counted a, int) { return a.x; }
  friend void set(Counted& a, int, double x) { a.x = x; }
};

template <>
struct Lane<Counted> {
  using Scalar = double;
  using Mask = bool;
  static constexpr int width = 1;
};

}  // namespace supple::inline SUPPLE_ISA

namespace supple {

Operations operations(const Chain<double>& chain) {
  const std::vector<Counted> q(chain.nq, Counted(0));
  std::vector<Pose<Counted>> joint_poses(chain.joints);
  tally = {};
  forward(chain, q.data(), joint_poses.data());
  for (int f = 0; f < chain.frames; ++f) {
    const Pose<Counted> at = frame_pose(chain.frame[f], joint_poses.data());
    jacobian(chain, chain.frame[f], joint_poses.data(), at.p,
             [](int, const Twist<Counted>&, bool) {});
  }
  return tally;
}

Operations operations(const IkProblem<double>& ik) {
  const int m = ik.rows, n = ik.chain.nv;
  std::vector<Counted> q(ik.chain.nq), target(ik.targets, Counted(0)), J(m * n), e(m),
      J_before(m * n), work(iterate_scratch(ik));
  for (int j = 0; j < ik.chain.nq; ++j) q[j] = ik.seed_lower[j] + 0.4 * ik.seed_range[j];
  for (int i = 0; i < ik.targets; ++i) target[i] = (i % 12) % 4 == 0;  // R = I, or the axis x
  IterateState<Counted> at{q.data(),    target.data(),   0, 0, 0, J.data(), e.data(),
                           work.data(), J_before.data(), -1};
  tally = {};
  evaluate(ik, at);
  descend<false>(ik, m, n, at);
  for (const Counted& x : q) tally.depth = std::max(tally.depth, x.ready);
  return tally;
}

}  // namespace supple
