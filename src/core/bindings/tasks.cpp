#define NO_IMPORT_ARRAY
#include "bindings/tasks.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>

namespace supple {

using namespace nb::literals;

template <class T>
OwnedTasks<T>::OwnedTasks(const std::vector<TaskSpec>& specs) {
  for (const TaskSpec& spec : specs) {
    coordinate_.push_back(spec.rows);
    point_.push_back(spec.points);
    share_.emplace_back(spec.shares.begin(), spec.shares.end());
    weight_.emplace_back(spec.weights.begin(), spec.weights.end());
    lower_.emplace_back(spec.lower.begin(), spec.lower.end());
    upper_.emplace_back(spec.upper.begin(), spec.upper.end());
    curve_.emplace_back(spec.curve.begin(), spec.curve.end());
    Task<T> task{.goal = spec.goal,
                 .frame = spec.frame,
                 .base = spec.base,
                 .axes = spec.axes,
                 .rows = int(spec.rows.size()),
                 .row = {},
                 .weight = {},
                 .coordinate = nullptr,
                 .posture_weight = nullptr,
                 .alternate = spec.alternate,
                 .about = spec.about,
                 .ranged = !spec.lower.empty()};
    if (traits_of(spec.goal).is_linear) {
      task.coordinate = coordinate_.back().data();
      task.posture_weight = weight_.back().data();
      task.posture_lower = lower_.back().data();
      task.posture_upper = upper_.back().data();
    } else {
      std::copy(spec.rows.begin(), spec.rows.end(), task.row);
      std::copy(spec.weights.begin(), spec.weights.end(), task.weight);
      std::copy(spec.lower.begin(), spec.lower.end(), task.lower);
      std::copy(spec.upper.begin(), spec.upper.end(), task.upper);
    }
    task.points = int(spec.points.size());
    task.point = point_.back().data();
    task.share = share_.back().data();
    task.leader = spec.leader;
    task.curve = spec.curve.empty() ? nullptr : curve_.back().data();
    tasks_.push_back(task);
  }
}

namespace {

const std::vector<TaskSpec>& checked(const std::vector<TaskSpec>& specs, const PyChain& chain) {
  check_at_least("the number of tasks", 1, int(specs.size()));
  for (const TaskSpec& spec : specs) {
    const bool linear = traits_of(spec.goal).is_linear;
    const int rows = linear ? chain.owned<double>().nv : 6;
    check_index("the number of rows", 1, rows + 1, int(spec.rows.size()));
    check_length("weights", spec.rows.size(), spec.weights.size());
    for (int row : spec.rows) check_index("rows", 0, linear ? rows : task_tilt + 1, row);
    for (const Doubles* ends : {&spec.lower, &spec.upper}) {
      if (!spec.lower.empty()) check_length("lower and upper", spec.rows.size(), ends->size());
    }
    check_length("shares", spec.points.size(), spec.shares.size());
    for (int point : spec.points) check_index("points", 0, chain.frames(), point);
    check_index("leader", -1, chain.owned<double>().nv, spec.leader);
    if (!spec.curve.empty()) check_length("curve", 5, spec.curve.size());
    check_index("about", -1, 3, spec.about);
    check_index("frame", 0, chain.frames(), spec.frame);
    check_index("base", task_world, chain.frames(), spec.base);
    check_index("axes", task_axes_spatial, chain.frames(), spec.axes);
  }
  return specs;
}

}  // namespace

PyTasks::PyTasks(const PyChain& chain, const std::vector<TaskSpec>& tasks)
    : chain_(chain), f64_(checked(tasks, chain)), f32_(tasks) {
  for (const Task<double>& task : f64_.view()) {
    rows_ += task.rows;
    targets_ += target_size(task);
    velocities_ += velocity_size(task);
  }
}

int PyTasks::followers() const {
  const Chain<double> chain = this->chain<double>();
  std::set<int> led;
  for (int j = 0; j < chain.joints; ++j) led.insert(chain.joint[j].v_index);
  return chain.joints - int(led.size());
}
Ints PyTasks::target_sizes() const {
  Ints sizes;
  for (const Task<double>& task : f64_.view()) sizes.push_back(target_size(task));
  return sizes;
}

Ints PyTasks::velocity_sizes() const {
  Ints sizes;
  for (const Task<double>& task : f64_.view()) sizes.push_back(velocity_size(task));
  return sizes;
}

template <class T>
std::ptrdiff_t PyTasks::run(TaskRequest<T> request, int threads) const {
  if (request.count == 0) return -1;
  const TaskKernel<T>* kernel;
  if constexpr (sizeof(T) == sizeof(double)) {
    kernel = &isa().tasks->f64;
  } else {
    kernel = &isa().tasks->f32;
  }
  const Chain<T> chain = this->chain<T>();
  request.tasks = int(tasks<T>().size());
  request.task = tasks<T>().data();
  request.rows = rows_;
  request.targets = targets_;
  request.velocities = velocities_;
  const std::size_t bytes = kernel->scratch(chain, request);
  if (request.count < 32) {  // for few rows, releasing the GIL takes longer than the work
    Scratch scratch(bytes);
    return kernel->run(chain, request, 0, request.count, scratch.get());
  }
  return over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    Scratch scratch(bytes);
    return kernel->run(chain, request, begin, end, scratch.get());
  });
}

