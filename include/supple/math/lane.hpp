// Lanes: the number types on which every formula of the kernel runs.
//
// A lane is a plain `double` or `float` (one problem, or one CUDA thread), or a `Pack<T, W>` of W
// of them (W problems side by side in SIMD registers). All of them share one interface:
//
//     + - * /   < <= > >= ==   fma(a, b, c)   sqrt  abs  min  max  copysign
//     select(mask, a, b)   any(mask)   all(mask)   get(a, i)   set(a, i, x)
//     scalar_t<L>   mask_t<L>   width<L>
//
// All machine-specific code is in this file: no other header has an #if. Compile with
// -ffp-contract=off: products are fused only where the kernel calls fma, so that each number of a
// pack has the same bits as a scalar computation on the same instruction set.
//
// Accuracy: + - * / sqrt are correctly rounded. fma(a, b, c) = a b + c rounds once where the target
// has the instruction (AVX2+FMA, AVX-512, NEON, CUDA), and twice on baseline x86-64.
#pragma once

// A kernel header may be compiled for several instruction sets into one binary. The inline
// namespace gives each set its own symbols. Otherwise the linker would merge functions of the same
// name and keep one copy, possibly one that the processor cannot run.
#ifndef SUPPLE_ISA
#define SUPPLE_ISA portable
#endif

#if defined(__CUDACC__)
#define SUPPLE_INLINE __host__ __device__ __forceinline__
// The functions are static: otherwise each source file would also emit a copy that other source
// files can call.
#define SUPPLE_FN static __host__ __device__ inline
#define SUPPLE_NOINLINE_HOST static __host__ __device__ inline
#define SUPPLE_NOINLINE_DEVICE static __host__ __device__ __noinline__
#define SUPPLE_NOINLINE static __host__ __device__ __noinline__
// Unrolls a loop of constant length on a GPU, whatever its length: an array stays in registers only
// if all its indices are known at compile time.
#define SUPPLE_UNROLL _Pragma("unroll")
#else
#define SUPPLE_UNROLL
// In quick builds (make dev, the tests), -DSUPPLE_INLINE=inline lets the compiler decide which
// functions to inline.
#ifndef SUPPLE_INLINE
#define SUPPLE_INLINE inline __attribute__((always_inline))
#endif
#define SUPPLE_FN inline
// On a CPU, keeps a function from being inlined, because its loop needs all registers for its
// constants.
#define SUPPLE_NOINLINE_HOST __attribute__((noinline))
// On a GPU, keeps a large function from being inlined. All other functions are inlined there; a
// large one would be compiled again for each place that calls it.
#define SUPPLE_NOINLINE_DEVICE inline
// Never inlined: other source files of an instruction set call such functions instead of compiling
// them again (src/core/kernels/step_family.hpp).
#define SUPPLE_NOINLINE __attribute__((noinline))
#endif
#define SUPPLE_RESTRICT __restrict__
// Largest number of multipliers (servo/tree_rows.hpp). In GPU source, which is generated for one
// robot, this is the number of multipliers of that robot.
#ifndef SUPPLE_MULTIPLIERS
#define SUPPLE_MULTIPLIERS 24
#endif
// Unrolls a short loop of constant length on a CPU. A GPU's compiler does so by itself.
#if defined(__CUDACC__)
#define SUPPLE_UNROLL_HOST
#elif defined(__clang__)
#define SUPPLE_UNROLL_HOST _Pragma("unroll")
#else
#define SUPPLE_UNROLL_HOST _Pragma("GCC unroll 8")
#endif
// Unrolls such a loop on a GPU, too, if the length is a `Fixed` size N of at most 8: its compiler
// does not unroll the loops of long functions by itself.
#if defined(__CUDACC__)
#define SUPPLE_UNROLL_SHORT _Pragma("unroll (short_size<N>)")
#else
#define SUPPLE_UNROLL_SHORT SUPPLE_UNROLL_HOST
#endif

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && !defined(__CUDACC__)
#include <arm_neon.h>
#endif

