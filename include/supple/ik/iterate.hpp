// Position inverse kinematics on lanes: one iteration toward a target, inside the joint limits.
//
// Each lane iterates from one seed. In a batch the lanes solve different problems; for a single
// target they solve the same one. The drivers (src/core/drivers, src/supple/ik/gpu) choose the
// seeds and decide what happens when a lane has converged or stalled.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/ik/partial_rows.hpp"
#include "supple/ik/problem.hpp"
#include "supple/math/linalg.hpp"

namespace supple::inline SUPPLE_ISA {

// Relative accuracy of a position that is computed in float with a few dozen operations.
inline constexpr double float_resolution = 2e-5;

// Whether the damping rule is the default, λ² = gain ‖e‖, which needs no singular values.
template <class T>
SUPPLE_FN constexpr bool uses_error_norm(const IkProblem<T>& ik) {
  return ik.step.damping.rule == Rule::error_norm;
}

// Returns the unit of coordinate j: distances between configurations are measured in q[j] /
// joint_unit. The unit is 1 if no joint is prismatic.
template <class T>
SUPPLE_FN constexpr T joint_unit(const IkProblem<T>& ik, int j) {
  return ik.joint_unit ? ik.joint_unit[j] : T(1);
}

// Whether joint j is prismatic and its range is infinite or long compared with the robot. The steps
// of such a joint are not bounded, because the error is linear in its position.
template <class T>
SUPPLE_FN constexpr bool is_long(const IkProblem<T>& ik, int j) {
  return ik.max_joint_steps && !(ik.max_joint_steps[j] < T(1e30));
}

// The largest displacement of joint j in one iteration.
template <class T>
SUPPLE_FN constexpr T max_joint_step(const IkProblem<T>& ik, int j) {
  return ik.max_joint_steps ? ik.max_joint_steps[j] : ik.max_joint_step;
}

// Number of lanes of scratch memory in an `IterateState`.
template <class T>
SUPPLE_FN constexpr int iterate_scratch(const IkProblem<T>& ik) {
  const int m = ik.rows, n = ik.chain.nv, evaluating = 12 * ik.chain.joints;
  const int limbs = ik.limbs ? limb_scratch(*ik.limbs, m) : 0;
  const int stepping = m * m + m + n + (uses_error_norm(ik) ? m : step_scratch(m, n)) + limbs;
  return evaluating > stepping ? evaluating : stepping;
}

// Evaluates e and the errors from the poses of the joints in the scratch memory at.work.
template <class L, class T>
SUPPLE_FN void evaluate_error_of_poses(const IkProblem<T>& ik, IterateState<L>& at) {
  const Pose<L>* const joint_poses = reinterpret_cast<const Pose<L>*>(at.work);
  const L* target = at.target;
  L *e = at.e, position(0), rotation(0), cost(0);
  int row = 0;
  SUPPLE_UNROLL for (int k = 0; k < ik.tasks; ++k) {
    const Task<T>& task = ik.task[k];
    task_error(ik.chain, task, joint_poses, at.q, target, e);
    L distance2(0), angle2(0);
    SUPPLE_UNROLL for (int i = 0; i < task.rows; ++i, ++row) {
      const L off = ik.weight[row] == T(1) ? e[i] : e[i] * L(ik.tolerance_unit[row]);
      cost = fma(e[i], e[i], cost);
      if (ik.measure[row] == Measure::position) distance2 = fma(off, off, distance2);
      if (ik.measure[row] == Measure::rotation) angle2 = fma(off, off, angle2);
    }
    position = max(position, distance2);
    rotation = max(rotation, angle2);
    target += target_size(task);
    e += task.rows;
  }
  at.position = sqrt(position);
  at.rotation = sqrt(rotation);
  at.cost = cost;
}

// Evaluates e and the errors at q. The poses of the joints stay in the scratch memory at.work.
template <class L, class T>
SUPPLE_FN void evaluate_error(const IkProblem<T>& ik, IterateState<L>& at) {
  forward(ik.chain, at.q, reinterpret_cast<Pose<L>*>(at.work));
  evaluate_error_of_poses(ik, at);
}

// Evaluates J. Call it after `evaluate_error`, which provides the poses of the joints.
template <class L, class T>
SUPPLE_FN void evaluate_jacobian(const IkProblem<T>& ik, IterateState<L>& at) {
  const Pose<L>* const joint_poses = reinterpret_cast<const Pose<L>*>(at.work);
  const L *e = at.e, *target = at.target;
  L* J = at.J;
  for (int k = 0; k < ik.tasks; ++k) {
    const Task<T>& task = ik.task[k];
    if (has_partial_rows(task)) {
      partial_rows_jacobian(ik.chain, task, joint_poses, target, J);
    } else {
      task_jacobian(ik.chain, task, joint_poses, J, has_tilt(task) ? target : nullptr);
    }
    drop_met_rows(task, ik.chain.nv, e, J);
    J += task.rows * ik.chain.nv;
    e += task.rows;
    target += target_size(task);
  }
}

// Evaluates J, e and the errors at q.
template <class L, class T>
SUPPLE_FN void evaluate(const IkProblem<T>& ik, IterateState<L>& at) {
  evaluate_error(ik, at);
  evaluate_jacobian(ik, at);
}

// Returns the position tolerance at a target [m]: `tolerance`, or more if the robot has prismatic
// joints and the target is so far away that `float` cannot resolve the tolerance.
template <class L, class T>
SUPPLE_FN L resolved_tolerance(const IkProblem<T>& ik, const IterateState<L>& at, T tolerance) {
  L resolved(tolerance);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (!ik.joint_scale) return resolved;
    const L* target = at.target;
    for (int k = 0; k < ik.tasks; target += target_size(ik.task[k]), ++k) {
      if (!has_position(ik.task[k])) continue;
      const int end = target_size(ik.task[k]);
      for (int c = end - 3; c < end; ++c)
        resolved = max(resolved, abs(target[c]) * L(T(float_resolution)));
    }
  }
  return resolved;
}

