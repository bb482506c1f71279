// Kinematics, solutions and steps as foreign functions of XLA: supple.jax calls them without Python
// and without the GIL.
#define NO_IMPORT_ARRAY
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "bindings/module.hpp"
#include "bindings/xla_calls.hpp"
#include "kernels/adjoint.hpp"

namespace supple {
namespace {

using namespace nb::literals;

// Runs a loop of a kernel over the rows of a call; raises an error for a row that is not finite.
template <class Loop>
void run(const Kept& kept, std::ptrdiff_t count, std::size_t bytes, Loop&& loop) {
  const std::ptrdiff_t bad =
      on_threads(count, grain, kept.threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
        Scratch scratch(bytes);
        return loop(begin, end, scratch.get());
      });
  if (bad < 0) return;
  throw Refused("q must be finite, and small enough that the result is finite; it is not in row " +
                std::to_string(bad));
}

template <class Request>
void run(const Kept& kept, const AdjointLoop<Request>& loop, const Request& request) {
  if (request.count == 0) return;
  const Chain<double> chain = kept.chain();
  run(kept, request.count, loop.scratch(chain, request),
      [&](std::ptrdiff_t begin, std::ptrdiff_t end, void* scratch) {
        return loop.run(chain, request, begin, end, scratch);
      });
}

template <bool jacobian>
void kinematics(const Call& call) {
  const Kept& kept = call.kept;
  const Places at(call.argument(0), kept.layout);
  const Made made(call.result(0), at.count * kept.frames * (jacobian ? 6 * kept.nv() : 16));
  Request<double> request{};
  request.count = at.count;
  request.frames = kept.frames;
  request.axes = kept.axes;
  request.q = at.x();
  (jacobian ? request.jacobian : request.poses) = made.data;
  if (at.count == 0) return;
  const Chain<double> chain = kept.chain();
  const Kernel<double>& kernel = isa().f64;
  run(kept, at.count, kernel.scratch(chain, request),
      [&](std::ptrdiff_t begin, std::ptrdiff_t end, void* scratch) {
        return kernel.run(chain, request, begin, end, scratch);
      });
  made.commit();
}

template <bool jacobian>
void kinematics_adjoint(const Call& call) {
  const Kept& kept = call.kept;
  const Places at(call.argument(0), kept.layout);
  const Given bar(call.argument(1), at.count * kept.frames * (jacobian ? 6 * kept.nv() : 16));
  const PlacesBar q_bar(call.result(0), at, kept.layout);
  run(kept, isa().adjoint->kinematics,
      {.count = at.count,
       .frames = kept.frames,
       .q = at.x(),
       .poses_bar = jacobian ? nullptr : bar.data,
       .jacobian_bar = jacobian ? bar.data : nullptr,
       .q_bar = q_bar.data});
  q_bar.commit();
}

void step(const Call& call) {
  const Kept& kept = call.kept;
  const Places at(call.argument(0), kept.layout);
  const Given x(call.argument(1), at.count * 6 * kept.frames);
  const Made qd(call.result(0), at.count * kept.nv());
  run(kept, isa().adjoint->step,
      {.count = at.count,
       .frames = kept.frames,
       .lambda2 = call.value(),
       .q = at.x(),
       .x = x.data,
       .qd_bar = nullptr,
       .qd = qd.data,
       .q_bar = nullptr,
       .x_bar = nullptr});
  qd.commit();
}

void step_adjoint(const Call& call) {
  const Kept& kept = call.kept;
  const Places at(call.argument(0), kept.layout);
  const Given x(call.argument(1), at.count * 6 * kept.frames);
  const Given qd_bar(call.argument(2), at.count * kept.nv());
  const PlacesBar q_bar(call.result(0), at, kept.layout);
  const Made x_bar(call.result(1), at.count * 6 * kept.frames);
  run(kept, isa().adjoint->step,
      {.count = at.count,
       .frames = kept.frames,
       .lambda2 = call.value(),
       .q = at.x(),
       .x = x.data,
       .qd_bar = qd_bar.data,
       .qd = nullptr,
       .q_bar = q_bar.data,
       .x_bar = x_bar.data});
  q_bar.commit();
  x_bar.commit();
}

// Writes targets in the kernel's layout (count, 12 frames). Targets that are not finite become NaN.
Doubles read_targets(const Call& call, std::ptrdiff_t count) {
  const Kept& kept = call.kept;
  const std::ptrdiff_t all = count * kept.frames;
  const int width = kept.positions ? 3 : 16;
  const Given given(call.argument(0), all * width);
  Doubles numbers(all * 12);
  for (std::ptrdiff_t i = 0; i < all; ++i) {
    const double* const from = given.data + i * width;
    double* const to = numbers.data() + 12 * i;
    if (!std::all_of(from, from + width, [](double x) { return std::isfinite(x); })) {
      std::fill_n(to, 12, std::numeric_limits<double>::quiet_NaN());
    } else if (kept.positions) {
      read_position(from, to);
    } else if (!read_pose(from, to)) {
      throw Refused("target must be poses, with rotation matrices; it is not in row " +
                    std::to_string(i / kept.frames));
    }
  }
  return numbers;
}

void check_q0(const Call& call, const double* q0, std::ptrdiff_t count) {
  const std::ptrdiff_t n = call.kept.nv();
  for (std::ptrdiff_t i = 0; i < count * n; ++i) {
    const double least = call.kept.least_q0[i % n], largest = call.kept.largest_q0[i % n];
    if (q0[i] < least || q0[i] > largest) {
      const std::string given = std::to_string(q0[i]), row = std::to_string(i / n);
      throw Refused("q0 must be in radians; given: " + given + " in row " + row);
    }
  }
}

struct Time {
  long long deadline;

