#include "sandbox/cpu/runtime/object_library.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/cpu/dialect/abi.hpp"
#include "sandbox/cpu/runtime/block_fibers.hpp"
#include "sandbox/cpu/runtime/kernel_fault.hpp"
#include "sandbox/cpu/runtime/launch_stack.hpp"
#include "sandbox/cpu/runtime/launch_threads.hpp"

namespace cudal1 {

namespace {

struct object_kernel : kernel_handle {
  std::string name;
  const cudal1_kernel_info* info = nullptr;
  void* entry = nullptr;
  mutable int64_t watched = 0;  // launches that ran with other memory closed
};

const object_kernel& kernel_of(const kernel_handle* kernel) {
  return *static_cast<const object_kernel*>(kernel);
}

using loop_entry = void (*)(const cudal1_launch*, long long, long long);

// What a run of a launch needs. Neither this nor what runs it uses memory that a lock closes.
struct ready_launch {
  void* entry = nullptr;
  cudal1_launch sizes{};
  int64_t blocks = 0, shared_bytes = 0;
  std::array<unsigned, 3> cluster{};
  bool is_cooperative = false;

  bool has_clusters() const { return cluster[0] * cluster[1] * cluster[2] > 1; }
  // Blocks that see each other, which run in one thread.
  bool runs_together() const { return is_cooperative || has_clusters(); }
  std::array<unsigned, 3> place_of(int64_t block) const {
    return {static_cast<unsigned>(block % sizes.grid[0]), static_cast<unsigned>(block / sizes.grid[0] % sizes.grid[1]),
            static_cast<unsigned>(block / sizes.grid[0] / sizes.grid[1])};
  }
};

void run_cooperative(const ready_launch& launch, block_fibers::entry_point entry,
                     std::span<block_fibers* const> fibers) {
  block_cluster all{fibers.first(static_cast<std::size_t>(launch.blocks)), true};
  std::pmr::vector<std::array<unsigned, 3>> places(fibers.front()->memory());
  for (int64_t b = 0; b < launch.blocks; ++b)
    places.push_back(launch.place_of(b));
  block_fibers::run_cluster(all, entry, launch.sizes, places, launch.shared_bytes);
}

// Runs the blocks of each cluster together.
void run_clusters(const ready_launch& launch, block_fibers::entry_point entry, std::span<block_fibers* const> fibers) {
  const auto [x, y, z] = launch.cluster;
  const auto count = static_cast<std::size_t>(x * y * z);
  block_cluster cluster{fibers.first(count)};
  std::array<std::array<unsigned, 3>, max_cluster_blocks> places{};
  const auto grid = [&](int i) { return static_cast<unsigned>(launch.sizes.grid[i]); };
  for (unsigned k = 0; k < grid(2); k += z)
    for (unsigned j = 0; j < grid(1); j += y)
      for (unsigned i = 0; i < grid(0); i += x) {
        for (unsigned rank = 0; rank < count; ++rank)
          places[rank] = {i + rank % x, j + rank / x % y, k + rank / x / y};
        block_fibers::run_cluster(cluster, entry, launch.sizes, std::span(places).first(count), launch.shared_bytes);
      }
}

// `fibers`: of the threads that run the launch, or of the blocks that run together; none for a loop kernel.
void run_launch(const ready_launch& launch, std::span<block_fibers* const> fibers, int64_t first, int64_t last,
                int worker) {
  if (fibers.empty()) return reinterpret_cast<loop_entry>(launch.entry)(&launch.sizes, first, last);
  const auto entry = reinterpret_cast<block_fibers::entry_point>(launch.entry);
  if (launch.is_cooperative) return run_cooperative(launch, entry, fibers);
  if (launch.has_clusters()) return run_clusters(launch, entry, fibers);
  for (int64_t b = first; b < last; ++b)
    fibers[static_cast<std::size_t>(worker)]->run_block(entry, launch.sizes, launch.place_of(b).data(),
                                                        launch.shared_bytes);
}

class loaded_library final : public kernel_library {
 public:
  loaded_library(void* handle, unique_fd file, memory_lock* lock, std::unique_ptr<launch_stack> stack)
      : handle_(handle), file_(std::move(file)), lock_(lock), stack_(std::move(stack)) {}
  ~loaded_library() override { ::dlclose(handle_); }

