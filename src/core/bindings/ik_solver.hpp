// Position inverse kinematics for a robot's tasks in both precisions, with the table of seeds.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/batches.hpp"
#include "bindings/held_objects.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"
#include "drivers/clock.hpp"
#include "drivers/reach_table.hpp"
#include "drivers/seed_table.hpp"
#include "kernels/isa.hpp"
#include "supple/ik/policy.hpp"
#include "supple/ik/target.hpp"

namespace supple {

// The constants of a problem in one precision; owns their memory.
template <class T>
struct OwnedProblem {
  std::vector<T> weight, lower, upper, seed_lower, seed_range, seed_stride;
  std::vector<T> tolerance_unit, joint_scale, joint_unit, max_joint_steps;
  OwnedStep<T> step;
  std::vector<Measure> measure;
  std::vector<Task<T>> task;
  Ints limb_row, limb_first_joint, limb_joint;
  Limbs limbs;
  IkProblem<T> ik{};

  OwnedProblem(const PyTasks& tasks, const SolverSpec& spec, const Doubles& weights,
               double newton_gain)
      : weight(weights.begin(), weights.end()),
        lower(spec.lower.begin(), spec.lower.end()),
        upper(spec.upper.begin(), spec.upper.end()),
        seed_lower(spec.seed_lower.begin(), spec.seed_lower.end()),
        seed_range(spec.seed_range.begin(), spec.seed_range.end()),
        seed_stride(spec.seed_stride.begin(), spec.seed_stride.end()),
        joint_scale(spec.joint_scale.begin(), spec.joint_scale.end()),
        joint_unit(spec.joint_unit.begin(), spec.joint_unit.end()),
        max_joint_steps(spec.max_joint_steps.begin(), spec.max_joint_steps.end()),
        step(spec.step, int(spec.measures.size()), tasks.chain<T>().nv),
        measure(spec.measures),
        task(tasks.tasks<T>()),
        limb_row(spec.limb_row),
        limb_first_joint(spec.limb_first_joint),
        limb_joint(spec.limb_joint),
        limbs{int(limb_row.size()) - 1, limb_row.data(), limb_first_joint.data(),
              limb_joint.data()} {
    for (std::size_t row = 0, k = 0; int(k) < spec.primary; ++k) {
      for (int i = 0; i < task.at(k).rows; ++i) task[k].weight[i] = weight.at(row++);
    }
    for (double each : weights) tolerance_unit.push_back(T(1 / each));
    ik = {.chain = tasks.chain<T>(),
          .tasks = spec.primary,
          .rows = int(measure.size()),
          .targets = tasks.targets(),
          .task = task.data(),
          .measure = measure.data(),
          .weight = weight.data(),
          .tolerance_unit = tolerance_unit.data(),
          .lower = lower.data(),
          .upper = upper.data(),
          .seed_lower = seed_lower.data(),
          .seed_range = seed_range.data(),
          .seed_stride = seed_stride.data(),
          .position_tolerance = T(0),
          .rotation_tolerance = T(0),
          .step = step.view(),
          .newton_gain = T(newton_gain),
          .max_joint_step = T(spec.max_step),
          .iteration_factor = spec.iteration_factor,
          .max_lambda2 = T(spec.max_lambda2),
          .joint_scale = joint_scale.empty() ? nullptr : joint_scale.data(),
          .joint_unit = joint_unit.empty() ? nullptr : joint_unit.data(),
          .max_joint_steps = max_joint_steps.empty() ? nullptr : max_joint_steps.data(),
          .limbs = limb_row.empty() ? nullptr : &limbs};
  }
  OwnedProblem(const OwnedProblem&) = delete;  // contains pointers to its own members

