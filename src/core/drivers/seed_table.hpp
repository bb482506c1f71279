// A table of configurations to start from, looked up by what they reach (`nearest_seeds` in
// search.hpp).
#pragma once

#include <memory>
#include <vector>

#include "bindings/batches.hpp"
#include "kernels/kernels.hpp"

namespace supple {

// Owns the memory of a `Table`.
class SeedTable {
 public:
  // The first `entries` of the points that are spread evenly over all configurations, for so many
  // lanes. `scale` (targets,) says how much each number of a target counts; `lambda2` damps the
  // first step.
  SeedTable(const IkProblem<double>& ik, const std::vector<float>& scale, int entries, int lanes,
            double lambda2);
  ~SeedTable();

  // Goes on making the entries until a time by `now` of deadline.hpp, 0: to the end. Returns
  // whether the table is complete; until then it has no entries, and the next call goes on.
  bool build(long long deadline);

  const Table& view() const { return table_; }

 private:
  struct Draft;
  void arrange(int clusters);

  std::vector<float> scale_;
  const IkProblem<double>& ik_;
  int entries_, lanes_;
  double lambda2_;
  std::unique_ptr<Draft> draft_;  // null when the table is complete
  std::vector<int> begin_;
  std::unique_ptr<Scratch> cluster_, block_, record_, limits_;
  Table table_{};
};

}  // namespace supple
