// Damping rules, steps and limits on batches.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

void bind_motion(nanobind::module_& m);

}  // namespace supple
