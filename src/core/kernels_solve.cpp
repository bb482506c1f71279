// Position inverse kinematics, compiled once for each instruction set: SUPPLE_ISA names it.
//
// The search runs on wide lanes of floats, which are enough to find out where a solution is; what
// it finds is finished and verified in double. In one problem every lane is another start; in a
// batch every lane is another problem, which is exchanged for the next one as soon as it is done.
#include "kernels.hpp"
#include "lanes.hpp"
#include "supple/solve.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

using Wide = Pack<float, batch_width<float>>;
constexpr int lanes = width<Wide>;
// Starts that the table gives a target: so many for each lane, and in all.
constexpr int deep = 1, seeded = deep * lanes;

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
  at.work = cut.take<L>(descent_work(quest.chain.joints, m, n));
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

using Fine = Pack<double, batch_width<double>>;
constexpr int fine_lanes = width<Fine>;

// The best that a problem's failed starts have come to: as many as are settled side by side.
struct Failures {
  int count;
  float cost[fine_lanes];
  float* q;  // (fine_lanes, n)
};

// Everything that one thread works with.
struct Room {
  Descent<Wide> wide;
  Descent<Fine> fine;
  Descent<double> lone;
  float* feature;     // (targets,)
  int* which[lanes];  // (seeded,) each: the table's entries to start from, the nearest first
  Failures failures[lanes];
  Slot slot[lanes];
  float* one;         // (n,): q of a lane
  Fine* settle_work;  // n of the best q, and settle_work

  std::size_t lay_out(const SolveRequest& request, void* memory) {
    Cut cut(memory);
    const int n = request.wide->chain.coordinates;
    wide = descent<Wide>(*request.wide, cut);
    fine = descent<Fine>(*request.fine, cut);
    lone = descent<double>(*request.fine, cut);
    feature = cut.take<float>(request.wide->targets);
    for (int i = 0; i < lanes; ++i) {
      which[i] = cut.take<int>(seeded);
      failures[i] = {0, {}, cut.take<float>(fine_lanes * n)};
    }
    one = cut.take<float>(n);
    settle_work = cut.take<Fine>(n + supple::settle_work(n));
    return cut.used();
  }

  const float* lane_q(int lane, int n) {
    for (int j = 0; j < n; ++j) one[j] = get(wide.q[j], lane);
    return one;
  }
};

// The table's entries that are nearest to a target, a few for each lane (which looks at every
// lanes-th entry), the nearest first. What is compared are the numbers of the target, scaled: the
// table is (entries / lanes, targets + 1, lanes), the last of each being half the square of all
// others.
void look_up(const SolveRequest& request, const double* target, Room& room, int* which) {
  if (!request.entries) return;
  const int k = request.wide->targets;
  for (int i = 0; i < k; ++i) room.feature[i] = float(target[i]) * request.feature_scale[i];
  Wide best[deep], index[deep], number(0.0f);
  for (int d = 0; d < deep; ++d) best[d] = Wide(3e38f), index[d] = Wide(0.0f);
  const Wide* entry = reinterpret_cast<const Wide*>(request.table);
  for (int block = 0; block < request.entries / lanes; ++block, entry += k + 1) {
    Wide far = entry[k], at = number;
    for (int i = 0; i < k; ++i) far = fma(entry[i], Wide(-room.feature[i]), far);
    for (int d = 0; d < deep; ++d) {
      const mask_t<Wide> nearer = far < best[d];
      const Wide pushed = best[d], from = index[d];
      best[d] = select(nearer, far, pushed);
      index[d] = select(nearer, at, from);
      far = select(nearer, pushed, far);
      at = select(nearer, from, at);
    }
    number = number + Wide(1.0f);
  }
  float near[seeded];
  for (int i = 0; i < seeded; ++i) {
    const float far = get(best[i / lanes], i % lanes);
    int at = i;
    for (; at > 0 && near[at - 1] > far; --at) {
      near[at] = near[at - 1];
      which[at] = which[at - 1];
    }
    near[at] = far;
    which[at] = int(get(index[i / lanes], i % lanes)) * lanes + i % lanes;
  }
}

double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

// Coordinate j of a start: the caller's own first, then the table's nearest, then points spread
// evenly over all configurations, the same ones always.
double start_at(const SolveRequest& request, std::ptrdiff_t problem, int start, const int* which,
                int j) {
  const Quest<double>& quest = *request.fine;
  const int n = quest.chain.coordinates, listed = request.entries ? seeded : 0;
  if (request.q0) {
    if (start == 0) return request.q0[problem * request.q0_stride + j];
    --start;
  }
  if (start < listed) return request.seeds[std::ptrdiff_t(which[start]) * n + j];
  double share = 0.5 + (start - listed + 1) * quest.stride[j];
  share -= double(static_cast<long long>(share));
  return quest.from[j] + share * quest.span[j];
}

