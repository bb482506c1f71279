// A robot's chain as the extension keeps it: in both precisions, with its kinematics on arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/batches.hpp"
#include "bindings/specs.hpp"
#include "kernels/isa.hpp"

namespace supple {

// A chain in one precision, owning its memory.
template <class T>
struct OwnedChain {
  std::vector<Joint<T>> joints;
  std::vector<Frame<T>> frames;
  std::vector<Support> support;
  int coordinates = 0;
  bool mimics = false, phases = false, lengths = false;

  Chain<T> view() const {
    return {coordinates, int(joints.size()), int(frames.size()), mimics,        phases,
            lengths,     joints.data(),      frames.data(),      support.data()};
  }
};

template <class T>
inline OwnedChain<T> build(int coordinates, const Ints& parent, const Ints& motion,
                           const Ints& placement, const Ints& coordinate, const Doubles& scale,
                           const Doubles& offset, const Doubles& phase, const Doubles& rotation,
                           const Doubles& position, const Ints& frame_joint,
                           const Doubles& frame_rotation, const Doubles& frame_position) {
  OwnedChain<T> chain;
  chain.coordinates = coordinates;
  const int count = int(parent.size());
  const auto copy = [](const Doubles& from, std::size_t at, int n, T* to) {
    for (int i = 0; i < n; ++i) to[i] = T(from.at(at + i));
  };
  Ints uses(coordinates, 0);
  for (int j = 0; j < count; ++j) {
    Joint<T> joint{parent.at(j),
                   Motion(motion.at(j)),
                   Placement(placement.at(j)),
                   coordinate.at(j),
                   false,
                   T(scale.at(j)),
                   T(offset.at(j)),
                   {},
                   {},
                   {}};
    const bool root = joint.placement == Placement::root;
    if (joint.parent >= j || joint.parent < -1 || root != (joint.parent == -1)) {
      throw nb::value_error("a chain's joints come after their parents");
    }
    copy(phase, 2 * std::size_t(j), 2, joint.phase);
    chain.phases |= joint.phase[0] != T(1) || joint.phase[1] != T(0);
    copy(rotation, 9 * std::size_t(j), 9, joint.rotation);
    copy(position, 3 * std::size_t(j), 3, joint.position);
    chain.mimics |= ++uses.at(joint.coordinate) > 1;
    chain.lengths |=
        joint.motion == Motion::prismatic || joint.scale != T(1) || joint.offset != T(0);
    if (joint.parent >= 0 && joint.parent != j - 1) chain.joints[joint.parent].branches = true;
    chain.joints.push_back(joint);
  }
  for (std::size_t f = 0; f < frame_joint.size(); ++f) {
    Frame<T> frame{frame_joint[f], int(chain.support.size()), 0, {}, {}};
    if (frame.joint >= count) throw nb::value_error("a frame sits on a joint that is not there");
    if (frame.joint >= 0) chain.joints[frame.joint].branches = true;
    Ints path;
    for (int j = frame.joint; j >= 0; j = parent[j]) path.push_back(j);
    std::vector<bool> seen(coordinates, false);
    for (auto j = path.rbegin(); j != path.rend(); ++j) {
      const int c = coordinate[*j];
      chain.support.push_back({*j, !seen[c]});
      seen[c] = true;
    }
    frame.support_end = int(chain.support.size());
    copy(frame_rotation, 9 * f, 9, frame.rotation);
    copy(frame_position, 3 * f, 3, frame.position);
    chain.frames.push_back(frame);
  }
  return chain;
}

// What one call of a chain shall compute.
struct Wanted {
  bool poses = false, jacobian = false, bias_acceleration = false, sigma = false,
       manipulability = false;
};

// Arrays to write into, where given; afterwards the results.
struct Outputs {
  nb::object poses{}, jacobian{}, bias_acceleration{}, sigma{}, manipulability{};
};

class PyChain {
 public:
  // `frames` of the given frames are results, in one axis if `stack`; a further one is the axes'.
  PyChain(int coordinates, const Ints& parent, const Ints& motion, const Ints& placement,
          const Ints& coordinate, const Doubles& scale, const Doubles& offset, const Doubles& phase,
          const Doubles& rotation, const Doubles& position, const Ints& frame_joint,
          const Doubles& frame_rotation, const Doubles& frame_position, int frames, bool stack,
          int axes, Ints rows)
      : f64_(build<double>(coordinates, parent, motion, placement, coordinate, scale, offset, phase,
                           rotation, position, frame_joint, frame_rotation, frame_position)),
        f32_(build<float>(coordinates, parent, motion, placement, coordinate, scale, offset, phase,
                          rotation, position, frame_joint, frame_rotation, frame_position)),
        frames_(frames),
        stack_(stack),
        axes_(axes),
        rows_(std::move(rows)) {
    if (frames < 1 || frames > int(frame_joint.size()) || axes >= int(frame_joint.size())) {
      throw nb::value_error("a chain has at least one frame, and its axes are one of them");
    }
    for (int row : rows_) {
      if (row < 0 || row >= 6 * frames) throw nb::value_error("a row beyond the stacked Jacobian");
    }
  }

