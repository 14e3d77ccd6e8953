#include "sandbox/cpu/runtime/kernel_fault.hpp"

#include <cstdlib>

#include <unistd.h>

#include "sandbox/cpu/dialect/abi.hpp"
#include "sandbox/cpu/runtime/block_fibers.hpp"

namespace cudal1 {

void end_process(std::string_view message) {
  const std::string line = fmt::format("kernel fault: {}\n", message);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());

  std::abort();
}

}  // namespace cudal1

// The only functions of ours that kernels call. `fiber` comes from cudal1_fiber_start; native code could forge it, as
// it could write to any memory of this process. The confinement of the process protects the system, not these
// functions.
#pragma GCC visibility push(default)

int cudal1_rt_barrier(void* fiber, int operation, int predicate) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  return f.owner->barrier(f, operation, predicate);
}

unsigned long long cudal1_rt_warp(void* fiber, int operation, unsigned mask, unsigned long long value, int lane) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  return f.owner->warp(f, operation, mask, value, lane);
}

unsigned cudal1_rt_active_mask(void* fiber) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  return f.owner->active_mask(f);
}

void cudal1_rt_copy(void* fiber, void* shared, const void* global, int bytes, int real) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  f.owner->copy(f, static_cast<char*>(shared), static_cast<const char*>(global), bytes, real != 0);
}

void cudal1_rt_copy_commit(void* fiber) {
  ++static_cast<cudal1::block_fiber*>(fiber)->groups;
}

void cudal1_rt_copy_wait(void* fiber, int groups) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  f.owner->wait_for_copies(f, groups);
}

void cudal1_rt_group_mma(void* fiber, float* d, const void* a, const void* b, int columns, int add, int type,
                         int transposed) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  f.owner->multiply(f, {d, static_cast<const char*>(a), static_cast<const char*>(b), columns, add != 0,
                        static_cast<cudal1_warp_operation>(type), transposed != 0, 0, std::nullopt});
}

void cudal1_rt_group_mma_quads(void* fiber, float* d, const cudal1_quads* of, int columns) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  f.owner->multiply(f, {d, nullptr, nullptr, columns, true, cudal1_warp_mma_tf32, false, 0, *of});
}

void cudal1_rt_group_commit(void* fiber) {
  ++static_cast<cudal1::block_fiber*>(fiber)->product_groups;
}

void cudal1_rt_group_wait(void* fiber, int groups) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  f.owner->wait_for_products(f, groups);
}

unsigned cudal1_rt_cluster_rank(void* fiber) {
  return static_cast<cudal1::block_fiber*>(fiber)->owner->cluster_rank();
}

unsigned cudal1_rt_cluster_size(void* fiber) {
  return static_cast<cudal1::block_fiber*>(fiber)->owner->cluster_size();
}

void* cudal1_rt_cluster_address(void* fiber, const void* shared, unsigned long bytes, unsigned rank) {
  return static_cast<cudal1::block_fiber*>(fiber)->owner->cluster_address(shared, bytes, rank);
}

void cudal1_rt_transfer(void* fiber, void* barrier, int operation, int value) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  f.owner->transfer(f, barrier, static_cast<cudal1_transfer_operation>(operation), value);
}

void cudal1_rt_tile(void* fiber, const cudal1_tensor_map* map, void* shared, void* barrier, const int* place,
                    int dimensions) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  cudal1::tile t{*map, static_cast<char*>(shared), {}};
  for (int d = 0; d < dimensions && d < 5; ++d)
    t.place[static_cast<std::size_t>(d)] = place[d];
  f.owner->move_tile(f, t, barrier, dimensions);
}

void cudal1_rt_tile_commit(void* fiber) {
  ++static_cast<cudal1::block_fiber*>(fiber)->store_groups;
}

void cudal1_rt_tile_wait(void* fiber, int groups) {
  cudal1::block_fibers::wait_for_stores(*static_cast<cudal1::block_fiber*>(fiber), groups);
}

void* cudal1_rt_shared(void* fiber, int site, const char* instance, unsigned long bytes, unsigned long alignment) {
  auto& f = *static_cast<cudal1::block_fiber*>(fiber);
  return f.owner->shared(site, instance, bytes, alignment);
}

#pragma GCC visibility pop
