// A step toward targets within joint limits, for robots with many joints: damped least squares by
// tree_factor.hpp, for each robot of a batch, on lanes or in a CUDA thread. Nothing is kept between
// calls.
#pragma once

#include "supple/limits/box.hpp"
#include "supple/servo/tree_inverse.hpp"

namespace supple::inline SUPPLE_ISA {

// The joint whose position is the origin of twists: the first one that turns, so that a mobile base
// may be far from the origin of the world.
template <class T>
SUPPLE_FN constexpr int origin_joint(const Chain<T>& chain) {
  for (int j = 0; j < chain.joints; ++j) {
    if (chain.joint[j].motion != Motion::prismatic) return j;
  }
  return 0;
}

// Computes kinematics, e, k and p for the targets of all tasks, concatenated; a task whose target
// begins with NaN has none.
template <class L, class T>
SUPPLE_FN void prepare_tree(const Servo<T>& servo, T lambda2, const L* q, const L* target,
                            TreeWork<L>& work) {
  const Chain<T>& chain = servo.chain;
  const int n = chain.nv;
  forward(chain, q, work.pose);
  work.origin = chain.joints > 0 ? work.pose[origin_joint(chain)].p : Vec3<L>{L(0), L(0), L(0)};
  for (int j = 0; j < n; ++j) work.stiff[j] = L(lambda2), work.pull[j] = L(0);
  SUPPLE_TREE for (int k = 0, row = 0; k < servo.tasks; row += servo.task[k++].rows) {
    const Task<T>& task = servo.task[k];
    const L gain(servo.gain * (servo.task_gain ? servo.task_gain[k] : T(1)));
    const mask_t<L> given = target[0] == target[0];
    task_offset(chain, task, work.pose, q, target, work.e + row);
    for (int i = 0; i < task.rows; ++i) {
      work.e[row + i] = select(given, work.e[row + i] * gain, L(0));
      if (!traits_of(task).is_linear) continue;
      const int j = task.coordinate[i];
      const L weight(task.posture_weight[i]);
      work.stiff[j] = fma(weight, weight, work.stiff[j]);
      work.pull[j] = fma(weight, work.e[row + i], work.pull[j]);
    }
    target += target_size(task);
  }
}

// The functions of a tree that `limit_tree` calls.
template <class L, class T, class M>
struct TreeFunctions {
  // The first round of block pivoting nearly always suffices where few limits act.
  static constexpr int guess_round = 1, few_rounds = 0;
  const Servo<T>& servo;
  const TreePlan& plan;
  M K;
  TreeWork<L>& work;

