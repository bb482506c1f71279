// The geometry of arms for which all solutions are computed, as Python passes it. Included only by
// branches.cpp.
#pragma once

#include <algorithm>
#include <vector>

#include "bindings/specs.hpp"
#include "drivers/branch_list.hpp"

namespace supple {
namespace {

// A 6-joint arm with a closed form. Corresponds to `Structure` of supple/kinematics/structure.py.
struct ArmSpec {
  bool parallel = false;     // whether three axes are parallel; otherwise they intersect
  int first = 0;             // index of the first joint of these three axes
  Ints coordinates{};        // (6,): index of each joint in q
  Doubles axes{}, points{};  // (6, 3): directions and points [m] in the world at q = 0
  Doubles home{};            // (12,): columns and position [m] of the frame's pose at q = 0
  double length = 1;         // length of the arm [m]
  double slack = 0;          // relative misalignment of the three axes; 0 if there is none

  bool operator==(const ArmSpec&) const = default;
};

// A 6-joint arm of any geometry.
struct GeneralSpec {
  Ints starts{};             // index of the first joint in each numbering that is used, best first
  Ints coordinates{};        // as in ArmSpec
  Doubles axes{}, points{};  // as in ArmSpec
  Doubles home{};            // as in ArmSpec
  double length = 1;         // length of the arm [m]

  bool operator==(const GeneralSpec&) const = default;
};

// An arm of seven joints that has a closed form when one of them is fixed. This joint takes the
// values of a grid.
struct GridSpec {
  int coordinate = 0;           // index of this joint in q
  Doubles values{};             // the values of the grid
  std::vector<ArmSpec> arms{};  // the arm of the other joints for each value

  bool operator==(const GridSpec&) const = default;
};

// Settings for computing all solutions.
struct BranchSpec {
  double position_tolerance = 0, rotation_tolerance = 0;  // [m], [rad]
  int samples = 1;       // number of samples of an angle that is not determined
  bool wraps = false;    // whether solutions that differ by full turns are distinct
  bool nearest = false;  // whether the solutions nearest to q0 come first
  int threads = 1;       // maximum number of threads

  bool operator==(const BranchSpec&) const = default;
};

// Reads the fields that all kinds of arms share.
template <class Spec>
Arm read_arm(const Spec& spec, int coordinates) {
  check_length("coordinates", 6, spec.coordinates.size());
  check_length("axes", 18, spec.axes.size());
  check_length("points", 18, spec.points.size());
  check_length("home", 12, spec.home.size());
  for (int each : spec.coordinates) check_index("coordinate", 0, coordinates, each);
  Arm arm;
  std::ranges::copy(spec.coordinates, arm.coordinate);
  std::ranges::copy(spec.axes, arm.axis);
  std::ranges::copy(spec.points, arm.point);
  std::ranges::copy(spec.home, arm.home);
  arm.length = spec.length;
  return arm;
}

Arm arm_of(const ArmSpec& spec, int coordinates) {
  check_index("first", 0, 4, spec.first);
  Arm arm = read_arm(spec, coordinates);
  arm.parallel = spec.parallel;
  arm.first = spec.first;
  arm.slack = spec.slack;
  return arm;
}

Arm arm_of(const GeneralSpec& spec, int coordinates) {
  check_index("the number of starts", 1, 7, int(spec.starts.size()));
  for (int start : spec.starts) check_index("start", 0, 6, start);
  Arm arm = read_arm(spec, coordinates);
  arm.numberings = int(spec.starts.size());
  std::ranges::copy(spec.starts, arm.start);
  return arm;
}

GridOfArms arm_of(const GridSpec& spec, int coordinates) {
  check_index("coordinate", 0, coordinates, spec.coordinate);
  check_length("arms", spec.values.size(), spec.arms.size());
  GridOfArms grid{spec.coordinate, {spec.values.begin(), spec.values.end()}, {}};
  for (const ArmSpec& each : spec.arms) grid.arm.push_back(arm_of(each, coordinates));
  return grid;
}

}  // namespace
}  // namespace supple
