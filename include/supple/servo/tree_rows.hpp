// The rows of J of a tree of joints, as linear forms of the twists of its bodies: J itself is not
// computed.
//
// Twists are those of the bodies at the origin of the first joint that turns. Loops over joints are
// unrolled on a GPU, where the robot is known to the compiler.
#pragma once

#include "supple/servo/state.hpp"
#include "supple/task/task.hpp"

namespace supple::inline SUPPLE_ISA {

// Unrolls loops over the joints on a GPU, where the robot is known to the compiler.
#define SUPPLE_TREE SUPPLE_UNROLL

// Largest number of multipliers: one for each row of a center of mass, and one for each joint that
// shares its coordinate with an earlier joint. On a GPU it is the number of multipliers of the
// given robot.
inline constexpr int most_multipliers = SUPPLE_MULTIPLIERS > 0 ? SUPPLE_MULTIPLIERS : 1;

// ---- what is attached to each joint ------------------------------------------------------------

// The frame of a task, or one of the points of a task, that is attached to a joint.
struct Attachment {
  int task, point;  // point is -1 for a frame
};

// The order of the elimination. A joint has a slot if a joint other than the next one is its child:
// the slot collects the sum of what remains after the elimination of its children. Joints that
// share a coordinate are eliminated one by one: each follower has a multiplier for the constraint
// that it moves like its leader.
struct TreePlan {
  int slots;
  const int* slot;         // (joints,): the slot of a joint, or -1
  const int* leader;       // (joints,): the first joint with the same coordinate
  const int* begin;        // (joints + 1,): where the attachments of each joint begin
  const Attachment* item;  // sorted by joint
};

// Whether the rows of a task are linear forms of the twist of one body, sums of such forms, or
// coordinates.
template <class T>
SUPPLE_FN constexpr bool fits_tree(const Task<T>& task) {
  return has_components(task) || traits_of(task).is_linear;
}
// Number of attachments of all tasks.
template <class T>
SUPPLE_FN constexpr int attachments(int tasks, const Task<T>* task) {
  int count = 0;
  for (int k = 0; k < tasks; ++k) {
    const GoalTraits traits = traits_of(task[k]);
    count += traits.is_sum ? task[k].points : traits.is_twist ? 1 : 0;
  }
  return count;
}
// Number of rows of weighted sums of points.
template <class T>
SUPPLE_FN constexpr int multipliers(int tasks, const Task<T>* task) {
  int count = 0;
  for (int k = 0; k < tasks; ++k) count += traits_of(task[k]).is_sum ? task[k].rows : 0;
  return count;
}

// Number of joints before joint j that share their coordinate with an earlier one.
template <class T>
SUPPLE_FN constexpr int followers(const Chain<T>& chain, int j) {
  int count = 0;
  for (int i = 0; chain.mimics && i < j; ++i) {
    bool follows = false;
    for (int k = 0; k < i; ++k) {
      follows = follows || chain.joint[k].v_index == chain.joint[i].v_index;
    }
    count += follows ? 1 : 0;
  }
  return count;
}
// Number of all multipliers.
template <class T>
SUPPLE_FN constexpr int multipliers(const Servo<T>& servo) {
  return multipliers(servo.tasks, servo.task) + followers(servo.chain, servo.chain.joints);
}

// Fills the arrays of a plan.
template <class T>
SUPPLE_FN constexpr TreePlan make_plan(const Chain<T>& chain, int tasks, const Task<T>* task,
                                       int* slot, int* leader, int* begin, Attachment* item) {
  int slots = 0, items = 0;
  for (int j = 0; j < chain.joints; ++j) slot[j] = -1;
  for (int j = 0; j < chain.joints; ++j) {
    const int parent = chain.joint[j].parent;
    if (parent >= 0 && parent != j - 1 && slot[parent] < 0) slot[parent] = slots++;
    leader[j] = 0;
    while (chain.joint[leader[j]].v_index != chain.joint[j].v_index) ++leader[j];
  }
  for (int j = 0; j < chain.joints; ++j) {
    begin[j] = items;
    for (int k = 0; k < tasks; ++k) {
      if (traits_of(task[k]).is_sum) {
        for (int i = 0; i < task[k].points; ++i) {
          if (chain.frame[task[k].point[i]].joint == j) item[items++] = {k, i};
        }
      } else if (traits_of(task[k]).is_twist && chain.frame[task[k].frame].joint == j) {
        item[items++] = {k, -1};
      }
    }
  }
  begin[chain.joints] = items;
  return {slots, slot, leader, begin, item};
}

// Calls constraint(k, sign) for each constraint on joint j: the follower's speed less the leader's
// is zero. `first` is the number of multipliers before those of the followers.
template <class T, class Constraint>
SUPPLE_INLINE void each_constraint(const Chain<T>& chain, const TreePlan& plan, int first, int j,
                                   Constraint&& constraint) {
  if (!chain.mimics) return;
  for (int i = j, k = first + followers(chain, j); i < chain.joints; ++i) {
    const bool follows = plan.leader[i] != i;
    if (follows && i == j) constraint(k, 1);
    if (follows && i != j && plan.leader[i] == j) constraint(k, -1);
    k += follows ? 1 : 0;
  }
}
// Whether joint j moves as an earlier one with the same coordinate.
template <class T>
SUPPLE_INLINE bool is_follower(const Chain<T>& chain, const TreePlan& plan, int j) {
  return chain.mimics && plan.leader[j] != j;
}
// Number of joints that share the coordinate of joint j.
template <class T>
SUPPLE_FN constexpr int sharing(const Chain<T>& chain, int j) {
  int count = 0;
  for (int i = 0; i < chain.joints; ++i) {
    count += chain.joint[i].v_index == chain.joint[j].v_index ? 1 : 0;
  }
  return count;
}

// ---- memory ------------------------------------------------------------------------------------

// A quadratic function of a twist V and the multipliers y:  ½ Vᵀ A V + yᵀ C V.
template <class L>
struct TreeMatrix {
  L A[21];                   // lower triangle
  L C[most_multipliers][6];  // only the rows in use are written
};
// The result of the elimination of a joint:  x = t - inverse (U·V + s·y).
template <class L>
struct JointFactor {
  L U[6], s[most_multipliers], inverse;
};
template <class L>
struct Spatial {
  L v[6];
};

template <class L>
struct TreeWork {
  Pose<L>* pose;           // (joints,)
  JointFactor<L>* factor;  // (joints,)
  TreeMatrix<L>* matrix;   // (slots,)
  Spatial<L>* vector;      // (slots,): wrenches, then twists
  Spatial<L>* wrench;      // (tasks,): Σ r (e - r·V) over the rows r of each frame
  L *e, *stiff, *pull;     // (rows,), (n,) k, (n,) p
  L *x, *change;           // (n,), and (joints,) or (n,) if that is more
  L N[most_multipliers * (most_multipliers + 1) / 2], lost[most_multipliers];
  L left;          // the squared length of the rest of e, without postures
  Vec3<L> origin;  // origin of the twists
};

// Number of lanes of the arrays of a `TreeWork`, without the members of the struct itself.
SUPPLE_FN constexpr int tree_scratch(int joints, int slots, int tasks, int rows, int n) {
  return joints * (12 + 7 + most_multipliers) + slots * (27 + 6 * most_multipliers) + 6 * tasks +
         rows + 3 * n + (joints > n ? joints : n);
}

template <class L>
SUPPLE_FN TreeWork<L> tree_work(int joints, int slots, int tasks, int rows, int n, L* memory) {
  TreeWork<L> work;
  const auto take = [&](int count) {
    L* const array = memory;
    memory += count;
    return array;
  };
  work.pose = reinterpret_cast<Pose<L>*>(take(12 * joints));
  work.factor = reinterpret_cast<JointFactor<L>*>(take((7 + most_multipliers) * joints));
  work.matrix = reinterpret_cast<TreeMatrix<L>*>(take((21 + 6 * most_multipliers) * slots));
  work.vector = reinterpret_cast<Spatial<L>*>(take(6 * slots));
  work.wrench = reinterpret_cast<Spatial<L>*>(take(6 * tasks));
  work.e = take(rows);
  work.stiff = take(n), work.pull = take(n), work.x = take(n),
  work.change = take(joints > n ? joints : n);
  return work;
}

// ---- spatial vectors: [v; w], or a force and its moment ----------------------------------------

#define SUPPLE_EACH(i, count) SUPPLE_UNROLL SUPPLE_UNROLL_HOST for (int i = 0; i < (count); ++i)

template <class L>
SUPPLE_INLINE L dot(const Spatial<L>& a, const Spatial<L>& b) {
  L sum = a.v[0] * b.v[0];
  SUPPLE_EACH(i, 5) sum = fma(a.v[i + 1], b.v[i + 1], sum);
  return sum;
}
template <class L>
SUPPLE_INLINE void add_scaled(const L* a, const L& s, Spatial<L>& to) {
  SUPPLE_EACH(i, 6) to.v[i] = fma(a[i], s, to.v[i]);
}
template <class L>
SUPPLE_INLINE Spatial<L> zero_spatial() {
  return {{L(0), L(0), L(0), L(0), L(0), L(0)}};
}
// The twist of a joint per unit of speed of its coordinate.
template <class L, class T>
SUPPLE_INLINE Spatial<L> joint_screw(const Joint<T>& joint, const Pose<L>& at,
                                     const Vec3<L>& origin) {
  const Vec3<L> z = joint.scale == T(1) ? at.R.z : at.R.z * L(joint.scale);
  if (joint.motion == Motion::prismatic) return {{z.x, z.y, z.z, L(0), L(0), L(0)}};
  const Vec3<L> v = cross(at.p - origin, z);
  return {{v.x, v.y, v.z, z.x, z.y, z.z}};
}
// Returns the form whose product with a twist is the velocity of the point p along an axis a.
template <class L>
SUPPLE_INLINE Spatial<L> along_axis(const Vec3<L>& p, const Vec3<L>& a) {
  const Vec3<L> m = cross(p, a);
  return {{a.x, a.y, a.z, m.x, m.y, m.z}};
}
template <class L>
SUPPLE_INLINE Vec3<L> unit_axis(int c) {
  return {L(c == 0 ? 1 : 0), L(c == 1 ? 1 : 0), L(c == 2 ? 1 : 0)};
}
template <class L>
SUPPLE_INLINE const Vec3<L>& column(const Rotation<L>& R, int c) {
  return c == 0 ? R.x : c == 1 ? R.y : R.z;
}

// Calls row(i, r) with each weighted row of J of the task of a frame, as a form of the twist of its
// body.
template <class L, class T, class Row>
SUPPLE_INLINE void each_form(const Chain<T>& chain, const Task<T>& task, const TreeWork<L>& work,
                             Row&& row) {
  const TaskPoses<L> at = task_poses(chain, task, work.pose);
  const Vec3<L> zero{L(0), L(0), L(0)}, p = (at.spatial ? zero : at.frame.p) - work.origin;
  each_row(task, [&](int i, int c, T weight) {
    const int of = c < 3 ? c : c - 3;
    const Vec3<L> unit = unit_axis<L>(of);
    const Vec3<L> axis = c >= 3 && at.pointed ? column(at.frame.R, of)
                         : at.turned          ? column(at.axes, of)
                                              : unit;
    const Vec3<L> a = axis * L(weight);
    row(i, c < 3 ? along_axis(p, a) : Spatial<L>{{L(0), L(0), L(0), a.x, a.y, a.z}});
  });
}
// Calls row(i, r) with each weighted row of J of one point of a weighted sum, as a form of the
// twist of its body.
template <class L, class T, class Row>
SUPPLE_INLINE void each_point_form(const Chain<T>& chain, const Task<T>& task, int point,
                                   const TreeWork<L>& work, Row&& row) {
  const Vec3<L> p = point_position(chain.frame[task.point[point]], work.pose) - work.origin;
  each_row(task, [&](int i, int c, T weight) {
    row(i, along_axis(p, unit_axis<L>(c) * L(weight * task.share[point])));
  });
}
// Number of rows of weighted sums of points in the tasks before `task`.
template <class T>
SUPPLE_INLINE int multipliers_before(const Servo<T>& servo, int task) {
  return multipliers(task, servo.task);
}

}  // namespace supple::inline SUPPLE_ISA
