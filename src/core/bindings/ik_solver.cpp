// Tuned constants are explained in docs/constants.md.
#define NO_IMPORT_ARRAY
#include "bindings/ik_solver.hpp"

#include <algorithm>
#include <cmath>

#include "bindings/arrays.hpp"
#include "drivers/gpu_constants.hpp"
#include "drivers/operation_count.hpp"
#include "kernels/isa.hpp"

namespace supple {
namespace {

// Damping λ² of the first steps that are stored in the table of seeds, relative to newton_gain.
constexpr double first_damping = 1 / 600.0;

// Raises ValueError if the limbs are not consecutive parts of the rows, or an index of a joint is
// invalid.
void check_limbs(const SolverSpec& spec, std::size_t rows, std::size_t nv) {
  if (spec.limb_row.empty()) return;
  const auto check_parts = [](const char* name, const Ints& begin, std::size_t count) {
    check_at_least(name, 0, begin.front());
    for (std::size_t k = 1; k < begin.size(); ++k) check_at_least(name, begin[k - 1], begin[k]);
    check_index(name, int(count), int(count) + 1, begin.back());
  };
  check_parts("limb_row", spec.limb_row, rows);
  check_length("limb_first_joint", spec.limb_row.size() + 1, spec.limb_first_joint.size());
  check_parts("limb_first_joint", spec.limb_first_joint, spec.limb_joint.size());
  for (int j : spec.limb_joint) check_index("limb_joint", 0, int(nv), j);
}

// Raises ValueError if the size of a field does not match the tasks.
const SolverSpec& checked(const SolverSpec& spec, const PyTasks& tasks) {
  const auto& all = tasks.tasks<double>();
  check_index("primary", 1, int(all.size()) + 1, spec.primary);
  std::size_t rows = 0;
  for (int k = 0; k < spec.primary; ++k) rows += std::size_t(all[k].rows);
  check_length("measures", rows, spec.measures.size());
  check_length("weights", rows, spec.weights.size());
  check_length("bounded_weights", rows, spec.bounded_weights.size());
  check_length("relaxed_weights", rows, spec.relaxed_weights.size());
  const std::size_t nq = std::size_t(tasks.chain<double>().nq);
  const std::size_t nv = std::size_t(tasks.chain<double>().nv);
  check_length("lower", nq, spec.lower.size());
  check_length("upper", nq, spec.upper.size());
  check_length("seed_lower", nq, spec.seed_lower.size());
  check_length("seed_range", nq, spec.seed_range.size());
  check_length("seed_stride", nq, spec.seed_stride.size());
  if (!spec.joint_scale.empty()) check_length("joint_scale", nv, spec.joint_scale.size());
  check_length("joint_unit", spec.joint_scale.size(), spec.joint_unit.size());
  check_length("max_joint_steps", spec.joint_scale.size(), spec.max_joint_steps.size());
  check_length("wrap", nq, spec.wrap.size());
  if (!spec.posture_index.empty()) check_length("posture_index", nq, spec.posture_index.size());
  for (int index : spec.posture_index) check_index("posture_index", -1, tasks.targets(), index);
  check_length("posture_weight", spec.posture_index.size(), spec.posture_weight.size());
  check_length("feature_scale", std::size_t(tasks.targets()), spec.feature_scale.size());
  check_at_least("table_size", 1, spec.table_size);
  check_limbs(spec, rows, nv);
  check_index("the number of targets", 0, PySolver::max_tasks + 1, int(spec.targets.size()));
  for (const TargetSpec& target : spec.targets) {
    const int size = target.kind == TargetKind::direction ? 3 : 12;
    check_index("begin", 0, tasks.targets() - size + 1, target.begin);
  }
  return spec;
}

}  // namespace

PySolver::PySolver(nb::object tasks, const SolverSpec& spec)
    : tasks_(std::move(tasks)),
      wide_(nb::cast<const PyTasks&>(tasks_), checked(spec, nb::cast<const PyTasks&>(tasks_)),
            spec.relaxed_weights, spec.newton_gain),
      minimized_(nb::cast<const PyTasks&>(tasks_), spec, spec.bounded_weights,
                 spec.bounded_newton_gain),
      fine_(nb::cast<const PyTasks&>(tasks_), spec, spec.relaxed_weights, spec.newton_gain),
      closest_(nb::cast<const PyTasks&>(tasks_), spec, spec.weights, spec.closest_newton_gain),
      posture_index_(spec.posture_index),
      posture_weight_(spec.posture_weight),
      wrap_(spec.wrap),
      has_wraps_(std::any_of(wrap_.begin(), wrap_.end(), [](double wrap) { return wrap > 0; })),
      float_tolerance_(spec.float_tolerance),
      default_starts_(spec.default_starts),
      feature_scale_(spec.feature_scale.begin(), spec.feature_scale.end()),
      target_specs_(spec.targets),
      table_size_(spec.table_size),
      reach_(std::make_unique<ReachTable>(closest_.ik)) {}

std::string PySolver::constants() const {
  return text::constants("RobotConstants", fine_.ik, feature_scale_.data()) +
         text::constants("Closest", closest_.ik, feature_scale_.data()) +
         text::posture_constants(posture_index_, posture_weight_, wrap_);
}

nb::tuple PySolver::operations() const {
  const Operations count = supple::operations(fine_.ik);
  return nb::make_tuple(count.multiplications, count.additions, count.others, count.depth);
}

bool PySolver::read_target(nb::handle target, bool single, double* numbers) const {
  const int count = int(target_specs_.size());
  if (count < 1) return false;
  if (count == 1 && (single || PyArray_CheckExact(target.ptr())))
    return read_one_target(target, 0, numbers);
  if (items_in(target.ptr()) != count) return false;
  for (int i = 0; i < count; ++i) {
    if (!read_one_target(item_of(target.ptr(), i), i, numbers)) return false;
  }
  return true;
}

bool PySolver::read_one_target(nb::handle target, int i, double* numbers) const {
  const TargetKind kind = target_specs_[i].kind;
  double* const to = numbers + target_specs_[i].begin;
  if (kind == TargetKind::pose) {
    double T[16];
    return put_numbers(target, 4, 4, T) && read_pose(T, to);
  }
  double x[3];
  if (!put_numbers(target, 1, 3, x)) return false;
  if (kind == TargetKind::position) {
    read_position(x, to);
    return true;
  }
  read_direction(x[0], x[1], x[2], to);
  return std::isfinite(to[0] + to[1] + to[2]);
}

PySolver::Prepared::Prepared(const PySolver& solver)
    : wide(solver.wide_.ik),
      minimized(solver.minimized_.ik),
      fine(solver.fine_.ik),
      closest(solver.closest_.ik) {}

PySolver::Prepared::Prepared(PySolver& solver, const Bounds& bounds, const SolveRequest& arrays)
    : Prepared(solver) {
  set(solver, bounds, arrays);
}

void PySolver::Prepared::set(PySolver& solver, const Bounds& bounds, const SolveRequest& arrays) {
  const float position = float(std::max(bounds.position_tolerance, solver.float_tolerance_));
  const float rotation = float(std::max(bounds.rotation_tolerance, 2e-5));
  for (IkProblem<float>* ik : {&wide, &minimized}) {
    ik->position_tolerance = position;
    ik->rotation_tolerance = rotation;
  }
  for (IkProblem<double>* ik : {&fine, &closest}) {
    ik->position_tolerance = bounds.position_tolerance;
    ik->rotation_tolerance = bounds.rotation_tolerance;
  }
  request = arrays;
  solver.prepare_table(bounds.deadline);
  request.search = &wide;
  request.minimized = &minimized;
  request.polish = &fine;
  request.closest = &closest;
  request.posture = solver.posture_index_.empty() ? nullptr : solver.posture_index_.data();
  request.posture_weight = solver.posture_weight_.data();
  request.table = &solver.table_->view();
  request.base = solver.base_ ? &solver.base_->base : nullptr;
  request.reach = solver.reach_.get();
  request.wrap = solver.has_wraps_ ? solver.wrap_.data() : nullptr;
  const int starts = bounds.max_seeds ? bounds.max_seeds : solver.default_starts_;
  request.budget = restart_budget(starts, request.nearest);
  request.max_seeds = request.budget.all;
}

PySolver::Subproblem PySolver::subproblem_of(const GivenSubproblem& given) const {
  const auto& [solver, joints, numbers] = given;
  const PySolver& own = nb::cast<const PySolver&>(solver);
  check_length("joints", std::size_t(own.nq()), joints.size());
  check_length("numbers", std::size_t(own.targets()), numbers.size());
  for (int j : joints) check_index("joints", 0, nq(), j);
  for (int k : numbers) check_index("numbers", 0, targets(), k);
  return {solver, joints, numbers};
}

void PySolver::set_subproblems(const std::vector<GivenSubproblem>& given) {
  std::vector<Subproblem> made;
  for (const GivenSubproblem& each : given) made.push_back(subproblem_of(each));
  subproblems_ = std::move(made);
}

void PySolver::set_base(nb::object pose, const Ints& joints, const Doubles& rest,
                        const Doubles& axis, const Doubles& reached,
                        const std::vector<GivenSubproblem>& limbs) {
  const PySolver& own = nb::cast<const PySolver&>(pose);
  check_length("joints", std::size_t(own.nq()), joints.size());
  for (int j : joints) check_index("joints", 0, nq(), j);
  check_length("the target of the base", 12, std::size_t(own.targets()));
  check_length("rest", 12, rest.size());
  check_length("axis", 3, axis.size());
  check_length("reached", std::size_t(targets()), reached.size());
  auto made = std::make_unique<OwnedBase>(OwnedBase{pose, joints, rest, axis, reached, {}, {}});
  for (const GivenSubproblem& each : limbs) {
    made->limbs.push_back(subproblem_of(each));
  }
  for (const Subproblem& limb : made->limbs) {
    const PySolver& solver = *nb::inst_ptr<PySolver>(limb.solver);
    made->limb.push_back({&solver.wide_.ik, nullptr, limb.joints.data(), limb.numbers.data()});
  }
  made->base = {&own.fine_.ik,     made->joints.data(),  made->rest.data(),
                made->axis.data(), made->reached.data(), 0,
                made->limb.data()};
  base_ = std::move(made);
}

void PySolver::complete() {
  if (subproblems_.empty()) prepare_table(0);
  for (const Subproblem& part : subproblems_) nb::inst_ptr<PySolver>(part.solver)->complete();
}

bool PySolver::PartRejection::rejects(const void* context, std::ptrdiff_t problem,
                                      const double* part) {
  const auto& [whole, n, joints] = *static_cast<const PartRejection*>(context);
  static thread_local Doubles q;
  q.assign(whole.q + problem * n, whole.q + (problem + 1) * n);
  for (std::size_t j = 0; j < joints.size(); ++j) q[joints[j]] = part[j];
  return whole.rejects(whole.reject_context, problem, q.data());
}

void PySolver::run(const Bounds& bounds, const SolveRequest& arrays) {
  const nb::ft_lock_guard alone(workspace_mutex_);
  if (subproblems(arrays)) {
    const auto run_one = [](PySolver& solver, int, const Bounds& within, const SolveRequest& one) {
      solver.run(within, one);
    };
    return run_subproblems(bounds, arrays, subproblem_arrays_, run_one);
  }
  if (!prepared_) prepared_ = std::make_unique<Prepared>(*this);
  prepared_->set(*this, bounds, arrays);
  SolveRequest& request = prepared_->request;
  long long deadline = bounds.deadline;
  if (deadline) {
    request.stop = &past;
    request.stop_context = &deadline;
  }
  isa().solve->run(request, workspace(request));
}

void* PySolver::workspace(const SolveRequest& request) {
  if (!workspace_) {
    workspace_ = std::make_unique<Scratch>(isa().solve->scratch(request));
    isa().solve->prepare(request, workspace_->get());
  }
  return workspace_->get();
}

// Builds the table of seeds in the layout for the lanes of this instruction set. Building may take
// half the time until the deadline. Searches do not use the table until it is complete.
void PySolver::prepare_table(long long deadline) {
  const nb::ft_lock_guard alone(table_mutex_);
  const SolveKernel* const kernel = isa().solve;
  if (kernel != prepared_for_) {
    prepared_for_ = kernel;
    workspace_.reset();
    const double lambda2 = first_damping * fine_.ik.newton_gain;
    table_ = std::make_unique<SeedTable>(fine_.ik, feature_scale_, wrap_, table_size_,
                                         kernel->lanes, lambda2);
  }
  if (base_) {
    bool complete = true;
    for (std::size_t k = 0; k < base_->limbs.size(); ++k) {
      PySolver& limb = *nb::inst_ptr<PySolver>(base_->limbs[k].solver);
      limb.prepare_table(share_of_time(deadline, 2));
      base_->limb[k].table = &limb.table_->view();
      complete = complete && limb.table_->view().entries;
    }
    base_->base.limbs = complete ? int(base_->limb.size()) : 0;
  }
  if (table_->view().entries) return;
  table_->build(share_of_time(deadline, 2));
}

}  // namespace supple