  Outputs evaluate(nb::handle q, nb::handle qd, int threads, Wanted wanted,
                   Outputs out = {}) const {
    Batch batch(q, f64_.coordinates, "q");
    if (batch.overlaps(out.poses) || batch.overlaps(out.jacobian)) batch.copy();
    return batch.is_double()
               ? evaluate(batch, qd, threads, wanted, std::move(out), f64_.view(), isa().f64)
               : evaluate(batch, qd, threads, wanted, std::move(out), f32_.view(), isa().f32);
  }

  template <class T>
  const OwnedChain<T>& owned() const {
    if constexpr (sizeof(T) == sizeof(double)) {
      return f64_;
    } else {
      return f32_;
    }
  }
  int frames() const { return int(f64_.frames.size()); }

  // qd as an array with the rows and the type of q.
  static Batch paired(const Batch& q, nb::handle qd, int n) {
    Batch speed(qd, n, "qd");
    if (speed.same_rows(q)) return speed;
    return Batch(call("matched", q.object(), speed.object()), n, "qd");
  }

  [[noreturn]] static void refuse(const Batch& q, const Batch* speed, std::ptrdiff_t row) {
    call("refuse_nonfinite", q.object(),
         speed ? nb::object(nb::borrow(speed->object())) : nb::none(), row);
    throw nb::value_error("a number out of bounds");
  }

 private:
  template <class T>
  Outputs evaluate(const Batch& q, nb::handle qd, int threads, Wanted wanted, Outputs out,
                   const Chain<T>& chain, const Kernel<T>& kernel) const {
    const int n = chain.coordinates, f = frames_, sigmas = std::min(int(rows_.size()), n);
    const auto result = [&](bool want, nb::object& given, std::initializer_list<int> one,
                            std::initializer_list<int> many) {
      given = want ? q.result(given, stack_ ? many : one) : nb::object();
    };
    result(wanted.poses, out.poses, {4, 4}, {f, 4, 4});
    result(wanted.jacobian, out.jacobian, {6, n}, {f, 6, n});
    result(wanted.bias_acceleration, out.bias_acceleration, {6}, {f, 6});
    result(wanted.sigma, out.sigma, {sigmas}, {sigmas});
    result(wanted.manipulability, out.manipulability, {}, {});
    if (wanted.poses && wanted.jacobian && overlap(out.poses, out.jacobian)) {
      call("refuse_shared_out");
    }
    std::unique_ptr<Batch> speed;
    if (wanted.bias_acceleration) speed = std::make_unique<Batch>(paired(q, qd, n));

    const Request<T> request{q.count(),
                             f,
                             axes_,
                             q.data<T>(),
                             speed ? speed->data<T>() : nullptr,
                             data_of<T>(out.poses),
                             data_of<T>(out.jacobian),
                             data_of<T>(out.bias_acceleration),
                             data_of<T>(out.sigma),
                             data_of<T>(out.manipulability),
                             rows_.data(),
                             int(rows_.size())};
    const std::ptrdiff_t bad = run(chain, request, kernel, threads);
    if (bad >= 0) refuse(q, speed.get(), bad);
    return out;
  }

  template <class T>
  static std::ptrdiff_t run(const Chain<T>& chain, const Request<T>& request,
                            const Kernel<T>& kernel, int threads) {
    if (request.count == 0) return -1;
    const std::size_t bytes = kernel.scratch(chain, request);
    if (request.count < 32) {  // sooner done than the interpreter's lock is given away
      Scratch scratch(bytes);
      return kernel.run(chain, request, 0, request.count, scratch.get());
    }
    return over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      return kernel.run(chain, request, begin, end, scratch.get());
    });
  }

  OwnedChain<double> f64_;
  OwnedChain<float> f32_;
  int frames_;
  bool stack_;
  int axes_;
  Ints rows_;
};

}  // namespace supple