template <class L, class T>
SUPPLE_INLINE mask_t<L> converged(const IkProblem<T>& ik, const IterateState<L>& at) {
  return (at.position <= resolved_tolerance(ik, at, ik.position_tolerance)) &
         (at.rotation <= L(ik.rotation_tolerance));
}

// Returns the lanes where joint j is at a limit and `direction` points out of its range.
template <class L, class T>
SUPPLE_INLINE mask_t<L> held_at_limit(const IkProblem<T>& ik, const L& q, int j,
                                      const L& direction) {
  return ((q <= L(ik.lower[j])) & (direction < L(0))) |
         ((q >= L(ik.upper[j])) & (direction > L(0)));
}

// Computes the step with a damping rule other than the default. J has zero columns for the joints
// held at a limit. For a rule that needs the change of J, J is stored for the next step.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE void step_with_rule(const IkProblem<T>& ik, IterateState<L>& at, const L* J,
                                           const L* e, L* dq, L* scratch) {
  const int m = ik.rows, n = ik.chain.nv;
  const Rule rule = ik.step.damping.rule;
  L change(0);
  if (rule == Rule::mayorga_rank) {
    for (int i = 0; i < m * n; ++i) {
      const L moved = J[i] - at.J_before[i];
      change = fma(moved, moved, change);
      at.J_before[i] = J[i];
    }
    change = select(at.before >= L(0), sqrt(change), L(0));
  }
  step(ik.step, m, n, J, e, at.before, change, dq, scratch);
  for (int j = 0; j < n; ++j) {  // rounding must not move a joint that is held at its limit
    mask_t<L> moves = J[j] != L(0);
    for (int i = 1; i < m; ++i) moves = moves | (J[i * n + j] != L(0));
    dq[j] = select(moves, dq[j], L(0));
  }
  if (rule == Rule::mayorga_rank) at.before = L(0);
  if (rule == Rule::manipulability_rate) {
    L *copy = scratch, *sigma = copy + m * n, *work = sigma + m + n;
    for (int i = 0; i < m * n; ++i) copy[i] = J[i];
    singular_values(m, n, copy, sigma, work);
    at.before = manipulability(m < n ? m : n, sigma);
  }
}

