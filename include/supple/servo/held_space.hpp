// The held tasks of a step: their rows A and errors e, and the space of the joint speeds that leave
// them in place.
//
// The rows of A are L Q with orthonormal rows Q: J becomes J - (J Qᵀ) Q, the Jacobian of the robot
// whose tasks are held. Every step, and every damping rule, then sees the singularities of that
// robot. The speeds x = Qᵀ L⁻¹ b are those that the held tasks require. Tuned constants are
// explained in docs/constants.md.
#pragma once

#include "supple/limits/equations.hpp"
#include "supple/servo/braking_gain.hpp"
#include "supple/servo/held_rows.hpp"

namespace supple {

// The held tasks of a step.
template <class T>
struct Holding {
  T* target;        // targets of all held tasks
  const T* share;   // (tasks,): 0 for a task that is free, 1 for one that is held
  const T* begins;  // (tasks,): 1 if the present value becomes the target, else 0
  const T* aims;    // (tasks,): 1 if the task has a target while it is switched on
  T* error;         // (tasks,): result, the largest error of each held task after the step
  T *A, *e;         // (rows, n), (rows,): J and error at the start of the step
  T gain;           // gain of the error in this step
  T* memory;        // holding_memory() entries
  // The held tasks with a share of 1: their rows and speeds, A x = b, and the space of A.
  int count, rank;
  T *rows, *b;              // (count, n), (count,)
  T *L, *mirror, *Q, *tau;  // (count, n) and (rank, n), padded; (rank,)
  int* order;               // (count,): the independent rows first
  T *x, *coupling;          // (n,): x of least length; (m, rank): J Qᵀ; both padded
  bool partial;             // whether the space is that of only some joints
  // (n,): whether a joint has a limit on its acceleration and moves held tasks
  bool* moves;
  // Room for the rows of held tasks and constraints together; see `Constraints`.
  T *G, *h, *state, *search;
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// The error [m or rad] at which corrections end.
inline constexpr double held_tolerance_double = 1e-10;
inline constexpr float held_tolerance_float = 1e-5;
template <class T>
inline constexpr T held_tolerance =
    sizeof(T) == 8 ? T(held_tolerance_double) : T(held_tolerance_float);

// Calls visit(task, its index, its first row, its target) for each task that may be held.
template <class T, class Visit>
SUPPLE_INLINE void each_held(const Servo<T>& servo, const Holding<T>& held, Visit&& visit) {
  T* target = held.target;
  for (int k = 0, row = 0; k < servo.held_tasks; ++k) {
    const Task<T>& task = servo.held_task[k];
    visit(task, k, row, target);
    row += task.rows;
    target += target_size(task);
  }
}

// Returns the chain up to the last joint that moves a held task.
template <class T>
SUPPLE_FN Chain<T> chain_of_held(const Servo<T>& servo, const Holding<T>& held) {
  Chain<T> part = servo.chain;
  int joints = 0;
  const auto visit = [&](int frame) {
    if (frame >= 0) joints = max(joints, part.frame[frame].joint + 1);
  };
  each_held(servo, held, [&](const Task<T>& task, int k, int, const T*) {
    if (!(held.share[k] > 0) || traits_of(task).is_linear) return;
    each_frame(task, visit);
    visit(task.axes);
    if (depends_on_all_joints(task)) joints = part.joints;
  });
  while (joints < part.joints && part.joint[joints].motion == Motion::ball_axis) ++joints;
  part.joints = joints;
  return part;
}

// Evaluates A (rows, n) and e (rows), of the tasks with a share above zero, at q (nq) with its
// poses of the joints. `scratch` has 6 n + 6 entries.
template <class T>
SUPPLE_FN void evaluate_held(const Servo<T>& servo, const Holding<T>& held,
                             const Pose<T>* joint_poses, const T* q, T* A, T* e, T* scratch) {
  const int n = servo.chain.nv;
  each_held(servo, held, [&](const Task<T>& task, int k, int row, const T* target) {
    if (!(held.share[k] > 0)) return;
    held_task_rows(servo.chain, task, joint_poses, q, target, A + row * n, e + row, scratch);
  });
}

// Evaluates e (rows) alone at q (nq), and the poses of the joints that move held tasks.
template <class T>
SUPPLE_FN void held_errors(const Servo<T>& servo, const Holding<T>& held, const T* q,
                           Pose<T>* joint_poses, T* e) {
  forward(chain_of_held(servo, held), q, joint_poses);
  each_held(servo, held, [&](const Task<T>& task, int k, int row, const T* target) {
    if (!(held.share[k] > 0)) return;
    held_task_error(servo.chain, task, joint_poses, q, target, e + row);
  });
}

// Copies the rows of A of the tasks for which `takes(index)` is true to to_A, and their entries of
// e to to_e. Returns the number of these rows.
template <class T, class Takes>
SUPPLE_FN int pick_held(const Servo<T>& servo, const Holding<T>& held, const T* A, const T* e,
                        T* to_A, T* to_e, Takes&& takes) {
  const int n = servo.chain.nv;
  int count = 0;
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    for (int i = row; i < row + task.rows && takes(k); ++i, ++count) {
      copy_numbers(n, A + i * n, to_A + count * n);
      to_e[count] = e[i];
    }
  });
  return count;
}

