// Folds: singularities at the end of the reach, such as a stretched arm.
//
// Let σ be a small singular value of J with the singular vectors u (of the task) and v (of the
// joints). In a step of length dt, the joint velocity c v moves the task along u at the velocity
//
//   E = σ c + ½ h c²,    h = dt u·J̇(v)v.
//
// The fold is the configuration where this parabola has its extremum, at the distance (σ/|h|) dt
// along v. J alone overestimates the motion toward a fold and underestimates the motion away from
// it; at σ = 0 a step by J alone does not leave the fold at all. Both are corrected by the secant
// of the parabola: in J, its slope g with g c = E replaces σ. Below, e is the commanded velocity
// and κ the curvature of the robot, half its reach (supple.damping.Curvature). Tuned constants are
// explained in docs/constants.md.
#pragma once

#include "supple/limits.hpp"
#include "supple/parts.hpp"
#include "supple/singular_gradient.hpp"
#include "supple/step.hpp"
#include "supple/step_rows.hpp"

namespace supple::inline SUPPLE_ISA {

// Curvature is ignored where σ² is above this multiple of κ dt ‖e‖: there it changes the step along
// u by less than 1/40.
template <class T>
inline constexpr T fold_range = T(20);

// Curvature that changes the step along u by less than half of this fraction is ignored as well:
// motion along other directions has effects of the same order, which may cancel that change.
template <class T>
inline constexpr T fold_least = T(0.01);

// Damping begins where σ² is below this multiple of κ dt ‖e‖. The multiple is 2 because the second
// derivative of a position along any unit vector of joint space is at most 2 κ.
template <class T>
inline constexpr T damped_range = T(2);

// While a target beyond a fold moves back, the part of the offset beyond the fold is multiplied by
// only this fraction of the gain: no motion reduces that part, and it delays the return of the arm.
template <class T>
inline constexpr T unreached_gain = T(0.4);

// Joints whose entry of v is smaller than this are ignored: they neither limit the speed along v
// nor influence on which side the arm leaves a fold.
template <class T>
inline constexpr T fold_part = T(0.1);

// Self-motion avoids a singularity if the largest curvatures to both sides (`is_avoidable`) are
// positive and the smaller of the two is above this fraction of the larger.
template <class T>
inline constexpr T avoidable_bend = T(0.7);

// A step past an avoidable singularity is not damped if its speeds are at most this multiple of the
// speed limits. The damping then rises linearly to its usual value at this multiple plus 1.
template <class T>
inline constexpr T undamped_speed = T(1.5);

// Multiple of |σ̇| in the damping of a singular direction (`singular_rate`): with the default
// damping 1/31.6 per unit, λ exceeds σ while σ passes zero within a quarter of a second.
template <class T>
inline constexpr T crossing_gain = T(8);

// Motions along v and along -v both lead away from a fold, on different sides. The arm crosses the
// fold if the room up to the joint limits on the other side is more than this multiple of the room
// on its own side, and of the distance across the fold.
template <class T>
inline constexpr T fold_room = T(4);

template <class T>
SUPPLE_FN constexpr int fold_scratch(const Chain<T>& chain, int m) {
  const int n = chain.coordinates, k = m < n ? m : n;
  return 12 * chain.joints + k * (k + 2 * (m + n) + 1) + 6 * m + m * n + 4 * n;
}

// The result of `correct_folds`.
template <class T>
struct Fold {
  T beyond;  // length of the part removed from e; negative if nothing was corrected
  T depth;   // depth of the singularity (`depth_of`), less if self-motion avoids it
  T rate;    // of the command along singular directions, for the damping (`singular_rate`)
};

// Computes the lower triangle of J Jᵀ, or of Jᵀ J if J (m x n) has more rows than columns, in `A`,
// min(m, n)² entries. In the second case zeros of J are skipped: a row of a posture has only one
// nonzero entry.
template <class T>
SUPPLE_FN void smaller_gram(int m, int n, const T* J, T* A) {
  if (m <= n) return gram(m, n, J, A);
  for (int i = 0; i < n * n; ++i) A[i] = T(0);
  for (int r = 0; r < m; ++r) {
    for (int i = 0; i < n; ++i) {
      const T entry = J[r * n + i];
      for (int j = 0; entry != 0 && j <= i; ++j)
        A[i * n + j] = fma(entry, J[r * n + j], A[i * n + j]);
    }
  }
}

// Whether all σ² of J (m x n) are above `least`. `A` has min(m, n)² entries.
template <class T>
SUPPLE_FN bool is_regular(int m, int n, const T* J, T least, T* A) {
  if (m == 6 && n == 7) {
    gram(Fixed<6>{}, Fixed<7>{}, J, A);
    return all_above(Fixed<6>{}, least, A);
  }
  smaller_gram(m, n, J, A);
  return all_above(m < n ? m : n, least, A);
}

// Returns the depth of a singularity, where σ is the smallest singular value of J: from 0 at σ² =
// `least`, where damping begins, to 1 at σ = 0.
template <class T>
SUPPLE_FN T depth_of(T sigma, T least) {
  return max(T(1) - sigma * sigma / least, T(0));
}

// Copies the columns of J (m x n) whose entry of `held` (n) is zero to `to`. Returns their number.
template <class T>
SUPPLE_FN int free_columns(int m, int n, const T* J, const T* held, T* to) {
  int free = 0;
  for (int j = 0; j < n; ++j) free += held[j] == 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      if (held[j] == 0) *to++ = J[i * n + j];
    }
  }
  return free;
}

