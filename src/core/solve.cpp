#define NO_IMPORT_ARRAY
#include "solve.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "batches.hpp"
#include "constants.hpp"
#include "counting.hpp"
#include "isa.hpp"
#include "tasks.hpp"
#include "watch.hpp"

namespace supple {
namespace {

using namespace nb::literals;

#define SUPPLE_NUMBERS(type) "numpy.typing.NDArray[numpy." type "]"

// What starts of one precision share, owning its memory.
template <class T>
struct OwnedQuest {
  std::vector<T> weight, lower, upper, from, span, stride, direction;
  std::vector<Measure> measure;
  std::vector<Task<T>> task;
  Quest<T> quest{};

  OwnedQuest(const PyTasks& tasks, int primary, const Ints& measures, const Doubles& weights,
             const Doubles& joints, const Doubles& damping, const Doubles& towards,
             const Doubles& scale)
      : weight(weights.begin(), weights.end()), direction(towards.begin(), towards.end()) {
    const int n = tasks.chain<T>().coordinates;
    std::vector<T>* const each[] = {&lower, &upper, &from, &span, &stride};
    for (int k = 0; k < 5; ++k) {
      for (int j = 0; j < n; ++j) each[k]->push_back(T(joints.at(k * n + j)));
    }
    for (int kind : measures) measure.push_back(Measure(kind));
    task = tasks.tasks<T>();
    for (std::size_t row = 0, k = 0; int(k) < primary; ++k) {
      for (int i = 0; i < task.at(k).rows; ++i) task[k].weight[i] = weight.at(row++);
    }
    quest = {tasks.chain<T>(),
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
             {},
             T(scale.at(0)),
             T(scale.at(1)),
             int(scale.at(2))};
    constexpr T none = std::numeric_limits<T>::infinity();
    quest.step = {Method::damped_quick,
                  T(0),
                  1,
                  none,
                  1,
                  none,
                  {Rule(int(damping.at(0))), {}},
                  nullptr,
                  nullptr,
                  direction.empty() ? nullptr : direction.data(),
                  T(damping.at(5))};
    for (int i = 0; i < 4; ++i) quest.step.damping.p[i] = T(damping.at(1 + i));
  }

  Quest<T> within(double position, double rotation) const {
    Quest<T> made = quest;
    made.position_tolerance = T(position);
    made.rotation_tolerance = T(rotation);
    return made;
  }
};

// The numbers of a float64 C-contiguous array of a shape; null if it is something else.
const double* plain(nb::handle given, std::initializer_list<npy_intp> shape) {
  if (!PyArray_CheckExact(given.ptr())) return nullptr;
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(array) ||
      PyArray_NDIM(array) != int(shape.size()) ||
      !PyArray_CompareLists(PyArray_SHAPE(array), shape.begin(), int(shape.size()))) {
    return nullptr;
  }
  return static_cast<const double*>(PyArray_DATA(array));
}

// The twelve numbers of a pose, its rotation made orthonormal; false if it is none. As `pose` in
// supple/kinematics/arrays.py.
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

// Poses (..., 4, 4) as the kernel's numbers (..., 12); of a batch those that are not finite are
// NaN. None if it is not a float64 C-contiguous array of poses: errors are said in Python.
nb::object pose_numbers(nb::handle given, int threads) {
  if (!PyArray_CheckExact(given.ptr())) return nb::none();
  auto* const array = reinterpret_cast<PyArrayObject*>(given.ptr());
  const int axes = PyArray_NDIM(array);
  npy_intp shape[NPY_MAXDIMS];
  if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(array) || axes < 2 ||
      PyArray_DIM(array, axes - 1) != 4 || PyArray_DIM(array, axes - 2) != 4) {
    return nb::none();
  }
  std::copy_n(PyArray_SHAPE(array), axes - 2, shape);
  shape[axes - 2] = 12;
  nb::object made = nb::steal(PyArray_SimpleNew(axes - 1, shape, NPY_DOUBLE));
  if (!made.is_valid()) throw nb::python_error();
  const auto* const from = static_cast<const double*>(PyArray_DATA(array));
  double* const to = data_of<double>(made);
  const auto some = [=](std::ptrdiff_t begin, std::ptrdiff_t end) -> std::ptrdiff_t {
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      const double* const T = from + 16 * i;
      if (straight(T, to + 12 * i)) continue;
      const bool sound = std::all_of(T, T + 16, [](double x) { return std::isfinite(x); });
      if (sound || axes == 2) return i;
      std::fill_n(to + 12 * i, 12, std::numeric_limits<double>::quiet_NaN());
    }
    return -1;
  };
  return over_batch(PyArray_SIZE(array) / 16, threads, some) < 0 ? made : nb::none();
}

