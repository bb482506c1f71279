// Damped least squares for robots with many joints, in a time proportional to their number:
//
//   minimize  ‖J x - e‖² + Σ_j (k_j x_j² - 2 p_j x_j)      k_j = λ² + w_j²,  p_j = w_j² offset_j
//
// where w_j is the weight of a posture. Neither J nor JᵀJ is computed. The minimum over the joints
// of a subtree is a quadratic function of the twist of the body that carries the subtree, so that
// the joints are eliminated one after the other, from the tips to the base, as in the dynamics of
// articulated bodies (Featherstone 2008, chapter 7). Rows of a center of mass, which depend on all
// bodies, are constraints, whose multipliers y are the only other variables of that function.
// Joints that share a coordinate are coupled by constraints in the same way; each of these joints
// has its share of k and p.
//
// Iterative refinement with residuals of J itself restores the accuracy that normal equations lose.
// Constants are explained in docs/constants.md.
#pragma once

#include "supple/servo/tree_rows.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest number of rounds of refinement. Refinement ends when the remaining error, relative to the
// step, is estimated to be below `small_error`. The estimate assumes that the error is smaller than
// the last correction by the factor by which this correction is smaller than the one before. If the
// estimate stays above `lost_error`, and the correction above the change of x due to rounding e,
// the step is not valid.
inline constexpr int most_refinements = 6;
inline constexpr double small_error = 1e-10, lost_error = 1e-6;

// Replaces N (k x k, lower triangle), which is positive definite, by its Cholesky factor with the
// inverse of its diagonal.
template <class L, class M>
SUPPLE_INLINE void factor_multipliers(M K, L* N) {
  SUPPLE_EACH(i, K) {
    L* const row = N + i * (i + 1) / 2;
    SUPPLE_EACH(k, i) {
      SUPPLE_EACH(c, k) row[k] = fma(-row[c], N[k * (k + 1) / 2 + c], row[k]);
      row[k] = row[k] * N[k * (k + 1) / 2 + k];
    }
    SUPPLE_EACH(c, i) row[i] = fma(-row[c], row[c], row[i]);
    row[i] = L(1) / sqrt(row[i]);
  }
}
// Replaces y (k) by N⁻¹ y.
template <class L, class M>
SUPPLE_INLINE void solve_multipliers(M K, const L* N, L* y) {
  SUPPLE_EACH(i, most_multipliers) {
    if (i >= K) break;  // K is at most most_multipliers, which a compiler cannot know
    SUPPLE_EACH(c, i) y[i] = fma(-N[i * (i + 1) / 2 + c], y[c], y[i]);
    y[i] = y[i] * N[i * (i + 1) / 2 + i];
  }
  for (int i = K - 1; i >= 0; --i) {
    for (int c = i + 1; c < K; ++c) y[i] = fma(-N[c * (c + 1) / 2 + i], y[c], y[i]);
    y[i] = y[i] * N[i * (i + 1) / 2 + i];
  }
}

// Whether joint j + 1 is the child of joint j, so that joint j receives directly what the
// elimination of joint j + 1 leaves.
template <class T>
SUPPLE_INLINE bool follows(const Chain<T>& chain, int j) {
  return j + 1 < chain.joints && chain.joint[j + 1].parent == j;
}

// The share of joint j in k and p of its coordinate.
template <class T>
SUPPLE_INLINE T own_share(const Chain<T>& chain, int j) {
  return chain.mimics ? T(1) / T(sharing(chain, j)) : T(1);
}

