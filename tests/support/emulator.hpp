// Runs CUDA kernels on a CPU, for tests: the threads of a warp are contexts that run one after
// another and wait for each other wherever they exchange numbers. Include this file before the
// source of the CUDA kernels.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

struct Index {
  unsigned x;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace emulated {

constexpr int threads = 32;
constexpr std::size_t stack = 1 << 20;
inline Index thread, block, block_size, grid_size;
inline ucontext_t context[threads];       // the start of a thread
inline jmp_buf turns, position[threads];  // fast, as jumps keep the signal mask
inline bool alive[threads], begun[threads];
inline int current;
inline uint64_t told[threads];
inline void (*body)(void**);
inline void** arguments;

inline void others() {
  const int self = current;
  if (!_setjmp(position[self])) _longjmp(turns, 1);
  current = self;
}

template <class T>
T of_lane(T x, int lane) {
  told[current] = 0;
  memcpy(&told[current], &x, sizeof(T));
  others();
  memcpy(&x, &told[lane % threads], sizeof(T));
  others();
  return x;
}

inline void life() {
  body(arguments);
  alive[current] = false;
  _longjmp(turns, 1);
}

// Runs a thread until it waits for others or ends.
inline void resume(int thread) {
  if (_setjmp(turns)) return;
  if (begun[thread]) _longjmp(position[thread], 1);
  begun[thread] = true;
  setcontext(&context[thread]);
}

// Launches a CUDA kernel on a one-dimensional grid.
inline void launch(int blocks, int size, void (*kernel)(void**), void** given) {
  static char* const memory = static_cast<char*>(malloc(threads * stack));
  body = kernel;
  arguments = given;
  grid_size.x = unsigned(blocks);
  block_size.x = unsigned(size);
  for (int warp = 0; warp < blocks * size / threads; ++warp) {
    block.x = unsigned(warp * threads / size);
    for (int i = 0; i < threads; ++i) {
      alive[i] = true;
      begun[i] = false;
      getcontext(&context[i]);
      context[i].uc_stack.ss_sp = memory + i * stack;
      context[i].uc_stack.ss_size = stack;
      context[i].uc_link = nullptr;
      makecontext(&context[i], life, 0);
    }
    for (bool any = true; any;) {
      any = false;
      for (int i = 0; i < threads; ++i) {
        if (!alive[i]) continue;
        any = true;
        current = i;
        thread.x = unsigned(warp * threads % size + i);
        resume(i);
      }
    }
  }
}

}  // namespace emulated

#define threadIdx emulated::thread
#define blockIdx emulated::block
#define blockDim emulated::block_size
#define gridDim emulated::grid_size
#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static  // (warps run one after the other)
#define __launch_bounds__(...)

inline unsigned __ballot_sync(unsigned, bool holds) {
  unsigned all = 0;
  emulated::told[emulated::current] = holds;
  emulated::others();
  for (int i = 0; i < emulated::threads; ++i) {
    if (emulated::alive[i] && emulated::told[i]) all |= 1u << i;
  }
  emulated::others();
  return all;
}
inline bool __any_sync(unsigned who, bool holds) { return __ballot_sync(who, holds) != 0; }
template <class T>
T __shfl_sync(unsigned who, T x, int lane) {
  return who & (who - 1) ? emulated::of_lane(x, lane) : x;  // a single thread gets its own value
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  return emulated::of_lane(x, emulated::current ^ mask);
}
inline void __syncwarp() { emulated::others(); }
inline unsigned __activemask() { return 1u << emulated::current; }  // threads run one at a time
inline int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int atomicAdd(int* sum, int more) {
  const int before = *sum;
  *sum += more;
  return before;
}
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
inline double __longlong_as_double(long long x) {
  double number;
  memcpy(&number, &x, sizeof(number));
  return number;
}
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T max(T a, T b) {
  return a > b ? a : b;
}
