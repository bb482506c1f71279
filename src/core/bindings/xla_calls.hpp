// The data of foreign functions of XLA: robots and solvers that are kept for them, the call, and
// its arrays in the types and coordinates of the kernel. Included only by xla.cpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "bindings/chain.hpp"
#include "bindings/ik_solver.hpp"
#include "bindings/search_spec.hpp"
#include "bindings/xla.hpp"

namespace supple {
namespace {

// An error of the caller, whose text JAX shows.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The data of a robot and a solver that calls use. A call shares ownership of it, so that Python
// may delete both during the call.
struct Kept {
  OwnedChain<double> owned;
  Layout layout;
  int frames, axes, threads;
  bool positions = false;
  double slack = 0;
  Doubles lower, upper, joint_scale, least_q0, largest_q0;
  nb::object solver{};                // a PySolver, or none
  std::optional<SearchSpec> spec[2];  // without and with q0

  Kept(const PyChain& chain, int threads)
      : owned(chain.owned<double>()),
        layout(chain.layout()),
        frames(chain.outputs()),
        axes(chain.axes()),
        threads(threads) {}
  ~Kept() {
    if (!solver.is_valid()) return;
    const nb::gil_scoped_acquire acquire;
    solver.reset();
  }
  Kept(const Kept&) = delete;

  Chain<double> chain() const { return owned.view(); }
  int nq() const { return layout.nq(); }
  int nv() const { return layout.nv(); }
};

// The data that is kept, by number. Numbers are random, because a compiled function that another
// process loads must not find another robot. The table lives until the process ends.
class Table {
 public:
  std::int64_t add(std::shared_ptr<const Kept> kept) {
    const std::unique_lock lock(mutex_);
    std::int64_t number;
    do {
      number = std::int64_t(random_() >> 1);
    } while (kept_.count(number));
    kept_[number] = std::move(kept);
    return number;
  }
  void remove(std::int64_t number) {
    std::shared_ptr<const Kept> last;  // is destroyed after unlocking
    const std::unique_lock lock(mutex_);
    const auto found = kept_.find(number);
    last = std::move(found->second);
    kept_.erase(found);
  }
  std::shared_ptr<const Kept> find(std::int64_t number) {
    const std::shared_lock lock(mutex_);
    const auto found = kept_.find(number);
    return found == kept_.end() ? nullptr : found->second;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<const Kept>> kept_;
  std::mt19937_64 random_{(std::uint64_t(std::random_device{}()) << 32) | std::random_device{}()};
};

Table& table() {
  static Table* const made = new Table;
  return *made;
}

// Work of a thread that does not hold the GIL, for which the interpreter waits at exit.
struct Working {
  Working() { ++at_work; }
  ~Working() { --at_work; }
};

// One call, and the data registered for it.
struct Call {
  const xla::CallFrame& frame;
  const Kept& kept;

  const xla::Buffer& argument(int i) const { return present(xla::buffer(frame.arguments, i)); }
  const xla::Buffer& result(int i) const { return present(xla::buffer(frame.results, i)); }
  bool has_argument(int i) const { return i < frame.arguments.count; }
  double value() const {
    const double* const given = xla::attribute<double>(frame, "value", xla::float64);
    if (!given) throw Refused("the call must have a value of float64");
    return *given;
  }

 private:
  static const xla::Buffer& present(const xla::Buffer* found) {
    if (!found) throw Refused("the call must have more arguments and results");
    return *found;
  }
};

// The number of rows in the leading axes of a buffer (..., tail).
std::ptrdiff_t rows_of(const xla::Buffer& buffer, int tail) {
  std::ptrdiff_t count = 1;
  for (std::int64_t i = 0; i < buffer.rank - tail; ++i) count *= buffer.dims[i];
  return count;
}

// Checks the size of a buffer; returns whether it is of float64.
bool is_double(const xla::Buffer& buffer, std::ptrdiff_t size) {
  if (rows_of(buffer, 0) != size) throw Refused("the arrays of the call must have matching shapes");
  if (buffer.type == xla::float64) return true;
  if (buffer.type == xla::float32) return false;
  throw Refused("the arrays of the call must be float32 or float64");
}

// The numbers of an argument in float64.
class Given {
 public:
  Given(const xla::Buffer& buffer, std::ptrdiff_t size) {
    if (is_double(buffer, size)) {
      data = static_cast<const double*>(buffer.data);
      return;
    }
    const float* const from = static_cast<const float*>(buffer.data);
    own_.assign(from, from + size);
    data = own_.data();
  }

  const double* data;

 private:
  Doubles own_;
};

// A result, which is computed in float64 and written by `commit`.
class Made {
 public:
  Made(const xla::Buffer& buffer, std::ptrdiff_t size) : buffer_(buffer), size_(size) {
    if (!is_double(buffer, size)) own_.resize(size);
    data = own_.empty() ? static_cast<double*>(buffer.data) : own_.data();
  }
  void commit() const {
    if (!own_.empty()) std::copy_n(own_.data(), size_, static_cast<float*>(buffer_.data));
  }

  double* data;

 private:
  const xla::Buffer& buffer_;
  std::ptrdiff_t size_;
  Doubles own_;
};

// Configurations (..., nq), and the same in the kernel's coordinates (count, nv).
class Places {
 public:
  Places(const xla::Buffer& buffer, const Layout& layout)
      : count(rows_of(buffer, 1)), given_(buffer, count * layout.nq()), layout_(layout) {
    if (!layout.has_balls()) return;
    own_.resize(count * layout.nv());
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      if (!layout.to_kernel(given_.data + i * layout.nq(), own_.data() + i * layout.nv()))
        throw Refused("a quaternion must not be zero; it is in row " + std::to_string(i) + " of q");
    }
  }

  const double* q() const { return given_.data; }
  const double* x() const { return layout_.has_balls() ? own_.data() : given_.data; }

  std::ptrdiff_t count;

 private:
  Given given_;
  const Layout& layout_;
  Doubles own_;
};

// A gradient with respect to configurations, which the kernel computes for velocities (count, nv).
class PlacesBar {
 public:
  PlacesBar(const xla::Buffer& buffer, const Places& at, const Layout& layout)
      : at_(at), layout_(layout), made_(buffer, at.count * layout.nq()) {
    if (layout.has_balls()) own_.resize(at.count * layout.nv());
    data = layout.has_balls() ? own_.data() : made_.data;
  }
  void commit() const {
    const int nq = layout_.nq(), nv = layout_.nv();
    for (std::ptrdiff_t i = 0; layout_.has_balls() && i < at_.count; ++i) {
      layout_.configuration_gradient(at_.q() + i * nq, data + i * nv, made_.data + i * nq);
    }
    made_.commit();
  }

  double* data;

 private:
  const Places& at_;
  const Layout& layout_;
  Made made_;
  Doubles own_;
};

}  // namespace
}  // namespace supple
