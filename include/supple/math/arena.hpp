// Scratch memory: arrays taken one after the other from one block that the caller owns.
#pragma once

#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {

// Allocates consecutive arrays from a block. With a null block, the arrays must not be used: only
// `size` is valid, the number of elements that the same calls would take from a real block.
template <class Element>
class Arena {
 public:
  SUPPLE_INLINE explicit Arena(Element* block) : begin_(block), next_(block) {}

  SUPPLE_INLINE Element* take(int count) {
    Element* const array = next_;
    next_ += count;
    return array;
  }

  // Takes an array of `count` values of another type. Its size is rounded up to whole elements.
  template <class X>
  SUPPLE_INLINE X* take_as(int count) {
    const int bytes = int(sizeof(X)) * count, element = int(sizeof(Element));
    return reinterpret_cast<X*>(take((bytes + element - 1) / element));
  }

  // Start of the unused part of the block.
  SUPPLE_INLINE Element* rest() const { return next_; }

  // Number of elements taken so far.
  SUPPLE_INLINE int size() const { return int(next_ - begin_); }

 private:
  Element *begin_, *next_;
};

}  // namespace supple::inline SUPPLE_ISA
