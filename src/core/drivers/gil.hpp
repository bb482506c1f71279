// Work without Python's global interpreter lock (GIL), and how it ends when the interpreter exits.
//
// A daemon thread may still be running when the program ends. When the thread then requests the
// GIL, Python terminates the thread by unwinding its stack, which would abort the process in C++
// frames. At exit, the interpreter therefore waits until all such work has stopped, and no new work
// may begin.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace supple {

inline std::atomic<int> at_work{0};
inline std::atomic<bool> closing{false};
inline std::thread::id closer;

class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {
    ++at_work;
    if (!closing || std::this_thread::get_id() == closer) return;
    --at_work;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));  // until the process ends
  }
  ~Unlocked() {
    PyEval_RestoreThread(state_);
    --at_work;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// Stops the work of other threads and waits until it has ended, for at most `patience` [s].
inline void close_down(double patience) {
  closer = std::this_thread::get_id();
  closing = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  PyThreadState* const state = PyEval_SaveThread();
  while (at_work > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(state);
}

}  // namespace supple