// Lanes of scratch memory that `free_depth` needs.
SUPPLE_FN constexpr int free_depth_scratch(int m, int n) { return 2 * m * n + m + n; }

// Returns the depth (`depth_of`) of the problem of the free joints alone: of the columns of J (m x
// n) whose entry of active_set (n) is zero. It is zero if no joint is held, or all are.
template <class T>
SUPPLE_FN T free_depth(int m, int n, const T* J, const T* active_set, T least, T* scratch) {
  T *freed = scratch, *work = freed + m * n, *sigma = work + m * n;
  const int free = free_columns(m, n, J, active_set, freed);
  if (free == 0 || free == n || !(least > 0)) return T(0);
  if (is_regular(m, free, freed, least, work)) return T(0);
  singular_values(m, free, freed, sigma, work);
  return depth_of(sigma[(m < free ? m : free) - 1], least);
}

// Whether a joint is at the upper end of its range (`end` = 1), or at the lower end (`end` = -1).
template <class T>
SUPPLE_FN bool is_at_end(const JointLimit<T>& limit, T q, T end) {
  const T tolerance = T(64) * Number<T>::epsilon * max(abs(q), T(1));
  return end > 0 ? q >= limit.upper - tolerance : q <= limit.lower + tolerance;
}

// Returns the speed of a joint with the entry `stopped` (see `ServoState`): zero if it is not
// stopped or at the end of its range, else its speed limit in the direction of `stopped`.
template <class T>
SUPPLE_FN T stopped_speed(const JointLimit<T>& limit, T q, T stopped) {
  return stopped == 0 || is_at_end(limit, q, stopped) ? T(0) : stopped * limit.speed;
}

// Computes `left` (m), the part of e (m) that remains for the joints that are not stopped. If no
// stopped joint moves, it is e.
template <class T>
SUPPLE_FN void left_by_stopped(int m, int n, const T* J, const T* e, const JointLimit<T>* limit,
                               const T* q, const T* stopped, T* left) {
  for (int r = 0; r < m; ++r) left[r] = e[r];
  for (int j = 0; j < n; ++j) {
    const T speed = stopped_speed(limit[j], q[j], stopped[j]);
    for (int r = 0; speed != 0 && r < m; ++r) left[r] = fma(-J[r * n + j], speed, left[r]);
  }
}

// Returns how far the joints can move along sign · v (n) inside their limits.
template <class T>
SUPPLE_FN T room_along(int n, const JointLimit<T>* limit, const T* q, const T* v, T sign) {
  T room = Number<T>::huge;
  for (int j = 0; j < n; ++j) {
    const T part = sign * v[j];
    if (abs(part) < fold_part<T>) continue;
    const T to_end = part > 0 ? limit[j].upper - q[j] : q[j] - limit[j].lower;
    room = min(room, max(to_end, T(0)) / abs(part));
  }
  return room;
}