namespace supple::inline SUPPLE_ISA {

// ---- constants of a machine number -------------------------------------------------------------

template <class T>
struct Number;

template <>
struct Number<double> {
  using Bits = unsigned long long;
  static constexpr double epsilon = 0x1p-52;
  static constexpr double tiny = 0x1p-1022;  // smallest normal number
  static constexpr double huge = 0x1p1023;
  static constexpr double round_magic =
      0x1.8p52;  // x + magic - magic rounds |x| < 2^51 to an integer
  static constexpr double scale_target = 0x1p500;  // a sum of 2^16 squares of 2^501 is finite
  static constexpr Bits sign = 0x8000000000000000ull;
  static constexpr Bits exponent = 0x7ff0000000000000ull;
};

template <>
struct Number<float> {
  using Bits = unsigned int;
  static constexpr float epsilon = 0x1p-23f;
  static constexpr float tiny = 0x1p-126f;
  static constexpr float huge = 0x1p127f;
  static constexpr float round_magic = 0x1.8p23f;
  static constexpr float scale_target = 0x1p54f;
  static constexpr Bits sign = 0x80000000u;
  static constexpr Bits exponent = 0x7f800000u;
};

// ---- the scalar lanes: double, float -----------------------------------------------------------

template <class L>
struct Lane {
  using Scalar = L;
  using Mask = bool;
  static constexpr int width = 1;
};

template <class L>
using scalar_t = typename Lane<L>::Scalar;
template <class L>
using mask_t = typename Lane<L>::Mask;
template <class L>
inline constexpr int width = Lane<L>::width;

SUPPLE_INLINE bool any(bool mask) { return mask; }
SUPPLE_INLINE bool all(bool mask) { return mask; }
SUPPLE_INLINE bool get(bool mask, int) { return mask; }

#if defined(__CUDA_ARCH__)
SUPPLE_INLINE double fma(double a, double b, double c) { return ::fma(a, b, c); }
SUPPLE_INLINE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
SUPPLE_INLINE double sqrt(double a) { return ::sqrt(a); }
SUPPLE_INLINE float sqrt(float a) { return ::sqrtf(a); }
SUPPLE_INLINE Number<double>::Bits bits(double a) { return __double_as_longlong(a); }
SUPPLE_INLINE Number<float>::Bits bits(float a) { return __float_as_uint(a); }
SUPPLE_INLINE double from_bits(Number<double>::Bits a) { return __longlong_as_double(a); }
SUPPLE_INLINE float from_bits(Number<float>::Bits a) { return __uint_as_float(a); }
#else
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
SUPPLE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
SUPPLE_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
SUPPLE_INLINE double fma(double a, double b, double c) { return a * b + c; }
SUPPLE_INLINE float fma(float a, float b, float c) { return a * b + c; }
#endif
SUPPLE_INLINE double sqrt(double a) { return __builtin_sqrt(a); }
SUPPLE_INLINE float sqrt(float a) { return __builtin_sqrtf(a); }
SUPPLE_INLINE Number<double>::Bits bits(double a) {
  return __builtin_bit_cast(Number<double>::Bits, a);
}
SUPPLE_INLINE Number<float>::Bits bits(float a) {
  return __builtin_bit_cast(Number<float>::Bits, a);
}
SUPPLE_INLINE double from_bits(Number<double>::Bits a) { return __builtin_bit_cast(double, a); }
SUPPLE_INLINE float from_bits(Number<float>::Bits a) { return __builtin_bit_cast(float, a); }
#endif

// Sine, cosine and arc tangent of the C library or of CUDA. On a CPU, sine and cosine are used only
// for arguments too large for the range reduction in elementary.hpp.
#if defined(__CUDA_ARCH__)
inline constexpr bool native_elementary = true;
SUPPLE_INLINE void native_sincos(double x, double& s, double& c) { ::sincos(x, &s, &c); }
SUPPLE_INLINE void native_sincos(float x, float& s, float& c) { ::sincosf(x, &s, &c); }
SUPPLE_INLINE double native_atan2(double y, double x) { return ::atan2(y, x); }
SUPPLE_INLINE float native_atan2(float y, float x) { return ::atan2f(y, x); }
#else
inline constexpr bool native_elementary = false;
SUPPLE_INLINE void native_sincos(double x, double& s, double& c) {
  s = __builtin_sin(x);
  c = __builtin_cos(x);
}
SUPPLE_INLINE void native_sincos(float x, float& s, float& c) {
  s = __builtin_sinf(x);
  c = __builtin_cosf(x);
}
SUPPLE_INLINE double native_atan2(double y, double x) { return __builtin_atan2(y, x); }
SUPPLE_INLINE float native_atan2(float y, float x) { return __builtin_atan2f(y, x); }
#endif

template <class T>
SUPPLE_INLINE T select(bool mask, T a, T b) {
  return mask ? a : b;
}
SUPPLE_INLINE double abs(double a) { return from_bits(bits(a) & ~Number<double>::sign); }
SUPPLE_INLINE float abs(float a) { return from_bits(bits(a) & ~Number<float>::sign); }
SUPPLE_INLINE double copysign(double a, double s) {
  using N = Number<double>;
  return from_bits((bits(a) & ~N::sign) | (bits(s) & N::sign));
}
SUPPLE_INLINE float copysign(float a, float s) {
  using N = Number<float>;
  return from_bits((bits(a) & ~N::sign) | (bits(s) & N::sign));
}

SUPPLE_INLINE double get(double a, int) { return a; }
SUPPLE_INLINE float get(float a, int) { return a; }
SUPPLE_INLINE void set(double& a, int, double x) { a = x; }
SUPPLE_INLINE void set(float& a, int, float x) { a = x; }

// Returns 2^e for a normal number |a| = m 2^e with 1 <= m < 2, and 0 for zero and subnormal
// numbers.
SUPPLE_INLINE double power_of_two(double a) {
  return from_bits(bits(a) & Number<double>::exponent);
}
SUPPLE_INLINE float power_of_two(float a) { return from_bits(bits(a) & Number<float>::exponent); }

// Turns (s, c) = (sin r, cos r) into the sine and cosine of r + k pi/2. `magic_k` is round_magic +
// k, whose low bits hold the integer k.
template <class T>
SUPPLE_INLINE void rotate_by_quadrants(T magic_k, T& s, T& c) {
  using Bits = typename Number<T>::Bits;
  constexpr int top = 8 * sizeof(T) - 2;
  const Bits k = bits(magic_k);
  const T sine = (k & 1) ? c : s;
  const T cosine = (k & 1) ? s : c;
  s = from_bits(bits(sine) ^ ((k & 2) << top));
  c = from_bits(bits(cosine) ^ (((k + 1) & 2) << top));
}

// ---- packs -------------------------------------------------------------------------------------

#if !defined(__CUDACC__)

#if defined(__AVX512F__) && defined(__AVX512DQ__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

// C++ has no operator for square root and fused multiply-add: SUPPLE_REGISTER defines both for each
// register type by its instruction; these templates are the fallback, number by number.
template <class V>
SUPPLE_INLINE V vector_sqrt(V a) {
  V c;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) c[i] = supple::sqrt(a[i]);
  return c;
}
template <class V>
SUPPLE_INLINE V vector_fma(V a, V b, V c) {
  V d;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) d[i] = supple::fma(a[i], b[i], c[i]);
  return d;
}

