// Clusters of blocks: for programs that call any of these functions. A kernel has clusters by its __cluster_dims__.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "cluster_rank, cluster_size, cluster_sync, load_cluster, store_cluster need compute capability 9.0 or newer"
#endif
static __device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
static __device__ __forceinline__ unsigned cluster_size() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}
// A barrier of all threads of the cluster, which shows each what the others have written.
static __device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
// `shared` as it lies in the block of that rank, which must not have ended.
static __device__ __forceinline__ float load_cluster(const float* shared, unsigned rank) {
  float v;
  asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %1, %2;\n\t"
               "ld.shared::cluster.f32 %0, [there];\n\t}"
               : "=f"(v)
               : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(rank)
               : "memory");
  return v;
}
static __device__ __forceinline__ void store_cluster(float* shared, unsigned rank, float v) {
  asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
               "st.shared::cluster.f32 [there], %2;\n\t}" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "r"(rank), "f"(v)
               : "memory");
}
