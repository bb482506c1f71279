// Solves one problem on a CPU with a bound on the displacement of each joint from q0. Included only
// by files that are compiled once for each instruction set.
//
// The rotation vector of a ball joint does not tell how far the joint is from q0. Therefore the
// coordinates of the search are the displacement of the joint from q0, in a frame that is turned by
// q0. The bound is then a box for these joints as well.
#pragma once

#include "drivers/single.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Writes the box of configurations that are inside the limits and within max_move of q0 (n,), and
// its range of seeds, to `box` (4, n): lower and upper limits, lower ends and widths of the seeds.
// Returns whether the box has configurations: q0 may be outside the limits.
bool box_near(const IkProblem<double>& ik, const double* q0, double max_move, double* box) {
  const int n = ik.chain.nq;
  double *const lower = box, *const upper = box + n, *const low = box + 2 * n, *range = box + 3 * n;
  bool any = true;
  for (int j = 0; j < n; ++j) {
    lower[j] = std::max(ik.lower[j], integrate_coordinate(q0[j], -max_move));
    upper[j] = std::min(ik.upper[j], integrate_coordinate(q0[j], max_move));
    any = any && lower[j] <= upper[j];
    // Seeds fill the box or, if it is wider than the finite range of seeds, a part of the box with
    // the width of that range.
    range[j] = std::min(ik.seed_range[j], upper[j] - lower[j]);
    low[j] = clamped(ik.seed_lower[j], lower[j], upper[j] - range[j]);
  }
  return any;
}

// Returns a chain with the given memory for its joints, in which q0 (n,) turns the frames of the
// ball joints.
template <class T>
Chain<T> turned(Chain<T> chain, const double* q0, Joint<T>* joint) {
  for (int i = 0; i < chain.joints; ++i) {
    joint[i] = chain.joint[i];
    if (joint[i].motion != Motion::ball) continue;
    Pose<double> at{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {0, 0, 0}};
    place_joint(joint[i], at);
    at.R = at.R * exp(vector_at(q0 + joint[i].q_index));
    if (joint[i].placement == Placement::twist) joint[i].placement = Placement::general;
    const Vec3<double> columns[] = {at.R.x, at.R.y, at.R.z};
    for (int c = 0; c < 3; ++c) {
      joint[i].rotation[3 * c] = T(columns[c].x);
      joint[i].rotation[3 * c + 1] = T(columns[c].y);
      joint[i].rotation[3 * c + 2] = T(columns[c].z);
    }
  }
  chain.joint = joint;
  return chain;
}

// Replaces the limits and the range of seeds of a problem by those in `box` (4, n), and the ball
// joints by those in `joint`.
template <class T>
IkProblem<T> inside(IkProblem<T> ik, const T* box, const double* q0, Joint<T>* joint) {
  const int n = ik.chain.nq;
  ik.lower = box;
  ik.upper = box + n;
  ik.seed_lower = box + 2 * n;
  ik.seed_range = box + 3 * n;
  if (ik.chain.balls) ik.chain = turned(ik.chain, q0, joint);
  return ik;
}

// Replaces the displacements of the ball joints in q (n,) from `origin` by their rotation vectors.
void measure_absolutely(const Chain<double>& chain, const double* origin, double* q) {
  for (int b = 0; b < chain.balls; ++b) {
    const int j = chain.ball[b];
    set_vector(q + j, integrate_ball(vector_at(origin + j), vector_at(q + j)));
  }
}

// Applies the request's test for rejecting a solution to a q with displacements of ball joints.
struct NearRejection {
  const SolveRequest& request;
  const double* origin;
  double* absolute;  // (n,): memory for q with rotation vectors

  static bool rejects(const void* context, std::ptrdiff_t problem, const double* q) {
    const NearRejection& near = *static_cast<const NearRejection*>(context);
    const Chain<double>& chain = near.request.polish->chain;
    for (int j = 0; j < chain.nq; ++j) near.absolute[j] = q[j];
    measure_absolutely(chain, near.origin, near.absolute);
    return near.request.rejects(near.request.reject_context, problem, near.absolute);
  }
};

// Solves a problem like `solve_single`, with joint limits that are at most max_move from q0.
void solve_near_q0(const SolveRequest& request, Workspace& workspace, std::ptrdiff_t problem) {
  const Chain<double>& chain = request.polish->chain;
  const int n = chain.nq;
  const double *const given = q0_of(request, problem), *q0 = given;
  if (chain.balls) {
    for (int j = 0; j < n; ++j) workspace.near_q0[j] = given[j];
    for (int b = 0; b < chain.balls; ++b) set_vector(workspace.near_q0 + chain.ball[b], {0, 0, 0});
    q0 = workspace.near_q0;
  }
  const bool any = box_near(*request.polish, q0, request.max_move, workspace.box);
  if (!any) return mark_skipped(request, problem, Outcome::unreachable);
  for (int i = 0; i < 4 * n; ++i) workspace.float_box[i] = float(workspace.box[i]);
  const auto search = inside(*request.search, workspace.float_box, given, workspace.float_joint);
  const auto minimized =
      inside(*request.minimized, workspace.float_box, given, workspace.float_joint);
  const auto polish = inside(*request.polish, workspace.box, given, workspace.joint);
  const auto closest = inside(*request.closest, workspace.box, given, workspace.joint);
  SolveRequest near = request;
  near.search = &search;
  near.minimized = &minimized;
  near.polish = &polish;
  near.closest = &closest;
  if (!chain.balls) return solve_single(near, workspace, problem);
  const NearRejection rejection{request, given, workspace.absolute};
  near.q0 = q0;
  near.q0_stride = 0;
  near.origin = given;
  if (request.rejects) {
    near.rejects = &NearRejection::rejects;
    near.reject_context = &rejection;
  }
  solve_single(near, workspace, problem);
  const std::ptrdiff_t first = problem * request.max_solutions;
  for (int i = 0; i < request.found[problem]; ++i) {
    measure_absolutely(chain, given, request.q + (first + i) * n);
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