namespace {

// Calls work(0.0) or work(0.0f), whichever has the type of the batch.
template <class Work>
void in_precision(const Batch& batch, Work&& work) {
  batch.is_double() ? work(double()) : work(float());
}

}  // namespace

nb::tuple PyTasks::linearize(nb::handle q, nb::handle targets, int threads) const {
  const int n = chain<double>().nv;
  const Configurations batch(q, chain_.layout(), "q");
  const Batch target(targets, targets_, "targets");
  if (!batch.same_rows(target))
    throw nb::value_error("q and targets must have the same batch axes and type");
  const nb::object J = batch.result({}, {rows_, n}), e = batch.result({}, {rows_});
  std::ptrdiff_t bad = -1;
  in_precision(batch, [&]<class T>(T) {
    TaskRequest<T> request{};
    request.count = batch.count();
    request.q = batch.data<T>();
    request.target = target.data<T>();
    request.J = data_of<T>(J);
    request.e = data_of<T>(e);
    bad = run(request, threads);
  });
  return nb::make_tuple(J, e, bad);
}

// Returns the data of `targets`, with one row for each configuration, or null for None. Only tasks
// with a tilt need the target to convert a velocity to rows.
template <class T>
const T* PyTasks::optional_targets(const Batch& q, nb::handle targets) const {
  if (targets.is_none()) return nullptr;
  const Batch target(targets, targets_, "targets");
  if (!q.same_rows(target))
    throw nb::value_error("q and targets must have the same batch axes and type");
  return target.data<T>();
}

nb::object PyTasks::bias_acceleration(nb::handle q, nb::handle qd, int threads,
                                      nb::handle targets) const {
  const int n = chain<double>().nv;
  const Configurations batch(q, chain_.layout(), "q");
  const Batch speed = PyChain::paired(batch, qd, n);
  const nb::object bias_acceleration = batch.result({}, {rows_});
  in_precision(batch, [&]<class T>(T) {
    TaskRequest<T> request{};
    request.count = batch.count();
    request.q = batch.data<T>();
    request.qd = speed.data<T>();
    request.target = optional_targets<T>(batch, targets);
    request.bias_acceleration = data_of<T>(bias_acceleration);
    const std::ptrdiff_t bad = run(request, threads);
    if (bad >= 0) PyChain::raise_nonfinite(batch, &speed, bad);
  });
  return bias_acceleration;
}

