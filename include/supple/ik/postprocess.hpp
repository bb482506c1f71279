// Postprocessing of a solution: 2π wraps of joints, and motion in the null space toward a posture.
// Used on a CPU (src/core/drivers/solutions.hpp) and in the threads of a GPU
// (src/supple/ik/gpu/postprocess.cu).
#pragma once

#include "supple/ik/restarts.hpp"

namespace supple::inline SUPPLE_ISA {

// ---- 2π wraps ----------------------------------------------------------------------------------

SUPPLE_FN double rounded(double x) {
  return double(static_cast<long long>(x < 0 ? x - 0.5 : x + 0.5));
}

// Returns the difference of two angles modulo `turn` = 2π, or their plain difference if `turn` is
// 0.
SUPPLE_FN double wrapped_difference(double turn, double one, double other) {
  const double away = coordinate_difference(one, other);
  return turn > 0 ? away - turn * rounded(away / turn) : away;
}

// Returns the angle nearest to `to` among q and its 2π wraps inside the joint limits.
SUPPLE_FN double nearest_wrap(double q, double to, double turn, double lower, double upper) {
  const double here = abs(coordinate_difference(q, to));
  if (here < 0.49 * turn) return q;  // the usual case, without a division: no wrap is nearer
  const auto turned = [&](double turns) { return integrate_coordinate(q, turn * turns); };
  const auto whole = [&](double room) { return double(static_cast<long long>(room / turn)); };
  double next = turned(rounded(coordinate_difference(to, q) / turn));
  if (next > upper) next = turned(whole(coordinate_difference(upper, q)));
  if (next < lower) next = turned(-whole(coordinate_difference(q, lower)));
  const double there = abs(coordinate_difference(next, to));
  return next >= lower && next <= upper && there < here ? next : q;
}

// Wraps the joints of one lane to the angles nearest to reference(j) and evaluates the state again.
// If the configuration is no longer acceptable, because of rounding, it is restored.
//
//   wrap (n,)       2π for a joint that has wraps, else 0
//   kept (n,)       scratch memory
//   evaluate()      evaluates the state
//   acceptable()    whether the new configuration is as good as the old one
//
// Returns whether the configuration has changed.
template <class L, class Reference, class Evaluate, class Acceptable>
SUPPLE_FN bool unwind(const IkProblem<double>& ik, IterateState<L>& at, int lane,
                      const double* wrap, double* kept, Reference&& reference, Evaluate&& evaluate,
                      Acceptable&& acceptable) {
  const int n = ik.chain.nq;
  bool changed = false;
  for (int j = 0; j < n; ++j) {
    kept[j] = get(at.q[j], lane);
    if (!(wrap[j] > 0)) continue;
    const double next = nearest_wrap(kept[j], reference(j), wrap[j], ik.lower[j], ik.upper[j]);
    changed |= next != kept[j];
    set(at.q[j], lane, next);
  }
  // A loop instead of two calls of evaluate(), so that a GPU compiles it only once.
  for (int pass = 0; changed; ++pass) {
    evaluate();
    if (pass == 1) return false;
    if (acceptable()) return true;
    for (int j = 0; j < n; ++j) set(at.q[j], lane, kept[j]);
  }
  return false;
}

// ---- toward a posture -------------------------------------------------------------------------

// Returns the direction d (n,) nearest to v (n,) that keeps the target to first order and moves no
// joint that is at a limit out of its range:
//
//   min ‖d - v‖²  subject to  J d = e,  d_j >= 0 at a lower limit,  d_j <= 0 at an upper one
//
// Norms are those of coordinates in units of `joint_unit`.
// Active-set method: joints that would leave their range are fixed, and a fixed joint whose
// multiplier has the wrong sign is released. Call it after `evaluate_jacobian`; d is in the scratch
// memory of the state. `fixed` (n,) is scratch memory.
SUPPLE_FN double* feasible_direction(const IkProblem<double>& ik, IterateState<double>& at,
                                     const double* v, double* fixed) {
  const int m = ik.rows, n = ik.chain.nv;
  double *A = at.work, *z = A + m * m, *d = z + m, *scratch = d + n;
  const double* const J = at.J;
  const auto leaves = [&](int j) {
    const double near = at_limit * joint_unit(ik, j);
    return (at.q[j] <= ik.lower[j] + near && d[j] < 0) ||
           (at.q[j] >= ik.upper[j] - near && d[j] > 0);
  };
  for (int j = 0; j < n; ++j) fixed[j] = 0;
  const auto free_unit = [&](int j) { return fixed[j] != 0 ? 0 : joint_unit(ik, j); };
  for (int pass = 0; pass < 4 * n; ++pass) {
    for (int i = 0; i < m; ++i) {
      z[i] = at.e[i];
      for (int j = 0; j < n; ++j) z[i] -= fixed[j] != 0 ? 0 : J[i * n + j] * v[j];
    }
    if (ik.limbs) {
      // Without damping, limbs with fewer joints than rows could not be eliminated.
      double size = 0;
      for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) size += square(J[i * n + j] * free_unit(j));
      }
      limb_step(*ik.limbs, m, n, J, z, limb_damping * size / m, free_unit, d, scratch);
    } else {
      for (int i = 0; i < m; ++i) {
        for (int k = 0; k <= i; ++k) {
          double sum = 0;
          for (int j = 0; j < n; ++j) {
            sum += fixed[j] != 0 ? 0 : J[i * n + j] * J[k * n + j] * square(joint_unit(ik, j));
          }
          A[i * m + k] = A[k * m + i] = sum;
        }
      }
      ldl_solve(m, A, z, scratch);
    }
    for (int j = 0; j < n; ++j) {
      d[j] = v[j];
      for (int i = 0; i < m; ++i) d[j] += J[i * n + j] * z[i] * square(joint_unit(ik, j));
    }
    bool more = false;
    for (int j = 0; j < n; ++j) {
      if (fixed[j] != 0 || !leaves(j)) continue;
      fixed[j] = 1;
      more = true;
    }
    if (more) continue;
    int released = -1;  // the fixed joint that would move fastest back into its range
    const auto speed = [&](int j) { return abs(d[j]) / joint_unit(ik, j); };
    for (int j = 0; j < n; ++j) {
      if (fixed[j] == 0 || leaves(j)) continue;
      if (released < 0 || speed(j) > speed(released)) released = j;
    }
    if (released < 0 || pass >= 3 * n) break;
    fixed[released] = 0;
  }
  for (int j = 0; j < n; ++j) d[j] = fixed[j] != 0 ? 0 : d[j];
  return d;
}

