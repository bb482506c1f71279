// Decisions in computing all solutions of a pose, shared by the CPU and GPU drivers: how a
// candidate is brought inside the joint limits, how it is polished, which solutions are the same,
// and how they are sorted. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/ik/closed_form.hpp"
#include "supple/ik/iterate.hpp"

namespace supple::inline SUPPLE_ISA {

// Errors below which a solution needs no more iterations, as a fraction of the tolerances.
inline constexpr double branch_fine = 1e-4;
// Largest number of iterations that polish a candidate. A candidate needs none if the axes of the
// arm are exactly parallel or intersect exactly.
inline constexpr int branch_iterations = 24;
// Solutions are the same if no joint angle differs by more than this [rad]: rounding errors split a
// double root into two.
inline constexpr double branch_distinct = 1e-5;
// If polishing moves a seed farther than this [rad], the seed may have converged to the solution of
// another seed, and its own solution may be missing.
inline constexpr double branch_far = 0.1;

// An arm with a closed form that is part of a robot.
struct ArmOfRobot {
  ClosedForm<double> form;
  int coordinate[6];  // index in q of each joint of the arm
  Pose<double> home;  // pose of the frame at q = 0
};

// Returns the displacement T M⁻¹ of a frame from its pose M at q = 0 (`home`) to the target T,
// which is given by twelve numbers.
SUPPLE_FN Pose<double> displacement_to(const Pose<double>& home, const double* target) {
  const auto column = [&](int i) {
    return Vec3<double>{target[3 * i], target[3 * i + 1], target[3 * i + 2]};
  };
  const Rotation<double> R{column(0), column(1), column(2)};
  Pose<double> X;
  X.R = times_transpose(R, home.R);
  X.p = column(3) - X.R * home.p;
  return X;
}

// Returns the angle in [-π, π] that differs from x by full turns.
SUPPLE_FN double without_turns(double x) {
  const double full_turn = 6.283185307179586476925286766559;
  const double magic = Number<double>::round_magic;
  return x - full_turn * ((x * (1 / full_turn) + magic) - magic);
}

// Returns the constant value of coordinate j, whose joint is not part of the arm: q0[j] or, without
// q0, zero; clamped to the joint's range.
SUPPLE_FN double kept_coordinate(const IkProblem<double>& ik, int j, const double* q0) {
  return min(max(q0 ? q0[j] : 0.0, ik.lower[j]), ik.upper[j]);
}
// Returns the angle to which the 2π wrap of coordinate j should be closest: q0[j] or, without q0,
// the middle of its range.
SUPPLE_FN double turn_reference(const IkProblem<double>& ik, int j, const double* q0) {
  const double middle = 0.5 * (ik.lower[j] + ik.upper[j]);
  return q0 || !(abs(middle) < 1e9) ? kept_coordinate(ik, j, q0) : middle;
}

// Returns the 2π wrap of an angle of coordinate j that is inside the joint's limits and nearest to
// the reference. Lanes without such a wrap are removed from `inside`; lanes where the angle is
// moved to a limit are added to `clamped`.
template <class L>
SUPPLE_FN L placed(const IkProblem<double>& ik, int j, double reference, double slack,
                   const L& angle, mask_t<L>& inside, mask_t<L>& clamped) {
  // The angle of the nominal arm may be outside the limits although the angle of the real arm is
  // just inside.
  const double over = 1e-9 + 10 * slack, full_turn = 6.283185307179586476925286766559;
  const double lower = ik.lower[j], upper = ik.upper[j];
  const L turns = coordinate_difference(L(reference), angle) * L(1 / full_turn);
  const L magic(Number<double>::round_magic);
  L q = integrate_coordinate(angle, ((turns + magic) - magic) * L(full_turn));
  const mask_t<L> low = q<L(lower - over), high = q> L(upper + over);
  if (any(low | high)) {  // one more turn toward the reference, which is inside, may help
    q = select(low, integrate_coordinate(q, L(full_turn)),
               select(high, integrate_coordinate(q, L(-full_turn)), q));
    inside = inside & (q >= L(lower - over)) & (q <= L(upper + over));
  }
  clamped = clamped | (q < L(lower)) | (q > L(upper));
  return min(max(q, L(lower)), L(upper));
}

// Evaluates the errors at q, given the cosines and sines of the arm's joint angles. This is faster
// than `evaluate_error`, which computes the cosines and sines.
template <class L>
SUPPLE_FN void evaluate_turns(const IkProblem<double>& ik, const int* coordinate, const L* cosine,
                              const L* sine, IterateState<L>& at) {
  Pose<L>* const joint_poses = reinterpret_cast<Pose<L>*>(at.work);
  SUPPLE_UNROLL for (int j = 0; j < ik.chain.joints; ++j) {
    const Joint<double>& joint = ik.chain.joint[j];
    Vec3<L>& p = joint_poses[j].p;
    p.z = displacement(joint, at.q);
    bool known = false;
    SUPPLE_UNROLL for (int i = 0; i < 6; ++i) {
      if (joint.q_index != coordinate[i] || joint.scale != 1 || joint.offset != 0) continue;
      p.x = cosine[i];
      p.y = sine[i];
      known = true;
    }
    if (!known) sincos(p.z, p.y, p.x);
    add_phase(joint, p.x, p.y);
  }
  place_joints(ik.chain, joint_poses);
  evaluate_error_of_poses(ik, at);
}

// The tolerances of solutions [m], [rad].
struct BranchTolerances {
  double position, rotation;

  // Whether both errors are at most a fraction of the tolerances.
  SUPPLE_INLINE bool hold(const IterateState<double>& at, double fraction = 1) const {
    return at.position <= fraction * position && at.rotation <= fraction * rotation;
  }
};

// Polishes a configuration; returns whether the result is a solution. `step()` takes a damped step.
template <class Step>
SUPPLE_FN bool polish_branch(const IkProblem<double>& ik, const BranchTolerances& within,
                             IterateState<double>& at, Step&& step) {
  double before = Number<double>::huge;
  for (int i = 0; i < branch_iterations; ++i) {
    evaluate_error(ik, at);
    if (within.hold(at, branch_fine)) return true;
    if (at.cost > 0.25 * before && within.hold(at)) return true;
    before = at.cost;
    evaluate_jacobian(ik, at);
    step();
  }
  evaluate_error(ik, at);
  return within.hold(at);
}

// Whether two angles of a joint are the same up to full turns. Two solutions are the same if this
// holds for each joint.
SUPPLE_FN bool is_same_angle(double a, double b) {
  return abs(without_turns(coordinate_difference(a, b))) <= branch_distinct;
}

// The cost by which solutions are sorted: the largest joint displacement from q0 or, without q0,
// the largest proximity to a joint limit, as in supple/ik/preference.py.
SUPPLE_FN double branch_cost(const IkProblem<double>& ik, const double* q, const double* q0) {
  if (q0) return largest_difference(ik.chain, q, q0, [](int) { return 1.0; });
  double cost = 0;
  for (int j = 0; j < ik.chain.nq; ++j) {
    const double range = ik.upper[j] - ik.lower[j];
    if (!(range > 0 && range < 1e300)) continue;
    cost = max(cost, abs(twice_from_middle(q[j], ik.lower[j], ik.upper[j])) / range);
  }
  return cost;
}

}  // namespace supple::inline SUPPLE_ISA
