// Errors of configurations along a path: at some places of an interval, and their second
// differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "drivers/scratch.hpp"
#include "kernels/isa.hpp"

namespace supple {

// Raises `most` (2,) [m, rad] to the errors of the tasks whose rows are e (rows,).
inline void raise_errors(const IkProblem<double>& ik, const double* e, double* most) {
  int row = 0;
  for (int k = 0; k < ik.tasks; ++k) {
    double square[2] = {0, 0};
    for (int i = 0; i < ik.task[k].rows; ++i, ++row) {
      square[ik.measure[row] == Measure::rotation] += e[row] * e[row];
    }
    for (int kind = 0; kind < 2; ++kind) {
      most[kind] = std::max(most[kind], std::sqrt(square[kind]));
    }
  }
}

// Writes the largest errors (intervals, 2) [m, rad] at `places` places of each interval to `at`,
// and the largest second differences of these errors to `bend`; at the ends of an interval the
// error is zero.
inline void interval_errors(const IkProblem<double>& ik, int intervals, int places, const double* q,
                            const double* targets, double* at, double* bend) {
  const int rows = ik.rows;
  const std::size_t each = std::size_t(places * rows);
  std::vector<double> every(std::size_t(intervals) * each), e(each + std::size_t(2 * rows), 0.0);
  std::vector<double> second(static_cast<std::size_t>(rows));
  const PathKernel& kernel = *isa().paths;
  Scratch memory(kernel.error_memory(ik));
  kernel.errors(ik, intervals * places, q, targets, every.data(), memory.get());
  for (int i = 0; i < intervals; ++i, at += 2, bend += 2) {
    std::copy_n(every.begin() + std::ptrdiff_t(i * int(each)), each, e.begin() + rows);
    for (int k = 0; k < places; ++k) {
      const double* const own = e.data() + (k + 1) * rows;
      raise_errors(ik, own, at);
      for (int j = 0; j < rows; ++j) {
        second[std::size_t(j)] = own[j - rows] - 2 * own[j] + own[j + rows];
      }
      raise_errors(ik, second.data(), bend);
    }
  }
}

}  // namespace supple
