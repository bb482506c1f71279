// The joints and frames of a robot in both precisions, with kinematics on NumPy arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/batches.hpp"
#include "bindings/configurations.hpp"
#include "bindings/specs.hpp"
#include "kernels/isa.hpp"

namespace supple {

// A chain in one precision; owns its memory.
template <class T>
struct OwnedChain {
  std::vector<Joint<T>> joints;
  std::vector<Frame<T>> frames;
  std::vector<Support> support;
  Ints balls;
  int nv = 0;
  bool mimics = false, phases = false, lengths = false;

  Chain<T> view() const {
    return {.nq = nv,
            .nv = nv,
            .joints = int(joints.size()),
            .frames = int(frames.size()),
            .balls = int(balls.size()),
            .mimics = mimics,
            .phases = phases,
            .lengths = lengths,
            .joint = joints.data(),
            .frame = frames.data(),
            .support = support.data(),
            .ball = balls.data()};
  }
};

template <class T>
OwnedChain<T> build_chain(const Layout& layout, const std::vector<JointSpec>& joints,
                          const std::vector<FrameSpec>& frames) {
  OwnedChain<T> chain;
  const int nv = chain.nv = layout.nv();
  chain.balls = layout.balls();
  const int count = int(joints.size());
  Ints uses(nv, 0);
  for (int j = 0; j < count; ++j) {
    const JointSpec& spec = joints[j];
    check_index("q_index", 0, nv, spec.q_index);
    check_index("v_index", 0, nv, spec.v_index);
    if (spec.motion == Motion::ball) {  // its two other axes follow
      check_index("joints", 0, count - 2, j);
      check_index("v_index", 0, nv - 2, spec.v_index);
    }
    if (spec.placement == Placement::root) {
      check_index("parent", -1, 0, spec.parent);
    } else {
      check_index("parent", 0, j, spec.parent);  // parents come first
    }
    Joint<T> joint{.parent = spec.parent,
                   .motion = spec.motion,
                   .placement = spec.placement,
                   .q_index = spec.q_index,
                   .v_index = spec.v_index,
                   .branches = false,
                   .scale = T(spec.scale),
                   .offset = T(spec.offset),
                   .phase = {},
                   .rotation = {},
                   .position = {}};
    std::copy(spec.phase.begin(), spec.phase.end(), joint.phase);
    std::copy(spec.rotation.begin(), spec.rotation.end(), joint.rotation);
    std::copy(spec.position.begin(), spec.position.end(), joint.position);
    chain.phases |= joint.phase[0] != T(1) || joint.phase[1] != T(0);
    chain.mimics |= ++uses[joint.q_index] > 1;
    chain.lengths |=
        joint.motion == Motion::prismatic || joint.scale != T(1) || joint.offset != T(0);
    if (joint.parent >= 0 && joint.parent != j - 1) chain.joints[joint.parent].branches = true;
    chain.joints.push_back(joint);
  }
  for (const FrameSpec& spec : frames) {
    check_index("joint", -1, count, spec.joint);
    if (spec.joint >= 0) chain.joints[spec.joint].branches = true;
    Frame<T> frame{.joint = spec.joint,
                   .support_begin = int(chain.support.size()),
                   .support_end = 0,
                   .rotation = {},
                   .position = {}};
    Ints path;
    for (int j = spec.joint; j >= 0; j = joints[j].parent) path.push_back(j);
    std::vector<bool> seen(nv, false);
    for (auto j = path.rbegin(); j != path.rend(); ++j) {
      const int c = joints[*j].v_index;
      chain.support.push_back({.joint = *j, .first = !seen[c]});
      seen[c] = true;
    }
    frame.support_end = int(chain.support.size());
    std::copy(spec.rotation.begin(), spec.rotation.end(), frame.rotation);
    std::copy(spec.position.begin(), spec.position.end(), frame.position);
    chain.frames.push_back(frame);
  }
  return chain;
}

// Selects the results that a call computes.
struct Wanted {
  bool poses = false, jacobian = false, bias_acceleration = false, bias_jerk = false, sigma = false,
       manipulability = false;
};

// On entry, arrays to write into, or None; on return, the results.
struct Outputs {
  nb::object poses{}, jacobian{}, bias_acceleration{}, bias_jerk{}, sigma{}, manipulability{};
};

class PyChain {
 public:
  // Results are computed for the first `outputs` frames; they have a frame axis if `stack`. Further
  // frames only provide the `axes` of twists. Singular values are those of the `rows` of the
  // stacked Jacobian (6 * outputs, nv).
  PyChain(int nv, Ints balls, const std::vector<JointSpec>& joints,
          const std::vector<FrameSpec>& frames, int outputs, bool stack, int axes, Ints rows)
      : layout_(nv, std::move(balls)),
        f64_(build_chain<double>(layout_, joints, frames)),
        f32_(build_chain<float>(layout_, joints, frames)),
        outputs_(outputs),
        stack_(stack),
        axes_(axes),
        rows_(std::move(rows)) {
    check_index("outputs", 1, int(frames.size()) + 1, outputs);
    check_index("axes", axes_spatial, int(frames.size()), axes);
    for (int row : rows_) check_index("rows", 0, 6 * outputs, row);
  }