#define SUPPLE_REGISTER(name, T, bytes, native, root, fused)               \
  typedef T name __attribute__((vector_size(bytes)));                      \
  SUPPLE_INLINE name vector_sqrt(name a) { return (name)root((native)a); } \
  SUPPLE_INLINE name vector_fma(name a, name b, name c) {                  \
    return (name)fused((native)a, (native)b, (native)c);                   \
  }
#if defined(__FMA__)
SUPPLE_REGISTER(Double2, double, 16, __m128d, _mm_sqrt_pd, _mm_fmadd_pd)
SUPPLE_REGISTER(Float4, float, 16, __m128, _mm_sqrt_ps, _mm_fmadd_ps)
SUPPLE_REGISTER(Double4, double, 32, __m256d, _mm256_sqrt_pd, _mm256_fmadd_pd)
SUPPLE_REGISTER(Float8, float, 32, __m256, _mm256_sqrt_ps, _mm256_fmadd_ps)
#elif defined(__SSE2__)
#define SUPPLE_UNFUSED(a, b, c) ((a) * (b) + (c))
SUPPLE_REGISTER(Double2, double, 16, __m128d, _mm_sqrt_pd, SUPPLE_UNFUSED)
SUPPLE_REGISTER(Float4, float, 16, __m128, _mm_sqrt_ps, SUPPLE_UNFUSED)
#undef SUPPLE_UNFUSED
#elif defined(__ARM_NEON)
#define SUPPLE_FUSED_F64(a, b, c) vfmaq_f64(c, a, b)
#define SUPPLE_FUSED_F32(a, b, c) vfmaq_f32(c, a, b)
SUPPLE_REGISTER(Double2, double, 16, float64x2_t, vsqrtq_f64, SUPPLE_FUSED_F64)
SUPPLE_REGISTER(Float4, float, 16, float32x4_t, vsqrtq_f32, SUPPLE_FUSED_F32)
#undef SUPPLE_FUSED_F64
#undef SUPPLE_FUSED_F32
#endif
#if defined(__AVX512F__)
// The unmasked 512-bit square roots trigger -Wuninitialized inside the headers of GCC 12.
#define SUPPLE_SQRT_F64(a) _mm512_maskz_sqrt_pd(0xff, a)
#define SUPPLE_SQRT_F32(a) _mm512_maskz_sqrt_ps(0xffff, a)
SUPPLE_REGISTER(Double8, double, 64, __m512d, SUPPLE_SQRT_F64, _mm512_fmadd_pd)
SUPPLE_REGISTER(Float16, float, 64, __m512, SUPPLE_SQRT_F32, _mm512_fmadd_ps)
#undef SUPPLE_SQRT_F64
#undef SUPPLE_SQRT_F32
#endif
#undef SUPPLE_REGISTER

