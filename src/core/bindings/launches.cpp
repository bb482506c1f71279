// Launches of CUDA kernels that were recorded once and are repeated with other arrays.
//
// The functions of the driver come from Python as addresses: supple does not link to CUDA.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#include "bindings/module.hpp"

namespace nb = nanobind;

namespace supple {
namespace {

using namespace nb::literals;
using Address = std::uint64_t;
using Handle = void*;

// Functions of the CUDA driver; each returns a status.
struct Driver {
  int (*set_context)(Handle context);
  int (*allocate)(Address* pointer, std::size_t size, Handle pool, Handle stream);
  int (*release)(Address pointer, Handle stream);
  int (*fill)(Address pointer, unsigned char value, std::size_t size, Handle stream);
  int (*launch)(Handle kernel, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                unsigned threads, unsigned threads_y, unsigned threads_z, unsigned shared,
                Handle stream, void** arguments, void** extra);
};

template <class F>
void read_function(F& function, Address address) {
  std::memcpy(&function, &address, sizeof address);
}
Handle handle(Address address) { return reinterpret_cast<Handle>(address); }

class Launches {
 public:
  Launches(const std::vector<Address>& functions, Address context, Address pool)
      : context_(handle(context)), pool_(handle(pool)) {
    if (functions.size() != 5) throw nb::value_error("there must be five functions");
    read_function(driver_.set_context, functions[0]);
    read_function(driver_.allocate, functions[1]);
    read_function(driver_.release, functions[2]);
    read_function(driver_.fill, functions[3]);
    read_function(driver_.launch, functions[4]);
  }

  void add_launch(Address kernel, unsigned blocks, unsigned threads,
                  const std::vector<nb::bytes>& arguments,
                  const std::vector<std::tuple<int, int, int>>& patches) {
    Operation next{handle(kernel), blocks, threads, static_cast<int>(argument_.size()), 0, 0, {}};
    for (const nb::bytes& one : arguments) {
      const std::size_t first = (bytes_.size() + alignment - 1) / alignment * alignment;
      bytes_.resize(first + one.size());
      std::memcpy(bytes_.data() + first, one.c_str(), one.size());
      argument_.push_back(first);
    }
    for (const auto& [argument, offset, block] : patches) {
      patches_.push_back({argument_.at(next.first + argument) + offset, block - 1});
      blocks_ = std::max(blocks_, block);
    }
    operations_.push_back(next);
  }

  void add_zero(int block, std::size_t offset, std::size_t size) {
    operations_.push_back({nullptr, 0, 0, 0, size, offset, block - 1});
    blocks_ = std::max(blocks_, block);
  }

  void set_sizes(std::size_t results, std::size_t scratch) {
    results_ = results;
    scratch_ = scratch;
  }

  // Queues all operations. Returns the address of the results, or minus the status of an error.
  std::int64_t run(Address stream_address, const std::vector<Address>& given,
                   Address results) const {
    if (static_cast<int>(given.size()) + 2 < blocks_) throw nb::value_error("missing arrays");
    nb::gil_scoped_release release;
    const Handle stream = handle(stream_address);
    const bool owned = results == 0;
    Address scratch = 0;
    int status = driver_.set_context(context_);
    if (!status && owned) status = driver_.allocate(&results, results_, pool_, stream);
    if (!status && scratch_) status = driver_.allocate(&scratch, scratch_, pool_, stream);
    if (!status) status = queue(stream, results, scratch, given);
    if (scratch) driver_.release(scratch, stream);
    if (!status) return static_cast<std::int64_t>(results);
    if (owned && results) driver_.release(results, stream);
    return -status;
  }

 private:
  static constexpr std::size_t alignment = 16;

  // A launch or, if `kernel` is null, the writing of zeros at an offset in a block.
  struct Operation {
    Handle kernel;
    unsigned blocks, threads;
    int first;  // index of its first argument
    std::size_t size, offset;
    int block;
  };
  // A pointer among the arguments, to which the address of a block is added.
  struct Patch {
    std::size_t place;
    int block;
  };

  int queue(Handle stream, Address results, Address scratch,
            const std::vector<Address>& given) const {
    std::vector<Address> words((bytes_.size() + sizeof(Address) - 1) / sizeof(Address) + 2);
    char* const bytes = aligned(words.data());
    std::memcpy(bytes, bytes_.data(), bytes_.size());
    const auto base = [&](int block) {
      return block == 0 ? results : block == 1 ? scratch : given[block - 2];
    };
    for (const Patch& patch : patches_) {
      Address value;
      std::memcpy(&value, bytes + patch.place, sizeof value);
      value = (value & offset_mask) + base(patch.block);
      std::memcpy(bytes + patch.place, &value, sizeof value);
    }
    std::vector<void*> arguments(argument_.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = bytes + argument_[i];
    int status = 0;
    for (const Operation& each : operations_) {
      if (status) break;
      if (each.kernel) {
        status = driver_.launch(each.kernel, each.blocks, 1, 1, each.threads, 1, 1, 0, stream,
                                arguments.data() + each.first, nullptr);
      } else {
        status = driver_.fill(base(each.block) + each.offset, 0, each.size, stream);
      }
    }
    return status;
  }

  static char* aligned(Address* words) {
    const Address at = reinterpret_cast<Address>(words);
    return reinterpret_cast<char*>((at + alignment - 1) / alignment * alignment);
  }

  static constexpr Address offset_mask = (Address(1) << 56) - 1;

  Driver driver_{};
  Handle context_, pool_;
  std::vector<Operation> operations_;
  std::vector<char> bytes_;            // values of all arguments
  std::vector<std::size_t> argument_;  // where each argument begins
  std::vector<Patch> patches_;
  std::size_t results_ = 0, scratch_ = 0;
  int blocks_ = 0;
};

}  // namespace

void bind_launches(nb::module_& m) {
  nb::class_<Launches>(m, "Launches", "Launches of CUDA kernels, repeated with other arrays.")
      .def(nb::init<const std::vector<Address>&, Address, Address>(), "functions"_a, "context"_a,
           "pool"_a)
      .def("add_launch", &Launches::add_launch, "kernel"_a, "blocks"_a, "threads"_a, "arguments"_a,
           "patches"_a,
           "Add a launch; a patch is the index of an argument, an offset [bytes] and the number of "
           "the block whose address is added there.")
      .def("add_zero", &Launches::add_zero, "block"_a, "offset"_a, "size"_a,
           "Set bytes of a block to zero.")
      .def("set_sizes", &Launches::set_sizes, "results"_a, "scratch"_a,
           "Set the sizes of the blocks 1 and 2 [bytes].")
      .def("run", &Launches::run, "stream"_a, "given"_a, "results"_a,
           "Queue all operations on a stream. Return the address of the results, new memory if "
           "`results` is 0, or minus the status of an error.");
}

}  // namespace supple
