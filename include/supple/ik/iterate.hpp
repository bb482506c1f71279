// Position inverse kinematics on lanes: descent towards a target, inside the joint limits.
//
// A lane is a start: of one problem each (a batch), or all of the same problem (one target).
// `IterateState` is what the lanes do together in one iteration; who starts where, and what becomes
// of a lane that has converged or is stuck, is the caller's business (src/core/kernels/ik.cpp).
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include "supple/linalg.hpp"
#include "supple/step.hpp"
#include "supple/task.hpp"

namespace supple {

// What a row of the task measures.
enum class Measure : int { position, rotation };

// What all starts share.
template <class T>
struct IkProblem {
  Chain<T> chain;
  int tasks, rows, targets;  // how many tasks, their rows, and the numbers of a problem's targets
  const Task<T>* task;
  const Measure* measure;            // (rows,)
  const T* weight;                   // (rows,)
  const T *lower, *upper;            // (n,): limits, infinite where there are none
  const T *seed_lower, *seed_range;  // (n,): where starts are
  const T* sequence_step;            // (n,): from one start to the next, in shares of the span
  T position_tolerance, rotation_tolerance;
  Step<T> step;          // what counts of it are its damping and the direction of a region
  T newton_gain;         // of Newton's method: μ = newton_gain ‖e‖
  T max_joint_step;      // no joint moves farther in one iteration [rad or m]
  int iteration_factor;  // how many times the usual iterations a start may have: more where steps
                         // are short
  // Above 1 for prismatic joints that are long beside the rest of the robot, or unlimited; null if
  // there are none. Steps are damped in coordinates q / joint_scale, by no more than `max_lambda2`,
  // and these joints may move as far as they like: to them the error is linear.
  const T* joint_scale;
  T max_lambda2;
};

// Floats resolve a position to about this part of its coordinates, after some dozen operations.
inline constexpr float float_resolution = 2e-5f;

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Where lanes are, and what they know of it.
template <class L>
struct IterateState {
  L* q;                  // (n,)
  L* target;             // (targets,)
  L position, rotation;  // errors at q: the largest of all tasks [m], [rad]
  L cost;                // ‖e‖², weighted
  L* J;                  // (rows, n)
  L* e;                  // (rows,)
  L* work;               // working memory
  // What rules that compare with the step before remember.
  L* J_before;  // (rows, n), of joints that were not held: for `mayorga_rank`
  L before;     // manipulability, or zero if only J counts; negative if there was no step
};

// Whether λ² is the usual one, gain ‖e‖, which costs next to nothing.
template <class T>
SUPPLE_FN constexpr bool uses_error_norm(const IkProblem<T>& ik) {
  return ik.step.damping.rule == Rule::error_norm;
}

template <class T>
SUPPLE_FN constexpr int iterate_scratch(const IkProblem<T>& ik) {
  const int m = ik.rows, n = ik.chain.coordinates, evaluating = 12 * ik.chain.joints;
  const int stepping = m * m + m + n + (uses_error_norm(ik) ? m : step_scratch(m, n));
  return evaluating > stepping ? evaluating : stepping;
}

// e and the errors at q. The poses of the joints stay in the working memory.
template <class L, class T>
SUPPLE_FN void evaluate_error(const IkProblem<T>& ik, IterateState<L>& at) {
  Pose<L>* joint_poses = reinterpret_cast<Pose<L>*>(at.work);
  forward(ik.chain, at.q, joint_poses);
  const L* target = at.target;
  L *e = at.e, position(0), rotation(0), cost(0);
  int row = 0;
  SUPPLE_UNROLL for (int k = 0; k < ik.tasks; ++k) {
    const Task<T>& task = ik.task[k];
    task_error(ik.chain, task, joint_poses, at.q, target, e);
    L here(0), turned(0);
    SUPPLE_UNROLL for (int i = 0; i < task.rows; ++i, ++row) {
      const L off = ik.weight[row] == T(1) ? e[i] : e[i] / L(ik.weight[row]);
      cost = fma(e[i], e[i], cost);
      if (ik.measure[row] == Measure::position) here = fma(off, off, here);
      if (ik.measure[row] == Measure::rotation) turned = fma(off, off, turned);
    }
    position = max(position, here);
    rotation = max(rotation, turned);
    target += target_size(task);
    e += task.rows;
  }
  at.position = sqrt(position);
  at.rotation = sqrt(rotation);
  at.cost = cost;
}

// J, right after `look`.
template <class L, class T>
SUPPLE_FN void evaluate_jacobian(const IkProblem<T>& ik, IterateState<L>& at) {
  const Pose<L>* const joint_poses = reinterpret_cast<const Pose<L>*>(at.work);
  L* J = at.J;
  for (int k = 0; k < ik.tasks; ++k) {
    task_jacobian(ik.chain, ik.task[k], joint_poses, J);
    J += ik.task[k].rows * ik.chain.coordinates;
  }
}

// J, e and the errors at q.
template <class L, class T>
SUPPLE_FN void evaluate(const IkProblem<T>& ik, IterateState<L>& at) {
  evaluate_error(ik, at);
  evaluate_jacobian(ik, at);
}

// The position tolerance at a target, `tolerance` unless long joints take it so far that floats do
// not resolve that.
template <class L, class T>
SUPPLE_FN L resolved_tolerance(const IkProblem<T>& ik, const IterateState<L>& at, T tolerance) {
  L least(tolerance);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (!ik.joint_scale) return least;
    const L* target = at.target;
    for (int k = 0; k < ik.tasks; target += target_size(ik.task[k]), ++k) {
      if (ik.task[k].goal != Goal::frame) continue;
      for (int c = 9; c < 12; ++c) least = max(least, abs(target[c]) * L(float_resolution));
    }
  }
  return least;
}

