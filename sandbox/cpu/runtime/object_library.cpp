#include "sandbox/cpu/runtime/object_library.hpp"

#include <cstring>
#include <map>
#include <mutex>

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

  expected<void> prepare(const kernel_handle* kernel, int threads) const override {
    if (!uses_fibers(kernel)) return {};
    const std::lock_guard lock(mutex_);
    while (fibers_.size() < static_cast<std::size_t>(std::max({threads, cluster_blocks(kernel), 1}))) {
      CUDAL1_TRY(auto made, block_fibers::create());
      fibers_.push_back(std::move(made));
    }
    return {};
  }

  void launch(const kernel_handle* kernel, const std::array<int64_t, 3>& grid, const std::array<int64_t, 3>& block,
              int64_t shared_bytes, void* const* arguments, int threads) const override {
    const auto sizes = launch_sizes(kernel_of(kernel), grid, block, shared_bytes, arguments);
    const int64_t blocks = grid[0] * grid[1] * grid[2];
    if (!uses_fibers(kernel)) {
      const auto entry = reinterpret_cast<loop_entry>(kernel_of(kernel).entry);
      run_on_launch_threads(blocks, threads, [&](int64_t first, int64_t last, int) { entry(&sizes, first, last); });
      return;
    }
    if (const auto ready = prepare(kernel, threads); !ready) kernel_fault(ready.error().message);
    const auto entry = reinterpret_cast<block_fibers::entry_point>(kernel_of(kernel).entry);
    if (cluster_blocks(kernel) > 1) return launch_clusters(kernel_of(kernel), entry, grid, sizes, shared_bytes);
    run_on_launch_threads(blocks, threads, [&](int64_t first, int64_t last, int worker) {
      auto& fibers = *fibers_[static_cast<std::size_t>(worker)];
      for (int64_t b = first; b < last; ++b) {
        const unsigned at[3] = {static_cast<unsigned>(b % grid[0]), static_cast<unsigned>(b / grid[0] % grid[1]),
                                static_cast<unsigned>(b / grid[0] / grid[1])};
        fibers.run_block(entry, sizes, at, shared_bytes);
      }
    });
  }

  void forget() const override {
    const std::lock_guard lock(mutex_);
    for (const auto& fibers : fibers_)
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

  // In the calling thread, since each block of a cluster needs stacks of its own.
  void launch_clusters(const object_kernel& kernel, block_fibers::entry_point entry, const std::array<int64_t, 3>& grid,
                       const cudal1_launch& sizes, int64_t shared_bytes) const {
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
      cluster.blocks.push_back(fibers_[static_cast<std::size_t>(i)].get());
    const unsigned x = static_cast<unsigned>(of[0]), y = static_cast<unsigned>(of[1]), z = static_cast<unsigned>(of[2]);
    std::vector<std::array<unsigned, 3>> places(static_cast<std::size_t>(blocks));
    for (unsigned k = 0; k < static_cast<unsigned>(grid[2]); k += z)
      for (unsigned j = 0; j < static_cast<unsigned>(grid[1]); j += y)
        for (unsigned i = 0; i < static_cast<unsigned>(grid[0]); i += x) {
          for (unsigned rank = 0; rank < places.size(); ++rank)
            places[rank] = {i + rank % x, j + rank / x % y, k + rank / x / y};
          block_fibers::run_cluster(cluster, entry, sizes, places, shared_bytes);
        }
  }

  // A checked program's launches are in range; a forged launch that is not ends the process.
  static cudal1_launch launch_sizes(const object_kernel& kernel, const std::array<int64_t, 3>& grid,
                                    const std::array<int64_t, 3>& block, int64_t shared_bytes, void* const* arguments) {
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
  mutable std::vector<std::unique_ptr<block_fibers>> fibers_;
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
