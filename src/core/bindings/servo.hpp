// A control loop's step from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

void bind_servo(nanobind::module_& m);

}  // namespace supple
