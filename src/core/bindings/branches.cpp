#define NO_IMPORT_ARRAY
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "bindings/arms.hpp"
#include "bindings/batches.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/module.hpp"
#include "bindings/spec.hpp"
#include "drivers/branch_list.hpp"

namespace supple {
namespace {

using namespace nb::literals;

#define SUPPLE_F64 "numpy.typing.NDArray[numpy.float64]"
#define SUPPLE_I32 "numpy.typing.NDArray[numpy.int32]"
#define SUPPLE_BOOL "numpy.typing.NDArray[numpy.bool_]"

template <class T>
nb::object as_array(const std::vector<T>& from, int type, std::initializer_list<npy_intp> shape) {
  nb::object made = new_array(type, int(shape.size()), shape.begin());
  std::copy(from.begin(), from.end(), data_of<T>(made));
  return made;
}

// Returns an array of every `stride`-th number, beginning with the one at index `first`.
nb::object column(const std::vector<double>& from, std::size_t first, std::size_t stride) {
  const npy_intp size = npy_intp(from.size() / stride);
  nb::object made = new_array(NPY_DOUBLE, 1, &size);
  double* const to = data_of<double>(made);
  for (npy_intp i = 0; i < size; ++i) to[i] = from[first + std::size_t(i) * stride];
  return made;
}

// Returns the solutions as arrays. For each solution: q (S, n), position error (S,) [m], rotation
// error (S,) [rad], and whether it is a sample of a continuum (S,). For each target: the number of
// its solutions (B,), and whether these are all that exist (B,).
nb::tuple as_arrays(const Branches& all, int n) {
  const npy_intp size = npy_intp(all.sampled.size()), count = npy_intp(all.count.size());
  return nb::make_tuple(as_array(all.q, NPY_DOUBLE, {size, n}), column(all.error, 0, 2),
                        column(all.error, 1, 2), as_array(all.sampled, NPY_BOOL, {size}),
                        as_array(all.count, NPY_INT, {count}),
                        as_array(all.certain, NPY_BOOL, {count}));
}

// The targets (B, 12) in the kernel's layout, and q0: (n,), (B, n) or None.
class Targets {
 public:
  Targets(nb::handle targets, nb::handle q0, int n) : n_(n), target_(targets, 12, "targets") {
    if (!target_.is_double()) throw nb::value_error("targets must be float64; given: float32");
    if (q0.is_none()) return;
    start_ = std::make_unique<Batch>(q0, n, "q0");
    if (!start_->is_double()) throw nb::value_error("q0 must be float64; given: float32");
    if (start_->leading()) check_length("q0", std::size_t(count()), std::size_t(start_->count()));
  }

  std::ptrdiff_t count() const { return target_.count(); }
  const double* numbers(std::ptrdiff_t i) const { return target_.data<double>() + 12 * i; }
  const double* q0(std::ptrdiff_t i) const {
    return start_ ? start_->data<double>() + (start_->leading() ? i * n_ : 0) : nullptr;
  }
  bool is_finite(std::ptrdiff_t i) const {
    const auto finite = [](double x) { return std::abs(x) <= 1e9; };
    return std::all_of(numbers(i), numbers(i) + 12, finite) &&
           (!start_ || std::all_of(q0(i), q0(i) + n_, finite));
  }

 private:
  int n_;
  Batch target_;
  std::unique_ptr<Batch> start_;
};

// Records that a target has no solutions, because it is not searched.
void skip(Branches& found) {
  found.count.push_back(0);
  found.certain.push_back(false);
}

// A `BranchSolver` of an arm whose solutions are eigenvalues.
class GeneralSolver : public BranchSolver {
  using BranchSolver::BranchSolver;
};

// Numbers of rows for `over_batch`: the smallest for a thread, and the largest between two checks
// for Ctrl-C. An eigenvalue problem or a grid takes about as long as a hundred closed forms.
template <class Solver>
constexpr bool is_slow = !std::is_same_v<Solver, BranchSolver>;
template <class Solver>
constexpr std::ptrdiff_t least_rows = is_slow<Solver> ? 4 : grain;
template <class Solver>
constexpr std::ptrdiff_t most_rows = is_slow<Solver> ? 1 << 11 : patience;
// Number of targets below which releasing the GIL would take longer than the work.
template <class Solver>
constexpr std::ptrdiff_t few = is_slow<Solver> ? 2 : 16;

// All solutions of poses by a `BranchSolver`, a `GeneralSolver` or a `GridSolver`.
template <class Solver>
class PyBranches {
 public:
  template <class Spec>
  PyBranches(nb::object solver, const Spec& spec)
      : solver_(std::move(solver)), arm_(arm_of(spec, problem().nq())) {
    check_length("the solver's target", 12, std::size_t(problem().targets()));
  }