// x·y for rows that are not padded.
template <class T>
SUPPLE_INLINE T sum_of_packs(int n, const T* x, const T* y) {
  const int packs = n / pack_width<T> * pack_width<T>;
  T sum = padded_dot(0, packs, x, y);
  for (int j = packs; j < n; ++j) sum = fma(x[j], y[j], sum);
  return sum;
}

// Returns the largest gain, up to 1/dt, from which the joints can brake if they correct the errors
// e of the rows A (count, n) by the shortest motion d (n).
template <class T>
SUPPLE_FN T held_gain(const Servo<T>& servo, int count, const T* A, const T* e, T* d, T* work) {
  const int n = servo.chain.nv;
  T largest(0);
  for (int i = 0; i < count; ++i) largest = max(largest, abs(e[i]));
  if (largest <= held_tolerance<T>) return T(1) / servo.dt;
  T *low = d + n, *high = low + n, *side = high + n;
  for (int j = 0; j < n; ++j) d[j] = T(0), low[j] = -Number<T>::huge, high[j] = Number<T>::huge;
  const Equations<T> of{0, n, count, A, A, e, T(1), low, high, Number<T>::huge};
  equation_step(of, d, side, work);
  return braking_gain(n, servo.limit, T(1) / servo.dt, servo.dt, d);
}

// Finds the space of the held rows, without the columns of the joints that are `stopped` (n; null
// if none). These joints move at the speeds `speed` (n).
template <class T>
SUPPLE_FN void find_held_space(const Servo<T>& servo, Holding<T>& held, const T* stopped,
                               const T* speed, T* scratch) {
  const int n = servo.chain.nv, s = padded<T>(n), count = held.count;
  T *right = scratch, *z = right + count, *left = z + count, *whole = left + count,
    *rest = aligned_rows(whole + count);
  const auto put_rows = [&](T* rows) {
    pad_rows(count, n, held.rows, rows);
    copy_numbers(count, held.b, right);
    for (int j = 0; stopped && j < n; ++j) {
      for (int i = 0; stopped[j] != 0 && i < count; ++i) {
        T& entry = rows[i * s + j];
        right[i] = fma(-entry, speed[j], right[i]);
        entry = T(0);
      }
    }
  };
  put_rows(held.Q);
  Triangle<T> t{n, count, held.L, held.mirror, held.tau, held.order};
  if (count <= n && make_orthonormal(count, n, held.Q, held.L, rest)) {
    for (int i = 0; i < count; ++i) held.order[i] = i;
  } else {
    put_rows(held.L);
    make_triangle(count, t, left, whole);
    for (int i = 0; i < t.rank * s; ++i) held.Q[i] = T(0);
    for (int k = 0; k < t.rank; ++k) held.Q[k * s + k] = T(1);
    for (int r = t.rank - 1; r >= 0; --r) {  // row k: unit vector k turned by reflections k, ..., 0
      reflect_rows(t.rank - r, r / pack_width<T> * pack_width<T>, s, t.mirror + r * s, t.tau[r],
                   [&](int i) { return held.Q + (r + i) * s; });
    }
  }
  held.rank = t.rank;
  solve_triangle(count, t, right, T(0), z);
  rows_times(t.rank, n, held.Q, z, held.x);
}

// Number of entries of scratch memory that `project_rows` needs.
SUPPLE_FN constexpr int projection_scratch(int n, int held) { return (n + 16) * (held + 16); }

// Projects padded rows of J (m, n) onto the speeds that leave the held tasks in place.
template <class T>
SUPPLE_FN void project_rows(const Servo<T>& servo, const Holding<T>& held, int m, T* J,
                            T* scratch) {
  const int n = servo.chain.nv, width = padded<T>(held.rank);
  padded_transpose(held.rank, n, held.Q, scratch);
  for (int i = 0; i < m * width; ++i) held.coupling[i] = T(0);
  add_product(m, n, held.rank, J, scratch, T(1), held.coupling);
  add_product(m, held.rank, n, held.coupling, held.Q, T(-1), J);
}

