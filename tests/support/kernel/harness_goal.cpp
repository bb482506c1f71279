// The formulas of one task, and the general methods for goals of any kind, for the robot whose
// constants are in given.hpp. Called by tests/support/goal_program.py.
#include "supple/servo/parts.hpp"
#include "supple/servo/posture_step.hpp"
#include "supple/servo/row_bends.hpp"
//
#include "given.hpp"

using namespace supple;

namespace {

using L = double;
constexpr const Chain<double>& chain = RobotConstants<double>::servo.chain;
Pose<double> poses[chain.joints];

}  // namespace

extern "C" {

// Mirrored by `Given` in goal_program.py.
struct Given {
  int goal, frame, base, axes, rows, row[6], points, point[8];
  double weight[6], share[8];
};

static Task<double> task_of(const Given& given) {
  Task<double> task{.goal = Goal(given.goal),
                    .frame = given.frame,
                    .base = given.base,
                    .axes = given.axes,
                    .rows = given.rows,
                    .row = {},
                    .weight = {},
                    .coordinate = nullptr,
                    .posture_weight = nullptr};
  for (int i = 0; i < given.rows; ++i) {
    task.row[i] = given.row[i];
    task.weight[i] = given.weight[i];
  }
  task.points = given.points;
  task.point = given.point;
  task.share = given.share;
  return task;
}

int goal_named(const char* name) {
  for (int i = 0; const char* own = traits_of(Goal(i)).name; ++i) {
    int c = 0;
    while (own[c] && own[c] == name[c]) ++c;
    if (own[c] == name[c]) return i;
  }
  return -1;
}

// Writes the number of values in a target and the number of values in a velocity.
void sizes(const Given* given, int* size) {
  const Task<double> task = task_of(*given);
  size[0] = target_size(task), size[1] = velocity_size(task);
}

void move(const double* q, const double* v, double time, double* to) {
  integrate(chain, q, v, time, to);
}

void evaluate(const Given* given, const double* q, const double* qd, const double* target,
              const double* velocity, double* J, double* e, double* bias, double* reached,
              double* command) {
  const Task<double> task = task_of(*given);
  forward(chain, q, poses);
  task_jacobian(chain, task, poses, J);
  task_offset(chain, task, poses, q, target, e);
  task_bias_acceleration(chain, task, poses, qd, bias);
  task_reached(chain, task, poses, reached);
  task_command(chain, task, poses, velocity, command);
}

// Writes the gradient of u·J v and the second derivatives of u·f: first by the methods of the goal,
// then by the methods for any goal.
void bends(const Given* given, const double* q, const double* u, const double* v, double* g,
           double* H, double* any_g, double* any_H) {
  constexpr int n = chain.nv;
  const Task<double> task = task_of(*given);
  const StepRows<double> of{chain, 1, &task, task.rows, task.rows, nullptr};
  double memory[sweep_memory(chain)], speed[n];
  for (int j = 0; j < n; ++j) speed[j] = v[j], any_g[j] = 0;
  for (int i = 0; i < n * n; ++i) H[i] = any_H[i] = 0;
  forward(chain, q, poses);
  singular_gradient(of, poses, u, speed, g);
  add_bends(of, poses, u, n, H, memory);
  add_rows_gradient(chain, task, poses, u, speed, any_g);
  add_rows_bends(chain, task, poses, u, n, any_H, memory);
}

// Writes which columns of J may be nonzero, and the labels of coordinates and rows in two such
// tasks. Returns whether the task may move at the speeds v.
int structure(const Given* given, const double* v, int* column, int* label, int* row_label) {
  constexpr int n = chain.nv;
  const Task<double> task[] = {task_of(*given), task_of(*given)};
  const StepRows<double> one{chain, 1, task, task->rows, task->rows, nullptr},
      two{chain, 2, task, 2 * task->rows, 2 * task->rows, nullptr};
  int row_runs, column_runs, posture[12];
  RowRun row_run[1], column_run[n];
  unsigned packs[n];
  find_runs(one, row_runs, row_run, column_runs, column_run, packs);
  for (int j = 0; j < n; ++j) column[j] = packs[j] != 0;
  find_parts(two, label, row_label, posture);
  return moves(chain, *task, v);
}

}  // extern "C"