  SUPPLE_INLINE void factor(const L* fixed) const { factor_tree(servo, plan, K, work, fixed); }
  SUPPLE_INLINE mask_t<L> solve(const L* fixed) const {
    return solve_tree(servo, plan, K, work, fixed);
  }
  SUPPLE_INLINE void gradient(L* to) const { tree_gradient(servo, plan, work, to); }
  SUPPLE_INLINE void inverse(int begin, L* table, L* scratch) const {
    tree_inverse(servo, plan, K, work, begin, table, scratch);
  }
};

// Number of entries of scratch memory that `limit_tree` needs.
SUPPLE_FN constexpr int limit_scratch(int joints, int slots, int n) {
  return 5 * n + dual_table(n) + inverse_scratch(joints, slots);
}

// Moves the step x inside the limits: see box.hpp. The active set is guessed by dual_box.hpp before
// round `tree.guess_round` of block pivoting. If `tree.few_rounds` is not zero, steps for which
// dual_box.hpp needs more rounds than this are given up. Returns the lanes that are not given up.
// The functions of `tree` are `factor_tree`, `solve_tree`, `tree_gradient` and `tree_inverse`.
// `scratch` has `limit_scratch` entries.
template <class L, class T, class Tree>
SUPPLE_FN mask_t<L> limit_tree(const Servo<T>& servo, T lambda2, const L* low, const L* high,
                               TreeWork<L>& work, L* active_set, L* scratch, const Tree& tree) {
  const int n = servo.chain.nv;
  L *x = scratch, *column = x + n, *rest = column + n, *table = rest + 3 * n;
  mask_t<L> inside = L(0) == L(0);
  for (int j = 0; j < n; ++j) {
    x[j] = work.x[j];
    inside = inside & (x[j] >= low[j]) & (x[j] <= high[j]);
  }
  mask_t<L> kept = L(0) == L(0);
  if (all(inside)) return kept;
  for (int j = 0; j < n; ++j) active_set[j] = L(1), work.pull[j] = L(0);
  for (int i = 0; i < servo.rows; ++i) work.e[i] = L(0);
  tree.factor(active_set);
  L square(0);
  for (int j = 0; j < n; ++j) {
    column[j] = work.stiff[j] - L(lambda2);
    square = square + column[j];
  }
  // with all joints fixed, products of U or s with screws are products of columns of J
  const Chain<T>& chain = servo.chain;
  const auto screw = [&](int j) { return joint_screw(chain.joint[j], work.pose[j], work.origin); };
  const int points = multipliers(servo.tasks, servo.task);
  for (int j = 0; j < chain.joints; ++j) {
    const JointFactor<L>& factor = work.factor[j];
    const int v = chain.joint[j].v_index;
    const auto product = [&](int i) {
      const Spatial<L> S = screw(i);
      L sum(0);
      for (int c = 0; c < 6; ++c) sum = fma(factor.U[c], S.v[c], sum);
      return sum;
    };
    L size = product(j);
    for (int k = 0; k < points; ++k) size = fma(factor.s[k], factor.s[k], size);
    for (int i = chain.joint[j].parent; chain.mimics && i >= 0; i = chain.joint[i].parent) {
      if (chain.joint[i].v_index == v) size = fma(L(2), product(i), size);
    }
    for (int i = 0; chain.mimics && i < j; ++i) {
      if (chain.joint[i].v_index != v) continue;
      for (int k = 0; k < points; ++k) {
        size = fma(L(2) * factor.s[k], work.factor[i].s[k], size);
      }
    }
    column[v] = column[v] + size, square = square + size;
  }
  L before(lambda2);
  const auto damp = [&](const L& damping) {
    for (int j = 0; j < n; ++j) work.stiff[j] = work.stiff[j] + (damping - before);
    before = damping;
  };
  search_box(
      n, L(lambda2), low, high, x, active_set, rest, false,
      [&] { return max(square * L(ridge<T>), L(Number<T>::tiny)); },
      [&](int round, const L& damping, const L* x0, const mask_t<L>& open, L* set) -> mask_t<L> {
        if (round != Tree::guess_round) return open;
        damp(damping);
        tree.factor(nullptr);
        const int begin = unbounded(servo);
        tree.inverse(begin, table, table + dual_table(n));
        const int few = tree.few_rounds, rounds = few > 0 ? few : dual_rounds * n;
        const mask_t<L> late = dual_active_set(n - begin, low + begin, high + begin, x0 + begin,
                                               open, set + begin, table, rounds);
        if (few > 0) kept = !late;
        return open & kept;
      },
      [&](const L& damping, const L* x0, const L* set, L* d, L* multiplier) {
        damp(damping);
        for (int j = 0; j < n; ++j) {
          const L end = select(set[j] < L(0), low[j], high[j]);
          work.x[j] = select(set[j] == L(0), L(0), end - x0[j]);
        }
        tree.solve(set);
        tree.gradient(multiplier);
        L size(0);
        for (int j = 0; j < n; ++j) size = max(size, abs(work.x[j]));
        for (int j = 0; j < n; ++j) {
          const L noise = L(T(64) * Number<T>::epsilon) * (column[j] + damping) * size;
          const mask_t<L> none = (set[j] == L(0)) | (abs(multiplier[j]) <= noise);
          multiplier[j] = select(none, L(0), multiplier[j]);
          d[j] = work.x[j];
        }
      });
  for (int j = 0; j < n; ++j) work.x[j] = x[j];
  return kept;
}

// Computes q̇, `work.x` (n), at q for the targets of all tasks, inside the limits. `qd` (n) is the
// current q̇. Returns the lanes where it is valid. The other arguments are those of `limit_tree`.
template <class L, class T, class Tree>
SUPPLE_FN mask_t<L> tree_velocity(const Servo<T>& servo, T lambda2, const L* q, const L* qd,
                                  const L* target, L* low, L* high, TreeWork<L>& work,
                                  L* active_set, L* scratch, const Tree& tree) {
  const int n = servo.chain.nv;
  prepare_tree(servo, lambda2, q, target, work);
  mask_t<L> valid = tree.solve(nullptr);
  for (int j = 0; j < n; ++j) {
    valid = valid & finite(work.x[j]);
    joint_box(servo.limit[j], q[j], qd[j], L(0), L(servo.dt), low[j], high[j]);
  }
  limit_tree(servo, lambda2, low, high, work, active_set, scratch, tree);
  for (int j = 0; j < n; ++j) valid = valid & finite(work.x[j]);
  return valid;
}

}  // namespace supple::inline SUPPLE_ISA
