// What the extension asks of a kernel, and the table of kernels, one for each instruction set.
#pragma once

#include <atomic>
#include <cstddef>

#include "supple/damping.hpp"
#include "supple/limits.hpp"
#include "supple/robot.hpp"
#include "supple/servo.hpp"
#include "supple/ik/restarts.hpp"
#include "supple/step.hpp"
#include "supple/task.hpp"

namespace supple {

// In whose axes a twist is written: the world's, the frame's own, or those of a frame of the chain
// given by its index.
inline constexpr int axes_world = -1;
inline constexpr int axes_body = -2;

// Kinematics of `count` configurations. Arrays are C-ordered; outputs that are null are not
// computed.
template <class T>
struct Request {
  std::ptrdiff_t count;
  int frames;            // how many of the chain's frames, from the first, are wanted
  int axes;              // axes_world, axes_body or the index of a frame of the chain
  const T* q;            // (count, coordinates)
  const T* qd;           // (count, coordinates), for bias_acceleration
  T* poses;              // (count, frames, 4, 4)
  T* jacobian;           // (count, frames, 6, coordinates)
  T* bias_acceleration;  // (count, frames, 6): J̇ q̇
  T* sigma;           // (count, min(rows, coordinates)): of the chosen rows of the stacked Jacobian
  T* manipulability;  // (count,): the product of the sigma
  const int* rows;    // (row_count,): rows of the stacked Jacobian (6 frames), for sigma
  int row_count;
};

// A damping rule on `count` spectra of `values` singular values each. Arrays are C-ordered.
template <class T>
struct DampingRequest {
  std::ptrdiff_t count;
  int values;
  Damping<T> damping;
  const T* sigma;    // (count, values), each row downwards
  const T* gamma;    // (count, values)
  const T* history;  // (count, 3): ‖e‖², manipulability before or negative, ‖J - J before‖
  T* lambda2;        // (count,)
};

// A step for each of `count` Jacobians (rows, columns) and task vectors. Arrays are C-ordered.
template <class T>
struct StepRequest {
  std::ptrdiff_t count;
  int rows, columns;
  Step<T> step;
  const T* J;        // (count, rows, columns)
  const T* e;        // (count, rows)
  const T* history;  // (count, 2): manipulability before or negative, ‖J - J before‖
  T* dq;             // (count, columns)
  T* lambda2;        // (count,)
};

// Steps (rows, columns) put inside boxes, and made no longer than `bound`. Arrays are C-ordered.
template <class T>
struct LimitRequest {
  std::ptrdiff_t count;
  int rows, columns;
  T bound;
  bool scale;          // keep the direction of motion
  const T* J;          // (count, rows, columns)
  const T* lambda2;    // (count,): of the step
  const T* low;        // (count, columns)
  const T* high;       // (count, columns)
  T* dq;               // (count, columns): the step, replaced
  T* active_set;       // (count, columns): -1, 0, 1
  T* damping_applied;  // (count,): damping inside the box
};

// Tasks at `count` configurations: their rows below each other, their targets and velocities
// active_set by active_set. Arrays are C-ordered; outputs that are null are not computed.
template <class T>
struct TaskRequest {
  std::ptrdiff_t count;
  int tasks, rows, targets, velocities;  // the last three summed over all tasks
  const Task<T>* task;
  const T* q;            // (count, coordinates)
  const T* target;       // (count, targets), for e
  const T* qd;           // (count, coordinates), for bias_acceleration
  const T* velocity;     // (count, velocities), for command
  T* J;                  // (count, rows, coordinates)
  T* e;                  // (count, rows)
  T* bias_acceleration;  // (count, rows)
  T* command;            // (count, rows)
};

template <class T>
struct TaskKernel {
  std::size_t (*scratch)(const Chain<T>&, const TaskRequest<T>&);
  // Returns the first configuration with an input or a result out of bounds, or -1.
  std::ptrdiff_t (*run)(const Chain<T>&, const TaskRequest<T>&, std::ptrdiff_t begin,
                        std::ptrdiff_t end, void* scratch);
};

struct TaskKernels {
  TaskKernel<double> f64;
  TaskKernel<float> f32;
};

template <class T>
struct Kernel {
  // Bytes of 64-byte aligned working memory that one call of `run` needs.
  std::size_t (*scratch)(const Chain<T>&, const Request<T>&);
  // Configurations begin..end. Returns the first one with an input or a result out of bounds, or
  // -1.
  std::ptrdiff_t (*run)(const Chain<T>&, const Request<T>&, std::ptrdiff_t begin,
                        std::ptrdiff_t end, void* scratch);
  void (*damp)(const DampingRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end);
  std::size_t (*step_scratch)(const StepRequest<T>&);
  // Returns the first row with an input or a result that is not finite, or -1.
  std::ptrdiff_t (*step)(const StepRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end,
                         void* scratch);
  std::size_t (*limit_scratch)(const LimitRequest<T>&);
  void (*limit)(const LimitRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end, void* scratch);
  // Where the speed of a joint may be: `joint_box` of limits.hpp.
  void (*box)(const JointLimit<T>&, T q, T speed, T dt, T& low, T& high);
};

// Joint speeds of `count` robots (velocity.hpp). Arrays are C-ordered.
template <class T>
struct VelocityRequest {
  const Servo<T>* servo;
  std::ptrdiff_t count;
  int velocities;     // numbers of all tasks' velocities
  const T* q;         // (count, coordinates)
  const T* before;    // (count, coordinates): how fast they went; null: at rest
  const T* velocity;  // (count, velocities)
  T* qd;              // (count, coordinates)
};

template <class T>
struct VelocityKernel {
  std::size_t (*scratch)(const VelocityRequest<T>&);  // bytes of aligned working memory
  // Returns the first row with an input or a result that is not finite, or -1.
  std::ptrdiff_t (*run)(const VelocityRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end,
                        void* scratch);
};

// One step of a control loop, in double precision: whole, or with a step of one's own between
// `look` and `act`. Nothing is allocated; the working memory has `scratch` numbers.
struct ServoKernel {
  int (*scratch)(const Servo<double>&);
  void (*evaluate_tasks)(const Servo<double>&, const Command<double>&, ServoState<double>&,
                         double* scratch);
  void (*advance)(const Servo<double>&, ServoState<double>&, double* scratch);
  void (*run)(const Servo<double>&, const Command<double>&, ServoState<double>&, double* scratch);
  VelocityKernel<double> f64;
  VelocityKernel<float> f32;
};

// Configurations to start from, by what they reach: some are clusters, and all are kept with the
// cluster they are nearest to, in blocks of as many as there are lanes. What is max_compared are
// the numbers of a target, scaled, (targets + 1, lanes) of a block: the last is half the sum of the
// squares of the others. A table that is not complete has no entries.
struct Table {
  static constexpr int row = 8;  // joints to a pack
  int entries;                   // how many there are
  int clusters, blocks;          // blocks of either
  int padded, size;              // numbers of a row of joints; of a record
  const float* cluster;          // (clusters, targets + 1, lanes)
  const float* block;            // (blocks, targets + 1, lanes)
  const int* begin;              // (clusters lanes + 1,): blocks of a cluster
  // (blocks lanes, size): q (padded,), what the first step is for a motion of each task (6 tasks,
  // padded), and what is reached (targets,)
  const float* record;
  const float* scale;   // (targets,)
  const float* limits;  // (3, padded): lower, upper, and the longest first step of each joint
};

// Position inverse kinematics of `count` problems. Arrays are C-ordered.
struct SolveRequest {
  const IkProblem<float>* search;    // of the search
  const IkProblem<double>* polish;   // with the tolerances that were asked for
  const IkProblem<double>* closest;  // likewise, with weights that say what is closest
  std::ptrdiff_t count;
  const double* target;      // (count, targets)
  const double* q0;          // where the caller wants to start; null: nowhere
  std::ptrdiff_t q0_stride;  // to the next problem's: 0 if they share it
  // A secondary posture: which of a problem's numbers is that of a coordinate (n,), -1 if none, and
  // how much it weighs (n,), at most 1; null: there is none
  const int* posture;
  const double* posture_weight;
  const Table* table;
  const double* wrap;    // (n,): a whole turn [rad], 0 for a joint without; null: none has
  int max_starts;        // the most that a target may have
  RestartBudget budget;  // likewise, by how near the best of them came
  bool single;           // every lane a start of the same problem, not a problem of its own
  int max_solutions;     // solutions of each problem; more than one: `single`
  bool nearest;  // to q0, of some solutions that are drawn towards it; `max_solutions` is 1, and
                 // `single`
  double* q;     // (count, max_solutions, n)
  Outcome* outcome;  // (count, max_solutions)
  double* error;     // (count, max_solutions, 2): position [m], rotation [rad]
  int* effort;       // (count, max_solutions, 2): iterations, starts
  int* found;        // (count,): how many of the solutions there are, at least 1
  double* failed;    // (count, 4), of `single`: starts in all, how many failed, and
                     // the errors of the best of those; null: nobody asks
  std::atomic<std::ptrdiff_t>* next;  // the first problem that no thread has taken
  bool (*stop)(void* stop_context);   // whether to come to an end; null: never
  void* stop_context;
};

struct SolveKernel {
  int lanes;  // of the search
  std::size_t (*scratch)(const SolveRequest&);
  // Makes working memory ready for requests of the same tasks.
  void (*prepare)(const SolveRequest&, void* scratch);
  // Takes problems, and solves them, until there are none. If there is no solution the closest pose
  // is the first.
  void (*run)(const SolveRequest&, void* scratch);
};

struct Kernels {
  const char* isa;
  int width_double, width_float;  // lanes of a batch
  Kernel<double> f64;
  Kernel<float> f32;
  const TaskKernels* tasks;
  const ServoKernel* servo;
  const SolveKernel* solve;
};

// One table for each instruction set compiled in: kernels_baseline, kernels_avx2, ...
#define SUPPLE_JOIN(a, b) a##b
#define SUPPLE_KERNELS(isa) SUPPLE_JOIN(kernels_, isa)
#define SUPPLE_TASK_KERNELS(isa) SUPPLE_JOIN(task_kernels_, isa)
#define SUPPLE_SERVO_KERNEL(isa) SUPPLE_JOIN(servo_kernel_, isa)
#define SUPPLE_SOLVE_KERNEL(isa) SUPPLE_JOIN(solve_kernel_, isa)

}  // namespace supple