  static bool over(void* given) {
    const long long deadline = static_cast<Time*>(given)->deadline;
    return closing || (deadline && now() >= deadline);
  }
};

void search(PySolver& solver, const Bounds& bounds, const SolveRequest& arrays, int threads) {
  PySolver::Prepared prepared(solver, bounds, arrays);
  std::atomic<std::ptrdiff_t> next{0};
  Time time{bounds.deadline};
  prepared.request.next = &next;
  prepared.request.stop = &Time::over;
  prepared.request.stop_context = &time;
  run_on_threads(prepared.request, threads);
}

void solve(const Call& call) {
  const Kept& kept = call.kept;
  const bool seeded = call.has_argument(1);
  if (!kept.solver.is_valid() || !kept.spec[seeded])
    throw std::logic_error("the solver does not solve these targets without Python");
  const SearchSpec& spec = *kept.spec[seeded];
  PySolver& solver = *nb::inst_ptr<PySolver>(kept.solver);
  const std::ptrdiff_t count = rows_of(call.result(0), 1), n = kept.nv();
  const bool single = call.result(0).rank == 1;
  const Made q(call.result(0), count * n);
  const xla::Buffer& success = call.result(1);
  if (success.type != xla::boolean || rows_of(success, 0) != count)
    throw Refused("success must be an array of bool with an entry for each target");
  const Doubles target = read_targets(call, count);
  std::optional<Given> q0;
  if (seeded) {
    q0.emplace(call.argument(1), count * n);
    check_q0(call, q0->data, count);
  }
  std::fill_n(q.data, count * n, 0.0);
  std::vector<Outcome> outcome(count);
  Doubles error(2 * count);
  Ints effort(2 * count), found(count);
  SolveRequest request{};
  request.count = count;
  request.target = target.data();
  request.q0 = seeded ? q0->data : nullptr;
  request.q0_stride = seeded ? n : 0;
  request.max_solutions = 1;
  request.nearest = spec.nearest;
  request.comfortable = spec.comfortable;
  request.max_move = spec.max_move;
  request.single = single || spec.nearest || spec.max_move > 0;
  request.q = q.data;
  request.outcome = outcome.data();
  request.error = error.data();
  request.effort = effort.data();
  request.found = found.data();
  const Bounds bounds{
      .position_tolerance = spec.position_tolerance,
      .rotation_tolerance = spec.rotation_tolerance,
      .max_seeds = spec.max_seeds,
      .deadline = std::isfinite(spec.timeout) ? now() + nanoseconds(spec.timeout) : 0};
  if (solver.subproblems(request)) {
    SubproblemArrays own;
    solver.run_subproblems(bounds, request, own,
                           [&](PySolver& part, int, const Bounds& within, const SolveRequest& one) {
                             search(part, within, one, spec.threads);
                           });
  } else {
    search(solver, bounds, request, spec.threads);
  }
  if (single && outcome[0] == Outcome::nonfinite)
    throw Refused("target and q0 must be finite and within ±1e9");
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    static_cast<unsigned char*>(success.data)[i] = outcome[i] == Outcome::solved;
  }
  q.commit();
}

