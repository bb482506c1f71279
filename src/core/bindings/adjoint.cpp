// Gradients of a loss through kinematics, solutions and steps, on batches.
#define NO_IMPORT_ARRAY
#include "kernels/adjoint.hpp"

#include <string>

#include "bindings/chain.hpp"
#include "bindings/module.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// A C-contiguous float64 array (count, columns), which supple.gradients prepares.
const double* rows_of(nb::handle given, npy_intp count, npy_intp columns) {
  const double* const data = contiguous_data(given, count, columns);
  if (!data)
    throw nb::type_error(("arrays must be C-contiguous float64 arrays of shape (" +
                          std::to_string(count) + ", " + std::to_string(columns) + ")")
                             .c_str());
  return data;
}

// The configurations (count, nq) of a call, the sizes of its arrays, and the loop over the
// configurations. Results have a column for each entry of a velocity.
class AdjointCall {
 public:
  AdjointCall(const PyChain& given, nb::handle q, int frames, int threads)
      : chain(given.owned<double>().view()),
        configurations_(q, given.layout(), "q"),
        threads_(threads) {
    check_index("frames", 1, given.frames() + 1, frames);
    if (configurations_.leading() != 1 || !configurations_.is_double())
      throw nb::type_error("q must be an array of float64 (count, nq)");
    count = configurations_.count();
    this->q = configurations_.data<double>();
  }

  const double* rows(nb::handle given, int columns) const { return rows_of(given, count, columns); }
  nb::object result(int columns) const {
    const npy_intp shape[2] = {count, columns};
    return new_array(NPY_DOUBLE, 2, shape);
  }

  template <class Request>
  void run(const AdjointLoop<Request>& loop, const Request& request, nb::handle given) const {
    if (count == 0) return;
    const std::size_t bytes = loop.scratch(chain, request);
    const std::ptrdiff_t bad =
        over_batch(count, threads_, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
          Scratch scratch(bytes);
          return loop.run(chain, request, begin, end, scratch.get());
        });
    if (bad >= 0) raise_input_error("raise_nonfinite", given, nb::none(), bad);
  }

  Chain<double> chain;
  std::ptrdiff_t count = 0;
  const double* q = nullptr;

 private:
  Configurations configurations_;
  int threads_;
};

nb::object kinematics_adjoint(const PyChain& given, nb::handle q, nb::handle poses_bar,
                              nb::handle jacobian_bar, int frames, int threads) {
  const AdjointCall call(given, q, frames, threads);
  const int n = call.chain.nv;
  nb::object q_bar = call.result(n);
  const KinematicsAdjoint request{
      .count = call.count,
      .frames = frames,
      .q = call.q,
      .poses_bar = poses_bar.is_none() ? nullptr : call.rows(poses_bar, 16 * frames),
      .jacobian_bar = jacobian_bar.is_none() ? nullptr : call.rows(jacobian_bar, 6 * frames * n),
      .q_bar = data_of<double>(q_bar)};
  call.run(isa().adjoint->kinematics, request, q);
  return q_bar;
}

nb::tuple solution_adjoint_of(const PyChain& given, nb::handle q, nb::handle success,
                              nb::handle q_bar, nb::handle lower, nb::handle upper,
                              nb::handle joint_scale, bool positions, double damping, double slack,
                              int frames, int threads) {
  const AdjointCall call(given, q, frames, threads);
  const npy_intp n = call.chain.nv;
  auto* const solved = reinterpret_cast<PyArrayObject*>(success.ptr());
  if (!PyArray_CheckExact(success.ptr()) || PyArray_TYPE(solved) != NPY_BOOL ||
      !PyArray_ISCARRAY_RO(solved) || PyArray_SIZE(solved) != call.count)
    throw nb::type_error("success must be an array of bool (count,)");
  const double *const low = contiguous_data(lower, n), *const high = contiguous_data(upper, n);
  const double* const scale = contiguous_data(joint_scale, n);
  if (!low || !high || (!scale && !joint_scale.is_none()))
    throw nb::type_error("limits and scales must be arrays of float64 (n,)");
  nb::object targets_bar = call.result(16 * frames), q0_bar = call.result(int(n));
  const SolutionAdjoint request{.count = call.count,
                                .frames = frames,
                                .rule = {.positions = positions,
                                         .damping = damping,
                                         .slack = slack,
                                         .lower = low,
                                         .upper = high,
                                         .joint_scale = scale},
                                .q = call.q,
                                .success = static_cast<const unsigned char*>(PyArray_DATA(solved)),
                                .q_bar = call.rows(q_bar, int(n)),
                                .targets_bar = data_of<double>(targets_bar),
                                .q0_bar = data_of<double>(q0_bar)};
  call.run(isa().adjoint->solution, request, q);
  return nb::make_tuple(targets_bar, q0_bar);
}

