// Writes a robot, its tasks, a step and limits as constants in C++ source, which is compiled for
// the GPU at run time (src/supple/gpu/source.py). Numbers are written in hexadecimal, so that no
// bit is lost in either precision.
#pragma once

#include <string>
#include <vector>

#include "supple/ik/problem.hpp"
#include "supple/servo/state.hpp"

namespace supple::text {

// Returns the source of a struct template `name` with the constants of `ik` and `feature_scale`
// (targets,), the weight of each target value in looking up seeds. Posture tasks are not supported.
std::string constants(const char* name, const IkProblem<double>& ik, const float* feature_scale);

// Returns the source of a struct template `name` with the constants of `servo`, which must use
// resolved rates (not accelerations) and one step for all tasks, without ranges of postures.
std::string constants(const char* name, const Servo<double>& servo);

// Returns the source of a struct template `name` with the constants of `chain`, the number of
// frames whose kinematics are computed, and the axes of twists.
std::string constants(const char* name, const Chain<double>& chain, int frames, int axes);

// Returns C++ source with the preferences among solutions, as arrays (n,). For each coordinate,
// `posture` is the index of its posture in the values of a target, or -1; `posture_weight` is the
// weight of the posture; `wrap` is 2π if the joint has 2π wraps, else 0 [rad].
std::string posture_constants(std::vector<int> posture, std::vector<double> posture_weight,
                              const std::vector<double>& wrap);

}  // namespace supple::text
