#include "sandbox/cpu/runtime/block_fibers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <tuple>

#include <sys/mman.h>

#include "sandbox/cpu/runtime/kernel_fault.hpp"
#include "sandbox/cpu/runtime/warp_matrices.hpp"

namespace cudal1 {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t page = 4096;
constexpr std::size_t stack_bytes = std::size_t{64} << 10;
constexpr std::size_t slot_bytes = stack_bytes + page;
// At most: records, operations under way.
constexpr std::size_t kept_bytes_of_block = std::size_t{256} << 10, kept_bytes_of_thread = std::size_t{32} << 10;
// Uninitialised shared memory must not look like zeros.
constexpr int shared_poison = 0xff;

// The result that all lanes get: of a ballot, a vote or a reduction.
uint64_t reduce_warp(const block_fiber* first, unsigned lanes, int operation) {
  uint64_t ballot = 0;
  uint32_t result = 0;
  bool begun = false;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const auto v = static_cast<uint32_t>(first[lane].value);
    if (v != 0) ballot |= uint64_t{1} << lane;
    if (!begun) {
      result = v;
      begun = true;
      continue;
    }
    const auto left = static_cast<int32_t>(result), right = static_cast<int32_t>(v);
    switch (operation) {
      case cudal1_warp_add:
        result += v;
        break;
      case cudal1_warp_min_signed:
        result = static_cast<uint32_t>(std::min(left, right));
        break;
      case cudal1_warp_max_signed:
        result = static_cast<uint32_t>(std::max(left, right));
        break;
      case cudal1_warp_min_unsigned:
        result = std::min(result, v);
        break;
      case cudal1_warp_max_unsigned:
        result = std::max(result, v);
        break;
      case cudal1_warp_and:
        result &= v;
        break;
      case cudal1_warp_or:
        result |= v;
        break;
      case cudal1_warp_xor:
        result ^= v;
        break;
      default:
        break;
    }
  }
  switch (operation) {
    case cudal1_warp_ballot:
      return ballot;
    case cudal1_warp_any:
      return ballot != 0;
    case cudal1_warp_all:
      return ballot == lanes;
    default:
      return result;
  }
}

uint64_t matching_lanes(const block_fiber* first, unsigned lanes, uint64_t value) {
  uint64_t matching = 0;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1)
    if (first[std::countr_zero(rest)].value == value) matching |= uint64_t{1} << std::countr_zero(rest);
  return matching;
}

// What block_fibers keep is limited, since it is in memory that a kernel's launch has to itself.
class out_of_kept_memory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t, std::size_t) override {
    kernel_fault("the threads of a block have too many asynchronous operations under way");
  }
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};
std::pmr::memory_resource* no_more_memory() {
  static out_of_kept_memory none;
  return &none;
}

char* map(std::size_t bytes, int protection) {
  void* p = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

}  // namespace

expected<std::unique_ptr<block_memory>> block_memory::create(int threads) {
  const auto count = static_cast<std::size_t>(threads);
  std::unique_ptr<block_memory> made(new block_memory);
  made->threads_ = threads;
  // Guard pages: below each stack, and below and above the shared memory.
  made->stacks_ = map(slot_bytes * count, PROT_NONE);
  made->shared_memory_ = map(max_shared_bytes + 2 * page, PROT_NONE);
  made->kept_ = map(made->kept().size(), PROT_READ | PROT_WRITE);
  bool ok = made->stacks_ != nullptr && made->shared_memory_ != nullptr && made->kept_ != nullptr;
  for (std::size_t i = 0; ok && i < count; ++i)
    ok = ::mprotect(made->stacks_ + i * slot_bytes + page, stack_bytes, PROT_READ | PROT_WRITE) == 0;
  ok = ok && ::mprotect(made->shared_memory_ + page, max_shared_bytes, PROT_READ | PROT_WRITE) == 0;
  if (!ok) return fail(errc::infrastructure, "cannot map the stacks of a block's threads: {}", std::strerror(errno));
  made->make_fibers();
  return made;
}