// Returns the largest speed along v (n) from which all joints can stop within the distance `room`.
template <class T>
SUPPLE_FN T stopping_speed(int n, const JointLimit<T>* limit, const T* v, T room, T dt) {
  T fastest = room / dt;
  for (int j = 0; j < n; ++j) {
    const T part = abs(v[j]);
    if (part < fold_part<T> || !(limit[j].acceleration < Number<T>::huge)) continue;
    T span;
    fastest = min(fastest, braking_speed(room * part, limit[j].acceleration * dt, dt, span) / part);
  }
  return fastest;
}

// Reduces e (m) for targets beyond folds, so that an arm does not swing past the direction of a
// target far out of its reach. Let the target be at the distance b beyond a fold with the direction
// u, and let u', v' and σ be the singular vectors and value of another direction. Per unit of
// motion along v', the gradient of ½‖error‖² changes by σ² - b u·J̇(v')v', not by σ² (for an arm of
// length r that turns about its base, by r² + r b, not r²). The component of e along u' is
// therefore multiplied by the ratio of σ² to that sum, as in Newton's method.
//
// `beyond` (m) is the sum of b u over all folds. `stiffness` (count) is σ² for each direction; for
// a direction whose step is already bounded by its own fold, it is minus the contribution of that
// fold.
template <class T>
SUPPLE_FN void turn_beyond_folds(const StepRows<T>& of, const Pose<T>* joint_poses, int count,
                                 const T* u, const T* v, const T* beyond, const T* stiffness, T* e,
                                 T* bias) {
  const int m = of.count, n = of.chain.coordinates;
  for (int i = 0; i < count; ++i) {
    const T* const ui = u + i * m;
    rows_bias_acceleration(of, joint_poses, v + i * n, bias);
    const T own = abs(stiffness[i]), all = -dot(m, beyond, bias);
    const T more = stiffness[i] < 0 ? all - own : all;
    if (!(more > 0)) continue;
    const T excess = dot(m, ui, e) * more / (own + more);
    for (int r = 0; r < m; ++r) e[r] = fma(-excess, ui[r], e[r]);
  }
}

// Whether self-motion avoids the singularity with the singular vectors u (m) and v (n). Near it,
// the joints can move along v and along a self-motion x without moving the task, to first order. If
// the second-order motion along u, u·J̇q̇ with q̇ in the plane of v and x, can have both signs, the
// singularity is no boundary of the reach: these motions lead to both sides of it. x is the motion
// of one joint, projected onto the null space of J, perpendicular to the rows `all_v` (count, n).
template <class T>
SUPPLE_FN bool is_avoidable(const StepRows<T>& of, const Pose<T>* joint_poses, int count,
                            const T* u, const T* v, const T* all_v, const T* stopped, T* scratch) {
  const int m = of.count, n = of.chain.coordinates;
  T *x = scratch, *q_rate = x + n, *bias = q_rate + n, most(0);
  int freest = 0;
  for (int j = 0; j < n; ++j) {
    T part = stopped[j] == 0 ? T(1) : T(0);
    for (int i = 0; i < count; ++i) part = fma(-all_v[i * n + j], all_v[i * n + j], part);
    if (part > most) freest = j, most = part;
  }
  if (!(most > Number<T>::epsilon)) return false;
  for (int j = 0; j < n; ++j) {
    x[j] = j == freest ? T(1) : T(0);
    for (int i = 0; i < count; ++i) x[j] = fma(-all_v[i * n + freest], all_v[i * n + j], x[j]);
    x[j] /= sqrt(most);
  }
  const auto bent = [&](T along_v, T along_x) {
    for (int j = 0; j < n; ++j) q_rate[j] = fma(along_v, v[j], along_x * x[j]);
    rows_bias_acceleration(of, joint_poses, q_rate, bias);
    return dot(m, u, bias);
  };
  const T vv = bent(1, 0), xx = bent(0, 1), vx = T(0.25) * (bent(1, 1) - bent(1, -1));
  const T mean = T(0.5) * (vv + xx), spread = sqrt(square(T(0.5) * (vv - xx)) + vx * vx);
  const T one = spread + mean, other = spread - mean;  // largest curvatures to the two sides
  return min(one, other) > avoidable_bend<T> * max(one, other);
}