  // Returns all solutions of the targets, as arrays. A target that is not finite has no solution.
  nb::tuple solve(nb::handle targets, nb::handle q0, const BranchSpec& spec) const {
    const int n = problem().nq();
    const Targets given(targets, q0, n);
    const auto arm = with_samples(spec);
    const IkProblem<double> ik = within(spec);
    const auto run = [&](std::ptrdiff_t begin, std::ptrdiff_t end, Branches& found) {
      Solver branches(arm, ik, {.wraps = spec.wraps, .nearest = spec.nearest});
      for (std::ptrdiff_t i = begin; i < end; ++i) {
        given.is_finite(i) ? branches.solve(given.numbers(i), given.q0(i), found) : skip(found);
      }
    };
    Branches all;
    if (given.count() < few<Solver>) {
      run(0, given.count(), all);
      return as_arrays(all, n);
    }
    std::mutex guard;
    std::map<std::ptrdiff_t, Branches> pieces;
    over_batch(
        given.count(), spec.threads,
        [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
          Branches piece;
          run(begin, end, piece);
          const std::lock_guard lock(guard);
          pieces.emplace(begin, std::move(piece));
          return std::ptrdiff_t(-1);
        },
        least_rows<Solver>, most_rows<Solver>);
    for (const auto& [begin, piece] : pieces) all.append(piece);
    return as_arrays(all, n);
  }

  // Sets the data that `solve_pose` uses: the spec, the class of its results, and the fields that
  // all results share. With `only_certain`, `solve_pose` returns None for a target of which it may
  // have missed solutions; the caller then calls `solve`.
  void prepare(const BranchSpec& spec, nb::type_object solutions, nb::dict fields,
               bool only_certain) {
    single_ = std::make_unique<Single>(
        Single{solutions,
               fields,
               only_certain,
               {with_samples(spec), within(spec), {.wraps = spec.wraps, .nearest = false}},
               {}});
  }

  // Returns all solutions of one pose (4, 4) as an object. Returns None if the pose is not a
  // C-contiguous float64 array of finite numbers, if the solutions form a continuum, or if some may
  // be missing and `prepare` has set `only_certain`; the caller then calls `solve`.
  nb::object solve_pose(nb::handle target) {
    if (!single_) throw nb::value_error("prepare() must be called before solve_pose()");
    double numbers[12];
    const double* const T = contiguous_data(target, 4, 4);
    if (!T || !read_pose(T, numbers)) return nb::none();
    const auto finite = [](double x) { return std::abs(x) <= 1e9; };
    if (!std::all_of(numbers, numbers + 12, finite)) return nb::none();
    Branches& all = single_->found;
    all.clear();
    single_->solver.solve(numbers, nullptr, all);
    const bool certain = all.certain.front() != 0;
    if (!certain && single_->only_certain) return nb::none();
    if (std::any_of(all.sampled.begin(), all.sampled.end(), [](signed char x) { return x != 0; })) {
      return nb::none();
    }
    return made(all, certain);
  }

  template <class Visit>
  int visit(Visit&& visit) const {
    const nb::handle solutions = single_ ? single_->solutions : nb::handle();
    const nb::handle fields = single_ ? single_->fields : nb::handle();
    return visit_each(visit, {solver_, solutions, fields});
  }

 private:
  const PySolver& problem() const { return *nb::inst_ptr<PySolver>(solver_); }

  typename Solver::Arm with_samples(const BranchSpec& spec) const {
    check_at_least("samples", 1, spec.samples);
    typename Solver::Arm arm = arm_;
    if constexpr (std::is_same_v<Solver, BranchSolver>) arm.samples = spec.samples;
    if constexpr (std::is_same_v<Solver, GridSolver>) {
      for (Arm& each : arm.arm) each.samples = spec.samples;
    }
    return arm;
  }
  IkProblem<double> within(const BranchSpec& spec) const {
    return problem().fine().within(spec.position_tolerance, spec.rotation_tolerance);
  }

