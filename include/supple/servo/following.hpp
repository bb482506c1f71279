// A step of a robot with a floating base that follows the poses of many frames at once, as
// retargeting does.
//
// With displacements y of the coordinates in one step, the step minimizes
//
//   Σ w² ‖J y - e‖²  +  p² ‖y - p₀‖²  +  c² ‖y - y₀‖²  +  Σ k² max(0, b - a·y)²
//
// inside the box of the limits on position, speed, acceleration and jerk. The first sum has the
// frames that follow, with very large weights for feet that stand; p₀ leads to the neutral posture;
// y₀ is the displacement of the last step, and its term lets joints pass singularities without
// turning back. The last sum has the pairs of shapes that would come too close (contact_rows.hpp).
// Weights instead of priorities keep the step continuous where demands conflict.
//
// The normal equations are factored on packs. Joints at the box, and rows of pairs that are active,
// are found by block pivoting from those of the last step. Constants are explained in
// docs/constants.md.
#pragma once

#include "supple/limits/equations.hpp"
#include "supple/limits/limits.hpp"
#include "supple/math/arena.hpp"
#include "supple/math/linalg/padded.hpp"
#include "supple/robot/rows.hpp"
#include "supple/servo/contact_rows.hpp"

namespace supple {

// A frame that follows a pose.
template <class T>
struct Followed {
  int frame;             // index of the frame in the chain
  T position, rotation;  // weights; 0 to ignore
  T gain;                // share of an error that one step removes
  int foot;              // index of the foot, or -1
};

// The balls of a foot that can be its lowest ones; corners have no radius.
template <class T>
struct Sole {
  int count;
  const T* ball;  // (count, 4): centers, in the frame of the foot, and radii [m]
  const T* up;    // (3,): normal of the surface on which it stands, in the frame of the foot
};

// Everything that is constant in a motion.
template <class T>
struct Following {
  Chain<T> chain;
  Chain<T> legs;  // the chain of the feet alone
  int follows, rows, feet;
  bool shares;  // whether the chain has the same joints, in order, as that of the contacts
  const Followed<T>* follow;
  const Sole<T>* sole;         // (feet,)
  const JointLimit<T>* limit;  // (nv,)
  const T* rest;               // (nv,): neutral configuration
  const T* posture;            // (nv,): weights of the posture
  T dt, gain;                  // [s], share of an error of the posture that one step removes
  T smooth;                    // weight of the change of the displacement
  T hold;                      // factor of the weights of a foot that stands
  T touch;  // error above which a foot that begins to stand stays where it is [m or rad]
  ContactDemand<T> contacts;
};

// The state between steps.
template <class T>
struct FollowState {
  T *q, *qd, *change;  // (nv,) each
  T* active;           // (nv,): -1, 0 or 1 for joints at a limit in the last step
  T* anchor;           // (feet, 12): where feet stand
  T* stands;           // (feet,): 1 for a foot that stood in the last step, else 0
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

inline constexpr int pivot_rounds = 6;          // most rounds of block pivoting
inline constexpr int descent_rounds = 60;       // most rounds of the method that takes over
inline constexpr int feet_rounds = 8;           // most corrections of standing feet
inline constexpr double feet_tolerance = 1e-7;  // bound on the weighted errors of standing feet
inline constexpr int longest_share =
    8;  // largest share in `best_share`; 1 is best if no row changes

// Memory of a step.
template <class T>
struct FollowMemory {
  Pose<T>*joint, *leg;  // poses of the joints of `chain` and `legs`
  T *J, *e, *G, *A, *lower, *d, *pull, *sum, *inverse, *goal, *low, *high, *y, *start, *fixed;
  T *row, *row_b, *row_w, *row_on, *short_by, *along;
  T* on;      // active rows, times their weights
  T* solved;  // (1,): whether the factors are those of the solution
};

template <class T>
SUPPLE_FN FollowMemory<T> follow_in(const Following<T>& of, T* memory, int& size) {
  const int n = of.chain.nv, s = padded<T>(n), W = pack_width<T>;
  Arena<T> arena(memory);
  FollowMemory<T> m;
  m.J = arena.take(padded<T>(of.rows) * s);
  m.G = arena.take((n + W) * s), m.A = arena.take((n + W) * s), m.lower = arena.take((n + W) * s);
  T** const each[] = {&m.d,   &m.pull, &m.sum, &m.inverse, &m.goal,
                      &m.low, &m.high, &m.y,   &m.start,   &m.fixed};
  for (T** one : each) *one = arena.take(s + W);
  m.row = arena.take(most_contact_rows * s), m.on = arena.take(most_contact_rows * s);
  m.e = arena.take(padded<T>(of.rows));
  m.row_b = arena.take(most_contact_rows), m.row_w = arena.take(most_contact_rows);
  m.row_on = arena.take(most_contact_rows);
  m.short_by = arena.take(most_contact_rows), m.along = arena.take(most_contact_rows);
  m.solved = arena.take(1);
  m.joint = arena.template take_as<Pose<T>>(of.chain.joints);
  m.leg = arena.template take_as<Pose<T>>(of.legs.joints);
  size = arena.size();
  return m;
}

template <class T>
SUPPLE_INLINE Pose<T> pose_at(const T* from) {
  return {{{from[0], from[3], from[6]}, {from[1], from[4], from[7]}, {from[2], from[5], from[8]}},
          {from[9], from[10], from[11]}};
}
template <class T>
SUPPLE_INLINE void put_pose(const Pose<T>& at, T* to) {
  put(to, 3, at.R.x), put(to + 1, 3, at.R.y), put(to + 2, 3, at.R.z);
  to[9] = at.p.x, to[10] = at.p.y, to[11] = at.p.z;
}

// Returns the rotation vector, in world axes, from a rotation to another one.
template <class T>
SUPPLE_INLINE Vec3<T> turn_to(const Rotation<T>& from, const Rotation<T>& to) {
  return from * log(Rotation<T>{into(from, to.x), into(from, to.y), into(from, to.z)});
}

// Returns by how much the lowest point of a foot comes closer to its surface because the rotation
// of the foot differs from the one that it should have.
template <class T>
SUPPLE_FN T hangs_lower(const Sole<T>& sole, const Rotation<T>& is, const Rotation<T>& should) {
  const Vec3<T> up{sole.up[0], sole.up[1], sole.up[2]}, now = into(is, should * up);
  T low = Number<T>::huge, meant = low;
  for (int i = 0; i < sole.count; ++i) {
    const T* const ball = sole.ball + 4 * i;
    const Vec3<T> p{ball[0], ball[1], ball[2]};
    low = min(low, dot(now, p) - ball[3]), meant = min(meant, dot(up, p) - ball[3]);
  }
  return meant - low;
}

// Adds the weighted rows of one frame, for a displacement v and a rotation w from its current pose.
template <class T>
SUPPLE_FN int add_frame_rows(const Following<T>& of, const Followed<T>& follow, T factor,
                             const Pose<T>& at, const Vec3<T>& v, const Vec3<T>& w,
                             const FollowMemory<T>& m, int row, RowRun& run) {
  const int s = padded<T>(of.chain.nv);
  const T by = follow.position * factor, turn = follow.rotation * factor;
  T* const first = m.J + row * s;
  const int moves = by > 0 ? 3 : 0, rows = moves + (turn > 0 ? 3 : 0);
  for (int i = 0; i < rows * s; ++i) first[i] = T(0);
  run.packs = 0;
  jacobian(of.chain, of.chain.frame[follow.frame], m.joint, at.p,
           [&](int j, const Twist<T>& twist, bool) {
             run.packs |= pack_bit(j / pack_width<T>);
             T* const column = first + j;
             const Vec3<T> a = twist.v * by, b = twist.w * turn;
             if (moves) column[0] += a.x, column[s] += a.y, column[2 * s] += a.z;
             if (rows == moves) return;
             T* const angular = column + moves * s;
             angular[0] += b.x, angular[s] += b.y, angular[2 * s] += b.z;
           });
  T* const e = m.e + row;
  if (moves) e[0] = by * v.x, e[1] = by * v.y, e[2] = by * v.z;
  if (rows > moves) e[moves] = turn * w.x, e[moves + 1] = turn * w.y, e[moves + 2] = turn * w.z;
  run.end = row + rows;
  return run.end;
}

// Assembles G y = goal of all frames and the posture. `target` and `next` (follows, 12) are the
// poses at the beginning and the end of the step; hold (feet,) are the factors of the weights of
// the feet, 1 for a free one.
template <class T>
SUPPLE_FN void assemble(const Following<T>& of, FollowState<T>& state, const T* target,
                        const T* next, const T* hold, const FollowMemory<T>& m) {
  const int n = of.chain.nv, s = padded<T>(n);
  forward(of.chain, state.q, m.joint);
  RowRun run[most_followed];
  int row = 0;
  for (int k = 0; k < of.follows; ++k) {
    const Followed<T>& follow = of.follow[k];
    const Pose<T> at = frame_pose(of.chain.frame[follow.frame], m.joint);
    Pose<T> now = pose_at(target + 12 * k), then = pose_at(next + 12 * k);
    T factor(1);
    if (follow.foot >= 0) {
      const int f = follow.foot;
      T* const anchor = state.anchor + 12 * f;
      const bool stands = hold[f] >= of.hold;
      if (!stands || state.stands[f] == 0) {
        // A foot that does not have the rotation that it should have must not sink into its
        // surface: its lowest point gets the height that it would have with that rotation.
        const Vec3<T> up = then.R * Vec3<T>{of.sole[f].up[0], of.sole[f].up[1], of.sole[f].up[2]};
        const Vec3<T> lift = up * hangs_lower(of.sole[f], at.R, then.R);
        now.p = now.p + lift, then.p = then.p + lift;
        // A foot that limits kept far from its place stands where it is, instead of sliding there.
        const Vec3<T> off = then.p - at.p, turn = turn_to(at.R, then.R);
        const bool far = max(dot(off, off), dot(turn, turn)) > of.touch * of.touch;
        const T raise = max(dot(up, off), T(0));
        if (stands) put_pose(far ? Pose<T>{at.R, at.p + up * raise} : then, anchor);
      }
      if (stands) now = then = pose_at(static_cast<const T*>(anchor));
      state.stands[f] = T(stands);
      factor = hold[f];
    }
    const T gain = min(follow.gain * factor, T(1));
    const Vec3<T> v = (then.p - now.p) + (now.p - at.p) * gain;
    Vec3<T> w{T(0), T(0), T(0)};
    if (follow.rotation > 0) {
      w = gain < 1 ? turn_to(at.R, now.R) * gain + turn_to(now.R, then.R) : turn_to(at.R, then.R);
    }
    row = add_frame_rows(of, follow, factor, at, v, w, m, row, run[k]);
  }
  upper_gram(of.follows, run, n, m.J, m.G);
  rows_times(row, n, m.J, m.e, m.goal);
  const T smooth = of.smooth * of.smooth;
  const auto add = [&](int j, T to) {
    const T weight = of.posture[j] * of.posture[j];
    m.G[j * (s + 1)] += weight + smooth;
    m.goal[j] += weight * to + smooth * (state.qd[j] * of.dt);
  };
  visit_joints(
      of.chain, [&](int j) { add(j, of.gain * coordinate_difference(of.rest[j], state.q[j])); },
      [&](int j) {
        for (int i = j; i < j + 3; ++i) add(i, T(0));
      });
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) m.G[i * s + j] = m.G[j * s + i];
  }
}