// W numbers in one vector register.
template <class T, int W>
struct Register {
  using Bits = typename Number<T>::Bits;
  typedef T Vector __attribute__((vector_size(W * sizeof(T))));
  typedef Bits BitVector __attribute__((vector_size(W * sizeof(T))));
  // W numbers in memory, with the alignment of a single number.
  typedef T Numbers __attribute__((vector_size(W * sizeof(T)), aligned(sizeof(T)), may_alias));

  // Masks are signed, as the results of comparisons are: for unsigned masks, GCC adds a comparison
  // to each selection. With SSE2 alone they are unsigned, because GCC 12 stops with an internal
  // error for signed masks there.
#if defined(__SSE2__) && !defined(__SSE4_1__)
  using MaskVector = BitVector;
#else
  using MaskVector = decltype(Vector{} < Vector{});
#endif

  struct Mask {
    MaskVector v;

    friend SUPPLE_INLINE Mask operator&(Mask a, Mask b) { return {a.v & b.v}; }
    friend SUPPLE_INLINE Mask operator|(Mask a, Mask b) { return {a.v | b.v}; }
    friend SUPPLE_INLINE Mask operator!(Mask a) { return {~a.v}; }
    friend SUPPLE_INLINE bool any(Mask a) {
      auto sum = a.v[0];
      for (int i = 1; i < W; ++i) sum |= a.v[i];
      return sum != 0;
    }
    friend SUPPLE_INLINE bool all(Mask a) { return !any(!a); }
    friend SUPPLE_INLINE bool get(Mask a, int i) { return a.v[i] != 0; }
  };

  Vector v;

