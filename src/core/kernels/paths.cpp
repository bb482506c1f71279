// Configurations along a path, compiled once for each instruction set, which SUPPLE_ISA names: how
// they are tracked (track.hpp), and their errors.
#include "drivers/track.hpp"
#include "kernels/ik_family.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

std::size_t track_memory(const TrackRequest& request) {
  return std::size_t(Tracker(request).allocate(nullptr)) * sizeof(double);
}

std::ptrdiff_t track(const TrackRequest& request, const double* q, const double* targets,
                     std::ptrdiff_t steps, std::ptrdiff_t stride, double* to, void* memory) {
  Tracker tracker(request);
  tracker.allocate(static_cast<double*>(memory));
  const std::ptrdiff_t each = request.intervals * request.ik->targets;
  for (std::ptrdiff_t s = 0; s < steps; ++s, to += stride) {
    if (!tracker.advance(q, targets + s * each, to)) return s;
    q = to;
  }
  return steps;
}

// Errors of several configurations at a time, each on a lane.
using ErrorLanes = Unrolled<double>;

IterateState<ErrorLanes> error_state(const IkProblem<double>& ik, Arena<ErrorLanes>& arena) {
  IterateState<ErrorLanes> at{};
  at.q = arena.take(ik.chain.nq);
  at.target = arena.take(ik.targets);
  at.e = arena.take(ik.rows);
  at.work = arena.take(iterate_scratch(ik));
  return at;
}

std::size_t error_memory(const IkProblem<double>& ik) {
  Arena<ErrorLanes> arena(nullptr);
  error_state(ik, arena);
  return std::size_t(arena.size()) * sizeof(ErrorLanes);
}

void errors(const IkProblem<double>& ik, int places, const double* q, const double* target,
            double* e, void* memory) {
  Arena<ErrorLanes> arena(static_cast<ErrorLanes*>(memory));
  IterateState<ErrorLanes> at = error_state(ik, arena);
  for (int i = 0; i < arena.size(); ++i) at.q[i] = ErrorLanes(0);  // idle lanes are evaluated, too
  const int n = ik.chain.nq;
  for (int first = 0; first < places; first += width<ErrorLanes>) {
    const int left = places - first;
    const int used = left < width<ErrorLanes> ? left : width<ErrorLanes>;
    for (int k = 0; k < used; ++k) {
      for (int j = 0; j < n; ++j) set(at.q[j], k, q[(first + k) * n + j]);
      for (int j = 0; j < ik.targets; ++j)
        set(at.target[j], k, target[(first + k) * ik.targets + j]);
    }
    evaluate_error(ik, at);
    for (int k = 0; k < used; ++k) {
      for (int i = 0; i < ik.rows; ++i) {
        e[(first + k) * ik.rows + i] = get(at.e[i], k) * ik.tolerance_unit[i];
      }
    }
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const PathKernel SUPPLE_PATH_KERNEL(SUPPLE_ISA);
const PathKernel SUPPLE_PATH_KERNEL(SUPPLE_ISA) = {&track_memory, &track, &error_memory, &errors};

}  // namespace supple
