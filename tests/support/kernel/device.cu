// Uses every header and every main function of the kernel in device code. tools/check_headers.py
// compiles it with nvcc and with NVRTC; it is never run. NVRTC gets the headers in memory and, for
// #pragma once, distinguishes them only by their names without folders.
#include "supple/math/arena.hpp"
#include "supple/servo/avoidance.hpp"
#include "supple/limits/box.hpp"
#include "supple/servo/braking_gain.hpp"
#include "supple/servo/condition.hpp"
#include "supple/limits/constrained.hpp"
#include "supple/step/damping.hpp"
#include "supple/servo/direction.hpp"
#include "supple/math/elementary.hpp"
#include "supple/step/estimate.hpp"
#include "supple/step/estimated.hpp"
#include "supple/step/fast_step.hpp"
#include "supple/step/filtering.hpp"
#include "supple/servo/halting.hpp"
#include "supple/ik/branch.hpp"
#include "supple/ik/closed_form.hpp"
#include "supple/ik/iterate.hpp"
#include "supple/ik/limbs.hpp"
#include "supple/ik/partial_rows.hpp"
#include "supple/ik/policy.hpp"
#include "supple/ik/postprocess.hpp"
#include "supple/ik/problem.hpp"
#include "supple/ik/reachability.hpp"
#include "supple/ik/restarts.hpp"
#include "supple/ik/target.hpp"
#include "supple/ik/turns.hpp"
#include "supple/ik/verdict.hpp"
#include "supple/robot/kinematics.hpp"
#include "supple/math/lane.hpp"
#include "supple/limits/limits.hpp"
#include "supple/math/linalg.hpp"
#include "supple/math/linalg/cholesky.hpp"
#include "supple/math/linalg/eigenvalues.hpp"
#include "supple/math/linalg/matrix.hpp"
#include "supple/math/linalg/qr.hpp"
#include "supple/math/linalg/svd.hpp"
#include "supple/servo/norm_bound.hpp"
#include "supple/step/optimal.hpp"
#include "supple/servo/parts.hpp"
#include "supple/servo/ranges.hpp"
#include "supple/step/redundancy.hpp"
#include "supple/servo/regular_step.hpp"
#include "supple/robot/chain.hpp"
#include "supple/limits/row_search.hpp"
#include "supple/math/se3.hpp"
#include "supple/servo/servo.hpp"
#include "supple/servo/limits.hpp"
#include "supple/servo/state.hpp"
#include "supple/servo/singular_gradient.hpp"
#include "supple/servo/singular_step.hpp"
#include "supple/servo/singular_rules.hpp"
#include "supple/servo/floating_step.hpp"
#include "supple/servo/row_bends.hpp"
#include "supple/step/step.hpp"
#include "supple/step/methods.hpp"
#include "supple/servo/step_rows.hpp"
#include "supple/step/spec.hpp"
#include "supple/limits/stopping.hpp"
#include "supple/limits/dual_box.hpp"
#include "supple/limits/packed_box.hpp"
#include "supple/math/linalg/padded.hpp"
#include "supple/math/linalg/gram_svd.hpp"
#include "supple/robot/adjoint.hpp"
#include "supple/servo/posture_step.hpp"
#include "supple/servo/tall_step.hpp"
#include "supple/servo/tree_factor.hpp"
#include "supple/servo/tree_inverse.hpp"
#include "supple/servo/tree_rows.hpp"
#include "supple/servo/tree_step.hpp"
#include "supple/step/adjoint.hpp"
#include "supple/ik/gradients.hpp"
#include "supple/ik/solution_rule.hpp"
#include "supple/ik/starts.hpp"
#include "supple/limits/bound_search.hpp"
#include "supple/limits/equations.hpp"
#include "supple/limits/row_factor.hpp"
#include "supple/math/linalg/row_products.hpp"
#include "supple/robot/rows.hpp"
#include "supple/servo/closing.hpp"
#include "supple/servo/contact_rows.hpp"
#include "supple/servo/following.hpp"
#include "supple/servo/fitting.hpp"
#include "supple/servo/held_rows.hpp"
#include "supple/servo/held_space.hpp"
#include "supple/servo/held_step.hpp"
#include "supple/servo/held_stop.hpp"
#include "supple/servo/holding.hpp"
#include "supple/task/task.hpp"
#include "supple/task/axes.hpp"
#include "supple/task/spec.hpp"
#include "supple/servo/velocity.hpp"
#include "supple/servo/yielding.hpp"
#include "supple/collision/certificate.hpp"
#include "supple/collision/curve.hpp"
#include "supple/collision/distance.hpp"
#include "supple/collision/gjk.hpp"
#include "supple/collision/model.hpp"
#include "supple/collision/penetration.hpp"
#include "supple/collision/placed.hpp"
#include "supple/collision/point.hpp"
#include "supple/collision/segment.hpp"
#include "supple/collision/shared.hpp"
#include "supple/collision/shape.hpp"
#include "supple/collision/simplex.hpp"
#include "supple/robot/configuration.hpp"
#include "supple/servo/guard.hpp"
#include "supple/servo/stop_motion.hpp"
#include "supple/task/points.hpp"

