// A table of seeds, searched by the targets that they reach (`nearest_seeds` in starts.hpp).
#pragma once

#include <memory>
#include <vector>

#include "drivers/scratch.hpp"
#include "kernels/kernels.hpp"

namespace supple {

// Owns the memory of a `Table`.
class SeedTable {
 public:
  // Makes an empty table for the first `entries` seeds of the sequence, in the layout for `lanes`
  // lanes. `scale` (targets,) weights each value of a target; `lambda2` damps the first step from a
  // seed.
  SeedTable(const IkProblem<double>& ik, const std::vector<float>& scale, int entries, int lanes,
            double lambda2);
  ~SeedTable();

  // Builds entries until a deadline (clock.hpp). Returns whether the table is complete. Until then
  // it appears empty, and the next call continues.
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
