// Solves many problems, with one thread for each: `nearest_seeds` chooses seeds from the table;
// `search` iterates, and each thread takes the next problem when it has finished one; `finish`
// polishes the results in double precision. Problems that remain unsolved are left to explore.cu.
// Tuned constants are explained in docs/constants.md.
#include "product.hpp"
#include "view.hpp"
//
#include "problem.hpp"

namespace supple {

constexpr int listed = 4;  // starts of each problem that use seeds of the table

namespace {

// Targets are compared with the table by a product of matrices: each row of the first matrix is a
// target, relative to the mean of the table and followed by ones; each column of the second matrix
// is a scaled seed with the opposite sign, followed by the offset of its distance in two parts (see
// packed_table.py).
constexpr int steps = (numbers + 2 + 7) / 8;  // products of 8 values that one distance takes

// A distance whose lowest bits (the mask `bits`) are replaced by the place `where` of the seed, so
// that the smallest distance also tells the place of the nearest seed.
__device__ __forceinline__ float packed(float far, unsigned where, unsigned bits) {
  return __uint_as_float((__float_as_uint(far) & ~bits) | where);
}

// Finds the nearest seed in each of the `listed` parts of the table, for 16 * `tiles` targets of
// one warp, and copies the targets in the precision of the search. Lane 4 g + p has the targets g
// and g + 8 of each tile of 16, and part p.
template <int tiles>
__device__ __forceinline__ void find_nearest_seeds(const Request& request, int first) {
  const int lane = threadIdx.x % 32, group = lane / 4, part = lane % 4;
  unsigned value[tiles][steps][4];
  float best[tiles][2];
  const int columns = request.entries / 8;
  const float* const middle = request.packed + columns * ((steps + 1) / 2) * 128;
  SUPPLE_UNROLL for (int m = 0; m < tiles; ++m) {
    SUPPLE_UNROLL for (int r = 0; r < 2; ++r) {
      const int row = first + 16 * m + 8 * r + group, problem = ::min(row, request.count - 1);
      SUPPLE_UNROLL for (int k = 0; k < 2 * steps; ++k) {
        const int i = 4 * k + part;
        float x = 1;
        if (i < numbers) {
          const double number = request.target[problem * numbers + i];
          if (row == problem) request.aim[problem * numbers + i] = SearchReal(number);
          x = float(number - double(middle[i]));
        }
        value[m][k / 2][2 * (k % 2) + r] = rounded_to_tf32(x);
      }
      best[m][r] = huge_cost;
    }
  }
  const unsigned bits = 2 * columns - 1;  // (the table has a power of two entries)
  const float4* const table = reinterpret_cast<const float4*>(request.packed) + lane;
  _Pragma("unroll 2") for (int column = 0; column < columns; ++column) {
    float seed[2 * ((steps + 1) / 2 * 2)];
    SUPPLE_UNROLL for (int s = 0; s < steps; s += 2) {
      const float4 four = table[(column * ((steps + 1) / 2) + s / 2) * 32];
      seed[2 * s] = four.x, seed[2 * s + 1] = four.y;
      seed[2 * s + 2] = four.z, seed[2 * s + 3] = four.w;
    }
    SUPPLE_UNROLL for (int m = 0; m < tiles; ++m) {
      float far[4] = {0, 0, 0, 0};
      SUPPLE_UNROLL for (int s = 0; s < steps; ++s) add_product(far, value[m][s], seed + 2 * s);
      SUPPLE_UNROLL for (int i = 0; i < 4; ++i) {
        best[m][i / 2] = ::fminf(best[m][i / 2], packed(far[i], 2 * column + i % 2, bits));
      }
    }
  }
  SUPPLE_UNROLL for (int m = 0; m < tiles; ++m) {
    SUPPLE_UNROLL for (int r = 0; r < 2; ++r) {
      int place = 0;  // sorted by distance
      SUPPLE_UNROLL for (int other = 1; other < listed; ++other) {
        const float far = __shfl_xor_sync(everyone, best[m][r], other);
        place += far < best[m][r] || (far == best[m][r] && (part ^ other) < part);
      }
      const int problem = first + 16 * m + 8 * r + group;
      const unsigned where = __float_as_uint(best[m][r]) & bits;
      if (problem < request.count) {
        request.near[problem * listed + place] = static_cast<unsigned short>(4 * where + part);
      }
    }
  }
}

}  // namespace

// Each warp has 64 targets, or 16 if there are few or if they have many values. If `view` has data,
// the targets are read from it first (`read_target`).
extern "C" __global__ void __launch_bounds__(128)
    nearest_seeds(Request request, int tiles, View view, TargetKind kind) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16 * tiles;
  if (view.data) {
    const int end = ::min(first + 16 * tiles, request.count);
    for (int problem = first + threadIdx.x % 32; problem < end; problem += 32) {
      read_target(view, kind, problem, numbers, const_cast<double*>(request.target));
    }
    __syncwarp();
  }
  if (steps > 2 || tiles == 1) return find_nearest_seeds<1>(request, first);
  find_nearest_seeds<4>(request, first);
}

