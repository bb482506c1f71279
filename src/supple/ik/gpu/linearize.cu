// J and e of tasks at many configurations, one thread for each. Rows that are not valid give zeros.
//
// Compiled at run time for one robot and its tasks: given.hpp holds their constants and the type
// `Real` of configurations and results. Targets are in double.
#include "device_rows.hpp"
#include "supple/ik/iterate.hpp"
//
#include "given.hpp"

namespace supple {
namespace {

using Constants = Closest<Real>;  // with the weights of the tasks
constexpr int n = Constants::ik.chain.nv, nq = n + Constants::ik.chain.balls;
constexpr int m = Constants::ik.rows, numbers = Constants::ik.targets;
constexpr int joints = Constants::ik.chain.joints > 0 ? Constants::ik.chain.joints : 1;
constexpr int threads = 64;  // number of threads in a block

// The arguments of a call. (The same layout as `Request` in linearize.py.)
struct Request {
  const Real* q;           // (count, nq)
  const double* target;    // (count, numbers), or null
  const double* velocity;  // (count, velocities), or null
  Real *J, *e;             // (count, m, n), (count, m)
  long long count;
  int velocities;  // number of values in the velocities of all tasks
};

// Sets rows of J and e to zero that take no part in a step: those that are met within their allowed
// range, and tilts without a target.
__device__ void drop_idle_rows(const Task<Real>& task, bool aimed, const bool* met, Real* J,
                               Real* e) {
  for (int i = 0; i < task.rows; ++i) {
    const bool idle = aimed ? met[i] : task.row[i] == 6;
    if (!idle) continue;
    e[i] = 0;
    for (int j = 0; j < n; ++j) J[i * n + j] = 0;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads) linearize(Request request) {
  const long long row = own_row();
  if (row >= request.count) return;
  constexpr const Chain<Real>& chain = Constants::ik.chain;
  Real q[nq], x[n], target[numbers], J[m * n], e[m];
  Pose<Real> poses[joints];
  read_row<nq>(request.q, row, q);
  bool valid = to_kernel(chain, q, x);
  const bool aimed = request.target;
  for (int i = 0; i < numbers; ++i) {
    target[i] = aimed ? Real(request.target[row * numbers + i]) : Real(0);
    valid = valid && finite(target[i]);
  }
  forward(chain, x, poses);
  const double* velocity = request.velocity + row * request.velocities;
  int first = 0, number = 0;
  for (int k = 0; k < Constants::ik.tasks; ++k) {
    const Task<Real>& task = Constants::ik.task[k];
    const Real* const goal = aimed ? target + number : nullptr;
    Real *const J_k = J + first * n, *const e_k = e + first;
    bool met[m];
    task_jacobian(chain, task, poses, J_k, goal);
    for (int i = 0; i < task.rows; ++i) e_k[i] = 0;
    if (aimed) task_error(chain, task, poses, x, goal, e_k);
    for (int i = 0; i < task.rows; ++i) met[i] = is_ranged(task, i) && e_k[i] == Real(0);
    if (request.velocity) {
      Real speed[6], command[m];
      for (int i = 0; i < velocity_size(task); ++i) {
        speed[i] = Real(*velocity++);
        valid = valid && finite(speed[i]);
      }
      task_command(chain, task, poses, speed, command, goal);
      for (int i = 0; i < task.rows; ++i) e_k[i] = e_k[i] + command[i];
    }
    drop_idle_rows(task, aimed, met, J_k, e_k);
    first += task.rows;
    number += target_size(task);
  }
  for (int i = 0; i < m * n; ++i) valid = valid && finite(J[i]);
  for (int i = 0; i < m; ++i) valid = valid && finite(e[i]);
  write_row<m * n>(J, valid, row, request.J);
  write_row<m>(e, valid, row, request.e);
}

}  // namespace supple