// Collects the active rows k a in m.on, and writes the goal plus their contributions to m.sum.
// Returns their number.
template <class T>
SUPPLE_FN int add_rows(const Following<T>& of, int rows, const FollowMemory<T>& m) {
  const int n = of.chain.nv, s = padded<T>(n), W = pack_width<T>;
  int count = 0;
  for (int j = 0; j < s; ++j) m.sum[j] = m.goal[j];
  for (int r = 0; r < rows; ++r) {
    if (m.row_on[r] == 0) continue;
    T* const a = m.on + count * s;
    const Unrolled<T> weight(m.row_w[r]);
    for (int j = 0; j < s; j += W) store_pack<T>(weight * load_pack(m.row + r * s + j), a + j);
    add_scaled(0, s, T(m.row_w[r] * m.row_b[r]), a, m.sum);
    count += 1;
  }
  return count;
}

// Factors H = G + Σ k² a aᵀ of the free joints, with the first `on` rows k a in m.on, and replaces
// m.sum by the solution for these joints; entries of fixed joints become zero.
template <class T>
SUPPLE_FN bool solve_free(const Following<T>& of, const T* active, int on,
                          const FollowMemory<T>& m) {
  const int n = of.chain.nv, s = padded<T>(n), W = pack_width<T>;
  for (int j = 0; j < s; ++j) m.fixed[j] = j < n ? active[j] : T(0);
  const Unrolled<T> none(T(0));
  for (int i = 0; i < n; ++i) {
    T* const to = m.A + i * s;
    for (int j = i / W * W; j < s; j += W) {
      Unrolled<T> own = active[i] == 0 ? load_pack(m.G + i * s + j) : none;
      if (active[i] == 0) {
        for (int r = 0; r < on; ++r) {
          const T* const a = m.on + r * s;
          own = fma(Unrolled<T>(a[i]), load_pack(a + j), own);
        }
        own = select(load_pack(m.fixed + j) == none, own, none);
      }
      store_pack<T>(own, to + j);
    }
    if (active[i] != 0) to[i] = m.G[i * (s + 1)], m.sum[i] = T(0);
  }
  for (int j = n; j < s; ++j) m.sum[j] = T(0);
  if (!(upper_factor(n, m.A, m.lower, m.inverse) > T(0))) return false;
  factor_solve(n, m.A, m.lower, 1, m.sum);
  return true;
}