  expected<const kernel_handle*> find(const std::string& kernel) const override {
    const std::lock_guard lock(mutex_);
    if (const auto known = kernels_.find(kernel); known != kernels_.end()) return &known->second;
    object_kernel found;
    found.name = kernel;
    found.info = static_cast<const cudal1_kernel_info*>(::dlsym(handle_, ("cudal1_info_" + kernel).c_str()));
    found.entry = ::dlsym(handle_, ("cudal1_run_" + kernel).c_str());
    if (found.info == nullptr || found.entry == nullptr)
      return fail(errc::not_found, "the compiled object has no kernel \"{}\"", kernel);
    if (found.info->abi != cudal1_abi_version)
      return fail(errc::unsupported,
                  "kernel \"{}\" was compiled for version {} of the device header; this runtime has {}", kernel,
                  found.info->abi, static_cast<int>(cudal1_abi_version));
    return &kernels_.emplace(kernel, std::move(found)).first->second;
  }

  int parameter_count(const kernel_handle* kernel) const override { return kernel_of(kernel).info->parameters; }
  bool uses_fibers(const kernel_handle* kernel) const override {
    return kernel_of(kernel).info->kind == cudal1_fiber_kernel;
  }

  expected<void> prepare(const kernel_launch& launch, int threads) const override {
    if (!uses_fibers(launch.kernel)) return {};
    const bool cooperative = launch.cooperative;
    if (cooperative) CUDAL1_CHECK(check_cooperative(launch));
    const auto blocks = cooperative ? blocks_of(launch) : std::max({threads, cluster_blocks(launch.kernel), 1});
    const int stacks = cooperative ? threads_of(launch) : max_block_threads;
    const std::lock_guard lock(mutex_);
    auto& memories = memories_[stacks].of;
    while (std::cmp_less(memories.size(), blocks)) {
      CUDAL1_TRY(auto made, block_memory::create(stacks));
      memories.push_back(std::move(made));
    }
    return {};
  }

  expected<tensor_map_value> map_tensor(const tensor_map& map, const tensor_type& type,
                                        const void* data) const override {
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0)
      return fail(errc::invalid_argument,
                  "a tensor map needs memory at a multiple of 16 bytes; copy the tensor before");
    cudal1_tensor_map made{};
    made.data = static_cast<char*>(const_cast<void*>(data));
    made.dimensions = static_cast<int>(type.dim());
    made.element = static_cast<int>(size_of(type.type));
    made.swizzle = static_cast<int>(map.swizzle);
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      made.size[d] = type.shape[d];
      made.stride[d] = type.strides[d] * made.element;
      made.box[d] = static_cast<int>(map.box[d]);
    }
    tensor_map_value value{};
    static_assert(sizeof made <= sizeof value);
    std::memcpy(&value, &made, sizeof made);
    return value;
  }

  void launch(const kernel_launch& launch, void* const* arguments, int threads) const override {
    const auto& kernel = kernel_of(launch.kernel);
    const ready_launch ready = ready_for(kernel, launch, arguments);
    block_memories* const memories = uses_fibers(launch.kernel) ? memories_for(launch, threads) : nullptr;
    const auto fibers = memories == nullptr ? std::span<block_fibers* const>() : fibers_of(*memories, ready);
    if (lock_ != nullptr && lock_->is_wanted(kernel.watched)) {
      ++kernel.watched;
      return launch_closed(ready, launch.argument_bytes, memories, fibers);
    }
    const auto run = [&](int64_t first, int64_t last, int worker) {
      const auto work = [&] { run_launch(ready, fibers, first, last, worker); };
      if (worker == 0 && stack_ != nullptr) return stack_->run(work);
      work();
    };
    if (ready.runs_together()) return run(0, ready.blocks, 0);
    run_on_launch_threads(ready.blocks, threads, run);
  }

