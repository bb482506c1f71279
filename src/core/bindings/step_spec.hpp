// A step of the kernel as the extension keeps it, in one precision.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings/chain.hpp"
#include "supple/step.hpp"

namespace supple {

// A step of the kernel in one list of numbers, owning its weights: method, p, group, max_error,
// error_group, max_angle, rule and its four parameters, min_weight; then how many weights of rows,
// of joints and entries of a direction there are, and these.
template <class T>
class OwnedStep {
 public:
  explicit OwnedStep(const Doubles& given)
      : weights_(given.begin() + head, given.end()),
        step_{Method(int(given.at(0))),
              T(given.at(1)),
              int(given.at(2)),
              T(given.at(3)),
              int(given.at(4)),
              T(given.at(5)),
              {Rule(int(given.at(6))),
               {T(given.at(7)), T(given.at(8)), T(given.at(9)), T(given.at(10))}}} {
    step_.min_weight = T(given.at(11));
    const int method = int(given[0]), rule = int(given[6]);
    if (method < 0 || method > int(Method::damped_quick) || rule < 0 || rule > int(last_rule) ||
        step_.group < 1 || step_.error_group < 1) {
      throw nb::value_error("no such method or rule");
    }
    for (int i = 0; i < 3; ++i) counts_[i] = int(given.at(12 + i));
    if (counts_[0] + counts_[1] + counts_[2] != int(weights_.size())) {
      throw nb::value_error("weights that do not match");
    }
  }

  // Points into this one's memory.
  Step<T> view(int rows, int columns) const {
    const int sizes[] = {rows, columns, rows};
    Step<T> step = step_;
    const T** to[] = {&step.task_scale, &step.joint_scale, &step.direction};
    const T* piece = weights_.data();
    for (int i = 0; i < 3; ++i) {
      if (counts_[i] != 0 && counts_[i] != sizes[i]) {
        throw nb::value_error("weights that do not match the task");
      }
      if (counts_[i]) *to[i] = piece;
      piece += counts_[i];
    }
    return step;
  }

 private:
  static constexpr int head = 15;
  std::vector<T> weights_;
  Step<T> step_;
  int counts_[3];
};

}  // namespace supple