// Computes the gradient of the cost at y in `to`; short_by (rows,) receives b - a·y.
template <class T>
SUPPLE_FN void cost_slope(const Following<T>& of, int rows, const FollowMemory<T>& m, const T* y,
                          T* short_by, T* to) {
  const int n = of.chain.nv, s = padded<T>(n);
  rows_times(n, n, m.G, y, to);
  for (int j = 0; j < n; ++j) to[j] -= m.goal[j];
  for (int r = 0; r < rows; ++r) {
    const T* const a = m.row + r * s;
    short_by[r] = m.row_b[r] - padded_dot(0, s, a, y);
    if (short_by[r] > 0) add_scaled(0, s, T(-m.row_w[r] * m.row_w[r] * short_by[r]), a, to);
  }
}

// Returns whether a joint at a limit is pushed away from it by more than rounding.
template <class T>
SUPPLE_INLINE bool leaves(const FollowMemory<T>& m, const T* active, int j, int s, T slope) {
  return m.low[j] < m.high[j] && active[j] * slope > T(1e-11) * m.G[j * (s + 1)];
}

// Finds the minimizer m.y inside the box by block pivoting, which takes few rounds but may cycle.
template <class T>
SUPPLE_FN bool pivot_to_minimum(const Following<T>& of, FollowState<T>& state, int rows,
                                const FollowMemory<T>& m) {
  const int n = of.chain.nv, s = padded<T>(n);
  T *const y = m.y, *const active = state.active;
  for (int round = 0; round < pivot_rounds; ++round) {
    const int on = add_rows(of, rows, m);
    bool fixed = false;
    for (int j = 0; j < s; ++j) m.d[j] = T(0);
    for (int j = 0; j < n; ++j) {
      if (active[j] == 0) continue;
      m.d[j] = active[j] < 0 ? m.low[j] : m.high[j];
      fixed = true;
    }
    if (fixed) {
      rows_times(n, n, m.G, m.d, m.pull);
      for (int r = 0; r < on; ++r) {
        const T* const a = m.on + r * s;
        add_scaled(0, s, padded_dot(0, s, a, m.d), a, m.pull);
      }
      for (int j = 0; j < n; ++j) m.sum[j] -= m.pull[j];
    }
    if (!solve_free(of, active, on, m)) return false;
    for (int j = 0; j < s; ++j) y[j] = m.sum[j] + m.d[j];
    bool wrong = false;
    cost_slope(of, rows, m, static_cast<const T*>(y), m.short_by, m.pull);
    for (int j = 0; j < n; ++j) {
      const T slack = T(1e-12) + T(8) * Number<T>::epsilon * abs(y[j]);
      T now = active[j];
      if (now == 0) {
        now = y[j] < m.low[j] - slack ? T(-1) : y[j] > m.high[j] + slack ? T(1) : T(0);
      } else if (leaves(m, active, j, s, m.pull[j])) {
        now = T(0);
      }
      wrong = wrong || now != active[j];
      active[j] = now;
    }
    for (int r = 0; r < rows; ++r) {
      const T on = T(m.short_by[r] > (m.row_on[r] != 0 ? T(-1e-10) : T(1e-10)));
      wrong = wrong || on != m.row_on[r];
      m.row_on[r] = on;
    }
    if (!wrong) return true;
  }
  return false;
}