block_memory::~block_memory() {
  if (stacks_ != nullptr) ::munmap(stacks_, slot_bytes * static_cast<std::size_t>(threads_));
  if (shared_memory_ != nullptr) ::munmap(shared_memory_, max_shared_bytes + 2 * page);
  if (kept_ != nullptr) ::munmap(kept_, kept().size());
}

std::span<std::byte> block_memory::kept() const {
  return {reinterpret_cast<std::byte*>(kept_),
          kept_bytes_of_block + kept_bytes_of_thread * static_cast<std::size_t>(threads_)};
}

// The last object is not destroyed: it owns nothing but this memory, and a kernel may have changed it.
void block_memory::make_fibers() {
  new (kept_) block_fibers(threads_, stacks_, shared_memory_, kept().subspan(sizeof(block_fibers)));
}

block_fibers& block_memory::fibers_for(int threads) {
  used_ = std::max(used_, threads);
  return *std::launder(reinterpret_cast<block_fibers*>(kept_));
}

std::array<memory_range, 3> block_memory::ranges() const {
  return {memory_range::of(kept_, kept().size()),
          memory_range::of(stacks_, slot_bytes * static_cast<std::size_t>(threads_)),
          memory_range::of(shared_memory_, max_shared_bytes + 2 * page)};
}

// The top page of a stack and the first part of what is kept, which is all that most kernels use, are overwritten; the
// rest is dropped.
void block_memory::forget() {
  constexpr std::size_t usual = std::size_t{1} << 20;
  if (used_ == 0) return;
  for (int i = 0; i < used_; ++i) {
    char* const top = stacks_ + (static_cast<std::size_t>(i) + 1) * slot_bytes;
    (void)::madvise(top - stack_bytes, stack_bytes - page, MADV_DONTNEED);
    std::memset(top - page, shared_poison, page);
  }
  used_ = 0;
  std::memset(shared_memory_ + page, shared_poison, static_cast<std::size_t>(max_shared_bytes));
  std::memset(kept_, 0, std::min(usual, kept().size()));
  if (kept().size() > usual) (void)::madvise(kept_ + usual, kept().size() - usual, MADV_DONTNEED);
  make_fibers();
}

block_fibers::block_fibers(int threads, char* stacks, char* shared_memory, std::span<std::byte> memory)
    : buffer_(memory.data(), memory.size(), no_more_memory()),
      pool_(&buffer_),
      stacks_(stacks),
      shared_memory_(shared_memory),
      variables_(&pool_),
      transfers_(&pool_),
      fibers_(&buffer_),
      ready_(static_cast<std::size_t>(threads), &buffer_) {
  fibers_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i)
    fibers_.emplace_back(&pool_);
}

void block_fibers::prepare(block_fiber& f, int index, const cudal1_launch& launch, const unsigned block[3]) {
  const auto bx = static_cast<unsigned>(launch.block[0]), by = static_cast<unsigned>(launch.block[1]);
  const auto i = static_cast<unsigned>(index);
  f.copies.clear();
  f.products.clear();
  f.stores.clear();
  f.groups = f.product_groups = f.store_groups = 0;
  f.owner = this;
  f.index = index;
  f.start.launch = &launch;
  f.start.thread[0] = i % bx;
  f.start.thread[1] = i / bx % by;
  f.start.thread[2] = i / bx / by;
  std::copy_n(block, 3, f.start.block);
  f.start.dynamic_shared = shared_memory_ + page;
  f.start.fiber = &f;
  char* const top = stacks_ + (static_cast<std::size_t>(index) + 1) * slot_bytes;
  f.context = make_fcontext(top, stack_bytes, &block_fibers::fiber_main);
  make_ready(f);
}

void block_fibers::run_block(entry_point entry, const cudal1_launch& launch, const unsigned block[3],
                             int64_t dynamic_bytes) {
  block_fibers* const self = this;
  block_cluster alone{{&self, 1}};
  begin(alone, entry, launch, block, dynamic_bytes);
  while (exited_ < count_) {
    if (ready_count_ > 0)
      resume_ready();
    else if (!release_active_masks())
      deadlock();
  }
}

