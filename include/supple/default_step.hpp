// The default step of a control loop.
// Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/decoupled.hpp"
#include "supple/folds.hpp"
#include "supple/self_motion.hpp"
#include "supple/servo_state.hpp"

namespace supple::inline SUPPLE_ISA {

// Whether a coordinate moves only prismatic joints.
template <class T>
SUPPLE_FN bool is_slide(const Chain<T>& chain, int coordinate) {
  if (!chain.lengths) return false;
  bool slides = true;
  for (int k = 0; k < chain.joints; ++k) {
    const Joint<T>& joint = chain.joint[k];
    slides = slides && (joint.coordinate != coordinate || joint.motion == Motion::prismatic);
  }
  return slides;
}

// Returns 1 for a joint at its upper position limit, -1 at its lower one, else 0. A prismatic joint
// at its speed limit counts as well, with the sign of its speed: it does not rotate the folds of
// the joints after it, whereas the motion of a revolute joint does.
template <class T>
SUPPLE_FN T end_of_motion(const Servo<T>& servo, const ServoState<T>& state, int j) {
  const JointLimit<T>& limit = servo.limit[j];
  const T q = state.q[j], speed = state.qd[j];
  if (is_at_end(limit, q, T(1))) return T(1);
  if (is_at_end(limit, q, T(-1))) return T(-1);
  const bool fast = abs(speed) >= limit.speed * (1 - T(64) * Number<T>::epsilon);
  return fast && is_slide(servo.chain, j) ? copysign(T(1), speed) : T(0);
}

// Updates state.stopped: a joint at a limit (`end_of_motion`) is stopped if the step would move it
// beyond that limit. If `releases`, a stopped joint is released if moving away from its limit would
// reduce the error. Returns whether any joint was stopped or released.
template <class T>
SUPPLE_FN bool update_stopped(const Servo<T>& servo, ServoState<T>& state, bool releases) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const bool corrected = state.beyond >= 0;
  bool changed = false;
  for (int j = 0; j < n; ++j) {
    T& stopped = state.stopped[j];
    const T before = stopped;
    if (before == 0 || !corrected) {
      const T end = end_of_motion(servo, state, j);
      const T speed = stopped_speed(servo.limit[j], state.q[j], end);
      stopped = end * (state.dq[j] - speed) > 0 ? end : T(0);
    } else if (releases) {
      T gain(0);
      for (int i = 0; i < m; ++i) {
        const T left = state.exact_e[i] - dot(n, state.exact_J + i * n, state.dq);
        gain = fma(state.exact_J[i * n + j], left, gain);
      }
      if (before * gain < 0) stopped = T(0);
    }
    changed = changed || stopped != before;
  }
  return changed;
}

// Largest number of rounds in a step; each round determines the stopped joints again.
inline constexpr int stopping_rounds = 3;

// Corrects state.J and state.e for nearby folds (`correct_folds`). Postures are linear in q and
// have no folds: from their rows, only the motion of stopped joints is subtracted.
template <class T>
SUPPLE_FN Fold<T> correct_curved_rows(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const StepRows<T> rows = rows_of(servo, state);
  const int m = rows.count, n = servo.chain.coordinates;
  T *J = scratch, *e = J + m * n, *offset = e + m, *mask = offset + m, *rest = mask + rows.all;
  const auto correct = [&](const StepRows<T>& of, const T* off, T* its_J, T* its_e,
                           T* its_scratch) {
    return correct_folds(of, servo.limit, servo.dt, servo.gain, servo.curvature, state.q, off,
                         state.stopped, its_J, its_e, its_scratch);
  };
  bool any_linear = false;
  for (int k = 0; k < servo.tasks; ++k) {
    any_linear = any_linear || servo.task[k].goal == Goal::posture;
  }
  if (!any_linear) return correct(rows, state.offset, state.J, state.e, scratch);
  int curved = 0;
  // Calls copy(row, index) for each row that is not of a posture; `index` counts only these rows.
  const auto each_curved = [&](auto&& copy) {
    curved = 0;
    for (int k = 0, i = 0, row = 0; k < servo.tasks; ++k) {
      const bool linear = servo.task[k].goal == Goal::posture;
      for (const int end = i + servo.task[k].rows; i < end; ++i) {
        const bool held = !state.held || state.held[i] < Number<T>::huge;
        mask[i] = held && !linear ? T(0) : Number<T>::huge;
        if (held && !linear) copy(row, curved++);
        row += held;
      }
    }
  };
  each_curved([&](int row, int to) {
    for (int j = 0; j < n; ++j) J[to * n + j] = state.J[row * n + j];
    e[to] = state.e[row], offset[to] = state.offset[row];
  });
  const StepRows<T> some{rows.chain, rows.tasks, rows.task, rows.all, curved, mask};
  const Fold<T> fold = correct(some, offset, J, e, rest);
  if (fold.beyond < 0) return fold;
  left_by_stopped(m, n, state.J, state.exact_e, servo.limit, state.q, state.stopped, state.e);
  for (int j = 0; j < n; ++j) {
    for (int r = 0; state.stopped[j] != 0 && r < m; ++r) state.J[r * n + j] = T(0);
  }
  each_curved([&](int row, int from) {
    for (int j = 0; j < n; ++j) state.J[row * n + j] = J[from * n + j];
    state.e[row] = e[from];
  });
  return fold;
}

