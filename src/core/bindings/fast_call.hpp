// The short way of a call from Python to the kernel.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

void bind_call(nanobind::module_& m);

}  // namespace supple