// Scales a step so that no joint moves farther than its `max_joint_step`; long prismatic joints are
// not scaled.
template <bool slides = true, class L, class T>
SUPPLE_INLINE void clamp_step(const IkProblem<T>& ik, int n, L* dq) {
  if (!slides || !ik.joint_scale) return clamp_entries(n, L(ik.max_joint_step), dq);
  L size(0);
  for (int j = 0; j < n; ++j) {
    if (!is_long(ik, j)) size = max(size, abs(dq[j]) / L(ik.max_joint_steps[j]));
  }
  const mask_t<L> far = size > L(1);
  const L factor = select(far, L(1) / select(far, size, L(1)), L(1));
  for (int j = 0; j < n; ++j) {
    if (!is_long(ik, j)) dq[j] = dq[j] * factor;
  }
}

// Moves a configuration q by dq, as far as the joint limits allow. A ball joint has limits only if
// its displacement from an initial guess is bounded (src/core/drivers/near_q0.hpp).
template <class L, class T, class N>
SUPPLE_INLINE void move_within_limits(const IkProblem<T>& ik, N n, const L* dq, L* q) {
  const auto inside = [&](int j, const L& to) {
    return min(max(to, L(ik.lower[j])), L(ik.upper[j]));
  };
  integrate(ik.chain, n, q, dq, q, [&](int j, const L&, const L& to) { return inside(j, to); });
  for (int b = 0; b < ik.chain.balls; ++b) {
    for (int j = ik.chain.ball[b]; j < ik.chain.ball[b] + 3; ++j) q[j] = inside(j, q[j]);
  }
}

// Returns one damped step (nv,) in the scratch memory. In J, the columns of joints that are at a
// limit, and would leave their range, are set to zero.
//
//   dq = Jᵀ(JJᵀ + λ²)⁻¹ e
//
// With the default rule, prismatic joints are scaled (`joint_scale`). Without `any_rule`, only the
// default rule is compiled; without `slides`, only the code for robots without prismatic joints.
template <bool any_rule = true, bool slides = true, class L, class T, class M, class N>
SUPPLE_FN L* damped_step(const IkProblem<T>& ik, M m, N n, IterateState<L>& at) {
  L *A = at.work, *z = A + m * m, *dq = z + m, *J = at.J;
  const bool scaled = slides && ik.joint_scale && uses_error_norm(ik);
  const bool limbs = slides && ik.limbs && (!any_rule || uses_error_norm(ik));
  for (int j = 0; scaled && j < n; ++j) {
    if (ik.joint_scale[j] == T(1)) continue;
    for (int i = 0; i < m; ++i) J[i * n + j] = J[i * n + j] * L(ik.joint_scale[j]);
  }
  if (!limbs) transpose_times(m, n, J, at.e, dq);
  for (int j = 0; j < n; ++j) {
    if (limbs) {  // J is large, and few joints are at a limit
      dq[j] = L(0);
      if (!any((at.q[j] <= L(ik.lower[j])) | (at.q[j] >= L(ik.upper[j])))) continue;
      for (int i = 0; i < m; ++i) dq[j] = fma(J[i * n + j], at.e[i], dq[j]);
    }
    const mask_t<L> held = held_at_limit(ik, at.q[j], j, dq[j]);
    if (!any(held)) continue;
    for (int i = 0; i < m; ++i) J[i * n + j] = select(held, L(0), J[i * n + j]);
  }
  for (int i = 0; i < m; ++i) z[i] = at.e[i];
  if (!any_rule || uses_error_norm(ik)) {
    L lambda2 = L(ik.step.damping.p[0]) * sqrt(at.cost);
    if (scaled) lambda2 = min(lambda2, L(ik.max_lambda2));
    if (limbs) {
      limb_step(*ik.limbs, m, n, J, z, lambda2, [](int) { return T(1); }, dq, dq + n);
    } else {
      gram(m, n, J, A);
      for (int i = 0; i < m; ++i) A[i * m + i] = A[i * m + i] + lambda2;
      ldl_solve(m, A, z, dq + n);
      transpose_times(m, n, J, z, dq);
    }
    for (int j = 0; scaled && j < n; ++j) dq[j] = dq[j] * L(ik.joint_scale[j]);
  } else if constexpr (any_rule) {
    step_with_rule(ik, at, J, z, dq, dq + n);
  }
  clamp_step<slides>(ik, int(n), dq);
  return dq;
}

