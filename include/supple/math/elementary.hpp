// Sine, cosine and angles of vectors on lanes: polynomials without tables or branches.
//
// Accuracy in units in the last place, measured against quadruple precision by tests/kernel:
//
//     sincos   1.6 ulp in double, 2.5 in float for |x| up to Elementary::reach (1.5 and 1.6 within
//              one turn); for larger |x|, the C library computes each number. sin(-0) is +0
//     atan2    2.1 ulp; signs of zeros and infinities as in C
//     unit_angle  2.1 ulp of the largest angle, π, if the vector has length 1 up to rounding
//
// On CUDA, sincos and atan2 are the functions of the toolkit (up to 3 ulp according to its manual);
// `sincos_by_polynomials` and `unit_angle` are the same as on a CPU. The coefficients are generated
// by tools/minimax.py.
#pragma once

#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {

template <class T>
struct Elementary;

template <>
struct Elementary<double> {
  // |k| < 2^17 in x = k pi/2 + r, so that k times each part of pi/2 is exact.
  static constexpr double reach = 200000.0;
  static constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
  static constexpr double half_pi[3] = {0x1.921fb54440000p+0, 0x1.68c234c4c0000p-39,
                                        0x1.98a2e03707345p-77};
  // sin r = r + r^3 S(r^2),  cos r = 1 - r^2/2 + r^4 C(r^2),  |r| <= pi/4
  static constexpr double sine[6] = {-0x1.5555555555548p-3,  0x1.111111110f730p-7,
                                     -0x1.a01a019be921cp-13, 0x1.71de35552be65p-19,
                                     -0x1.ae5e4b8496710p-26, 0x1.5d8b55da0869ep-33};
  static constexpr double cosine[6] = {0x1.555555555554ap-5,  -0x1.6c16c16c14e00p-10,
                                       0x1.a01a019c5c394p-16, -0x1.27e4f7cd31c51p-22,
                                       0x1.1ee9c335b8673p-29, -0x1.8f99cbaf4f1e0p-37};
  // atan t = t + t^3 A(t^2),  |t| <= tan(pi/8)
  static constexpr double arc[11] = {
      -0x1.555555555553cp-2, 0x1.9999999995603p-3, -0x1.249249229d7ccp-3, 0x1.c71c70df9a06fp-4,
      -0x1.745cf81c614d3p-4, 0x1.3b110b6185da8p-4, -0x1.10eb184d5a3f7p-4, 0x1.df05ffcab7e42p-5,
      -0x1.9ca8081e47d87p-5, 0x1.37673445829bbp-5, -0x1.2474886b16ed3p-6};
  // asin t = t + t^3 B(t^2),  |t| <= sin(pi/8)
  static constexpr double arcsine[10] = {
      0x1.555555555547fp-3, 0x1.3333333355707p-4, 0x1.6db6db4f73310p-5, 0x1.f1c729a9bb566p-6,
      0x1.6e89fb9db8071p-6, 0x1.1c6f5d7a4adfdp-6, 0x1.c66a2d29594d1p-7, 0x1.93b7ff801da8cp-7,
      0x1.8f2d8359b4794p-8, 0x1.2110d90326623p-6};
  static constexpr double quarter_pi = 0x1.921fb54442d18p-1;  // its multiples by 0 to 4 are exact
  static constexpr double quarter_pi_rest = 0x1.1a62633145c07p-55;
  static constexpr double tan_eighth_pi = 0x1.a827999fcef32p-2;
};

template <>
struct Elementary<float> {
  static constexpr float reach = 3200.0f;  // |k| < 2^11 in x = k pi/2 + r
  static constexpr float two_over_pi = 0x1.45f306p-1f;
  static constexpr float half_pi[4] = {0x1.922000p+0f, -0x1.2af000p-18f, 0x1.0b4000p-34f,
                                       0x1.84698ap-48f};
  static constexpr float sine[3] = {-0x1.555544p-3f, 0x1.1106c6p-7f, -0x1.991c28p-13f};
  static constexpr float cosine[3] = {0x1.55554ap-5f, -0x1.6c0c26p-10f, 0x1.99e714p-16f};
  static constexpr float arc[5] = {-0x1.555548p-2f, 0x1.9990fep-3f, -0x1.23a944p-3f, 0x1.b1345cp-4f,
                                   -0x1.ee24d6p-5f};
  static constexpr float arcsine[4] = {0x1.5554cep-3f, 0x1.33777cp-4f, 0x1.6320c0p-5f,
                                       0x1.4928acp-5f};
  static constexpr float quarter_pi = 0x1.921fb8p-1f;
  static constexpr float quarter_pi_rest = -0x1.5dde98p-24f;
  static constexpr float tan_eighth_pi = 0x1.a8279ap-2f;
};

// Returns c[i] + c[i + 1] z + c[i + 2] z^2 + ... The coefficients are a template argument, because
// device code may use elements of constant arrays only if they are known at compile time.
template <const auto& c, int i = 0, class L>
SUPPLE_INLINE L polynomial(const L& z) {
  constexpr auto first = c[i];
  if constexpr (i + 1 == sizeof(c) / sizeof(first)) {
    return L(first);
  } else {
    return fma(polynomial<c, i + 1>(z), z, L(first));
  }
}

