// Rows of the caller's arrays on a GPU: configurations, in which the orientation of a ball joint is
// a quaternion (w, x, y, z), and results.
#pragma once

#include "supple/robot/rows.hpp"

namespace supple {

__device__ __forceinline__ long long own_row() {
  return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Reads `count` numbers of a row, in the type of the computation.
template <int count, class From, class To>
__device__ __forceinline__ void read_row(const From* rows, long long row, To* x) {
  SUPPLE_UNROLL for (int k = 0; k < count; ++k) x[k] = To(rows[row * count + k]);
}
// Writes a row, or zeros if it is not valid: an error would require a synchronization.
template <int count, class From, class To>
__device__ __forceinline__ void write_row(const From* x, bool valid, long long row, To* rows) {
  SUPPLE_UNROLL for (int k = 0; k < count; ++k) rows[row * count + k] = valid ? To(x[k]) : To(0);
}

// Calls coordinate(i, j) for each joint with one coordinate, at place i of a configuration (nq) and
// j of a velocity (nv), and ball(i, j) for each ball joint.
template <class T, class Coordinate, class Ball>
__device__ __forceinline__ void visit_places(const Chain<T>& chain, Coordinate&& coordinate,
                                             Ball&& ball) {
  SUPPLE_UNROLL for (int j = 0, b = 0; j < chain.nv; ++j) {
    if (b < chain.balls && j == chain.ball[b]) {
      ball(j + b, j);
      ++b, j += 2;
    } else {
      coordinate(j + b, j);
    }
  }
}

// The coordinates x (nv) of the kernel for a configuration q (nq). Returns whether the coordinates
// are valid. (As `to_kernel` in src/core/bindings/configurations.hpp.)
template <class L, class T>
__device__ __forceinline__ bool to_kernel(const Chain<T>& chain, const L* q, L* x) {
  bool valid = true;
  visit_places(
      chain, [&](int i, int j) { x[j] = q[i]; },
      [&](int i, int j) {
        const L sign = q[i] < L(0) ? L(-1) : L(1), w = sign * q[i];
        const Vec3<L> v{q[i + 1], q[i + 2], q[i + 3]};
        const L length = sqrt(dot(v, v));
        const bool small = length <= L(1e-9) * w;
        valid = valid && (w != L(0) || length != L(0));
        const L factor = sign * (small ? L(2) / w : L(2) * atan2(length, w) / length);
        x[j] = factor * v.x, x[j + 1] = factor * v.y, x[j + 2] = factor * v.z;
      });
  return valid && within_bounds(chain, x, static_cast<const L*>(nullptr));
}

// The configuration q (nq) of coordinates x (nv) of the kernel; quaternions have w >= 0.
// (As `from_kernel` in src/core/bindings/configurations.hpp.)
template <class L, class T>
__device__ __forceinline__ void from_kernel(const Chain<T>& chain, const L* x, L* q) {
  visit_places(
      chain, [&](int i, int j) { q[i] = x[j]; },
      [&](int i, int j) {
        const Vec3<L> r{x[j], x[j + 1], x[j + 2]};
        const L angle = sqrt(dot(r, r));
        L sine, cosine;
        sincos(angle * L(0.5), sine, cosine);
        const L sign = cosine < L(0) ? L(-1) : L(1);
        const L factor = angle > L(1e-9) ? sign * sine / angle : L(0.5);
        q[i] = sign * cosine;
        q[i + 1] = factor * r.x, q[i + 2] = factor * r.y, q[i + 3] = factor * r.z;
      });
}

// The gradient with respect to a configuration q (nq), from that with respect to velocities (nv). A
// quaternion of any length r is divided by r; the unit quaternion a has the rate ½ a (0, ω), where
// ω is the angular velocity in the axes of the body. (As
// `configuration_gradient` in src/supple/kinematics/configuration.py.)
template <class L, class T>
__device__ __forceinline__ void from_velocities(const Chain<T>& chain, const L* q, const L* v_bar,
                                                L* q_bar) {
  visit_places(
      chain, [&](int i, int j) { q_bar[i] = v_bar[j]; },
      [&](int i, int j) {
        const L w = q[i];
        const Vec3<L> v{q[i + 1], q[i + 2], q[i + 3]}, bar{v_bar[j], v_bar[j + 1], v_bar[j + 2]};
        const L scale = L(2) / (w * w + dot(v, v));
        const Vec3<L> turned = bar * w + cross(v, bar);
        q_bar[i] = -scale * dot(v, bar);
        q_bar[i + 1] = scale * turned.x;
        q_bar[i + 2] = scale * turned.y;
        q_bar[i + 3] = scale * turned.z;
      });
}

// The gradient with respect to velocities (nv), from that with respect to a configuration q (nq)
// with unit quaternions.
template <class L, class T>
__device__ __forceinline__ void to_velocities(const Chain<T>& chain, const L* q, const L* q_bar,
                                              L* v_bar) {
  visit_places(
      chain, [&](int i, int j) { v_bar[j] = q_bar[i]; },
      [&](int i, int j) {
        const L w = q[i], real = q_bar[i];
        const Vec3<L> v{q[i + 1], q[i + 2], q[i + 3]};
        const Vec3<L> bar{q_bar[i + 1], q_bar[i + 2], q_bar[i + 3]};
        const Vec3<L> turned = (bar * w - cross(v, bar) - v * real) * L(0.5);
        v_bar[j] = turned.x, v_bar[j + 1] = turned.y, v_bar[j + 2] = turned.z;
      });
}

}  // namespace supple
