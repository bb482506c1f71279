#define NO_IMPORT_ARRAY
#include "bindings/servo.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/isa.hpp"
#include "bindings/specs.hpp"
#include "bindings/tasks.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// Keeps everything that a step needs: nothing is allocated in a call but the array it returns, and
// not even that if one is given.
class PyServo {
 public:
  // What a task is given: how many numbers a velocity has and where they begin in the kernel's, and
  // how many a target has; `whole_pose` for a pose (4, 4), 0 for what Python makes.
  struct InputSpec {
    int velocity, at, target;
  };
  static constexpr int whole_pose = 16;

  // `steps` is one step, or one for each task; `extra` the form, alpha1 and max_speed of a step
  // with a criterion, or max_gain and printed of a filter. `limits` is lower, upper, speed and
  // acceleration (4 n), `timing` dt, gain, rate_gain and rest_gain, `given` three numbers
  // of a `InputSpec` for each task. `convert` makes the kernel's
  // numbers of targets and velocities that are not that already; `pull` makes v of q for a
  // criterion, or is None; `own` is a step in Python, or None.
  PyServo(nb::object tasks, int decision, const std::vector<StepSpec>& steps, const Doubles& extra,
          const Doubles& limits, double bound, bool scale, bool second, const Doubles& timing,
          const Ints& given, nb::object convert, nb::object pull, nb::object own)
      : tasks_(std::move(tasks)),
        convert_(std::move(convert)),
        pull_(std::move(pull)),
        own_(std::move(own)) {
    const PyTasks& all = nb::cast<const PyTasks&>(tasks_);
    const int n = all.chain<double>().coordinates, m = all.rows();
    targets_ = all.targets();
    velocities_ = all.velocities();
    for (const Task<double>& task : all.tasks<double>()) rows_.push_back(task.rows);
    if (given.size() != 3 * rows_.size()) throw nb::value_error("numbers of other tasks");
    for (std::size_t k = 0; k < given.size(); k += 3) {
      given_.push_back({given[k], given[k + 1], given[k + 2]});
    }
    const bool levels = ControlMode(decision) == ControlMode::priority;
    if (decision < 0 || decision > int(ControlMode::filtered) || extra.size() != 3 ||
        limits.size() != std::size_t(4 * n) || timing.size() != 4 || !(timing[0] > 0) ||
        steps.size() != (levels ? rows_.size() : 1)) {
      throw nb::value_error("no such step, limits of other joints, or a step that takes no time");
    }
    for (std::size_t k = 0; k < steps.size(); ++k) {
      owned_.emplace_back(steps[k], levels ? rows_[k] : m, n);
      steps_.push_back(owned_.back().view());
    }
    for (int j = 0; j < n; ++j) {
      limits_.push_back({limits[j], limits[n + j], limits[2 * n + j], limits[3 * n + j]});
    }
    servo_ = {all.chain<double>(),
              int(rows_.size()),
              m,
              all.tasks<double>().data(),
              rows_.data(),
              ControlMode(decision),
              steps_.data(),
              {Secondary(int(extra[0])), extra[1], extra[2], steps_[0]},
              {extra[0], extra[1] != 0},
              limits_.data(),
              bound,
              scale,
              second,
              timing[0],
              timing[1],
              timing[2],
              timing[3]};
    remembers_ = ControlMode(decision) == ControlMode::filtered ||
                 steps_[0].damping.rule == Rule::mayorga_rank;
    record_ = 7 * n + 2 * m * n + 3 * m;
    memory_.assign(2 * record_ + targets_ + 2 * velocities_ + isa().servo->scratch(servo_), 0.0);
    double* piece = memory_.data();
    const auto take = [&piece](int count) {
      double* taken = piece;
      piece += count;
      return taken;
    };
    for (Record* record : {&records_[0], &records_[1]}) {
      record->state = {take(n), take(n),     take(m * n), take(m), take(m), take(n),
                       take(n), take(m * n), take(n),     take(m), -1,      0,
                       0,       0,           -1,          false};
      record->before = take(n);
      record->from = take(n);
    }
    target_ = take(targets_);
    velocity_ = take(velocities_);
    acceleration_ = take(velocities_);
    scratch_ = piece;
  }