// Returns the largest ratio of a joint's speed to its speed limit if the joints move at c v (n). It
// is huge if a moving joint has no speed limit.
template <class T>
SUPPLE_FN T relative_speed(int n, const JointLimit<T>* limit, T c, const T* v) {
  T most(0);
  for (int j = 0; j < n; ++j) {
    if (!(limit[j].speed < Number<T>::huge) && v[j] != 0) return Number<T>::huge;
    most = max(most, T(abs(c * v[j]) / limit[j].speed));
  }
  return most;
}

// Returns the rate in the damping λ² = DAMPING depth rate², for `count` singular values and vectors
// σ, u and v of J before its correction. Of the directions with σ² < `below`, it is the largest of
// |u·e| and of `crossing_gain` |σ̇|, where σ̇ is due to the motion along all other directions. A
// motion along the end of the reach does not change σ. One that passes a straight wrist does, and
// the damping lets the wrist pass through its singularity instead of turning around it.
template <class T>
SUPPLE_FN T singular_rate(const StepRows<T>& of, const Pose<T>* joint_poses, int count, const T* u,
                          const T* sigma, const T* v, T below, const T* e, T* scratch) {
  const int m = of.count, n = of.chain.coordinates;
  T *x = scratch, *g = x + n, rate(0);
  for (int j = 0; j < n; ++j) x[j] = T(0);
  for (int i = 0; i < count; ++i) {
    if (sigma[i] * sigma[i] < below) continue;
    const T speed = dot(m, u + i * m, e) / sigma[i];
    for (int j = 0; j < n; ++j) x[j] = fma(speed, v[i * n + j], x[j]);
  }
  for (int i = 0; i < count; ++i) {
    if (sigma[i] * sigma[i] >= below) continue;
    singular_gradient(of, joint_poses, u + i * m, v + i * n, g);
    const T crossing = crossing_gain<T> * abs(dot(n, g, x));
    rate = max(rate, max(T(abs(dot(m, u + i * m, e))), crossing));
  }
  return rate;
}

// J (m x n) without the columns whose entry of `stopped` (n) is not zero, by parts (`find_parts`).
// `row` (m) and `column` (n) list the members of one part, `block` (m n) receives its entries.
template <class T>
struct FreeParts {
  int m, n;
  const T *J, *stopped;
  const int *label, *row_label;
  int *row, *column;
  T* block;
};

// Calls visit(rows, columns) for each part, with its entries in `block`, until a call returns
// false. Returns whether none did.
template <class T, class Visit>
SUPPLE_FN bool each_part(const FreeParts<T>& of, Visit&& visit) {
  for (int part = 0; part < of.n; ++part) {
    if (of.label[part] != part) continue;
    const T* const none = nullptr;
    const int rows = members(of.m, of.row_label, part, none, of.row);
    const int columns = members(of.n, of.label, part, of.stopped, of.column);
    T* to = of.block;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) *to++ = of.J[of.row[r] * of.n + of.column[c]];
    }
    if (!visit(rows, columns)) return false;
  }
  return true;
}

// Whether all σ² are above `least`, of which a part with too few rows or columns has some that are
// zero. `free` is the number of columns that are not stopped; `A` has min(m, free)² entries.
template <class T>
SUPPLE_FN bool is_regular(const FreeParts<T>& of, int free, T least, T* A) {
  return each_part(of, [&](int rows, int columns) {
    const int most = of.m <= free ? rows : columns;
    if (most == 0) return true;
    return most <= rows && most <= columns && is_regular(rows, columns, of.block, least, A);
  });
}

