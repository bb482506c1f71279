// Rows of a batch over threads.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <mutex>

#include "drivers/gil.hpp"
#include "drivers/scratch.hpp"
#include "drivers/threads.hpp"

namespace supple {

namespace nb = nanobind;

// Rows that a thread takes at least: below, starting it costs more than it saves.
inline constexpr std::ptrdiff_t grain = 512;
// Rows that a thread takes at most before Ctrl-C is looked for.
inline constexpr std::ptrdiff_t patience = 1 << 16;

// Runs work(begin, end) over a batch, on threads and without the interpreter's lock. It returns the
// first row that it could not do, or -1, and so does this.
template <class Work>
std::ptrdiff_t over_batch(std::ptrdiff_t count, int threads, Work&& work) {
  const std::ptrdiff_t chunk = patience * std::max(threads, 1);
  for (std::ptrdiff_t first = 0; first < count; first += chunk) {
    std::ptrdiff_t bad = -1;
    {
      const Unlocked unlocked;
      std::mutex guard;
      parallel(std::min(chunk, count - first), grain, threads,
               [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
                 const std::ptrdiff_t found = work(first + begin, first + end);
                 const std::lock_guard lock(guard);
                 if (found >= 0 && (bad < 0 || found < bad)) bad = found;
               });
    }
    if (bad >= 0) return bad;
    if (PyErr_CheckSignals()) throw nb::python_error();
  }
  return -1;
}

}  // namespace supple
