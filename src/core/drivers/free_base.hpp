// Seeds of robots with several limbs on a free base: the base is placed such that the limbs, in
// postures of their tables of seeds, come near to all targets at once. Included only by files that
// are compiled once for each instruction set. Tuned constants are explained in docs/constants.md.
#pragma once

#include "drivers/look_up.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Number of starts of a target that place the base: those that run one by one, and all of them. The
// coordinates of the base are computed in at most `base_iterations` iterations.
constexpr int base_attempts = 8, base_starts = 64, base_iterations = 16;
constexpr double base_tolerance = 1e-4;  // ‖e‖² below which these iterations end

using Motion3 = Pose<double>;  // a rigid motion: x -> R x + p

// Whether seeds place the base.
bool moves_base(const SolveRequest& request) { return request.base && request.base->limbs; }

// Sums of the products of directions and positions that the limbs reach with those of the targets.
struct Correspondence {
  double S[3][3] = {};

  void add(const Vec3<double>& from, const Vec3<double>& to, double weight) {
    const double a[3] = {from.x, from.y, from.z}, b[3] = {to.x, to.y, to.z};
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) S[i][j] += weight * a[i] * b[j];
    }
  }

  // Returns the rotation that best moves the reached poses of the limbs onto their targets: its
  // quaternion is the eigenvector of a symmetric matrix for the largest eigenvalue, found by
  // squaring the matrix.
  Rotation<double> rotation() const {
    double N[4][4] = {
        {S[0][0] + S[1][1] + S[2][2], S[1][2] - S[2][1], S[2][0] - S[0][2], S[0][1] - S[1][0]},
        {0, S[0][0] - S[1][1] - S[2][2], S[0][1] + S[1][0], S[2][0] + S[0][2]},
        {0, 0, S[1][1] - S[0][0] - S[2][2], S[1][2] + S[2][1]},
        {0, 0, 0, S[2][2] - S[0][0] - S[1][1]}};
    double size = 1e-300;
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < i; ++j) N[i][j] = N[j][i];
      for (int j = 0; j < 4; ++j) size += abs(N[i][j]);
    }
    for (int i = 0; i < 4; ++i) N[i][i] += size;
    for (int pass = 0; pass < 7; ++pass) {
      const double trace = N[0][0] + N[1][1] + N[2][2] + N[3][3];
      double A[4][4];
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) A[i][j] = N[i][j] / trace;
      }
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          N[i][j] = A[i][0] * A[0][j] + A[i][1] * A[1][j] + A[i][2] * A[2][j] + A[i][3] * A[3][j];
        }
      }
    }
    int k = 0;
    for (int i = 1; i < 4; ++i) k = N[i][i] > N[k][k] ? i : k;
    const double length =
        std::sqrt(N[k][0] * N[k][0] + N[k][1] * N[k][1] + N[k][2] * N[k][2] + N[k][3] * N[k][3]);
    const double w = N[k][0] / length, x = N[k][1] / length, y = N[k][2] / length,
                 z = N[k][3] / length;
    return {{1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)},
            {2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)},
            {2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)}};
  }

  // Like `rotation`, but returns the best one among rotations about an axis.
  Rotation<double> rotation_about(const Vec3<double>& axis) const {
    const Vec3<double> turn{S[1][2] - S[2][1], S[2][0] - S[0][2], S[0][1] - S[1][0]};
    const Vec3<double> along{dot({S[0][0], S[0][1], S[0][2]}, axis),
                             dot({S[1][0], S[1][1], S[1][2]}, axis),
                             dot({S[2][0], S[2][1], S[2][2]}, axis)};
    const double angle =
        std::atan2(dot(turn, axis), S[0][0] + S[1][1] + S[2][2] - dot(axis, along));
    return exp(axis * angle);
  }
};

// Returns the motion of the base that best moves the reached poses of the limbs onto the targets
// (targets,).
Motion3 best_motion(const SolveRequest& request, const double* reached, const double* target) {
  const IkProblem<float>& ik = *request.search;
  const float* const scale = request.table->scale;
  const auto vector = [](const double* x) { return Vec3<double>{x[0], x[1], x[2]}; };
  const auto weight = [&](int at) {
    const double most = std::max(std::max(scale[at], scale[at + 1]), scale[at + 2]);
    return most * most;
  };
  Vec3<double> from{0, 0, 0}, to{0, 0, 0};
  double whole = 0;
  for (int t = 0, at = 0; t < ik.tasks; at += target_size(ik.task[t]), ++t) {
    if (target_size(ik.task[t]) < 12) continue;
    const double share = weight(at + 9);
    from = fma(vector(reached + at + 9), share, from);
    to = fma(vector(target + at + 9), share, to);
    whole += share;
  }
  if (whole > 0) from = from * (1 / whole), to = to * (1 / whole);
  Correspondence all;
  for (int t = 0, at = 0; t < ik.tasks; at += target_size(ik.task[t]), ++t) {
    const int size = target_size(ik.task[t]);
    for (int c = 0; c < (size < 12 ? 3 : 9); c += 3) {
      all.add(vector(reached + at + c), vector(target + at + c), weight(at + c));
    }
    if (size < 12) continue;
    all.add(vector(reached + at + 9) - from, vector(target + at + 9) - to, weight(at + 9));
  }
  const Vec3<double> axis = vector(request.base->axis);
  if (!(dot(axis, axis) > 0)) {
    const Rotation<double> R = all.rotation();
    return {R, to - R * from};
  }
  const Rotation<double> R = all.rotation_about(axis);
  const Vec3<double> p = to - R * from;
  return {R, p - axis * dot(axis, p)};
}