namespace supple {

constexpr int rows = 6, columns = 7;

// Computes the position, parts of the Jacobian (6, n) and the rates of one frame in each thread.
template <class T>
__global__ void kinematics(Chain<T> chain, const T* q, const T* qd, T* pose, T* J,
                           T* bias_acceleration) {
  Pose<T> joint_poses[columns];
  const int n = chain.nv, i = blockIdx.x * blockDim.x + threadIdx.x;
  forward(chain, q + i * n, joint_poses);
  const Frame<T>& frame = chain.frame[0];
  const Pose<T> at = frame_pose(frame, joint_poses);
  pose[3 * i] = at.p.x;
  pose[3 * i + 1] = at.p.y;
  pose[3 * i + 2] = at.p.z;
  jacobian(chain, frame, joint_poses, at.p, [&](int column, const Twist<T>& twist, bool first) {
    T* const to = J + 6 * n * i + column;
    to[0] = (first ? T(0) : to[0]) + twist.v.x;
    to[n] = (first ? T(0) : to[n]) + twist.v.y;
    to[5 * n] = (first ? T(0) : to[5 * n]) + into(at.R, twist.w).z;
  });
  const Rates<T> rate = rates(chain, frame, joint_poses, at.p, qd + i * n);
  bias_acceleration[2 * i] = dot(rate.a, rate.v);
  bias_acceleration[2 * i + 1] = dot(rate.b, rate.w);
}

// Computes A = U diag(sigma) V^T, and the singular values alone, with sizes that are known at
// compile time and at run time.
template <class T>
__global__ void spectrum(int m, int n, const T* a, T* u, T* sigma, T* v, T* alone) {
  T work[rows * columns], copy[rows * columns];
  for (int i = 0; i < m * n; ++i) copy[i] = a[i];
  if (m == rows) {
    svd(Fixed<rows>{}, Fixed<columns>{}, a, u, sigma, v, work);
  } else {
    svd(m, n, a, u, sigma, v, work);
  }
  singular_values(m, n, copy, alone, work);
}

// Computes the least-squares solution of A x = b by QR and by the normal equations.
template <class T>
__global__ void least_squares(const T* a, const T* b, T* x, T* y, bool* full) {
  T factor[columns * rows], tau[rows], right[columns], normal[rows * rows];
  for (int i = 0; i < columns * rows; ++i) factor[i] = a[i];
  for (int i = 0; i < columns; ++i) right[i] = b[i];
  for (int i = 0; i < rows; ++i) {
    y[i] = T(0);
    for (int k = 0; k < columns; ++k) y[i] = fma(a[k * rows + i], b[k], y[i]);
    for (int j = 0; j < rows; ++j) {
      normal[i * rows + j] = T(0);
      for (int k = 0; k < columns; ++k) {
        normal[i * rows + j] = fma(a[k * rows + i], a[k * rows + j], normal[i * rows + j]);
      }
    }
  }
  qr(columns, rows, factor, tau);
  full[0] = qr_solve(columns, rows, factor, tau, right);
  qr_times(columns, rows, factor, tau, right);
  for (int i = 0; i < columns; ++i) x[i] = right[i];
  full[1] = cholesky(Fixed<rows>{}, normal);
  cholesky_solve(Fixed<rows>{}, normal, y);
}

// Takes any step with any damping rule, chosen at run time.
template <class T>
__global__ void one_step(Step<T> how, const T* J, const T* e, T* dq, T* lambda2) {
  T scratch[4 * (rows + columns) * (rows + columns) + rows + columns];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  lambda2[i] = step(how, rows, columns, J + rows * columns * i, e + rows * i, T(-1), T(0),
                    dq + columns * i, scratch);
}

// Takes a step inside the box of joint limits, by exact minimization and by scaling.
template <class T>
__global__ void inside(JointLimit<T> limit, const T* J, const T* q, T* dq, T* active_set,
                       T* lambda2) {
  T scratch[4 * (rows + columns) * (rows + columns)], low[columns], high[columns];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < columns; ++j) {
    joint_box(limit, q[j], dq[j], T(0), T(0.01), low[j], high[j]);
  }
  lambda2[i] = limited_step(rows, columns, J, lambda2[i], low, high, T(1), dq, active_set, scratch);
  scale_into_box(columns, low, high, T(1), dq, active_set);
  T state[rows], memory[constraint_scratch(rows, columns, rows)];
  const Constraints<T> constraints{rows, J, q, state, memory};
  lambda2[i] =
      constrained_step(rows, columns, J, lambda2[i], low, high, T(1), constraints, dq, active_set);
}

