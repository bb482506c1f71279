// Heights of points of frames over the whole joint range, by which targets are proven to be out of
// reach (supple/ik/reachability.hpp).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "supple/ik/reachability.hpp"

namespace supple {

// Owns the memory of a `Reach`. Computing the heights of a probe takes milliseconds per joint, so
// they are computed when a target is first missed, and those of a second probe when the first one
// does not show that a target is out of reach.
class ReachTable {
 public:
  explicit ReachTable(const IkProblem<double>& ik);
  ~ReachTable();

  int probes() const { return int(probe_.size()); }

  // Returns the table after computing the heights of its first `count` probes; others may be
  // missing. Returns null if stop() returns true before that; the next call continues. May be
  // called by several threads.
  const Reach* view(int count, bool (*stop)(void*), void* context);

 private:
  struct Draft;

  void write(int number);

  std::mutex building_;
  std::unique_ptr<Draft> draft_;  // null when the table is complete
  int complete_ = 0;              // number of probes whose heights are computed
  std::vector<double> direction_, height_;
  std::vector<ReachProbe> probe_;
  Reach reach_{};
};

}  // namespace supple
