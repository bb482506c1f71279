// The extension module supple._core: converts arguments, chooses an instruction set, spreads
// threads.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// 64-byte aligned working memory; small ones live in the object itself.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    if (bytes > sizeof(local_)) heap_.reset(::operator new(bytes, std::align_val_t{64}));
  }
  void* get() { return heap_ ? heap_.get() : local_; }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  alignas(64) unsigned char local_[16384];
  std::unique_ptr<void, Free> heap_;
};

// Rows that a thread takes at least: below, starting it costs more than it saves.
constexpr std::ptrdiff_t grain = 512;
// Rows that a thread takes at most before Ctrl-C is looked for.
constexpr std::ptrdiff_t patience = 1 << 16;

// Runs work(begin, end) over a batch, on threads and without the interpreter's lock. It returns the
// first row that it could not do, or -1, and so does this.
template <class Work>
std::ptrdiff_t over_batch(std::ptrdiff_t count, int threads, Work&& work) {
  const std::ptrdiff_t chunk = patience * std::max(threads, 1);
  for (std::ptrdiff_t first = 0; first < count; first += chunk) {
    std::ptrdiff_t bad = -1;
    {
      nb::gil_scoped_release release;
      std::mutex guard;
      parallel(std::min(chunk, count - first), grain, threads,
               [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
                 const std::ptrdiff_t found = work(first + begin, first + end);
                 const std::lock_guard lock(guard);
                 if (found >= 0 && (bad < 0 || found < bad)) bad = found;
               });
    }
    if (bad >= 0) return bad;
    if (PyErr_CheckSignals()) throw nb::python_error();
  }
  return -1;
}

// A chain in one precision, owning its memory.
template <class T>
struct OwnedChain {
  std::vector<Joint<T>> joints;
  std::vector<Frame<T>> frames;
  std::vector<Support> support;
  int coordinates = 0;
  bool mimics = false, phases = false, lengths = false;

  Chain<T> view() const {
    return {coordinates, int(joints.size()), int(frames.size()), mimics,        phases,
            lengths,     joints.data(),      frames.data(),      support.data()};
  }
};

using Doubles = std::vector<double>;
using Ints = std::vector<int>;

template <class T>
OwnedChain<T> build(int coordinates, const Ints& parent, const Ints& motion, const Ints& placement,
                    const Ints& coordinate, const Doubles& scale, const Doubles& offset,
                    const Doubles& phase, const Doubles& rotation, const Doubles& position,
                    const Ints& frame_joint, const Doubles& frame_rotation,
                    const Doubles& frame_position) {
  OwnedChain<T> chain;
  chain.coordinates = coordinates;
  const int count = int(parent.size());
  const auto copy = [](const Doubles& from, std::size_t at, int n, T* to) {
    for (int i = 0; i < n; ++i) to[i] = T(from.at(at + i));
  };
  Ints uses(coordinates, 0);
  for (int j = 0; j < count; ++j) {
    Joint<T> joint{parent.at(j),
                   Motion(motion.at(j)),
                   Placement(placement.at(j)),
                   coordinate.at(j),
                   false,
                   T(scale.at(j)),
                   T(offset.at(j)),
                   {},
                   {},
                   {}};
    const bool root = joint.placement == Placement::root;
    if (joint.parent >= j || joint.parent < -1 || root != (joint.parent == -1)) {
      throw nb::value_error("a chain's joints come after their parents");
    }
    copy(phase, 2 * std::size_t(j), 2, joint.phase);
    chain.phases |= joint.phase[0] != T(1) || joint.phase[1] != T(0);
    copy(rotation, 9 * std::size_t(j), 9, joint.rotation);
    copy(position, 3 * std::size_t(j), 3, joint.position);
    chain.mimics |= ++uses.at(joint.coordinate) > 1;
    chain.lengths |=
        joint.motion == Motion::prismatic || joint.scale != T(1) || joint.offset != T(0);
    if (joint.parent >= 0 && joint.parent != j - 1) chain.joints[joint.parent].branches = true;
    chain.joints.push_back(joint);
  }
  for (std::size_t f = 0; f < frame_joint.size(); ++f) {
    Frame<T> frame{frame_joint[f], int(chain.support.size()), 0, {}, {}};
    if (frame.joint >= count) throw nb::value_error("a frame sits on a joint that is not there");
    if (frame.joint >= 0) chain.joints[frame.joint].branches = true;
    Ints path;
    for (int j = frame.joint; j >= 0; j = parent[j]) path.push_back(j);
    std::vector<bool> seen(coordinates, false);
    for (auto j = path.rbegin(); j != path.rend(); ++j) {
      const int c = coordinate[*j];
      chain.support.push_back({*j, !seen[c]});
      seen[c] = true;
    }
    frame.support_end = int(chain.support.size());
    copy(frame_rotation, 9 * f, 9, frame.rotation);
    copy(frame_position, 3 * f, 3, frame.position);
    chain.frames.push_back(frame);
  }
  return chain;
}