// Returns the share of a direction m.d from m.y, up to `most`, at which the cost is smallest. The
// slope of the cost grows with the share. The slope is linear between the shares at which a row
// begins or ceases to fall short, because only rows that fall short count.
template <class T>
SUPPLE_FN T best_share(const Following<T>& of, int rows, const FollowMemory<T>& m, T most) {
  const int n = of.chain.nv, s = padded<T>(n);
  const T* const d = m.d;
  rows_times(n, n, m.G, d, m.sum);
  T at_zero(0), growth(0);
  for (int j = 0; j < n; ++j) growth = fma(d[j], m.sum[j], growth);
  rows_times(n, n, m.G, static_cast<const T*>(m.y), m.sum);
  for (int j = 0; j < n; ++j) at_zero = fma(d[j], m.sum[j] - m.goal[j], at_zero);
  for (int r = 0; r < rows; ++r) m.along[r] = padded_dot(0, s, m.row + r * s, d);
  most = min(most, T(longest_share));
  T low(0), high = most, share = min(T(1), most);
  for (int round = 0; round < 30; ++round) {
    T slope = fma(growth, share, at_zero), rise = growth;
    for (int r = 0; r < rows; ++r) {
      const T left = m.short_by[r] - share * m.along[r], square = m.row_w[r] * m.row_w[r];
      if (!(left > 0)) continue;
      slope -= square * left * m.along[r];
      rise = fma(square * m.along[r], m.along[r], rise);
    }
    (slope > 0 ? high : low) = share;
    if (!(rise > 0)) break;
    T next = share - slope / rise;
    if (slope <= 0 && next >= most) return most;
    if (abs(next - share) <= T(1e-12) * share) break;
    if (!(next > low && next < high)) next = T(0.5) * (low + high);
    share = next;
  }
  return share;
}