  Register() = default;
  // Broadcasts x; x - 0 equals x even for -0 and infinities.
  SUPPLE_INLINE Register(T x) : v(x - Vector{}) {}
  // A function, not a constructor: in templates, GCC confuses Register(Vector) with Register(T).
  static SUPPLE_INLINE Register of(Vector x) {
    Register made;
    made.v = x;
    return made;
  }
  // Reads and writes W numbers with one instruction. `memcpy` does not ensure this: with AVX2, GCC
  // moves 16 bytes at a time, and the processor has to wait when it then reads them as one
  // register.
  static SUPPLE_INLINE Register load(const T* from) {
    return of(*reinterpret_cast<const Numbers*>(from));
  }
  SUPPLE_INLINE void store(T* to) const { *reinterpret_cast<Numbers*>(to) = v; }

  friend SUPPLE_INLINE Register operator+(Register a, Register b) { return of(a.v + b.v); }
  friend SUPPLE_INLINE Register operator-(Register a, Register b) { return of(a.v - b.v); }
  friend SUPPLE_INLINE Register operator*(Register a, Register b) { return of(a.v * b.v); }
  friend SUPPLE_INLINE Register operator/(Register a, Register b) { return of(a.v / b.v); }
  friend SUPPLE_INLINE Register operator-(Register a) { return of(-a.v); }
  friend SUPPLE_INLINE Mask operator<(Register a, Register b) { return {MaskVector(a.v < b.v)}; }
  friend SUPPLE_INLINE Mask operator<=(Register a, Register b) { return {MaskVector(a.v <= b.v)}; }
  friend SUPPLE_INLINE Mask operator>(Register a, Register b) { return {MaskVector(a.v > b.v)}; }
  friend SUPPLE_INLINE Mask operator>=(Register a, Register b) { return {MaskVector(a.v >= b.v)}; }
  friend SUPPLE_INLINE Mask operator==(Register a, Register b) { return {MaskVector(a.v == b.v)}; }
  friend SUPPLE_INLINE Mask operator!=(Register a, Register b) { return {MaskVector(a.v != b.v)}; }

  friend SUPPLE_INLINE Register sqrt(Register a) { return of(vector_sqrt(a.v)); }
  friend SUPPLE_INLINE Register fma(Register a, Register b, Register c) {
    return of(vector_fma(a.v, b.v, c.v));
  }
  friend SUPPLE_INLINE Register select(Mask m, Register a, Register b) {
    return of(m.v ? a.v : b.v);
  }
  friend SUPPLE_INLINE Register abs(Register a) {
    return of(Vector(BitVector(a.v) & ~Number<T>::sign));
  }
  friend SUPPLE_INLINE Register copysign(Register a, Register s) {
    return of(Vector((BitVector(a.v) & ~Number<T>::sign) | (BitVector(s.v) & Number<T>::sign)));
  }
  friend SUPPLE_INLINE Register power_of_two(Register a) {
    return of(Vector(BitVector(a.v) & Number<T>::exponent));
  }
  friend SUPPLE_INLINE void rotate_by_quadrants(Register magic_k, Register& s, Register& c) {
    constexpr int top = 8 * sizeof(T) - 2;
    const BitVector k = BitVector(magic_k.v);
    const BitVector odd = -(k & 1);
    const BitVector swap = (BitVector(s.v) ^ BitVector(c.v)) & odd;
    s.v = Vector(BitVector(s.v) ^ swap ^ ((k & 2) << top));
    c.v = Vector(BitVector(c.v) ^ swap ^ (((k + 1) & 2) << top));
  }
  friend SUPPLE_INLINE T get(Register a, int i) { return a.v[i]; }
  friend SUPPLE_INLINE void set(Register& a, int i, T x) { a.v[i] = x; }
};

template <class T, int W>
struct Lane<Register<T, W>> {
  using Scalar = T;
  using Mask = typename Register<T, W>::Mask;
  static constexpr int width = W;
};

// Two lanes side by side: a pack wider than a register. The processor overlaps the operations on
// the two halves, which are independent.
template <class H>
struct Pair {
  using T = typename Lane<H>::Scalar;
  static constexpr int half = Lane<H>::width;
  using HalfMask = typename Lane<H>::Mask;