// What one call of a chain shall compute.
struct Wanted {
  bool poses = false, jacobian = false, drift = false, sigma = false, manipulability = false;
};

// Arrays to write into, where given; afterwards the results.
struct Outputs {
  nb::object poses{}, jacobian{}, drift{}, sigma{}, manipulability{};
};

class PyChain {
 public:
  // `frames` of the given frames are results, in one axis if `stack`; a further one is the axes'.
  PyChain(int coordinates, const Ints& parent, const Ints& motion, const Ints& placement,
          const Ints& coordinate, const Doubles& scale, const Doubles& offset, const Doubles& phase,
          const Doubles& rotation, const Doubles& position, const Ints& frame_joint,
          const Doubles& frame_rotation, const Doubles& frame_position, int frames, bool stack,
          int axes, Ints rows)
      : f64_(build<double>(coordinates, parent, motion, placement, coordinate, scale, offset, phase,
                           rotation, position, frame_joint, frame_rotation, frame_position)),
        f32_(build<float>(coordinates, parent, motion, placement, coordinate, scale, offset, phase,
                          rotation, position, frame_joint, frame_rotation, frame_position)),
        frames_(frames),
        stack_(stack),
        axes_(axes),
        rows_(std::move(rows)) {
    if (frames < 1 || frames > int(frame_joint.size()) || axes >= int(frame_joint.size())) {
      throw nb::value_error("a chain has at least one frame, and its axes are one of them");
    }
    for (int row : rows_) {
      if (row < 0 || row >= 6 * frames) throw nb::value_error("a row beyond the stacked Jacobian");
    }
  }

  Outputs evaluate(nb::handle q, nb::handle qd, int threads, Wanted wanted,
                   Outputs out = {}) const {
    Batch batch(q, f64_.coordinates, "q");
    if (batch.overlaps(out.poses) || batch.overlaps(out.jacobian)) batch.copy();
    return batch.is_double()
               ? evaluate(batch, qd, threads, wanted, std::move(out), f64_.view(), isa().f64)
               : evaluate(batch, qd, threads, wanted, std::move(out), f32_.view(), isa().f32);
  }

 private:
  template <class T>
  Outputs evaluate(const Batch& q, nb::handle qd, int threads, Wanted wanted, Outputs out,
                   const Chain<T>& chain, const Kernel<T>& kernel) const {
    const int n = chain.coordinates, f = frames_, sigmas = std::min(int(rows_.size()), n);
    const auto result = [&](bool want, nb::object& given, std::initializer_list<int> one,
                            std::initializer_list<int> many) {
      given = want ? q.result(given, stack_ ? many : one) : nb::object();
    };
    result(wanted.poses, out.poses, {4, 4}, {f, 4, 4});
    result(wanted.jacobian, out.jacobian, {6, n}, {f, 6, n});
    result(wanted.drift, out.drift, {6}, {f, 6});
    result(wanted.sigma, out.sigma, {sigmas}, {sigmas});
    result(wanted.manipulability, out.manipulability, {}, {});
    if (wanted.poses && wanted.jacobian && overlap(out.poses, out.jacobian)) {
      call("refuse_shared_out");
    }
    std::unique_ptr<Batch> speed;
    if (wanted.drift) speed = std::make_unique<Batch>(paired(q, qd, n));

    const Request<T> request{q.count(),
                             f,
                             axes_,
                             q.data<T>(),
                             speed ? speed->data<T>() : nullptr,
                             data_of<T>(out.poses),
                             data_of<T>(out.jacobian),
                             data_of<T>(out.drift),
                             data_of<T>(out.sigma),
                             data_of<T>(out.manipulability),
                             rows_.data(),
                             int(rows_.size())};
    const std::ptrdiff_t bad = run(chain, request, kernel, threads);
    if (bad >= 0) refuse(q, speed.get(), bad);
    return out;
  }