// Eliminates all joints but those marked in `fixed` (n; null if there are none). Returns the lanes
// where this is possible: where each has a positive pivot. K is the number of multipliers.
template <class L, class T, class M>
SUPPLE_FN mask_t<L> factor_tree(const Servo<T>& servo, const TreePlan& plan, M K, TreeWork<L>& work,
                                const L* fixed) {
  const Chain<T>& chain = servo.chain;
  mask_t<L> valid = L(0) == L(0);
  const int points = multipliers(servo.tasks, servo.task);
  SUPPLE_EACH(i, K) SUPPLE_EACH(k, i + 1) work.N[i * (i + 1) / 2 + k] = L(k == i ? 1 : 0);
  for (int k = points; chain.mimics && k < K; ++k) work.N[k * (k + 1) / 2 + k] = L(0);
  for (int s = 0; s < plan.slots; ++s) {
    SUPPLE_EACH(i, 21) work.matrix[s].A[i] = L(0);
    SUPPLE_EACH(k, K) SUPPLE_EACH(i, 6) work.matrix[s].C[k][i] = L(0);
  }
  TreeMatrix<L> now;
  SUPPLE_TREE for (int j = chain.joints - 1; j >= 0; --j) {
    const Joint<T>& joint = chain.joint[j];
    const int slot = plan.slot[j];
    if (!follows(chain, j)) {
      SUPPLE_EACH(i, 21) now.A[i] = L(0);
      SUPPLE_EACH(k, K) SUPPLE_EACH(i, 6) now.C[k][i] = L(0);
    }
    if (slot >= 0) {
      SUPPLE_EACH(i, 21) now.A[i] = now.A[i] + work.matrix[slot].A[i];
      SUPPLE_EACH(k, K) SUPPLE_EACH(i, 6) now.C[k][i] = now.C[k][i] + work.matrix[slot].C[k][i];
    }
    SUPPLE_TREE for (int a = plan.begin[j]; a < plan.begin[j + 1]; ++a) {
      const Task<T>& task = servo.task[plan.item[a].task];
      if (plan.item[a].point < 0) {
        each_form(chain, task, work, [&](int, const Spatial<L>& r) {
          SUPPLE_EACH(i, 6) {
            SUPPLE_EACH(k, i + 1) {
              L& entry = now.A[i * (i + 1) / 2 + k];
              entry = fma(r.v[i], r.v[k], entry);
            }
          }
        });
      } else {
        const int first = multipliers_before(servo, plan.item[a].task);
        each_point_form(chain, task, plan.item[a].point, work, [&](int i, const Spatial<L>& r) {
          SUPPLE_EACH(c, 6) now.C[first + i][c] = now.C[first + i][c] + r.v[c];
        });
      }
    }
    const Spatial<L> S = joint_screw(joint, work.pose[j], work.origin);
    JointFactor<L> factor;
    SUPPLE_EACH(i, 6) {
      L sum = now.A[i * (i + 1) / 2] * S.v[0];
      SUPPLE_EACH(k, 5) {
        const int c = k + 1;
        sum = fma(now.A[i >= c ? i * (i + 1) / 2 + c : c * (c + 1) / 2 + i], S.v[c], sum);
      }
      factor.U[i] = sum;
    }
    L pivot = work.stiff[joint.v_index] * L(own_share(chain, j));
    SUPPLE_EACH(i, 6) pivot = fma(S.v[i], factor.U[i], pivot);
    SUPPLE_EACH(k, K) {
      L sum = now.C[k][0] * S.v[0];
      SUPPLE_EACH(i, 5) sum = fma(now.C[k][i + 1], S.v[i + 1], sum);
      factor.s[k] = sum;
    }
    const mask_t<L> is_free = fixed ? fixed[joint.v_index] == L(0) : L(0) == L(0);
    each_constraint(chain, plan, points, j, [&](int k, int sign) {
      factor.s[k] = factor.s[k] + L(T(sign));
      L& diagonal = work.N[k * (k + 1) / 2 + k];  // a constraint of fixed joints must be regular
      diagonal = diagonal + select(is_free, L(0), L(1));
    });
    valid = valid & ((pivot > L(0)) | !is_free);
    factor.inverse = select(is_free, L(1) / pivot, L(0));
    work.factor[j] = factor;
    SUPPLE_EACH(i, 6) {
      const L share = -factor.U[i] * factor.inverse;
      SUPPLE_EACH(k, i + 1) {
        L& entry = now.A[i * (i + 1) / 2 + k];
        entry = fma(share, factor.U[k], entry);
      }
      SUPPLE_EACH(k, K) now.C[k][i] = fma(share, factor.s[k], now.C[k][i]);
    }
    SUPPLE_EACH(i, K) {
      const L share = factor.s[i] * factor.inverse;
      SUPPLE_EACH(k, i + 1) {
        L& entry = work.N[i * (i + 1) / 2 + k];
        entry = fma(share, factor.s[k], entry);
      }
    }
    if (joint.parent >= 0 && joint.parent != j - 1) {
      TreeMatrix<L>& to = work.matrix[plan.slot[joint.parent]];
      SUPPLE_EACH(i, 21) to.A[i] = to.A[i] + now.A[i];
      SUPPLE_EACH(k, K) SUPPLE_EACH(i, 6) to.C[k][i] = to.C[k][i] + now.C[k][i];
    }
  }
  factor_multipliers(K, work.N);
  return valid;
}

