// Costs by which the best of several solutions is chosen: those of preference.py, one thread for
// each solution.
#include "comfort.hpp"

namespace supple {

namespace {

// The largest distance of a joint from the middle of its range, relative to half the range.
__device__ double limit_proximity(const double* q) {
  constexpr const IkProblem<double>& ik = RobotConstants<double>::ik;
  double largest = 0;
  for (int j = 0; j < nv; ++j) {
    const double lower = ik.lower[j], upper = ik.upper[j];
    const bool ranged =
        lower > -Number<double>::huge && upper < Number<double>::huge && upper > lower;
    if (ranged) {
      const double away = ::fabs(twice_from_middle(q[j], lower, upper));
      largest = ::fmax(largest, away / coordinate_difference(upper, lower));
    }
  }
  return largest;
}

// Minus the product of the singular values of J, whose columns of prismatic joints are in units of
// the robot's size.
__device__ double manipulability_cost(const Request& request, int problem, const double* q) {
  constexpr const IkProblem<double>& ik = Closest<double>::ik;  // with the weights of the tasks
  constexpr bool wide = rows <= nv;
  constexpr int m = wide ? nv : rows, n = wide ? rows : nv;
  StateMemory<double> own;
  for (int j = 0; j < nq; ++j) own.q[j] = q[j];
  Pose<double>* const poses = reinterpret_cast<Pose<double>*>(own.work);
  forward(ik.chain, own.q, poses);
  double* J = own.J;
  const double* target = request.target + problem * numbers;
  for (int k = 0; k < ik.tasks; ++k) {
    const Task<double>& task = ik.task[k];
    task_jacobian(ik.chain, task, poses, J, has_tilt(task) ? target : nullptr);
    for (int i = 0; i < task.rows; ++i) {  // the tilt from an axis has no derivative at zero
      for (int j = 0; task.row[i] == 6 && j < nv; ++j) J[i * nv + j] = 0;
    }
    J += task.rows * nv;
    target += target_size(task);
  }
  double a[rows * nv], tau[n];
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < nv; ++j) {
      a[wide ? j * n + i : i * n + j] = own.J[i * nv + j] * joint_unit(ik, j);
    }
  }
  qr(m, n, a, tau);
  double product = 1;
  for (int i = 0; i < n; ++i) product *= ::fabs(a[i * n + i]);
  return -product;
}

}  // namespace

// Writes the cost of each solution (count, max_solutions); nothing where there is none.
extern "C" __global__ void __launch_bounds__(128) costs(Request request, Cost kind, double* cost) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x, problem = row / request.max_solutions;
  if (row >= request.count * request.max_solutions) return;
  if (row % request.max_solutions >= request.solutions[problem]) return;
  double q[nq];
  for (int j = 0; j < nq; ++j) q[j] = request.q[row * nq + j];
  if (kind == Cost::limits) cost[row] = limit_proximity(q);
  if (kind == Cost::discomfort) cost[row] = discomfort(q);
  if (kind == Cost::displacement) {
    double from[nq];
    for (int j = 0; j < nq; ++j) from[j] = own_start(request, problem, j);
    cost[row] =
        largest_difference(RobotConstants<double>::ik.chain, q, from, [](int) { return 1.0; });
  }
  if (kind == Cost::manipulability) cost[row] = manipulability_cost(request, problem, q);
}

}  // namespace supple