void begin(const SolveRequest& request, Room& room, int lane, const int* which) {
  Slot& slot = room.slot[lane];
  const Quest<double>& quest = *request.fine;
  for (int j = 0; j < quest.chain.coordinates; ++j) {
    const double q = start_at(request, slot.problem, slot.start, which, j);
    set(room.wide.q[j], lane, float(clamped(q, quest.lower[j], quest.upper[j])));
  }
  slot.iteration = 0;
  slot.cost = 3e38f;
  slot.fresh = false;
}

void aim(const SolveRequest& request, Room& room, int lane, std::ptrdiff_t problem) {
  const int k = request.wide->targets;
  for (int i = 0; i < k; ++i) {
    set(room.wide.target[i], lane, float(request.target[problem * k + i]));
  }
}

// Whether a start gets nowhere: every few iterations its cost must have fallen by a good part. The
// first starts are given up soon, for most targets have many ways; where they have failed it takes
// patience (towards a singular pose convergence is only linear).
bool stuck(const SolveRequest& request, const Room& room, int lane, Slot& slot) {
  const int patience = slot.start < request.patient ? 1 : 2;
  if (slot.iteration >= patience * patience * request.max_iterations) return true;
  if (slot.iteration % (patience * request.window)) return false;
  const float cost = get(room.wide.cost, lane);
  const bool slow = !(cost <= request.ratio * slot.cost);
  slot.cost = cost;
  return slow;
}

// Keeps where a start has got stuck if it is one of the best, and no other is at the same place.
void keep(const SolveRequest& request, Room& room, int lane, Failures& failures) {
  const int n = request.wide->chain.coordinates;
  const float cost = get(room.wide.cost, lane), *q = room.lane_q(lane, n);
  int at = -1, worst = 0;
  for (int i = 0; i < failures.count; ++i) {
    float most = 0;
    for (int j = 0; j < n; ++j) {
      const float off = q[j] - failures.q[i * n + j];
      most = most > off ? most : off;
      most = most > -off ? most : -off;
    }
    if (most < request.alike) at = i;
    if (failures.cost[i] > failures.cost[worst]) worst = i;
  }
  if (at < 0)
    at = failures.count < fine_lanes ? failures.count++ : worst;
  else if (!(cost < failures.cost[at]))
    return;
  if (at == worst && failures.count == fine_lanes && !(cost < failures.cost[at])) return;
  failures.cost[at] = cost;
  for (int j = 0; j < n; ++j) failures.q[at * n + j] = q[j];
}

template <class L>
void put_in(const SolveRequest& request, Descent<L>& at, int lane, std::ptrdiff_t problem,
            const float* q) {
  const Quest<double>& quest = *request.fine;
  for (int j = 0; j < quest.chain.coordinates; ++j) {
    set(at.q[j], lane, clamped(double(q[j]), quest.lower[j], quest.upper[j]));
  }
  for (int k = 0; k < quest.targets; ++k) {
    set(at.target[k], lane, request.target[problem * quest.targets + k]);
  }
}

template <class L>
void record(const SolveRequest& request, std::ptrdiff_t row, const Descent<L>& at, int lane,
            Outcome outcome, int iterations, int starts) {
  const int n = request.fine->chain.coordinates;
  for (int j = 0; j < n; ++j) request.q[row * n + j] = get(at.q[j], lane);
  request.outcome[row] = outcome;
  request.error[2 * row] = get(at.position, lane);
  request.error[2 * row + 1] = get(at.rotation, lane);
  request.effort[2 * row] = iterations;
  request.effort[2 * row + 1] = starts;
}

