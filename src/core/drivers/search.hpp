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
using SearchLanes = Pack<float, batch_width<float>>;
using PolishLanes = Pack<double, batch_width<double>>;
constexpr int lanes = width<SearchLanes>, polish_lanes = width<PolishLanes>;

using Row = Pack<float, Table::row>;  // joints side by side

// A piece of memory arena into arrays.
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
IterateState<L> make_state(const IkProblem<T>& ik, Arena& arena) {
  const int n = ik.chain.coordinates, m = ik.rows;
  IterateState<L> at{};
  at.q = arena.take<L>(n);
  at.target = arena.take<L>(ik.targets);
  at.J = arena.take<L>(m * n);
  at.e = arena.take<L>(m);
  at.work = arena.take<L>(iterate_scratch(ik));
  at.J_before = arena.take<L>(ik.step.damping.rule == Rule::mayorga_rank ? m * n : 0);
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
constexpr int first_review = 8, review_interval = 32, max_failures = first_review + polish_lanes;

// In a batch, a target that this many starts have missed is solved as if it were table_attempts,
// every lane a start: a batch and a single call then agree on which targets are unreachable, and
// all lanes work on the same hard problem.
constexpr int hard_after = 16;

// What a problem's failed starts have come to: first the best of those that have come to rest, then
// those that have not.
struct FailedStarts {
  int count, at_rest, since;  // the last: how many since they were looked at
  float cost[max_failures];
  float* q;  // (max_failures, n)

  void clear() { count = at_rest = since = 0; }
};

// The table's starts for a problem, the most promising first: q (count, n).
struct SeedList {
  int count;
  float* q;
};

// Everything that one thread works with.
struct Workspace {
  IterateState<SearchLanes> search, minimize;
  IterateState<PolishLanes> polish;
  IterateState<double> single;
  float* feature;  // (2, targets): of a target, scaled and as it is
  Row* row;        // (padded,)
  SeedList seeds[lanes];
  FailedStarts failures[lanes];
  LaneState lane[lanes];
  float* gathered_q;           // (n,): q of a lane
  float* direction;            // (rows + targets,)
  double* posture_work;        // (5 n,): what `polish` works with
  SearchLanes* minimize_work;  // n of the best q, and newton_scratch
  PolishLanes* polish_work;    // likewise
  double* single_work;
  Workspace* hard;  // for problems of a batch that are solved as if table_attempts; null if there
                    // is no batch

  std::size_t allocate(const SolveRequest& request, void* memory) {
    Arena arena(memory);
    const int n = request.search->chain.coordinates;
    search = make_state<SearchLanes>(*request.search, arena);
    minimize = make_state<SearchLanes>(*request.search, arena);
    polish = make_state<PolishLanes>(*request.polish, arena);
    single = make_state<double>(*request.polish, arena);
    feature = arena.take<float>(2 * request.search->targets);
    row = arena.take<Row>(request.table->padded / Table::row);
    for (int i = 0; i < lanes; ++i) {
      seeds[i].q = arena.take<float>(lanes * n);
      failures[i].q = arena.take<float>(max_failures * n);
    }
    gathered_q = arena.take<float>(n);
    direction = arena.take<float>(request.search->rows + request.search->targets);
    posture_work = arena.take<double>(5 * n);
    minimize_work = arena.take<SearchLanes>(n + newton_scratch(n));
    polish_work = arena.take<PolishLanes>(n + newton_scratch(n));
    single_work = arena.take<double>(n + newton_scratch(n));
    return arena.used();
  }

  // Joints and targets of lanes that have no problem are zero: numbers that nobody stop_interval
  // at, but whose sine may take long.
  void clear(const SolveRequest& request) {
    for (IterateState<SearchLanes>* at : {&search, &minimize}) {
      for (int j = 0; j < request.search->chain.coordinates; ++j) at->q[j] = SearchLanes(0.0f);
      for (int i = 0; i < request.search->targets; ++i) at->target[i] = SearchLanes(0.0f);
    }
  }

  const float* lane_q(int lane, int n) {
    for (int j = 0; j < n; ++j) gathered_q[j] = get(search.q[j], lane);
    return gathered_q;
  }
};

double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double magnitude(double x) { return x < 0 ? -x : x; }

bool stopped(const SolveRequest& request) {
  return request.stop && request.stop(request.stop_context);
}

// ---- starts ------------------------------------------------------------------------------------

// Blocks of a table, or of its clusters: the nearest in each lane, and where it is.
struct Nearest {
  SearchLanes far = SearchLanes(huge_cost), block = SearchLanes(0.0f);

  void scan(const float* blocks, int begin, int end, int k, const float* feature) {
    const SearchLanes* entry =
        reinterpret_cast<const SearchLanes*>(blocks) + std::ptrdiff_t(begin) * (k + 1);
    SearchLanes number = SearchLanes(float(begin));
    for (int b = begin; b < end; ++b, entry += k + 1) {
      SearchLanes here = entry[k];
      for (int i = 0; i < k; ++i) here = fma(entry[i], SearchLanes(-feature[i]), here);
      const mask_t<SearchLanes> nearer = here < far;
      far = select(nearer, here, far);
      block = select(nearer, number, block);
      number = number + SearchLanes(1.0f);
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

constexpr int clusters_scanned = 2, predicted_seeds = 4;
constexpr float clipping_weight = 256;  // how much it weighs that a step is arena at a limit

// About the rotation vector from what is reached to the target: 2 sin(angle / 2) instead of the
// angle. `sine` is the sum of their axes' cross products, over the cosine's.
Vec3<float> rotation_between(const Vec3<float>& sine, float cosine) {
  return sine * std::sqrt(2 / (1 + std::max(cosine, -0.5f)));
}

// The first step from an entry of the table towards a target: q (padded,) inside the limits.
// Returns how promising it is, the less the better: by how far it goes, and how much is arena.
float predict_first_step(const SolveRequest& request, const float* record, const float* target,
                         Row* q) {
  const IkProblem<float>& ik = *request.search;
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
      turn = rotation_between(cross(a, b), dot(a, b));
    } else {
      Vec3<float> sine{0, 0, 0};
      float cosine = -1;
      for (int c = 0; c < 9; c += 3) {
        const Vec3<float> a = axis(reached + c), b = axis(target + c);
        sine = sine + cross(a, b);
        cosine += dot(a, b);
      }
      turn = rotation_between(sine * 0.5f, cosine * 0.5f);
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
    const Row move = q[r] - from[r], clipped = step - move;
    value = fma(move, move, fma(clipped * Row(clipping_weight), clipped, value));
  }
  float sum = 0;
  for (int i = 0; i < Table::row; ++i) sum += get(value, i);
  return sum;
}

// The table's entries that are nearest to a target, one for each lane (which stop_interval at every
// lanes-th entry). Of the nearest of these the first step is predicted_seeds, and they start from
// there, the most promising first.
void nearest_seeds(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace,
                   SeedList& listed) {
  const Table& table = *request.table;
  const int k = request.search->targets, n = request.search->chain.coordinates;
  float* const target = workspace.feature + k;
  for (int i = 0; i < k; ++i) {
    target[i] = float(request.target[problem * k + i]);
    workspace.feature[i] = target[i] * table.scale[i];
  }
  int place[lanes + 1];
  Nearest cluster, entry;
  cluster.scan(table.cluster, 0, table.clusters, k, workspace.feature);
  const int several = std::min(cluster.sorted(clusters_scanned, place), clusters_scanned);
  for (int i = 0; i < several; ++i) {
    entry.scan(table.block, table.begin[place[i]], table.begin[place[i] + 1], k, workspace.feature);
  }
  listed.count = entry.sorted(predicted_seeds, place);
  const int first = std::min(listed.count, predicted_seeds);
  float before[predicted_seeds];
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
double start_coordinate(const SolveRequest& request, std::ptrdiff_t problem, int start,
                        const SeedList& listed, int j) {
  const IkProblem<double>& ik = *request.polish;
  const int n = ik.chain.coordinates;
  if (request.q0) {
    const double own = request.q0[problem * request.q0_stride + j];
    if (start == 0) return own;
    --start;
    if (request.nearest && start % 2 == 0) {
      const double most =
          seed_scatter < 0.25 * ik.seed_range[j] ? seed_scatter : 0.25 * ik.seed_range[j];
      return own + most * (2 * sequence_value(start / 2 + 1, ik.sequence_step[j]) - 1);
    }
    if (request.nearest) start /= 2;
  }
  if (start < listed.count) return listed.q[start * n + j];
  const double share =
      seed_fraction(start - listed.count, request.table->entries, ik.sequence_step[j]);
  return ik.seed_lower[j] + share * ik.seed_range[j];
}

void start_lane(const SolveRequest& request, Workspace& workspace, int lane,
                const SeedList& listed) {
  LaneState& slot = workspace.lane[lane];
  const IkProblem<double>& ik = *request.polish;
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    const double q = start_coordinate(request, slot.problem, slot.start, listed, j);
    set(workspace.search.q[j], lane, float(clamped(q, ik.lower[j], ik.upper[j])));
  }
  set(workspace.search.before, lane, -1.0f);
  slot.iteration = 0;
  slot.cost = huge_cost;
  slot.fresh = false;
}

void set_target(const SolveRequest& request, Workspace& workspace, int lane,
                std::ptrdiff_t problem) {
  const int k = request.search->targets;
  for (int i = 0; i < k; ++i) {
    set(workspace.search.target[i], lane, float(request.target[problem * k + i]));
  }
}

template <class L>
void set_polish_target(const SolveRequest& request, IterateState<L>& at, int lane,
                       std::ptrdiff_t problem) {
  const int k = request.polish->targets;
  for (int i = 0; i < k; ++i) set(at.target[i], lane, request.target[problem * k + i]);
  set(at.before, lane, -1.0);
}

template <class L, class T>
void load_configuration(const SolveRequest& request, IterateState<L>& at, int lane,
                        std::ptrdiff_t problem, const T* q) {
  const IkProblem<double>& ik = *request.polish;
  for (int j = 0; j < ik.chain.coordinates; ++j) {
    set(at.q[j], lane, clamped(double(q[j]), ik.lower[j], ik.upper[j]));
  }
  set_polish_target(request, at, lane, problem);
}

bool lane_stalled(const SolveRequest& request, const Workspace& workspace, int lane,
                  LaneState& slot) {
  return is_stalled(slot.start, slot.iteration, request.search->iteration_factor,
                    get(workspace.search.cost, lane), slot.cost);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