// Computes J, e, J̇q̇ and the rows of a commanded velocity of any task.
template <class T>
__global__ void one_task(Chain<T> chain, Task<T> task, const T* q, const T* target, T* J, T* rows) {
  Pose<T> joint_poses[columns];
  forward(chain, q, joint_poses);
  task_jacobian(chain, task, joint_poses, J);
  task_error(chain, task, joint_poses, q, target, rows);
  task_bias_acceleration(chain, task, joint_poses, q, rows + task.rows);
  task_command(chain, task, joint_poses, target, rows + 2 * task.rows);
  task_reached(chain, task, joint_poses, J + task.rows * chain.nv);
  task_from_base(chain, task, joint_poses, q, rows);
  const Vec3<T> turn = log(exp(Vec3<T>{q[0], q[1], q[2]}));
  rows[3 * task.rows] = dot(turn, turn);
}

// Takes a step with a criterion, and a step for two tasks with priorities. (Sizes are known only at
// run time, which compiles faster than unrolled code.)
template <class T>
__global__ void redundant(Redundancy<T> how, int m, int n, const int* split, const T* J, const T* e,
                          const T* v, T* dq) {
  T scratch[8 * (rows + columns + 8) * (rows + columns)];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const Step<T> both[2] = {how.step, how.step};
  redundant_step(how, m, n, J + m * n * i, e + m * i, v + n * i, T(-1), T(0), dq + 2 * n * i,
                 scratch);
  priority_step(both, 2, split, n, J + m * n * i, e + m * i, T(-1), T(0), dq + 2 * n * i + n,
                scratch);
}

// Takes a filtered and an estimated step in each thread; the kept directions start as the exact
// singular directions.
template <class T>
__global__ void one_filtered_step(Filter<T> how, Step<T> damped, const T* J, const T* e, T* u,
                                  T* sigma, T* dq) {
  T scratch[4 * (rows + columns) * (rows + columns)], near[rows];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const T* const own = J + rows * columns * i;
  T *const weak = u + 2 * max_directions * rows * i, *const ends = weak + max_directions * rows;
  T *const least = sigma + 2 * i, *const speeds = dq + 2 * columns * i;
  Estimate<T> filtered, estimated;
  if (least[0] < T(0)) {
    singular_directions(rows, columns, own, how.directions, weak, least[0], scratch);
    extreme_directions(rows, columns, own, ends, least[1], estimated.largest, scratch);
  }
  for (int k = 0; k < rows; ++k) near[k] = e[rows * i + k];
  const int effector[rows] = {};
  clamp_error(rows, effector, T(1), near, scratch);
  filtered_step(how, rows, columns, own, near, weak, least[0], filtered, speeds, scratch);
  estimated_step(damped, rows, columns, own, near, ends, least[1], estimated, speeds + columns,
                 scratch);
}

// Takes a step by the rules of servo/yielding.hpp, and a step that keeps its direction.
template <class T>
__global__ void yields(Servo<T> servo, ServoState<T> state, const T* J, T* q, T* e, T* speed,
                       T* change, T* work) {
  const Pose<T>* joint_poses = reinterpret_cast<Pose<T>*>(work);
  const StepProblem<T> of{
      servo,    state,         joint_poses, J,          state.offset, q,     e,       q,
      speed,    state.stopped, servo.limit, e,          false,        false, nullptr, nullptr,
      state.dq, state.J,       state.e,     state.lost, work};
  update_slope(servo, state, state.rate);
  if (!find_curved_rows(servo, state, e) || !take_steps_of_parts(of, work)) {
    take_problem_step(rows, columns, of, work);
  }
  work[0] = end_speed(servo, state, 0, T(1));
  const StepRows<T> taking_part = rows_of(servo, state);
  const Stopper<T> stopper{taking_part, servo.limit, T(0.01), Number<T>::huge};
  work[1] = stops_along(stopper, e, q, speed, change, work) ? T(1) : T(0);
  bool halts = false;
  work[2] = stoppable_factor(stopper, e, T(1), speed, J, J, q, speed, halts, work);
  if (halts) work[2] = condition_at(taking_part, q, work);
}

