// The interface of the kernels, and the table of kernels of each instruction set.
#pragma once

#include <atomic>
#include <cstddef>

#include "supple/step/damping.hpp"
#include "supple/limits/limits.hpp"
#include "supple/robot/chain.hpp"
#include "supple/servo/state.hpp"
#include "supple/ik/restarts.hpp"
#include "supple/step/step.hpp"
#include "supple/task/task.hpp"

namespace supple {

// Kinematics of `count` configurations. Arrays are C-ordered; outputs that are null are not
// computed.
template <class T>
struct Request {
  std::ptrdiff_t count;
  int frames;            // number of frames to compute: the first ones of the chain
  int axes;              // axes_... or the index of a frame of the chain
  const T* q;            // (count, coordinates)
  const T* qd;           // (count, coordinates), for bias_acceleration and bias_jerk
  const T* qdd;          // (count, coordinates), for bias_jerk
  T* poses;              // (count, frames, 4, 4)
  T* jacobian;           // (count, frames, 6, coordinates)
  T* bias_acceleration;  // (count, frames, 6): J̇ q̇
  T* bias_jerk;          // (count, frames, 6): 2 J̇ q̈ + J̈ q̇
  T* sigma;              // (count, min(row_count, coordinates)): singular values of `rows`
  T* manipulability;     // (count,): product of the singular values
  const int* rows;       // (row_count,): rows of the Jacobian (6 * frames, coordinates), for sigma
  int row_count;
};

// A damping rule on `count` Jacobians with `values` singular values each. Arrays are C-ordered.
template <class T>
struct DampingRequest {
  std::ptrdiff_t count;
  int values;
  bool redundant;  // whether the Jacobians have more columns than rows
  Damping<T> damping;
  const T* sigma;    // (count, values), each row descending
  const T* gamma;    // (count, values): uᵢᵀe, see `Spectrum`
  const T* history;  // (count, 3): ‖e‖², previous manipulability or -1, ‖J - previous J‖
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
  const T* history;  // (count, 2): previous manipulability or -1, ‖J - previous J‖
  T* dq;             // (count, columns)
  T* lambda2;        // (count,)
};

// The projection of `count` steps into boxes (bounds on each joint velocity), with norms of at most
// `max_norm`. Arrays are C-ordered.
template <class T>
struct LimitRequest {
  std::ptrdiff_t count;
  int rows, columns;
  T max_norm;
  bool keep_direction;  // whether to scale the step as a whole, which keeps its direction
  const T* J;           // (count, rows, columns)
  const T* lambda2;     // (count,): damping of the step
  const T* low;         // (count, columns)
  const T* high;        // (count, columns)
  T* dq;                // (count, columns): the step, replaced by its projection
  T* active_set;        // (count, columns): -1, 0 or 1, as in `boxed_step`
  T* applied_lambda2;   // (count,): damping of the projected step
};

// Tasks at `count` configurations. The rows of all tasks are stacked; their targets and velocities
// are concatenated. Arrays are C-ordered; outputs that are null are not computed.
template <class T>
struct TaskRequest {
  std::ptrdiff_t count;
  int tasks, rows, targets, velocities;  // number of tasks, rows, target values, velocity values
  const Task<T>* task;
  const T* q;            // (count, coordinates)
  const T* target;       // (count, targets), for e; null if not given
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
  // Returns the index of the first configuration with an input or a result out of bounds, or -1.
  std::ptrdiff_t (*run)(const Chain<T>&, const TaskRequest<T>&, std::ptrdiff_t begin,
                        std::ptrdiff_t end, void* scratch);
};

struct TaskKernels {
  TaskKernel<double> f64;
  TaskKernel<float> f32;
};

template <class T>
struct Kernel {
  // Bytes of 64-byte aligned scratch memory that one call of `run` needs.
  std::size_t (*scratch)(const Chain<T>&, const Request<T>&);
  // Evaluates configurations begin to end - 1. Returns the index of the first one with an input
  // or a result out of bounds, or -1.
  std::ptrdiff_t (*run)(const Chain<T>&, const Request<T>&, std::ptrdiff_t begin,
                        std::ptrdiff_t end, void* scratch);
  void (*damp)(const DampingRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end);
  std::size_t (*step_scratch)(const StepRequest<T>&);
  // Returns the first row with an input or a result that is not finite, or -1.
  std::ptrdiff_t (*step)(const StepRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end,
                         void* scratch);
  std::size_t (*limit_scratch)(const LimitRequest<T>&);
  void (*limit)(const LimitRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end, void* scratch);
  // Computes the admissible speeds of a joint: `joint_box` in limits/limits.hpp.
  void (*box)(const JointLimit<T>&, T q, T speed, T change, T dt, T& low, T& high);
};

// Velocity inverse kinematics of `count` robots (servo/velocity.hpp). Arrays are C-ordered.
template <class T>
struct VelocityRequest {
  const Servo<T>* servo;
  std::ptrdiff_t count;
  int velocities;     // number of values in the velocities of all tasks
  const T* q;         // (count, coordinates)
  const T* before;    // (count, coordinates): current joint speeds; null if at rest
  const T* velocity;  // (count, velocities)
  T* qd;              // (count, coordinates)
};

// Like `VelocityRequest`, for steps toward targets (servo/tree_step.hpp). q and `qd` (n) are in the
// kernel's coordinates.
struct TreeRequest {
  const Servo<double>* servo;
  double lambda2;  // damping
  std::ptrdiff_t count;
  int targets;           // values of the targets of all tasks
  const double* q;       // (count, n)
  const double* before;  // (count, n): current joint speeds; null if no limit depends on them
  const double* target;  // (count, targets)
  double* qd;            // (count, n)
};
struct TreeKernel {
  std::size_t (*scratch)(const TreeRequest&);  // bytes of aligned scratch memory
  // Computes rows begin to end - 1. Returns the index of the first row with an input or result that
  // is not finite, or -1.
  std::ptrdiff_t (*run)(const TreeRequest&, std::ptrdiff_t begin, std::ptrdiff_t end, void* memory);
};

template <class T>
struct VelocityKernel {
  std::size_t (*scratch)(const VelocityRequest<T>&);  // bytes of aligned scratch memory
  // Returns the first row with an input or a result that is not finite, or -1.
  std::ptrdiff_t (*run)(const VelocityRequest<T>&, std::ptrdiff_t begin, std::ptrdiff_t end,
                        void* scratch);
};

// One step of a control loop in double precision: as a whole (`run`), or as `evaluate_tasks` and
// `advance`, with a user's own step between them. Nothing is allocated; the scratch memory has
// scratch(servo) numbers.
struct ServoKernel {
  int (*scratch)(const Servo<double>&);
  void (*evaluate_tasks)(const Servo<double>&, const Command<double>&, ServoState<double>&,
                         double* scratch);
  void (*advance)(const Servo<double>&, ServoState<double>&, double* scratch);
  void (*run)(const Servo<double>&, const Command<double>&, ServoState<double>&, double* scratch);
  // Evaluates the held tasks, between `evaluate_tasks` and a step.
  void (*project_held)(const Servo<double>&, ServoState<double>&);
  // Writes the errors of the held tasks at the configuration after a step.
  void (*measure_held)(const Servo<double>&, const ServoState<double>&);
  VelocityKernel<double> f64;
  VelocityKernel<float> f32;
  TreeKernel tree;
};

class ReachTable;  // drivers/reach_table.hpp

// A table of seeds, searched by the targets that they reach. Some seeds are the centers of
// clusters; each seed is stored with its nearest center, in blocks of one seed per lane. Targets
// are compared by their scaled values. In a block, the values of each target are followed by half
// their squared norm; in a block of seeds, the same number plus a penalty for discomfort comes
// next. While the table is incomplete, it has no entries.
struct Table {
  static constexpr int row = 8;  // joints per pack
  int entries;                   // number of seeds
  int clusters, blocks;          // number of blocks of clusters and of seeds
  int padded, size;              // number of values of a padded q, and of a record
  const float* cluster;          // (clusters, targets + 1, lanes)
  const float* block;            // (blocks, targets + 2, lanes)
  const int* begin;              // (clusters * lanes + 1,): the first block of each cluster
  // (blocks * lanes, size): for each seed, q (padded,), the first step of q for a unit displacement
  // of the target in each direction (6 * tasks, padded), and the target that the seed reaches
  // (targets,).
  const float* record;
  const float* scale;  // (targets,): factors of the values of a target
  // (6, padded): for each joint, the lower and the upper limit, the largest first step, 1 /
  // `joint_unit`, the middle of its range, and the weight of its squared distance from there in the
  // choice of seeds
  const float* limits;
};

// A limb of a robot on a free base: its problem while the base rests, with its table of seeds, and
// the indices of its joints and of its target values in the whole problem.
struct BaseLimb {
  const IkProblem<float>* search;
  const Table* table;
  const int *joint, *number;
};

// How seeds place a free base (drivers/free_base.hpp).
struct FreeBase {
  const IkProblem<double>* pose;  // the coordinates of the base, for the pose of its last link (12)
  const int* joint;               // indices of these coordinates in the whole problem
  const double* rest;             // (12,): this pose in the problems of the limbs
  const double* axis;             // (3,): axis of a planar base; zero for a base that may turn
  const double* reached;          // (targets,): mean of the limbs' targets while the base rests
  int limbs;                      // 0 until their tables are complete
  const BaseLimb* limb;
};

// Position inverse kinematics of `count` problems. Arrays are C-ordered.
struct SolveRequest {
  const IkProblem<float>* search;     // the problem in float, for the search
  const IkProblem<float>* minimized;  // like `search`, with bounded weights of the closest pose
  const IkProblem<double>* polish;    // the problem in double, with the caller's tolerances
  const IkProblem<double>* closest;  // like `polish`, with the weights that define the closest pose
  std::ptrdiff_t count;
  const double* target;      // (count, targets)
  const double* q0;          // initial guesses, or null
  std::ptrdiff_t q0_stride;  // distance to the next problem's q0; 0 if all share one
  // A posture task: for each coordinate (n,) the index of its value in a target, -1 for none, and
  // its weight (n,), at most 1; null without a posture.
  const int* posture;
  const double* posture_weight;
  const Table* table;
  const FreeBase* base;  // null unless the robot has several limbs on a free base
  ReachTable* reach;     // heights of frames, built when a target is first missed
  const double* wrap;    // (n,): 2π for a joint that has 2π wraps, else 0; null if none has
  int max_seeds;         // maximum number of starts per target
  RestartBudget budget;  // maximum number of starts, depending on the error of the best start
  bool single;           // whether all lanes run starts of the same problem
  int max_solutions;     // for each problem; more than one requires `single`
  bool nearest;          // find the solution nearest to q0; requires `single` and max_solutions = 1
  bool comfortable;      // prefer seeds with joints near the middle of their ranges
  double max_move;  // largest joint displacement from q0, needs `single` and q0; 0 for no bound
  // (n,): a configuration, or null. If not null, the problem, q0 and the solutions contain the
  // displacements of ball joints from this configuration (drivers/near_q0.hpp).
  const double* origin;
  double* q;         // (count, max_solutions, n)
  Outcome* outcome;  // (count, max_solutions)
  double* error;     // (count, max_solutions, 2): position [m], rotation [rad]
  int* effort;       // (count, max_solutions, 2): iterations, starts
  int* found;        // (count,): number of results, at least 1
  // (count, 4), if `single`: number of starts, number of failed starts, and position and rotation
  // error of the best failed start; null if not needed.
  double* failed;
  std::atomic<std::ptrdiff_t>* next;  // index of the next unclaimed problem, shared by all threads
  bool (*stop)(void* stop_context);   // whether to stop; null for never
  void* stop_context;
  // Whether the configuration q (n,) of a problem, which meets its tasks, is rejected, for example
  // because the robot would collide; null if none is. Called by several threads at once.
  bool (*rejects)(const void* context, std::ptrdiff_t problem, const double* q);
  const void* reject_context;
  int max_rejected;  // number of rejected solutions after which a search ends; 0 for no bound
};

struct SolveKernel {
  int lanes;  // number of lanes of the search
  std::size_t (*scratch)(const SolveRequest&);
  // Initializes scratch memory; it can be used for all requests with the same tasks.
  void (*prepare)(const SolveRequest&, void* scratch);
  // Takes problems from `next` and solves them until none are left. For an unreachable target, the
  // closest pose is written as the first solution.
  void (*run)(const SolveRequest&, void* scratch);
};

// An arm of six revolute joints in the world at q = 0. If `numberings` is not zero, its solutions
// are eigenvalues; otherwise it has a closed form.
struct Arm {
  bool parallel = false;   // closed form: whether three axes are parallel; otherwise they intersect
  int first = 0;           // index of the first joint of these three axes
  double slack = 0;        // relative misalignment of the three axes; 0 if there is none
  int samples = 1;         // number of samples of an angle that is not determined
  int numberings = 0;      // eigenvalues: number of cyclic numberings of the joints that are used
  int start[6] = {};       // index of the first joint in each numbering, best first
  int coordinate[6] = {};  // index in q of each joint
  double axis[18] = {}, point[18] = {};  // (6, 3): directions and points [m] of the axes
  double home[12] = {};                  // columns and position [m] of the frame's pose
  double length = 1;                     // length of the arm [m]
};

// Receives the solutions of a target one by one: q (n,), position error [m], rotation error [rad],
// and whether the solution is a sample of a continuum. Returns whether the solution is new.
struct SolutionSink {
  void* to;
  bool (*take)(void* to, const double* q, double position, double rotation, bool sampled);
};

// Number of sets of zeros of half-angle tangents with which eigenvalues are computed.
inline constexpr int general_zero_sets = 3;

struct BranchKernel {
  // Bytes of 64-byte aligned memory that a search needs.
  std::size_t (*memory)(const IkProblem<double>&, const Arm&);
  // Initializes the memory, for all targets. Copies the arguments, but not the arrays of the
  // problem.
  void (*prepare)(const IkProblem<double>&, const Arm&, void* memory);
  // Passes the solutions of a target (12,) to `sink`. Joints that are not part of the arm stay at
  // q0 or, if q0 is null, near zero. Returns whether the passed solutions are certain to be all
  // solutions.
  bool (*solve)(void* memory, const double* target, const double* q0, const SolutionSink& sink);
  // Computes the candidates (k, 6) of an arm before they are polished, for the first numbering of
  // its joints, from at most `sets` sets of zeros; returns their number k <= 24 sets.
  int (*candidates)(const Arm&, const double* target, int sets, double* angle, bool& certain);
  // Computes the left sides (14, 27) and the right sides (14, 9) of the fourteen equations of an
  // arm (drivers/general.hpp) in its first numbering.
  void (*equations)(const Arm&, const double* target, double* left, double* right);
};

// How closely a track follows a path.
struct TrackRequest {
  const IkProblem<double>* ik;
  double jump;   // displacement of a joint above which a step is divided, in its unit
  double reach;  // the largest lever arm of a joint [m]
  double exact_position, exact_rotation;  // errors at the ends of a step [m], [rad]
  // Errors halfway along a step that are always allowed [m], [rad].
  double position_tolerance, rotation_tolerance;
  int divisions;  // largest number of times that a step is halved
  int intervals;  // 2 << divisions: number of intervals between the targets of a step; its smallest
                  // part has two intervals, with a target halfway
  const double* unit;  // (n,): units of the joints
};

struct PathKernel {
  std::size_t (*track_memory)(const TrackRequest&);  // bytes of aligned memory
  // Tracks q (n,) through `steps` steps, whose targets (steps * intervals + 1, targets) are
  // given. Writes the end of each step (n,), at distances of `stride` numbers; returns the number
  // of steps that are possible.
  std::ptrdiff_t (*track)(const TrackRequest&, const double* q, const double* targets,
                          std::ptrdiff_t steps, std::ptrdiff_t stride, double* to, void* memory);
  std::size_t (*error_memory)(const IkProblem<double>&);
  // Computes the errors (places, rows), without weights, of configurations q (places, n).
  void (*errors)(const IkProblem<double>&, int places, const double* q, const double* target,
                 double* e, void* memory);
};

struct CollisionKernel;  // kernels/collision.hpp
struct AdjointKernel;    // kernels/adjoint.hpp

struct Kernels {
  const char* isa;
  int width_double, width_float;  // number of lanes of a batch in each precision
  Kernel<double> f64;
  Kernel<float> f32;
  const TaskKernels* tasks;
  const ServoKernel* servo;
  const SolveKernel* solve;
  const BranchKernel* branches;
  const PathKernel* paths;
  const CollisionKernel* collision;
  const AdjointKernel* adjoint;
};

// One table for each instruction set compiled in: kernels_baseline, kernels_avx2, ...
#define SUPPLE_JOIN(a, b) a##b
#define SUPPLE_KERNELS(isa) SUPPLE_JOIN(kernels_, isa)
#define SUPPLE_TASK_KERNELS(isa) SUPPLE_JOIN(task_kernels_, isa)
#define SUPPLE_SERVO_KERNEL(isa) SUPPLE_JOIN(servo_kernel_, isa)
#define SUPPLE_SOLVE_KERNEL(isa) SUPPLE_JOIN(solve_kernel_, isa)
#define SUPPLE_BRANCH_KERNEL(isa) SUPPLE_JOIN(branch_kernel_, isa)
#define SUPPLE_PATH_KERNEL(isa) SUPPLE_JOIN(path_kernel_, isa)
#define SUPPLE_COLLISION_KERNEL(isa) SUPPLE_JOIN(collision_kernel_, isa)
#define SUPPLE_ADJOINT_KERNEL(isa) SUPPLE_JOIN(adjoint_kernel_, isa)

}  // namespace supple