class PySolver {
 public:
  // The first `primary` tasks are those to be met, with a measure and a weight for each row; others
  // are postures: `rest` (n,) says which of the numbers of a target is that of a coordinate, `pull`
  // (n,) how much it weighs; empty if there are none. `joints` is lower, upper, from, span,
  // stride and a whole turn, or 0 (6 n); `damping` a rule, its four parameters and the least weight
  // of a region's `direction` (rows,), which may be empty; `scale` stiffness, the longest step, the
  // pace and the tolerance of the search; `reached` (N, targets) is what the seeds (N, n) reach, as
  // the numbers of targets. `weights` say what is closest, `eased` (rows,) are those of the search,
  // and the last of `scale` is the stiffness with the former. `kinds` is a `Kind` of target and
  // where its numbers begin for each task, in the caller's order; empty if there is another kind.
  PySolver(nb::object tasks, int primary, const Ints& measures, const Doubles& weights,
           const Doubles& eased, const Doubles& joints, const Doubles& damping,
           const Doubles& direction, const Ints& rest, const Doubles& pull, const Doubles& scale,
           const Doubles& feature_scale, const Doubles& seeds, const Doubles& reached,
           const Ints& kinds)
      : tasks_(std::move(tasks)),
        wide_(nb::cast<const PyTasks&>(tasks_), primary, measures, eased, joints, damping,
              direction, scale),
        fine_(nb::cast<const PyTasks&>(tasks_), primary, measures, eased, joints, damping,
              direction, scale),
        closest_(nb::cast<const PyTasks&>(tasks_), primary, measures, weights, joints, damping,
                 direction, {scale.at(4), scale.at(1), scale.at(2)}),
        rest_(rest),
        pull_(pull),
        coarse_(scale.at(3)),
        feature_scale_(feature_scale.begin(), feature_scale.end()),
        seeds_(seeds),
        reached_(reached),
        kinds_(kinds) {
    const int n = fine_.quest.chain.coordinates, k = fine_.quest.targets;
    if (weights.size() != measures.size() || eased.size() != weights.size() ||
        joints.size() != std::size_t(6 * n) || damping.size() != 6 || damping[0] < 0 ||
        damping[0] > int(last_rule) ||
        (!direction.empty() && direction.size() != measures.size()) ||
        (!rest.empty() && int(rest.size()) != n) || pull.size() != rest.size() ||
        int(feature_scale.size()) != k || seeds.size() / n * k != reached.size() ||
        kinds.size() % 2 || kinds.size() > 2 * most_tasks) {
      throw nb::value_error("sizes that do not match the tasks");
    }
    turn_.assign(joints.end() - n, joints.end());
    turns_ = std::any_of(turn_.begin(), turn_.end(), [](double turn) { return turn > 0; });
  }

  // What the GPU's compiler is to know of the robot, the tasks and the rule.
  nb::tuple operations() const {
    const Operations count = supple::operations(fine_.quest);
    return nb::make_tuple(count.multiplications, count.additions, count.others, count.depth);
  }

  std::string constants() const {
    return text::constants("Given", fine_.quest, feature_scale_.data()) +
           text::constants("Closest", closest_.quest, feature_scale_.data());
  }

