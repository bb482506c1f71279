// A search for a configuration: its lanes, where starts are, and when they are given up. For files
// that are compiled once for each instruction set.
// Tuned constants and what chose them: docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "supple/ik/restarts.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The search runs on wide lanes of floats, which are enough to find out where a solution is; what
// it finds is finished and verified in double.
using Wide = Pack<float, batch_width<float>>;
using Fine = Pack<double, batch_width<double>>;
constexpr int lanes = width<Wide>, fine_lanes = width<Fine>;

using Row = Pack<float, Table::row>;  // joints side by side

// A piece of memory cut into arrays.
class Arena {
 public:
  explicit Arena(void* memory) : at_(static_cast<unsigned char*>(memory)), begin_(at_) {}
  template <class L>
  L* take(int count) {
    L* const piece = reinterpret_cast<L*>(at_);
    at_ += (sizeof(L) * std::size_t(count) + 63) / 64 * 64;
    return piece;
  }
  std::size_t used() const { return std::size_t(at_ - begin_); }

 private:
  unsigned char *at_, *begin_;
};

template <class L, class T>
IterateState<L> descent(const IkProblem<T>& ik, Arena& cut) {
  const int n = ik.chain.coordinates, m = ik.rows;
  IterateState<L> at{};
  at.q = cut.take<L>(n);
  at.target = cut.take<L>(ik.targets);
  at.J = cut.take<L>(m * n);
  at.e = cut.take<L>(m);
  at.work = cut.take<L>(descent_work(ik));
  at.J_before = cut.take<L>(ik.step.damping.rule == Rule::mayorga_rank ? m * n : 0);
  at.before = L(-1);
  return at;
}

// One lane of the search.
struct LaneState {
  std::ptrdiff_t problem;  // negative: idle
  int start;               // number of the start
  int iteration;           // since then
  int iterations;          // of all starts of the problem
  float cost;              // a few iterations ago
  bool fresh;              // to be begun after the step
};

// After the first of these numbers of failed starts, and after every further of the second, the
// best of a problem's failed starts are brought to rest: some arrive that way, and the best of them
// may show that the target is out of reach. With many rows the first look comes late.
constexpr int first_look = 8, next_looks = 32, kept = first_look + fine_lanes;

// In a batch, a target that this many starts have missed is solved as if it were alone, every lane
// a start: a batch and a single call then agree on which targets are unreachable, and all lanes
// work on the same hard problem.
constexpr int hard_after = 16;

// What a problem's failed starts have come to: first the best of those that have come to rest, then
// those that have not.
struct FailedStarts {
  int count, at_rest, since;  // the last: how many since they were looked at
  float cost[kept];
  float* q;  // (kept, n)

  void clear() { count = at_rest = since = 0; }
};

// The table's starts for a problem, the most promising first: q (count, n).
struct SeedList {
  int count;
  float* q;
};

// Everything that one thread works with.
struct Workspace {
  IterateState<Wide> wide, still;  // what descends; what settles
  IterateState<Fine> fine;
  IterateState<double> lone;
  float* feature;  // (2, targets): of a target, scaled and as it is
  Row* row;        // (padded,)
  SeedList listed[lanes];
  FailedStarts failures[lanes];
  LaneState slot[lanes];
  float* one;        // (n,): q of a lane
  float* along;      // (rows + targets,)
  double* v;         // (5 n,): what `polish` works with
  Wide* still_work;  // n of the best q, and settle_work
  Fine* fine_work;   // likewise
  double* lone_work;
  Workspace*
      hard;  // for problems of a batch that are solved as if alone; null if there is no batch

  std::size_t compile_tasks(const SolveRequest& request, void* memory) {
    Arena cut(memory);
    const int n = request.wide->chain.coordinates;
    wide = descent<Wide>(*request.wide, cut);
    still = descent<Wide>(*request.wide, cut);
    fine = descent<Fine>(*request.fine, cut);
    lone = descent<double>(*request.fine, cut);
    feature = cut.take<float>(2 * request.wide->targets);
    row = cut.take<Row>(request.table->padded / Table::row);
    for (int i = 0; i < lanes; ++i) {
      listed[i].q = cut.take<float>(lanes * n);
      failures[i].q = cut.take<float>(kept * n);
    }
    one = cut.take<float>(n);
    along = cut.take<float>(request.wide->rows + request.wide->targets);
    v = cut.take<double>(5 * n);
    still_work = cut.take<Wide>(n + settle_work(n));
    fine_work = cut.take<Fine>(n + settle_work(n));
    lone_work = cut.take<double>(n + settle_work(n));
    return cut.used();
  }

  // Joints and targets of lanes that have no problem are zero: numbers that nobody looks at, but
  // whose sine may take long.
  void clear(const SolveRequest& request) {
    for (IterateState<Wide>* at : {&wide, &still}) {
      for (int j = 0; j < request.wide->chain.coordinates; ++j) at->q[j] = Wide(0.0f);
      for (int i = 0; i < request.wide->targets; ++i) at->target[i] = Wide(0.0f);
    }
  }

