// The interface of the kernel of motions that follow the poses of many frames.
#pragma once

#include "kernels/kernels.hpp"
#include "supple/servo/following.hpp"

namespace supple {

// Motions of a robot with a floating base in double precision (servo/following.hpp). Memory has
// scratch(of) numbers, initialized by `prepare`.
struct FollowingKernel {
  int (*scratch)(const Following<double>&);
  void (*prepare)(const Following<double>&, double* memory);
  // Runs `count` steps: target (count + 1, follows, 12), hold (count, feet); writes the
  // configurations q (count, nv).
  void (*run)(const Following<double>&, FollowState<double>&, int count, const double* target,
              const double* hold, double* q, double* memory);
  // Writes the rows of close pairs at q (nv,), each with its bound: (most_contact_rows, nv + 1).
  // Returns their number.
  int (*rows)(const Following<double>&, const double* q, double* rows, double* memory);
};

#define SUPPLE_FOLLOWING_KERNEL(isa) SUPPLE_JOIN(following_kernel_, isa)

}  // namespace supple