  struct Mask {
    HalfMask lo, hi;

    friend SUPPLE_INLINE Mask operator&(Mask a, Mask b) { return {a.lo & b.lo, a.hi & b.hi}; }
    friend SUPPLE_INLINE Mask operator|(Mask a, Mask b) { return {a.lo | b.lo, a.hi | b.hi}; }
    friend SUPPLE_INLINE Mask operator!(Mask a) { return {!a.lo, !a.hi}; }
    friend SUPPLE_INLINE bool any(Mask a) { return any(a.lo | a.hi); }
    friend SUPPLE_INLINE bool all(Mask a) { return all(a.lo & a.hi); }
    friend SUPPLE_INLINE bool get(Mask a, int i) {
      return i < half ? get(a.lo, i) : get(a.hi, i - half);
    }
  };

  H lo, hi;

  Pair() = default;
  SUPPLE_INLINE Pair(const H& low, const H& high) : lo(low), hi(high) {}
  SUPPLE_INLINE Pair(T x) : lo(x), hi(x) {}
  static SUPPLE_INLINE Pair load(const T* from) { return {H::load(from), H::load(from + half)}; }
  SUPPLE_INLINE void store(T* to) const {
    lo.store(to);
    hi.store(to + half);
  }

  using P = const Pair&;
  friend SUPPLE_INLINE Pair operator+(P a, P b) { return {a.lo + b.lo, a.hi + b.hi}; }
  friend SUPPLE_INLINE Pair operator-(P a, P b) { return {a.lo - b.lo, a.hi - b.hi}; }
  friend SUPPLE_INLINE Pair operator*(P a, P b) { return {a.lo * b.lo, a.hi * b.hi}; }
  friend SUPPLE_INLINE Pair operator/(P a, P b) { return {a.lo / b.lo, a.hi / b.hi}; }
  friend SUPPLE_INLINE Pair operator-(P a) { return {-a.lo, -a.hi}; }
  friend SUPPLE_INLINE Mask operator<(P a, P b) { return {a.lo < b.lo, a.hi < b.hi}; }
  friend SUPPLE_INLINE Mask operator<=(P a, P b) { return {a.lo <= b.lo, a.hi <= b.hi}; }
  friend SUPPLE_INLINE Mask operator>(P a, P b) { return {a.lo > b.lo, a.hi > b.hi}; }
  friend SUPPLE_INLINE Mask operator>=(P a, P b) { return {a.lo >= b.lo, a.hi >= b.hi}; }
  friend SUPPLE_INLINE Mask operator==(P a, P b) { return {a.lo == b.lo, a.hi == b.hi}; }
  friend SUPPLE_INLINE Mask operator!=(P a, P b) { return {a.lo != b.lo, a.hi != b.hi}; }

  friend SUPPLE_INLINE Pair sqrt(P a) { return {sqrt(a.lo), sqrt(a.hi)}; }
  friend SUPPLE_INLINE Pair fma(P a, P b, P c) {
    return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)};
  }
  friend SUPPLE_INLINE Pair select(Mask m, P a, P b) {
    return {select(m.lo, a.lo, b.lo), select(m.hi, a.hi, b.hi)};
  }
  friend SUPPLE_INLINE Pair abs(P a) { return {abs(a.lo), abs(a.hi)}; }
  friend SUPPLE_INLINE Pair copysign(P a, P s) {
    return {copysign(a.lo, s.lo), copysign(a.hi, s.hi)};
  }
  friend SUPPLE_INLINE Pair power_of_two(P a) { return {power_of_two(a.lo), power_of_two(a.hi)}; }
  friend SUPPLE_INLINE void rotate_by_quadrants(P magic_k, Pair& s, Pair& c) {
    rotate_by_quadrants(magic_k.lo, s.lo, c.lo);
    rotate_by_quadrants(magic_k.hi, s.hi, c.hi);
  }
  friend SUPPLE_INLINE T get(P a, int i) { return i < half ? get(a.lo, i) : get(a.hi, i - half); }
  friend SUPPLE_INLINE void set(Pair& a, int i, T x) {
    i < half ? set(a.lo, i, x) : set(a.hi, i - half, x);
  }
};

