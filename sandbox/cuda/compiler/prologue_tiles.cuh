// Tensor maps, and barriers of the transfers that use them: for programs that name any of these.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "tensor_map, transfer_*, load_tile and store_tile need a GPU of compute capability 9.0 or newer"
#endif
// A kernel's parameter `const __grid_constant__ tensor_map a`: what CUDA calls a CUtensorMap.
struct __align__(64) tensor_map {
  unsigned long long words[16];
};
// A barrier in shared memory, of 8 bytes at a multiple of 8. Each phase of it ends when `arrivals` threads have arrived
// and as many bytes have been transferred as they announced. One thread initialises it, then the block synchronises.
static __device__ __forceinline__ void transfer_init(unsigned long long* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n\tfence.mbarrier_init.release.cluster;\n\t"
               "fence.proxy.async.shared::cta;" ::"r"((unsigned)__cvta_generic_to_shared(barrier)),
               "r"(arrivals)
               : "memory");
}
static __device__ __forceinline__ void transfer_arrive(unsigned long long* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}
// Arrives, and announces that many bytes, of the loads that this thread starts next: boxes count with all their bytes.
static __device__ __forceinline__ void transfer_expect(unsigned long long* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)),
               "r"(bytes)
               : "memory");
}
// Until the phase of that parity has ended: 0 for the first one, 1 for the second, and so on in turns. What was
// transferred in it is then seen. Parity 1 of a barrier in its first phase has ended.
static __device__ __forceinline__ void transfer_wait(unsigned long long* barrier, int parity) {
  asm volatile("{\n\t.reg .pred ended;\n\tagain:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n\t@!ended bra again;\n\t}" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)),
               "r"(parity)
               : "memory");
}
// The box at these coordinates, one for each of the tensor's dimensions, to shared memory (at a multiple of 128 bytes;
// with swizzle 128 of 1024, with 64 of 512, with 32 of 256), in row-major order. One thread of the block calls it.
static __device__ __forceinline__ void load_tile(void* shared, const tensor_map& map, unsigned long long* barrier,
                                                 int i) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], "
               "[%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void load_tile(void* shared, const tensor_map& map, unsigned long long* barrier,
                                                 int i, int j) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
               "[%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void load_tile(void* shared, const tensor_map& map, unsigned long long* barrier,
                                                 int i, int j, int k) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
               "[%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(k), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void load_tile(void* shared, const tensor_map& map, unsigned long long* barrier,
                                                 int i, int j, int k, int l) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
               "[%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(l), "r"(k), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void load_tile(void* shared, const tensor_map& map, unsigned long long* barrier,
                                                 int i, int j, int k, int l, int m) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
               "[%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "l"(&map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(m), "r"(l), "r"(k), "r"(j), "r"(i)
               : "memory");
}
// The same from shared memory, behind fence_shared_async() and a barrier.
static __device__ __forceinline__ void store_tile(const tensor_map& map, const void* shared, int i) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];" ::"l"(&map),
               "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void store_tile(const tensor_map& map, const void* shared, int i, int j) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void store_tile(const tensor_map& map, const void* shared, int i, int j, int k) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
               "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(k), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void store_tile(const tensor_map& map, const void* shared, int i, int j, int k, int l) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(l), "r"(k), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void store_tile(const tensor_map& map, const void* shared, int i, int j, int k, int l, int m) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
               "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(m), "r"(l), "r"(k), "r"(j), "r"(i)
               : "memory");
}
static __device__ __forceinline__ void store_tile_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until at most GROUPS of this thread's groups of stores still read shared memory. A thread that stores tiles waits for
// all of them before it ends.
template <int GROUPS>
static __device__ __forceinline__ void store_tile_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(GROUPS) : "memory");
}