namespace {

// Writes the seed of a start. (If the solution nearest to q0 is wanted, these searches start only
// from q0.)
__device__ void begin(const Request& request, int problem, int start, SearchReal* q) {
  const StartSeed seed = seed_of({has_own_start(request), false, 0, listed}, start);
  if (seed.from == Seed::listed) {
    const SearchReal* const from =
        request.seeds + request.near[problem * listed + seed.number] * nq;
    for (int j = 0; j < nq; ++j) q[j] = from[j];
    return;
  }
  const bool is_own = seed.from == Seed::own;
  for (int j = 0; j < nq; ++j) {
    const double x =
        is_own ? own_start(request, problem, j) : sequence_seed(request.entries, seed.number, j);
    q[j] = SearchReal(clamped(x, j));
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) search(Request request) {
  StateMemory<SearchReal> own;
  IterateState<SearchReal> at = own.state();
  int problem = -1, start = 0, iteration = 0, iterations = 0;
  float before = huge_cost;
  bool fresh = false, open = true;
  for (int j = 0; j < nq; ++j) own.q[j] = 0;
  for (int i = 0; i < numbers; ++i) own.target[i] = 0;
  while (__any_sync(everyone, open)) {
    if (open && problem < 0) {
      problem = take(request.counter);
      open = problem < request.count;
      if (open) {
        for (int i = 0; i < numbers; ++i) own.target[i] = request.aim[problem * numbers + i];
        start = iterations = 0;
        fresh = true;
      }
    }
    if (open && fresh) {
      begin(request, problem, start, own.q);
      at.before = -1;
      iteration = 0;
      before = huge_cost;
      fresh = false;
    }
    __syncwarp();
    evaluate(at);
    ++iteration;
    ++iterations;
    const bool found = search_converged(request, at);
    // If the solution nearest to q0 is wanted, q0 is the only start of this CUDA kernel, and it may
    // take more iterations.
    const bool stalled = is_stalled(request.nearest ? patient_after : start, iteration,
                                    iteration_factor, float(at.cost), before);
    if (open && (found || stalled)) {
      fresh = true;
      ++start;
      if (found || request.nearest ||
          start >= ::min(request.tries, restart_budget(request.max_seeds, request.nearest).all)) {
        for (int j = 0; j < nq; ++j) request.rough[problem * nq + j] = own.q[j];
        request.effort[2 * problem] = iterations;
        request.effort[2 * problem + 1] = found ? start : -start;
        problem = -1;
      }
    }
    take_step(at);
  }
}

namespace {

// Polishes in one thread, only by steps in the search's precision, which suffice for most targets.
struct PolishRoughly {
  const Request& request;

  __device__ void evaluate_error(IterateState<double>& at) const {
    supple::evaluate_error(RobotConstants<double>::ik, at);
  }
  __device__ bool converged(const IterateState<double>& at) const {
    return meets_tolerances(request, at);
  }
  __device__ void descend(IterateState<double>& at) const { take_rough_step(at); }
  __device__ bool any(bool holds) const { return holds; }
  __device__ bool enough(bool) const { return false; }
  __device__ bool stopped() const { return true; }  // after a few steps, `explore` takes over
};

// Whether `finish` contains its own polishing loop, with the state in registers; otherwise it calls
// `polish_start`, as `explore` does.
constexpr bool polishes = !large && !remembers && sizeof(SearchReal) < sizeof(double);

}  // namespace

// Polishes the results of `search`; problems that remain unsolved are left to `explore`. (`reject`
// adds those whose solutions collide.)
extern "C" __global__ void __launch_bounds__(128) finish(Request request) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem >= request.count) return;
  if (!is_valid(request, problem)) return mark_skipped(request, problem);
  const int starts = request.effort[2 * problem + 1];
  if (starts > 0) {
    SearchReal q[nq];
    for (int j = 0; j < nq; ++j) q[j] = request.rough[problem * nq + j];
    Polished polished;
    if constexpr (polishes) {
      StateMemory<double> own;
      IterateState<double> at = own.state();
      for (int j = 0; j < nq; ++j) own.q[j] = clamped(double(q[j]), j);
      set_target(request, problem, at);
      polished.solved = polish(RobotConstants<double>::ik, at, PolishRoughly{request});
      polished.store(at);
    } else {
      polish_start(request, problem, q, Company::none, polished);
    }
    const bool near =
        !request.nearest || displacement_from_start(request, problem, polished.q) <= near_q0;
    if (polished.solved && near) {
      const int iterations = request.effort[2 * problem];
      return record(request, problem, 0, polished, Outcome::solved, iterations, starts);
    }
  }
  if constexpr (checks) request.outcome[problem] = Outcome::not_converged;
  request.left[take(request.counter + 1)] = problem;
}

}  // namespace supple