  // One problem -> kind(q (n,), statuses[outcome], position error, rotation error, iterations,
  // restarts, None), a tuple of its own type, or None if an argument is not what this takes as it
  // is: a pose (4, 4) and q0 (n,), bounds above zero.
  nb::object one(nb::handle kind, nb::handle statuses, nb::handle target, nb::handle q0,
                 double position, double rotation, int max_starts, double timeout, bool nearest) {
    const int n = fine_.quest.chain.coordinates;
    const double* const start = q0.is_none() ? nullptr : plain(q0, {n});
    double numbers[12 * most_tasks];
    if (!take(target, numbers) || (!start && !q0.is_none()) ||
        !(position > 0 && std::isfinite(position)) || !(rotation > 0 && std::isfinite(rotation)) ||
        max_starts < 1 || !(timeout >= 0)) {
      return nb::none();
    }
    const Quest<float> wide = wide_.within(std::max(position, coarse_), std::max(rotation, 2e-5));
    const Quest<double> fine = fine_.within(position, rotation);
    const Quest<double> closest = closest_.within(position, rotation);
    SolveRequest request = asked(wide, fine, closest, max_starts);
    npy_intp size = n;
    nb::object q = nb::steal(PyArray_SimpleNew(1, &size, NPY_DOUBLE));
    if (!q.is_valid()) throw nb::python_error();
    Outcome outcome;
    double error[2];
    int effort[2], found;
    std::atomic<std::ptrdiff_t> next{0};
    long long deadline = 0;
    if (std::isfinite(timeout)) {
      deadline = now() + nanoseconds(timeout);
      request.stop = &past;
      request.watch = &deadline;
    }
    request.count = 1;
    request.target = numbers;
    request.q0 = start;
    request.single = true;
    request.nearest = nearest;
    request.q = data_of<double>(q);
    request.outcome = &outcome;
    request.error = error;
    request.effort = effort;
    request.found = &found;
    request.next = &next;
    if (!lone_) {
      lone_ = std::make_unique<Scratch>(isa().solve->scratch(request));
      isa().solve->prepare(request, lone_->get());
    }
    isa().solve->run(request, lone_->get());
    if (outcome == Outcome::nonfinite) return nb::none();
    const nb::object parts[] = {q,
                                nb::borrow(statuses[int(outcome)]),
                                nb::float_(error[0]),
                                nb::float_(error[1]),
                                nb::int_(effort[0]),
                                nb::int_(effort[1] - 1),
                                nb::none()};
    auto* const type = reinterpret_cast<PyTypeObject*>(kind.ptr());
    if (!PyType_IsSubtype(type, &PyTuple_Type)) throw nb::type_error("a type of tuples");
    nb::object made = nb::steal(type->tp_alloc(type, std::size(parts)));
    if (!made.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < std::size(parts); ++i) {
      PyTuple_SET_ITEM(made.ptr(), Py_ssize_t(i), nb::object(parts[i]).release().ptr());
    }
    return made;
  }

  // Many problems, as the kernel's numbers (B, k) and q0 (n,) or (B, n) -> q (B, most, n), outcome
  // (B, most), errors and efforts (B, most, 2), how many of the `most` there are (B,), and of each
  // how many starts there were and failed, and the errors of the best of those (B, 4), if `explain`
  // and `single`.
  nb::tuple many(nb::handle targets, nb::handle q0, double position, double rotation,
                 int max_starts, double timeout, int most, bool single, bool nearest, int threads,
                 nb::handle progress, bool explain) {
    const int n = fine_.quest.chain.coordinates, k = fine_.quest.targets;
    const Batch aim(targets, k, "targets");
    const npy_intp count = aim.count();
    const Quest<float> wide = wide_.within(std::max(position, coarse_), std::max(rotation, 2e-5));
    const Quest<double> fine = fine_.within(position, rotation);
    const Quest<double> closest = closest_.within(position, rotation);
    SolveRequest request = asked(wide, fine, closest, max_starts);
    request.count = count;
    request.target = aim.data<double>();
    std::unique_ptr<Batch> start;
    if (!q0.is_none()) {
      start = std::make_unique<Batch>(q0, n, "q0");
      request.q0 = start->data<double>();
      request.q0_stride = start->leading() ? n : 0;
    }
    if (!aim.is_double() || most < 1 || (start && !start->is_double()) ||
        (start && start->leading() && start->count() != count)) {
      throw nb::value_error("float64 numbers, a start for each or one for all, most from 1 on");
    }
    nb::object q = array(NPY_DOUBLE, {count, most, n}), outcome = array(NPY_INT8, {count, most}),
               error = array(NPY_DOUBLE, {count, most, 2}),
               effort = array(NPY_INT, {count, most, 2}), found = array(NPY_INT, {count}),
               failed = array(NPY_DOUBLE, {explain ? count : 0, 4});
    request.most = most;
    request.single = single || nearest || most > 1;
    request.nearest = nearest;
    request.q = data_of<double>(q);
    request.outcome = data_of<Outcome>(outcome);
    request.error = data_of<double>(error);
    request.effort = data_of<int>(effort);
    request.found = data_of<int>(found);
    request.failed = explain ? data_of<double>(failed) : nullptr;
    Watch watch(timeout, count, progress);
    request.next = &watch.next;
    request.stop = &Watch::stop;
    request.watch = &watch;
    const std::size_t bytes = isa().solve->scratch(request);
    {
      const nb::gil_scoped_release release;
      const npy_intp useful = std::min<npy_intp>(threads, (count + 31) / 32);
      parallel(std::max<npy_intp>(1, useful), 1, threads, [&](std::ptrdiff_t, std::ptrdiff_t) {
        Scratch room(bytes);
        isa().solve->prepare(request, room.get());
        isa().solve->run(request, room.get());
      });
    }
    watch.finish();
    return nb::make_tuple(q, outcome, error, effort, found, failed);
  }

