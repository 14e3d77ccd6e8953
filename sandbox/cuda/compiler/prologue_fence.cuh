// For programs that call it: those of warpgroups, and of tensor maps.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "fence_shared_async needs a GPU of compute capability 9.0 or newer"
#endif
// Between a thread's writes to shared memory (its copies that it has waited for) and the barrier after which
// warpgroups multiply what was written, or a tile of it is stored.
static __device__ __forceinline__ void fence_shared_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