void block_fibers::run_cluster(block_cluster& cluster, entry_point entry, const cudal1_launch& launch,
                               std::span<const std::array<unsigned, 3>> places, int64_t dynamic_bytes) {
  for (std::size_t i = 0; i < cluster.blocks.size(); ++i)
    cluster.blocks[i]->begin(cluster, entry, launch, places[i].data(), dynamic_bytes);
  while (true) {
    block_fibers* waiting = nullptr;
    bool progress = false;
    for (auto* const b : cluster.blocks) {
      progress = progress || b->ready_count_ > 0;
      while (b->ready_count_ > 0)
        b->resume_ready();
      if (b->exited_ < b->count_) waiting = b;
    }
    if (waiting == nullptr) return;
    if (progress) continue;
    for (auto* const b : cluster.blocks)
      progress = b->release_active_masks() || progress;
    if (!progress) waiting->deadlock();
  }
}

void block_fibers::begin(block_cluster& cluster, entry_point entry, const cudal1_launch& launch,
                         const unsigned block[3], int64_t dynamic_bytes) {
  cluster_ = &cluster;
  entry_ = entry;
  count_ = launch.block[0] * launch.block[1] * launch.block[2];
  // Every other block runs its threads in reverse order, which shows races that the usual order hides. They are the
  // same blocks at every call, so that a sum by atomics has the same bits each time.
  backwards_ = ((block[0] + block[1] + block[2]) & 1) == 0;
  exited_ = arrived_ = 0;
  ready_first_ = ready_count_ = 0;
  dynamic_bytes_ = static_cast<std::size_t>(dynamic_bytes);
  shared_used_ = dynamic_bytes_;
  variables_.clear();
  transfers_.clear();
  std::memset(shared_memory_ + page, shared_poison, dynamic_bytes_);
  for (int i = 0; i < count_; ++i)
    prepare(fibers_[static_cast<std::size_t>(turn(i))], turn(i), launch, block);
}

void block_fibers::fiber_main(transfer_t from) {
  auto& f = *static_cast<block_fiber*>(from.data);
  auto& owner = *f.owner;
  owner.scheduler_ = from.fctx;
  owner.entry_(&f.start);
  owner.exited(f);
  jump_fcontext(owner.scheduler_, nullptr);
}

void block_fibers::resume_ready() {
  auto& f = fibers_[static_cast<std::size_t>(ready_[ready_first_])];
  ready_first_ = (ready_first_ + 1) % ready_.size();
  --ready_count_;
  const transfer_t back = jump_fcontext(f.context, &f);
  f.context = back.fctx;
}

// Suspends the running fiber until it is ready and the scheduler resumes it.
void block_fibers::wait() {
  const transfer_t from = jump_fcontext(scheduler_, nullptr);
  scheduler_ = from.fctx;
}

void block_fibers::make_ready(block_fiber& f) {
  f.state = fiber_state::ready;
  ready_[(ready_first_ + ready_count_++) % ready_.size()] = f.index;
}

// Current GPUs count a thread that has ended as arrived, at barriers and in warp operations.
void block_fibers::exited(block_fiber& f) {
  if (!f.stores.empty())
    kernel_fault("thread {} of a block ends before it has waited for the tiles that it stores", f.index);
  f.state = fiber_state::exited;
  ++exited_;
  if (arrived_ > 0 && arrived_ + exited_ == count_) complete_barrier();
  complete_cluster_barrier();
  const int warp = f.index / 32;
  for (int i = warp * 32; i < std::min(count_, warp * 32 + 32); ++i) {
    const auto& other = fibers_[static_cast<std::size_t>(i)];
    if (other.state == fiber_state::at_warp_operation) complete_warp(warp, other.mask);
  }
}

int block_fibers::barrier(block_fiber& f, int operation, int predicate) {
  f.operation = operation;
  f.predicate = predicate;
  if (operation == cudal1_barrier_grid && !cluster_->is_grid)
    kernel_fault("grid_sync in a launch that is not a cooperative one");
  if (operation == cudal1_barrier_grid || (operation == cudal1_barrier_cluster && !cluster_->is_grid)) {
    f.state = fiber_state::at_cluster_barrier;
    ++cluster_->arrived;
    complete_cluster_barrier();
    wait();
    return 0;
  }
  f.state = fiber_state::at_barrier;
  if (++arrived_ + exited_ == count_) complete_barrier();
  wait();
  return static_cast<int>(f.result);
}