  // qd as an array with the rows and the type of q.
  static Batch paired(const Batch& q, nb::handle qd, int n) {
    Batch speed(qd, n, "qd");
    if (speed.same_rows(q)) return speed;
    return Batch(call("matched", q.object(), speed.object()), n, "qd");
  }

  [[noreturn]] static void refuse(const Batch& q, const Batch* speed, std::ptrdiff_t row) {
    call("refuse_nonfinite", q.object(),
         speed ? nb::object(nb::borrow(speed->object())) : nb::none(), row);
    throw nb::value_error("a number out of bounds");
  }

  template <class T>
  static std::ptrdiff_t run(const Chain<T>& chain, const Request<T>& request,
                            const Kernel<T>& kernel, int threads) {
    if (request.count == 0) return -1;
    const std::size_t bytes = kernel.scratch(chain, request);
    if (request.count < 32) {  // sooner done than the interpreter's lock is given away
      Scratch scratch(bytes);
      return kernel.run(chain, request, 0, request.count, scratch.get());
    }
    return over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      return kernel.run(chain, request, begin, end, scratch.get());
    });
  }

  OwnedChain<double> f64_;
  OwnedChain<float> f32_;
  int frames_;
  bool stack_;
  int axes_;
  Ints rows_;
};

// The kernel's twin of the rules of supple/motion/damping.py, on a batch of spectra.
nb::object lambda2(int rule, const Doubles& parameters, nb::handle sigma, nb::handle gamma,
                   nb::handle history, int values) {
  if (rule < 0 || rule > int(Rule::optimal_newton) || parameters.size() > 4 || values < 1 ||
      values > 64) {
    throw nb::value_error("no such rule, too many parameters, or not 1 to 64 singular values");
  }
  const Batch s(sigma, values, "sigma"), g(gamma, values, "gamma"), h(history, 3, "history");
  if (!s.same_rows(g) || !s.same_rows(h)) throw nb::value_error("rows that do not match");
  nb::object out = s.result({}, {});
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    Damping<T> damping{Rule(rule), {}};
    for (std::size_t i = 0; i < parameters.size(); ++i) damping.p[i] = T(parameters[i]);
    const DampingRequest<T> request{s.count(),   values,      damping,        s.data<T>(),
                                    g.data<T>(), h.data<T>(), data_of<T>(out)};
    over_batch(request.count, 1, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      kernel.damp(request, begin, end);
      return std::ptrdiff_t(-1);
    });
  };
  s.is_double() ? run(isa().f64) : run(isa().f32);
  return out;
}

