// The inverse of the matrix of tree_factor.hpp. Its entries say how a force on one joint moves all
// joints. The inverse is computed by columns, of which several share the reads of the factor.
#pragma once

#include "supple/limits/dual_box.hpp"
#include "supple/servo/tree_factor.hpp"

namespace supple::inline SUPPLE_ISA {

// Number of columns that are computed at once.
inline constexpr int inverse_columns = 4;

// Whether the speed of a joint has a bound.
template <class T>
SUPPLE_FN constexpr bool is_bounded(const JointLimit<T>& limit) {
  const T none = Number<T>::huge;
  return limit.lower > -none || limit.upper < none || limit.speed < none ||
         limit.acceleration < none || limit.jerk < none;
}

// Number of entries of `scratch`.
SUPPLE_FN constexpr int inverse_scratch(int joints, int slots) {
  return inverse_columns * (joints + 6 * slots);
}

// Number of coordinates before the first one with a bound: those of a base that floats.
template <class T>
SUPPLE_FN constexpr int unbounded(const Servo<T>& servo) {
  int count = 0;
  while (count < servo.chain.nv && !is_bounded(servo.limit[count])) ++count;
  return count;
}

// Computes the inverse as a tableau of dual_box.hpp, for the coordinates from `begin` on, after
// `factor_tree` for free joints.
template <class L, class T, class M>
SUPPLE_FN void tree_inverse(const Servo<T>& servo, const TreePlan& plan, M K, TreeWork<L>& work,
                            int begin, L* table, L* scratch) {
  constexpr int R = inverse_columns;
  const Chain<T>& chain = servo.chain;
  L* const t = scratch;  // (joints, R): the part of each column's wrench that acts on the joint
  Spatial<L>* const kept = reinterpret_cast<Spatial<L>*>(t + R * chain.joints);  // (slots, R)
  for (int k = 0; k < tableau_size(chain.nv - begin); ++k) table[k] = L(0);
  for (int i = begin; i < chain.nv; ++i) {  // coordinates that move no frame have a posture only
    const mask_t<L> own = work.stiff[i] > L(0);
    const L inverse = select(own, L(1) / select(own, work.stiff[i], L(1)), L(0));
    table[in_tableau(i - begin, i - begin)] = inverse;
  }
  for (int last = chain.joints - 1; last >= 0; last -= R) {
    int at[R];  // the joint that carries the wrench of each column, or -1
    bool any = false;
    SUPPLE_EACH(r, R) {
      const int j = last - r;
      at[r] = j >= 0 && chain.joint[j].v_index >= begin && !is_follower(chain, plan, j) ? j : -1;
      any = any || at[r] >= 0;
    }
    if (!any) continue;
    Spatial<L> b[R];
    L y[R][most_multipliers];
    SUPPLE_EACH(r, R) {
      b[r] = zero_spatial<L>();
      SUPPLE_EACH(k, K) y[r][k] = L(0);
    }
    for (int j = last; j >= 0; --j) {
      bool carries = false;
      SUPPLE_EACH(r, R) carries = carries || at[r] == j;
      SUPPLE_EACH(r, R) t[j * R + r] = L(0);
      if (!carries) continue;
      const Spatial<L> S = joint_screw(chain.joint[j], work.pose[j], work.origin);
      const JointFactor<L>& factor = work.factor[j];
      SUPPLE_EACH(r, R) {
        if (at[r] != j) continue;
        const L own = factor.inverse * (dot(S, b[r]) + L(j == last - r ? 1 : 0));
        add_scaled(factor.U, L(-own), b[r]);
        SUPPLE_EACH(k, K) y[r][k] = fma(-factor.s[k], own, y[r][k]);
        t[j * R + r] = own;
        at[r] = chain.joint[j].parent;
      }
    }
    SUPPLE_EACH(r, R) {
      solve_multipliers(K, work.N, y[r]);
      b[r] = zero_spatial<L>();  // from here on the twist
    }
    for (int j = 0; j <= last; ++j) {
      const Joint<T>& joint = chain.joint[j];
      if (joint.parent != j - 1) {
        SUPPLE_EACH(r, R) {
          b[r] = joint.parent < 0 ? zero_spatial<L>() : kept[plan.slot[joint.parent] * R + r];
        }
      }
      const Spatial<L> S = joint_screw(joint, work.pose[j], work.origin);
      const JointFactor<L>& factor = work.factor[j];
      SUPPLE_EACH(r, R) {
        L sum = factor.U[0] * b[r].v[0];
        SUPPLE_EACH(i, 5) sum = fma(factor.U[i + 1], b[r].v[i + 1], sum);
        SUPPLE_EACH(k, K) sum = fma(factor.s[k], -y[r][k], sum);
        const L x = fma(-factor.inverse, sum, t[j * R + r]);
        add_scaled(S.v, x, b[r]);
        if (plan.slot[j] >= 0) kept[plan.slot[j] * R + r] = b[r];
        const int c = last - r;
        if (j > c || is_follower(chain, plan, j) || is_follower(chain, plan, c)) continue;
        const int row = joint.v_index - begin, to = chain.joint[c].v_index - begin;
        if (row >= 0 && to >= 0) table[row < to ? in_tableau(to, row) : in_tableau(row, to)] = x;
      }
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