// Calls body(j, V) with the twist of each body at the speeds x (n), parents first; speed(j, V)
// returns the speed of joint j, given the twist V of the body before it.
template <class L, class T, class Speed, class Body>
SUPPLE_INLINE void each_twist(const Chain<T>& chain, const TreePlan& plan, TreeWork<L>& work,
                              Speed&& speed, Body&& body) {
  Spatial<L> V = zero_spatial<L>();
  SUPPLE_TREE for (int j = 0; j < chain.joints; ++j) {
    const Joint<T>& joint = chain.joint[j];
    if (joint.parent < 0) V = zero_spatial<L>();
    if (joint.parent >= 0 && joint.parent != j - 1) V = work.vector[plan.slot[joint.parent]];
    const Spatial<L> S = joint_screw(joint, work.pose[j], work.origin);
    const L x = speed(j, V);
    add_scaled(S.v, x, V);
    if (plan.slot[j] >= 0) work.vector[plan.slot[j]] = V;
    body(j, V);
  }
}
// Calls visit(j, S, b) for each joint, children first, with its screw S and the sum b of the
// wrenches of the bodies that it carries. What `visit` leaves of b is passed on to the parent.
// add(j, b) adds the wrench of a body.
template <class L, class T, class Add, class Visit>
SUPPLE_INLINE void each_wrench(const Chain<T>& chain, const TreePlan& plan, TreeWork<L>& work,
                               Add&& add, Visit&& visit) {
  for (int s = 0; s < plan.slots; ++s) work.vector[s] = zero_spatial<L>();
  Spatial<L> b = zero_spatial<L>();
  SUPPLE_TREE for (int j = chain.joints - 1; j >= 0; --j) {
    const Joint<T>& joint = chain.joint[j];
    if (!follows(chain, j)) b = zero_spatial<L>();
    if (plan.slot[j] >= 0) add_scaled(work.vector[plan.slot[j]].v, L(1), b);
    add(j, b);
    visit(j, joint_screw(joint, work.pose[j], work.origin), b);
    if (joint.parent >= 0 && joint.parent != j - 1) {
      add_scaled(b.v, L(1), work.vector[plan.slot[joint.parent]]);
    }
  }
}
// Adds the wrenches of the frames on joint j.
template <class L>
SUPPLE_INLINE void add_wrenches(const TreePlan& plan, const TreeWork<L>& work, int j,
                                Spatial<L>& b) {
  SUPPLE_TREE for (int a = plan.begin[j]; a < plan.begin[j + 1]; ++a) {
    if (plan.item[a].point < 0) add_scaled(work.wrench[plan.item[a].task].v, L(1), b);
  }
}

