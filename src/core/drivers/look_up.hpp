// Seeds from a table that reach poses near a target. Included only by files that are compiled once
// for each instruction set. Tuned constants are explained in docs/constants.md.
#pragma once

#include <algorithm>
#include <cmath>

#include "drivers/workspace.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The entry nearest to a target in a table of seeds or clusters, separately for each lane: lane i
// scans the entries i, i + lanes, ... `far` is half the squared distance up to a constant, `block`
// the index of the block that contains the entry.
struct Nearest {
  SearchLanes far = SearchLanes(huge_cost), block = SearchLanes(0.0f);

  // Each entry has k values, followed by `offsets` alternative offsets of the distance, of which
  // number `offset` is used.
  void scan(const float* blocks, int begin, int end, int k, const float* feature, int offsets = 1,
            int offset = 0) {
    const int size = k + offsets;
    const SearchLanes* entry =
        reinterpret_cast<const SearchLanes*>(blocks) + std::ptrdiff_t(begin) * size;
    SearchLanes number = SearchLanes(float(begin));
    for (int b = begin; b < end; ++b, entry += size) {
      SearchLanes here = entry[k + offset];
      for (int i = 0; i < k; ++i) here = fma(entry[i], SearchLanes(-feature[i]), here);
      const mask_t<SearchLanes> nearer = here < far;
      far = select(nearer, here, far);
      block = select(nearer, number, block);
      number = number + SearchLanes(1.0f);
    }
  }