// From the best of the failed starts to the closest poses; room.fine holds them, and which of them
// is the best is returned. Newton's method, damped more after a step that made things worse.
int settle(const SolveRequest& request, Room& room, std::ptrdiff_t problem,
           const Failures& failures) {
  const Quest<double>& quest = *request.fine;
  const int n = quest.chain.coordinates;
  Descent<Fine>& at = room.fine;
  Fine *best_q = room.settle_work, *work = best_q + n;
  for (int i = 0; i < fine_lanes; ++i) {
    put_in(request, at, i, problem, failures.q + (i < failures.count ? i : 0) * n);
  }
  Fine best(3e300), stiffness(request.stiffness);
  mask_t<Fine> open = best > Fine(0);
  for (int i = 0; i < request.settle_iterations && any(open); ++i) {
    measure(quest, at);
    const mask_t<Fine> better = at.cost < best;
    open = open & !(better & (at.cost > best * Fine(request.settled)));
    best = select(better, at.cost, best);
    for (int j = 0; j < n; ++j) best_q[j] = select(better, at.q[j], best_q[j]);
    if (any(arrived(quest, at))) break;
    // a step that made things worse is taken back: J and e are not those of best_q, so no step yet
    const mask_t<Fine> stepped = settle_step(quest, at, stiffness, work) & better;
    for (int j = 0; j < n; ++j) at.q[j] = select(stepped & open, at.q[j], best_q[j]);
    best = select(better, best, best * Fine(1 + 1e-9));
    best = select(better & !stepped, best * Fine(1 + 1e-9), best);
    stiffness = select(stepped, max(stiffness * Fine(0.3), Fine(1e-3 * request.stiffness)),
                       stiffness * Fine(6.0));
    open = open & (stiffness < Fine(1e4 * request.stiffness));
  }
  for (int j = 0; j < n; ++j) at.q[j] = best_q[j];
  measure(quest, at);
  int pick = 0;
  for (int i = 1; i < fine_lanes; ++i) {
    if (get(at.cost, i) < get(at.cost, pick)) pick = i;
  }
  return pick;
}

bool late(const SolveRequest& request) {
  return request.deadline && request.now() >= request.deadline;
}

// ---- one problem: every lane is another start --------------------------------------------------

// Finishes in double what the search has found. Tells where it is a solution; such a lane stays
// where it is while others go on.
template <class L>
mask_t<L> finish(const SolveRequest& request, Descent<L>& at) {
  const Quest<double>& quest = *request.fine;
  for (int i = 0;; ++i) {
    measure(quest, at);
    const mask_t<L> there = arrived(quest, at);
    if (all(there) || i == request.finish_iterations) return there;
    for (int r = 0; r < quest.rows; ++r) at.e[r] = select(there, L(0), at.e[r]);
    descend(quest, at);
  }
}

int solve_one(const SolveRequest& request, Room& room) {
  const int n = request.fine->chain.coordinates;
  int found = 0, next = 0, iterations = 0;
  const auto add = [&] {
    for (int i = 0; i < found; ++i) {
      bool known = true;
      for (int j = 0; j < n && known; ++j) {
        const double off = request.q[i * n + j] - room.lone.q[j];
        known = off <= request.apart && off >= -request.apart;
      }
      if (known) return;
    }
    record(request, found++, room.lone, 0, Outcome::solved, iterations, next);
  };
  const Quest<double>& quest = *request.fine;
  if (request.q0) {  // alone first: near a solution this is all
    for (int j = 0; j < n; ++j) {
      room.lone.q[j] = clamped(request.q0[j], quest.lower[j], quest.upper[j]);
    }
    for (int k = 0; k < quest.targets; ++k) room.lone.target[k] = request.target[k];
    next = 1;
    double cost = 3e300;
    for (int i = 0; i < request.max_iterations; ++i, ++iterations) {
      measure(quest, room.lone);
      if (arrived(quest, room.lone)) {
        add();
        break;
      }
      if (i % request.window == 0) {
        if (!(room.lone.cost <= double(request.ratio) * cost)) break;
        cost = room.lone.cost;
      }
      descend(quest, room.lone);
    }
    if (found == request.most) return found;
  }
  int* const which = room.which[0];
  look_up(request, request.target, room, which);
  Failures& failures = room.failures[0];
  failures.count = 0;
  int running = 0;
  for (int i = 0; i < lanes; ++i) {
    room.slot[i] = {0, next++, 0, 0, 0, false};
    aim(request, room, i, 0);
    begin(request, room, i, which);
    ++running;
  }
  bool out_of_time = false;
  while (running && !out_of_time) {
    measure(*request.wide, room.wide);
    const mask_t<Wide> there = arrived(*request.wide, room.wide);
    ++iterations;
    for (int i = 0; i < lanes; ++i) {
      Slot& slot = room.slot[i];
      if (slot.problem < 0) continue;
      ++slot.iteration;
      bool over = false;
      if (get(there, i)) {
        put_in(request, room.lone, 0, 0, room.lane_q(i, n));
        if (finish(request, room.lone)) {
          add();
          if (found == request.most) return found;
        }
        over = true;
      } else if (stuck(request, room, i, slot)) {
        keep(request, room, i, failures);
        over = true;
      }
      if (!over) continue;
      slot.fresh = true;
      slot.start = next++;
      if (slot.start >= request.max_starts) {
        slot.problem = -1;
        slot.fresh = false;
        --running;
      }
    }
    descend(*request.wide, room.wide);
    for (int i = 0; i < lanes; ++i) {
      if (room.slot[i].fresh) begin(request, room, i, which);
    }
    out_of_time = iterations % 8 == 0 && late(request);
  }
  if (found) return found;
  if (out_of_time || !failures.count) {  // the best so far is what the lanes have now
    for (int i = 0; i < lanes; ++i) keep(request, room, i, failures);
  }
  const int best = settle(request, room, 0, failures);
  const bool solved = get(arrived(quest, room.fine), best);
  const Outcome outcome = solved        ? Outcome::solved
                          : out_of_time ? Outcome::timeout
                                        : Outcome::unreachable;
  record(request, 0, room.fine, best, outcome, iterations, next);
  return 1;
}