// Takes one damped step inside the joint limits.
template <bool any_rule = true, bool slides = true, class L, class T, class M, class N>
SUPPLE_FN void descend(const IkProblem<T>& ik, M m, N n, IterateState<L>& at) {
  const L* const dq = damped_step<any_rule, slides>(ik, m, n, at);
  move_within_limits(ik, n, dq, at.q);
}

// `descend` for robots with prismatic joints. This function is not inlined, to keep the code for
// other robots small and fast.
template <class L, class T>
SUPPLE_NOINLINE_HOST void descend_with_prismatic_joints(const IkProblem<T>& ik,
                                                        IterateState<L>& at) {
  descend(ik, ik.rows, ik.chain.nv, at);
}

// Calls `descend`. Common sizes are passed as compile-time constants.
template <class L, class T>
SUPPLE_FN void descend(const IkProblem<T>& ik, IterateState<L>& at) {
  const int m = ik.rows, n = ik.chain.nv;
  if (ik.joint_scale) return descend_with_prismatic_joints(ik, at);
  if (m == 6 && n == 7) return descend<true, false>(ik, Fixed<6>{}, Fixed<7>{}, at);
  if (m == 6 && n == 6) return descend<true, false>(ik, Fixed<6>{}, Fixed<6>{}, at);
  descend<true, false>(ik, m, n, at);
}

// H -= Σ eₖ ∇²xₖ: subtracts the second derivatives of the task coordinates x, which turns H = JᵀJ
// into the Hessian of ½‖e‖². Joint i has the twist (vᵢ, wᵢ) per unit of speed; for a frame that is
// moved by joint j and by joint i before it,
//
//   ∂²p/∂qᵢ∂qⱼ = wᵢ × vⱼ        and for the rotation, half of  wᵢ × wⱼ
//
// These formulas neglect the second derivatives of goals other than poses, of tasks relative to a
// moving base, and of the rotation of a frame that may turn about an axis. Call it after
// `evaluate`, which leaves the poses of the joints in the scratch memory. H is n x n; only its
// lower triangle is used.
template <class L, class T>
SUPPLE_FN void subtract_curvature(const IkProblem<T>& ik, const IterateState<L>& at, L* H) {
  const Chain<T>& chain = ik.chain;
  const int n = chain.nv;
  const Pose<L>* joint_poses = reinterpret_cast<const Pose<L>*>(at.work);
  const L* e = at.e;
  for (int k = 0; k < ik.tasks; e += ik.task[k].rows, ++k) {
    const Task<T>& task = ik.task[k];
    if (!has_pose(task) || task.base != task_world) continue;
    const TaskPoses<L> poses = task_poses(chain, task, joint_poses);
    L wrench[6] = {L(0), L(0), L(0), L(0), L(0), L(0)};
    for (int i = 0; i < task.rows; ++i) {
      if (!poses.pointed || task.row[i] < 3) wrench[task.row[i]] = e[i] * L(task.weight[i]);
    }
    Vec3<L> force{wrench[0], wrench[1], wrench[2]}, torque{wrench[3], wrench[4], wrench[5]};
    if (poses.turned) {
      force = poses.axes * force;
      torque = poses.axes * torque;
    }
    const Frame<T>& frame = chain.frame[task.frame];
    const auto twist_of = [&](int s) {
      const Joint<T>& joint = chain.joint[chain.support[s].joint];
      Twist<L> twist = partial_velocity(joint, joint_poses[chain.support[s].joint], poses.frame.p);
      if (joint.scale != T(1)) twist = {twist.v * L(joint.scale), twist.w * L(joint.scale)};
      return twist;
    };
    for (int outer = frame.support_begin; outer < frame.support_end; ++outer) {
      const Twist<L> b = twist_of(outer);
      const int j = chain.joint[chain.support[outer].joint].v_index;
      // f · (w × v) = w · (v × f)
      const Vec3<L> lever = cross(b.v, force) + cross(b.w, torque) * L(T(0.5));
      for (int inner = frame.support_begin; inner <= outer; ++inner) {
        const int i = chain.joint[chain.support[inner].joint].v_index;
        const L curve = dot(twist_of(inner).w, lever);
        L& entry = H[(i > j ? i : j) * n + (i > j ? j : i)];
        entry = entry - (i == j && inner != outer ? curve + curve : curve);
      }
    }
  }
}