  const float* lane_q(int lane, int n) {
    for (int j = 0; j < n; ++j) one[j] = get(wide.q[j], lane);
    return one;
  }
};

double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double size(double x) { return x < 0 ? -x : x; }

bool stopped(const SolveRequest& request) { return request.stop && request.stop(request.watch); }

// ---- starts ------------------------------------------------------------------------------------

// Blocks of a table, or of its centres: the nearest in each lane, and where it is.
struct Nearest {
  Wide far = Wide(huge_cost), block = Wide(0.0f);

  void scan(const float* blocks, int begin, int end, int k, const float* feature) {
    const Wide* entry = reinterpret_cast<const Wide*>(blocks) + std::ptrdiff_t(begin) * (k + 1);
    Wide number = Wide(float(begin));
    for (int b = begin; b < end; ++b, entry += k + 1) {
      Wide here = entry[k];
      for (int i = 0; i < k; ++i) here = fma(entry[i], Wide(-feature[i]), here);
      const mask_t<Wide> nearer = here < far;
      far = select(nearer, here, far);
      block = select(nearer, number, block);
      number = number + Wide(1.0f);
    }
  }

  // The places (lanes + 1,) of the lanes' nearest, the first `most` in order. Returns how many
  // there are.
  int sorted(int most, int* place) const {
    float before[lanes + 1];
    int count = 0;
    for (int i = 0; i < lanes; ++i) {
      const float here = get(far, i);
      if (!(here < huge_cost)) continue;
      int at = count++;
      if (at >= most && here < before[most - 1]) {  // the last of the first makes room
        place[at] = place[most - 1];
        at = most - 1;
      }
      for (; at > 0 && at < most && before[at - 1] > here; --at) {
        before[at] = before[at - 1];
        place[at] = place[at - 1];
      }
      before[at] = here;
      place[at] = int(get(block, i)) * lanes + i;
    }
    return count;
  }
};

constexpr int centres_scanned = 2, foreseen = 4;
constexpr float outside_counts = 256;  // how much it weighs that a step is cut at a limit

// About the rotation vector from what is reached to the target: 2 sin(angle / 2) instead of the
// angle. `sine` is the sum of their axes' cross products, over the cosine's.
Vec3<float> turn_between(const Vec3<float>& sine, float cosine) {
  return sine * std::sqrt(2 / (1 + std::max(cosine, -0.5f)));
}

// The first step from an entry of the table towards a target: q (padded,) inside the limits.
// Returns how promising it is, the less the better: by how far it goes, and how much is cut.
float predict_first_step(const SolveRequest& request, const float* record, const float* target,
                         Row* q) {
  const IkProblem<float>& ik = *request.wide;
  const Table& table = *request.table;
  const int rows = table.padded / Table::row;
  const Row* const from = reinterpret_cast<const Row*>(record);
  const Row* gain = from + rows;
  const float* reached = record + table.padded * (1 + 6 * ik.tasks);
  const auto axis = [](const float* x) { return Vec3<float>{x[0], x[1], x[2]}; };
  for (int r = 0; r < rows; ++r) q[r] = Row(0.0f);
  for (int t = 0; t < ik.tasks; ++t) {
    float d[6] = {};
    Vec3<float> turn;
    if (ik.task[t].goal == Goal::axis) {
      const Vec3<float> a = axis(reached), b = axis(target);
      turn = turn_between(cross(a, b), dot(a, b));
    } else {
      Vec3<float> sine{0, 0, 0};
      float cosine = -1;
      for (int c = 0; c < 9; c += 3) {
        const Vec3<float> a = axis(reached + c), b = axis(target + c);
        sine = sine + cross(a, b);
        cosine += dot(a, b);
      }
      turn = turn_between(sine * 0.5f, cosine * 0.5f);
      for (int c = 0; c < 3; ++c) d[c] = target[9 + c] - reached[9 + c];
    }
    d[3] = turn.x, d[4] = turn.y, d[5] = turn.z;
    for (int c = 0; c < 6; ++c, gain += rows) {
      for (int r = 0; r < rows; ++r) q[r] = fma(gain[r], Row(d[c]), q[r]);
    }
    reached += target_size(ik.task[t]);
    target += target_size(ik.task[t]);
  }
  const Row *lower = reinterpret_cast<const Row*>(table.limits), *upper = lower + rows;
  const Row* longest = upper + rows;
  Row value(0.0f);
  for (int r = 0; r < rows; ++r) {
    const Row step = q[r], most = longest[r];
    q[r] = min(max(from[r] + min(max(step, -most), most), lower[r]), upper[r]);
    const Row move = q[r] - from[r], cut = step - move;
    value = fma(move, move, fma(cut * Row(outside_counts), cut, value));
  }
  float sum = 0;
  for (int i = 0; i < Table::row; ++i) sum += get(value, i);
  return sum;
}