// Computes what the speeds x leave of e: `wrench` of each frame, and `lost` of the points. If the
// robot is `at_rest`, all of e is left.
template <class L, class T>
SUPPLE_FN void tree_residual(const Servo<T>& servo, const TreePlan& plan, TreeWork<L>& work,
                             bool at_rest) {
  const Chain<T>& chain = servo.chain;
  const auto add_wrench = [&](int k, int row, const Spatial<L>& V) {
    Spatial<L> wrench = zero_spatial<L>();
    each_form(chain, servo.task[k], work, [&](int i, const Spatial<L>& r) {
      const L rest = work.e[row + i] - dot(r, V);
      work.left = fma(rest, rest, work.left);
      add_scaled(r.v, rest, wrench);
    });
    work.wrench[k] = wrench;
  };
  work.left = L(0);
  SUPPLE_TREE for (int k = 0, row = 0, y = 0; k < servo.tasks; row += servo.task[k++].rows) {
    const Task<T>& task = servo.task[k];
    if (traits_of(task).is_sum) {
      for (int i = 0; i < task.rows; ++i) work.lost[y++] = work.e[row + i];
    } else if (at_rest && traits_of(task).is_twist) {
      add_wrench(k, row, zero_spatial<L>());
    }
  }
  if (chain.mimics) {
    for (int k = multipliers(servo.tasks, servo.task); k < most_multipliers; ++k)
      work.lost[k] = L(0);
  }
  if (at_rest) return;
  each_twist(
      chain, plan, work, [&](int j, const Spatial<L>&) { return work.x[chain.joint[j].v_index]; },
      [&](int j, const Spatial<L>& V) {
        SUPPLE_TREE for (int a = plan.begin[j]; a < plan.begin[j + 1]; ++a) {
          const int k = plan.item[a].task;
          if (plan.item[a].point < 0) {
            int row = 0;
            for (int i = 0; i < k; ++i) row += servo.task[i].rows;
            add_wrench(k, row, V);
          } else {
            const int first = multipliers_before(servo, k);
            each_point_form(chain, servo.task[k], plan.item[a].point, work,
                            [&](int i, const Spatial<L>& r) {
                              work.lost[first + i] = work.lost[first + i] - dot(r, V);
                            });
          }
        }
      });
}

// Solves for the correction `change` (joints) by which the speeds of the free joints improve.
template <class L, class T, class M>
SUPPLE_FN void tree_correction(const Servo<T>& servo, const TreePlan& plan, M K,
                               TreeWork<L>& work) {
  const Chain<T>& chain = servo.chain;
  L y[most_multipliers];
  SUPPLE_EACH(k, K) y[k] = work.lost[k];
  each_wrench(
      chain, plan, work, [&](int j, Spatial<L>& b) { add_wrenches(plan, work, j, b); },
      [&](int j, const Spatial<L>& S, Spatial<L>& b) {
        const int v = chain.joint[j].v_index;
        const JointFactor<L>& factor = work.factor[j];
        const L own = L(own_share(chain, j));
        const L t =
            factor.inverse * fma(own, fma(-work.stiff[v], work.x[v], work.pull[v]), dot(S, b));
        add_scaled(factor.U, L(-t), b);
        SUPPLE_EACH(k, K) y[k] = fma(-factor.s[k], t, y[k]);
        work.change[j] = t;
      });
  solve_multipliers(K, work.N, y);
  each_twist(
      chain, plan, work,
      [&](int j, const Spatial<L>& V) {
        const JointFactor<L>& factor = work.factor[j];
        L sum = factor.U[0] * V.v[0];
        SUPPLE_EACH(i, 5) sum = fma(factor.U[i + 1], V.v[i + 1], sum);
        SUPPLE_EACH(k, K) sum = fma(factor.s[k], -y[k], sum);
        L& x = work.change[j];
        return x = fma(-factor.inverse, sum, x);
      },
      [](int, const Spatial<L>&) {});
}

// Returns a bound on the change of x by rounding errors of the remaining e.
template <class L, class T, class M>
SUPPLE_FN L rounding_of_tree(const Chain<T>& chain, M K, const TreeWork<L>& work) {
  L square = work.left, softest(0);
  SUPPLE_EACH(k, K) square = fma(work.lost[k], work.lost[k], square);
  for (int j = 0; j < chain.joints; ++j) {
    const L pull = work.pull[chain.joint[j].v_index], inverse = work.factor[j].inverse;
    square = fma(pull * pull, inverse, square);
    softest = max(softest, inverse);
  }
  return L(T(64) * Number<T>::epsilon) * sqrt(square * softest);
}

