// What the kernels of decoding use beyond C++ and CUDA's built-in functions, for NVRTC.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__
#define KERNEL_OF(THREADS) extern "C" __global__ void __launch_bounds__(THREADS)
#define DYNAMIC_SHARED(NAME) extern __shared__ __align__(16) char NAME[]

__device__ __forceinline__ float float_of_half(u16 bits) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}
__device__ __forceinline__ u16 half_of(float f) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}
__device__ __forceinline__ u16 bfloat16_of(float f) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}

// 16 bytes to shared memory, which are there after wait_for_copies().
__device__ __forceinline__ void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<u32>(__cvta_generic_to_shared(to))),
               "l"(from));
}
__device__ __forceinline__ void end_copy_group() { asm volatile("cp.async.commit_group;"); }
// Until all but the last `GROUPS` groups of this thread are there.
template <int GROUPS>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

// A kernel may begin before the one before it has ended: it waits before it reads or writes what that one uses. Each
// kernel must, so that all those before it have ended, too.
__device__ __forceinline__ void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