  // Joint velocities and accelerations, if the results need them.
  struct Speeds {
    nb::handle qd{}, qdd{};
  };

  Outputs evaluate(nb::handle q, Speeds speeds, int threads, Wanted wanted,
                   Outputs out = {}) const {
    Configurations batch(q, layout_, "q");
    if (batch.overlaps(out.poses) || batch.overlaps(out.jacobian)) batch.copy();
    return batch.is_double()
               ? evaluate(batch, speeds, threads, wanted, std::move(out), f64_.view(), isa().f64)
               : evaluate(batch, speeds, threads, wanted, std::move(out), f32_.view(), isa().f32);
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
  int outputs() const { return outputs_; }
  bool stacks() const { return stack_; }
  int axes() const { return axes_; }
  const Layout& layout() const { return layout_; }

  // Returns qd as an array with the rows and the type of q.
  static Batch paired(const Batch& q, nb::handle qd, int n) {
    Batch speed(qd, n, "qd");
    if (speed.same_rows(q)) return speed;
    return Batch(call("matched", q.object(), speed.object()), n, "qd");
  }

  [[noreturn]] static void raise_nonfinite(const Batch& q, const Batch* speed, std::ptrdiff_t row) {
    raise_input_error("raise_nonfinite", q.object(),
                      speed ? nb::object(nb::borrow(speed->object())) : nb::none(), row);
  }

 private:
  template <class T>
  Outputs evaluate(const Batch& q, Speeds speeds, int threads, Wanted wanted, Outputs out,
                   const Chain<T>& chain, const Kernel<T>& kernel) const {
    const int n = chain.nv, f = outputs_, sigmas = std::min(int(rows_.size()), n);
    const auto result = [&](bool want, nb::object& given, std::initializer_list<int> one,
                            std::initializer_list<int> many) {
      given = want ? q.result(given, stack_ ? many : one) : nb::object();
    };
    result(wanted.poses, out.poses, {4, 4}, {f, 4, 4});
    result(wanted.jacobian, out.jacobian, {6, n}, {f, 6, n});
    result(wanted.bias_acceleration, out.bias_acceleration, {6}, {f, 6});
    result(wanted.bias_jerk, out.bias_jerk, {6}, {f, 6});
    result(wanted.sigma, out.sigma, {sigmas}, {sigmas});
    result(wanted.manipulability, out.manipulability, {}, {});
    if (wanted.poses && wanted.jacobian && overlap(out.poses, out.jacobian)) {
      raise_input_error("raise_shared_out");
    }
    std::unique_ptr<Batch> speed, acceleration;
    if (speeds.qd.is_valid()) speed = std::make_unique<Batch>(paired(q, speeds.qd, n));
    if (speeds.qdd.is_valid()) acceleration = std::make_unique<Batch>(paired(q, speeds.qdd, n));

    const Request<T> request{.count = q.count(),
                             .frames = f,
                             .axes = axes_,
                             .q = q.data<T>(),
                             .qd = speed ? speed->data<T>() : nullptr,
                             .qdd = acceleration ? acceleration->data<T>() : nullptr,
                             .poses = data_of<T>(out.poses),
                             .jacobian = data_of<T>(out.jacobian),
                             .bias_acceleration = data_of<T>(out.bias_acceleration),
                             .bias_jerk = data_of<T>(out.bias_jerk),
                             .sigma = data_of<T>(out.sigma),
                             .manipulability = data_of<T>(out.manipulability),
                             .rows = rows_.data(),
                             .row_count = int(rows_.size())};
    const std::ptrdiff_t bad = run(chain, request, kernel, threads);
    if (bad >= 0) raise_nonfinite(q, speed.get(), bad);
    return out;
  }

  template <class T>
  static std::ptrdiff_t run(const Chain<T>& chain, const Request<T>& request,
                            const Kernel<T>& kernel, int threads) {
    if (request.count == 0) return -1;
    const std::size_t bytes = kernel.scratch(chain, request);
    if (request.count < 32) {  // for few rows, releasing the GIL takes longer than the work
      Scratch scratch(bytes);
      return kernel.run(chain, request, 0, request.count, scratch.get());
    }
    return over_batch(request.count, threads, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      Scratch scratch(bytes);
      return kernel.run(chain, request, begin, end, scratch.get());
    });
  }

  Layout layout_;
  OwnedChain<double> f64_;
  OwnedChain<float> f32_;
  int outputs_;
  bool stack_;
  int axes_;
  Ints rows_;
};

}  // namespace supple