void solve_adjoint(const Call& call) {
  const Kept& kept = call.kept;
  const Places at(call.argument(0), kept.layout);
  const std::ptrdiff_t count = at.count, n = kept.nv();
  const xla::Buffer& success = call.argument(1);
  if (success.type != xla::boolean || rows_of(success, 0) != count ||
      kept.lower.empty() != (n == 0))
    throw Refused("success must be an array of bool with an entry for each solution");
  const Given bar(call.argument(2), count * kept.nq());
  Doubles turned(kept.layout.has_balls() ? count * n : 0);
  for (std::ptrdiff_t i = 0; kept.layout.has_balls() && i < count; ++i) {
    kept.layout.velocity_gradient(at.q() + i * kept.nq(), bar.data + i * kept.nq(),
                                  turned.data() + i * n);
  }
  const std::ptrdiff_t all = count * kept.frames;
  const Made target_bar(call.result(0), all * (kept.positions ? 3 : 16));
  const PlacesBar q0_bar(call.result(1), at, kept.layout);
  Doubles poses(kept.positions ? all * 16 : 0);
  run(kept, isa().adjoint->solution,
      {.count = count,
       .frames = kept.frames,
       .rule = {.positions = kept.positions,
                .damping = call.value(),
                .slack = kept.slack,
                .lower = kept.lower.data(),
                .upper = kept.upper.data(),
                .joint_scale = kept.joint_scale.empty() ? nullptr : kept.joint_scale.data()},
       .q = at.x(),
       .success = static_cast<const unsigned char*>(success.data),
       .q_bar = kept.layout.has_balls() ? turned.data() : bar.data,
       .targets_bar = kept.positions ? poses.data() : target_bar.data,
       .q0_bar = q0_bar.data});
  for (std::ptrdiff_t i = 0; kept.positions && i < 3 * all; ++i) {
    target_bar.data[i] = poses[16 * (i / 3) + 4 * (i % 3) + 3];
  }
  target_bar.commit();
  q0_bar.commit();
}

// Calls `function` with the data registered under the number of the call; returns its error to XLA.
template <void (*function)(const Call&)>
xla::Error* handler(xla::CallFrame* frame) {
  if (xla::answer_metadata(*frame) || frame->stage != xla::execute) return nullptr;
  const Working working;
  if (closing) return xla::error(*frame, "the interpreter exits", xla::failed_precondition);
  const std::int64_t* const number = xla::attribute<std::int64_t>(*frame, "number", xla::int64);
  const std::shared_ptr<const Kept> kept = number ? table().find(*number) : nullptr;
  if (!kept)
    return xla::error(*frame,
                      "the robot or solver of a compiled function must exist in this process; it "
                      "has been deleted, or the function was compiled in another process",
                      xla::failed_precondition);
  try {
    function({*frame, *kept});
    return nullptr;
  } catch (const Refused& error) {
    return xla::error(*frame, error.what(), xla::invalid_argument);
  } catch (const std::exception& error) {
    return xla::error(*frame, error.what(), xla::internal);
  }
}