  // Returns an instance of the class of results, made without its constructor, which would take
  // longer than computing the solutions.
  nb::object made(const Branches& all, bool certain) const {
    static PyObject* const name[] = {
        PyUnicode_InternFromString("q"), PyUnicode_InternFromString("position_error"),
        PyUnicode_InternFromString("rotation_error"), PyUnicode_InternFromString("_complete")};
    static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
    const npy_intp size = npy_intp(all.sampled.size());
    const nb::object value[] = {as_array(all.q, NPY_DOUBLE, {size, problem().nq()}),
                                column(all.error, 0, 2), column(all.error, 1, 2),
                                nb::borrow(certain ? Py_True : Py_False)};
    auto* const type = reinterpret_cast<PyTypeObject*>(single_->solutions.ptr());
    nb::object made = nb::steal(PyType_GenericAlloc(type, 0));
    const nb::object fields = nb::steal(PyDict_Copy(single_->fields.ptr()));
    bool complete = made.is_valid() && fields.is_valid();
    for (int i = 0; i < 4 && complete; ++i) {
      complete = PyDict_SetItem(fields.ptr(), name[i], value[i].ptr()) == 0;
    }
    // Not PyObject_GenericSetDict: from Python 3.13 on, attributes would not be looked up in
    // `fields`.
    complete = complete && PyObject_GenericSetAttr(made.ptr(), dict_name, fields.ptr()) == 0;
    if (!complete) throw nb::python_error();
    return made;
  }

  // The data that all calls of `solve_pose` share, and memory that is reused from one call to the
  // next.
  struct Single {
    nb::object solutions;
    nb::dict fields;
    bool only_certain;
    Solver solver;
    Branches found;
  };

