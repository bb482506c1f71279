// The control loop's step, of one robot and of many, compiled once for each instruction set:
// SUPPLE_ISA names it.
#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "supple/servo.hpp"
#include "supple/velocity.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

template <class T>
int scratch(const Servo<T>& servo) {
  return servo_scratch(servo);
}

template <class T>
void look_at(const Servo<T>& servo, const Command<T>& wish, ServoState<T>& state, T* memory) {
  look(servo, wish, state, memory);
}

template <class T>
void act_on(const Servo<T>& servo, ServoState<T>& state, T* memory) {
  act(servo, state, memory);
  remember(servo, state, memory);
}

template <class T>
void run(const Servo<T>& servo, const Command<T>& wish, ServoState<T>& state, T* memory) {
  look(servo, wish, state, memory);
  decide(servo, state, memory);
  act_on(servo, state, memory);
}

// The working memory of a block of robots, cut from one piece of memory.
template <class L>
struct Robots {
  L *q, *velocity, *scratch;
  ServoState<L> state;

  template <class T>
  std::size_t compile_tasks(const Chain<T>& chain, const FollowRequest<T>& request, void* memory) {
    const int m = request.servo->rows, n = chain.coordinates;
    L* const base = static_cast<L*>(memory);
    std::size_t used = 0;
    const auto take = [base, &used](int count) {
      L* piece = base ? base + used : nullptr;
      used += std::size_t(count);
      return piece;
    };
    state = {take(n), take(n), take(m * n), take(m), take(m), take(n), take(n), nullptr,
             nullptr, nullptr, L(-1),       L(0),    L(0),    L(0),    L(-1),   false};
    q = state.q;
    velocity = take(request.velocities);
    scratch = take(follow_scratch(*request.servo));
    return used * sizeof(L);
  }
};

template <class L, class T>
mask_t<L> block(const Chain<T>& chain, const FollowRequest<T>& request, std::ptrdiff_t first,
                int lanes, Robots<L>& space) {
  const int n = chain.coordinates, k = request.velocities;
  L* const qd = space.state.qd;
  load(n, lanes, request.q + first * n, space.q);
  load(k, lanes, request.velocity + first * k, space.velocity);
  for (int j = 0; j < n; ++j) qd[j] = L(0);
  if (request.before) load(n, lanes, request.before + first * n, qd);
  mask_t<L> sound = within_bounds(chain, space.q, qd);
  for (int i = 0; i < k; ++i) sound = sound & finite(space.velocity[i]);
  if (!all(sound)) return sound;
  L* const memory = space.scratch;
  follow(*request.servo, request.servo->rows, n, space.velocity, space.state, memory, memory,
         memory);
  for (int j = 0; j < n; ++j) sound = sound & finite(qd[j]);
  if (all(sound)) store(n, lanes, qd, request.qd + first * n);
  return sound;
}

template <class T>
std::size_t follow_memory(const FollowRequest<T>& request) {
  return workspace<Robots>(request.servo->chain, request);
}

template <class T>
std::ptrdiff_t follow_all(const FollowRequest<T>& request, std::ptrdiff_t begin, std::ptrdiff_t end,
                          void* memory) {
  return run_blocks<Robots>(request.servo->chain, request, begin, end, memory);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA);
const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA) = {
    &scratch<double>,
    &look_at<double>,
    &act_on<double>,
    &run<double>,
    {&follow_memory<double>, &follow_all<double>},
    {&follow_memory<float>, &follow_all<float>},
};

}  // namespace supple
