// The description of a step: its method, damping, clamps and weights.
#pragma once

#include "supple/step/damping.hpp"
#include "supple/math/lane.hpp"

namespace supple {

// Methods of a step. The comments describe the parameter `Step::p`; - means that the method has
// none.
enum class Method : int {
  transpose,        // -
  pseudoinverse,    // -
  truncated,        // threshold relative to the largest singular value
  truncated_below,  // threshold of the singular values
  truncated_rank,   // number of singular values that are kept
  damped_svd,       // -
  damped_cholesky,  // -
  damped_qr,        // -
  selective,        // largest angle, γ_max of Buss & Kim 2005
  selective_soft,   // largest angle, reached smoothly
  damped_quick,     // -, the fast path of fast_step.hpp where it is valid, else SVD
};

// A bound on the norm of the error of each end effector. `effector` (m) is the number of the end
// effector, from 0, to which each row belongs.
template <class T>
struct ErrorClamp {
  T max_error;
  const int* effector;
};

template <class T>
struct Step {
  Method method;
  T p;                 // parameter of the method
  T max_angle;         // bound on |q̇ᵢ|, kept by scaling q̇ as a whole; infinite if there is none
  Damping<T> damping;  // rule of the damped methods
  const int* effector = nullptr;  // (m), as in ErrorClamp, for the selective methods
  // (error_clamps,): bounds on the error, applied in this order.
  const ErrorClamp<T>* error_clamp = nullptr;
  int error_clamps = 0;
  // Weights; null if there are none.
  const T* task_scale = nullptr;   // (m): factors of the rows of J and of e
  const T* joint_scale = nullptr;  // (n): factors of the columns of J, and of the resulting q̇
  const T* direction = nullptr;    // (m): unit vector; the direction that Rule::region weights less
  T min_weight = 1;                // weight of `direction` at the singularity
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