template <class H>
struct Lane<Pair<H>> {
  using Scalar = typename Lane<H>::Scalar;
  using Mask = typename Pair<H>::Mask;
  static constexpr int width = 2 * Lane<H>::width;
};

template <class T, int W, bool fits = W * int(sizeof(T)) <= register_bytes>
struct PackOf {
  static_assert(W >= 2 && W <= 16 && (W & (W - 1)) == 0, "a pack is 2, 4, 8 or 16 wide");
  using Type = Register<T, W>;
};
template <class T, int W>
struct PackOf<T, W, false> {
  using Type = Pair<typename PackOf<T, W / 2>::Type>;
};

// W numbers side by side, in one or several registers.
template <class T, int W>
using Pack = typename PackOf<T, W>::Type;

// A pack that holds one number for each of several joints of a single configuration.
template <class T>
using Unrolled = Pack<T, 8>;

// Transposes a matrix of W rows of W numbers, in log2(W) rounds: in each, every row exchanges
// blocks of `step` numbers with the row `step` below it.
template <int... lane>
struct Lanes {};
template <int W, int... lane>
struct FirstLanes : FirstLanes<W - 1, W - 1, lane...> {};
template <int... lane>
struct FirstLanes<0, lane...> : Lanes<lane...> {};
template <int step, class V, int... lane>
SUPPLE_INLINE void exchange_blocks(V& x, V& y, Lanes<lane...>) {
  constexpr int W = sizeof...(lane);
  const V a = x, b = y;
  x = __builtin_shufflevector(a, b, (lane & step ? W + lane - step : lane)...);
  y = __builtin_shufflevector(a, b, (lane & step ? W + lane : lane + step)...);
}
template <int step = 1, class T, int W>
SUPPLE_INLINE void transpose(Register<T, W>* row) {
  SUPPLE_UNROLL_HOST for (int i = 0; i < W; ++i) {
    if (!(i & step)) exchange_blocks<step>(row[i].v, row[i + step].v, FirstLanes<W>{});
  }
  if constexpr (2 * step < W) transpose<2 * step>(row);
}
template <class H>
SUPPLE_INLINE void transpose(Pair<H>* row) {
  constexpr int half = Lane<H>::width;
  H low[2][half], high[2][half];
  SUPPLE_UNROLL_HOST for (int i = 0; i < half; ++i) {
    low[0][i] = row[i].lo, high[0][i] = row[i].hi;
    low[1][i] = row[half + i].lo, high[1][i] = row[half + i].hi;
  }
  transpose(low[0]), transpose(low[1]), transpose(high[0]), transpose(high[1]);
  SUPPLE_UNROLL_HOST for (int i = 0; i < half; ++i) {
    row[i] = {low[0][i], low[1][i]}, row[half + i] = {high[0][i], high[1][i]};
  }
}

#else

template <class T>
using Unrolled = T;

#endif  // !__CUDACC__

// ---- functions for all lanes -------------------------------------------------------------------

template <class L>
SUPPLE_INLINE L min(const L& a, const L& b) {
  return select(a < b, a, b);
}
template <class L>
SUPPLE_INLINE L max(const L& a, const L& b) {
  return select(a > b, a, b);
}
// True where the number is neither infinite nor NaN.
template <class L>
SUPPLE_INLINE mask_t<L> finite(const L& a) {
  return a - a == L(0);
}

// Reads and writes as many numbers as L has lanes.
template <class L>
SUPPLE_INLINE L load_lanes(const scalar_t<L>* from) {
  if constexpr (width<L> == 1) {
    return *from;
  } else {
    return L::load(from);
  }
}
template <class L>
SUPPLE_INLINE void store_lanes(const L& lanes, scalar_t<L>* to) {
  if constexpr (width<L> == 1) {
    *to = lanes;
  } else {
    lanes.store(to);
  }
}

}  // namespace supple::inline SUPPLE_ISA
