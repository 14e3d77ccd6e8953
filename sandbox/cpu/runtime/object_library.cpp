#include "sandbox/cpu/runtime/object_library.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/cpu/dialect/abi.hpp"
#include "sandbox/cpu/runtime/block_fibers.hpp"
#include "sandbox/cpu/runtime/kernel_fault.hpp"
#include "sandbox/cpu/runtime/launch_threads.hpp"

namespace cudal1 {

namespace {

struct object_kernel : kernel_handle {
  std::string name;
  const cudal1_kernel_info* info = nullptr;
  void* entry = nullptr;
};

const object_kernel& kernel_of(const kernel_handle* kernel) {
  return *static_cast<const object_kernel*>(kernel);
}

using loop_entry = void (*)(const cudal1_launch*, long long, long long);

class loaded_library final : public kernel_library {
 public:
  loaded_library(void* handle, unique_fd file) : handle_(handle), file_(std::move(file)) {}
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
    auto& fibers = fibers_[stacks];
    while (std::cmp_less(fibers.size(), blocks)) {
      CUDAL1_TRY(auto made, block_fibers::create(stacks));
      fibers.push_back(std::move(made));
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
    const auto sizes = launch_sizes(kernel, launch, arguments);
    const int64_t blocks = blocks_of(launch);
    if (!uses_fibers(launch.kernel)) {
      const auto entry = reinterpret_cast<loop_entry>(kernel.entry);
      run_on_launch_threads(blocks, threads, [&](int64_t first, int64_t last, int) { entry(&sizes, first, last); });
      return;
    }
    if (const auto ready = prepare(launch, threads); !ready) kernel_fault(ready.error().message);
    if (launch.cooperative) return launch_together(launch, sizes);
    if (cluster_blocks(launch.kernel) > 1) return launch_clusters(launch, sizes);
    const auto& stacks = fibers_.at(max_block_threads);
    run_on_launch_threads(blocks, threads, [&](int64_t first, int64_t last, int worker) {
      auto& fibers = *stacks[static_cast<std::size_t>(worker)];
      for (int64_t b = first; b < last; ++b)
        fibers.run_block(entry_of(kernel), sizes, place_of(b, launch).data(), launch.shared_bytes);
    });
  }

  void forget() const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [threads, all] : fibers_)
      for (const auto& fibers : all)
        fibers->forget();
  }

 private:
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
  static block_fibers::entry_point entry_of(const object_kernel& kernel) {
    return reinterpret_cast<block_fibers::entry_point>(kernel.entry);
  }
  static std::array<unsigned, 3> place_of(int64_t block, const kernel_launch& launch) {
    return {static_cast<unsigned>(block % launch.grid[0]),
            static_cast<unsigned>(block / launch.grid[0] % launch.grid[1]),
            static_cast<unsigned>(block / launch.grid[0] / launch.grid[1])};
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

  // In the calling thread, since each block needs stacks of its own.
  void launch_together(const kernel_launch& launch, const cudal1_launch& sizes) const {
    block_cluster all;
    all.is_grid = true;
    std::vector<std::array<unsigned, 3>> places;
    const auto& stacks = fibers_.at(threads_of(launch));
    for (int64_t b = 0; b < blocks_of(launch); ++b) {
      all.blocks.push_back(stacks[static_cast<std::size_t>(b)].get());
      places.push_back(place_of(b, launch));
    }
    block_fibers::run_cluster(all, entry_of(kernel_of(launch.kernel)), sizes, places, launch.shared_bytes);
  }

  // Runs the blocks of each cluster together.
  void launch_clusters(const kernel_launch& launch, const cudal1_launch& sizes) const {
    const auto& kernel = kernel_of(launch.kernel);
    const auto& grid = launch.grid;
    const auto& of = kernel.info->cluster;
    const int blocks = cluster_blocks(&kernel);
    if (blocks > max_cluster_blocks)
      kernel_fault(fmt::format("launch of {}: clusters of ({}, {}, {}) blocks; a cluster has at most {}", kernel.name,
                               of[0], of[1], of[2], max_cluster_blocks));
    for (std::size_t i = 0; i < 3; ++i)
      if (grid[i] % of[i] != 0)
        kernel_fault(fmt::format("launch of {}: the grid ({}, {}, {}) does not consist of clusters of ({}, {}, {})",
                                 kernel.name, grid[0], grid[1], grid[2], of[0], of[1], of[2]));
    block_cluster cluster;
    for (int i = 0; i < blocks; ++i)
      cluster.blocks.push_back(fibers_.at(max_block_threads)[static_cast<std::size_t>(i)].get());
    const unsigned x = static_cast<unsigned>(of[0]), y = static_cast<unsigned>(of[1]), z = static_cast<unsigned>(of[2]);
    std::vector<std::array<unsigned, 3>> places(static_cast<std::size_t>(blocks));
    for (unsigned k = 0; k < static_cast<unsigned>(grid[2]); k += z)
      for (unsigned j = 0; j < static_cast<unsigned>(grid[1]); j += y)
        for (unsigned i = 0; i < static_cast<unsigned>(grid[0]); i += x) {
          for (unsigned rank = 0; rank < places.size(); ++rank)
            places[rank] = {i + rank % x, j + rank / x % y, k + rank / x / y};
          block_fibers::run_cluster(cluster, entry_of(kernel), sizes, places, launch.shared_bytes);
        }
  }

  // A checked program's launches are in range; a forged launch that is not ends the process.
  static cudal1_launch launch_sizes(const object_kernel& kernel, const kernel_launch& launch, void* const* arguments) {
    const auto& [handle, grid, block, shared_bytes, cooperative, programmatic] = launch;
    const auto in = [](int64_t v, int64_t low, int64_t high) { return low <= v && v <= high; };
    const bool good = in(grid[0], 1, INT32_MAX) && in(grid[1], 1, 65535) && in(grid[2], 1, 65535) &&
                      in(block[0], 1, max_block_threads) && in(block[1], 1, max_block_threads) && in(block[2], 1, 64) &&
                      block[0] * block[1] * block[2] <= max_block_threads && in(shared_bytes, 0, max_shared_bytes);
    if (!good)
      kernel_fault(
          fmt::format("launch of {}: grid ({}, {}, {}), block ({}, {}, {}), {} bytes of shared memory: out of range",
                      kernel.name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes));
    if (grid[0] * block[0] > INT32_MAX)
      kernel_fault(fmt::format("launch of {}: the cpu device runs at most 2^31-1 threads along x", kernel.name));
    cudal1_launch sizes{};
    for (std::size_t i = 0; i < 3; ++i) {
      sizes.grid[i] = static_cast<int>(grid[i]);
      sizes.block[i] = static_cast<int>(block[i]);
    }
    sizes.arguments = arguments;
    return sizes;
  }

  void* handle_;
  unique_fd file_;  // kept open: its number is in the name under which the loader knows the object
  mutable std::mutex mutex_;
  mutable std::map<std::string, object_kernel> kernels_;
  mutable std::map<int, std::vector<std::unique_ptr<block_fibers>>> fibers_;  // by the threads of a block
};

}  // namespace

expected<std::unique_ptr<kernel_library>> load_object(int object_fd) {
  unique_fd file(::fcntl(object_fd, F_DUPFD_CLOEXEC, 3));
  if (!file) return fail(errc::infrastructure, "cannot duplicate the object's descriptor: {}", std::strerror(errno));
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return fail(errc::infrastructure, "cannot load the compiled object (is /proc mounted?): {}",
                reason == nullptr ? "" : reason);
  }
  return std::make_unique<loaded_library>(handle, std::move(file));
}

}  // namespace cudal1
