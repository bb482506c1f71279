// The instruction set in use: the best one of the machine, or the one chosen by `use_isa`.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace supple {

// The kernels of the instruction set in use.
const Kernels& isa();

// Names of the instruction sets compiled in that this machine can run, the best last.
std::vector<std::string> available_isas();

// Switches to an available instruction set. Throws std::invalid_argument for any other name; the
// message lists the available names.
void use_isa(const std::string& name);

}  // namespace supple
