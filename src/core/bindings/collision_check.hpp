// Rejects solutions of a search at which two parts of a collision model are too close.
#pragma once

#include <atomic>
#include <memory>

#include "bindings/collision.hpp"
#include "drivers/scratch.hpp"
#include "kernels/collision.hpp"
#include "kernels/isa.hpp"

namespace supple {

class CollisionCheck {
 public:
  // `model` is a PyCollisionModel of a robot with n coordinates, or None to accept all solutions.
  // `clearance` is the least distance of all pairs [m].
  CollisionCheck(nb::object model, int n, double clearance)
      : object_(std::move(model)), clearance_(clearance) {
    if (object_.is_none()) return;
    if (!nb::isinstance<PyCollisionModel>(object_))
      throw nb::type_error("collision must be a CollisionModel, or None");
    model_ = nb::inst_ptr<PyCollisionModel>(object_);
    check_length("q of the collision model", std::size_t(n), std::size_t(model_->view().chain.nq));
  }

  // Sets the condition of a request, which must not outlive this object.
  void apply(SolveRequest& request, int max_rejected) const {
    if (!model_) return;
    request.rejects = &rejects;
    request.reject_context = this;
    request.max_rejected = max_rejected;
  }

  nb::handle object() const { return object_; }

 private:
  // Memory of one thread, prepared for the check that used it last.
  struct Memory {
    long long owner = -1, moves = 0;
    std::unique_ptr<Scratch> scratch;
  };

  static bool rejects(const void* context, std::ptrdiff_t, const double* q) {
    static thread_local Memory memory;
    const auto& check = *static_cast<const CollisionCheck*>(context);
    const CollisionModel<double>& model = check.model_->view();
    const CollisionKernel& kernel = *isa().collision;
    if (memory.owner != check.id_ || memory.moves != check.model_->moves()) {
      memory.scratch = std::make_unique<Scratch>(kernel.scratch(model) * sizeof(double));
      kernel.prepare(model, static_cast<double*>(memory.scratch->get()));
      memory.owner = check.id_;
      memory.moves = check.model_->moves();
    }
    return kernel.collides(model, q, check.clearance_, static_cast<double*>(memory.scratch->get()));
  }

  static long long next_id() {
    static std::atomic<long long> last{0};
    return ++last;
  }

  nb::object object_;
  const PyCollisionModel* model_ = nullptr;
  double clearance_;
  long long id_ = next_id();  // unlike an address, never used again
};

}  // namespace supple
