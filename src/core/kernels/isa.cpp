#include "kernels/isa.hpp"

#include <atomic>
#include <stdexcept>

// Written by CMake from isa.txt: SUPPLE_ISA_LIST(X) expands to X(baseline) X(avx2) ...
#include "isa_list.hpp"

namespace supple {

#define SUPPLE_X(name) extern const Kernels SUPPLE_KERNELS(name);
SUPPLE_ISA_LIST(SUPPLE_X)
#undef SUPPLE_X

namespace {

bool supported([[maybe_unused]] const std::string& name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (name == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (name == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#endif
  return true;
}

std::vector<const Kernels*> available() {
  std::vector<const Kernels*> found;
#define SUPPLE_X(name) \
  if (supported(#name)) found.push_back(&SUPPLE_KERNELS(name));
  SUPPLE_ISA_LIST(SUPPLE_X)
#undef SUPPLE_X
  return found;
}

const Kernels& named(const std::string& name) {
  std::string known;
  for (const Kernels* kernels : available()) {
    if (name == kernels->isa) return *kernels;
    known += (known.empty() ? "" : ", ") + std::string(kernels->isa);
  }
  throw std::invalid_argument("unknown instruction set '" + name + "'. Available: " + known);
}

std::atomic<const Kernels*>& current() {
  static std::atomic<const Kernels*> kernels{available().back()};
  return kernels;
}

}  // namespace

const Kernels& isa() { return *current().load(std::memory_order_relaxed); }

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Kernels* kernels : available()) names.emplace_back(kernels->isa);
  return names;
}

void use_isa(const std::string& name) { current().store(&named(name)); }

}  // namespace supple
