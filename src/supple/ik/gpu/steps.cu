// A step for many linearizations, one thread for each: the first step of a loop, which has no
// previous step.
// Rows that are not finite, or whose step is not finite, give zeros.
//
// Compiled at run time for a step and the sizes of J: given.hpp holds the constants of a robot with
// this step, and the type `Real`.
#include "device_rows.hpp"
#include "supple/servo/velocity.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = RobotConstants<Real>;
constexpr int n = Constants::servo.chain.nv, m = Constants::servo.rows;
constexpr int threads = 64;  // number of threads in a block

// The arguments of a call. (The same layout as `StepRequest` in linearize.py.)
struct StepRequest {
  const Real *J, *e;  // (count, m, n), (count, m)
  Real* dq;           // (count, n)
  long long count;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(threads) apply(StepRequest request) {
  const long long row = own_row();
  if (row >= request.count) return;
  Real J[m * n], e[m], dq[n], scratch[step_scratch(m, n)];
  read_row<m * n>(request.J, row, J);
  read_row<m>(request.e, row, e);
  bool valid = true;
  for (int i = 0; i < m * n; ++i) valid = valid && finite(J[i]);
  for (int i = 0; i < m; ++i) valid = valid && finite(e[i]);
  if (valid) step(Constants::step[0], m, n, J, e, Real(-1), Real(0), dq, scratch);
  for (int j = 0; j < n; ++j) valid = valid && finite(dq[j]);
  write_row<n>(dq, valid, row, request.dq);
}

}  // namespace supple
