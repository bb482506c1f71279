// Scratch memory that a call or a table owns.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace supple {

// Memory aligned to 64 bytes; a small block is stored in the object itself.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    if (bytes > sizeof(local_)) heap_.reset(::operator new(bytes, std::align_val_t{64}));
  }
  void* get() { return heap_ ? heap_.get() : local_; }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  alignas(64) unsigned char local_[16384];
  std::unique_ptr<void, Free> heap_;
};

}  // namespace supple