void block_fibers::complete_barrier() {
  int sum = 0, waiting = 0;
  for (int i = 0; i < count_; ++i) {
    const auto& f = fibers_[static_cast<std::size_t>(i)];
    if (f.state != fiber_state::at_barrier) continue;
    ++waiting;
    sum += f.predicate;
  }
  for (int i = 0; i < count_; ++i) {
    auto& f = fibers_[static_cast<std::size_t>(turn(i))];
    if (f.state != fiber_state::at_barrier) continue;
    f.result = f.operation == cudal1_barrier_and  ? static_cast<uint64_t>(sum == waiting)
               : f.operation == cudal1_barrier_or ? static_cast<uint64_t>(sum > 0)
                                                  : static_cast<uint64_t>(sum);
    make_ready(f);
  }
  arrived_ = 0;
}

// When all threads of the blocks that run together and have not exited wait at it.
void block_fibers::complete_cluster_barrier() {
  if (cluster_->arrived == 0) return;
  int missing = -cluster_->arrived;
  for (const auto* const b : cluster_->blocks) {
    if (cluster_->is_grid && b->exited_ == b->count_) return;  // a block that has ended never arrives
    missing += b->count_ - b->exited_;
  }
  if (missing > 0) return;
  cluster_->arrived = 0;
  for (auto* const b : cluster_->blocks)
    for (int i = 0; i < b->count_; ++i) {
      auto& f = b->fibers_[static_cast<std::size_t>(b->turn(i))];
      if (f.state == fiber_state::at_cluster_barrier) b->make_ready(f);
    }
}

unsigned block_fibers::cluster_rank() const {
  if (cluster_->is_grid) return 0;
  return static_cast<unsigned>(std::find(cluster_->blocks.begin(), cluster_->blocks.end(), this) -
                               cluster_->blocks.begin());
}

void* block_fibers::cluster_address(const void* shared, std::size_t bytes, unsigned rank) const {
  if (rank >= cluster_size())
    kernel_fault("load_cluster or store_cluster names block {} of a cluster of {}", rank, cluster_size());
  if (!is_shared(shared, bytes)) kernel_fault("load_cluster or store_cluster: the address is not in shared memory");
  const auto& other = cluster_->is_grid ? *this : *cluster_->blocks[rank];
  if (other.exited_ == other.count_)
    kernel_fault("load_cluster or store_cluster: block {} of the cluster has ended", rank);
  return other.shared_memory_ + (static_cast<const char*>(shared) - shared_memory_);
}

unsigned block_fibers::lanes_of(int warp) const {
  unsigned lanes = 0;
  for (int i = warp * 32; i < std::min(count_, warp * 32 + 32); ++i)
    if (fibers_[static_cast<std::size_t>(i)].state != fiber_state::exited) lanes |= 1u << (i % 32);
  return lanes;
}

uint64_t block_fibers::warp(block_fiber& f, int operation, unsigned mask, uint64_t value, int lane) {
  if ((mask >> (f.index % 32) & 1u) == 0)
    kernel_fault("thread {} of a block calls a warp operation with the mask {:#x}, which leaves out its own lane {}",
                 f.index, mask, f.index % 32);
  f.operation = operation;
  f.mask = mask;
  f.value = value;
  f.source_lane = lane;
  f.state = fiber_state::at_warp_operation;
  complete_warp(f.index / 32, mask);
  wait();
  return f.result;
}

// Releases the lanes of `mask` when all of them that have not exited wait with that mask.
void block_fibers::complete_warp(int warp, unsigned mask) {
  block_fiber* const first = &fibers_[static_cast<std::size_t>(warp) * 32];
  const unsigned lanes = lanes_of(warp) & mask;
  int operation = -1;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    const auto& f = first[std::countr_zero(rest)];
    if (f.state != fiber_state::at_warp_operation || f.mask != mask) return;
    if (operation >= 0 && f.operation != operation)
      kernel_fault("lanes of one warp meet in different warp operations with the same mask");
    operation = f.operation;
  }
  if (operation >= cudal1_warp_mma_tf32) complete_whole_warp(first, lanes, operation);
  const uint64_t common = reduce_warp(first, lanes, operation);
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    auto& f = first[std::countr_zero(rest)];
    f.result = common;
    if (operation == cudal1_warp_shuffle)
      // The value of a lane that does not take part is undefined: return an obviously wrong one.
      f.result = (lanes >> (f.source_lane & 31) & 1u) != 0 ? first[f.source_lane & 31].value : ~uint64_t{0};
    if (operation == cudal1_warp_match_any) f.result = matching_lanes(first, lanes, f.value);
  }
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1)
    make_ready(first[std::countr_zero(rest)]);
}

