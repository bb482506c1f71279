// The state of a search on the lanes of a CPU, in scratch memory of one thread. Included only by
// files that are compiled once for each instruction set. Tuned constants are explained in
// docs/constants.md.
#pragma once

#include <cstddef>

#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "supple/math/arena.hpp"
#include "supple/ik/policy.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The search runs on wide lanes of floats, which are accurate enough to find a solution; the result
// is polished and verified in double precision.
using SearchLanes = Pack<float, batch_width<float>>;
using PolishLanes = Pack<double, batch_width<double>>;
constexpr int lanes = width<SearchLanes>, polish_lanes = width<PolishLanes>;

using Row = Pack<float, Table::row>;  // several joints side by side

// The unit of the search's scratch memory: each array begins at a cache line.
struct CacheLine {
  unsigned char bytes[64];
};

template <class L, class T>
IterateState<L> make_state(const IkProblem<T>& ik, Arena<CacheLine>& arena) {
  const int n = ik.chain.nv, m = ik.rows;
  IterateState<L> at{};
  at.q = arena.take_as<L>(ik.chain.nq);
  at.target = arena.take_as<L>(ik.targets);
  at.J = arena.take_as<L>(m * n);
  at.e = arena.take_as<L>(m);
  at.work = arena.take_as<L>(iterate_scratch(ik));
  at.J_before = arena.take_as<L>(ik.step.damping.rule == Rule::mayorga_rank ? m * n : 0);
  at.before = L(-1);
  return at;
}

// The state of the start that runs on one lane of the search.
struct LaneState {
  std::ptrdiff_t problem;  // negative: the lane is idle
  int start;               // number of the start
  int iteration;           // number of iterations of this start
  int iterations;          // number of iterations of all starts of the problem
  float cost;              // cost at the last check of progress
  bool is_new;             // whether a new start begins on the lane after this iteration
  bool blocked = false;    // whether a solution of the problem was rejected
};

// The failed starts of a problem are reviewed after `first_review` failures, and again after every
// `review_interval` more: Newton's method minimizes the cost from the best ones, which may give a
// solution or show that the target is unreachable. Problems with more than six rows skip the first
// review.
constexpr int first_review = 8, review_interval = 32, max_failures = first_review + polish_lanes;

// In a batch, a target that this many starts have missed is solved like a single problem, with a
// start on every lane. All lanes then work on a hard problem, and a batch and a single call agree
// on which targets are unreachable.
constexpr int hard_after = 16;

// The best failed starts of a problem. The first `minimized` of them have been minimized by
// Newton's method.
struct FailedStarts {
  int count, minimized, since_review;  // starts kept, minimized, and failed since the last review
  float cost[max_failures];
  float* q;     // (max_failures, n)
  float bound;  // see `unreachable_error`; negative until it is known

  void clear() {
    count = minimized = since_review = 0;
    bound = -1;
  }
};

// Seeds from the table for one problem, the most promising first: q (count, n).
struct SeedList {
  int count;
  float* q;
};

// Scratch memory of one thread.
struct Workspace {
  IterateState<SearchLanes> search, minimize;  // the search itself; minimization of failed starts
  IterateState<PolishLanes> polish;
  IterateState<double> single;  // one configuration, in double precision
  float* feature;               // (2, targets): a target scaled for the table, and unscaled
  Row* row;                     // (padded / Table::row,): a padded q, in packs
  SeedList seeds[lanes];
  FailedStarts failures[lanes];
  LaneState lane[lanes];
  float* gathered_q;           // (n,): q of one lane
  double* posture_work;        // (5 n,): for `approach_posture`
  SearchLanes* minimize_work;  // n + `newton_scratch` lanes for a `Minimization`
  PolishLanes* polish_work;    // for a `Minimization` of `polish`
  double* single_work;         // for a `Minimization` of `single`
  double* box;                 // (4, n): limits and range of seeds near q0, for `solve_near_q0`
  float* float_box;            // (4, n): `box` in float
  double* kept;                // (n,): a configuration in double precision
  // For `solve_near_q0` of a robot with ball joints: q0 and a configuration (n,), and the joints.
  double *near_q0, *absolute;
  Joint<double>* joint;
  Joint<float>* float_joint;
  // For seeds that place a free base; null without a free base.
  IterateState<double> base;  // the coordinates of the base
  double *near_base, *local;  // (targets,): values that the seeds' limbs reach; targets of one limb
  SeedList base_seeds;        // seeds of one limb
  float* base_q;              // (n,): a seed that places the base
  Workspace* hard;            // for problems of a batch that are solved like single ones; else null

