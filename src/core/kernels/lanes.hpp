// Functions that the batch loops share: they move rows of arrays into and out of lanes, and check
// the input. Included only by files that are compiled once for each instruction set.
#pragma once

#include <cstddef>

#include "supple/robot/rows.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// Number of lanes of a batch. The lanes fill two registers, whose operations overlap, if the
// instruction set has enough registers, else one (SUPPLE_REGISTERS, isa.txt).
template <class T>
inline constexpr int batch_width = SUPPLE_REGISTERS * register_bytes / int(sizeof(T));

// Returns the first lane where a mask is false. Only the first `lanes` lanes are used; the rest
// repeat the last of these.
template <class L>
int first_false(const mask_t<L>& mask, int lanes) {
  int i = 0;
  while (i + 1 < lanes && get(mask, i)) ++i;
  return i;
}

// Lane i of x[k] <- rows[i * n + k]; lanes from `lanes` on repeat row lanes - 1.
template <class L, class T>
void load(int n, int lanes, const T* rows, L* x) {
  for (int k = 0; k < n; ++k) {
    L number(0);
    for (int i = 0; i < width<L>; ++i) set(number, i, rows[(i < lanes ? i : lanes - 1) * n + k]);
    x[k] = number;
  }
}

// rows[i * n + k] <- lane i of x[k], four numbers at a time. Writing in the order of addresses lets
// the processor store whole cache lines without reading them first.
template <class L, class T>
void store(int n, int lanes, const L* x, T* rows) {
  const T* const numbers = reinterpret_cast<const T*>(x);
  const auto number = [numbers](int k, int i) { return numbers[k * width<L> + i]; };
  for (int i = 0; i < lanes; ++i) {
    T* row = rows + std::ptrdiff_t(i) * n;
    int k = 0;
    for (; k + 3 < n; k += 4) {
      const T a = number(k, i), b = number(k + 1, i), c = number(k + 2, i), d = number(k + 3, i);
      row[k] = a;
      row[k + 1] = b;
      row[k + 2] = c;
      row[k + 3] = d;
    }
    for (; k < n; ++k) row[k] = number(k, i);
  }
}

// Processes rows begin to end - 1 of a batch with `block`, as many at a time as there are lanes,
// with a workspace in `memory`. Returns the index of the first row that `block` reports as invalid,
// or -1.
template <template <class> class Space, class L, class T, class Request>
std::ptrdiff_t run_lanes(const Chain<T>& chain, const Request& request, std::ptrdiff_t begin,
                         std::ptrdiff_t end, void* memory) {
  Space<L> space;
  space.allocate(chain, request, memory);
  for (std::ptrdiff_t first = begin; first < end; first += width<L>) {
    const std::ptrdiff_t left = end - first;
    const int lanes = left < width<L> ? int(left) : width<L>;
    const mask_t<L> valid = block(chain, request, first, lanes, space);
    if (!all(valid)) return first + first_false<L>(valid, lanes);
  }
  return -1;
}

// Bytes of memory that the workspace of `run_blocks` needs.
template <template <class> class Space, class T, class Request>
std::size_t workspace(const Chain<T>& chain, const Request& request) {
  Space<Pack<T, batch_width<T>>> space;
  return space.allocate(chain, request, nullptr);
}

// Whether the kernels of a precision have a scalar path for single rows. float32 has none: it is
// rare there, a pack gives the same result, and a second path is a fifth of the compile time.
template <class T>
inline constexpr bool has_scalar_path = sizeof(T) == sizeof(double);

// Calls `run_lanes`: with packs for a batch, with a scalar for a single row if it is double.
template <template <class> class Space, class T, class Request>
std::ptrdiff_t run_blocks(const Chain<T>& chain, const Request& request, std::ptrdiff_t begin,
                          std::ptrdiff_t end, void* memory) {
  if constexpr (has_scalar_path<T>) {
    if (end - begin == 1) return run_lanes<Space, T>(chain, request, begin, end, memory);
  }
  return run_lanes<Space, Pack<T, batch_width<T>>>(chain, request, begin, end, memory);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