// The parts of all lanes are local variables of theirs, which wait in this operation.
void block_fibers::complete_whole_warp(const block_fiber* first, unsigned lanes, int operation) const {
  if (lanes != 0xffffffffu)
    kernel_fault("mma or load_matrix by a warp that has only the lanes {:#x}: all 32 must take part", lanes);
  const auto parts = [first]<class Part>(const Part*) {
    std::array<const Part*, warp_lanes> all{};
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = std::bit_cast<const Part*>(first[i].value);
    return all;
  };
  if (operation == cudal1_warp_mma_tf32) return multiply_tf32(parts(static_cast<const cudal1_product_part*>(nullptr)));
  if (operation == cudal1_warp_mma_half || operation == cudal1_warp_mma_bfloat16)
    return multiply_half_types(parts(static_cast<const cudal1_product_part*>(nullptr)),
                               static_cast<cudal1_warp_operation>(operation));
  const auto loads = parts(static_cast<const cudal1_load_part*>(nullptr));
  const bool two = operation == cudal1_warp_load_x2 || operation == cudal1_warp_load_x2_transposed;
  for (std::size_t i = 0; i < (two ? 16u : 32u); ++i) {
    if (!is_shared(loads[i]->row, 16))
      kernel_fault("load_matrix: the row that lane {} names is not in shared memory", i);
    if (reinterpret_cast<uintptr_t>(loads[i]->row) % 16 != 0)
      kernel_fault("load_matrix: the address of lane {}'s row is no multiple of 16", i);
  }
  load_matrices(loads, two ? 2 : 4,
                operation == cudal1_warp_load_x2_transposed || operation == cudal1_warp_load_x4_transposed);
}

bool block_fibers::is_shared(const void* address, std::size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(shared_memory_ + page);
  return at >= begin && at + bytes <= begin + shared_used_;
}

void block_fibers::copy(block_fiber& f, char* to, const char* from, int bytes, bool real) {
  constexpr std::size_t most = 1 << 14;
  const auto size = static_cast<std::size_t>(bytes);
  if (bytes != 4 && bytes != 8 && bytes != 16) kernel_fault("copy_async of {} bytes", bytes);
  if (!is_shared(to, size)) kernel_fault("copy_async<{}>: the target is not in shared memory", bytes);
  if (reinterpret_cast<uintptr_t>(to) % size != 0 || (real && reinterpret_cast<uintptr_t>(from) % size != 0))
    kernel_fault("copy_async<{0}>: an address is no multiple of {0}", bytes);
  if (f.copies.size() == most) kernel_fault("a thread has {} asynchronous copies under way and waits for none", most);
  std::memset(to, shared_poison, size);
  f.copies.push_back({to, real ? from : nullptr, size, f.groups});
}

void block_fibers::wait_for_copies(block_fiber& f, int groups) {
  auto done = f.copies.begin();
  for (; done != f.copies.end() && done->group < f.groups - groups; ++done) {
    if (done->from == nullptr)
      std::memset(done->to, 0, done->bytes);
    else
      std::memcpy(done->to, done->from, done->bytes);
  }
  f.copies.erase(f.copies.begin(), done);
}

