// The extension module supple._core: converts arguments, chooses an instruction set, spreads
// threads.
#define SUPPLE_FILLS_NUMPY
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "batch.hpp"
#include "bindings.hpp"
#include "chain.hpp"
#include "isa.hpp"
#include "kernels.hpp"

namespace supple {
namespace {

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

  bind_motion(m);

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