  void forget() const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [threads, memories] : memories_)
      for (const auto& memory : memories.of)
        memory->forget();
    if (stack_ != nullptr) stack_->forget();
    if (lock_ != nullptr) lock_->forget();
  }

 private:
  struct block_memories {
    std::vector<std::unique_ptr<block_memory>> of;
    std::vector<block_fibers*> fibers;
  };

  // The blocks of a cluster; a number out of range is a fault only when the kernel is launched.
  static int cluster_blocks(const kernel_handle* kernel) {
    const auto& cluster = kernel_of(kernel).info->cluster;
    for (const int n : cluster)
      if (n < 1 || n > max_cluster_blocks) return 1 + max_cluster_blocks;
    return std::min(cluster[0] * cluster[1] * cluster[2], 1 + max_cluster_blocks);
  }

  static int64_t blocks_of(const kernel_launch& launch) { return launch.grid[0] * launch.grid[1] * launch.grid[2]; }
  static int threads_of(const kernel_launch& launch) {
    return static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  }

  // Each thread has a stack of its own.
  static expected<void> check_cooperative(const kernel_launch& launch) {
    constexpr int64_t most_threads = 8192;
    if (blocks_of(launch) > most_threads / threads_of(launch))
      return fail(errc::unsupported,
                  "a cooperative launch of {} blocks of {} threads: the cpu device runs at most {} threads at the same "
                  "time; use fewer blocks, each of which does more",
                  blocks_of(launch), threads_of(launch), most_threads);
    if (cluster_blocks(launch.kernel) > 1)
      return fail(errc::unsupported, "the cpu device has no cooperative launches of kernels with clusters");
    return {};
  }

  block_memories* memories_for(const kernel_launch& launch, int threads) const {
    if (const auto ready = prepare(launch, threads); !ready) kernel_fault("{}", ready.error().message);
    return &memories_.at(launch.cooperative ? threads_of(launch) : max_block_threads);
  }

  static std::span<block_fibers* const> fibers_of(block_memories& memories, const ready_launch& launch) {
    const int threads = launch.sizes.block[0] * launch.sizes.block[1] * launch.sizes.block[2];
    memories.fibers.clear();
    for (const auto& m : memories.of)
      memories.fibers.push_back(&m->fibers_for(threads));
    return memories.fibers;
  }

  // In the calling thread, with what it needs on a stack that stays open.
  void launch_closed(const ready_launch& launch, std::span<const std::size_t> argument_bytes,
                     const block_memories* memories, std::span<block_fibers* const> fibers) const {
    std::vector<memory_range> usable{stack_->range()};
    if (memories != nullptr)
      for (const auto& m : memories->of)
        for (const auto& r : m->ranges())
          usable.push_back(r);
    if (const auto ready = lock_->prepare(usable); !ready) throw std::runtime_error(ready.error().message);
    stack_->run([&] {
      constexpr std::size_t alignment = alignof(tensor_map_value);
      std::size_t bytes = alignment;
      for (const std::size_t n : argument_bytes)
        bytes += (n + alignment - 1) / alignment * alignment;
      auto* const values = static_cast<std::byte*>(__builtin_alloca(bytes));
      auto* const pointers = static_cast<void**>(__builtin_alloca((argument_bytes.size() + 1) * sizeof(void*)));
      auto* const blocks = static_cast<block_fibers**>(__builtin_alloca((fibers.size() + 1) * sizeof(void*)));
      std::size_t at = (alignment - reinterpret_cast<uintptr_t>(values) % alignment) % alignment;
      for (std::size_t i = 0; i < argument_bytes.size(); ++i) {
        pointers[i] = values + at;
        std::memcpy(pointers[i], launch.sizes.arguments[i], argument_bytes[i]);
        at += (argument_bytes[i] + alignment - 1) / alignment * alignment;
      }
      std::ranges::copy(fibers, blocks);
      ready_launch mine = launch;
      mine.sizes.arguments = pointers;
      const std::span<block_fibers* const> of{blocks, fibers.size()};
      memory_lock::close();
      run_launch(mine, of, 0, mine.blocks, 0);
      memory_lock::reopen();
    });
    lock_->restore_thread_memory();
  }

  // A checked program's launches are in range; a forged launch that is not ends the process.
  static ready_launch ready_for(const object_kernel& kernel, const kernel_launch& launch, void* const* arguments) {
    const auto& [handle, grid, block, shared_bytes, cooperative, programmatic, argument_bytes] = launch;
    const auto in = [](int64_t v, int64_t low, int64_t high) { return low <= v && v <= high; };
    const bool good = in(grid[0], 1, INT32_MAX) && in(grid[1], 1, 65535) && in(grid[2], 1, 65535) &&
                      in(block[0], 1, max_block_threads) && in(block[1], 1, max_block_threads) && in(block[2], 1, 64) &&
                      block[0] * block[1] * block[2] <= max_block_threads && in(shared_bytes, 0, max_shared_bytes);
    if (!good)
      kernel_fault("launch of {}: grid ({}, {}, {}), block ({}, {}, {}), {} bytes of shared memory: out of range",
                   kernel.name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes);
    if (grid[0] * block[0] > INT32_MAX)
      kernel_fault("launch of {}: the cpu device runs at most 2^31-1 threads along x", kernel.name);
    ready_launch ready;
    for (std::size_t i = 0; i < 3; ++i) {
      ready.sizes.grid[i] = static_cast<int>(grid[i]);
      ready.sizes.block[i] = static_cast<int>(block[i]);
      ready.cluster[i] = static_cast<unsigned>(kernel.info->cluster[i]);
    }
    ready.sizes.arguments = arguments;
    ready.entry = kernel.entry;
    ready.blocks = blocks_of(launch);
    ready.shared_bytes = shared_bytes;
    ready.is_cooperative = cooperative;
    const auto& of = kernel.info->cluster;
    if (cluster_blocks(&kernel) > max_cluster_blocks)
      kernel_fault("launch of {}: clusters of ({}, {}, {}) blocks; a cluster has at most {}", kernel.name, of[0], of[1],
                   of[2], max_cluster_blocks);
    for (std::size_t i = 0; i < 3; ++i)
      if (grid[i] % of[i] != 0)
        kernel_fault("launch of {}: the grid ({}, {}, {}) does not consist of clusters of ({}, {}, {})", kernel.name,
                     grid[0], grid[1], grid[2], of[0], of[1], of[2]);
    return ready;
  }

  void* handle_;
  unique_fd file_;  // kept open: its number is in the name under which the loader knows the object
  mutable std::mutex mutex_;
  mutable std::map<std::string, object_kernel> kernels_;
  mutable std::map<int, block_memories> memories_;  // by the threads of a block
  memory_lock* lock_;                               // may be null
  std::unique_ptr<launch_stack> stack_;             // where there is a lock
};

}  // namespace

expected<std::unique_ptr<kernel_library>> load_object(int object_fd, memory_lock* lock) {
  std::unique_ptr<launch_stack> stack;
  if (lock != nullptr) {
    CUDAL1_TRY(stack, launch_stack::create());
  }
  unique_fd file(::fcntl(object_fd, F_DUPFD_CLOEXEC, 3));
  if (!file) return fail(errc::infrastructure, "cannot duplicate the object's descriptor: {}", std::strerror(errno));
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return fail(errc::infrastructure, "cannot load the compiled object (is /proc mounted?): {}",
                reason == nullptr ? "" : reason);
  }
  return std::make_unique<loaded_library>(handle, std::move(file), lock, std::move(stack));
}

}  // namespace cudal1
