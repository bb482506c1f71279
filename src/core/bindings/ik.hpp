// Position inverse kinematics from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

void bind_solve(nanobind::module_& m);

}  // namespace supple