// Finds the minimizer m.y inside the box from any point in it, by an active set that fixes and
// frees one joint at a time while the cost falls.
template <class T>
SUPPLE_FN bool descend_to_minimum(const Following<T>& of, FollowState<T>& state, int rows,
                                  const FollowMemory<T>& m) {
  const int n = of.chain.nv, s = padded<T>(n);
  T *const y = m.y, *const active = state.active;
  cost_slope(of, rows, m, static_cast<const T*>(y), m.short_by, m.pull);
  for (int j = 0; j < n; ++j) {
    active[j] = y[j] <= m.low[j] && m.pull[j] > 0    ? T(-1)
                : y[j] >= m.high[j] && m.pull[j] < 0 ? T(1)
                                                     : T(0);
  }
  for (int round = 0; round < descent_rounds; ++round) {
    for (int r = 0; r < rows; ++r) m.row_on[r] = T(m.short_by[r] > 0);
    const int on = add_rows(of, rows, m);
    for (int j = 0; j < s; ++j) m.sum[j] = j < n ? -m.pull[j] : T(0);
    if (!solve_free(of, static_cast<const T*>(active), on, m)) return false;
    T most = Number<T>::huge;
    int hit = -1;
    for (int j = 0; j < s; ++j) m.d[j] = m.sum[j];
    for (int j = 0; j < n; ++j) {
      const T end = m.d[j] < 0 ? m.low[j] : m.high[j];
      if (active[j] != 0 || !(abs(m.d[j]) > T(1e-15)) || !(abs(end) < Number<T>::huge)) continue;
      const T share = max((end - y[j]) / m.d[j], T(0));
      if (share < most) most = share, hit = j;
    }
    const T share = best_share(of, rows, m, most);
    for (int j = 0; j < n; ++j) y[j] = min(max(fma(share, m.d[j], y[j]), m.low[j]), m.high[j]);
    cost_slope(of, rows, m, static_cast<const T*>(y), m.short_by, m.pull);
    if (hit >= 0 && share >= most) {
      active[hit] = m.d[hit] < 0 ? T(-1) : T(1);
      y[hit] = active[hit] < 0 ? m.low[hit] : m.high[hit];
      continue;
    }
    bool same = true;
    for (int r = 0; r < rows; ++r) {
      same =
          same && (m.short_by[r] > (m.row_on[r] != 0 ? T(-1e-10) : T(1e-10))) == (m.row_on[r] != 0);
    }
    if (!same) continue;
    int free = -1;
    T worst(0);
    for (int j = 0; j < n; ++j) {
      if (active[j] == 0 || !leaves(m, static_cast<const T*>(active), j, s, m.pull[j])) continue;
      const T gain = abs(m.pull[j]) / m.G[j * (s + 1)];
      if (gain > worst) worst = gain, free = j;
    }
    if (free < 0) return true;
    active[free] = T(0);
  }
  return false;
}

