// The library libcudal1_cpu_kernels.so, which a package of `cudal1 export --format torch` has beside its programs:
// loads objects and launches their kernels in a process of Python (tools/python/torch_package/runtime/kernels_cpu.py).
// A C interface; where a function can fail it writes a sentence to `problem`, of at most `size` bytes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include <fcntl.h>
#include <fmt/format-inl.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/cpu/runtime/launch_threads.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"

// What fmt's library has beside its headers, so that this one needs no library of fmt.
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(fmt::detail::locale_ref);
template char fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref);

namespace cudal1 {
namespace {

void say(const std::string& text, char* problem, int size) {
  if (size <= 0) return;
  const auto length = std::min(text.size(), static_cast<std::size_t>(size - 1));
  std::memcpy(problem, text.data(), length);
  problem[length] = '\0';
}

// Launches are one at a time. The launch threads are those of the process that made them: a forked child, such as a
// worker of a data loader, runs its launches in the calling thread.
class launches {
 public:
  static launches& instance() {
    static auto* all = new launches;
    return *all;
  }

  expected<void> run(const kernel_library& library, const kernel_launch& launch, void* const* arguments, int threads) {
    const std::lock_guard lock(mutex_);
    if (owner_ == 0) owner_ = ::getpid();
    const int wanted = owner_ == ::getpid() ? std::max(threads, 1) : 1;
    CUDAL1_CHECK(prepare_launch_threads(wanted));
    CUDAL1_CHECK(library.prepare(launch, wanted));
    library.launch(launch, arguments, wanted);
    return {};
  }

 private:
  std::mutex mutex_;
  pid_t owner_ = 0;
};

const kernel_library& library_of(void* library) {
  return *static_cast<kernel_library*>(library);
}

}  // namespace
}  // namespace cudal1

#pragma GCC visibility push(default)

extern "C" {

// The kernels of the object in a file; null where it cannot be loaded. They stay until the process ends.
void* cudal1_kernels_load(const char* path, char* problem, int size) {
  const cudal1::unique_fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) {
    cudal1::say(std::strerror(errno), problem, size);
    return nullptr;
  }
  auto library = cudal1::load_object(file.get());
  if (library) return library->release();
  cudal1::say(library.error().message, problem, size);
  return nullptr;
}

const void* cudal1_kernels_find(void* library, const char* kernel, char* problem, int size) {
  const auto found = cudal1::library_of(library).find(kernel);
  if (found) return *found;
  cudal1::say(found.error().message, problem, size);
  return nullptr;
}

// `sizes`: grid, block, bytes of dynamic shared memory. `arguments`: as kernel_library::launch. 0 where it was made.
int cudal1_kernels_launch(void* library, const void* kernel, const int64_t* sizes, int cooperative,
                          void* const* arguments, int threads, char* problem, int size) {
  cudal1::kernel_launch launch;
  launch.kernel = static_cast<const cudal1::kernel_handle*>(kernel);
  std::copy_n(sizes, 3, launch.grid.begin());
  std::copy_n(sizes + 3, 3, launch.block.begin());
  launch.shared_bytes = sizes[6];
  launch.cooperative = cooperative != 0;
  const auto made = cudal1::launches::instance().run(cudal1::library_of(library), launch, arguments, threads);
  if (made) return 0;
  cudal1::say(made.error().message, problem, size);
  return 1;
}

// Writes the tensor map of a tensor of `rank` dimensions, strides in elements, to `map` (sizeof tensor_map_value).
int cudal1_kernels_map(void* library, int rank, const int64_t* shape, const int64_t* strides, const int64_t* box,
                       int64_t element_bytes, int64_t swizzle, const void* data, void* map, char* problem, int size) {
  cudal1::tensor_type type;
  for (const auto t : {cudal1::dtype::uint8, cudal1::dtype::float16, cudal1::dtype::float32, cudal1::dtype::float64})
    if (cudal1::size_of(t) == element_bytes) type.type = t;
  type.shape.assign(shape, shape + rank);
  type.strides.assign(strides, strides + rank);
  cudal1::tensor_map boxes;
  boxes.box.assign(box, box + rank);
  boxes.swizzle = swizzle;
  const auto made = cudal1::library_of(library).map_tensor(boxes, type, data);
  if (!made) {
    cudal1::say(made.error().message, problem, size);
    return 1;
  }
  std::memcpy(map, &*made, sizeof *made);
  return 0;
}
}

#pragma GCC visibility pop
