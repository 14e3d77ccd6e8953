// The threads of one block as fibers of one operating-system thread: barriers, warp operations and shared memory with
// CUDA's semantics. Not thread-safe: each launch thread has its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include <boost/context/detail/fcontext.hpp>

#include "config/base/error.hpp"
#include "sandbox/cpu/dialect/abi.hpp"
#include "sandbox/cpu/runtime/memory_lock.hpp"
#include "sandbox/cpu/runtime/tile_transfers.hpp"

namespace cudal1 {

inline constexpr int max_block_threads = 1024;
inline constexpr int64_t max_shared_bytes = 227 << 10;
inline constexpr int max_cluster_blocks = 8;

class block_fibers;

enum class fiber_state : uint8_t {
  ready,
  at_barrier,
  at_cluster_barrier,
  at_transfer_barrier,
  at_warp_operation,
  at_active_mask,
  exited
};

// The blocks that run together, in the order of their ranks; the first one's table of variables serves all. All blocks
// of a cooperative launch, or those of a cluster.
struct block_cluster {
  std::span<block_fibers* const> blocks;
  bool is_grid = false;  // then each block is a cluster of its own
  int arrived = 0;       // threads at the barrier of these blocks
};

// An asynchronous copy that its thread has not waited for.
struct pending_copy {
  char* to;
  const char* from;  // null: zeros
  std::size_t bytes;
  int group;
};

// Columns of a transposed b that lie side by side in shared memory, and the bytes to the next ones.
inline constexpr std::size_t warpgroup_strip = 64, warpgroup_strip_bytes = 64 * 128;

// A thread's part of a product of its warpgroup, that it has not waited for: see warpgroup_mma_* in the dialect.
struct pending_product {
  float* sums;
  const char *a, *b;
  int columns;
  bool add;
  cudal1_warp_operation type;  // cudal1_warp_mma_half or _bfloat16
  bool transposed;             // b is rows of its columns
  int group;
  std::optional<cudal1_quads> quads;  // where these are the operands, not a and b
};

// A box that its thread stores and has not waited for.
struct pending_store {
  tile what;
  int group;
};

struct block_fiber {
  explicit block_fiber(std::pmr::memory_resource* memory) : copies(memory), products(memory), stores(memory) {}

  block_fibers* owner = nullptr;
  boost::context::detail::fcontext_t context = nullptr;
  cudal1_fiber_start start{};
  int index = 0;  // in the block
  fiber_state state = fiber_state::exited;
  // Arguments and result of the operation that it waits in.
  int operation = 0;
  int predicate = 0;
  int source_lane = 0;
  unsigned mask = 0;
  uint64_t value = 0;
  uint64_t result = 0;
  std::pmr::vector<pending_copy> copies;       // in order
  int groups = 0;                              // of copies, that it has closed
  std::pmr::vector<pending_product> products;  // in order
  int product_groups = 0;                      // that it has closed
  std::pmr::vector<pending_store> stores;      // in order
  int store_groups = 0;                        // that it has closed
  const void* transfer = nullptr;              // the barrier that it waits at, for the phase of that parity
  int parity = 0;
};

class block_fibers {
 public:
  using entry_point = void (*)(const cudal1_fiber_start*);

  // Of blocks of at most that many threads. `memory`: for what it keeps about them.
  block_fibers(int threads, char* stacks, char* shared_memory, std::span<std::byte> memory);
  block_fibers(const block_fibers&) = delete;
  block_fibers& operator=(const block_fibers&) = delete;

  // Runs all threads of one block to their ends. A barrier that can never complete is a kernel fault.
  void run_block(entry_point entry, const cudal1_launch& launch, const unsigned block[3], int64_t dynamic_bytes);
  // Runs the blocks of one cluster, taking turns: places[i] is that of the grid's block that cluster.blocks[i]
  // runs.
  static void run_cluster(block_cluster& cluster, entry_point entry, const cudal1_launch& launch,
                          std::span<const std::array<unsigned, 3>> places, int64_t dynamic_bytes);
  // Of what it keeps: kernels may use it while others are closed to them.
  std::pmr::memory_resource* memory() { return &pool_; }

