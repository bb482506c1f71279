// Which instruction set runs: the best that the machine has, or the one that `use_isa` named.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace supple {

// The kernels in use.
const Kernels& isa();

// Names of the instruction sets compiled in that this machine can run, the best last.
std::vector<std::string> available_isas();

// Switches to one of them; std::invalid_argument names what there is.
void use_isa(const std::string& name);

}  // namespace supple