  nb::object step(nb::handle q, nb::handle velocity, nb::handle target, nb::handle acceleration,
                  nb::handle out) {
    const int n = servo_.chain.coordinates;
    const Batch at(q, n, "q");
    if (at.leading() != 0) call("refuse_batch", q, "q", n);
    nb::object kept[3];
    const Command<double> wish{
        numbers(target, targets_, "target", target_, kept[0]),
        numbers(velocity, velocities_, "velocity", velocity_, kept[1]),
        numbers(acceleration, velocities_, "acceleration", acceleration_, kept[2])};
    nb::object next = result(out, n);
    run(at, wish, data_of<double>(next));
    return next;
  }

  // The same with the kernel's own numbers, all checked.
  void raw(nb::handle q, nb::handle velocity, nb::handle target, nb::handle acceleration,
           nb::handle out) {
    const auto known = [](nb::handle given, int count) -> const double* {
      if (given.is_none()) return nullptr;
      if (!plain(given, count)) throw nb::value_error("numbers of other tasks");
      return static_cast<const double*>(
          PyArray_DATA(reinterpret_cast<PyArrayObject*>(given.ptr())));
    };
    const Command<double> wish{known(target, targets_), known(velocity, velocities_),
                               known(acceleration, velocities_)};
    const int n = servo_.chain.coordinates;
    run(Batch(q, n, "q"), wish, data_of<double>(result(out, n)));
  }

  template <class Visit>
  int visit(Visit&& visit) const {
    for (const nb::object* held : {&tasks_, &convert_, &pull_, &own_}) {
      if (const int stop = visit(*held)) return stop;
    }
    return 0;
  }

  // Lets go of what may hold it. Not to be called again.
  void clear() { convert_ = pull_ = own_ = nb::none(); }

  // Forgets what was; the joints move at `qd`.
  void reset(nb::handle qd) {
    const Batch speed(qd, servo_.chain.coordinates, "qd");
    ServoState<double>& state = last_->state;
    for (int j = 0; j < servo_.chain.coordinates; ++j) {
      state.qd[j] = speed.is_double() ? speed.data<double>()[j] : double(speed.data<float>()[j]);
      last_->before[j] = state.qd[j];
      state.active_set[j] = state.dq[j] = 0;
    }
    state.before = state.sigma = -1;
    state.has_previous = false;
    state.lambda2 = state.damping_applied = state.limited = 0;
  }

  nb::object speeds() const { return copy(last_->state.qd, {servo_.chain.coordinates}); }
  nb::object speeds_before() const { return copy(last_->before, {servo_.chain.coordinates}); }
  nb::object sides() const { return copy(last_->state.active_set, {servo_.chain.coordinates}); }
  nb::object from() const { return copy(last_->from, {servo_.chain.coordinates}); }
  nb::object jacobian() const { return jacobian_of(last_->state); }
  nb::object asked() const { return copy(last_->state.desired, {servo_.rows}); }
  nb::object seen() const { return copy(last_->state.e, {servo_.rows}); }
  bool held() const { return last_->state.limited != 0; }
  bool begun() const { return last_->state.has_previous; }
  double lambda2() const { return last_->state.damping_applied; }
  double chosen() const { return last_->state.lambda2; }

  // Everything that a later step, or a question about the last one, depends on.
  nb::object memory() const {
    const ServoState<double>& state = last_->state;
    const double rest[scalars] = {state.sigma, state.lambda2, state.damping_applied,
                                  state.limited,  state.before,  double(state.has_previous)};
    nb::object all = copy(state.q, {record_ + scalars});
    std::copy(rest, rest + scalars, data_of<double>(all) + record_);
    return all;
  }
  void recall(nb::handle all) {
    if (!plain(all, record_ + scalars)) throw nb::value_error("the memory of another servo");
    const double* from = data_of<double>(nb::borrow(all));
    ServoState<double>& state = last_->state;
    std::copy(from, from + record_, state.q);
    from += record_;
    state.sigma = from[0], state.lambda2 = from[1], state.damping_applied = from[2], state.limited = from[3];
    state.before = from[4], state.has_previous = from[5] != 0;
  }

  // The next step is the k-th of a motion with steps of these lengths [s].
  void pace(nb::handle lengths, int k) {
    const nb::object kept = nb::borrow(lengths);
    const int count = PyArray_CheckExact(kept.ptr())
                          ? int(PyArray_SIZE(reinterpret_cast<PyArrayObject*>(kept.ptr())))
                          : 0;
    if (k < 0 || k >= count || !plain(kept, count)) throw nb::value_error("no such step");
    const double* each = data_of<double>(kept);
    if (!(each[k] > 0)) throw nb::value_error("a step that takes no time");
    lengths_ = kept;
    servo_.dt = each[k];
    servo_.later = each + k + 1;
    servo_.later_count = count - k - 1;
  }