// ---- a batch: every lane is another problem ----------------------------------------------------

struct Batcher {
  const SolveRequest& request;
  Room& room;
  std::ptrdiff_t next, end;
  int running = 0;

  void load(int lane) {
    Slot& slot = room.slot[lane];
    if (next >= end) {
      if (slot.problem >= 0) --running;
      slot.problem = -1;
      slot.fresh = false;
      return;
    }
    if (slot.problem < 0) ++running;
    slot = {next++, 0, 0, 0, 0, true};
    room.failures[lane].count = 0;
    const std::ptrdiff_t k = request.wide->targets;
    look_up(request, request.target + slot.problem * k, room, room.which[lane]);
    aim(request, room, lane, slot.problem);
  }

  // Another start of the lane's problem, or, when there have been enough, the closest pose.
  void again(int lane) {
    Slot& slot = room.slot[lane];
    slot.fresh = true;
    if (++slot.start < request.max_starts) return;
    Failures& failures = room.failures[lane];
    if (!failures.count) keep(request, room, lane, failures);
    const int best = settle(request, room, slot.problem, failures);
    const bool solved = get(arrived(*request.fine, room.fine), best);
    record(request, slot.problem, room.fine, best, solved ? Outcome::solved : Outcome::unreachable,
           slot.iterations, slot.start);
    load(lane);
  }

  void run() {
    const int n = request.fine->chain.coordinates;
    for (int i = 0; i < lanes; ++i) {
      room.slot[i].problem = -1;
      load(i);
      if (room.slot[i].fresh) begin(request, room, i, room.which[i]);
    }
    while (running) {
      measure(*request.wide, room.wide);
      const mask_t<Wide> there = arrived(*request.wide, room.wide);
      int finishing[lanes], many = 0;
      for (int i = 0; i < lanes; ++i) {
        Slot& slot = room.slot[i];
        if (slot.problem < 0) continue;
        ++slot.iteration;
        ++slot.iterations;
        if (get(there, i)) {
          finishing[many++] = i;
        } else if (stuck(request, room, i, slot)) {
          keep(request, room, i, room.failures[i]);
          again(i);
        }
      }
      for (int first = 0; first < many; first += fine_lanes) {
        const int few = many - first < fine_lanes ? many - first : fine_lanes;
        for (int f = 0; f < fine_lanes; ++f) {
          const int lane = finishing[first + (f < few ? f : few - 1)];
          put_in(request, room.fine, f, room.slot[lane].problem, room.lane_q(lane, n));
        }
        const mask_t<Fine> solved = finish(request, room.fine);
        for (int f = 0; f < few; ++f) {
          const Slot& slot = room.slot[finishing[first + f]];
          if (!get(solved, f)) continue;
          record(request, slot.problem, room.fine, f, Outcome::solved, slot.iterations,
                 slot.start + 1);
        }
        for (int f = 0; f < few; ++f) {  // (afterwards: `again` may need room.fine)
          get(solved, f) ? load(finishing[first + f]) : again(finishing[first + f]);
        }
      }
      descend(*request.wide, room.wide);
      for (int i = 0; i < lanes; ++i) {
        if (room.slot[i].fresh) begin(request, room, i, room.which[i]);
      }
    }
  }
};

std::size_t solve_memory(const SolveRequest& request) {
  Room room;
  return room.lay_out(request, nullptr);
}

int solve_single(const SolveRequest& request, void* memory) {
  Room room;
  room.lay_out(request, memory);
  return solve_one(request, room);
}

void solve_rows(const SolveRequest& request, std::ptrdiff_t first, std::ptrdiff_t last,
                void* memory) {
  Room room;
  room.lay_out(request, memory);
  Batcher{request, room, first, last}.run();
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA);
const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA) = {lanes, &solve_memory, &solve_single,
                                                     &solve_rows};

}  // namespace supple
