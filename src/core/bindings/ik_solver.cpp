// Tuned constants and what chose them: docs/constants.md.
#define NO_IMPORT_ARRAY
#include "bindings/ik_solver.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "bindings/arrays.hpp"
#include "drivers/gpu_constants.hpp"
#include "drivers/operation_count.hpp"
#include "kernels/isa.hpp"
#include "bindings/deadline.hpp"

namespace supple {
namespace {

constexpr double first_damping = 1 / 600.0;  // of a table's first steps, relative to newton_gain

}  // namespace

const double* plain(nb::handle given, npy_intp n, npy_intp m) {
  if (!PyArray_CheckExact(given.ptr())) return nullptr;
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  const npy_intp* const shape = PyArray_DIMS(array);
  if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(array) ||
      PyArray_NDIM(array) != (m ? 2 : 1) || shape[0] != n || (m && shape[1] != m)) {
    return nullptr;
  }
  return static_cast<const double*>(PyArray_DATA(array));
}

bool straight(const double* T, double* twelve) {
  const double last[4] = {0, 0, 0, 1};
  for (int i = 0; i < 4; ++i) {
    if (!(std::abs(T[12 + i] - last[i]) <= 1e-6)) return false;
  }
  double (*R)[3] = reinterpret_cast<double (*)[3]>(twelve);  // its columns, and the position
  for (int c = 0; c < 4; ++c) {
    for (int r = 0; r < 3; ++r) R[c][r] = T[4 * r + c];
  }
  for (int pass = 0;; ++pass) {
    double G[3][3], off = 0;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        G[i][j] = R[i][0] * R[j][0] + R[i][1] * R[j][1] + R[i][2] * R[j][2];
        const double far = std::abs(G[i][j] - (i == j));
        if (!(far <= 1e-6)) return false;
        off = std::max(off, far);
      }
    }
    if (off <= 1e-14 || pass == 2) break;
    double next[3][3];
    for (int i = 0; i < 3; ++i) {
      for (int r = 0; r < 3; ++r) {
        next[i][r] = 1.5 * R[i][r];
        for (int j = 0; j < 3; ++j) next[i][r] -= 0.5 * R[j][r] * G[j][i];
      }
    }
    std::memcpy(R, next, sizeof(next));
  }
  const double det = R[0][0] * (R[1][1] * R[2][2] - R[1][2] * R[2][1]) -
                     R[0][1] * (R[1][0] * R[2][2] - R[1][2] * R[2][0]) +
                     R[0][2] * (R[1][0] * R[2][1] - R[1][1] * R[2][0]);
  return det > 0;
}

namespace {

// Raises ValueError for a field that does not fit the tasks.
const SolverSpec& checked(const SolverSpec& spec, const PyTasks& tasks) {
  const auto& all = tasks.tasks<double>();
  check_index("primary", 1, int(all.size()) + 1, spec.primary);
  std::size_t rows = 0;
  for (int k = 0; k < spec.primary; ++k) rows += std::size_t(all[k].rows);
  check_length("measures", rows, spec.measures.size());
  check_length("weights", rows, spec.weights.size());
  check_length("relaxed_weights", rows, spec.relaxed_weights.size());
  const std::size_t n = std::size_t(tasks.chain<double>().coordinates);
  check_length("lower", n, spec.lower.size());
  check_length("upper", n, spec.upper.size());
  check_length("seed_low", n, spec.seed_low.size());
  check_length("seed_span", n, spec.seed_span.size());
  check_length("seed_stride", n, spec.seed_stride.size());
  check_length("joint_scale", n, spec.joint_scale.size());
  check_length("wrap", n, spec.wrap.size());
  if (!spec.posture_index.empty()) check_length("posture_index", n, spec.posture_index.size());
  for (int index : spec.posture_index) check_index("posture_index", -1, tasks.targets(), index);
  check_length("posture_weight", spec.posture_index.size(), spec.posture_weight.size());
  check_length("feature_scale", std::size_t(tasks.targets()), spec.feature_scale.size());
  check_at_least("table_size", 1, spec.table_size);
  check_index("the number of targets", 0, PySolver::most_tasks + 1, int(spec.targets.size()));
  for (const TargetSpec& target : spec.targets) {
    const int size = target.kind == TargetKind::axis ? 3 : 12;
    check_index("begin", 0, tasks.targets() - size + 1, target.begin);
  }
  return spec;
}

}  // namespace

