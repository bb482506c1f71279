// The kernel's arithmetic, counted: its kinematics on a lane that keeps a tally.
#include "counting.hpp"

#include <vector>

#include "supple/kinematics.hpp"

namespace supple::inline SUPPLE_ISA {

namespace {
thread_local Operations tally;
}

// A number as any other lane, which tells what is done with it. A fused multiply-add is one of
// each; signs and comparisons are free.
struct Counted {
  double x;

  Counted() = default;
  Counted(double number) : x(number) {}

  friend Counted operator+(Counted a, Counted b) { return (++tally.additions, a.x + b.x); }
  friend Counted operator-(Counted a, Counted b) { return (++tally.additions, a.x - b.x); }
  friend Counted operator*(Counted a, Counted b) { return (++tally.multiplications, a.x * b.x); }
  friend Counted operator-(Counted a) { return -a.x; }
  friend Counted fma(Counted a, Counted b, Counted c) { return a * b + c; }
  friend Counted abs(Counted a) { return abs(a.x); }
  friend bool operator==(Counted a, Counted b) { return a.x == b.x; }
  friend bool operator<=(Counted a, Counted b) { return a.x <= b.x; }
  friend void turn_by_quadrants(Counted magic_k, Counted& s, Counted& c) {
    turn_by_quadrants(magic_k.x, s.x, c.x);
  }
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
  const std::vector<Counted> q(chain.coordinates, Counted(0));
  std::vector<Pose<Counted>> joint_poses(chain.joints);
  tally = {};
  turn_angles(chain, q.data(), joint_poses.data());
  const Operations sines = tally;
  tally = {};
  forward(chain, q.data(), joint_poses.data());
  for (int f = 0; f < chain.frames; ++f) {
    const Pose<Counted> at = frame_pose(chain.frame[f], joint_poses.data());
    jacobian(chain, chain.frame[f], joint_poses.data(), at.p,
             [](int, const Twist<Counted>&, bool) {});
  }
  return {tally.multiplications - sines.multiplications, tally.additions - sines.additions};
}

}  // namespace supple
