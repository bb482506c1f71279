// Heights of points of frames over the whole joint range, by which targets are proven to be out of
// reach (supple/ik/reachability.hpp).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "supple/ik/reachability.hpp"

namespace supple {

// Owns the memory of a `Reach`. Building it takes milliseconds per joint, so it is built when a
// target is first missed.
class ReachTable {
 public:
  explicit ReachTable(const IkProblem<double>& ik);
  ~ReachTable();

  // Builds the table until stop() returns true. Returns null while it is incomplete; the next call
  // continues. May be called by several threads.
  const Reach* view(bool (*stop)(void*), void* context);

 private:
  struct Draft;

  std::mutex building_;
  std::unique_ptr<Draft> draft_;  // null when the table is complete
  std::vector<double> direction_, height_;
  std::vector<ReachProbe> probe_;
  Reach reach_{};
};

}  // namespace supple