PySolver::PySolver(nb::object tasks, const SolverSpec& spec)
    : tasks_(std::move(tasks)),
      wide_(nb::cast<const PyTasks&>(tasks_), checked(spec, nb::cast<const PyTasks&>(tasks_)),
            spec.relaxed_weights, spec.newton_gain),
      fine_(nb::cast<const PyTasks&>(tasks_), spec, spec.relaxed_weights, spec.newton_gain),
      closest_(nb::cast<const PyTasks&>(tasks_), spec, spec.weights, spec.closest_newton_gain),
      posture_index_(spec.posture_index),
      posture_weight_(spec.posture_weight),
      wrap_(spec.wrap),
      has_wraps_(std::any_of(wrap_.begin(), wrap_.end(), [](double wrap) { return wrap > 0; })),
      float_tolerance_(spec.float_tolerance),
      feature_scale_(spec.feature_scale.begin(), spec.feature_scale.end()),
      target_specs_(spec.targets),
      table_size_(spec.table_size) {}

std::string PySolver::constants() const {
  return text::constants("RobotConstants", fine_.ik, feature_scale_.data()) +
         text::constants("Closest", closest_.ik, feature_scale_.data()) +
         text::wishes(posture_index_, posture_weight_, wrap_);
}

nb::tuple PySolver::operations() const {
  const Operations count = supple::operations(fine_.ik);
  return nb::make_tuple(count.multiplications, count.additions, count.others, count.depth);
}

bool PySolver::take(nb::handle target, double* numbers) const {
  const int count = int(target_specs_.size());
  if (count < 1) return false;
  if (count == 1) return take_one(target, 0, numbers);  // a list would be a batch
  if ((!PyList_CheckExact(target.ptr()) && !PyTuple_CheckExact(target.ptr())) ||
      PySequence_Fast_GET_SIZE(target.ptr()) != count) {
    return false;
  }
  for (int i = 0; i < count; ++i) {
    if (!take_one(PySequence_Fast_GET_ITEM(target.ptr(), i), i, numbers)) return false;
  }
  return true;
}