// Keeps the frames of a robot, or its frames, its limits and a solver, in the table as long as the
// object exists.
class Registered {
 public:
  Registered(const PyChain& chain, int threads)
      : Registered(std::make_shared<Kept>(chain, threads)) {}
  Registered(const PyChain& chain, int threads, bool positions, double slack, Doubles lower,
             Doubles upper, Doubles joint_scale, Doubles least_q0, Doubles largest_q0,
             nb::object solver, const std::optional<SearchSpec>& without_q0,
             const std::optional<SearchSpec>& with_q0)
      : Registered([&] {
          auto kept = std::make_shared<Kept>(chain, threads);
          const std::size_t n = std::size_t(kept->nv());
          for (const Doubles* each : {&lower, &upper, &least_q0, &largest_q0})
            check_length("limits", n, each->size());
          if (!joint_scale.empty()) check_length("joint_scale", n, joint_scale.size());
          if (!solver.is_none()) {
            PySolver& own = nb::cast<PySolver&>(solver);
            check_length("targets", std::size_t(12 * kept->frames), std::size_t(own.targets()));
            check_length("coordinates", n, std::size_t(own.nq()));
            own.complete();
            kept->solver = std::move(solver);
            kept->spec[0] = without_q0;
            kept->spec[1] = with_q0;
          }
          kept->positions = positions;
          kept->slack = slack;
          kept->lower = std::move(lower);
          kept->upper = std::move(upper);
          kept->joint_scale = std::move(joint_scale);
          kept->least_q0 = std::move(least_q0);
          kept->largest_q0 = std::move(largest_q0);
          return kept;
        }()) {}
  ~Registered() { table().remove(number); }
  Registered(const Registered&) = delete;

  const std::int64_t number;

 private:
  explicit Registered(std::shared_ptr<const Kept> kept) : number(table().add(std::move(kept))) {}
};

template <void (*function)(const Call&)>
nb::capsule capsule() {
  return nb::capsule(reinterpret_cast<const void*>(&handler<function>));
}

}  // namespace

void bind_xla(nb::module_& m) {
  m.def(
      "xla_targets",
      [] {
        nb::dict made;
        made["supple_fk"] = capsule<kinematics<false>>();
        made["supple_jacobian"] = capsule<kinematics<true>>();
        made["supple_fk_adjoint"] = capsule<kinematics_adjoint<false>>();
        made["supple_jacobian_adjoint"] = capsule<kinematics_adjoint<true>>();
        made["supple_step"] = capsule<step>();
        made["supple_step_adjoint"] = capsule<step_adjoint>();
        made["supple_solve"] = capsule<solve>();
        made["supple_solve_adjoint"] = capsule<solve_adjoint>();
        return made;
      },
      nb::sig("def xla_targets() -> dict[str, object]"),
      "Return the foreign functions of XLA by name.");
  nb::class_<Registered>(m, "XlaObject", "A robot's frames, or a solver, for foreign functions.")
      .def(nb::init<const PyChain&, int>(), "chain"_a, "threads"_a)
      .def(nb::init<const PyChain&, int, bool, double, Doubles, Doubles, Doubles, Doubles, Doubles,
                    nb::object, const std::optional<SearchSpec>&,
                    const std::optional<SearchSpec>&>(),
           "chain"_a, "threads"_a, nb::kw_only(), "positions"_a, "slack"_a, "lower"_a, "upper"_a,
           "joint_scale"_a, "least_q0"_a, "largest_q0"_a, "solver"_a.none(), "without_q0"_a.none(),
           "with_q0"_a.none())
      .def_ro("number", &Registered::number,
              "The number by which calls refer to the object while it exists.");
}

}  // namespace supple
