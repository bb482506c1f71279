// Joint speeds of many robots, from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

void bind_velocity(nanobind::module_& m);

}  // namespace supple