nb::tuple PyTasks::command(nb::handle q, nb::handle velocities, int threads,
                           nb::handle targets) const {
  const Configurations batch(q, chain_.layout(), "q");
  const Batch velocity(velocities, velocities_, "velocities");
  if (!batch.same_rows(velocity))
    throw nb::value_error("q and velocities must have the same batch axes and type");
  const nb::object command = batch.result({}, {rows_});
  std::ptrdiff_t bad = -1;
  in_precision(batch, [&]<class T>(T) {
    TaskRequest<T> request{};
    request.count = batch.count();
    request.q = batch.data<T>();
    request.velocity = velocity.data<T>();
    request.target = optional_targets<T>(batch, targets);
    request.command = data_of<T>(command);
    bad = run(request, threads);
  });
  return nb::make_tuple(command, bad);
}

#define SUPPLE_TASKS_SIG(name, more, result)                    \
  nb::sig("def " name "(self, q: numpy.typing.ArrayLike, " more \
          ": numpy.typing.ArrayLike, threads: int) -> " result)
#define SUPPLE_RATES_SIG(name, more, result)                               \
  nb::sig("def " name "(self, q: numpy.typing.ArrayLike, " more            \
          ": numpy.typing.ArrayLike, threads: int, targets: " SUPPLE_ARRAY \
          " | None = None) -> " result)

void bind_tasks(nb::module_& m) {
  nb::class_<GoalTraits>(m, "GoalTraits", "Traits of a goal (include/supple/task/spec.hpp).")
      .def_ro("target_size", &GoalTraits::target_size)
      .def_ro("velocity_size", &GoalTraits::velocity_size)
      .def_ro("target", &GoalTraits::target)
      .def_ro("has_frame", &GoalTraits::has_frame)
      .def_ro("is_twist", &GoalTraits::is_twist)
      .def_ro("is_sum", &GoalTraits::is_sum)
      .def_ro("is_linear", &GoalTraits::is_linear);
  m.def(
      "traits_of", [](Goal goal) { return traits_of(goal); }, "goal"_a,
      "Return the traits of a goal, for code that does not compute its rows.");
  nb::class_<PyTasks>(m, "Tasks", "Tasks of a robot, ready for the kernel.")
      .def(nb::init<const PyChain&, const std::vector<TaskSpec>&>(), nb::kw_only(), "chain"_a,
           "tasks"_a)
      .def_prop_ro("rows", &PyTasks::rows, "Number of rows of J.")
      .def_prop_ro("targets", &PyTasks::targets, "Number of values in all targets.")
      .def_prop_ro("velocities", &PyTasks::velocities, "Number of values in all velocities.")
      .def_prop_ro("followers", &PyTasks::followers,
                   "Number of joints that share a coordinate with an earlier one.")
      .def_prop_ro("target_sizes", &PyTasks::target_sizes, "Number of values in each target.")
      .def_prop_ro("velocity_sizes", &PyTasks::velocity_sizes, "Number of values in each velocity.")
      .def("linearize", &PyTasks::linearize, "q"_a, "targets"_a, "threads"_a,
           "Return J, e, and the index of the first nonfinite row of the batch, or -1.",
           SUPPLE_TASKS_SIG("linearize", "targets",
                            "tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY ", int]"))
      .def("bias_acceleration", &PyTasks::bias_acceleration, "q"_a, "qd"_a, "threads"_a,
           "targets"_a.none() = nb::none(), "Return J̇q̇ of the task rows.",
           SUPPLE_RATES_SIG("bias_acceleration", "qd", SUPPLE_ARRAY))
      .def("command", &PyTasks::command, "q"_a, "velocities"_a, "threads"_a,
           "targets"_a.none() = nb::none(),
           "Return velocities as task rows, and the index of the first nonfinite row, or -1.",
           SUPPLE_RATES_SIG("command", "velocities", "tuple[" SUPPLE_ARRAY ", int]"));
}

}  // namespace supple