  // Writes the indices of the nearest entries of all lanes to `place` (lanes + 1,): first the
  // `max_sorted` nearest ones in order of distance, then the others. Returns the number of indices.
  int sorted(int max_sorted, int* place) const {
    float before[lanes + 1];
    int count = 0;
    for (int i = 0; i < lanes; ++i) {
      const float here = get(far, i);
      if (!(here < huge_cost)) continue;
      int at = count++;
      // A nearer entry takes the place of the last of the sorted ones.
      if (at >= max_sorted && here < before[max_sorted - 1]) {
        place[at] = place[max_sorted - 1];
        at = max_sorted - 1;
      }
      for (; at > 0 && at < max_sorted && before[at - 1] > here; --at) {
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
constexpr float clipping_weight = 256;  // weight of the part of a step beyond a joint limit

// Approximates the rotation vector between two orientations, with 2 sin(angle / 2) instead of the
// angle. For two axes, `sine` is their cross product and `cosine` their dot product; for two
// frames, `sine` is half the sum of the cross products of corresponding axes, and `cosine` follows
// from the sum of their dot products as (sum - 1)/2.
Vec3<float> rotation_between(const Vec3<float>& sine, float cosine) {
  return sine * std::sqrt(2 / (1 + std::max(cosine, -0.5f)));
}

// Predicts q (padded,) after the first step from a seed of the table toward a target, inside the
// joint limits. Returns a penalty: the squared length of the step plus the weighted square of the
// part that the limits cut off, and, if the request prefers comfortable seeds, the weighted squared
// distances of the joints from the middle of their ranges.
float predict_first_step(const SolveRequest& request, const float* record, const float* target,
                         Row* q) {
  const IkProblem<float>& ik = *request.search;
  const Table& table = *request.table;
  const int rows = table.padded / Table::row;
  const Row* const from = reinterpret_cast<const Row*>(record);
  const Row* gain = from + rows;
  const float* reached = record + table.padded * (1 + 6 * ik.tasks);
  const auto axis = [](const float* x) { return Vec3<float>{x[0], x[1], x[2]}; };
  Row* const step = q;  // computed in the memory of q
  for (int r = 0; r < rows; ++r) step[r] = Row(0.0f);
  for (int t = 0; t < ik.tasks; ++t) {
    float d[6] = {};
    Vec3<float> turn{0, 0, 0};
    const Task<float>& task = ik.task[t];
    const Target form = traits_of(task).target;
    const bool is_pose = form == Target::pose;
    if (form == Target::direction || (is_pose && task.about >= 0)) {
      const int first = task.about > 0 ? 3 * task.about : 0;
      const Vec3<float> a = axis(reached + first), b = axis(target + first);
      turn = rotation_between(cross(a, b), dot(a, b));
    } else if (is_pose) {
      Vec3<float> sine{0, 0, 0};
      float cosine = -1;
      for (int c = 0; c < 9; c += 3) {
        const Vec3<float> a = axis(reached + c), b = axis(target + c);
        sine = sine + cross(a, b);
        cosine += dot(a, b);
      }
      turn = rotation_between(sine * 0.5f, cosine * 0.5f);
    }
    d[3] = turn.x, d[4] = turn.y, d[5] = turn.z;
    const int place = is_pose ? 9 : 0;
    const int count = has_position(task) ? 3 : form == Target::numbers ? task.rows : 0;
    for (int c = 0; c < count; ++c) d[c] = target[place + c] - reached[place + c];
    for (int c = 0; c < 6; ++c, gain += rows) {
      for (int r = 0; r < rows; ++r) step[r] = fma(gain[r], Row(d[c]), step[r]);
    }
    reached += target_size(task);
    target += target_size(task);
  }
  const Row *lower = reinterpret_cast<const Row*>(table.limits), *upper = lower + rows;
  const Row *longest = upper + rows, *per_unit = longest + rows;
  const Row *middle = per_unit + rows, *weight = middle + rows;
  Row value(0.0f);
  for (int r = 0; r < rows; ++r) {
    const Row whole = step[r], bound = longest[r];
    const Row next = integrate_coordinate(from[r], min(max(whole, -bound), bound));
    q[r] = min(max(next, lower[r]), upper[r]);
    const Row move = coordinate_difference(q[r], from[r]) * per_unit[r];
    const Row clipped = whole * per_unit[r] - move;
    value = fma(move, move, fma(clipped * Row(clipping_weight), clipped, value));
    if (!request.comfortable) continue;
    const Row off = coordinate_difference(q[r], middle[r]);
    value = fma(off * weight[r], off, value);
  }
  float sum = 0;
  for (int i = 0; i < Table::row; ++i) sum += get(value, i);
  return sum;
}

// Looks up the seeds of the table nearest to a target, one for each lane. Writes their indices to
// `place` (lanes + 1,), the `predicted_seeds` nearest ones first; returns their number.
int look_up(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace, int* place) {
  const Table& table = *request.table;
  const int k = request.search->targets;
  float* const target = workspace.feature + k;
  for (int i = 0; i < k; ++i) {
    target[i] = float(request.target[problem * k + i]);
    workspace.feature[i] = target[i] * table.scale[i];
  }
  Nearest cluster, seed;
  cluster.scan(table.cluster, 0, table.clusters, k, workspace.feature);
  const int scanned = std::min(cluster.sorted(clusters_scanned, place), clusters_scanned);
  for (int i = 0; i < scanned; ++i) {
    seed.scan(table.block, table.begin[place[i]], table.begin[place[i] + 1], k, workspace.feature,
              2, request.comfortable);
  }
  return seed.sorted(predicted_seeds, place);
}

// Lists the seeds of the table nearest to a target. For the `predicted_seeds` nearest of them the
// first step is predicted, and the search starts from the predicted configurations, the most
// promising first.
void nearest_seeds(const SolveRequest& request, std::ptrdiff_t problem, Workspace& workspace,
                   SeedList& listed) {
  const Table& table = *request.table;
  const int n = request.search->chain.nq;
  int place[lanes + 1];
  listed.count = look_up(request, problem, workspace, place);
  const float* const target = workspace.feature + request.search->targets;
  const int first = std::min(listed.count, predicted_seeds);
  float before[predicted_seeds];
  for (int i = 0; i < first; ++i) {  // prefetch: the table may not fit into the cache
    const float* const record = table.record + std::ptrdiff_t(place[i]) * table.size;
    for (int at = 0; at < table.size; at += 16) __builtin_prefetch(record + at);
  }
  for (int i = 0; i < first; ++i) {
    const float here = predict_first_step(
        request, table.record + std::ptrdiff_t(place[i]) * table.size, target, workspace.row);
    int at = i;
    for (; at > 0 && before[at - 1] > here; --at) {
      before[at] = before[at - 1];
      for (int j = 0; j < n; ++j) listed.q[at * n + j] = listed.q[(at - 1) * n + j];
    }
    before[at] = here;
    for (int j = 0; j < n; ++j)
      listed.q[at * n + j] = get(workspace.row[j / Table::row], j % Table::row);
  }
  for (int i = first; i < listed.count; ++i) {
    const float* const record = table.record + std::ptrdiff_t(place[i]) * table.size;
    for (int j = 0; j < n; ++j) listed.q[i * n + j] = record[j];
  }
  for (int i = 0; request.origin && i < listed.count; ++i) {
    measure_from_origin(request, listed.q + i * n);
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
