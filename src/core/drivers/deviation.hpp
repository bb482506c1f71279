// Errors of configurations along a path: at some places of an interval, and how they bend between.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "supple/ik/iterate.hpp"

namespace supple {

// Evaluates errors on lanes, with memory that is reused.
class PathErrors {
 public:
  explicit PathErrors(const IkProblem<double>& ik) : ik_(ik), n_(ik.chain.coordinates) {
    memory_.resize(std::size_t(n_ + ik.targets + ik.rows + iterate_scratch(ik)));
    std::fill(memory_.begin(), memory_.end(), Lanes(0));
    at_.q = memory_.data();
    at_.target = at_.q + n_;
    at_.e = at_.target + ik.targets;
    at_.work = at_.e + ik.rows;
  }

  // Writes the errors (places, rows), without weights, of configurations q (places, n) to e.
  void evaluate(int places, const double* q, const double* target, double* e) {
    for (int first = 0; first < places; first += width<Lanes>) {
      const int used = std::min<int>(width<Lanes>, places - first);
      for (int k = 0; k < used; ++k) {
        const double* const own = q + (first + k) * n_;
        const double* const goal = target + (first + k) * ik_.targets;
        for (int j = 0; j < n_; ++j) set(at_.q[j], k, own[j]);
        for (int j = 0; j < ik_.targets; ++j) set(at_.target[j], k, goal[j]);
      }
      evaluate_error(ik_, at_);
      for (int k = 0; k < used; ++k) {
        for (int i = 0; i < ik_.rows; ++i) {
          e[(first + k) * ik_.rows + i] = get(at_.e[i], k) * ik_.tolerance_unit[i];
        }
      }
    }
  }

  // Raises `most` (2,) [m, rad] to the errors of the tasks whose rows are e (rows,).
  void raise(const double* e, double* most) const {
    int row = 0;
    for (int k = 0; k < ik_.tasks; ++k) {
      double square[2] = {0, 0};
      for (int i = 0; i < ik_.task[k].rows; ++i, ++row) {
        square[ik_.measure[row] == Measure::rotation] += e[row] * e[row];
      }
      for (int kind = 0; kind < 2; ++kind) {
        most[kind] = std::max(most[kind], std::sqrt(square[kind]));
      }
    }
  }

 private:
  using Lanes = Unrolled<double>;

  const IkProblem<double> ik_;
  const int n_;
  std::vector<Lanes> memory_;
  IterateState<Lanes> at_{};
};

// Writes the largest errors (intervals, 2) [m, rad] at `places` places of each interval to `at`,
// and those of the second differences between them to `bend`; at the ends of an interval the error
// vanishes.
inline void interval_errors(PathErrors& errors, int rows, int intervals, int places,
                            const double* q, const double* targets, double* at, double* bend) {
  const std::size_t each = std::size_t(places * rows);
  std::vector<double> every(std::size_t(intervals) * each), e(each + std::size_t(2 * rows), 0.0);
  std::vector<double> second(static_cast<std::size_t>(rows));
  errors.evaluate(intervals * places, q, targets, every.data());
  for (int i = 0; i < intervals; ++i, at += 2, bend += 2) {
    std::copy_n(every.begin() + std::ptrdiff_t(i * int(each)), each, e.begin() + rows);
    for (int k = 0; k < places; ++k) {
      const double* const own = e.data() + (k + 1) * rows;
      errors.raise(own, at);
      for (int j = 0; j < rows; ++j) {
        second[std::size_t(j)] = own[j - rows] - 2 * own[j] + own[j + rows];
      }
      errors.raise(second.data(), bend);
    }
  }
}

}  // namespace supple