void block_fibers::multiply(block_fiber& f, pending_product p) {
  constexpr std::size_t most = 1 << 10, row = 128, tile = 1024;
  const auto columns = static_cast<std::size_t>(p.columns);
  const auto check_rows = [&](const char* first, std::size_t rows, char name) {
    const auto within = reinterpret_cast<uintptr_t>(first) % tile;
    if (within % 32 != 0 || within >= row)
      kernel_fault("warpgroup_mma: {} is {} bytes from a multiple of {}, not 0, 32, 64 or 96", name, within, tile);
    if (!is_shared(first - within, rows * row))
      kernel_fault("warpgroup_mma: the {} rows of {} are not in shared memory", rows, name);
  };
  const auto check_quads = [&](const float* first, std::size_t rows, int step, int eight_rows, char name) {
    const auto* at = reinterpret_cast<const char*>(first);
    if ((reinterpret_cast<uintptr_t>(at) | static_cast<unsigned>(step) | static_cast<unsigned>(eight_rows)) % 16 != 0)
      kernel_fault("warpgroup_mma: a place or step of {} is not at a multiple of 16 bytes", name);
    const auto octets = (rows / 8 - 1) * static_cast<std::size_t>(eight_rows);
    if (step < 0 || eight_rows < 0 || !is_shared(at, octets + static_cast<std::size_t>(step) + 128))
      kernel_fault("warpgroup_mma: the {} rows of {} are not in shared memory", rows, name);
  };
  if (!p.quads) check_rows(p.a, 64, 'a');
  if (p.quads) {
    check_quads(p.quads->a, 64, p.quads->a_step, p.quads->a_rows, 'a');
    check_quads(p.quads->b, columns, p.quads->b_step, 128, 'b');
  } else if (!p.transposed) {
    check_rows(p.b, columns, 'b');
  } else {
    const auto within = reinterpret_cast<uintptr_t>(p.b) % tile;
    if (within != 0) kernel_fault("warpgroup_mma: b is {} bytes from a multiple of {}", within, tile);
    if (!is_shared(p.b, (columns / warpgroup_strip - 1) * warpgroup_strip_bytes + 16 * row))
      kernel_fault("warpgroup_mma: the 16 rows of b's {} columns are not in shared memory", columns);
  }
  if (f.products.size() == most) kernel_fault("a thread has {} products under way and waits for none", most);
  p.group = f.product_groups;
  f.products.push_back(p);
}

void block_fibers::wait_for_products(block_fiber& f, int groups) {
  auto done = f.products.begin();
  for (; done != f.products.end() && done->group < f.product_groups - groups; ++done)
    multiply_of_warpgroup(*done, f.index % 128);
  f.products.erase(f.products.begin(), done);
}

void block_fibers::transfer(block_fiber& f, const void* barrier, cudal1_transfer_operation operation, int value) {
  if (!is_shared(barrier, 8) || reinterpret_cast<uintptr_t>(barrier) % 8 != 0)
    kernel_fault("a transfer's barrier is not 8 bytes of shared memory at a multiple of 8");
  switch (operation) {
    case cudal1_transfer_init:
      return transfers_.init(barrier, value);
    case cudal1_transfer_arrive:
      transfers_.arrive(barrier, value);
      return wake_at_transfers();
    case cudal1_transfer_wait:
      if (transfers_.ended(barrier, value)) return;
      f.transfer = barrier;
      f.parity = value;
      f.state = fiber_state::at_transfer_barrier;
      return wait();
  }
}

void block_fibers::wake_at_transfers() {
  for (int i = 0; i < count_; ++i) {
    auto& f = fibers_[static_cast<std::size_t>(turn(i))];
    if (f.state == fiber_state::at_transfer_barrier && transfers_.ended(f.transfer, f.parity)) make_ready(f);
  }
}

void block_fibers::move_tile(block_fiber& f, tile t, const void* barrier, int dimensions) {
  constexpr std::size_t most = 1 << 10;
  const char* const name = barrier != nullptr ? "load_tile" : "store_tile";
  if (!t.is_sound()) kernel_fault("{}: the tensor map is none that a launch has passed", name);
  if (dimensions != t.map.dimensions)
    kernel_fault("{} with {} coordinates of a map of {} dimensions", name, dimensions, t.map.dimensions);
  if (!is_shared(t.shared, t.bytes()))
    kernel_fault("{}: the box of {} bytes does not lie in shared memory", name, t.bytes());
  if (reinterpret_cast<uintptr_t>(t.shared) % t.alignment() != 0)
    kernel_fault("{}: the address in shared memory is no multiple of {}", name, t.alignment());
  if (barrier == nullptr) {
    if (f.stores.size() == most) kernel_fault("a thread has {} tiles under way and waits for none", most);
    f.stores.push_back({t, f.store_groups});
    return;
  }
  std::memset(t.shared, shared_poison, t.bytes());
  transfers_.load(barrier, t);
  wake_at_transfers();
}