 private:
  // A step: what it was made of, and what came of it. The next one is worked out in another, so
  // that what is refused changes nothing.
  struct Record {
    ServoState<double> state;
    double *before, *from;  // (n,): speeds before the step, and where it began
  };
  static constexpr int scalars = 6;

  void run(const Batch& at, const Command<double>& wish, double* next) {
    const int n = servo_.chain.coordinates, m = servo_.rows;
    const ServoState<double>& last = last_->state;
    ServoState<double>& state = next_->state;
    for (int j = 0; j < n; ++j) {
      state.q[j] = at.is_double() ? at.data<double>()[j] : double(at.data<float>()[j]);
      if (!std::isfinite(state.q[j])) call("refuse_nonfinite", at.object(), nb::none(), 0);
      next_->before[j] = state.qd[j] = last.qd[j];
      next_->from[j] = state.q[j];
    }
    state.sigma = last.sigma;
    state.lambda2 = last.lambda2;
    state.before = last.before;
    state.has_previous = last.has_previous;
    if (remembers_) {
      std::copy(last.J_before, last.J_before + m * n, state.J_before);
      std::copy(last.u, last.u + m, state.u);
    }
    const ServoKernel& kernel = *isa().servo;
    if (!pull_.is_none()) {
      const nb::object v = pull_(copy(state.q, {n}));
      if (!plain(v, n)) throw nb::value_error("a gradient of another length");
      for (int j = 0; j < n; ++j) state.v[j] = data_of<double>(v)[j];
    }
    if (own_.is_none()) {
      kernel.run(servo_, wish, state, scratch_);
    } else {
      kernel.evaluate_tasks(servo_, wish, state, scratch_);
      decide_in_python(state);
      kernel.advance(servo_, state, scratch_);
    }
    bool sound = std::isfinite(state.lambda2) && std::isfinite(state.damping_applied);
    for (int j = 0; j < n; ++j) {
      sound = sound && std::isfinite(state.q[j]) && std::isfinite(state.qd[j]);
    }
    if (!sound) {
      if (!own_.is_none()) own_.attr("undo")();
      call("refuse_overflow", at.object());
    }
    for (int j = 0; j < n; ++j) next[j] = state.q[j];
    std::swap(last_, next_);
  }

  static nb::object copy(const double* from, std::initializer_list<int> shape) {
    npy_intp sizes[2], count = 1;
    int axes = 0;
    for (int size : shape) count *= sizes[axes++] = size;
    nb::object made = nb::steal(PyArray_SimpleNew(axes, sizes, NPY_DOUBLE));
    if (!made.is_valid()) throw nb::python_error();
    for (npy_intp i = 0; i < count; ++i) data_of<double>(made)[i] = from[i];
    return made;
  }

  static bool plain(nb::handle given, int count) {
    if (!PyArray_CheckExact(given.ptr())) return false;
    auto* array = reinterpret_cast<PyArrayObject*>(given.ptr());
    return PyArray_TYPE(array) == NPY_DOUBLE && PyArray_NDIM(array) == 1 &&
           PyArray_DIM(array, 0) == count && PyArray_ISCARRAY_RO(array);
  }

  // The kernel's numbers of what was given, written to `to`; null for None. What is not an array of
  // the expected kind, or a list or tuple of those, is made into numbers by Python, or refused.
  const double* numbers(nb::handle given, int count, const char* name, double* to,
                        nb::object& kept) const {
    if (given.is_none()) return nullptr;
    const bool target = to == target_;
    if (servo_.tasks == 1) {
      if (put(given, 0, target, to)) return to;
    } else if (PyList_CheckExact(given.ptr()) || PyTuple_CheckExact(given.ptr())) {
      const int some = int(PySequence_Fast_GET_SIZE(given.ptr()));
      double* piece = to;
      int k = 0;
      while (k < servo_.tasks && some == servo_.tasks) {
        if (!put(PySequence_Fast_GET_ITEM(given.ptr(), k), k, target, piece)) break;
        piece += target ? target_size(servo_.task[k]) : velocity_size(servo_.task[k]);
        ++k;
      }
      if (k == servo_.tasks) return to;
    }
    kept = convert_(name, given);
    if (!plain(kept, count)) throw nb::value_error("numbers of other tasks");
    return data_of<double>(kept);
  }

