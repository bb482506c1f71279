// Converts the caller's arrays on a GPU to targets.
#include "view.hpp"

namespace supple {

// Reads the targets of one task (`read_target`).
extern "C" __global__ void read(View view, Kind kind, double* to, int width, int count) {
  const int problem = blockIdx.x * blockDim.x + threadIdx.x;
  if (problem < count) read_target(view, kind, problem, width, to);
}

}  // namespace supple