// Number of lanes of scratch memory that `newton_step` needs.
SUPPLE_FN constexpr int newton_scratch(int n) { return 2 * n * n + 2 * n; }

// Takes one step of Newton's method on ½‖e‖² inside the joint limits, damped by μ = newton_gain
// ‖e‖. Where the Hessian is not positive definite, a nearby positive definite matrix replaces it.
// Joints at a limit that would leave their range are held. Joints that would pass a limit stop
// there, and the equations are solved again so that the other joints compensate. Call it after
// `evaluate`; `work` has `newton_scratch` lanes.
template <class L, class T>
SUPPLE_FN void newton_step(const IkProblem<T>& ik, IterateState<L>& at, const L& newton_gain,
                           L* work) {
  const int m = ik.rows, n = ik.chain.nv;
  L *H = work, *C = H + n * n, *g = C + n * n, *dq = g + n;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      L sum(0);
      for (int r = 0; r < m; ++r) sum = fma(at.J[r * n + i], at.J[r * n + j], sum);
      H[i * n + j] = sum;
    }
  }
  subtract_curvature(ik, at, H);
  transpose_times(m, n, at.J, at.e, g);
  const auto scale = [&](int i) { return L(ik.joint_scale ? ik.joint_scale[i] : T(1)); };
  for (int i = 0; ik.joint_scale && i < n; ++i) {
    for (int j = 0; j <= i; ++j) H[i * n + j] = H[i * n + j] * scale(i) * scale(j);
    g[i] = g[i] * scale(i);
  }
  const L mu = newton_gain * sqrt(at.cost), floor = max(mu, L(Number<T>::tiny));
  // Eliminates joint i, whose step is `move`, from H and g on the lanes `known`.
  const auto fix = [&](int i, const mask_t<L>& known, const L& move) {
    for (int j = 0; j < n; ++j) {
      if (j == i) continue;
      L& entry = H[(i > j ? i : j) * n + (i > j ? j : i)];
      g[j] = select(known, fma(-entry, move, g[j]), g[j]);
      entry = select(known, L(0), entry);
    }
    H[i * n + i] = select(known, L(1), H[i * n + i]);
    g[i] = select(known, move, g[i]);
  };
  for (int i = 0; i < n; ++i) {
    H[i * n + i] = H[i * n + i] + mu;
    fix(i, held_at_limit(ik, at.q[i], i, g[i]), L(0));
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < n * n; ++i) C[i] = H[i];
    for (int i = 0; i < n; ++i) dq[i] = g[i];
    if (n == 7) {  // unrolled for the most common sizes
      convex_solve(Fixed<7>{}, C, dq, floor);
    } else if (n == 6) {
      convex_solve(Fixed<6>{}, C, dq, floor);
    } else {
      convex_solve(n, C, dq, floor);
    }
    for (int i = 0; ik.joint_scale && i < n; ++i) dq[i] = dq[i] * scale(i);
    clamp_step(ik, n, dq);
    if (pass == 1) break;
    mask_t<L> outside = L(0) != L(0);
    for (int i = 0; i < n; ++i) {
      const L lower = coordinate_difference(L(ik.lower[i]), at.q[i]),
              upper = coordinate_difference(L(ik.upper[i]), at.q[i]);
      const mask_t<L> out = (dq[i] < lower) | (dq[i] > upper);
      const L move = min(max(dq[i], lower), upper);
      fix(i, out, ik.joint_scale ? move / scale(i) : move);
      outside = outside | out;
    }
    if (!any(outside)) break;
  }
  move_within_limits(ik, n, dq, at.q);
}

}  // namespace supple::inline SUPPLE_ISA