  // The numbers of one task, where that is simple: whether it was.
  bool put(nb::handle given, int k, bool target, double* to) const {
    const Task<double>& task = servo_.task[k];
    const InputSpec& kind = given_[k];
    const int size = target ? target_size(task) : velocity_size(task);
    const int count = target ? kind.target : kind.velocity;
    if (given.is_none()) {
      std::fill(to, to + size, target ? std::nan("") : 0.0);
      return servo_.tasks > 1;
    }
    if (target && kind.target == whole_pose) return put_pose(given, to);
    if (count == 0 || !plain(given, count)) return false;
    const auto* from =
        static_cast<const double*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(given.ptr())));
    const bool position = target && task.goal == Goal::frame;  // a pose that is not turned
    for (int i = 0; i < size; ++i) to[i] = position && i < 9 && i % 4 == 0;
    for (int i = 0; i < count; ++i) {
      if (!std::isfinite(from[i])) return false;
      to[(target ? (position ? 9 : 0) : kind.at) + i] = from[i];
    }
    return true;
  }

  // (4, 4) -> rotation and position, by columns.
  static bool put_pose(nb::handle given, double* to) {
    auto* array = reinterpret_cast<PyArrayObject*>(given.ptr());
    if (!PyArray_CheckExact(given.ptr()) || PyArray_TYPE(array) != NPY_DOUBLE ||
        PyArray_NDIM(array) != 2 || PyArray_DIM(array, 0) != 4 || PyArray_DIM(array, 1) != 4 ||
        !PyArray_ISCARRAY_RO(array)) {
      return false;
    }
    const auto* T = static_cast<const double*>(PyArray_DATA(array));
    if (!is_pose(T)) return false;
    for (int c = 0; c < 4; ++c) {
      for (int r = 0; r < 3; ++r) to[3 * c + r] = T[4 * r + c];
    }
    return true;
  }

  // How far off a rotation may be by rounding alone.
  static constexpr double straight = 1e-14;

  // A rotation, a position and 0 0 0 1; what is not goes to Python, which straightens it, or says
  // what is wrong.
  static bool is_pose(const double* T) {
    double off = 0;
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b <= a; ++b) {
        const double product = T[a] * T[b] + T[4 + a] * T[4 + b] + T[8 + a] * T[8 + b];
        off = std::max(off, std::abs(product - (a == b)));
      }
    }
    const double volume = T[0] * (T[5] * T[10] - T[6] * T[9]) -
                          T[1] * (T[4] * T[10] - T[6] * T[8]) + T[2] * (T[4] * T[9] - T[5] * T[8]);
    return off < straight && volume > 0 && std::isfinite(T[3] + T[7] + T[11]) && T[12] == 0 &&
           T[13] == 0 && T[14] == 0 && T[15] == 1;
  }

  nb::object result(nb::handle out, int n) const {
    if (out.is_none()) {
      const npy_intp size = n;
      nb::object made = nb::steal(PyArray_SimpleNew(1, &size, NPY_DOUBLE));
      if (!made.is_valid()) throw nb::python_error();
      return made;
    }
    if (!plain(out, n) || !PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject*>(out.ptr()))) {
      nb::list expected;
      expected.append(n);
      call("refuse_out", out, nb::tuple(expected), "float64");
    }
    return nb::borrow(out);
  }

  nb::object jacobian_of(const ServoState<double>& state) const {
    return copy(state.J, {servo_.rows, servo_.chain.coordinates});
  }

  // (q̇ or q̈, λ²) of somebody else's step.
  void decide_in_python(ServoState<double>& state) {
    const int n = servo_.chain.coordinates;
    const nb::object e = copy(state.e, {servo_.rows});
    const nb::object made = own_(jacobian_of(state), e, copy(state.q, {n}));
    const nb::tuple pair = nb::cast<nb::tuple>(made);
    const nb::object dq = pair[0];
    if (!plain(dq, n)) throw nb::value_error("a step of another length");
    for (int j = 0; j < n; ++j) state.dq[j] = data_of<double>(dq)[j];
    state.lambda2 = nb::cast<double>(pair[1]);
  }

  nb::object tasks_, convert_, pull_, own_, lengths_;
  std::vector<OwnedStep<double>> owned_;
  std::vector<Step<double>> steps_;
  std::vector<JointLimit<double>> limits_;
  Ints rows_;
  std::vector<InputSpec> given_;
  std::vector<double> memory_;
  Servo<double> servo_;
  Record records_[2], *last_ = records_, *next_ = records_ + 1;
  double *target_, *velocity_, *acceleration_, *scratch_;
  int targets_, velocities_, record_;
  bool remembers_;  // J_before or u
};