template <class L, class T>
SUPPLE_INLINE mask_t<L> converged(const IkProblem<T>& ik, const IterateState<L>& at) {
  return (at.position <= resolved_tolerance(ik, at, ik.position_tolerance)) &
         (at.rotation <= L(ik.rotation_tolerance));
}

// Where a joint sits at a limit and would leave.
template <class L, class T>
SUPPLE_INLINE mask_t<L> held_at_limit(const IkProblem<T>& ik, const L& q, int j,
                                      const L& direction) {
  return ((q <= L(ik.lower[j])) & (direction < L(0))) |
         ((q >= L(ik.upper[j])) & (direction > L(0)));
}

// The step of any other damping rule. It sees the J of the joints that are not held, and remembers
// it if it is one of those that compare with the step before.
template <class L, class T>
SUPPLE_NOINLINE_DEVICE void step_with_rule(const IkProblem<T>& ik, IterateState<L>& at, const L* J,
                                           const L* e, L* dq, L* scratch) {
  const int m = ik.rows, n = ik.chain.coordinates;
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
  for (int j = 0; j < n; ++j) {  // rounding does not take a joint that is held off its limit
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

// Shortens a step so that no joint moves farther than it may in one iteration. Long prismatic
// joints are left alone.
template <bool long_joints = true, class L, class T>
SUPPLE_INLINE void clamp_step(const IkProblem<T>& ik, int n, L* dq) {
  if (!long_joints || !ik.joint_scale) return clamp_entries(n, L(ik.max_joint_step), dq);
  L size(0);
  for (int j = 0; j < n; ++j) {
    if (ik.joint_scale[j] == T(1)) size = max(size, abs(dq[j]));
  }
  const mask_t<L> far = size > L(ik.max_joint_step);
  const L factor = select(far, L(ik.max_joint_step) / select(far, size, L(1)), L(1));
  for (int j = 0; j < n; ++j) {
    if (ik.joint_scale[j] == T(1)) dq[j] = dq[j] * factor;
  }
}

// One damped step inside the limits: joints that sit at a limit and would leave stay there, and are
// taken out of J.
//
//   dq = Jᵀ(JJᵀ + λ²)⁻¹ e
//
// With the usual damping, long prismatic joints are scaled. Without `any_rule` it is compiled for
// the usual damping alone, without `long_joints` for robots that have none.
template <bool any_rule = true, bool long_joints = true, class L, class T, class M, class N>
SUPPLE_FN void descend(const IkProblem<T>& ik, M m, N n, IterateState<L>& at) {
  L *A = at.work, *z = A + m * m, *dq = z + m, *J = at.J;
  const bool scaled = long_joints && ik.joint_scale && uses_error_norm(ik);
  for (int j = 0; scaled && j < n; ++j) {
    for (int i = 0; i < m; ++i) J[i * n + j] = J[i * n + j] * L(ik.joint_scale[j]);
  }
  transpose_times(m, n, J, at.e, dq);
  for (int j = 0; j < n; ++j) {
    const mask_t<L> held = held_at_limit(ik, at.q[j], j, dq[j]);
    if (!any(held)) continue;
    for (int i = 0; i < m; ++i) J[i * n + j] = select(held, L(0), J[i * n + j]);
  }
  for (int i = 0; i < m; ++i) z[i] = at.e[i];
  if (!any_rule || uses_error_norm(ik)) {
    gram(m, n, J, A);
    L lambda2 = L(ik.step.damping.p[0]) * sqrt(at.cost);
    if (scaled) lambda2 = min(lambda2, L(ik.max_lambda2));
    for (int i = 0; i < m; ++i) A[i * m + i] = A[i * m + i] + lambda2;
    ldl_solve(m, A, z, dq + n);
    transpose_times(m, n, J, z, dq);
    for (int j = 0; scaled && j < n; ++j) dq[j] = dq[j] * L(ik.joint_scale[j]);
  } else if constexpr (any_rule) {
    step_with_rule(ik, at, J, z, dq, dq + n);
  }
  clamp_step<long_joints>(ik, int(n), dq);
  for (int j = 0; j < n; ++j) {
    at.q[j] = min(max(at.q[j] + dq[j], L(ik.lower[j])), L(ik.upper[j]));
  }
}

// The same for robots with long joints. (Not inlined, for the sake of all others.)
template <class L, class T>
SUPPLE_NOINLINE_HOST void descend_with_long_joints(const IkProblem<T>& ik, IterateState<L>& at) {
  descend(ik, ik.rows, ik.chain.coordinates, at);
}

// The same with the usual shapes known when compiling.
template <class L, class T>
SUPPLE_FN void descend(const IkProblem<T>& ik, IterateState<L>& at) {
  const int m = ik.rows, n = ik.chain.coordinates;
  if (ik.joint_scale) return descend_with_long_joints(ik, at);
  if (m == 6 && n == 7) return descend<true, false>(ik, Fixed<6>{}, Fixed<7>{}, at);
  if (m == 6 && n == 6) return descend<true, false>(ik, Fixed<6>{}, Fixed<6>{}, at);
  descend<true, false>(ik, m, n, at);
}

// H -= Σ eₖ ∇²xₖ: how the task curves, which makes H = JᵀJ the second derivative of ½‖e‖². Of a
// frame that is carried by joints i before j, each moving it by a twist (v, w):
//
//   ∂²p/∂qᵢ∂qⱼ = wᵢ × vⱼ        and of the rotation, half of  wᵢ × wⱼ
//
// Tasks relative to a base that moves, axes and postures are taken as straight. Right after
// `measure`: the poses of the joints are still in its working memory. H is n x n, its lower
// triangle.
template <class L, class T>
SUPPLE_FN void subtract_curvature(const IkProblem<T>& ik, const IterateState<L>& at, L* H) {
  const Chain<T>& chain = ik.chain;
  const int n = chain.coordinates;
  const Pose<L>* joint_poses = reinterpret_cast<const Pose<L>*>(at.work);
  const L* e = at.e;
  for (int k = 0; k < ik.tasks; e += ik.task[k].rows, ++k) {
    const Task<T>& task = ik.task[k];
    if (task.goal != Goal::frame || task.base != task_world) continue;
    const TaskPoses<L> poses = task_poses(chain, task, joint_poses);
    L wrench[6] = {L(0), L(0), L(0), L(0), L(0), L(0)};
    for (int i = 0; i < task.rows; ++i) wrench[task.row[i]] = e[i] * L(task.weight[i]);
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
    for (int second = frame.support_begin; second < frame.support_end; ++second) {
      const Twist<L> b = twist_of(second);
      const int j = chain.joint[chain.support[second].joint].coordinate;
      // f · (w × v) = w · (v × f)
      const Vec3<L> lever = cross(b.v, force) + cross(b.w, torque) * L(T(0.5));
      for (int first = frame.support_begin; first <= second; ++first) {
        const int i = chain.joint[chain.support[first].joint].coordinate;
        const L curve = dot(twist_of(first).w, lever);
        L& entry = H[(i > j ? i : j) * n + (i > j ? j : i)];
        entry = entry - (i == j && first != second ? curve + curve : curve);
      }
    }
  }
}

SUPPLE_FN constexpr int newton_scratch(int n) { return 2 * n * n + 2 * n; }

// One step of Newton's method on ½‖e‖² inside the limits, damped by μ = newton_gain ‖e‖; where the
// second derivative is not positive, of one near it that is. Joints that sit at a limit and would
// leave stay; those that the step would take outside go to their limit, and the others make up for
// it. With `flat` on -e·x(q) instead, for a constant e: as far along e as it gets. Right after
// `measure`; `work` has newton_scratch lanes of its own.
template <class L, class T>
SUPPLE_FN void newton_step(const IkProblem<T>& ik, IterateState<L>& at, const L& newton_gain,
                           bool flat, L* work) {
  const int m = ik.rows, n = ik.chain.coordinates;
  L *H = work, *C = H + n * n, *g = C + n * n, *dq = g + n;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      L sum(0);
      for (int r = 0; r < m && !flat; ++r) sum = fma(at.J[r * n + i], at.J[r * n + j], sum);
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
  // Joint i moves by `move` where `known`: H and g of the others.
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
    if (n == 7) {  // (the usual sizes are straight code)
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
      const L lower = L(ik.lower[i]) - at.q[i], upper = L(ik.upper[i]) - at.q[i];
      const mask_t<L> out = (dq[i] < lower) | (dq[i] > upper);
      const L move = min(max(dq[i], lower), upper);
      fix(i, out, ik.joint_scale ? move / scale(i) : move);
      outside = outside | out;
    }
    if (!any(outside)) break;
  }
  for (int j = 0; j < n; ++j) {
    at.q[j] = min(max(at.q[j] + dq[j], L(ik.lower[j])), L(ik.upper[j]));
  }
}

}  // namespace supple::inline SUPPLE_ISA