// Finds the minimizer m.y inside the box, with `rows` rows of pairs. On entry, m.y is the
// displacement of the last step.
template <class T>
SUPPLE_FN void solve_in_box(const Following<T>& of, FollowState<T>& state, int rows,
                            const FollowMemory<T>& m) {
  const int n = of.chain.nv;
  for (int j = 0; j < n; ++j) m.start[j] = min(max(m.y[j], m.low[j]), m.high[j]);
  bool solved = pivot_to_minimum(of, state, rows, m);
  if (!solved) {
    copy_numbers(n, m.start, m.y);
    solved = descend_to_minimum(of, state, rows, m);
  }
  m.solved[0] = T(solved);
  for (int j = 0; j < n; ++j) m.y[j] = min(max(m.y[j], m.low[j]), m.high[j]);
}

// Corrects m.y such that feet that stand are in their places after the step, by Newton's
// method with the factors of the step.
template <class T>
SUPPLE_FN void correct_feet(const Following<T>& of, FollowState<T>& state, const T* hold,
                            int rows_of_pairs, const FollowMemory<T>& m) {
  const int n = of.chain.nv, s = padded<T>(n);
  bool any = false;
  for (int f = 0; f < of.feet; ++f) any = any || hold[f] >= of.hold;
  if (!any) return;
  if (m.solved[0] == 0) {  // the factors may be those of another set of joints at limits
    const int on = add_rows(of, rows_of_pairs, m);
    if (!solve_free(of, static_cast<const T*>(state.active), on, m)) return;
  }
  T before = Number<T>::huge;
  for (int round = 0; round < feet_rounds; ++round) {
    integrate(of.chain, state.q, static_cast<const T*>(m.y), T(1), m.d);
    forward(of.legs, static_cast<const T*>(m.d), m.leg);
    for (int j = 0; j < s; ++j) m.sum[j] = T(0);
    T most(0);
    for (int k = 0, row = 0; k < of.follows; ++k) {
      const Followed<T>& follow = of.follow[k];
      const int moves = follow.position > 0 ? 3 : 0, rows = moves + (follow.rotation > 0 ? 3 : 0);
      if (follow.foot >= 0 && hold[follow.foot] >= of.hold) {
        const Pose<T> at = frame_pose(of.legs.frame[follow.foot], m.leg);
        const Pose<T> then = pose_at(static_cast<const T*>(state.anchor + 12 * follow.foot));
        const T by = follow.position * of.hold, turn = follow.rotation * of.hold;
        const Vec3<T> v = (then.p - at.p) * by, w = turn_to(at.R, then.R) * turn;
        const T left[] = {v.x, v.y, v.z, w.x, w.y, w.z};
        for (int i = 0; i < rows; ++i) {
          const T* const a = m.J + (row + i) * s;
          // Correct only the error due to curvature, not the part that the step leaves
          // intentionally.
          T& meant = m.e[row + i];
          if (round == 0) meant -= padded_dot(0, s, a, static_cast<const T*>(m.y));
          const T off = left[moves ? i : i + 3] - meant;
          most = max(most, abs(off));
          add_scaled(0, s, off, a, m.sum);
        }
      }
      row += rows;
    }
    if (!(most > feet_tolerance * of.hold)) return;
    if (!(most < before)) {  // joints can hardly move the feet: the correction was too long
      const T share(round + 1 < feet_rounds ? 0.5 : 0);
      for (int j = 0; j < n; ++j) m.y[j] = m.start[j] + share * (m.y[j] - m.start[j]);
      continue;
    }
    if (round + 1 == feet_rounds) return;
    before = most;
    copy_numbers(n, m.y, m.start);
    for (int j = 0; j < s; ++j) m.pull[j] = j < n && state.active[j] == 0 ? m.sum[j] : T(0);
    for (int j = 0; j < s; ++j) m.sum[j] = m.pull[j];
    factor_solve(n, m.A, m.lower, 1, m.sum);
    // Joints that would leave the box stop at it, and the others compensate.
    bool more = false;
    for (int j = 0; j < s; ++j) m.d[j] = T(0);
    for (int j = 0; j < n; ++j) {
      const T to = m.y[j] + m.sum[j], slack = T(1e-12);
      if (state.active[j] != 0 || (to >= m.low[j] - slack && to <= m.high[j] + slack)) continue;
      state.active[j] = to < m.low[j] ? T(-1) : T(1);
      const T end = to < m.low[j] ? m.low[j] : m.high[j];
      m.d[j] = end - m.y[j], m.y[j] = end;
      more = true;
    }
    if (more) {
      const int on = add_rows(of, rows_of_pairs, m);
      rows_times(n, n, m.G, m.d, m.sum);
      for (int r = 0; r < on; ++r) {
        const T* const a = m.on + r * s;
        add_scaled(0, s, padded_dot(0, s, a, m.d), a, m.sum);
      }
      for (int j = 0; j < s; ++j) m.sum[j] = m.pull[j] - m.sum[j];
      if (!solve_free(of, static_cast<const T*>(state.active), on, m)) return;
    }
    for (int j = 0; j < n; ++j) m.y[j] = min(max(m.y[j] + m.sum[j], m.low[j]), m.high[j]);
  }
}