  // For the runtime functions, called on a fiber.
  int barrier(block_fiber& f, int operation, int predicate);
  uint64_t warp(block_fiber& f, int operation, unsigned mask, uint64_t value, int lane);
  unsigned active_mask(block_fiber& f);
  // A copy is made as late as it may be, when it is waited for, and until then its target holds no useful value: a
  // kernel that reads too early is wrong, and so is one that has others still read what the copy overwrites.
  void copy(block_fiber& f, char* to, const char* from, int bytes, bool real);
  void wait_for_copies(block_fiber& f, int groups);
  // Begins a product of a warpgroup: its operands are read, and its sums written, when it is waited for.
  void multiply(block_fiber& f, pending_product p);
  void wait_for_products(block_fiber& f, int groups);
  // Barriers of transfers, and boxes of tensors, with the same rule: a load is made when its phase is waited for, a
  // store when its group is. A fault where a thread ends before it has waited for its stores.
  void transfer(block_fiber& f, const void* barrier, cudal1_transfer_operation operation, int value);
  void move_tile(block_fiber& f, tile t, const void* barrier, int dimensions);
  static void wait_for_stores(block_fiber& f, int groups);
  void* shared(int site, const char* instance, std::size_t bytes, std::size_t alignment);
  unsigned cluster_rank() const;
  unsigned cluster_size() const { return cluster_->is_grid ? 1 : static_cast<unsigned>(cluster_->blocks.size()); }
  void* cluster_address(const void* shared, std::size_t bytes, unsigned rank) const;

 private:
  struct shared_variable {
    int site;
    const char* instance;
    std::size_t offset;  // in the shared memory of each block of the cluster
  };

  static void fiber_main(boost::context::detail::transfer_t from);
  void prepare(block_fiber& f, int index, const cudal1_launch& launch, const unsigned block[3]);
  void begin(block_cluster& cluster, entry_point entry, const cudal1_launch& launch, const unsigned block[3],
             int64_t dynamic_bytes);
  void wait();
  void resume_ready();
  void complete_cluster_barrier();
  void wake_at_transfers();
  void make_ready(block_fiber& f);
  void exited(block_fiber& f);
  void complete_barrier();
  void complete_warp(int warp, unsigned mask);
  void complete_whole_warp(const block_fiber* first, unsigned lanes, int operation) const;
  bool is_shared(const void* address, std::size_t bytes) const;
  bool release_active_masks();
  unsigned lanes_of(int warp) const;  // that exist and have not exited
  [[noreturn]] void deadlock() const;

  std::pmr::monotonic_buffer_resource buffer_;
  std::pmr::unsynchronized_pool_resource pool_;
  char* stacks_ = nullptr;
  char* shared_memory_ = nullptr;
  std::size_t dynamic_bytes_ = 0, shared_used_ = 0;
  std::pmr::vector<shared_variable> variables_;
  transfer_barriers transfers_;
  std::pmr::vector<block_fiber> fibers_;
  std::pmr::vector<int> ready_;  // a ring of as many entries
  std::size_t ready_first_ = 0, ready_count_ = 0;
  block_cluster* cluster_ = nullptr;  // during a block
  int count_ = 0, exited_ = 0, arrived_ = 0;
  bool backwards_ = false;  // this block's threads run in reverse order
  int turn(int i) const { return backwards_ ? count_ - 1 - i : i; }
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  entry_point entry_ = nullptr;
};

// The memory of block_fibers: the object and what it keeps, the stacks, the shared memory. A kernel can write to all of
// it, so what is needed to overwrite it stands here.
class block_memory {
 public:
  // Maps a stack of 64 KiB with a guard page for each thread of a block of at most that many, and the shared memory.
  // Errors: infrastructure.
  static expected<std::unique_ptr<block_memory>> create(int threads = max_block_threads);
  ~block_memory();
  block_memory(const block_memory&) = delete;
  block_memory& operator=(const block_memory&) = delete;

  // For a launch whose blocks have that many threads.
  block_fibers& fibers_for(int threads);
  // Overwrites what earlier launches left: a new object, poison on the stacks that were used and in shared memory. Not
  // during a launch.
  void forget();
  std::array<memory_range, 3> ranges() const;

 private:
  block_memory() = default;
  std::span<std::byte> kept() const;
  void make_fibers();

  int threads_ = 0;
  int used_ = 0;  // stacks that a thread ran on since forget()
  char* kept_ = nullptr;
  char* stacks_ = nullptr;
  char* shared_memory_ = nullptr;
};

}  // namespace cudal1
