// The parts of the extension module, each bound in a file of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace supple {

namespace nb = nanobind;
using namespace nb::literals;

void bind_motion(nb::module_& m);

// Types for the stub: nanobind knows only that these are Python objects.
#define SUPPLE_ARRAY "numpy.typing.NDArray[numpy.floating[typing.Any]]"

}  // namespace supple
