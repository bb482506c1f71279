// A search for a configuration: its lanes, where starts are, and when they are given up. For files
// that are compiled once for each instruction set.
#pragma once

#include <algorithm>

#include "kernels.hpp"
#include "lanes.hpp"
#include "supple/starts.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The search runs on wide lanes of floats, which are enough to find out where a solution is; what
// it finds is finished and verified in double.
using Wide = Pack<float, batch_width<float>>;
using Fine = Pack<double, batch_width<double>>;
constexpr int lanes = width<Wide>, fine_lanes = width<Fine>;

// A piece of memory cut into arrays.
class Cut {
 public:
  explicit Cut(void* memory) : at_(static_cast<unsigned char*>(memory)), begin_(at_) {}
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
Descent<L> descent(const Quest<T>& quest, Cut& cut) {
  const int n = quest.chain.coordinates, m = quest.rows;
  Descent<L> at{};
  at.q = cut.take<L>(n);
  at.target = cut.take<L>(quest.targets);
  at.J = cut.take<L>(m * n);
  at.e = cut.take<L>(m);
  at.work = cut.take<L>(descent_work(quest));
  at.J_before = cut.take<L>(quest.step.damping.rule == Rule::mayorga_rank ? m * n : 0);
  at.before = L(-1);
  return at;
}

// One lane of the search.
struct Slot {
  std::ptrdiff_t problem;  // negative: idle
  int start;               // number of the start
  int iteration;           // since then
  int iterations;          // of all starts of the problem
  float cost;              // a few iterations ago
  bool fresh;              // to be begun after the step
};

// After every so many failed starts of a problem the best of them are looked at: they come to rest,
// and may show that there is no solution. That is worth waiting for where there are many rows.
constexpr int looked_at = 16, kept = looked_at + fine_lanes;

int round_of_starts(const SolveRequest& request) {
  return request.fine->rows <= 6 ? looked_at : 4 * looked_at;
}

// What a problem's failed starts have come to: first the best of those that have come to rest, then
// those that have not.
struct Failures {
  int count, at_rest, since;  // the last: how many since they were looked at
  int agreed;                 // so many came to rest where the best did, as far as the cost tells
  float cost[kept];
  float* q;  // (kept, n)

  void clear() { count = at_rest = since = agreed = 0; }
};

// Everything that one thread works with.
struct Room {
  Descent<Wide> wide, still;  // what descends; what settles
  Descent<Fine> fine;
  Descent<double> lone;
  float* feature;     // (targets,)
  int* which[lanes];  // (lanes,) each: the table's entries to start from, the nearest first
  Failures failures[lanes];
  Slot slot[lanes];
  float* one;        // (n,): q of a lane
  float* along;      // (rows + targets,)
  double* v;         // (n,): a pull, and the q before it (n,)
  Wide* still_work;  // n of the best q, and settle_work
  Fine* fine_work;   // likewise

