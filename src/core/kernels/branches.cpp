// All solutions of poses of 6-joint arms, compiled once for each instruction set, which SUPPLE_ISA
// names: in closed form (include/supple/ik/closed_form.hpp), or as eigenvalues (general.hpp).
#include <new>

#include "drivers/branches.hpp"
#include "drivers/general.hpp"
#include "kernels/ik_family.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The axes of an arm and the pose of its frame at q = 0.
struct Axes {
  Line<double> axis[6];
  Pose<double> home;

  explicit Axes(const Arm& arm) {
    const auto vector = [](const double* v) { return Vec3<double>{v[0], v[1], v[2]}; };
    for (int i = 0; i < 6; ++i) axis[i] = {vector(arm.axis + 3 * i), vector(arm.point + 3 * i)};
    home = {{vector(arm.home), vector(arm.home + 3), vector(arm.home + 6)}, vector(arm.home + 9)};
  }
};

ArmOfRobot closed_form(const Arm& arm) {
  const Axes axes(arm);
  ArmOfRobot made{};
  made.form = {.kind = arm.parallel ? ArmKind::parallel : ArmKind::spherical,
               .first = arm.first,
               .axis = {},
               .length = arm.length,
               .slack = arm.slack,
               .samples = arm.samples};
  made.home = axes.home;
  for (int i = 0; i < 6; ++i) {
    made.form.axis[i] = axes.axis[i];
    made.coordinate[i] = arm.coordinate[i];
  }
  return made;
}

GeneralArm general_arm(const Arm& arm, int numbering) {
  const Axes axes(arm);
  return GeneralArm(arm.start[numbering], axes.axis, axes.home, arm.length);
}

// The state of a search, at the beginning of its memory. The arms in all numberings and the arrays
// follow it.
struct BranchSearch {
  ArmOfRobot arm;
  int numberings;
  GeneralArm* general;  // (numberings,)
  BranchPolisher polisher;

  BranchSearch(const IkProblem<double>& ik, const Arm& given)
      : arm(closed_form(given)),
        numberings(given.numberings),
        general(nullptr),
        polisher(ik, given.coordinate, numberings ? 0 : given.slack,
                 numberings ? candidate_error : 0) {}
};

constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr std::size_t search_size = rounded(sizeof(BranchSearch));

std::size_t memory(const IkProblem<double>& ik, const Arm& arm) {
  return search_size + rounded(std::size_t(arm.numberings) * sizeof(GeneralArm)) +
         BranchSearch(ik, arm).polisher.allocate(nullptr);
}

void prepare(const IkProblem<double>& ik, const Arm& arm, void* memory) {
  auto* const search = new (memory) BranchSearch(ik, arm);
  unsigned char* next = static_cast<unsigned char*>(memory) + search_size;
  search->general = reinterpret_cast<GeneralArm*>(next);
  for (int i = 0; i < arm.numberings; ++i)
    new (search->general + i) GeneralArm(general_arm(arm, i));
  next += rounded(std::size_t(arm.numberings) * sizeof(GeneralArm));
  search->polisher.allocate(next);
  search->polisher.clear();
}

// An arm of any geometry is solved with one numbering after the other, and with all zeros of
// half-angle tangents, until its solutions are complete.
bool solve_general(BranchSearch& search, const double* target) {
  bool certain = false;
  for (int k = 0; k < search.numberings; ++k) {
    for (int i = 0; i < general_zero_sets && !certain; ++i) {
      certain = search.general[k].candidates(
          target, general_zeros[i],
          [&](const Turn<double>* turn) { search.polisher.offer(turn, {}); });
    }
  }
  return certain;
}

bool solve(void* memory, const double* target, const double* q0, const SolutionSink& sink) {
  BranchSearch& search = *static_cast<BranchSearch*>(memory);
  search.polisher.begin(target, q0, sink);
  if (search.numberings) {
    const bool certain = solve_general(search, target);
    search.polisher.end();
    return certain;
  }
  const Pose<double> X = displacement_to(search.arm.home, target);
  closed_form_candidates(search.arm.form, X, [&](const Candidate<double>& candidate) {
    search.polisher.offer(candidate.turn, candidate.mark);
  });
  return search.polisher.end();
}

int candidates(const Arm& arm, const double* target, int sets, double* angle, bool& certain) {
  const GeneralArm general = general_arm(arm, 0);
  int count = 0;
  certain = false;
  for (int k = 0; k < sets && !certain; ++k) {
    certain = general.candidates(target, general_zeros[k], [&](const Turn<double>* turn) {
      for (int j = 0; j < 6; ++j) angle[6 * count + j] = angle_of(turn[j]);
      ++count;
    });
  }
  return count;
}

void equations(const Arm& arm, const double* target, double* left, double* right) {
  const GeneralArm general = general_arm(arm, 0);
  const LineEquations& lines = general.lines();
  lines.sides(lines.displacement(target), left, right);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const BranchKernel SUPPLE_BRANCH_KERNEL(SUPPLE_ISA);
const BranchKernel SUPPLE_BRANCH_KERNEL(SUPPLE_ISA) = {&memory, &prepare, &solve, &candidates,
                                                       &equations};

}  // namespace supple
