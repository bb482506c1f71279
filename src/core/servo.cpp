#define NO_IMPORT_ARRAY
#include "servo.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "isa.hpp"
#include "owned_step.hpp"
#include "tasks.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// Keeps everything that a step needs: nothing is allocated in a call but the array it returns, and
// not even that if one is given.
class PyServo {
 public:
  // What a task is given: how many numbers a velocity has and where they begin in the kernel's, and
  // how many a target has; `whole_pose` for a pose (4, 4), 0 for what Python makes.
  struct Given {
    int velocity, at, target;
  };
  static constexpr int whole_pose = 16;

  // `steps` is one step, or one for each task; `extra` the form, alpha1 and max_speed of a step
  // with a criterion, or max_gain and printed of a filter. `limits` is lower, upper, speed and
  // acceleration (4 n), `timing` dt, gain, rate_gain and rest_gain, `given` three numbers
  // of a `Given` for each task. `convert` makes the kernel's
  // numbers of targets and velocities that are not that already; `pull` makes v of q for a
  // criterion, or is None; `own` is a step in Python, or None.
  PyServo(nb::object tasks, int decision, const std::vector<Doubles>& steps, const Doubles& extra,
          const Doubles& limits, double bound, bool scale, bool second, const Doubles& timing,
          const Ints& given, nb::object convert, nb::object pull, nb::object own)
      : tasks_(std::move(tasks)),
        convert_(std::move(convert)),
        pull_(std::move(pull)),
        own_(std::move(own)),
        owned_(steps.begin(), steps.end()) {
    const PyTasks& all = nb::cast<const PyTasks&>(tasks_);
    const int n = all.chain<double>().coordinates, m = all.rows();
    targets_ = all.targets();
    velocities_ = all.velocities();
    for (const Task<double>& task : all.tasks<double>()) rows_.push_back(task.rows);
    if (given.size() != 3 * rows_.size()) throw nb::value_error("numbers of other tasks");
    for (std::size_t k = 0; k < given.size(); k += 3) {
      given_.push_back({given[k], given[k + 1], given[k + 2]});
    }
    const bool levels = Decision(decision) == Decision::priority;
    if (decision < 0 || decision > int(Decision::filtered) || extra.size() != 3 ||
        limits.size() != std::size_t(4 * n) || timing.size() != 4 || !(timing[0] > 0) ||
        steps.size() != (levels ? rows_.size() : 1)) {
      throw nb::value_error("no such step, limits of other joints, or a step that takes no time");
    }
    for (std::size_t k = 0; k < owned_.size(); ++k) {
      steps_.push_back(owned_[k].view(levels ? rows_[k] : m, n));
    }
    for (int j = 0; j < n; ++j) {
      limits_.push_back({limits[j], limits[n + j], limits[2 * n + j], limits[3 * n + j]});
    }
    servo_ = {all.chain<double>(),
              int(rows_.size()),
              m,
              all.tasks<double>().data(),
              rows_.data(),
              Decision(decision),
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
    memory_.assign(
        7 * n + 2 * m * n + 3 * m + targets_ + 2 * velocities_ + isa().servo->scratch(servo_), 0.0);
    double* piece = memory_.data();
    const auto take = [&piece](int count) {
      double* taken = piece;
      piece += count;
      return taken;
    };
    state_ = {take(n), take(n), take(m * n), take(m), take(m), take(n), take(n), take(m * n),
              take(n), take(m), -1,          0,       0,       0,       -1,      false};
    before_ = take(n);
    from_ = take(n);
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
    const Wish<double> wish{
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
    const Wish<double> wish{known(target, targets_), known(velocity, velocities_),
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
    for (int j = 0; j < servo_.chain.coordinates; ++j) {
      state_.qd[j] = speed.is_double() ? speed.data<double>()[j] : double(speed.data<float>()[j]);
    }
    forget();
  }

  nb::object speeds() const { return copy(state_.qd, {servo_.chain.coordinates}); }
  nb::object sides() const { return copy(state_.side, {servo_.chain.coordinates}); }
  nb::object from() const { return copy(from_, {servo_.chain.coordinates}); }
  nb::object jacobian() const { return copy(state_.J, {servo_.rows, servo_.chain.coordinates}); }
  nb::object asked() const { return copy(state_.asked, {servo_.rows}); }
  nb::object seen() const { return copy(state_.e, {servo_.rows}); }
  bool held() const { return state_.held != 0; }
  bool begun() const { return state_.begun; }
  double lambda2() const { return state_.used; }
  // The length of the next steps [s].
  void last(double dt) {
    if (!(dt > 0)) throw nb::value_error("a step that takes no time");
    servo_.dt = dt;
  }

 private:
  // All but the speeds.
  void forget() {
    for (int j = 0; j < servo_.chain.coordinates; ++j) state_.side[j] = state_.dq[j] = 0;
    state_.before = state_.sigma = -1;
    state_.begun = false;
    state_.lambda2 = state_.used = state_.held = 0;
  }

  void run(const Batch& at, const Wish<double>& wish, double* next) {
    const int n = servo_.chain.coordinates;
    for (int j = 0; j < n; ++j) {
      state_.q[j] = at.is_double() ? at.data<double>()[j] : double(at.data<float>()[j]);
      if (!std::isfinite(state_.q[j])) call("refuse_nonfinite", at.object(), nb::none(), 0);
      before_[j] = state_.qd[j];
      from_[j] = state_.q[j];
    }
    const ServoKernel& kernel = *isa().servo;
    if (!pull_.is_none()) {
      const nb::object v = pull_(copy(state_.q, {n}));
      if (!plain(v, n)) throw nb::value_error("a gradient of another length");
      for (int j = 0; j < n; ++j) state_.v[j] = data_of<double>(v)[j];
    }
    if (own_.is_none()) {
      kernel.run(servo_, wish, state_, scratch_);
    } else {
      kernel.look(servo_, wish, state_, scratch_);
      decide_in_python();
      kernel.act(servo_, state_, scratch_);
    }
    bool sound = std::isfinite(state_.lambda2) && std::isfinite(state_.used);
    for (int j = 0; j < n; ++j) {
      sound = sound && std::isfinite(state_.q[j]) && std::isfinite(state_.qd[j]);
    }
    if (!sound) {
      forget();
      for (int j = 0; j < n; ++j) state_.qd[j] = before_[j];
      call("refuse_overflow", at.object());
    }
    for (int j = 0; j < n; ++j) next[j] = state_.q[j];
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
    const Given& kind = given_[k];
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

  // (q̇ or q̈, λ²) of somebody else's step.
  void decide_in_python() {
    const nb::object made = own_(jacobian(), seen(), copy(state_.q, {servo_.chain.coordinates}));
    const nb::tuple pair = nb::cast<nb::tuple>(made);
    const nb::object dq = pair[0];
    if (!plain(dq, servo_.chain.coordinates)) throw nb::value_error("a step of another length");
    for (int j = 0; j < servo_.chain.coordinates; ++j) state_.dq[j] = data_of<double>(dq)[j];
    state_.lambda2 = nb::cast<double>(pair[1]);
  }

  nb::object tasks_, convert_, pull_, own_;
  std::vector<OwnedStep<double>> owned_;
  std::vector<Step<double>> steps_;
  std::vector<JointLimit<double>> limits_;
  Ints rows_;
  std::vector<Given> given_;
  std::vector<double> memory_;
  Servo<double> servo_;
  ServoState<double> state_;
  double *before_, *from_, *target_, *velocity_, *acceleration_, *scratch_;
  int targets_, velocities_;
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
      .def(nb::init<nb::object, int, const std::vector<Doubles>&, const Doubles&, const Doubles&,
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
      .def("_last", &PyServo::last, "dt"_a)
      .def_prop_ro(
          "_begun", [](const PyServo& servo) { return servo.begun(); },
          nb::sig("def _begun(self) -> bool"))
      .def_prop_ro("_lambda2", &PyServo::lambda2, nb::sig("def _lambda2(self) -> float"));
}

}  // namespace supple