 private:
  static nb::object array(int type, std::initializer_list<npy_intp> shape) {
    PyObject* made =
        PyArray_ZEROS(int(shape.size()), const_cast<npy_intp*>(shape.begin()), type, 0);
    if (!made) throw nb::python_error();
    return nb::steal(made);
  }

  // The numbers of a target, if it is an array as the one task takes it, or of several tasks a list
  // or tuple of them.
  bool take(nb::handle target, double* numbers) const {
    const int count = int(kinds_.size()) / 2;
    if (count < 1) return false;
    if (count == 1) return take_one(target, 0, numbers);  // (a list is a batch)
    if ((!PyList_CheckExact(target.ptr()) && !PyTuple_CheckExact(target.ptr())) ||
        PySequence_Fast_GET_SIZE(target.ptr()) != count) {
      return false;
    }
    for (int i = 0; i < count; ++i) {
      if (!take_one(PySequence_Fast_GET_ITEM(target.ptr(), i), i, numbers)) return false;
    }
    return true;
  }

  bool take_one(nb::handle target, int i, double* numbers) const {
    const Kind kind = Kind(kinds_[2 * i]);
    double* const to = numbers + kinds_[2 * i + 1];
    if (kind == Kind::pose) {
      const double* const pose = plain(target, {4, 4});
      return pose && straight(pose, to);
    }
    const double* const x = plain(target, {3});
    if (!x) return false;
    if (kind == Kind::position) {
      constexpr double unturned[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
      std::copy_n(unturned, 9, to);
      std::copy_n(x, 3, to + 9);
      return true;
    }
    const double length = std::hypot(x[0], x[1], x[2]);
    for (int c = 0; c < 3; ++c) to[c] = x[c] / length;
    return length > 1e-9 && length < 1e9;
  }

  SolveRequest asked(const Quest<float>& wide, const Quest<double>& fine,
                     const Quest<double>& closest, int max_starts) {
    arrange();
    SolveRequest request{};
    request.wide = &wide;
    request.fine = &fine;
    request.closest = &closest;
    request.rest = rest_.empty() ? nullptr : rest_.data();
    request.pull = pull_.data();
    request.table = table_ ? static_cast<const float*>(table_->get()) : nullptr;
    request.seeds = seeds_.data();
    request.feature_scale = feature_scale_.data();
    request.entries = entries_;
    request.turn = turns_ ? turn_.data() : nullptr;
    request.max_starts = max_starts;
    request.most = 1;
    return request;
  }

  // Puts the table of starts into the order in which the lanes of this instruction set read it.
  void arrange() {
    const int lanes = isa().solve->lanes, k = fine_.quest.targets;
    if (lanes == table_lanes_) return;
    table_lanes_ = lanes;
    lone_.reset();
    entries_ = int(reached_.size() / k) / lanes * lanes;
    if (!entries_) return;
    table_ = std::make_unique<Scratch>(sizeof(float) * std::size_t(entries_) * (k + 1));
    auto* to = static_cast<float*>(table_->get());
    for (int block = 0; block < entries_ / lanes; ++block) {
      for (int lane = 0; lane < lanes; ++lane) {
        const double* entry = reached_.data() + std::size_t(block * lanes + lane) * k;
        double half = 0;
        for (int i = 0; i < k; ++i) {
          const double scaled = entry[i] * feature_scale_[i];
          to[(block * (k + 1) + i) * lanes + lane] = float(scaled);
          half += 0.5 * scaled * scaled;
        }
        to[(block * (k + 1) + k) * lanes + lane] = float(half);
      }
    }
  }

  nb::object tasks_;
  OwnedQuest<float> wide_;
  OwnedQuest<double> fine_, closest_;
  Ints rest_;
  Doubles pull_, turn_;
  bool turns_;
  double coarse_;
  std::vector<float> feature_scale_;
  Doubles seeds_, reached_;
  enum class Kind : int { pose, position, axis };  // of targets: (4, 4), (3,), (3,)
  static constexpr std::size_t most_tasks = 8;
  Ints kinds_;
  std::unique_ptr<Scratch> table_, lone_;
  int table_lanes_ = 0, entries_ = 0;
};

}  // namespace