// Iterates from one start toward a target, and to the closest pose. (Sizes are known only at run
// time, as above. Nothing in servo/servo.hpp and servo/velocity.hpp is instantiated, because that
// takes minutes, but all functions that these two headers call are. Both headers compile in seconds
// for one robot: tests/gpu/test_gpu_compile.py.)
template <class T>
__global__ void one_start(IkProblem<T> ik, T* q, T* target, T* J, T* e, T* work, T* errors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = ik.chain.nv;
  IterateState<T> at{q + n * i, target, T(0), T(0), T(0), J, e, work, J + 6 * n, T(-1)};
  Minimization<T> minimum = start_minimization(ik, at, work + iterate_scratch(ik));
  evaluate(ik, at);
  float before = huge_cost;
  for (int k = 1; !converged(ik, at) && !is_stalled(0, k, ik.iteration_factor, at.cost, before);
       ++k) {
    descend(ik, ik.rows, n, at);
    evaluate(ik, at);
    if (minimize(ik, at, minimum, at.cost, at.cost)) break;
  }
  errors[2 * i] = at.position;
  errors[2 * i + 1] = at.rotation;
}

// Computes a lower bound on the error of a target, which shows whether it is out of reach.
__global__ void one_bound(Reach reach, const double* target, double* least) {
  *least = least_distance(reach, 0, target, 0, 1);
  const bool out = is_out_of_reach(reach, 0, *least, 1e-6, 1e-6);
  if (!out || !is_closest(float(*least), 0, 1, 1)) *least = 0;
}

// Postprocesses a solution: 2π wraps, and motion toward zero.
__global__ void suited(IkProblem<double> ik, double* q, double* target, double* J, double* e,
                       double* work, const double* turn) {
  IterateState<double> at{q, target, 0, 0, 0, J, e, work, nullptr, -1};
  const int n = ik.chain.nv;
  for (int j = 0; j < n; ++j) {
    const double to = wrapped_difference(turn[j], q[j], 0);
    q[j] = nearest_wrap(q[j], to, turn[j], ik.lower[j], ik.upper[j]);
  }
  evaluate(ik, at);
  double work_of_posture[5 * columns];
  const auto correct = [&] {
    evaluate(ik, at);
    return bool(converged(ik, at));
  };
  const auto ready = [] { return true; };
  approach_posture(
      ik, at, work_of_posture, [](int) { return 0.0; }, [](int) { return 1.0; }, ready, correct);
}

template <class T>
__global__ void numbers(const T* x, T* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  T s, c;
  sincos(x[i], s, c);
  const T angle = atan2(s, c);
  y[i] =
      select(finite(angle), copysign(max(abs(angle), sqrt(c * c)), min(s, c)), power_of_two(x[i]));
}

// Computes all candidate solutions (capacity, 6) of a pose of an arm with a closed form.
template <class T>
__global__ void all_candidates(ClosedForm<T> arm, Pose<T> X, int capacity, T* q, int* count) {
  int found = 0;
  closed_form_candidates(arm, X, [&](const Candidate<T>& candidate) {
    if (found == capacity) return;
    for (int j = 0; j < 6; ++j) q[6 * found + j] = angle_of(candidate.turn[j]);
    ++found;
  });
  *count = found;
}

#define INSTANTIATE(T)                                                                           \
  template __global__ void kinematics<T>(Chain<T>, const T*, const T*, T*, T*, T*);              \
  template __global__ void spectrum<T>(int, int, const T*, T*, T*, T*, T*);                      \
  template __global__ void least_squares<T>(const T*, const T*, T*, T*, bool*);                  \
  template __global__ void one_step<T>(Step<T>, const T*, const T*, T*, T*);                     \
  template __global__ void one_task<T>(Chain<T>, Task<T>, const T*, const T*, T*, T*);           \
  template __global__ void inside<T>(JointLimit<T>, const T*, const T*, T*, T*, T*);             \
  template __global__ void one_filtered_step<T>(Filter<T>, Step<T>, const T*, const T*, T*, T*,  \
                                                T*);                                             \
  template __global__ void one_start<T>(IkProblem<T>, T*, T*, T*, T*, T*, T*);                   \
  template __global__ void redundant<T>(Redundancy<T>, int, int, const int*, const T*, const T*, \
                                        const T*, T*);                                           \
  template __global__ void all_candidates<T>(ClosedForm<T>, Pose<T>, int, T*, int*);             \
  template __global__ void numbers<T>(const T*, T*);
INSTANTIATE(double)
INSTANTIATE(float)
template __global__ void yields<float>(Servo<float>, ServoState<float>, const float*, float*,
                                       float*, float*, float*, float*);

}  // namespace supple
