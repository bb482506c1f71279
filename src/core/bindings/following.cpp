// Motions that follow the poses of many frames, for `supple.retargeting`.
#define NO_IMPORT_ARRAY
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <vector>

#include "bindings/collision.hpp"
#include "bindings/module.hpp"
#include "kernels/following.hpp"

#include "isa_list.hpp"

namespace supple {

#define SUPPLE_X(name) extern const FollowingKernel SUPPLE_FOLLOWING_KERNEL(name);
SUPPLE_ISA_LIST(SUPPLE_X)
#undef SUPPLE_X

namespace {

using namespace nb::literals;

const FollowingKernel& kernel() {
#define SUPPLE_X(name) \
  if (!std::strcmp(isa().isa, #name)) return SUPPLE_FOLLOWING_KERNEL(name);
  SUPPLE_ISA_LIST(SUPPLE_X)
#undef SUPPLE_X
  throw std::logic_error("the instruction set in use has no such kernel");
}

// Whether two chains have the same joints in the same order; they may store different poses.
bool share_joints(const Chain<double>& a, const Chain<double>& b) {
  if (a.joints != b.joints || a.nv != b.nv) return false;
  for (int j = 0; j < a.joints; ++j) {
    const Joint<double>&x = a.joint[j], &y = b.joint[j];
    const bool same = x.parent == y.parent && x.motion == y.motion && x.placement == y.placement &&
                      x.q_index == y.q_index && x.v_index == y.v_index && x.scale == y.scale &&
                      x.offset == y.offset && std::equal(x.phase, x.phase + 2, y.phase) &&
                      std::equal(x.rotation, x.rotation + 9, y.rotation) &&
                      std::equal(x.position, x.position + 3, y.position);
    if (!same) return false;
  }
  return true;
}

// A motion; it keeps its state between calls.
class PyFollowing {
 public:
  PyFollowing(const PyChain& chain, const PyChain& legs, nb::object collision,
              const LimitsSpec& limits, const std::vector<double>& position,
              const std::vector<double>& rotation, const std::vector<double>& gain,
              const Ints& foot, const std::vector<std::vector<double>>& soles, nb::handle rest,
              const Doubles& posture, double dt, double posture_gain, double smooth, double hold,
              double touch, const Doubles& contact)
      : layout_(chain.layout()),
        chain_(chain.owned<double>()),
        legs_(legs.owned<double>()),
        collision_(std::move(collision)) {
    const int n = layout_.nv(), count = int(chain_.frames.size());
    check_length("position", count, position.size());
    check_length("rotation", count, rotation.size());
    check_length("gain", count, gain.size());
    check_length("foot", count, foot.size());
    check_length("posture", n, posture.size());
    check_length("contact", 8, contact.size());
    check_positive("dt", dt);
    check_at_least("the number of frames", 1, count);
    check_index("the number of frames", 0, most_followed + 1, count);
    limits_ = limits.in_kernel<double>(n);
    posture_.assign(posture.begin(), posture.end());
    rest_.resize(n);
    const Configurations neutral(rest, layout_, "rest");
    std::copy_n(neutral.data<double>(), n, rest_.data());
    int rows = 0, feet = 0;
    for (int k = 0; k < count; ++k) {
      follow_.push_back({k, position[k], rotation[k], gain[k], foot[k]});
      rows += 3 * (position[k] > 0) + 3 * (rotation[k] > 0);
      feet = std::max(feet, foot[k] + 1);
    }
    check_length("soles", feet, soles.size());
    check_length("the frames of legs", feet, legs_.frames.size());
    check_length("the coordinates of legs", n, legs_.view().nv);
    for (const std::vector<double>& sole : soles) {
      check_length("a sole", 3 + sole.size() / 4 * 4, sole.size());
      check_at_least("the number of a sole's balls", 1, int(sole.size()) / 4);
      sole_balls_.emplace_back(sole.begin(), sole.end());
      const double* const own = sole_balls_.back().data();
      sole_.push_back({int(sole.size()) / 4, own + 3, own});
    }
    const CollisionModel<double>* model = nullptr;
    if (!collision_.is_none()) {
      if (!nb::isinstance<PyCollisionModel>(collision_))
        throw nb::type_error("collision must be a CollisionModel or None");
      model = &nb::inst_ptr<PyCollisionModel>(collision_)->view();
      check_length("the collision model's coordinates", n, model->chain.nv);
      body_foot_.assign(model->moving, -1);
      for (int b = 0; b < model->moving; ++b) {
        const int joint = model->chain.frame[model->body[b].frame].joint;
        for (int k = 0; k < count; ++k) {
          // The joint that moves a foot last has the same coordinate in both chains.
          const int own = chain_.frames[k].joint;
          if (foot[k] >= 0 && own >= 0 &&
              chain_.joints[own].v_index == model->chain.joint[joint].v_index) {
            body_foot_[b] = foot[k];
          }
        }
      }
    }
    const bool shares = model && share_joints(chain_.view(), model->chain);
    if (shares) {
      for (std::size_t j = 0; j < chain_.joints.size(); ++j) {
        chain_.joints[j].branches |= model->chain.joint[j].branches;
      }
    }
    of_ = {.chain = chain_.view(),
           .legs = legs_.view(),
           .follows = count,
           .rows = rows,
           .feet = feet,
           .shares = shares,
           .follow = follow_.data(),
           .sole = sole_.data(),
           .limit = limits_.data(),
           .rest = rest_.data(),
           .posture = posture_.data(),
           .dt = dt,
           .gain = posture_gain,
           .smooth = smooth,
           .hold = hold,
           .touch = touch,
           .contacts = {.model = model,
                        .distance = contact[0],
                        .distance_at_rest = contact[1],
                        .distance_in_motion = contact[2],
                        .approach_share = contact[3],
                        .separation_share = contact[4],
                        .max_separation = contact[5],
                        .weight = contact[6],
                        .max_slack = contact[7],
                        .foot = body_foot_.data(),
                        .hold = hold}};
    state_.assign(4 * n + 13 * feet, 0.0);
    double* const at = state_.data();
    now_ = {at, at + n, at + 2 * n, at + 3 * n, at + 4 * n, at + 4 * n + 12 * feet};
    memory_ = std::make_unique<Scratch>(kernel().scratch(of_) * sizeof(double));
  }

  // Begins a motion at rest at q (nq,).
  void start(nb::handle q) {
    const Configurations at(q, layout_, "q");
    if (at.leading() != 0 || !at.is_double())
      raise_input_error("raise_batch", q, "q", layout_.nq());
    std::fill(state_.begin(), state_.end(), 0.0);
    std::copy_n(at.data<double>(), layout_.nv(), now_.q);
    kernel().prepare(of_, static_cast<double*>(memory_->get()));
    last_.assign(layout_.nq(), 0.0);
    layout_.from_kernel(now_.q, last_.data());
  }

  // Returns the rows a·y >= b of close pairs, a and b (k, n + 1), that a step from q (nq,) would
  // have. Bounds of distances from earlier calls are reused.
  nb::object close_pairs(nb::handle q) {
    const Configurations at(q, layout_, "q");
    if (at.leading() != 0 || !at.is_double())
      raise_input_error("raise_batch", q, "q", layout_.nq());
    if (last_.empty() || !of_.contacts.model)
      throw nb::value_error("a motion with a collision model must be started");
    const int n = layout_.nv();
    Doubles rows(std::size_t(most_contact_rows) * (n + 1));
    const int count =
        kernel().rows(of_, at.data<double>(), rows.data(), static_cast<double*>(memory_->get()));
    const npy_intp shape[] = {count, n + 1};
    nb::object made = new_array(NPY_DOUBLE, 2, shape);
    std::copy_n(rows.data(), std::size_t(count) * (n + 1), data_of<double>(made));
    return made;
  }

  // Runs steps between targets (k + 1, follows, 4, 4), which may have any strides, with hold (k,
  // feet); returns the configurations (k, nq) after the steps.
  nb::object run(nb::handle target, nb::handle hold) {
    const int n = layout_.nv(), size = 12 * of_.follows;
    auto* const targets = reinterpret_cast<PyArrayObject*>(target.ptr());
    if (!PyArray_CheckExact(target.ptr()) || PyArray_TYPE(targets) != NPY_DOUBLE ||
        !PyArray_ISBEHAVED_RO(targets) || PyArray_NDIM(targets) != 4 ||
        PyArray_DIM(targets, 1) != of_.follows || PyArray_DIM(targets, 2) != 4 ||
        PyArray_DIM(targets, 3) != 4) {
      throw nb::value_error("target must be an array of float64 (k + 1, frames, 4, 4)");
    }
    const int count = int(std::max<npy_intp>(PyArray_DIM(targets, 0) - 1, 0));
    const double* const holds = data_in<double>(hold, NPY_DOUBLE, count * of_.feet, "hold");
    if (last_.empty()) throw nb::value_error("a motion must be started");
    const npy_intp shape[] = {count, layout_.nq()};
    nb::object made = new_array(NPY_DOUBLE, 2, shape);
    double* const to = data_of<double>(made);
    constexpr int block = 32;  // steps whose targets and configurations stay in the cache
    Doubles poses(std::size_t(block + 1) * size), q(std::size_t(block) * n);
    for (int first = 0; first < count; first += block) {
      const int steps = std::min(block, count - first);
      read_poses(targets, first, steps + 1, poses.data());
      kernel().run(of_, now_, steps, poses.data(), holds + std::ptrdiff_t(first) * of_.feet,
                   q.data(), static_cast<double*>(memory_->get()));
      for (int k = 0; k < steps; ++k) {
        double* const own = to + std::size_t(first + k) * layout_.nq();
        layout_.from_kernel(q.data() + std::size_t(k) * n, own,
                            static_cast<const double*>(last_.data()));
        std::copy_n(own, layout_.nq(), last_.data());
      }
    }
    return made;
  }

 private:
  // Copies the poses of `count` steps (count, follows, 12): rotations by rows, then positions.
  void read_poses(PyArrayObject* targets, int first, int count, double* to) const {
    const npy_intp* const stride = PyArray_STRIDES(targets);
    const char* const from = PyArray_BYTES(targets) + first * stride[0];
    for (int k = 0; k < of_.follows; ++k) {
      for (int i = 0; i < 12; ++i) {
        const int row = i < 9 ? i / 3 : i - 9, column = i < 9 ? i % 3 : 3;
        const char* at = from + k * stride[1] + row * stride[2] + column * stride[3];
        for (int t = 0; t < count; ++t, at += stride[0]) {
          std::memcpy(to + (std::ptrdiff_t(t) * of_.follows + k) * 12 + i, at, sizeof(double));
        }
      }
    }
  }

  Layout layout_;
  OwnedChain<double> chain_, legs_;
  nb::object collision_;
  std::vector<JointLimit<double>> limits_;
  std::vector<Followed<double>> follow_;
  Ints body_foot_;
  std::vector<Doubles> sole_balls_;
  std::vector<Sole<double>> sole_;
  Doubles posture_, rest_, state_, last_;
  Following<double> of_;
  FollowState<double> now_;
  std::unique_ptr<Scratch> memory_;
};

}  // namespace

void bind_following(nb::module_& m) {
  nb::class_<PyFollowing>(m, "Following", "A motion that follows the poses of many frames.")
      .def(nb::init<const PyChain&, const PyChain&, nb::object, const LimitsSpec&,
                    const std::vector<double>&, const std::vector<double>&,
                    const std::vector<double>&, const Ints&,
                    const std::vector<std::vector<double>>&, nb::handle, const Doubles&, double,
                    double, double, double, double, const Doubles&>(),
           nb::kw_only(), "chain"_a, "legs"_a, "collision"_a.none(), "limits"_a, "position"_a,
           "rotation"_a, "gain"_a, "foot"_a, "soles"_a, "rest"_a, "posture"_a, "dt"_a,
           "posture_gain"_a, "smooth"_a, "hold"_a, "touch"_a, "contact"_a)
      .def("start", &PyFollowing::start, nb::lock_self(), "q"_a)
      .def("close_pairs", &PyFollowing::close_pairs, nb::lock_self(), "q"_a,
           nb::sig("def close_pairs(self, q: " SUPPLE_ARRAY ") -> "
                   "numpy.typing.NDArray[numpy.float64]"))
      .def("run", &PyFollowing::run, nb::lock_self(), "target"_a, "hold"_a,
           nb::sig("def run(self, target: numpy.typing.NDArray[numpy.float64], hold: "
                   "numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]"));
}

}  // namespace supple