// The kernel's twin of the steps of supple/motion/step.py, on a batch. J comes as (..., m n).
nb::tuple steps(int method, double parameter, int group, double max_error, int error_group,
                double max_angle, int rule, const Doubles& parameters, const Doubles& task_scale,
                const Doubles& joint_scale, const Doubles& direction, double min_weight,
                nb::handle J, nb::handle e, nb::handle history, int rows, int columns,
                int threads) {
  if (method < 0 || method > int(Method::selective_soft) || rule < 0 ||
      rule > int(Rule::optimal_newton) || parameters.size() > 4 || group < 1 || error_group < 1 ||
      rows < 1 || columns < 1) {
    throw nb::value_error("no such method or rule, or sizes that are not positive");
  }
  const auto fits = [](const Doubles& given, int size) {
    return given.empty() || given.size() == std::size_t(size);
  };
  if (!fits(task_scale, rows) || !fits(joint_scale, columns) || !fits(direction, rows)) {
    throw nb::value_error("weights or a direction that do not match J");
  }
  const Batch j(J, rows * columns, "J"), task(e, rows, "e"), past(history, 2, "history");
  if (!j.same_rows(task) || !j.same_rows(past)) throw nb::value_error("rows that do not match");
  nb::object dq = j.result({}, {columns}), lambda2 = j.result({}, {});
  std::ptrdiff_t bad = -1;
  const auto run = [&]<class T>(const Kernel<T>& kernel) {
    const auto numbers = [](const Doubles& given) {
      return std::vector<T>(given.begin(), given.end());
    };
    const std::vector<T> task_of = numbers(task_scale), joint_of = numbers(joint_scale),
                         direction_of = numbers(direction);
    const auto or_null = [](const std::vector<T>& v) { return v.empty() ? nullptr : v.data(); };
    Step<T> how{Method(method),        T(parameter),     group,
                T(max_error),          error_group,      T(max_angle),
                {Rule(rule), {}},      or_null(task_of), or_null(joint_of),
                or_null(direction_of), T(min_weight)};
    for (std::size_t i = 0; i < parameters.size(); ++i) how.damping.p[i] = T(parameters[i]);
    const StepRequest<T> request{j.count(),          rows,           columns,        how,
                                 j.data<T>(),        task.data<T>(), past.data<T>(), data_of<T>(dq),
                                 data_of<T>(lambda2)};
    const std::size_t bytes = kernel.step_scratch(request);
    bad = over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      return kernel.step(request, begin, end, scratch.get());
    });
  };
  j.is_double() ? run(isa().f64) : run(isa().f32);
  return nb::make_tuple(std::move(dq), std::move(lambda2), bad);
}

// Types for the stub: nanobind knows only that these are Python objects.
#define SUPPLE_ARRAY "numpy.typing.NDArray[numpy.floating[typing.Any]]"
#define SUPPLE_SIG(name, more, result) \
  nb::sig("def " name "(self, q: numpy.typing.ArrayLike, " more ") -> " result)
#define SUPPLE_OUT(name) name ": " SUPPLE_ARRAY " | None = None"