// Computes x (n), the minimizer over all joints that are not `fixed` (n; null if all are free);
// the speeds of the others are given. Returns the lanes where it is valid.
template <class L, class T, class M>
SUPPLE_FN mask_t<L> solve_tree(const Servo<T>& servo, const TreePlan& plan, M K, TreeWork<L>& work,
                               const L* fixed) {
  const int n = servo.chain.nv;
  mask_t<L> valid = factor_tree(servo, plan, K, work, fixed);
  for (int j = 0; j < n; ++j) work.change[j] = L(1);
  for (int j = 0; j < servo.chain.joints; ++j) work.change[servo.chain.joint[j].v_index] = L(0);
  for (int j = 0; j < n; ++j) {  // coordinates that move no frame have a posture only
    const mask_t<L> own = (work.change[j] != L(0)) & (work.stiff[j] > L(0));
    const L x = select(own, work.pull[j] / select(own, work.stiff[j], L(1)), L(0));
    const mask_t<L> is_free = fixed ? fixed[j] == L(0) : L(0) == L(0);
    work.x[j] = select(is_free, x, work.x[j]);
  }
  // The constraints of joints that share a coordinate converge more slowly.
  const bool shared = servo.chain.mimics;
  const int rounds = shared ? 3 * most_refinements : most_refinements;
  const T enough = T(small_error) * (shared ? T(1e-5) : T(1));
  mask_t<L> small = L(0) != L(0);
  L before(0), noise(0);  // the largest entry of the last correction; change of x by rounding e
  for (int round = 0; round < rounds && !all(small | !valid); ++round) {
    tree_residual(servo, plan, work, !fixed && round == 0);
    tree_correction(servo, plan, K, work);
    L most(0), moved(0);
    for (int j = 0; j < servo.chain.joints; ++j) {
      if (is_follower(servo.chain, plan, j)) continue;
      L& x = work.x[servo.chain.joint[j].v_index];
      x = select(small, x, x + work.change[j]), moved = max(moved, abs(work.change[j]));
    }
    for (int j = 0; j < n; ++j) most = max(most, abs(work.x[j]));
    if (round == 0) noise = rounding_of_tree(servo.chain, K, work);
    const L last = round ? before : most, error = moved * moved;
    small = small | (moved <= noise) | (error <= L(enough) * most * last);
    if (round + 1 == rounds) {
      valid = valid & (small | (error <= L(T(lost_error)) * most * last));
    }
    before = moved;
  }
  return valid;
}

// Computes half the gradient (n) of the minimized function at the speeds x.
template <class L, class T>
SUPPLE_FN void tree_gradient(const Servo<T>& servo, const TreePlan& plan, TreeWork<L>& work,
                             L* gradient) {
  const Chain<T>& chain = servo.chain;
  for (int j = 0; j < chain.nv; ++j) gradient[j] = fma(work.stiff[j], work.x[j], -work.pull[j]);
  tree_residual(servo, plan, work, false);
  each_wrench(
      chain, plan, work,
      [&](int j, Spatial<L>& b) {
        add_wrenches(plan, work, j, b);
        SUPPLE_TREE for (int a = plan.begin[j]; a < plan.begin[j + 1]; ++a) {
          if (plan.item[a].point < 0) continue;
          const int k = plan.item[a].task, first = multipliers_before(servo, k);
          each_point_form(
              chain, servo.task[k], plan.item[a].point, work,
              [&](int i, const Spatial<L>& r) { add_scaled(r.v, work.lost[first + i], b); });
        }
      },
      [&](int j, const Spatial<L>& S, Spatial<L>& b) {
        L& own = gradient[chain.joint[j].v_index];
        own = own - dot(S, b);
      });
}

}  // namespace supple::inline SUPPLE_ISA