void block_fibers::wait_for_stores(block_fiber& f, int groups) {
  auto done = f.stores.begin();
  for (; done != f.stores.end() && done->group < f.store_groups - groups; ++done)
    done->what.store();
  f.stores.erase(f.stores.begin(), done);
}

unsigned block_fibers::active_mask(block_fiber& f) {
  f.state = fiber_state::at_active_mask;
  wait();
  return static_cast<unsigned>(f.result);
}

// Lanes of a warp that asked for the active mask count as converged when no thread of the block can run any more: the
// largest set that a GPU's scheduler could make converge.
bool block_fibers::release_active_masks() {
  bool released = false;
  for (int warp = 0; warp * 32 < count_; ++warp) {
    unsigned lanes = 0;
    const int last = std::min(count_, warp * 32 + 32);
    for (int i = warp * 32; i < last; ++i)
      if (fibers_[static_cast<std::size_t>(i)].state == fiber_state::at_active_mask) lanes |= 1u << (i % 32);
    for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
      auto& f = fibers_[static_cast<std::size_t>(warp * 32 + std::countr_zero(rest))];
      f.result = lanes;
      make_ready(f);
    }
    released = released || lanes != 0;
  }
  return released;
}

void* block_fibers::shared(int site, const char* instance, std::size_t bytes, std::size_t alignment) {
  auto& known = cluster_->blocks.front()->variables_;
  for (const auto& v : known)
    if (v.site == site && v.instance == instance) return shared_memory_ + page + v.offset;
  const std::size_t step = std::max<std::size_t>(alignment, 16);
  const std::size_t begin = (shared_used_ + step - 1) / step * step;
  if (begin + bytes > static_cast<std::size_t>(max_shared_bytes))
    kernel_fault("a block needs more than {} bytes of shared memory ({} dynamic)", max_shared_bytes, dynamic_bytes_);
  for (auto* const b : cluster_->blocks) {
    std::memset(b->shared_memory_ + page + begin, shared_poison, bytes);
    b->shared_used_ = begin + bytes;
  }
  known.push_back({site, instance, begin});
  return shared_memory_ + page + begin;
}

void block_fibers::deadlock() const {
  memory_lock::reopen();
  int at_barrier = 0, at_cluster_barrier = 0, at_transfer_barrier = 0, at_warp_operation = 0;
  const block_fiber* example = nullptr;
  for (int i = 0; i < count_; ++i) {
    const auto& f = fibers_[static_cast<std::size_t>(i)];
    at_barrier += f.state == fiber_state::at_barrier ? 1 : 0;
    at_cluster_barrier += f.state == fiber_state::at_cluster_barrier ? 1 : 0;
    at_transfer_barrier += f.state == fiber_state::at_transfer_barrier ? 1 : 0;
    at_warp_operation += f.state == fiber_state::at_warp_operation ? 1 : 0;
    if (example == nullptr && f.state == fiber_state::at_warp_operation) example = &f;
  }
  const auto& block = fibers_[0].start.block;
  std::string text = fmt::format(
      "deadlock in block ({}, {}, {}): of {} threads {} wait at __syncthreads, {} in warp operations "
      "and {} have ended",
      block[0], block[1], block[2], count_, at_barrier, at_warp_operation, exited_);
  if (at_cluster_barrier > 0)
    text += fmt::format("; {} wait at {}", at_cluster_barrier,
                        cluster_->is_grid ? "grid_sync, which all blocks of the launch must reach" : "cluster_sync");
  if (at_transfer_barrier > 0)
    text += fmt::format("; {} wait at transfer_wait, for arrivals or for bytes that no load_tile brings",
                        at_transfer_barrier);
  if (example != nullptr)
    text += fmt::format("; thread {} waits for the lanes {:#x} of its warp", example->index, example->mask);
  end_process(text);
}

}  // namespace cudal1
