// Time, Ctrl-C and progress of a long call.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <thread>

#include "drivers/gil.hpp"

namespace supple {

namespace nb = nanobind;

inline long long now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Converts seconds to nanoseconds, with at most 1e9 s to avoid overflow.
inline long long nanoseconds(double seconds) { return (long long)(std::min(seconds, 1e9) * 1e9); }

// Time limit of a call. The thread that created it also checks for Ctrl-C and reports progress to
// Python.
class Deadline {
 public:
  // `deadline` is a time as returned by `now`, or 0 for no limit.
  Deadline(long long deadline, std::ptrdiff_t count, nb::handle progress)
      : deadline_(deadline), count_(count), progress_(progress) {}

  std::atomic<std::ptrdiff_t> next{0};

  static bool stop(void* watch) { return static_cast<Deadline*>(watch)->look(); }

  // Reports progress to Python; throws if Python raises an exception.
  void tell(std::ptrdiff_t done) {
    if (PyErr_CheckSignals()) throw nb::python_error();
    if (!progress_.is_none()) progress_(done, count_);
  }

  void finish() {
    if (failure_) std::rethrow_exception(failure_);
    if (!progress_.is_none()) progress_(count_, count_);
  }

 private:
  static constexpr long long pause = 50'000'000;

  bool look() {
    if (stopped_.load(std::memory_order_relaxed)) return true;
    const long long time = now();
    bool over =
        (deadline_ && time >= deadline_) || (closing && std::this_thread::get_id() != closer);
    if (!over && std::this_thread::get_id() == thread_ && time >= next_look_) {
      next_look_ = time + pause;
      const nb::gil_scoped_acquire acquire;
      try {
        tell(std::min(next.load(), count_));
      } catch (...) {
        failure_ = std::current_exception();
        over = true;
      }
    }
    if (over) stopped_ = true;
    return over;
  }

  long long deadline_, next_look_ = now() + pause;
  std::ptrdiff_t count_;
  nb::handle progress_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> stopped_{false};
  std::exception_ptr failure_;
};

// Whether the deadline has passed: a `stop` callback without progress reports.
inline bool past(void* deadline) { return now() >= *static_cast<long long*>(deadline); }

}  // namespace supple
