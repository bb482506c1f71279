#define NO_IMPORT_ARRAY
#include "solve.hpp"

#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "isa.hpp"
#include "tasks.hpp"

namespace supple {
namespace {

using namespace nb::literals;

long long now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What starts of one precision share, owning its memory.
template <class T>
struct OwnedQuest {
  std::vector<T> weight, lower, upper, from, span, stride;
  std::vector<Measure> measure;
  Quest<T> quest{};

  OwnedQuest(const PyTasks& tasks, const Ints& measures, const Doubles& weights,
             const Doubles& joints)
      : weight(weights.begin(), weights.end()) {
    const int n = tasks.chain<T>().coordinates;
    std::vector<T>* const each[] = {&lower, &upper, &from, &span, &stride};
    for (int k = 0; k < 5; ++k) {
      for (int j = 0; j < n; ++j) each[k]->push_back(T(joints.at(k * n + j)));
    }
    for (int kind : measures) measure.push_back(Measure(kind));
    quest = {tasks.chain<T>(),
             int(tasks.tasks<T>().size()),
             tasks.rows(),
             tasks.targets(),
             tasks.tasks<T>().data(),
             measure.data(),
             weight.data(),
             lower.data(),
             upper.data(),
             from.data(),
             span.data(),
             stride.data(),
             T(0),
             T(0),
             T(0),
             T(0),
             T(0)};
  }
};

// 64-byte aligned numbers.
struct Aligned {
  explicit Aligned(std::size_t bytes)
      : memory(static_cast<unsigned char*>(::operator new(bytes + 64, std::align_val_t{64}))) {}
  struct Free {
    void operator()(unsigned char* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<unsigned char, Free> memory;
};

class PySolver {
 public:
  // `joints` is lower, upper, from, span and stride (5 n); `reached` (N, targets) is what the seeds
  // (N, n) reach, as the numbers of targets.
  PySolver(nb::object tasks, const Ints& measures, const Doubles& weights, const Doubles& joints,
           const Doubles& feature_scale, const Doubles& seeds, const Doubles& reached)
      : tasks_(std::move(tasks)),
        wide_(nb::cast<const PyTasks&>(tasks_), measures, weights, joints),
        fine_(nb::cast<const PyTasks&>(tasks_), measures, weights, joints),
        feature_scale_(feature_scale.begin(), feature_scale.end()),
        seeds_(seeds),
        reached_(reached) {
    const int n = fine_.quest.chain.coordinates, k = fine_.quest.targets;
    if (int(measures.size()) != fine_.quest.rows || weights.size() != measures.size() ||
        joints.size() != std::size_t(5 * n) || int(feature_scale.size()) != k ||
        seeds.size() / n * k != reached.size()) {
      throw nb::value_error("sizes that do not match the tasks");
    }
  }

  // One problem -> (q (s, n), outcome (s,), error (s, 2), effort (s, 2)).
  nb::tuple one(nb::handle target, nb::handle q0, const Doubles& options, int most) {
    const int n = fine_.quest.chain.coordinates;
    const Batch aim(target, fine_.quest.targets, "target");
    SolveRequest request = asked(options);
    request.target = aim.data<double>();
    std::unique_ptr<Batch> start;
    if (!q0.is_none()) {
      start = std::make_unique<Batch>(q0, n, "q0");
      request.q0 = start->data<double>();
    }
    request.most = most;
    std::vector<double> q(std::size_t(most) * n), error(2 * most);
    std::vector<Outcome> outcome(most);
    std::vector<int> effort(2 * most);
    request.q = q.data();
    request.outcome = outcome.data();
    request.error = error.data();
    request.effort = effort.data();
    const std::size_t bytes = isa().solve->scratch(request);
    if (!lone_ || lone_bytes_ < bytes) {
      lone_ = std::make_unique<Aligned>(bytes);
      lone_bytes_ = bytes;
    }
    const int found = isa().solve->one(request, lone_->memory.get());
    return nb::make_tuple(
        array(q.data(), NPY_DOUBLE, {found, n}), array(outcome.data(), NPY_INT8, {found}),
        array(error.data(), NPY_DOUBLE, {found, 2}), array(effort.data(), NPY_INT, {found, 2}));
  }

  // Many problems -> the same arrays, with one row each.
  nb::tuple many(nb::handle targets, nb::handle q0, const Doubles& options, int threads,
                 nb::handle progress) {
    const int n = fine_.quest.chain.coordinates;
    const Batch aim(targets, fine_.quest.targets, "targets");
    const npy_intp count = aim.count();
    SolveRequest request = asked(options);
    request.target = aim.data<double>();
    std::unique_ptr<Batch> start;
    if (!q0.is_none()) {
      start = std::make_unique<Batch>(q0, n, "q0");
      request.q0 = start->data<double>();
      request.q0_stride = start->count() == count && start->leading() ? n : 0;
    }
    nb::object q = array(nullptr, NPY_DOUBLE, {count, n}),
               outcome = array(nullptr, NPY_INT8, {count}),
               error = array(nullptr, NPY_DOUBLE, {count, 2}),
               effort = array(nullptr, NPY_INT, {count, 2});
    request.q = data_of<double>(q);
    request.outcome = data_of<Outcome>(outcome);
    request.error = data_of<double>(error);
    request.effort = data_of<int>(effort);
    const std::size_t bytes = isa().solve->scratch(request);
    const npy_intp chunk = npy_intp(4096) * std::max(threads, 1);
    for (npy_intp first = 0; first < count; first += chunk) {
      const npy_intp size = std::min(chunk, count - first);
      {
        nb::gil_scoped_release release;
        parallel(size, 64, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
          Aligned room(bytes);
          isa().solve->rows(request, first + begin, first + end, room.memory.get());
        });
      }
      if (PyErr_CheckSignals()) throw nb::python_error();
      if (!progress.is_none()) progress(first + size, count);
    }
    return nb::make_tuple(q, outcome, error, effort);
  }