// Computes the singular values σ of all parts, in any order, with their vectors u (count, m) and v
// (count, n), whose entries for stopped joints are zero. Returns `count`, the sum of the smaller
// sizes of the parts, which is at most min(m, n) = k. `some_u` (k m) and `some_v` (k n) are scratch
// memory.
template <class T>
SUPPLE_FN int svd_by_parts(const FreeParts<T>& of, T* u, T* sigma, T* v, T* some_u, T* some_v) {
  const int m = of.m, n = of.n;
  int count = 0;
  each_part(of, [&](int rows, int columns) {
    const int some = rows < columns ? rows : columns;
    if (some > 0) thin_svd(rows, columns, of.block, some_u, sigma + count, some_v);
    for (int i = 0; i < some; ++i, ++count) {
      T *const ui = u + count * m, *const vi = v + count * n;
      for (int r = 0; r < m; ++r) ui[r] = T(0);
      for (int j = 0; j < n; ++j) vi[j] = T(0);
      for (int r = 0; r < rows; ++r) ui[of.row[r]] = some_u[i * rows + r];
      for (int c = 0; c < columns; ++c) vi[of.column[c]] = some_v[i * columns + c];
    }
    return true;
  });
  return count;
}

// Corrects J (m x n) and e (m) for nearby folds: along directions with a small singular value, J
// gets the slope of the secant, and e loses the part for which the joints would be too fast to stop
// at the fold. Joints whose entry of `stopped` (n) is not zero have a known speed: e loses their
// motion, the folds are those of the other joints, and the columns of the stopped joints become
// zero. `curvature` is κ dt; `offset` (m) is the offset from the targets, of which e contains
// `gain` times as much.
template <class T>
SUPPLE_NOINLINE_DEVICE Fold<T> correct_folds(const StepRows<T>& of, const JointLimit<T>* limit,
                                             T dt, T gain, T curvature, const T* q, const T* offset,
                                             const T* stopped, T* J, T* e, T* scratch) {
  const int m = of.count, n = of.chain.coordinates, k = m < n ? m : n;
  Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T *block = scratch + 12 * of.chain.joints, *A = block + m * n, *u = A + k * k, *v = u + k * m,
    *sigma = v + k * n, *beyond = sigma + k, *left = beyond, *some_u = beyond + m,
    *some_v = some_u + k * m, *bias = some_u, *stiffness = A;
  int *label = reinterpret_cast<int*>(some_v + k * n), *column = label + n, *row_label = column + n,
      *row = row_label + m;
  left_by_stopped(m, n, J, e, limit, q, stopped, left);
  const T size = length(m, left), least = fold_range<T> * curvature * size;
  if (!(least > 0)) return {T(-1), T(0), T(0)};
  const int free = free_columns(m, n, J, stopped, block);
  if (of.tasks == 1 && is_regular(m, free, block, least, A)) return {T(-1), T(0), T(0)};
  find_parts(of, label, row_label, row);
  const FreeParts<T> parts{m, n, J, stopped, label, row_label, row, column, block};
  if (of.tasks > 1 && is_regular(parts, free, least, A)) return {T(-1), T(0), T(0)};
  for (int r = 0; r < m; ++r) e[r] = left[r];
  const int count = svd_by_parts(parts, u, sigma, v, some_u, some_v);
  forward(of.chain, q, joint_poses);
  for (int r = 0; r < m; ++r) beyond[r] = T(0);
  T lost(0), damped(1);
  bool any_beyond = free < m;
  if (any_beyond) {  // to first order, the free joints cannot reduce this part of the offset
    for (int r = 0; r < m; ++r) beyond[r] = offset[r];
    for (int i = 0; i < count; ++i) {
      const T part = dot(m, u + i * m, beyond);
      for (int r = 0; r < m; ++r) beyond[r] = fma(-part, u[i * m + r], beyond[r]);
    }
  }
  // A part with too few free joints, or too few rows, has σ = 0 as well.
  T smallest = count < (m < free ? m : free) ? T(0) : Number<T>::huge;
  int small = 0;
  for (int i = 0; i < count; ++i) {
    stiffness[i] = sigma[i] * sigma[i];
    small += stiffness[i] < least;
    smallest = min(smallest, sigma[i]);
  }
  // Whether only one singular value is small, as `is_avoidable` assumes.
  const bool alone = count == m && free > m && small == 1;
  for (int i = count - 1; i >= 0; --i) {
    if (!(sigma[i] * sigma[i] < least)) continue;
    const T *ui = u + i * m, *vi = v + i * n, s = sigma[i];
    rows_bias_acceleration(of, joint_poses, vi, bias);
    const T h = dt * dot(m, ui, bias);
    const T outward = h > 0 ? T(-1) : T(1), off = outward * dot(m, ui, offset);
    const T fold = T(0.5) * s * s / max(abs(h), T(Number<T>::tiny)) * dt;
    const T returns = max(gain * off - outward * dot(m, ui, e), T(0));
    const T less =
        (1 - unreached_gain<T>)*min(gain * max(off - fold, T(0)), T(returns / unreached_gain<T>));
    for (int r = 0; less > 0 && r < m; ++r) e[r] = fma(-outward * less, ui[r], e[r]);
    const T E = dot(m, ui, e), side = copysign(T(1), E);
    const T bend = copysign(max(abs(h * E) - fold_least<T> * s * s, T(0)), h * E);
    T g = T(0.5) * (s + sqrt(max(s * s + 2 * bend, T(0))));
    stiffness[i] = g * s;
    const T speed = alone && s > 0 ? relative_speed(n, limit, T(E / s), vi) : Number<T>::huge;
    const T above = speed - undamped_speed<T>;
    if (above < 1 && is_avoidable(of, joint_poses, count, ui, vi, v, stopped, bias + of.all)) {
      g = s;
      stiffness[i] = s * s;
      damped = max(above, T(0));
    } else if (h * E < 0) {
      const T past = side * dot(m, ui, offset) - T(0.5) * s * s / abs(h) * dt;
      // As σ tends to zero, v becomes a self-motion of the redundant joints, whose h is different.
      // The step is then bounded by the largest curvature of the robot, so that it does not pass
      // the fold in another direction than v either.
      T bent = abs(h);
      if (past > 0 && n > m) bent = max(bent, T(curvature * size / abs(E)));
      const T fastest = stopping_speed(n, limit, vi, s / bent * dt, dt);
      const T most = fastest * (s - T(0.5) * abs(h) * fastest), excess = abs(E) - most;
      if (excess > 0) {
        g = s - T(0.5) * abs(h) * fastest;
        stiffness[i] = past > 0 ? -abs(h) / dt * past : -Number<T>::huge;
        lost += excess * excess;
        for (int round = 0; round < 2; ++round) {  // the first round leaves rounding errors of E
          const T more = dot(m, ui, e) - side * most;
          for (int r = 0; r < m; ++r) e[r] = fma(-more, ui[r], e[r]);
        }
        any_beyond = any_beyond || past > 0;
        for (int r = 0; past > 0 && r < m; ++r) beyond[r] = fma(side * past, ui[r], beyond[r]);
      }
    } else if (g > 2 * s) {
      const T here = room_along(n, limit, q, vi, side), there = room_along(n, limit, q, vi, -side);
      // Distance along v to the configuration with the same reach on the other side of the fold.
      const T across = 2 * s / abs(h) * dt;
      if (there > fold_room<T> * max(here, across)) g = -abs(h * E) / (2 * g);
    }
    for (int r = 0; r < m; ++r) {
      if (ui[r] == 0) continue;  // a row of another part
      for (int j = 0; j < n; ++j) J[r * n + j] = fma((g - s) * ui[r], vi[j], J[r * n + j]);
    }
  }
  if (any_beyond) {
    turn_beyond_folds(of, joint_poses, count, u, v, beyond, stiffness, e, bias);
  }
  for (int j = 0; j < n; ++j) {
    for (int r = 0; stopped[j] != 0 && r < m; ++r) J[r * n + j] = T(0);
  }
  const T damped_below = damped_range<T> * curvature * size;
  const T depth = damped * depth_of(count > 0 ? smallest : T(0), damped_below);
  T rate(0);
  if (depth > 0) {
    rate = singular_rate(of, joint_poses, count, u, sigma, v, damped_below, e, bias);
  }
  return {sqrt(lost), depth, rate};
}

}  // namespace supple::inline SUPPLE_ISA
