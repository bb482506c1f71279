// Runs work on the rows of a batch in several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace supple {

// Calls work(begin, end) on pieces that cover rows 0 to count - 1, on up to `threads` threads
// including this one. Each piece, except the last, is a multiple of `grain` rows long. Rethrows the
// first exception of a worker.
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
  std::vector<std::thread> workers;
  workers.reserve(pieces);
  std::ptrdiff_t next = 1;
  try {
    for (; next < pieces; ++next) workers.emplace_back(guarded, next);
  } catch (const std::system_error&) {
    // No more threads are available: the remaining pieces run on the calling thread.
  }
  guarded(0);
  for (; next < pieces; ++next) guarded(next);
  for (std::thread& worker : workers) worker.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace supple
