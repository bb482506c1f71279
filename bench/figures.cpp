// Times updates of a figure whose end effectors follow moving targets, inside the kernel: forward
// kinematics, Jacobian, error, step and q += step, with `double` as the lane.
#include <ctime>
#include <vector>

#include "supple/robot/kinematics.hpp"
#include "supple/step/step.hpp"

using namespace supple;

namespace {

// Processor time of this process [ns].
double now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

// Computes J (3 frames x n, positions only) and e = targets - positions. Entries of J that are
// always zero are not written.
void linearize(const Chain<double>& chain, const double* q, const double* targets,
               Pose<double>* poses, double* J, double* e) {
  const int n = chain.nv;
  forward(chain, q, poses);
  for (int f = 0; f < chain.frames; ++f) {
    const Frame<double>& frame = chain.frame[f];
    const Vec3<double> p = moved(poses[frame.joint], frame.position);
    double* row = J + 3 * f * n;
    jacobian(chain, frame, poses, p, [&](int c, const Twist<double>& twist, bool) {
      row[c] = twist.v.x;
      row[n + c] = twist.v.y;
      row[2 * n + c] = twist.v.z;
    });
    e[3 * f] = targets[3 * f] - p.x;
    e[3 * f + 1] = targets[3 * f + 1] - p.y;
    e[3 * f + 2] = targets[3 * f + 2] - p.z;
  }
}

}  // namespace

extern "C" {

// Sizes of the kernel's structs, for figures.py to check its copy of their memory layout.
int joint_bytes() { return sizeof(Joint<double>); }
int frame_bytes() { return sizeof(Frame<double>); }
int support_bytes() { return sizeof(Support); }

// Runs one update for each row of `targets` (updates, 3 frames). q (n,) is the initial
// configuration on entry and the final one on return. Returns nanoseconds per update.
double figure_updates(int coordinates, int joints, int frames, int phases,
                      const Joint<double>* joint, const Frame<double>* frame,
                      const Support* support, int method, double lambda2, double max_angle,
                      long updates, const double* targets, double* q) {
  const Chain<double> chain{.nq = coordinates,
                            .nv = coordinates,
                            .joints = joints,
                            .frames = frames,
                            .mimics = false,
                            .phases = phases != 0,
                            .lengths = false,
                            .joint = joint,
                            .frame = frame,
                            .support = support};
  const double none = __builtin_inf();
  const Step<double> how{
      Method(method), 0, 3, none, 3, max_angle, {Rule::constant, {lambda2, 0, 0, 0}}};
  const int m = 3 * frames, n = coordinates;
  std::vector<Pose<double>> poses(joints);
  std::vector<double> J(m * n, 0.0), e(m), dq(n), scratch(step_scratch(m, n));

  const double start = now();
  for (long k = 0; k < updates; ++k) {
    linearize(chain, q, targets + k * m, poses.data(), J.data(), e.data());
    step(how, m, n, J.data(), e.data(), -1.0, 0.0, dq.data(), scratch.data());
    integrate(chain, q, dq.data(), 1.0, q);
  }
  return (now() - start) / double(updates);
}
}
