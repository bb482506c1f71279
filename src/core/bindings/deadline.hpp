// Time limit, Ctrl-C and progress reports of a long call.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "drivers/clock.hpp"
#include "drivers/gil.hpp"

namespace supple {

namespace nb = nanobind;

// Time limit of a call. All threads call `stop`, where the thread that created the object also
// checks for Ctrl-C and reports progress to Python.
class Deadline {
 public:
  // A function that is called with the number of finished problems; it may be empty.
  using Report = std::function<void(std::ptrdiff_t done)>;
  Deadline(long long deadline, std::ptrdiff_t count, Report report)
      : deadline_(deadline), count_(count), report_(std::move(report)) {}

  std::atomic<std::ptrdiff_t> next{0};

  static bool stop(void* watch) { return static_cast<Deadline*>(watch)->look(); }

  // To be called at the end of the computation. Rethrows an exception that Python code raised
  // during it, or else reports the final count.
  void finish() {
    if (failure_) std::rethrow_exception(failure_);
    if (report_) report_(count_);
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
        if (PyErr_CheckSignals()) throw nb::python_error();
        if (report_) report_(std::min(next.load(), count_));
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
  Report report_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> stopped_{false};
  std::exception_ptr failure_;
};

}  // namespace supple
