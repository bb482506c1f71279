// Threads over blocks of a batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace supple {

// Calls work(begin, end) on pieces that cover 0..count, each a multiple of `grain` long (but the
// last), on up to `threads` threads, this one among them. Rethrows the first exception of a worker.
template <class Work>
void parallel(std::ptrdiff_t count, std::ptrdiff_t grain, int threads, Work&& work) {
  const std::ptrdiff_t grains = (count + grain - 1) / grain;
  const std::ptrdiff_t pieces =
      std::max<std::ptrdiff_t>(1, std::min<std::ptrdiff_t>(threads, grains));
  if (pieces == 1) return work(std::ptrdiff_t(0), count);
  const auto edge = [&](std::ptrdiff_t i) { return std::min(count, grains * i / pieces * grain); };
  std::vector<std::exception_ptr> failures(pieces);
  const auto guarded = [&](std::ptrdiff_t i) {
    try {
      work(edge(i), edge(i + 1));
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  std::vector<std::jthread> workers;
  for (std::ptrdiff_t i = 1; i < pieces; ++i) workers.emplace_back(guarded, i);
  guarded(0);
  workers.clear();  // joins
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace supple