// Evaluates the held tasks at the start of a step. Then projects state.J, and subtracts from
// state.e what the speeds of the held tasks perform, unless the step is that of yielding.hpp, which
// does so itself.
template <class T>
SUPPLE_FN void project_held(const Servo<T>& servo, ServoState<T>& state,
                            const Pose<T>* joint_poses = nullptr) {
  Holding<T>& held = *state.holding;
  const int n = servo.chain.nv, m = servo.rows;
  T *e = held.memory, *rest = e + servo.held_rows;
  if (!joint_poses) {
    Pose<T>* const own = reinterpret_cast<Pose<T>*>(rest);
    forward(servo.chain, state.q, own);
    joint_poses = own, rest += 12 * servo.chain.joints;
  }
  each_held(servo, held, [&](const Task<T>& task, int k, int, T* target) {
    if (!(held.share[k] > 0) || held.begins[k] == 0) return;
    reached_target(servo.chain, task, joint_poses, state.q, target);
  });
  evaluate_held(servo, held, joint_poses, state.q, held.A, held.e, rest);
  rest = e + servo.held_rows;
  held.count = pick_held(servo, held, held.A, held.e, held.rows, e,
                         [&](int k) { return held.share[k] == 1; });
  held.gain = held_gain(servo, held.count, held.rows, e, rest, rest + 4 * n);
  for (int i = 0; i < held.count; ++i) held.b[i] = held.gain * e[i];
  for (int j = 0; j < n; ++j) {
    held.moves[j] = false;
    const bool brakes = servo.limit[j].acceleration < Number<T>::huge;
    for (int i = 0; brakes && !held.moves[j] && i < held.count; ++i) {
      held.moves[j] = held.rows[i * n + j] != 0;
    }
  }
  const T* const none = nullptr;
  find_held_space(servo, held, none, none, rest);
  held.partial = false;
  if (servo.curvature > 0) return;
  if (!servo.second_order) {
    for (int i = 0; i < m; ++i) {
      const T along = dot(n, state.J + i * n, held.x);
      state.e[i] -= along;
      state.desired[i] -= along;
    }
  }
  T* const rows = aligned_rows(rest);
  pad_rows(m, n, state.J, rows);
  project_rows(servo, held, m, rows, rows + m * padded<T>(n));
  unpad_rows(m, n, rows, state.J);
}

// Writes the factors w (held rows) of all held rows that belong to the factors u (m) of the rows of
// J. As q changes, u·J v with the projected J changes like u·J v - w·A v with the J and A of the
// tasks.
template <class T>
SUPPLE_FN void held_factors(const Servo<T>& servo, const Holding<T>& held, int m, const T* u,
                            T* w) {
  const int s = padded<T>(servo.chain.nv), rank = held.rank, c = padded<T>(rank);
  T* const of_row = w + servo.held_rows;  // (count,)
  for (int i = 0; i < held.count; ++i) of_row[i] = T(0);
  for (int k = rank - 1; k >= 0; --k) {  // Lᵀ w = Q Jᵀ u
    T sum(0);
    for (int r = 0; r < m; ++r) sum = fma(held.coupling[r * c + k], u[r], sum);
    for (int i = k + 1; i < rank; ++i) {
      sum = fma(-held.L[held.order[i] * s + k], of_row[held.order[i]], sum);
    }
    of_row[held.order[k]] = sum / held.L[held.order[k] * s + k];
  }
  int from = 0;
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    for (int i = row; i < row + task.rows; ++i) {
      w[i] = held.share[k] == 1 ? of_row[from++] : T(0);
    }
  });
}

// Replaces the accelerations Ȧ(v)v of all held rows by their coordinates in the space of A,
// (rank,). `bias` has room for twice as many entries.
template <class T>
SUPPLE_FN void held_bias(const Servo<T>& servo, const Holding<T>& held, T* bias) {
  T* const picked = bias + servo.held_rows;
  int to = 0;
  each_held(servo, held, [&](const Task<T>& task, int k, int row, T*) {
    for (int i = row; i < row + task.rows && held.share[k] == 1; ++i) picked[to++] = bias[i];
  });
  const Triangle<T> t{servo.chain.nv, held.rank, held.L, held.mirror, held.tau, held.order};
  solve_triangle(held.count, t, static_cast<const T*>(picked), T(0), bias);
}

// Returns the rows of the tasks, followed by all held rows.
template <class T>
SUPPLE_FN StepRows<T> rows_with_held(const Servo<T>& servo, const StepRows<T>& rows) {
  const int all = rows.all + servo.held_rows;
  const T* const every = nullptr;
  return {servo.chain, servo.tasks + servo.held_tasks, servo.task, all, all, every};
}

}  // namespace supple::inline SUPPLE_ISA
