#include "kernels/isa.hpp"

#include <atomic>
#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// Written by CMake from isa.txt: SUPPLE_ISA_LIST(X) expands to X(baseline) X(avx2) ...
#include "isa_list.hpp"

namespace supple {

#define SUPPLE_X(name) extern const Kernels SUPPLE_KERNELS(name);
SUPPLE_ISA_LIST(SUPPLE_X)
#undef SUPPLE_X

namespace {

#if defined(__x86_64__)
struct Features {
  bool avx2 = false, avx512 = false;
};

// Clang has no __builtin_cpu_supports on Windows, where it links no run-time library of its own.
Features features() {
  unsigned a = 0, b = 0, c = 0, d = 0, saved = 0;
  constexpr unsigned fma_and_osxsave = 1u << 12 | 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & fma_and_osxsave) != fma_and_osxsave) return {};
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return {};
  // Bits of the registers that the operating system saves: 2 for SSE, 4 for AVX, 0xe0 for the masks
  // and registers of AVX-512.
  asm("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  constexpr unsigned avx2 = 1u << 5, f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  Features found;
  found.avx2 = (saved & 6) == 6 && (b & avx2);
  found.avx512 = found.avx2 && (saved & 0xe6) == 0xe6 && (b & f_dq_bw_vl) == f_dq_bw_vl;
  return found;
}
#endif

bool supported([[maybe_unused]] const std::string& name) {
#if defined(__x86_64__)
  static const Features found = features();
  if (name == "avx2") return found.avx2;
  if (name == "avx512") return found.avx512;
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
