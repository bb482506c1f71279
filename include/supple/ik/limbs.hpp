// Steps of robots on a moving base, whose limbs have no common joints except those of the base.
//
// With the columns L_k of limb k and B_k of the base in its rows, J Jᵀ = diag(L_k L_kᵀ) + B Bᵀ. The
// limbs are eliminated one by one, and a system with the size of the base remains: the cost grows
// linearly with the number of limbs.
#pragma once

#include "supple/math/linalg.hpp"

namespace supple {

// The limbs of a robot on a moving base. The rows of each limb are consecutive, and so are the
// joints that move only this limb in `joint`.
struct Limbs {
  int count;               // number of limbs
  const int* first_row;    // (count + 1,): limb k has the rows first_row[k] to first_row[k + 1] - 1
  const int* first_joint;  // (count + 2,): the same for `joint`; the base follows the last limb
  const int* joint;        // columns of J
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Number of joints of the base.
SUPPLE_FN constexpr int base_size(const Limbs& limbs) {
  return limbs.first_joint[limbs.count + 1] - limbs.first_joint[limbs.count];
}

// Number of lanes of scratch memory that `limb_step` needs for m rows.
SUPPLE_FN constexpr int limb_scratch(const Limbs& limbs, int m) {
  const int b = base_size(limbs);
  return m * m + m * (b + 1) + b * (b + 2);
}

// Replaces e (m,) by z = (J W Jᵀ + λ²)⁻¹ e for W = diag(unit²), and writes the damped step W Jᵀ z
// of all joints of limbs and base to dq (n,); unit(j) returns the unit of joint j. J is (m, n);
// entries of other limbs, which are zero, are not read.
template <class L, class Unit>
SUPPLE_FN void limb_step(const Limbs& limbs, int m, int n, const L* SUPPLE_RESTRICT J,
                         L* SUPPLE_RESTRICT e, const L& lambda2, Unit&& unit, L* SUPPLE_RESTRICT dq,
                         L* SUPPLE_RESTRICT work) {
  using T = scalar_t<L>;
  const int* const base = limbs.joint + limbs.first_joint[limbs.count];
  const int b = base_size(limbs);
  L *A = work, *V = A + m * m, *S = V + m * (b + 1), *h = S + b * b;
  for (int i = 0; i < b; ++i) {
    h[i] = L(0);
    for (int j = 0; j <= i; ++j) S[i * b + j] = L(i == j ? 1 : 0);
  }
  // Of each limb: A = L_k L_kᵀ + λ² = C D Cᵀ, with D⁻¹ on the diagonal, and V = C⁻¹ [B_k, e_k].
  for (int k = 0; k < limbs.count; ++k) {
    const int first = limbs.first_row[k], rows = limbs.first_row[k + 1] - first;
    const int *joint = limbs.joint + limbs.first_joint[k], *const end = limbs.joint +
                                                                        limbs.first_joint[k + 1];
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j <= i; ++j) A[i * rows + j] = L(0);
      A[i * rows + i] = lambda2;
    }
    for (; joint != end; ++joint) {
      const L* const column = J + first * n + *joint;
      const auto scale = unit(*joint);
      for (int i = 0; i < rows; ++i) {
        const L scaled = column[i * n] * L(scale * scale);
        for (int j = 0; j <= i; ++j) A[i * rows + j] = fma(scaled, column[j * n], A[i * rows + j]);
      }
    }
    for (int i = 0; i < rows; ++i) {
      for (int c = 0; c < b; ++c)
        V[i * (b + 1) + c] = J[(first + i) * n + base[c]] * L(unit(base[c]));
      V[i * (b + 1) + b] = e[first + i];
    }
    for (int i = 0; i < rows; ++i) {
      L* const v = V + i * (b + 1);
      const L floor = A[i * rows + i] * L(T(rows) * Number<T>::epsilon);
      for (int j = 0; j < i; ++j) {
        L entry = A[i * rows + j];
        for (int c = 0; c < j; ++c) entry = fma(-A[i * rows + c], A[j * rows + c], entry);
        A[i * rows + j] = entry;
      }
      L pivot = A[i * rows + i];
      for (int j = 0; j < i; ++j) {
        const L entry = A[i * rows + j] * A[j * rows + j];
        pivot = fma(-A[i * rows + j], entry, pivot);
        A[i * rows + j] = entry;
        for (int c = 0; c <= b; ++c) v[c] = fma(-entry, V[j * (b + 1) + c], v[c]);
      }
      const mask_t<L> positive = (pivot > floor) & (pivot > L(0));
      A[i * rows + i] = select(positive, L(1) / select(positive, pivot, L(1)), L(0));
      for (int r = 0; r < b; ++r) {
        const L scaled = v[r] * A[i * rows + i];
        for (int c = 0; c <= r; ++c) S[r * b + c] = fma(scaled, v[c], S[r * b + c]);
        h[r] = fma(scaled, v[b], h[r]);
      }
    }
    A += rows * rows;
    V += rows * (b + 1);
  }
  ldl_solve(b, S, h, h + b);
  for (int c = 0; c < b; ++c) dq[base[c]] = h[c] * L(unit(base[c]));
  // Substitute back into the limbs, in reverse order.
  for (int k = limbs.count - 1; k >= 0; --k) {
    const int first = limbs.first_row[k], rows = limbs.first_row[k + 1] - first;
    const int *joint = limbs.joint + limbs.first_joint[k], *const end = limbs.joint +
                                                                        limbs.first_joint[k + 1];
    A -= rows * rows;
    V -= rows * (b + 1);
    L* const z = e + first;
    for (int i = 0; i < rows; ++i) {
      L rest = V[i * (b + 1) + b];
      for (int c = 0; c < b; ++c) rest = fma(-V[i * (b + 1) + c], h[c], rest);
      z[i] = rest * A[i * rows + i];
    }
    for (int j = rows - 1; j > 0; --j) {
      for (int i = 0; i < j; ++i) z[i] = fma(-A[j * rows + i], z[j], z[i]);
    }
    for (; joint != end; ++joint) {
      const L* const column = J + first * n + *joint;
      L sum(0);
      for (int i = 0; i < rows; ++i) sum = fma(column[i * n], z[i], sum);
      const auto scale = unit(*joint);
      dq[*joint] = sum * L(scale * scale);
    }
  }
}

}  // namespace supple::inline SUPPLE_ISA