// Moves the robot by one step.
template <class L, class T>
SUPPLE_FN void follow_step(const Following<T>& of, FollowState<T>& state, const T* target,
                           const T* next, const T* hold, T* memory, T* contact_memory) {
  const int n = of.chain.nv, s = padded<T>(n);
  int size;
  const FollowMemory<T> m = follow_in(of, memory, size);
  assemble(of, state, target, next, hold, m);
  for (int j = 0; j < n; ++j) {
    joint_box(of.limit[j], state.q[j], state.qd[j], state.change[j], of.dt, m.low[j], m.high[j]);
    m.low[j] *= of.dt, m.high[j] *= of.dt;
    m.y[j] = state.qd[j] * of.dt;
    if (state.active[j] != 0 &&
        abs(state.active[j] < 0 ? m.low[j] : m.high[j]) > Number<T>::huge * T(0.5)) {
      state.active[j] = T(0);
    }
  }
  for (int j = n; j < s; ++j) m.y[j] = T(0);
  int rows = 0;
  if (of.contacts.model) {
    rows = contact_rows<L>(of.contacts, static_cast<const T*>(state.q),
                           of.shares ? m.joint : nullptr, static_cast<const T*>(m.y), hold, s,
                           m.row, m.row_b, m.row_w, contact_memory);
    for (int r = 0; r < rows; ++r) {
      m.row_on[r] = T(padded_dot(0, s, m.row + r * s, static_cast<const T*>(m.y)) < m.row_b[r]);
    }
  }
  solve_in_box(of, state, rows, m);
  correct_feet(of, state, hold, rows, m);
  const T rate = T(1) / of.dt;
  for (int j = 0; j < n; ++j) {
    // The products with dt and 1/dt may exceed a limit by rounding.
    const T low = m.low[j] * rate, high = m.high[j] * rate, x = m.y[j] * rate;
    const T speed = min(max(x, low), high);
    state.change[j] = speed - state.qd[j];
    state.qd[j] = speed;
  }
  const auto clip = [&](int j, const T& from, const T& to) {
    const T lower = of.limit[j].lower, upper = of.limit[j].upper;
    const T below = from <= upper ? min(to, upper) : to;
    return from >= lower ? max(below, lower) : below;
  };
  integrate(of.chain, n, state.q, state.qd, of.dt, state.q, clip);
}

}  // namespace supple::inline SUPPLE_ISA
