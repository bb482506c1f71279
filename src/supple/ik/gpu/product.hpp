// A product of small matrices on the tensor cores of a GPU. Independent of the robot.
#pragma once

namespace supple {

// Rounds to the 11 significant bits that tensor cores use of a float.
__device__ __forceinline__ unsigned rounded_to_tf32(float x) {
  return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
}

// Adds the product of the matrices A (16, 8) and B (8, 8) to C (16, 8), in all threads of a warp:
// lane 4 g + t has A(g, t), A(g + 8, t), A(g, t + 4), A(g + 8, t + 4); B(t, g), B(t + 4, g); and
// C(g, 2 t), C(g, 2 t + 1), C(g + 8, 2 t), C(g + 8, 2 t + 1).
__device__ __forceinline__ void add_product(float* C, const unsigned* A, const float* B) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(__float_as_uint(B[0])),
        "r"(__float_as_uint(B[1])));
#else
  constexpr int warps = 4;  // largest number of warps of a block
  __shared__ float a[warps][16][8], b[warps][8][8];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, own = threadIdx.x / 32;
  for (int i = 0; i < 4; ++i) a[own][g + 8 * (i % 2)][t + 4 * (i / 2)] = __uint_as_float(A[i]);
  for (int i = 0; i < 2; ++i) b[own][t + 4 * i][g] = B[i];
  __any_sync(~0u, true);  // waits for all threads of the warp
  for (int k = 0; k < 8; ++k) {
    for (int i = 0; i < 4; ++i) {
      C[i] = fma(a[own][g + 8 * (i / 2)][k], b[own][k][2 * t + i % 2], C[i]);
    }
  }
  __any_sync(~0u, true);
#endif
}

}  // namespace supple