bool PySolver::take_one(nb::handle target, int i, double* numbers) const {
  const TargetKind kind = target_specs_[i].kind;
  double* const to = numbers + target_specs_[i].begin;
  if (kind == TargetKind::pose) {
    const double* const pose = plain(target, 4, 4);
    return pose && straight(pose, to);
  }
  const double* const x = plain(target, 3);
  if (!x) return false;
  if (kind == TargetKind::position) {
    constexpr double unturned[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    std::copy_n(unturned, 9, to);
    std::copy_n(x, 3, to + 9);
    return true;
  }
  const double length = std::hypot(x[0], x[1], x[2]);
  for (int c = 0; c < 3; ++c) to[c] = x[c] / length;
  return length > 1e-9 && length < 1e9;
}

PySolver::Prepared::Prepared(PySolver& solver, const Bounds& bounds, const SolveRequest& said)
    : wide(solver.wide_.within(std::max(bounds.position, solver.float_tolerance_),
                               std::max(bounds.rotation, 2e-5))),
      fine(solver.fine_.within(bounds.position, bounds.rotation)),
      closest(solver.closest_.within(bounds.position, bounds.rotation)),
      request(said) {
  solver.arrange(bounds.deadline);
  request.search = &wide;
  request.polish = &fine;
  request.closest = &closest;
  request.posture = solver.posture_index_.empty() ? nullptr : solver.posture_index_.data();
  request.posture_weight = solver.posture_weight_.data();
  request.table = &solver.table_->view();
  request.wrap = solver.has_wraps_ ? solver.wrap_.data() : nullptr;
  request.budget = restart_budget(bounds.max_starts, request.nearest);
  request.max_starts = request.budget.all;
  request.max_solutions = 1;
}

void PySolver::divide(const std::vector<std::tuple<nb::object, Ints, Ints>>& parts) {
  std::vector<Part> made;
  for (const auto& [solver, joints, numbers] : parts) {
    const PySolver& own = nb::cast<const PySolver&>(solver);
    const auto inside = [](const Ints& which, int size) {
      return std::all_of(which.begin(), which.end(), [=](int i) { return i >= 0 && i < size; });
    };
    if (int(joints.size()) != own.coordinates() || int(numbers.size()) != own.targets() ||
        !inside(joints, coordinates()) || !inside(numbers, targets())) {
      throw nb::value_error("joints and numbers of a subproblem must be indices of this problem");
    }
    made.push_back({solver, joints, numbers});
  }
  parts_ = std::move(made);
}

void PySolver::run(const Bounds& bounds, const SolveRequest& said) {
  if (!parts_.empty()) return run_parts(bounds, said);
  Prepared asked(*this, bounds, said);
  long long deadline = bounds.deadline;
  if (deadline) {
    asked.request.stop = &past;
    asked.request.stop_context = &deadline;
  }
  isa().solve->run(asked.request, room(asked.request));
}

// Joints in no subproblem stay at q0, or as near to zero as their limits allow. The result has the
// largest errors, the worst outcome and the total effort. Subproblems share the remaining time.
void PySolver::run_parts(const Bounds& bounds, const SolveRequest& said) {
  *said.outcome = Outcome::solved;
  *said.found = 1;
  said.error[0] = said.error[1] = 0;
  said.effort[0] = 0;
  said.effort[1] = 1;
  for (int j = 0; j < coordinates(); ++j) {
    const double x = said.q0 ? said.q0[j] : 0;
    if (!(std::abs(x) <= max_input)) *said.outcome = Outcome::nonfinite;
    said.q[j] = std::clamp(x, fine_.ik.lower[j], fine_.ik.upper[j]);
  }
  long long left = (long long)parts_.size();
  for (const Part& part : parts_) {
    if (*said.outcome == Outcome::nonfinite) return;
    Bounds within = bounds;
    if (bounds.deadline) {
      const long long time = now();
      within.deadline = time + std::max(0LL, bounds.deadline - time) / left--;
    }
    const auto picked = [](Doubles& to, const double* from, const Ints& which) {
      to.resize(which.size());
      for (std::size_t i = 0; i < which.size(); ++i) to[i] = from[which[i]];
      return to.data();
    };
    Outcome outcome;
    double error[2];
    int effort[2], found;
    std::atomic<std::ptrdiff_t> next{0};
    q_.resize(part.joints.size());
    SolveRequest own = said;
    own.target = picked(numbers_, said.target, part.numbers);
    if (said.q0) own.q0 = picked(start_, said.q0, part.joints);
    own.q = q_.data();
    own.outcome = &outcome;
    own.error = error;
    own.effort = effort;
    own.found = &found;
    own.next = &next;
    nb::inst_ptr<PySolver>(part.solver)->run(within, own);
    for (std::size_t i = 0; i < part.joints.size(); ++i) said.q[part.joints[i]] = q_[i];
    for (int k = 0; k < 2; ++k) said.error[k] = std::max(said.error[k], error[k]);
    *said.outcome = std::max(*said.outcome, outcome);
    said.effort[0] += effort[0];
    said.effort[1] += std::max(0, effort[1] - 1);
  }
}

void* PySolver::room(const SolveRequest& request) {
  if (!room_) {
    room_ = std::make_unique<Scratch>(isa().solve->scratch(request));
    isa().solve->prepare(request, room_->get());
  }
  return room_->get();
}

// Builds the table of seeds in the order in which the lanes of this instruction set read it. The
// table may take half the time until a deadline; a search without a complete table does without it.
void PySolver::arrange(long long deadline) {
  const SolveKernel* const kernel = isa().solve;
  if (kernel != arranged_) {
    arranged_ = kernel;
    room_.reset();
    const double lambda2 = first_damping * fine_.ik.newton_gain;
    table_ =
        std::make_unique<SeedTable>(fine_.ik, feature_scale_, table_size_, kernel->lanes, lambda2);
  }
  if (table_->view().entries) return;
  long long until = 0;
  if (deadline) {
    const long long time = now();
    until = time + std::max(0LL, deadline - time) / 2;
  }
  table_->build(until);
}

}  // namespace supple