// A Servo and what it holds (a user's step, whose globals may hold the Servo) are a cycle that
// Python's collector must see.
int visit_servo(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<PyServo>(self)->visit(
      [&](nb::handle held) { return held.is_valid() ? visit(held.ptr(), arg) : 0; });
}

int clear_servo(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PyServo>(self)->clear();
  return 0;
}

PyType_Slot servo_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_servo)},
                             {Py_tp_clear, reinterpret_cast<void*>(clear_servo)},
                             {0, nullptr}};

}  // namespace

void bind_servo(nb::module_& m) {
  nb::class_<PyServo>(m, "Servo", nb::type_slots(servo_slots),
                      "One step of a control loop. Not for direct use: supple.Servo.")
      .def(nb::init<nb::object, int, const std::vector<StepSpec>&, const Doubles&, const Doubles&,
                    double, bool, bool, const Doubles&, const Ints&, nb::object, nb::object,
                    nb::object>(),
           nb::kw_only(), "tasks"_a, "decision"_a, "steps"_a, "extra"_a, "limits"_a, "bound"_a,
           "scale"_a, "second"_a, "timing"_a, "given"_a, "convert"_a, "pull"_a.none(),
           "own"_a.none())
      .def("__call__", &PyServo::step, "q"_a.none(), "velocity"_a.none() = nb::none(),
           "target"_a.none() = nb::none(), "acceleration"_a.none() = nb::none(),
           "out"_a.none() = nb::none(),
           nb::sig("def __call__(self, q: numpy.typing.ArrayLike, velocity: typing.Any = None, "
                   "target: typing.Any = None, acceleration: typing.Any = None, out: " SUPPLE_ARRAY
                   " | None = None) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_reset", &PyServo::reset, "qd"_a,
           nb::sig("def _reset(self, qd: numpy.typing.ArrayLike) -> None"))
      .def_prop_ro("_qd", &PyServo::speeds,
                   nb::sig("def _qd(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_side", &PyServo::sides,
                   nb::sig("def _side(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_from", &PyServo::from,
                   nb::sig("def _from(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_J", &PyServo::jacobian,
                   nb::sig("def _J(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_asked", &PyServo::asked,
                   nb::sig("def _asked(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_e", &PyServo::seen,
                   nb::sig("def _e(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_held", &PyServo::held, nb::sig("def _held(self) -> bool"))
      .def("_raw", &PyServo::raw, "q"_a, "velocity"_a.none(), "target"_a.none(),
           "acceleration"_a.none(), "out"_a,
           nb::sig("def _raw(self, q: " SUPPLE_ARRAY ", velocity: " SUPPLE_ARRAY
                   " | None, target: " SUPPLE_ARRAY " | None, acceleration: " SUPPLE_ARRAY
                   " | None, out: " SUPPLE_ARRAY ") -> None"))
      .def("_pace", &PyServo::pace, "lengths"_a, "k"_a,
           nb::sig("def _pace(self, lengths: " SUPPLE_ARRAY ", k: int) -> None"))
      .def_prop_ro("_before", &PyServo::speeds_before,
                   nb::sig("def _before(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def_prop_ro("_chosen", &PyServo::chosen, nb::sig("def _chosen(self) -> float"))
      .def_prop_ro("_memory", &PyServo::memory,
                   nb::sig("def _memory(self) -> numpy.typing.NDArray[numpy.float64]"))
      .def("_recall", &PyServo::recall, "memory"_a,
           nb::sig("def _recall(self, memory: " SUPPLE_ARRAY ") -> None"))
      .def_prop_ro(
          "_begun", [](const PyServo& servo) { return servo.begun(); },
          nb::sig("def _begun(self) -> bool"))
      .def_prop_ro("_lambda2", &PyServo::lambda2, nb::sig("def _lambda2(self) -> float"));
}

}  // namespace supple
