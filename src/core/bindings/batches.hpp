// Distributes the rows of a batch over threads.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <mutex>

#include "drivers/gil.hpp"
#include "drivers/scratch.hpp"
#include "drivers/threads.hpp"

namespace supple {

namespace nb = nanobind;

// Smallest number of rows per thread: with fewer, starting the thread takes longer than it saves.
inline constexpr std::ptrdiff_t grain = 512;
// Largest number of rows that a thread processes between two checks for Ctrl-C.
inline constexpr std::ptrdiff_t patience = 1 << 16;

// Calls work(begin, end) on parts of a batch, on threads, for a caller without the GIL. Like
// `work`, it returns the index of the first invalid row, or -1.
template <class Work>
std::ptrdiff_t on_threads(std::ptrdiff_t count, std::ptrdiff_t least, int threads, Work&& work) {
  std::ptrdiff_t bad = -1;
  std::mutex guard;
  parallel(count, least, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    const std::ptrdiff_t found = work(begin, end);
    const std::lock_guard lock(guard);
    if (found >= 0 && (bad < 0 || found < bad)) bad = found;
  });
  return bad;
}

// Calls work(begin, end) on parts of a batch, on threads and without the GIL. Like `work`, it
// returns the index of the first invalid row, or -1. If a row takes long, `least` and `most`
// replace `grain` and `patience`.
template <class Work>
std::ptrdiff_t over_batch(std::ptrdiff_t count, int threads, Work&& work,
                          std::ptrdiff_t least = grain, std::ptrdiff_t most = patience) {
  const std::ptrdiff_t chunk = most * std::max(threads, 1);
  for (std::ptrdiff_t first = 0; first < count; first += chunk) {
    std::ptrdiff_t bad = -1;
    {
      const Unlocked unlocked;
      bad = on_threads(std::min(chunk, count - first), least, threads,
                       [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
                         return work(first + begin, first + end);
                       });
    }
    if (bad >= 0) return bad;
    if (PyErr_CheckSignals()) throw nb::python_error();
  }
  return -1;
}

}  // namespace supple
