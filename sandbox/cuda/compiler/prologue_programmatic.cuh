// Programmatic dependent launch: for programs that call either function.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "wait_for_previous_kernel and let_next_kernel_begin need a GPU of compute capability 9.0 or newer"
#endif
// Until the kernels ahead of this one have ended, whose results are then seen. At once where the launch is not a
// programmatic one.
static __device__ __forceinline__ void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// When all blocks have called it or ended, the next kernel may begin, if its launch is a programmatic one.
static __device__ __forceinline__ void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