  IkProblem<T> within(double position_tolerance, double rotation_tolerance) const {
    IkProblem<T> made = ik;
    made.position_tolerance = T(position_tolerance);
    made.rotation_tolerance = T(rotation_tolerance);
    return made;
  }
};

// Writes the twelve numbers of a pose (4, 4). Returns false if the matrix is not a pose, by the
// same criteria as `pose` in supple/_arrays/checks.py.
inline bool read_pose(const double* T, double* numbers) {
  return read_pose([T](int r, int c) { return T[4 * r + c]; }, true, 1e-6, numbers);
}

// Writes the twelve numbers of a position (3,).
inline void read_position(const double* x, double* numbers) {
  constexpr double unturned[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  std::copy_n(unturned, 9, numbers);
  std::copy_n(x, 3, numbers + 9);
}

// Solves the problems of a complete request on threads, for a caller without the GIL.
inline void run_on_threads(const SolveRequest& request, int threads) {
  const std::size_t bytes = isa().solve->scratch(request);
  const std::ptrdiff_t useful = std::min<std::ptrdiff_t>(threads, (request.count + 31) / 32);
  const std::ptrdiff_t pieces = std::max<std::ptrdiff_t>(1, useful);
  parallel(pieces, 1, threads, [&](std::ptrdiff_t, std::ptrdiff_t) {
    Scratch scratch(bytes);
    isa().solve->prepare(request, scratch.get());
    isa().solve->run(request, scratch.get());
  });
}

// Tolerances on position [m] and rotation [rad], the maximum number of starts per target (0 for the
// default), and the deadline (clock.hpp).
struct Bounds {
  double position_tolerance, rotation_tolerance;
  int max_seeds;
  long long deadline = 0;
};

// Targets, initial guesses and results of one subproblem, for a chunk of problems.
struct SubproblemArrays {
  Doubles target, q0, q, error, failed;
  std::vector<Outcome> outcome;
  Ints effort, found;
};

class PySolver {
 public:
  PySolver(nb::object tasks, const SolverSpec& spec);

  // A copy of the request `arrays` (targets and results), completed with the solver's constants and
  // the given bounds.
  struct Prepared {
    explicit Prepared(const PySolver& solver);
    Prepared(PySolver& solver, const Bounds& bounds, const SolveRequest& arrays);
    Prepared(const Prepared&) = delete;  // contains pointers to its own members

    // Replaces the bounds and the request. If the solver is the same as before, no constants are
    // copied.
    void set(PySolver& solver, const Bounds& bounds, const SolveRequest& arrays);

    IkProblem<float> wide, minimized;
    IkProblem<double> fine, closest;
    SolveRequest request;
  };

  int nq() const { return fine_.ik.chain.nq; }
  int targets() const { return fine_.ik.targets; }
  const OwnedProblem<double>& fine() const { return fine_; }

  // Writes a target in the kernel's layout. `target` holds the numbers of the target of one task
  // (`put_numbers`), or is a list or tuple with such an object for each task; if the solver has one
  // task, `single` tells whether a list holds numbers. Returns false if Python must convert or
  // reject it.
  static constexpr int max_tasks = 8;
  bool read_target(nb::handle target, bool single, double* numbers) const;

  // Sets the subproblems of tasks that share no joint: for each its solver, and the indices of its
  // coordinates and of its target values in the whole problem. If one solution per target is
  // requested, the subproblems are solved one after the other and their solutions merged
  // (supple/ik/subproblems.py).
  using GivenSubproblem = std::tuple<nb::object, Ints, Ints>;
  void set_subproblems(const std::vector<GivenSubproblem>& given);

  // Sets the problem of only the joints that move a task, given like a subproblem. This problem
  // replaces the subproblems if solutions may be rejected, because a rejection depends on all
  // joints together.
  void set_moving(const GivenSubproblem& given) { moving_ = {subproblem_of(given)}; }

  // Sets how seeds place the free base of a robot with several limbs (`FreeBase`): a solver for the
  // pose of the base and the indices of its coordinates, the members `rest`, `axis` and `reached`,
  // and the problems of the limbs.
  void set_base(nb::object pose, const Ints& joints, const Doubles& rest, const Doubles& axis,
                const Doubles& reached, const std::vector<GivenSubproblem>& limbs);

  // Number of subproblems of a request.
  int subproblems(const SolveRequest& request) const { return int(parts(request).size()); }

  // Completes the tables of seeds, after which requests without `rejects` need no lock.
  void complete();

  // Solves one problem in workspace memory that is kept for the next call.
  void run(const Bounds& bounds, const SolveRequest& arrays);

  // Solves the subproblems of some problems by run(solver, number, bounds, request), and merges
  // their solutions. Joints in no subproblem stay at q0 or, without q0, as near to zero as their
  // limits allow. Subproblems share the remaining time.
  template <class Run>
  void run_subproblems(const Bounds& bounds, const SolveRequest& arrays, SubproblemArrays& own,
                       Run&& run) const;

  // Returns the robot, the tasks and the damping rule as C++ source for the GPU's compiler.
  std::string constants() const;

  nb::object given_tasks = nb::none();  // the tasks as Python objects, for the results
  bool several_tasks() const { return target_specs_.size() > 1; }

  // Returns the complete table of heights of frames.
  const Reach& reach() { return *reach_->view(reach_->probes(), nullptr, nullptr); }

  // Size of the table of seeds: 0 until it is complete.
  int seeds() const { return table_ ? table_->view().entries : 0; }

  template <class Visit>
  int visit(Visit&& visit) const {
    int stop = visit_each(visit, {tasks_, given_tasks, base_ ? base_->pose : nb::handle()});
    const auto add = [&](const std::vector<Subproblem>& parts) {
      for (const Subproblem& part : parts) stop = stop ? stop : visit_each(visit, {part.solver});
    };
    add(subproblems_), add(moving_);
    if (base_) add(base_->limbs);
    return stop;
  }

  // Returns the numbers of multiplications, additions and other operations of one iteration, and
  // the length of its longest chain of dependent operations.
  nb::tuple operations() const;

 private:
  struct Subproblem {
    nb::object solver;
    Ints joints, numbers;  // indices in the whole problem
  };
  // Owns what a `FreeBase` points to.
  struct OwnedBase {
    nb::object pose;
    Ints joints;
    Doubles rest, axis, reached;
    std::vector<Subproblem> limbs;
    std::vector<BaseLimb> limb;
    FreeBase base{};
  };
  // A condition on the whole configuration (n,), as a condition on the joints of a subproblem; the
  // values of the other joints are in q (count, n).
  struct PartRejection {
    const SolveRequest& whole;
    int n;
    const Ints& joints;

    static bool rejects(const void* context, std::ptrdiff_t problem, const double* part);
  };
  Subproblem subproblem_of(const GivenSubproblem& given) const;
  const std::vector<Subproblem>& parts(const SolveRequest& request) const {
    return request.rejects ? moving_ : subproblems_;
  }
  void* workspace(const SolveRequest& request);
  bool read_one_target(nb::handle target, int i, double* numbers) const;
  void prepare_table(long long deadline);

  nb::object tasks_;
  OwnedProblem<float> wide_, minimized_;
  OwnedProblem<double> fine_, closest_;
  Ints posture_index_;
  Doubles posture_weight_, wrap_;
  bool has_wraps_;
  double float_tolerance_;
  int default_starts_;
  std::vector<float> feature_scale_;
  std::vector<TargetSpec> target_specs_;
  int table_size_;
  const SolveKernel* prepared_for_ = nullptr;  // kernel for which table and memory were made
  std::unique_ptr<SeedTable> table_;
  std::unique_ptr<OwnedBase> base_;  // null unless the robot has several limbs on a free base
  std::unique_ptr<ReachTable> reach_;
  std::unique_ptr<Scratch> workspace_;   // reused from problem to problem
  std::unique_ptr<Prepared> prepared_;   // the same
  std::vector<Subproblem> subproblems_;  // empty if the tasks are one problem
  std::vector<Subproblem> moving_;       // empty if all joints move a task
  SubproblemArrays subproblem_arrays_;   // reused from problem to problem
  // Locks for free-threaded Python; without effect where the GIL allows one thread at a time.
  nb::ft_mutex table_mutex_, workspace_mutex_;
};

// Copies the columns `index` of a matrix whose rows are `stride` apart to `to`, and returns its
// data.
inline const double* selected_columns(const double* from, std::ptrdiff_t stride,
                                      std::ptrdiff_t rows, const Ints& index, Doubles& to) {
  const std::size_t width = index.size();
  to.resize(std::size_t(rows) * width);
  for (std::ptrdiff_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < width; ++k) to[i * width + k] = from[i * stride + index[k]];
  }
  return to.data();
}

template <class Run>
void PySolver::run_subproblems(const Bounds& bounds, const SolveRequest& arrays,
                               SubproblemArrays& own, Run&& run) const {
  const std::ptrdiff_t count = arrays.count;
  const JointRange range{nq(), fine_.ik.lower, fine_.ik.upper};
  const SolutionArrays whole{1,           arrays.q, arrays.outcome, arrays.error, arrays.effort,
                             arrays.found};
  for (std::ptrdiff_t p = 0; p < count; ++p) {
    begin_merge(whole, range, p, arrays.q0 ? arrays.q0 + p * arrays.q0_stride : nullptr, 1);
  }
  if (arrays.failed) std::fill_n(arrays.failed, 4 * count, 0.0);
  const int all = subproblems(arrays);
  for (int i = 0; i < all; ++i) {
    const Subproblem& part = parts(arrays)[i];
    const int n = int(part.joints.size());
    Bounds within = bounds;
    within.deadline = share_of_time(bounds.deadline, all - i);
    own.q.resize(count * n);
    own.outcome.resize(count);
    own.error.resize(2 * count);
    own.effort.resize(2 * count);
    own.found.resize(count);
    own.failed.resize(arrays.failed ? 4 * count : 0);
    std::atomic<std::ptrdiff_t> next{0};
    SolveRequest request = arrays;
    request.target = selected_columns(arrays.target, targets(), count, part.numbers, own.target);
    if (arrays.q0) {
      const bool shared = arrays.q0_stride == 0;
      request.q0 =
          selected_columns(arrays.q0, arrays.q0_stride, shared ? 1 : count, part.joints, own.q0);
      request.q0_stride = shared ? 0 : n;
    }
    request.q = own.q.data();
    request.outcome = own.outcome.data();
    request.error = own.error.data();
    request.effort = own.effort.data();
    request.found = own.found.data();
    request.failed = arrays.failed ? own.failed.data() : nullptr;
    request.next = &next;
    const PartRejection rejection{arrays, range.n, part.joints};
    if (arrays.rejects) {
      request.rejects = &PartRejection::rejects;
      request.reject_context = &rejection;
    }
    run(*nb::inst_ptr<PySolver>(part.solver), i, within, request);
    const SolutionArrays solved{
        1, request.q, request.outcome, request.error, request.effort, request.found};
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      merge_part(solved, n, part.joints.data(), whole, range, p, 1);
    }
    // Numbers of starts are added. Of the errors, the largest is kept.
    for (std::size_t k = 0; k < own.failed.size(); ++k) {
      double& merged = arrays.failed[k];
      merged = k % 4 < 2 ? merged + own.failed[k] : std::max(merged, own.failed[k]);
    }
  }
  // Joints in no subproblem move away from q0 if q0 is outside their limits.
  if (!(arrays.max_move > 0)) return;
  for (std::ptrdiff_t p = 0; p < count; ++p) {
    const double *const q0 = arrays.q0 + p * arrays.q0_stride, *const q = arrays.q + p * range.n;
    const double moved = largest_difference(fine_.ik.chain, q, q0, [](int) { return 1.0; });
    if (arrays.outcome[p] == Outcome::solved && moved > arrays.max_move * (1 + 1e-12)) {
      arrays.outcome[p] = Outcome::unreachable;
    }
  }
}

}  // namespace supple