void bind_solve(nb::module_& m) {
  m.def("pose_numbers", &pose_numbers, "poses"_a.none(), "threads"_a,
        "Poses (..., 4, 4) as the kernel takes them (..., 12), or None.",
        nb::sig("def pose_numbers(poses: object, threads: int) -> " SUPPLE_NUMBERS(
            "float64") " | None"));
  nb::
      class_<PySolver>(m, "Solver", "Position inverse kinematics of some tasks. See supple.solve.")
          .def(
              nb::init<nb::object, int, const Ints&, const Doubles&, const Doubles&, const Doubles&,
                       const Doubles&, const Doubles&, const Ints&, const Doubles&, const Doubles&,
                       const Doubles&, const Doubles&, const Doubles&, const Ints&>(),
              nb::kw_only(), "tasks"_a, "primary"_a, "measures"_a, "weights"_a, "eased"_a,
              "joints"_a, "damping"_a, "direction"_a, "rest"_a, "pull"_a, "scale"_a,
              "feature_scale"_a, "seeds"_a, "reached"_a, "kinds"_a)
          .def("operations", &PySolver::operations,
               nb::sig("def operations(self) -> tuple[int, int, int, int]"),
               "Multiplications, additions, others and depth of an iteration: counting.hpp.")
          .def("constants", &PySolver::constants, "Given<T>, Closest<T>: for a compiler to fold.")
          .def(
              "one", &PySolver::one, "kind"_a, "statuses"_a, "target"_a.none(), "q0"_a.none(),
              "position_tolerance"_a, "rotation_tolerance"_a, "max_starts"_a, "timeout"_a,
              "nearest"_a,
              nb::sig("def one(self, kind: type[typing.Any], statuses: tuple[object, ...], target: "
                      "object, q0: object, position_tolerance: float, rotation_tolerance: float, "
                      "max_starts: int, timeout: float, nearest: bool) -> typing.Any"))
          .def("many", &PySolver::many, "targets"_a, "q0"_a.none(), "position_tolerance"_a,
               "rotation_tolerance"_a, "max_starts"_a, "timeout"_a, "most"_a, "single"_a,
               "nearest"_a, "threads"_a, "progress"_a.none(), "explain"_a,
               nb::sig("def many(self, targets: numpy.typing.ArrayLike, q0: numpy.typing.ArrayLike "
                       "| "
                       "None, position_tolerance: float, rotation_tolerance: float, max_starts: "
                       "int, "
                       "timeout: float, most: int, single: bool, nearest: bool, threads: int, "
                       "progress: typing.Any, explain: bool) -> tuple[" SUPPLE_NUMBERS("float64") ", " SUPPLE_NUMBERS("int8") ", " SUPPLE_NUMBERS(
                           "float64") ", " SUPPLE_NUMBERS("int32") ", " SUPPLE_NUMBERS("int32") ","
                                                                                                " " SUPPLE_NUMBERS(
                                                                                                    "float64") "]"));
}

}  // namespace supple
