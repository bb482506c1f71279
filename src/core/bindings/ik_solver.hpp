// Position inverse kinematics of some tasks, as the extension keeps it: in both precisions, with
// the table of starts.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/batches.hpp"
#include "drivers/seed_table.hpp"
#include "bindings/tasks.hpp"

namespace supple {

// What starts of one precision share, owning its memory.
template <class T>
struct OwnedQuest {
  std::vector<T> weight, lower, upper, from, span, stride, joint_scale;
  OwnedStep<T> step;
  std::vector<Measure> measure;
  std::vector<Task<T>> task;
  IkProblem<T> ik{};

  OwnedQuest(const PyTasks& tasks, int primary, const Ints& measures, const Doubles& weights,
             const Doubles& joints, const StepSpec& how, const Doubles& scale)
      : weight(weights.begin(), weights.end()),
        step(how, int(measures.size()), tasks.chain<T>().coordinates) {
    const int n = tasks.chain<T>().coordinates;
    std::vector<T>* const each[] = {&lower, &upper, &from, &span, &stride, &joint_scale};
    for (int k = 0; k < 6; ++k) {
      for (int j = 0; j < n; ++j) each[k]->push_back(T(joints.at(k * n + j)));
    }
    for (int kind : measures) measure.push_back(Measure(kind));
    task = tasks.tasks<T>();
    for (std::size_t row = 0, k = 0; int(k) < primary; ++k) {
      for (int i = 0; i < task.at(k).rows; ++i) task[k].weight[i] = weight.at(row++);
    }
    ik = {tasks.chain<T>(),
          primary,
          int(measures.size()),
          tasks.targets(),
          task.data(),
          measure.data(),
          weight.data(),
          lower.data(),
          upper.data(),
          from.data(),
          span.data(),
          stride.data(),
          T(0),
          T(0),
          step.view(),
          T(scale.at(0)),
          T(scale.at(1)),
          int(scale.at(2)),
          nullptr,
          T(scale.at(5))};
    const auto is_scaled = [](T x) { return x != T(1); };
    if (std::any_of(joint_scale.begin(), joint_scale.end(), is_scaled)) {
      ik.joint_scale = joint_scale.data();
    }
  }

  IkProblem<T> within(double position, double rotation) const {
    IkProblem<T> made = ik;
    made.position_tolerance = T(position);
    made.rotation_tolerance = T(rotation);
    return made;
  }
};

// The twelve numbers of a pose, its rotation made orthonormal; false if it is none. As `pose` in
// supple/kinematics/arrays.py.
bool straight(const double* T, double* twelve);

// The numbers of a float64 C-contiguous array (n,) or (n, m); null if it is something else.
const double* plain(nb::handle given, npy_intp n, npy_intp m = 0);

// What is near enough [m], [rad], how many starts a target may have (0: the usual number), and
// until when by `now` of deadline.hpp (0: for ever).
struct Bounds {
  double position, rotation;
  int max_starts;
  long long deadline = 0;
};

class PySolver {
 public:
  // The first `primary` tasks are those to be met, with a measure and a weight for each row; others
  // are postures: `rest` (n,) says which of the numbers of a target is that of a coordinate, `pull`
  // (n,) how much it weighs; empty if there are none. `joints` is lower, upper, from, span, stride,
  // scale, and a whole turn, or 0 (7 n); `step` whose damping and direction descend; `scale`
  // newton_gain, the longest step, the pace and the tolerance of the search; `entries` the size of
  // the table of starts, in which the numbers of targets are scaled. `weights` say what is closest,
  // `eased` (rows,) are those of the search; then `scale` has the newton_gain with the former, and
  // the largest λ² of scaled joints. `kinds` is a `Kind` of target and where its numbers begin for
  // each task, in the caller's order; empty if there is another kind.
  PySolver(nb::object tasks, int primary, const Ints& measures, const Doubles& weights,
           const Doubles& eased, const Doubles& joints, const StepSpec& step, const Ints& rest,
           const Doubles& pull, const Doubles& scale, const Doubles& feature_scale, int entries,
           const Ints& kinds);

  // A request with these bounds, for problems of which the caller says the rest.
  struct Prepared {
    Prepared(PySolver& solver, const Bounds& bounds, const SolveRequest& said = {});
    Prepared(const Prepared&) = delete;  // it points into itself

    IkProblem<float> wide;
    IkProblem<double> fine, closest;
    SolveRequest request{};
  };

  int coordinates() const { return fine_.ik.chain.coordinates; }
  int targets() const { return fine_.ik.targets; }

  // The numbers of a target, if it is an array as the one task takes it, or of several tasks a list
  // or tuple of them.
  static constexpr std::size_t most_tasks = 8;
  bool take(nb::handle target, double* numbers) const;

  // Tasks that share no joint: each a solver, which coordinates and which of a target's numbers are
  // its own. One problem is then solved part by part. See supple/solve/parts.py.
  void divide(const std::vector<std::tuple<nb::object, Ints, Ints>>& parts);

  // One problem: its numbers, its start, and where the answer goes.
  void run(const Bounds& bounds, const SolveRequest& said);

  // What the GPU's compiler is to know of the robot, the tasks and the rule.
  std::string constants() const;

  // How many entries the table of starts has: 0 until it is complete.
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

  enum class Kind : int { pose, position, axis };  // of targets: (4, 4), (3,), (3,)
  bool take_one(nb::handle target, int i, double* numbers) const;
  void arrange(long long deadline);

  nb::object tasks_;
  OwnedQuest<float> wide_;
  OwnedQuest<double> fine_, closest_;
  Ints rest_;
  Doubles pull_, turn_;
  bool turns_;
  double coarse_;
  std::vector<float> feature_scale_;
  Ints kinds_;
  int entries_;
  const SolveKernel* arranged_ = nullptr;  // for which the table and the room are
  std::unique_ptr<SeedTable> table_;
  std::unique_ptr<Scratch> room_;  // working memory for one problem after the other
  std::vector<Part> parts_;        // if there are several, or joints that are in none
  Doubles numbers_, start_, q_;    // of a part
};

}  // namespace supple
