// Solves many problems, with one thread for each: `nearest_seeds` chooses seeds from the table;
// `search` iterates, and each thread takes the next problem when it has finished one; `finish`
// polishes the results in double precision. Problems that remain unsolved are left to explore.cu.
// Tuned constants are explained in docs/constants.md.
#include "problem.hpp"

namespace supple {

constexpr int listed = 4;  // starts of each problem that use seeds of the table

namespace {

// Number of problems that share one pass over the table, if they have one frame each, and number of
// threads that share the table.
constexpr int problems_per_pass = 4, most_sharing = 8;
constexpr int batch_of = numbers <= 12 ? problems_per_pass : 1;

// Finds the nearest seed in each of the `listed` parts of the table, for `batch_of` targets with
// the indices `first`, `first + stride`, ... All threads that share the table call it.
template <int sharing>
__device__ __forceinline__ void find_nearest_seeds(const Request& request, int first, int stride) {
  float feature[batch_of][numbers], best[batch_of][listed];
  int index[batch_of][listed];
  for (int p = 0; p < batch_of; ++p) {
    const int problem = ::min(first + p * stride, request.count - 1);
    for (int i = 0; i < numbers; ++i) {
      feature[p][i] =
          float(request.target[problem * numbers + i]) * RobotConstants<float>::feature_scale[i];
    }
    for (int t = 0; t < listed; ++t) best[p][t] = huge_cost, index[p][t] = t;
  }
  const float4* const table = reinterpret_cast<const float4*>(request.table);
  const int blocks = request.entries / listed, own = threadIdx.x % sharing;
  for (int block = own; block < blocks; block += sharing) {
    const float4 half = table[numbers * blocks + block];
    float far[batch_of][listed];
    for (int p = 0; p < batch_of; ++p) {
      far[p][0] = half.x, far[p][1] = half.y, far[p][2] = half.z, far[p][3] = half.w;
    }
    for (int i = 0; i < numbers; ++i) {
      if (RobotConstants<float>::feature_scale[i] == 0) continue;
      const float4 reached = table[i * blocks + block];
      for (int p = 0; p < batch_of; ++p) {
        far[p][0] = fma(reached.x, -feature[p][i], far[p][0]);
        far[p][1] = fma(reached.y, -feature[p][i], far[p][1]);
        far[p][2] = fma(reached.z, -feature[p][i], far[p][2]);
        far[p][3] = fma(reached.w, -feature[p][i], far[p][3]);
      }
    }
    for (int p = 0; p < batch_of; ++p) {
      for (int t = 0; t < listed; ++t) {
        if (far[p][t] < best[p][t]) best[p][t] = far[p][t], index[p][t] = listed * block + t;
      }
    }
  }
  for (int p = 0; p < batch_of; ++p) {
    for (int t = 0; t < listed; ++t) {  // the best of all threads; of equal ones, the first
      for (int other = sharing / 2; other; other /= 2) {  // (all threads of the warp are here)
        const float far = __shfl_xor_sync(everyone, best[p][t], other);
        const int at = __shfl_xor_sync(everyone, index[p][t], other);
        const bool nearer = far < best[p][t] || (far == best[p][t] && at < index[p][t]);
        if (nearer) best[p][t] = far, index[p][t] = at;
      }
    }
    const int problem = first + p * stride;
    if (problem >= request.count || own != p % sharing) continue;
    for (int t = 0; t < listed; ++t) {  // sorted by distance
      int place = 0;
      for (int s = 0; s < listed; ++s) {
        place += best[p][s] < best[p][t] || (best[p][s] == best[p][t] && s < t);
      }
      request.near[problem * listed + place] = static_cast<unsigned short>(index[p][t]);
    }
  }
}

}  // namespace

// Threads share the table if there are few targets for each.
extern "C" __global__ void __launch_bounds__(128) nearest_seeds(Request request) {
  const int threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (threads >= request.count * most_sharing / batch_of) {
    const int stride = threads / most_sharing;
    for (int i = thread / most_sharing; __any_sync(everyone, i < request.count);
         i += batch_of * stride) {
      find_nearest_seeds<most_sharing>(request, i, stride);
    }
    return;
  }
  for (int i = thread; i < request.count; i += batch_of * threads) {
    find_nearest_seeds<1>(request, i, threads);
  }
}

namespace {

// Writes the seed of a start: for the first start the problem's own (q0 or a posture), then seeds
// of the table, then the seed sequence.
__device__ void begin(const Request& request, int problem, int start, SearchReal* q) {
  const double* from = nullptr;
  if (has_own_start(request) && --start < 0) {
    for (int j = 0; j < nq; ++j) q[j] = SearchReal(clamped(own_start(request, problem, j), j));
    return;
  }
  if (start < listed) from = request.seeds + request.near[problem * listed + start] * nq;
  for (int j = 0; j < nq; ++j) {
    q[j] =
        SearchReal(clamped(from ? from[j] : sequence_seed(request.entries, start - listed, j), j));
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
        for (int i = 0; i < numbers; ++i) {
          own.target[i] = SearchReal(request.target[problem * numbers + i]);
        }
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
    polish_start(request, problem, q, Company::none, polished);
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