// Writes the target of a limb relative to the moved base, from the targets of the whole problem.
void local_target(const BaseLimb& limb, const Motion3& moved, const double* target, double* local) {
  const IkProblem<float>& ik = *limb.search;
  for (int t = 0, at = 0; t < ik.tasks; at += target_size(ik.task[t]), ++t) {
    const int size = target_size(ik.task[t]);
    for (int c = 0; c < size; c += 3) {
      const int* const number = limb.number + at + c;
      Vec3<double> x{target[number[0]], target[number[1]], target[number[2]]};
      if (c == 9) x = x - moved.p;
      set_vector(local + at + c, into(moved.R, x));
    }
  }
}

// Writes the coordinates of the base after a motion to q (n,).
void move_base(const SolveRequest& request, Workspace& workspace, const Motion3& moved, float* q) {
  const FreeBase& base = *request.base;
  const IkProblem<double>& ik = *base.pose;
  IterateState<double>& at = workspace.base;
  for (int c = 0; c < 12; c += 3) {
    const Vec3<double> x = moved.R * vector_at(base.rest + c);
    set_vector(at.target + c, c == 9 ? x + moved.p : x);
  }
  for (int j = 0; j < ik.chain.nq; ++j) at.q[j] = clamped(0, ik.lower[j], ik.upper[j]);
  // For a floating base in the axes of the world, this is the orientation of the base.
  if (ik.chain.balls) set_vector(at.q + ik.chain.ball[0], log(moved.R));
  at.before = -1;
  for (int i = 0; i < base_iterations; ++i) {
    evaluate_error(ik, at);
    if (at.cost < base_tolerance) break;
    evaluate_jacobian(ik, at);
    descend(ik, at);
  }
  for (int j = 0; j < ik.chain.nq; ++j) q[base.joint[j]] = float(at.q[j]);
}

// Writes a seed that places the base to workspace.base_q (n,). The base is moved such that the
// poses that the limbs reach with the base at rest fit the targets best: the means over all
// postures for the first seed, and the poses of single postures from the tables for the next seeds.
// Then each limb takes the posture nearest to its target, the base moves again, and each limb takes
// the first step toward its target.
void place_base(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace,
                int number) {
  const FreeBase& base = *request.base;
  const int k = request.search->targets;
  const double* const target = request.target + problem * k;
  double* const reached = workspace.near_base;
  const auto take = [&](const BaseLimb& limb, int entry) {
    const Table& table = *limb.table;
    const float* const from = table.record + std::ptrdiff_t(entry) * table.size +
                              table.padded * (1 + 6 * limb.search->tasks);
    for (int i = 0; i < limb.search->targets; ++i) reached[limb.number[i]] = from[i];
  };
  const auto limb_request = [&](const BaseLimb& limb) {
    SolveRequest own{};
    own.search = limb.search;
    own.table = limb.table;
    own.target = workspace.local;
    own.comfortable = request.comfortable;
    return own;
  };
  for (int i = 0; i < k; ++i) reached[i] = base.reached[i];
  for (int i = 0; number && i < base.limbs; ++i) {
    const int entries = base.limb[i].table->blocks * lanes;
    take(base.limb[i], int(sequence_value(number * base.limbs + i, 0.618034) * entries));
  }
  Motion3 moved = best_motion(request, reached, target);
  for (int i = 0; i < base.limbs; ++i) {
    const BaseLimb& limb = base.limb[i];
    local_target(limb, moved, target, workspace.local);
    int place[lanes + 1];
    if (look_up(limb_request(limb), 0, workspace, place)) take(limb, place[0]);
  }
  moved = best_motion(request, reached, target);
  for (int j = 0; j < request.search->chain.nq; ++j) workspace.base_q[j] = 0;
  SeedList& listed = workspace.base_seeds;
  for (int i = 0; i < base.limbs; ++i) {
    const BaseLimb& limb = base.limb[i];
    local_target(limb, moved, target, workspace.local);
    nearest_seeds(limb_request(limb), 0, workspace, listed);
    for (int j = 0; j < limb.search->chain.nq; ++j) workspace.base_q[limb.joint[j]] = listed.q[j];
  }
  move_base(request, workspace, moved, workspace.base_q);
  if (request.origin) measure_from_origin(request, workspace.base_q);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
