// A C interface to include/supple/step/redundancy.hpp, in the form of harness.cpp.
#include <cstddef>
#include <vector>

#include "batch.hpp"
#include "supple/step/redundancy.hpp"

namespace supple {
namespace {

// The settings of a step, with the same layout as `STEP` in harness.py.
struct StepData {
  int method, rule, group, error_group;
  double parameter, max_error, max_angle, parameters[4];
};

constexpr int max_rows = 64;

// The arrays that the kernel's `Step` points to.
template <class T>
struct StepArrays {
  int effector[max_rows], clamped[max_rows];
  ErrorClamp<T> clamp;
};

template <class T>
Step<T> step_of(const StepData& data, StepArrays<T>& arrays) {
  for (int i = 0; i < max_rows; ++i) {
    arrays.effector[i] = i / data.group;
    arrays.clamped[i] = i / data.error_group;
  }
  arrays.clamp = {.max_error = T(data.max_error), .effector = arrays.clamped};
  Step<T> step{.method = Method(data.method),
               .p = T(data.parameter),
               .max_angle = T(data.max_angle),
               .damping = {.rule = Rule(data.rule), .p = {}},
               .effector = arrays.effector,
               .error_clamp = &arrays.clamp,
               .error_clamps = 1};
  for (int i = 0; i < 4; ++i) step.damping.p[i] = T(data.parameters[i]);
  return step;
}

// J (m, n), e (m), v (n) -> dq (n), lambda2
template <class L, class T = scalar_t<L>>
void secondary_batch(long count, int m, int n, int form, const StepData* step, const double* bounds,
                     const T* J, const T* e, const T* v, T* dq, T* lambda2) {
  StepArrays<T> arrays;
  const Redundancy<T> how{.form = Secondary(form),
                          .alpha1 = T(bounds[0]),
                          .max_speed = T(bounds[1]),
                          .step = step_of<T>(*step, arrays)};
  std::vector<L> result(n), scratch(redundancy_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n);
    const std::vector<L> b = load<L>(m, lanes, e + i * m), c = load<L>(n, lanes, v + i * n);
    const L damping = redundant_step(how, m, n, a.data(), b.data(), c.data(), L(-1), L(0),
                                     result.data(), scratch.data());
    store(n, lanes, result.data(), dq + i * n);
    store(1, lanes, &damping, lambda2 + i);
  }
}

// J (m, n), e (m) of all levels -> dq (n)
template <class L, class T = scalar_t<L>>
void priority_batch(long count, int m, int n, int levels, const int* rows, const StepData* steps,
                    const T* J, const T* e, T* dq) {
  std::vector<Step<T>> how;
  std::vector<StepArrays<T>> arrays(levels);
  for (int k = 0; k < levels; ++k) how.push_back(step_of<T>(steps[k], arrays[k]));
  std::vector<L> result(n), scratch(redundancy_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n);
    const std::vector<L> b = load<L>(m, lanes, e + i * m);
    priority_step(how.data(), levels, rows, n, a.data(), b.data(), L(-1), L(0), result.data(),
                  scratch.data());
    store(n, lanes, result.data(), dq + i * n);
  }
}

}  // namespace
}  // namespace supple

using namespace supple;

// Size and offsets of `StepData`, in the order of `STEP`.
extern "C" void step_layout(long* sizes) {
  const long all[] = {sizeof(StepData),
                      offsetof(StepData, method),
                      offsetof(StepData, rule),
                      offsetof(StepData, group),
                      offsetof(StepData, error_group),
                      offsetof(StepData, parameter),
                      offsetof(StepData, max_error),
                      offsetof(StepData, max_angle),
                      offsetof(StepData, parameters)};
  for (long size : all) *sizes++ = size;
}

#define LAB_EXPORT(lane, T, ...)                                                             \
  extern "C" void secondary_##lane(long count, int m, int n, int form, const StepData* step, \
                                   const double* bounds, const T* J, const T* e, const T* v, \
                                   T* dq, T* lambda2) {                                      \
    secondary_batch<__VA_ARGS__>(count, m, n, form, step, bounds, J, e, v, dq, lambda2);     \
  }                                                                                          \
  extern "C" void priority_##lane(long count, int m, int n, int levels, const int* rows,     \
                                  const StepData* steps, const T* J, const T* e, T* dq) {    \
    priority_batch<__VA_ARGS__>(count, m, n, levels, rows, steps, J, e, dq);                 \
  }

// harness.py defines this macro, which calls LAB_EXPORT for every lane type.
LAB_LANES(LAB_EXPORT)
