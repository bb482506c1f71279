// Configurations outside the kernel, where the orientation of a ball joint is a unit quaternion (w,
// x, y, z) instead of a rotation vector. Configurations are converted where arrays enter and leave.
#pragma once

#include <cmath>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/specs.hpp"

namespace supple {

// The places of the quaternions in a configuration (nq) and of the rotation vectors in the kernel's
// coordinates (nv).
class Layout {
 public:
  // `balls` are the indices of the first velocity of each ball joint, in ascending order.
  Layout(int nv, Ints balls) : nv_(nv), balls_(std::move(balls)) {
    int next = 0;
    for (int ball : balls_) {
      check_index("balls", next, nv - 2, ball);
      next = ball + 3;
    }
  }

  int nq() const { return nv_ + int(balls_.size()); }
  int nv() const { return nv_; }
  const Ints& balls() const { return balls_; }
  bool has_balls() const { return !balls_.empty(); }

  // Converts a configuration q (nq) to coordinates x (nv) of the kernel. Quaternions may have any
  // length; returns false if one is zero.
  template <class T>
  bool to_kernel(const T* q, T* x) const {
    int i = 0, j = 0;
    bool valid = true;
    for (int ball : balls_) {
      while (j < ball) x[j++] = q[i++];
      const double sign = q[i] < 0 ? -1 : 1, w = sign * q[i];
      const double length = std::hypot(double(q[i + 1]), double(q[i + 2]), double(q[i + 3]));
      const bool small = length <= 1e-9 * w;
      valid = valid && (w != 0 || length != 0);
      const double factor = sign * (small ? 2 / w : 2 * std::atan2(length, w) / length);
      for (int k = 1; k < 4; ++k) x[j++] = T(factor * q[i + k]);
      i += 4;
    }
    while (j < nv_) x[j++] = q[i++];
    return valid;
  }

  // Converts coordinates x (nv) of the kernel to a configuration q (nq). Of the two quaternions of
  // an orientation it takes the one nearer to that of `near` (nq) or, if `near` is null, the one
  // with w >= 0.
  template <class T>
  void from_kernel(const T* x, T* q, const T* near = nullptr) const {
    int i = 0, j = 0;
    for (int ball : balls_) {
      while (j < ball) q[i++] = x[j++];
      const double angle = std::hypot(double(x[j]), double(x[j + 1]), double(x[j + 2]));
      const double factor = angle > 1e-9 ? std::sin(angle / 2) / angle : 0.5;
      double made[4] = {std::cos(angle / 2), factor * x[j], factor * x[j + 1], factor * x[j + 2]};
      double along = made[0];
      if (near) {
        along = 0;
        for (int k = 0; k < 4; ++k) along += made[k] * near[i + k];
      }
      for (int k = 0; k < 4; ++k) q[i++] = T(along < 0 ? -made[k] : made[k]);
      j += 3;
    }
    while (j < nv_) q[i++] = x[j++];
  }

  // Converts a gradient with respect to velocities (nv) to one with respect to q (nq), which is
  // tangent to the quaternions, of any length. See supple/kinematics/configuration.py.
  void configuration_gradient(const double* q, const double* v_bar, double* q_bar) const {
    int i = 0, j = 0;
    for (int ball : balls_) {
      while (j < ball) q_bar[i++] = v_bar[j++];
      const double *const a = q + i, *const v = v_bar + j;
      const double factor = 2 / (a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3]);
      q_bar[i] = -factor * (a[1] * v[0] + a[2] * v[1] + a[3] * v[2]);
      q_bar[i + 1] = factor * (a[0] * v[0] + a[2] * v[2] - a[3] * v[1]);
      q_bar[i + 2] = factor * (a[0] * v[1] + a[3] * v[0] - a[1] * v[2]);
      q_bar[i + 3] = factor * (a[0] * v[2] + a[1] * v[1] - a[2] * v[0]);
      i += 4;
      j += 3;
    }
    while (j < nv_) q_bar[i++] = v_bar[j++];
  }

  // Converts a gradient with respect to q (nq), with quaternions of unit length, to one with
  // respect to velocities (nv).
  void velocity_gradient(const double* q, const double* q_bar, double* v_bar) const {
    int i = 0, j = 0;
    for (int ball : balls_) {
      while (j < ball) v_bar[j++] = q_bar[i++];
      const double *const a = q + i, *const b = q_bar + i;
      v_bar[j] = (a[0] * b[1] - a[1] * b[0] - a[2] * b[3] + a[3] * b[2]) / 2;
      v_bar[j + 1] = (a[0] * b[2] - a[2] * b[0] - a[3] * b[1] + a[1] * b[3]) / 2;
      v_bar[j + 2] = (a[0] * b[3] - a[3] * b[0] - a[1] * b[2] + a[2] * b[1]) / 2;
      i += 4;
      j += 3;
    }
    while (j < nv_) v_bar[j++] = q_bar[i++];
  }

 private:
  int nv_;
  Ints balls_;
};

// Configurations (..., nq) in the kernel's coordinates (..., nv).
class Configurations : public Batch {
 public:
  Configurations(nb::handle given, const Layout& layout, const char* name)
      : Batch(given, layout.nq(), name) {
    if (!layout.has_balls()) return;
    const nb::object converted = result({}, {layout.nv()});
    const auto convert = [&]<class T>(T) {
      for (std::ptrdiff_t i = 0; i < count(); ++i) {
        const T* const q = data<T>() + i * layout.nq();
        if (!layout.to_kernel(q, data_of<T>(converted) + i * layout.nv())) {
          raise_input_error("raise_zero_quaternion", object(), i, name);
        }
      }
    };
    is_double() ? convert(double()) : convert(float());
    replace(converted);
  }
};

}  // namespace supple