// Moves a solution toward a posture: minimizes Σ weight (posture - q)² while keeping the target.
// Each step goes along the feasible part of the negative gradient, at most to the first joint
// limit; the length of the step follows from the curvature along the last step (Barzilai and
// Borwein). A correction back to the target follows. A step that does not reduce the cost is
// undone, and the next one is shorter.
//
//   posture(j), weight(j)   the posture and its weights
//   ready()                 updates J; returns false to stop
//   correct()               moves back to the target; returns whether it is met
//   most                    largest number of steps
//
// `work` has nq + 4 nv numbers.
template <class Posture, class Weight, class Ready, class Correct>
SUPPLE_FN void approach_posture(const IkProblem<double>& ik, IterateState<double>& at, double* work,
                                Posture&& posture, Weight&& weight, Ready&& ready,
                                Correct&& correct, int most = posture_iterations) {
  const int n = ik.chain.nv;
  double *v = work, *kept = v + n, *fixed = kept + ik.chain.nq, *before = fixed + n,
         *moved = before + n;
  double gain = 1;
  bool known = false;         // whether `before` and `moved` belong to the last step
  const auto measure = [&] {  // v = posture - q
    visit_joints(
        ik.chain, [&](int j) { v[j] = coordinate_difference(posture(j), at.q[j]); },
        [&](int j) {
          const Vec3<double> to{posture(j), posture(j + 1), posture(j + 2)};
          set_vector(v + j, ball_difference(to, vector_at(at.q + j)));
        });
  };
  const auto cost = [&] {
    double sum = 0;
    measure();
    for (int j = 0; j < n; ++j) sum += weight(j) * v[j] * v[j];
    return sum;
  };
  double least = cost();
  for (int i = 0; i < most && gain > min_posture_gain; ++i) {
    double whole = 0, feasible = 0;
    for (int j = 0; j < ik.chain.nq; ++j) kept[j] = at.q[j];
    measure();
    for (int j = 0; j < n; ++j) {
      v[j] = weight(j) * v[j] * square(joint_unit(ik, j));
      whole += square(v[j] / joint_unit(ik, j));
    }
    if (!ready()) return;
    const double* const d = feasible_direction(ik, at, v, fixed);
    for (int j = 0; j < n; ++j) feasible += square(d[j] / joint_unit(ik, j));
    if (feasible <= posture_tolerance * posture_tolerance * whole) return;
    if (known) {
      const double shortest = min_first_gain, longest = max_posture_gain;
      double along = 0, curve = 0;
      for (int j = 0; j < n; ++j) {
        const double unit2 = square(joint_unit(ik, j));
        along += moved[j] * moved[j] / unit2;
        curve += moved[j] * (before[j] - d[j]) / unit2;
      }
      gain = min(curve > 0 ? max(along / curve, shortest) : 2 * gain, longest);
    }
    double part = gain;  // factor of d, reduced so that the step ends at the first joint limit
    for (int j = 0; j < n; ++j) {
      const double end = d[j] < 0 ? ik.lower[j] : ik.upper[j];
      const double size = abs(d[j]), room = coordinate_difference(end, at.q[j]);
      if (part * size > abs(room)) part = abs(room) / size;
      if (part * size > max_joint_step(ik, j)) part = max_joint_step(ik, j) / size;
    }
    for (int j = 0; j < n; ++j) {
      before[j] = d[j];
      moved[j] = part * d[j];
    }
    move_within_limits(ik, n, moved, at.q);
    const bool met = correct();
    const double now = cost();
    known = met && now < least;
    if (known) {
      least = now;
      if (part < gain) gain = 1, known = false;  // the feasible gradient changes at a limit
      difference(ik.chain, at.q, kept, moved);
      continue;
    }
    for (int j = 0; j < ik.chain.nq; ++j) at.q[j] = kept[j];
    evaluate(ik, at);
    gain = 0.3 * min(gain, part);
  }
}

// Alternates `approach_posture` with unwind(), which returns whether it has changed the solution:
// after all joints have moved, a 2π wrap of one joint may bring it even nearer to the posture.
template <class Posture, class Weight, class Ready, class Correct, class Unwind>
SUPPLE_FN void approach_posture_with_wraps(const IkProblem<double>& ik, IterateState<double>& at,
                                           double* work, Posture&& posture, Weight&& weight,
                                           Ready&& ready, Correct&& correct, Unwind&& unwind,
                                           int most = posture_iterations) {
  for (int round = 0; round < posture_rounds; ++round) {
    approach_posture(ik, at, work, posture, weight, ready, correct, most);
    if (!unwind()) return;
  }
}

}  // namespace supple::inline SUPPLE_ISA