  int lanes() const { return isa().solve->lanes; }

 private:
  static nb::object array(const void* from, int type, std::initializer_list<npy_intp> shape) {
    npy_intp sizes[2];
    int axes = 0;
    for (npy_intp size : shape) sizes[axes++] = size;
    nb::object made = nb::steal(PyArray_SimpleNew(axes, sizes, type));
    if (!made.is_valid()) throw nb::python_error();
    auto* to = reinterpret_cast<PyArrayObject*>(made.ptr());
    if (from) std::memcpy(PyArray_DATA(to), from, std::size_t(PyArray_NBYTES(to)));
    return made;
  }

  // options: position and rotation tolerance, damping linear and square, longest, curvature,
  // max_starts, max_iterations, window, ratio, settle_iterations, settled, apart, timeout [s],
  // patient
  SolveRequest asked(const Doubles& options) {
    if (options.size() != 15) throw nb::value_error("fifteen options");
    const auto set = [&](auto& quest, double floor) {
      using T = std::remove_reference_t<decltype(quest.linear)>;
      quest.position_tolerance = T(std::max(options[0], floor));
      quest.rotation_tolerance = T(std::max(options[1], floor));
      quest.linear = T(options[2]);
      quest.square = T(options[3]);
      quest.longest = T(options[4]);
    };
    set(wide_.quest, 2e-5);
    set(fine_.quest, 0);
    table();
    SolveRequest request{};
    request.wide = &wide_.quest;
    request.fine = &fine_.quest;
    request.stiffness = options[5];
    request.table = table_ ? reinterpret_cast<const float*>(table_->memory.get()) : nullptr;
    request.seeds = seeds_.data();
    request.feature_scale = feature_scale_.data();
    request.entries = entries_;
    request.max_starts = int(options[6]);
    request.max_iterations = int(options[7]);
    request.window = int(options[8]);
    request.ratio = float(options[9]);
    request.finish_iterations = 6;
    request.settle_iterations = int(options[10]);
    request.settled = options[11];
    request.apart = options[12];
    request.now = &now;
    request.patient = int(options[14]);
    request.alike = 0.2f;
    request.deadline = std::isfinite(options[13]) ? now() + (long long)(options[13] * 1e9) : 0;
    return request;
  }

  // The table of starts in the order in which the lanes read it.
  void table() {
    const int lanes = isa().solve->lanes, k = fine_.quest.targets;
    if (lanes == table_lanes_) return;
    table_lanes_ = lanes;
    entries_ = int(reached_.size() / k) / lanes * lanes;
    if (!entries_) return;
    table_ = std::make_unique<Aligned>(sizeof(float) * std::size_t(entries_) * (k + 1));
    auto* to = reinterpret_cast<float*>(table_->memory.get());
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
  OwnedQuest<double> fine_;
  std::vector<float> feature_scale_;
  Doubles seeds_, reached_;
  std::unique_ptr<Aligned> table_, lone_;
  std::size_t lone_bytes_ = 0;
  int table_lanes_ = 0, entries_ = 0;
};

}  // namespace

void bind_solve(nb::module_& m) {
  nb::class_<PySolver>(m, "Solver", "Position inverse kinematics of some tasks. See supple.solve.")
      .def(nb::init<nb::object, const Ints&, const Doubles&, const Doubles&, const Doubles&,
                    const Doubles&, const Doubles&>(),
           nb::kw_only(), "tasks"_a, "measures"_a, "weights"_a, "joints"_a, "feature_scale"_a,
           "seeds"_a, "reached"_a)
      .def("one", &PySolver::one, "target"_a, "q0"_a.none(), "options"_a, "most"_a,
           nb::sig(
               "def one(self, target: numpy.typing.ArrayLike, q0: numpy.typing.ArrayLike | None, "
               "options: collections.abc.Sequence[float], most: int) -> "
               "tuple[" SUPPLE_ARRAY ", typing.Any, " SUPPLE_ARRAY ", typing.Any]"))
      .def("many", &PySolver::many, "targets"_a, "q0"_a.none(), "options"_a, "threads"_a,
           "progress"_a.none(),
           nb::sig("def many(self, targets: numpy.typing.ArrayLike, q0: numpy.typing.ArrayLike | "
                   "None, options: collections.abc.Sequence[float], threads: int, progress: "
                   "typing.Any) -> "
                   "tuple[" SUPPLE_ARRAY ", typing.Any, " SUPPLE_ARRAY ", typing.Any]"))
      .def_prop_ro("lanes", &PySolver::lanes, "Starts that are tried side by side.");
}

}  // namespace supple