  std::size_t lay_out(const SolveRequest& request, void* memory) {
    Cut cut(memory);
    const int n = request.wide->chain.coordinates;
    wide = descent<Wide>(*request.wide, cut);
    still = descent<Wide>(*request.wide, cut);
    fine = descent<Fine>(*request.fine, cut);
    lone = descent<double>(*request.fine, cut);
    feature = cut.take<float>(request.wide->targets);
    for (int i = 0; i < lanes; ++i) {
      which[i] = cut.take<int>(lanes);
      failures[i].q = cut.take<float>(kept * n);
    }
    one = cut.take<float>(n);
    along = cut.take<float>(request.wide->rows + request.wide->targets);
    v = cut.take<double>(2 * n);
    still_work = cut.take<Wide>(n + settle_work(n));
    fine_work = cut.take<Fine>(n + settle_work(n));
    return cut.used();
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

// The table's entries that are nearest to a target, one for each lane (which looks at every
// lanes-th entry), the nearest first. What is compared are the numbers of the target, scaled: the
// table is (entries / lanes, targets + 1, lanes), the last of each being half the square of all
// others.
void look_up(const SolveRequest& request, std::ptrdiff_t problem, Room& room, int* which) {
  if (!request.entries) return;
  const int k = request.wide->targets;
  for (int i = 0; i < k; ++i) {
    room.feature[i] = float(request.target[problem * k + i]) * request.feature_scale[i];
  }
  Wide best(huge_cost), index(0.0f), number(0.0f);
  const Wide* entry = reinterpret_cast<const Wide*>(request.table);
  for (int block = 0; block < request.entries / lanes; ++block, entry += k + 1) {
    Wide far = entry[k];
    for (int i = 0; i < k; ++i) far = fma(entry[i], Wide(-room.feature[i]), far);
    const mask_t<Wide> nearer = far < best;
    best = select(nearer, far, best);
    index = select(nearer, number, index);
    number = number + Wide(1.0f);
  }
  float near[lanes];
  for (int i = 0; i < lanes; ++i) {
    const float far = get(best, i);
    int at = i;
    for (; at > 0 && near[at - 1] > far; --at) {
      near[at] = near[at - 1];
      which[at] = which[at - 1];
    }
    near[at] = far;
    which[at] = int(get(index, i)) * lanes + i;
  }
}

// A number of a sequence that fills (0, 1) evenly, in each coordinate j another one.
double share_of(const Quest<double>& quest, int k, int j) {
  const double share = 0.5 + k * quest.stride[j];
  return share - double(static_cast<long long>(share));
}

// Coordinate j of a start: the caller's own first, then the table's nearest, then points spread
// evenly over all configurations, the same ones always. If an answer near the caller's start is
// wanted, every second is one near it.
double start_at(const SolveRequest& request, std::ptrdiff_t problem, int start, const int* which,
                int j) {
  const Quest<double>& quest = *request.fine;
  const int n = quest.chain.coordinates, listed = request.entries ? lanes : 0;
  if (request.q0) {
    const double own = request.q0[problem * request.q0_stride + j];
    if (start == 0) return own;
    --start;
    if (request.nearest && start % 2 == 0) {
      const double most = scatter < 0.25 * quest.span[j] ? scatter : 0.25 * quest.span[j];
      return own + most * (2 * share_of(quest, start / 2 + 1, j) - 1);
    }
    if (request.nearest) start /= 2;
  }
  if (start < listed) return request.seeds[std::ptrdiff_t(which[start]) * n + j];
  return quest.from[j] + share_of(quest, start - listed + request.entries + 1, j) * quest.span[j];
}

void begin(const SolveRequest& request, Room& room, int lane, const int* which) {
  Slot& slot = room.slot[lane];
  const Quest<double>& quest = *request.fine;
  for (int j = 0; j < quest.chain.coordinates; ++j) {
    const double q = start_at(request, slot.problem, slot.start, which, j);
    set(room.wide.q[j], lane, float(clamped(q, quest.lower[j], quest.upper[j])));
  }
  set(room.wide.before, lane, -1.0f);
  slot.iteration = 0;
  slot.cost = huge_cost;
  slot.fresh = false;
}

void aim(const SolveRequest& request, Room& room, int lane, std::ptrdiff_t problem) {
  const int k = request.wide->targets;
  for (int i = 0; i < k; ++i) {
    set(room.wide.target[i], lane, float(request.target[problem * k + i]));
  }
}

template <class L>
void aim_finely(const SolveRequest& request, Descent<L>& at, int lane, std::ptrdiff_t problem) {
  const int k = request.fine->targets;
  for (int i = 0; i < k; ++i) set(at.target[i], lane, request.target[problem * k + i]);
  set(at.before, lane, -1.0);
}

template <class L, class T>
void put_in(const SolveRequest& request, Descent<L>& at, int lane, std::ptrdiff_t problem,
            const T* q) {
  const Quest<double>& quest = *request.fine;
  for (int j = 0; j < quest.chain.coordinates; ++j) {
    set(at.q[j], lane, clamped(double(q[j]), quest.lower[j], quest.upper[j]));
  }
  aim_finely(request, at, lane, problem);
}

bool stuck(const SolveRequest& request, const Room& room, int lane, Slot& slot) {
  return given_up(slot.start, slot.iteration, request.wide->pace, get(room.wide.cost, lane),
                  slot.cost);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