NB_MODULE(_core, m) {
  if (_import_array() < 0) throw nb::python_error();
  m.doc() = "The compiled part of supple. Not for direct use: see supple.Robot.";

  m.def("isa", [] { return std::string(isa().isa); }, "Name of the instruction set in use.");
  m.def(
      "isas", [] { return available_isas(); },
      "Instruction sets that this machine can run, best last.");
  m.def(
      "use_isa", [](const std::string& name) { use_isa(name); }, "name"_a,
      "Switches to another instruction set of `isas()`.");
  m.def(
      "lane_widths", [] { return nb::make_tuple(isa().width_double, isa().width_float); },
      "Lanes of a batch in double and in single precision.",
      nb::sig("def lane_widths() -> tuple[int, int]"));

  m.def("lambda2", &lambda2, "rule"_a, "parameters"_a, "sigma"_a, "gamma"_a, "history"_a,
        "values"_a, "lambda2 of a batch of spectra by a rule of supple.motion.damping.",
        nb::sig("def lambda2(rule: int, parameters: collections.abc.Sequence[float], sigma: "
                "numpy.typing.ArrayLike, gamma: numpy.typing.ArrayLike, history: "
                "numpy.typing.ArrayLike, values: int) -> " SUPPLE_ARRAY));

  m.def("steps", &steps, "method"_a, "parameter"_a, "group"_a, "max_error"_a, "error_group"_a,
        "max_angle"_a, "rule"_a, "parameters"_a, "task_scale"_a, "joint_scale"_a, "direction"_a,
        "min_weight"_a, "J"_a, "e"_a, "history"_a, "rows"_a, "columns"_a, "threads"_a,
        "dq, lambda2 and the first row that is not finite (or -1) of a batch of steps.",
        nb::sig(
            "def steps(method: int, parameter: float, group: int, max_error: float, error_group: "
            "int, max_angle: "
            "float, rule: int, parameters: collections.abc.Sequence[float], task_scale: "
            "collections.abc.Sequence[float], joint_scale: collections.abc.Sequence[float], "
            "direction: collections.abc.Sequence[float], min_weight: float, J: "
            "numpy.typing.ArrayLike, e: numpy.typing.ArrayLike, history: "
            "numpy.typing.ArrayLike, rows: int, columns: int, threads: int) -> tuple[" SUPPLE_ARRAY
            ", " SUPPLE_ARRAY ", int]"));

  nb::class_<PyChain>(m, "Chain", "The joints that move a set of frames, ready for the kernel.")
      .def(nb::init<int, const Ints&, const Ints&, const Ints&, const Ints&, const Doubles&,
                    const Doubles&, const Doubles&, const Doubles&, const Doubles&, const Ints&,
                    const Doubles&, const Doubles&, int, bool, int, Ints>(),
           nb::kw_only(), "coordinates"_a, "parent"_a, "motion"_a, "placement"_a, "coordinate"_a,
           "scale"_a, "offset"_a, "phase"_a, "rotation"_a, "position"_a, "frame_joint"_a,
           "frame_rotation"_a, "frame_position"_a, "frames"_a, "stack"_a, "axes"_a, "rows"_a)
      .def(
          "poses",
          [](const PyChain& c, nb::handle q, int threads, nb::object out) {
            return c.evaluate(q, {}, threads, {.poses = true}, {.poses = std::move(out)}).poses;
          },
          "q"_a.none(), "threads"_a, "out"_a.none() = nb::none(),
          SUPPLE_SIG("poses", "threads: int, " SUPPLE_OUT("out"), SUPPLE_ARRAY))
      .def(
          "jacobian",
          [](const PyChain& c, nb::handle q, int threads, nb::object out) {
            return c.evaluate(q, {}, threads, {.jacobian = true}, {.jacobian = std::move(out)})
                .jacobian;
          },
          "q"_a.none(), "threads"_a, "out"_a.none() = nb::none(),
          SUPPLE_SIG("jacobian", "threads: int, " SUPPLE_OUT("out"), SUPPLE_ARRAY))
      .def(
          "poses_and_jacobian",
          [](const PyChain& c, nb::handle q, int threads, nb::object poses, nb::object jacobian) {
            Outputs out = c.evaluate(q, {}, threads, {.poses = true, .jacobian = true},
                                     {.poses = std::move(poses), .jacobian = std::move(jacobian)});
            return nb::make_tuple(std::move(out.poses), std::move(out.jacobian));
          },
          "q"_a.none(), "threads"_a, "poses"_a.none() = nb::none(),
          "jacobian"_a.none() = nb::none(),
          SUPPLE_SIG("poses_and_jacobian",
                     "threads: int, " SUPPLE_OUT("poses") ", " SUPPLE_OUT("jacobian"),
                     "tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"))
      .def(
          "drift",
          [](const PyChain& c, nb::handle q, nb::handle qd, int threads) {
            return c.evaluate(q, qd, threads, {.drift = true}).drift;
          },
          "q"_a.none(), "qd"_a.none(), "threads"_a,
          SUPPLE_SIG("drift", "qd: numpy.typing.ArrayLike, threads: int", SUPPLE_ARRAY))
      .def(
          "singular_values",
          [](const PyChain& c, nb::handle q, int threads) {
            return c.evaluate(q, {}, threads, {.sigma = true}).sigma;
          },
          "q"_a.none(), "threads"_a, SUPPLE_SIG("singular_values", "threads: int", SUPPLE_ARRAY))
      .def(
          "manipulability",
          [](const PyChain& c, nb::handle q, int threads) {
            return c.evaluate(q, {}, threads, {.manipulability = true}).manipulability;
          },
          "q"_a.none(), "threads"_a, SUPPLE_SIG("manipulability", "threads: int", SUPPLE_ARRAY));
}

}  // namespace
}  // namespace supple