  // Places the arrays in a block of memory, which may be null. Returns their size in bytes.
  std::size_t allocate(const SolveRequest& request, void* memory) {
    Arena<CacheLine> arena(static_cast<CacheLine*>(memory));
    const int nq = request.search->chain.nq, nv = request.search->chain.nv;
    search = make_state<SearchLanes>(*request.search, arena);
    minimize = make_state<SearchLanes>(*request.search, arena);
    polish = make_state<PolishLanes>(*request.polish, arena);
    single = make_state<double>(*request.polish, arena);
    feature = arena.take_as<float>(2 * request.search->targets);
    row = arena.take_as<Row>(request.table->padded / Table::row);
    for (int i = 0; i < lanes; ++i) {
      seeds[i].q = arena.take_as<float>(lanes * nq);
      failures[i].q = arena.take_as<float>(max_failures * nq);
    }
    gathered_q = arena.take_as<float>(nq);
    posture_work = arena.take_as<double>(nq + 4 * nv);
    minimize_work = arena.take_as<SearchLanes>(nq + newton_scratch(nv));
    polish_work = arena.take_as<PolishLanes>(nq + newton_scratch(nv));
    single_work = arena.take_as<double>(nq + newton_scratch(nv));
    box = arena.take_as<double>(4 * nq);
    float_box = arena.take_as<float>(4 * nq);
    kept = arena.take_as<double>(nq);
    const Chain<double>& chain = request.polish->chain;
    near_q0 = arena.take_as<double>(chain.balls ? nq : 0);
    absolute = arena.take_as<double>(chain.balls ? nq : 0);
    joint = arena.take_as<Joint<double>>(chain.balls ? chain.joints : 0);
    float_joint = arena.take_as<Joint<float>>(chain.balls ? chain.joints : 0);
    if (request.base) {
      base = make_state<double>(*request.base->pose, arena);
      near_base = arena.take_as<double>(request.search->targets);
      local = arena.take_as<double>(request.search->targets);
      base_seeds.q = arena.take_as<float>(lanes * nq);
      base_q = arena.take_as<float>(nq);
    }
    return std::size_t(arena.size()) * sizeof(CacheLine);
  }

  // Sets all lanes to zero. Idle lanes are evaluated as well, and sines of large angles would slow
  // the search down.
  void clear(const SolveRequest& request) {
    for (IterateState<SearchLanes>* at : {&search, &minimize}) {
      for (int j = 0; j < request.search->chain.nq; ++j) at->q[j] = SearchLanes(0.0f);
      for (int i = 0; i < request.search->targets; ++i) at->target[i] = SearchLanes(0.0f);
    }
  }

  const float* lane_q(int i, int n) {
    for (int j = 0; j < n; ++j) gathered_q[j] = get(search.q[j], i);
    return gathered_q;
  }
};

double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double magnitude(double x) { return x < 0 ? -x : x; }

bool stopped(const SolveRequest& request) {
  return request.stop && request.stop(request.stop_context);
}

// Whether a configuration (n,) that meets the tasks of a problem is rejected.
bool rejects(const SolveRequest& request, std::ptrdiff_t problem, const double* q) {
  return request.rejects && request.rejects(request.reject_context, problem, q);
}

// Replaces the rotation vectors of the ball joints in a seed (n,) by their displacements from the
// `origin` of a request.
void measure_from_origin(const SolveRequest& request, float* q) {
  const Chain<double>& chain = request.polish->chain;
  for (int b = 0; b < chain.balls; ++b) {
    const int j = chain.ball[b];
    const Vec3<double> turn{q[j], q[j + 1], q[j + 2]};
    const Vec3<double> away = ball_difference(turn, vector_at(request.origin + j));
    q[j] = float(away.x), q[j + 1] = float(away.y), q[j + 2] = float(away.z);
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
  for (int j = 0; j < ik.chain.nq; ++j) {
    set(at.q[j], lane, clamped(double(q[j]), ik.lower[j], ik.upper[j]));
  }
  set_polish_target(request, at, lane, problem);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
