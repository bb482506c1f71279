// Tasks of a robot in both precisions, with the chain of the frames to which they refer.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings/chain.hpp"
#include "supple/task/task.hpp"

namespace supple {

// Tasks in one precision; owns their memory.
template <class T>
class OwnedTasks {
 public:
  explicit OwnedTasks(const std::vector<TaskSpec>& specs);

  OwnedTasks(OwnedTasks&&) = default;  // a copy would point to the original's memory

  const std::vector<Task<T>>& view() const { return tasks_; }

 private:
  std::vector<Ints> coordinate_, point_;
  std::vector<std::vector<T>> weight_, lower_, upper_, share_, curve_;
  std::vector<Task<T>> tasks_;
};

class PyTasks {
 public:
  PyTasks(const PyChain& chain, const std::vector<TaskSpec>& tasks);

  int rows() const { return rows_; }
  int targets() const { return targets_; }
  int velocities() const { return velocities_; }
  int followers() const;
  Ints target_sizes() const;
  Ints velocity_sizes() const;

  const Layout& layout() const { return chain_.layout(); }
  template <class T>
  Chain<T> chain() const {
    return chain_.owned<T>().view();
  }
  template <class T>
  const std::vector<Task<T>>& tasks() const {
    if constexpr (sizeof(T) == sizeof(double)) {
      return f64_.view();
    } else {
      return f32_.view();
    }
  }

  // Returns (J, e, bad), where `bad` is the index of the first row with an input or result that is
  // not finite, or -1. `targets` has the rows and the type of q.
  nb::tuple linearize(nb::handle q, nb::handle targets, int threads) const;
  // In the next two functions `targets` may be None. `command` returns (rows, bad).
  nb::object bias_acceleration(nb::handle q, nb::handle qd, int threads, nb::handle targets) const;
  nb::tuple command(nb::handle q, nb::handle velocities, int threads, nb::handle targets) const;

 private:
  template <class T>
  const T* optional_targets(const Batch& q, nb::handle targets) const;
  template <class T>
  std::ptrdiff_t run(TaskRequest<T> request, int threads) const;

  PyChain chain_;
  OwnedTasks<double> f64_;
  OwnedTasks<float> f32_;
  int rows_ = 0, targets_ = 0, velocities_ = 0;
};

void bind_tasks(nb::module_& m);

}  // namespace supple
