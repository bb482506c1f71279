// Pinocchio's frame placement and frame Jacobian for a batch of configurations, in a plain C++
// loop: its speed without Python bindings.
//
// Parsing and allocation happen before the clock starts, and the clock is read in this file. Thanks
// to the C interface, one compiler call builds the library, and Python calls it by ctypes.
#include <chrono>
#include <cstdio>
#include <exception>
#include <pinocchio/multibody.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include <pinocchio/algorithm/frames.hpp>
#include <pinocchio/algorithm/jacobian.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/model.hpp>
#include <pinocchio/parsers/urdf.hpp>

namespace {

using RowMajor4 = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;
using RowMajor6x = Eigen::Matrix<double, 6, Eigen::Dynamic, Eigen::RowMajor>;

// Returns the model with every joint that does not move the frame fixed at its neutral position.
// The Panda's fingers, for example, would only add zero columns.
pinocchio::Model supporting_model(const pinocchio::Model& full, const std::string& frame) {
  const auto& support = full.supports[full.frames[full.getFrameId(frame)].parentJoint];
  std::vector<bool> moves(full.joints.size(), false);
  for (auto joint : support) moves[joint] = true;
  std::vector<pinocchio::JointIndex> locked;
  for (pinocchio::JointIndex j = 1; j < moves.size(); ++j) {
    if (!moves[j]) locked.push_back(j);
  }
  if (locked.empty()) return full;
  return pinocchio::buildReducedModel(full, locked, pinocchio::neutral(full));
}

}  // namespace

// Fills T (batch, 4, 4) and J (batch, 6, nv) for q (batch, nq), all row-major and owned by the
// caller. nq and nv are the sizes of the reduced model that the caller expects.
//   route 0: computeJointJacobians, updateFramePlacement, getFrameJacobian
//   route 1: the same, but instead of getFrameJacobian, code in this file shifts the Jacobian from
//            the world's origin to the frame; this is the fastest variant found
// Returns nanoseconds per configuration, or -1 after printing the reason on stderr.
extern "C" double pinocchio_loop(const char* urdf, const char* frame_name, int route, long batch,
                                 int nq, int nv, const double* q, double* T, double* J) try {
  pinocchio::Model full;
  pinocchio::urdf::buildModel(urdf, full);
  if (!full.existFrame(frame_name)) throw std::runtime_error("the URDF has no such frame");
  const pinocchio::Model model = supporting_model(full, frame_name);
  if (model.nq != nq || model.nv != nv) throw std::runtime_error("nq or nv differs");
  pinocchio::Data data(model);
  const auto frame = model.getFrameId(frame_name);

  Eigen::VectorXd qi(model.nq);  // the vector type that Pinocchio's precompiled routines take
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < batch; ++i) {
    qi = Eigen::Map<const Eigen::VectorXd>(q + i * nq, nq);
    Eigen::Map<RowMajor6x> Ji(J + i * 6 * nv, 6, nv);
    pinocchio::computeJointJacobians(model, data, qi);
    pinocchio::updateFramePlacement(model, data, frame);
    const auto& placement = data.oMf[frame];
    if (route == 0) {
      pinocchio::getFrameJacobian(model, data, frame, pinocchio::LOCAL_WORLD_ALIGNED, Ji);
    } else {
      const Eigen::Vector3d p = placement.translation();
      for (int c = 0; c < nv; ++c) {
        const Eigen::Vector3d w = data.J.col(c).tail<3>();
        Ji.col(c).head<3>() = data.J.col(c).head<3>() + w.cross(p);
        Ji.col(c).tail<3>() = w;
      }
    }
    Eigen::Map<RowMajor4>(T + i * 16) = placement.toHomogeneousMatrix();
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(batch);
} catch (const std::exception& error) {
  std::fprintf(stderr, "pinocchio_loop: %s\n", error.what());
  return -1;
}
