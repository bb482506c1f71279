// A table of configurations to start from, looked up by what they reach (`look_up` in search.hpp).
#pragma once

#include <memory>
#include <vector>

#include "batches.hpp"
#include "kernels.hpp"

namespace supple {

// Owns the memory of a `Table`.
class StartTable {
 public:
  // The first `entries` of the points that are spread evenly over all configurations, for so many
  // lanes. `scale` (targets,) says how much each number of a target counts; `lambda2` damps the
  // first step.
  StartTable(const Quest<double>& quest, const std::vector<float>& scale, int entries, int lanes,
             double lambda2);

  const Table& view() const { return table_; }

 private:
  std::vector<float> scale_;
  std::vector<int> begin_;
  std::unique_ptr<Scratch> centre_, block_, record_, limits_;
  Table table_{};
};

}  // namespace supple
