// The collision model of a robot and its world, on NumPy arrays.
#pragma once

#include <memory>

#include "bindings/arrays.hpp"
#include "bindings/chain.hpp"
#include "bindings/collision_model.hpp"

namespace supple {

class PyCollisionModel {
 public:
  // The arrays are those of `CollisionSpec`, of int32 and float64.
  PyCollisionModel(const PyChain& chain, nb::handle kind, nb::handle frame, nb::handle pose,
                   nb::handle size, nb::handle radius, nb::handle vertices, nb::handle first_vertex,
                   nb::handle speed, nb::handle pairs, nb::handle allowed);

  const CollisionModel<double>& view() const { return owned_->view(); }
  // Number of calls of `move`, and number of these calls for shapes whose given speed is zero.
  int moves() const { return moves_; }
  int jumps() const { return jumps_; }

  // Returns, for all pairs, the distances (k,), nearest points (k, 2, 3) and normals (k, 3) at q
  // (n,).
  nb::object distances(nb::handle q) const;
  // Returns the smallest distance and the index of its pair; infinity and -1 without pairs. If a
  // clearance below `clearance` suffices for a pair, the difference is added to its distance.
  nb::object min_distance(nb::handle q, double clearance) const;
  // Returns for each configuration (..., n) whether some pair is closer than the smaller of
  // `clearance` and the clearance that the pair is allowed.
  nb::object collides(nb::handle q, double clearance, int threads) const;
  // Returns (N, k): for each configuration (N, n) and each pair, whether the pair is closer than a
  // distance.
  nb::object closer(nb::handle q, double distance) const;
  // Returns bounds of the distances along a curve of cubic pieces between parameters s (N + 1,)
  // with coefficients (4, N, n), and for ball joints anchors (N, n): a lower bound, the smallest
  // distance seen, and the first part that may be closer than `clearance`: its beginning, its end
  // and a pair (-1 for none).
  nb::object curve_bound(nb::handle s, nb::handle coefficients, nb::handle anchors,
                         double clearance, double absolute, double relative, bool first) const;
  // Returns the cost of all pairs that are closer than `distance` at q (n,), and its gradient (n,).
  nb::object cost(nb::handle q, double distance) const;
  // Returns the model as bytes, for a copy at an address in the memory of a GPU.
  nb::object packed(std::uintptr_t address, double size, double rounding) const;
  void move(int shape, nb::handle pose);
  // Moves a shape of the world to a pose (4, 4).
  void move(int shape, const double* pose);

 private:
  // Copies a row of a batch in the kernel's coordinates; raises an error for numbers that are not
  // finite.
  void configuration(const Batch& at, std::ptrdiff_t row, double* q) const;

  Layout layout_;
  std::unique_ptr<OwnedCollisionModel> owned_;
  int moves_ = 0, jumps_ = 0;
};

}  // namespace supple
