// The description of a step: its method, damping, clamps and weights.
#pragma once

#include "supple/damping.hpp"
#include "supple/lane.hpp"

namespace supple {

// The method of a step. The comments name its parameter `p`; - means that it has none.
enum class Method : int {
  transpose,        // -
  pseudoinverse,    // -
  truncated,        // threshold relative to the largest singular value
  truncated_below,  // threshold of the singular values
  truncated_rank,   // number of singular values
  damped_svd,       // -
  damped_cholesky,  // -
  damped_qr,        // -
  selective,        // largest angle
  selective_soft,   // largest angle
  damped_quick,     // -
};

// A bound on the error of each end effector. `effector` (m) numbers the end effectors from 0: rows
// with the same number belong to the same one.
template <class T>
struct ErrorClamp {
  T max_error;
  const int* effector;
};

template <class T>
struct Step {
  Method method;
  T p;                 // parameter of the method
  T max_angle;         // bound on the entries of q̇, kept by one factor for all; infinite for none
  Damping<T> damping;  // rule of the damped methods
  const int* effector = nullptr;  // (m), as above, for the selective methods
  // (error_clamps,): applied in this order, the outermost first.
  const ErrorClamp<T>* error_clamp = nullptr;
  int error_clamps = 0;
  // Weights, null for none.
  const T* task_scale = nullptr;   // (m): factors of the rows of J and of e
  const T* joint_scale = nullptr;  // (n): factors of the columns of J, and of the resulting q̇
  const T* direction = nullptr;    // (m), unit: the task direction that a region weights less
  T min_weight = 1;                // weight of that direction at the singularity
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

template <class T>
SUPPLE_FN constexpr bool is_truncated(const Step<T>& how) {
  return how.method == Method::truncated || how.method == Method::truncated_below ||
         how.method == Method::truncated_rank;
}

template <class T>
SUPPLE_FN constexpr bool is_damped(const Step<T>& how) {
  return how.method == Method::damped_svd || how.method == Method::damped_cholesky ||
         how.method == Method::damped_qr || how.method == Method::damped_quick;
}

}  // namespace supple::inline SUPPLE_ISA
