// The condition number of J, for modes that stop before singularities.
#pragma once

#include "supple/math/linalg.hpp"
#include "supple/servo/step_rows.hpp"

namespace supple::inline SUPPLE_ISA {

// Returns the condition number of J (m x n; overwritten). `scratch` has m + n + m n entries.
template <class T>
SUPPLE_FN T condition_number(int m, int n, T* J, T* scratch) {
  T *sigma = scratch, *work = sigma + m + n;
  singular_values(m, n, J, sigma, work);
  const T least = max(sigma[(m < n ? m : n) - 1], T(Number<T>::tiny));
  return sigma[0] / least;
}

// Returns the condition number of the rows that take part at q (n). `scratch` has 12 numbers for
// each joint of the chain, (all, n) for J and what `condition_number` needs.
template <class T>
SUPPLE_FN T condition_at(const StepRows<T>& rows, const T* q, T* scratch) {
  const int n = rows.chain.nv;
  Pose<T>* const joint_poses = reinterpret_cast<Pose<T>*>(scratch);
  T* const J = scratch + 12 * rows.chain.joints;
  forward(rows.chain, q, joint_poses);
  rows_jacobian(rows, joint_poses, J);
  return condition_number(rows.count, n, J, J + rows.all * n);
}

}  // namespace supple::inline SUPPLE_ISA