// Computes state.dq, the damped step of the corrected rows, and its damping state.lambda2. Only the
// part of the command along singular directions, and its effect on their singular values, count for
// the damping: motion along the end of the reach does not delay the motion away from it.
template <class T>
SUPPLE_FN void take_damped_step(const Servo<T>& servo, ServoState<T>& state, const Fold<T>& fold,
                                T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const T size2 = dot(m, state.e, state.e);
  Step<T> how = *servo.step;  // λ² = p[0] ‖e‖²
  how.damping.p[0] *= size2 > 0 ? fold.depth * square(fold.rate) / size2 : T(0);
  const T lambda2 = how.damping.p[0] * size2;
  const T* const stopped = state.beyond >= 0 ? state.stopped : nullptr;
  const bool solved =
      servo.tasks > 1 ? damped_step_by_parts(rows_of(servo, state), state.J, state.e, lambda2,
                                             stopped, state.dq, scratch)
                      : m > n && least_squares(m, n, state.J, state.e, lambda2, state.dq, scratch);
  if (solved) {
    state.lambda2 = lambda2;
    return;
  }
  const auto stepped = [&](auto rows, auto columns) {
    return step(how, rows, columns, state.J, state.e, T(-1), T(0), state.dq, scratch);
  };
  state.lambda2 = m == 6 && n == 7   ? stepped(Fixed<6>{}, Fixed<7>{})
                  : m == 6 && n == 6 ? stepped(Fixed<6>{}, Fixed<6>{})
                                     : stepped(m, n);
}

// Computes the step of several tasks separately for parts that share no joint (`decoupled_step`).
// Returns false if this is not possible, for example near a fold; then no step is computed.
template <class T>
SUPPLE_FN bool take_decoupled_step(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  const StepRows<T> rows = rows_of(servo, state);
  if (servo.tasks == 1 || rows.count < rows.all) return false;
  T *left = scratch, *rest = left + m;
  left_by_stopped(m, n, state.J, state.e, servo.limit, state.q, state.stopped, left);
  const T range = fold_range<T> * servo.curvature;
  if (!decoupled_step(rows, state.J, state.e, left, state.stopped, range, state.dq, rest)) {
    return false;
  }
  state.lambda2 = T(0);
  update_stopped(servo, state, true);
  state.held_lambda2 = servo.step->damping.p[0] * dot(m, state.e, state.e);
  return true;
}

// Returns what a step of one task is far from; nothing if a joint is stopped.
template <class T>
SUPPLE_FN FarFrom far_from(const Servo<T>& servo, const ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  for (int j = 0; j < n; ++j) {
    if (state.stopped[j] != 0) return {false, false};
  }
  const T least = fold_range<T> * servo.curvature * length(m, state.e);
  const T kappa = servo.curvature / servo.dt;
  if (m == 6 && n == 7) {
    return far_from(Fixed<6>{}, Fixed<7>{}, state.J, kappa, least, scratch);
  }
  return far_from(m, n, state.J, kappa, least, scratch);
}

// Computes the default step, which is damped near a singularity and exact elsewhere. state.J and
// state.e are corrected at folds (folds.hpp); state.exact_J and state.exact_e are not corrected.
// Joints that the step would move beyond a limit are stopped there, and the step is computed again
// for the others. With one task, a redundant arm avoids singularities by self-motion.
template <class T>
SUPPLE_FN void step_near_folds(const Servo<T>& servo, ServoState<T>& state, T* scratch) {
  const int m = servo.rows, n = servo.chain.coordinates;
  for (int j = 0; j < n; ++j) {
    if (state.stopped[j] != 0 && state.stopped[j] != end_of_motion(servo, state, j)) {
      state.stopped[j] = T(0);
    }
  }
  if (take_decoupled_step(servo, state, scratch)) return;
  for (int i = 0; i < m * n; ++i) state.exact_J[i] = state.J[i];
  for (int i = 0; i < m; ++i) state.exact_e[i] = state.e[i];
  const bool redundant = servo.tasks == 1 && m < n;
  const FarFrom far = redundant ? far_from(servo, state, scratch) : FarFrom{false, false};
  for (int round = 0; round < stopping_rounds; ++round) {
    for (int i = 0; round > 0 && i < m * n; ++i) state.J[i] = state.exact_J[i];
    for (int i = 0; round > 0 && i < m; ++i) state.e[i] = state.exact_e[i];
    const Fold<T> fold = far.folds && round == 0 ? Fold<T>{T(-1), T(0), T(0)}
                                                 : correct_curved_rows(servo, state, scratch);
    state.beyond = fold.beyond;
    take_damped_step(servo, state, fold, scratch);
    for (int j = 0; fold.beyond >= 0 && j < n; ++j) {
      if (state.stopped[j] != 0) {
        state.dq[j] = stopped_speed(servo.limit[j], state.q[j], state.stopped[j]);
      }
    }
    if (!update_stopped(servo, state, round == 0) || fold.beyond < 0) break;
  }
  state.self_moves =
      redundant && !far.singularities && add_self_motion(servo, state, state.exact_J, scratch);
  state.held_lambda2 = servo.step->damping.p[0] * dot(m, state.e, state.e);
}

}  // namespace supple::inline SUPPLE_ISA