  nb::object solver_;
  typename Solver::Arm arm_;
  std::unique_ptr<Single> single_;
};

// Returns the candidates of an arm in its first numbering, before they are polished: angles (K, 6)
// for the targets (B, 12), the number of candidates of each target (B,), and whether these are
// certain to contain all solutions (B,). `sets` is the largest number of sets of zeros of
// half-angle tangents that are tried.
nb::tuple general_candidates(const GeneralSpec& spec, nb::handle targets, int sets) {
  check_length("starts", 1, spec.starts.size());
  check_index("sets", 1, general_zero_sets + 1, sets);
  const Arm arm = arm_of(spec, INT_MAX);
  const Targets given(targets, nb::none(), 6);
  Branches all;
  std::vector<double> angle(std::size_t(24 * sets) * 6);
  for (std::ptrdiff_t i = 0; i < given.count(); ++i) {
    bool certain = false;
    const int found =
        isa().branches->candidates(arm, given.numbers(i), sets, angle.data(), certain);
    all.q.insert(all.q.end(), angle.begin(), angle.begin() + 6 * found);
    all.count.push_back(found);
    all.certain.push_back(certain);
  }
  const npy_intp size = npy_intp(all.q.size() / 6), count = npy_intp(given.count());
  return nb::make_tuple(as_array(all.q, NPY_DOUBLE, {size, 6}),
                        as_array(all.count, NPY_INT, {count}),
                        as_array(all.certain, NPY_BOOL, {count}));
}

// Returns the left sides (14, 27) and the right sides (14, 9) of the fourteen equations of an arm
// (drivers/general.hpp), whose joints are numbered cyclically from spec.starts[0] on.
nb::tuple general_equations(const GeneralSpec& spec, nb::handle target) {
  check_length("starts", 1, spec.starts.size());
  const Targets given(target, nb::none(), 6);
  std::vector<double> left(14 * 27), right(14 * 9);
  const Arm arm = arm_of(spec, INT_MAX);
  isa().branches->equations(arm, given.numbers(0), left.data(), right.data());
  return nb::make_tuple(as_array(left, NPY_DOUBLE, {14, 27}), as_array(right, NPY_DOUBLE, {14, 9}));
}

}  // namespace

#define SUPPLE_SOLUTIONS                                                               \
  "tuple[" SUPPLE_F64 ", " SUPPLE_F64 ", " SUPPLE_F64 ", " SUPPLE_BOOL ", " SUPPLE_I32 \
  ", " SUPPLE_BOOL "]"

template <class Solver, class Spec>
void bind_solver_of(nb::module_& m, const char* name, const char* doc, const char* constructor) {
  using Py = PyBranches<Solver>;
  nb::class_<Py>(m, name, nb::type_slots(held_objects<Py>), doc)
      .def(nb::init<nb::object, const Spec&>(), nb::kw_only(), "solver"_a, "arm"_a,
           nb::sig(constructor))
      .def("solve", &Py::solve, "targets"_a, "q0"_a.none(), "spec"_a,
           nb::sig("def solve(self, targets: numpy.typing.ArrayLike, q0: numpy.typing.ArrayLike | "
                   "None, spec: BranchSpec) -> " SUPPLE_SOLUTIONS))
      .def("prepare", &Py::prepare, "spec"_a, "solutions"_a, "fields"_a, "only_certain"_a,
           nb::sig("def prepare(self, spec: BranchSpec, solutions: type[typing.Any], fields: "
                   "dict[str, object], only_certain: bool) -> None"))
      .def("solve_pose", &Py::solve_pose, nb::lock_self(), "target"_a.none(),
           nb::sig("def solve_pose(self, target: object) -> typing.Any"));
}

void bind_branches(nb::module_& m) {
  m.attr("GENERAL_ZERO_SETS") = general_zero_sets;
  bind_spec(m, "ArmSpec", "A 6-joint arm with a closed form. See supple.ik.branches.solve_all.",
            required("parallel", &ArmSpec::parallel), required("first", &ArmSpec::first),
            required("coordinates", &ArmSpec::coordinates), required("axes", &ArmSpec::axes),
            required("points", &ArmSpec::points), required("home", &ArmSpec::home),
            required("length", &ArmSpec::length), required("slack", &ArmSpec::slack));
  bind_spec(m, "BranchSpec",
            "Settings for computing all solutions. See supple.ik.branches.solve_all.",
            required("position_tolerance", &BranchSpec::position_tolerance),
            required("rotation_tolerance", &BranchSpec::rotation_tolerance),
            required("samples", &BranchSpec::samples), required("wraps", &BranchSpec::wraps),
            required("nearest", &BranchSpec::nearest), required("threads", &BranchSpec::threads));
  bind_spec(m, "GeneralSpec", "A 6-joint arm of any geometry. See supple.ik.branches.general.",
            required("starts", &GeneralSpec::starts),
            required("coordinates", &GeneralSpec::coordinates),
            required("axes", &GeneralSpec::axes), required("points", &GeneralSpec::points),
            required("home", &GeneralSpec::home), required("length", &GeneralSpec::length));
  bind_solver_of<BranchSolver, ArmSpec>(
      m, "Branches", "All solutions of poses of an arm with a closed form.",
      "def __init__(self, *, solver: Solver, arm: ArmSpec) -> None");
  bind_spec(m, "GridSpec",
            "An arm of 7 joints, one of them on a grid. See supple.ik.branches.arms.",
            required("coordinate", &GridSpec::coordinate), required("values", &GridSpec::values),
            required("arms", &GridSpec::arms));
  bind_solver_of<GridSolver, GridSpec>(
      m, "GridBranches", "Solutions of poses of an arm of 7 joints, one of them on a grid.",
      "def __init__(self, *, solver: Solver, arm: GridSpec) -> None");
  bind_solver_of<GeneralSolver, GeneralSpec>(
      m, "GeneralBranches", "All solutions of poses of a 6-joint arm of any geometry.",
      "def __init__(self, *, solver: Solver, arm: GeneralSpec) -> None");
  m.def("general_candidates", &general_candidates, "arm"_a, "targets"_a, "sets"_a,
        "Return candidates for the solutions of poses.",
        nb::sig("def general_candidates(arm: GeneralSpec, targets: numpy.typing.ArrayLike, sets: "
                "int) -> tuple[" SUPPLE_F64 ", " SUPPLE_I32 ", " SUPPLE_BOOL "]"));
  m.def("general_equations", &general_equations, "arm"_a, "target"_a,
        "Return both sides of the equations that hold at the solutions of a pose.",
        nb::sig("def general_equations(arm: GeneralSpec, target: numpy.typing.ArrayLike) -> "
                "tuple[" SUPPLE_F64 ", " SUPPLE_F64 "]"));
}

}  // namespace supple
