// A barrier of all blocks of a cooperative launch: for programs that call grid_sync().
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "grid_sync needs a GPU of compute capability 7.0 or newer"
#endif
// The driver gives each cooperative launch a counter, four bytes behind the address in these two registers. Blocks add
// up to 2^31, so that its highest bit changes when the last one arrives and the others are as before. A function of its
// own, since only here may a program read the registers.
extern "C" __device__ __noinline__ void cudal1_grid_barrier() {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    unsigned low, high, before, now;
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    unsigned* const counter = (unsigned*)((unsigned long long)high << 32 | low) + 1;
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    const unsigned mine = first ? 0x80000000u - (blocks - 1) : 1u;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(mine) : "memory");
    do
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    while (((before ^ now) & 0x80000000u) == 0);
  }
  __syncthreads();
}
// Until all threads of the launch have come here; what they wrote before is seen by all of them after it.
static __device__ __forceinline__ void grid_sync() {
  cudal1_grid_barrier();
}
