// Position inverse kinematics of some tasks in both precisions, with the table of seeds.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/batches.hpp"
#include "bindings/specs.hpp"
#include "drivers/seed_table.hpp"
#include "bindings/tasks.hpp"

namespace supple {

// The constants of a problem in one precision, owning their memory.
template <class T>
struct OwnedProblem {
  std::vector<T> weight, lower, upper, from, span, stride, joint_scale;
  OwnedStep<T> step;
  std::vector<Measure> measure;
  std::vector<Task<T>> task;
  IkProblem<T> ik{};

  OwnedProblem(const PyTasks& tasks, const SolverSpec& spec, const Doubles& weights,
               double newton_gain)
      : weight(weights.begin(), weights.end()),
        lower(spec.lower.begin(), spec.lower.end()),
        upper(spec.upper.begin(), spec.upper.end()),
        from(spec.seed_low.begin(), spec.seed_low.end()),
        span(spec.seed_span.begin(), spec.seed_span.end()),
        stride(spec.seed_stride.begin(), spec.seed_stride.end()),
        joint_scale(spec.joint_scale.begin(), spec.joint_scale.end()),
        step(spec.step, int(spec.measures.size()), tasks.chain<T>().coordinates),
        measure(spec.measures),
        task(tasks.tasks<T>()) {
    for (std::size_t row = 0, k = 0; int(k) < spec.primary; ++k) {
      for (int i = 0; i < task.at(k).rows; ++i) task[k].weight[i] = weight.at(row++);
    }
    const bool is_scaled =
        std::any_of(joint_scale.begin(), joint_scale.end(), [](T scale) { return scale != T(1); });
    ik = {.chain = tasks.chain<T>(),
          .tasks = spec.primary,
          .rows = int(measure.size()),
          .targets = tasks.targets(),
          .task = task.data(),
          .measure = measure.data(),
          .weight = weight.data(),
          .lower = lower.data(),
          .upper = upper.data(),
          .seed_lower = from.data(),
          .seed_range = span.data(),
          .sequence_step = stride.data(),
          .position_tolerance = T(0),
          .rotation_tolerance = T(0),
          .step = step.view(),
          .newton_gain = T(newton_gain),
          .max_joint_step = T(spec.max_step),
          .iteration_factor = spec.iteration_factor,
          .joint_scale = is_scaled ? joint_scale.data() : nullptr,
          .max_lambda2 = T(spec.max_lambda2)};
  }

  IkProblem<T> within(double position, double rotation) const {
    IkProblem<T> made = ik;
    made.position_tolerance = T(position);
    made.rotation_tolerance = T(rotation);
    return made;
  }
};

// Converts a pose (4, 4) to twelve numbers with an orthonormal rotation; returns false if it is not
// a pose. Agrees with `pose` in supple/kinematics/arrays.py.
bool straight(const double* T, double* twelve);

// The data of a C-contiguous float64 array (n,) or (n, m); null for any other object.
const double* plain(nb::handle given, npy_intp n, npy_intp m = 0);

// Tolerances [m], [rad], the maximum number of starts of a target (0: the usual number), and the
// deadline by `now` of deadline.hpp (0: none).
struct Bounds {
  double position, rotation;
  int max_starts;
  long long deadline = 0;
};

class PySolver {
 public:
  PySolver(nb::object tasks, const SolverSpec& spec);

  // A request with these bounds; the caller fills in targets and results.
  struct Prepared {
    Prepared(PySolver& solver, const Bounds& bounds, const SolveRequest& said = {});
    Prepared(const Prepared&) = delete;  // it points into itself

    IkProblem<float> wide;
    IkProblem<double> fine, closest;
    SolveRequest request{};
  };

  int coordinates() const { return fine_.ik.chain.coordinates; }
  int targets() const { return fine_.ik.targets; }

  // Writes the numbers of a target: an array for one task, a list or tuple of arrays for several.
  // Returns false if the conversion needs Python.
  static constexpr int most_tasks = 8;
  bool take(nb::handle target, double* numbers) const;

  // Tasks that share no joint: the solver of each, its coordinates and its numbers of a target. A
  // single problem is then solved one subproblem at a time (supple/ik/subproblems.py).
  void divide(const std::vector<std::tuple<nb::object, Ints, Ints>>& parts);

  // Solves one problem.
  void run(const Bounds& bounds, const SolveRequest& said);

  // The robot, the tasks and the damping rule as C++ source for the GPU's compiler.
  std::string constants() const;

  // Size of the table of seeds: 0 until it is complete.
  int seeds() const { return table_ ? table_->view().entries : 0; }

  // Multiplications, additions, others, and the depth of one iteration.
  nb::tuple operations() const;

 private:
  struct Part {
    nb::object solver;
    Ints joints, numbers;
  };
  void* room(const SolveRequest& request);
  void run_parts(const Bounds& bounds, const SolveRequest& said);

  bool take_one(nb::handle target, int i, double* numbers) const;
  void arrange(long long deadline);

  nb::object tasks_;
  OwnedProblem<float> wide_;
  OwnedProblem<double> fine_, closest_;
  Ints posture_index_;
  Doubles posture_weight_, wrap_;
  bool has_wraps_;
  double float_tolerance_;
  std::vector<float> feature_scale_;
  std::vector<TargetSpec> target_specs_;
  int table_size_;
  const SolveKernel* arranged_ = nullptr;  // that the table and the memory were made for
  std::unique_ptr<SeedTable> table_;
  std::unique_ptr<Scratch> room_;  // reused from problem to problem
  std::vector<Part> parts_;        // empty if the tasks are one problem
  Doubles numbers_, start_, q_;    // of a subproblem
};

}  // namespace supple