// Returns qd, or (q_bar, x_bar) with qd_bar.
nb::tuple damped_step_on(const PyChain& given, nb::handle q, nb::handle x, nb::handle qd_bar,
                         double lambda2, int frames, int threads) {
  const AdjointCall call(given, q, frames, threads);
  const int n = call.chain.nv;
  const bool forward = qd_bar.is_none();
  nb::object one = call.result(n), other = call.result(6 * frames);
  const StepAdjoint request{.count = call.count,
                            .frames = frames,
                            .lambda2 = lambda2,
                            .q = call.q,
                            .x = call.rows(x, 6 * frames),
                            .qd_bar = forward ? nullptr : call.rows(qd_bar, n),
                            .qd = data_of<double>(one),
                            .q_bar = data_of<double>(one),
                            .x_bar = data_of<double>(other)};
  call.run(isa().adjoint->step, request, q);
  return nb::make_tuple(one, other);
}

}  // namespace

void bind_adjoints(nb::module_& m) {
  m.def("kinematics_adjoint", &kinematics_adjoint, "chain"_a, "q"_a, "poses_bar"_a.none(),
        "jacobian_bar"_a.none(), "frames"_a, "threads"_a,
        "Return the gradient (count, n) with respect to q, from those of poses and Jacobians.",
        nb::sig("def kinematics_adjoint(chain: Chain, q: " SUPPLE_ARRAY ", poses_bar: " SUPPLE_ARRAY
                " | None, jacobian_bar: " SUPPLE_ARRAY
                " | None, frames: int, threads: int) -> " SUPPLE_ARRAY));
  m.def("solution_adjoint", &solution_adjoint_of, "chain"_a, "q"_a, "success"_a, "q_bar"_a,
        "lower"_a, "upper"_a, "joint_scale"_a.none(), nb::kw_only(), "positions"_a, "damping"_a,
        "slack"_a, "frames"_a, "threads"_a,
        "Return the gradients with respect to targets (count, 16 frames) and seeds (count, n).",
        nb::sig("def solution_adjoint(chain: Chain, q: " SUPPLE_ARRAY
                ", success: numpy.typing.NDArray[numpy.bool_], q_bar: " SUPPLE_ARRAY
                ", lower: " SUPPLE_ARRAY ", upper: " SUPPLE_ARRAY ", joint_scale: " SUPPLE_ARRAY
                " | None, *, positions: bool, damping: float, slack: float, frames: int, threads: "
                "int) -> "
                "tuple[" SUPPLE_ARRAY ", " SUPPLE_ARRAY "]"));
  m.def("damped_step", &damped_step_on, "chain"_a, "q"_a, "x"_a, "qd_bar"_a.none(), "lambda2"_a,
        "frames"_a, "threads"_a,
        "Return the damped step (count, n) for twists x (count, 6 frames); with qd_bar, the "
        "gradients with respect to q and x.",
        nb::sig("def damped_step(chain: Chain, q: " SUPPLE_ARRAY ", x: " SUPPLE_ARRAY
                ", qd_bar: " SUPPLE_ARRAY
                " | None, lambda2: float, frames: int, threads: int) -> tuple[" SUPPLE_ARRAY
                ", " SUPPLE_ARRAY "]"));
}

}  // namespace supple
