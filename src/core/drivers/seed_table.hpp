// A table of seeds, searched by the targets that they reach (`nearest_seeds` in starts.hpp). Tuned
// constants are explained in docs/constants.md.
#pragma once

#include <memory>
#include <vector>

#include "drivers/scratch.hpp"
#include "kernels/kernels.hpp"

namespace supple {

// Seeds of a table are denser near the middle of the joint ranges: x = u (c + (1 - c) u²) with c =
// `middle_spacing`, where u is evenly distributed from -1 to 1, and x is the distance of a joint
// from the middle of its range relative to half the range. Starts from there are more likely to
// converge, and more likely to a comfortable posture. One in `even_seeds` seeds is evenly
// distributed, for targets that can only be met near the limits of several joints. A joint that can
// make a full turn has no limit to stay away from: its seeds are evenly distributed.
inline constexpr double middle_spacing = 0.3;
inline constexpr int even_seeds = 3;

// Weights of the discomfort Σ x² of a posture: relative to the variance of the targets in the
// look-up of seeds, and relative to squared joint displacements [rad² or m²] in the penalty of the
// predicted first step.
inline constexpr float looked_up_discomfort = 0.03f, predicted_discomfort = 3;

// Owns the memory of a `Table`.
class SeedTable {
 public:
  // Makes an empty table for the first `entries` seeds of the sequence, in the layout for `lanes`
  // lanes. `scale` (targets,) weights each value of a target; `wrap` (n,) is positive for joints
  // that can make a full turn; `lambda2` damps the first step from a seed.
  SeedTable(const IkProblem<double>& ik, const std::vector<float>& scale,
            const std::vector<double>& wrap, int entries, int lanes, double lambda2);
  ~SeedTable();

  // Builds entries until a deadline (clock.hpp). Returns whether the table is complete. Until then
  // it appears empty, and the next call continues.
  bool build(long long deadline);

  const Table& view() const { return table_; }

 private:
  struct Draft;
  float discomfort(const float* q) const;
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
