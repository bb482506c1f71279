// The control loop's step, compiled once for each instruction set: SUPPLE_ISA names it.
#include "kernels.hpp"
#include "supple/servo.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

template <class T>
int scratch(const Servo<T>& servo) {
  return servo_scratch(servo);
}

template <class T>
void look_at(const Servo<T>& servo, const Wish<T>& wish, ServoState<T>& state, T* memory) {
  look(servo, wish, state, memory);
}

template <class T>
void act_on(const Servo<T>& servo, ServoState<T>& state, T* memory) {
  act(servo, state, memory);
  remember(servo, state, memory);
}

template <class T>
void run(const Servo<T>& servo, const Wish<T>& wish, ServoState<T>& state, T* memory) {
  look(servo, wish, state, memory);
  decide(servo, state, memory);
  act_on(servo, state, memory);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA);
const ServoKernel SUPPLE_SERVO_KERNEL(SUPPLE_ISA) = {&scratch<double>, &look_at<double>,
                                                     &act_on<double>, &run<double>};

}  // namespace supple
