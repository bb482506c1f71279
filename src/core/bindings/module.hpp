// The parts of the extension module, one for each file of bindings.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

void bind_steps(nanobind::module_& m);          // damping rules, steps and limits on batches
void bind_servo(nanobind::module_& m);          // a step of a control loop
void bind_velocities(nanobind::module_& m);     // velocity inverse kinematics of a batch
void bind_solver(nanobind::module_& m);         // position inverse kinematics
void bind_branches(nanobind::module_& m);       // all solutions of poses
void bind_target_solver(nanobind::module_& m);  // position inverse kinematics of one target
void bind_timing(nanobind::module_& m);         // time-optimal motion along paths
void bind_paths(nanobind::module_& m);          // routes and tracks along paths of targets
void bind_collision(nanobind::module_& m);      // distances of shapes
void bind_following(nanobind::module_& m);      // motions that follow the poses of many frames
void bind_terrain(nanobind::module_& m);        // displacements of feet out of boxes
void bind_launches(nanobind::module_& m);       // recorded launches of CUDA kernels
void bind_adjoints(nanobind::module_& m);       // gradients through kinematics and solutions
void bind_xla(nanobind::module_& m);            // foreign functions of XLA

}  // namespace supple