// s = sin x, c = cos x for |x| <= Elementary::reach, by polynomials on every machine.
template <class L>
SUPPLE_INLINE void sincos_by_polynomials(const L& x, L& s, L& c) {
  using T = scalar_t<L>;
  using E = Elementary<T>;
  // x = k pi/2 + r. Adding the magic number leaves k in the low bits of the sum.
  const L magic_k = fma(x, L(E::two_over_pi), L(Number<T>::round_magic));
  const L k = magic_k - L(Number<T>::round_magic);
  L r = x;
  for (const T part : E::half_pi) r = fma(k, L(-part), r);
  const L z = r * r;
  L sine = fma(r * z, polynomial<E::sine>(z), r);
  // The smaller terms include a compensation for the rounding error of 1 - z/2.
  const L half = z * L(T(0.5));
  const L one = L(1) - half;
  const L lost = (L(1) - one) - half;
  L cosine = one + fma(z * z, polynomial<E::cosine>(z), lost);
  rotate_by_quadrants(magic_k, sine, cosine);
  s = sine;
  c = cosine;
}

// s = sin x, c = cos x for |x| <= Elementary::reach: by polynomials on a CPU, by the toolkit's own
// functions on CUDA.
template <class L>
SUPPLE_INLINE void sincos_in_range(const L& x, L& s, L& c) {
  if constexpr (native_elementary) {
    native_sincos(x, s, c);
  } else {
    sincos_by_polynomials(x, s, c);
  }
}

template <class L>
SUPPLE_INLINE mask_t<L> in_range(const L& x) {
  return abs(x) <= L(Elementary<scalar_t<L>>::reach);
}

// s = sin x, c = cos x; NaN if x is infinite or NaN.
template <class L>
SUPPLE_INLINE void sincos(const L& x, L& s, L& c) {
  using T = scalar_t<L>;
  if constexpr (native_elementary) {
    native_sincos(x, s, c);
  } else {
    sincos_in_range(x, s, c);
    if (all(in_range(x))) return;
    for (int i = 0; i < width<L>; ++i) {
      T xi = get(x, i), si, ci;
      if (in_range(xi)) continue;
      native_sincos(xi, si, ci);
      set(s, i, si);
      set(c, i, ci);
    }
  }
}

// The angle of the vector (x, y), in [-pi, pi]. atan2(0, x > 0) and atan2(0, 0) are 0. Signs of
// zeros are treated as in C.
template <class L>
SUPPLE_INLINE L atan2(const L& y, const L& x) {
  using T = scalar_t<L>;
  using E = Elementary<T>;
  if constexpr (native_elementary) {
    return native_atan2(y, x);
  } else {
    const L ax = abs(x), ay = abs(y);
    const mask_t<L> steep = ay > ax;
    L far = select(steep, ay, ax), near = select(steep, ax, ay);
    // Infinite vectors point along an axis or a diagonal; the zero vector along +x or -x.
    const mask_t<L> infinite = !finite(far);
    near = select(infinite, select(near == far, L(1), L(0)), near);
    far = select(infinite | (far == L(0)), L(1), far);
    // Shrink numbers whose sum would overflow.
    const L shrink = select(far > L(Number<T>::huge / 4), L(T(0.25)), L(1));
    far = far * shrink;
    near = near * shrink;

    // Rotate vectors at angles above pi/8 back by pi/4, so that |t| <= tan(pi/8).
    const mask_t<L> wide = near > far * L(E::tan_eighth_pi);
    const L t = select(wide, near - far, near) / select(wide, far + near, far);
    L quarters = select(wide, L(1), L(0)), sign(1);
    quarters = select(steep, L(2) - quarters, quarters);
    sign = select(steep, -sign, sign);
    const mask_t<L> behind = copysign(L(1), x) < L(0);
    quarters = select(behind, L(4) - quarters, quarters);
    sign = select(behind, -sign, sign);

    const L z = t * t;
    const L bend = fma(quarters, L(E::quarter_pi_rest), sign * (t * z) * polynomial<E::arc>(z));
    const L angle = fma(quarters, L(E::quarter_pi), fma(sign, t, bend));
    return copysign(select((x == x) & (y == y), angle, x + y), y);
  }
}

// The angle of a unit vector (c, s), in [-pi, pi]. Needs no division, unlike `atan2`, and computes
// the angle from a sine of at most sin(pi/8), where the error of the vector's length has little
// influence.
template <class L>
SUPPLE_INLINE L unit_angle(const L& c, const L& s) {
  using T = scalar_t<L>;
  using E = Elementary<T>;
  const L ac = abs(c), as = abs(s);
  const mask_t<L> steep = as > ac;
  const L far = select(steep, as, ac), near = select(steep, ac, as);
  // Rotate vectors at angles above pi/8 back by pi/4.
  const mask_t<L> wide = near > far * L(E::tan_eighth_pi);
  const L t = select(wide, (near - far) * L(T(0.70710678118654752440)), near);
  const L quarter = select(wide, L(1), L(0));
  const mask_t<L> behind = c < L(0);
  const L below = select(steep, L(2) - quarter, quarter);
  const L quarters = select(behind, L(4) - below, below);
  const L turned = select(steep, -t, t), up = select(behind, -turned, turned);
  const L z = t * t;
  const L bend = fma(quarters, L(E::quarter_pi_rest), up * z * polynomial<E::arcsine>(z));
  return copysign(fma(quarters, L(E::quarter_pi), up + bend), s);
}

}  // namespace supple::inline SUPPLE_ISA