// The table's entries that are nearest to a target, one for each lane (which looks at every
// lanes-th entry). Of the nearest of these the first step is foreseen, and they start from there,
// the most promising first.
void nearest_seeds(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace,
                   SeedList& listed) {
  const Table& table = *request.table;
  const int k = request.wide->targets, n = request.wide->chain.coordinates;
  float* const target = workspace.feature + k;
  for (int i = 0; i < k; ++i) {
    target[i] = float(request.target[problem * k + i]);
    workspace.feature[i] = target[i] * table.scale[i];
  }
  int place[lanes + 1];
  Nearest centre, entry;
  centre.scan(table.centre, 0, table.centres, k, workspace.feature);
  const int several = std::min(centre.sorted(centres_scanned, place), centres_scanned);
  for (int i = 0; i < several; ++i) {
    entry.scan(table.block, table.begin[place[i]], table.begin[place[i] + 1], k, workspace.feature);
  }
  listed.count = entry.sorted(foreseen, place);
  const int first = std::min(listed.count, foreseen);
  float before[foreseen];
  for (int i = 0; i < first; ++i) {  // (the table may be larger than what is near the core)
    const float* const record = table.record + std::ptrdiff_t(place[i]) * table.size;
    for (int at = 0; at < table.size; at += 16) __builtin_prefetch(record + at);
  }
  for (int i = 0; i < first; ++i) {
    const float here = predict_first_step(
        request, table.record + std::ptrdiff_t(place[i]) * table.size, target, workspace.row);
    int at = i;
    for (; at > 0 && before[at - 1] > here; --at) {
      before[at] = before[at - 1];
      std::copy_n(listed.q + (at - 1) * n, n, listed.q + at * n);
    }
    before[at] = here;
    for (int j = 0; j < n; ++j)
      listed.q[at * n + j] = get(workspace.row[j / Table::row], j % Table::row);
  }
  for (int i = first; i < listed.count; ++i) {
    std::copy_n(table.record + std::ptrdiff_t(place[i]) * table.size, n, listed.q + i * n);
  }
}

// Coordinate j of a start: the caller's own first, then the table's nearest, then points spread
// evenly over all configurations, the same ones always. If an answer near the caller's start is
// wanted, every second is one near it.
double start_at(const SolveRequest& request, std::ptrdiff_t problem, int start,
                const SeedList& listed, int j) {
  const IkProblem<double>& ik = *request.fine;
  const int n = ik.chain.coordinates;
  if (request.q0) {
    const double own = request.q0[problem * request.q0_stride + j];
    if (start == 0) return own;
    --start;
    if (request.nearest && start % 2 == 0) {
      const double most = scatter < 0.25 * ik.span[j] ? scatter : 0.25 * ik.span[j];
      return own + most * (2 * share_of(start / 2 + 1, ik.stride[j]) - 1);
    }
    if (request.nearest) start /= 2;
  }
  if (start < listed.count) return listed.q[start * n + j];
  const double share = seed_share(start - listed.count, request.table->entries, ik.stride[j]);
  return ik.from[j] + share * ik.span[j];
}

void begin(const SolveRequest& request, Workspace& workspace, int lane, const SeedList& listed) {
  LaneState& slot = workspace.slot[lane];
  const IkProblem<double>& ik = *request.fine;
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    const double q = start_at(request, slot.problem, slot.start, listed, j);
    set(workspace.wide.q[j], lane, float(clamped(q, ik.lower[j], ik.upper[j])));
  }
  set(workspace.wide.before, lane, -1.0f);
  slot.iteration = 0;
  slot.cost = huge_cost;
  slot.fresh = false;
}

void aim(const SolveRequest& request, Workspace& workspace, int lane, std::ptrdiff_t problem) {
  const int k = request.wide->targets;
  for (int i = 0; i < k; ++i) {
    set(workspace.wide.target[i], lane, float(request.target[problem * k + i]));
  }
}

template <class L>
void aim_finely(const SolveRequest& request, IterateState<L>& at, int lane,
                std::ptrdiff_t problem) {
  const int k = request.fine->targets;
  for (int i = 0; i < k; ++i) set(at.target[i], lane, request.target[problem * k + i]);
  set(at.before, lane, -1.0);
}

template <class L, class T>
void put_in(const SolveRequest& request, IterateState<L>& at, int lane, std::ptrdiff_t problem,
            const T* q) {
  const IkProblem<double>& ik = *request.fine;
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    set(at.q[j], lane, clamped(double(q[j]), ik.lower[j], ik.upper[j]));
  }
  aim_finely(request, at, lane, problem);
}

bool stuck(const SolveRequest& request, const Workspace& workspace, int lane, LaneState& slot) {
  return given_up(slot.start, slot.iteration, request.wide->pace, get(workspace.wide.cost, lane),
                  slot.cost);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
