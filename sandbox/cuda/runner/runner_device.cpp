#include "sandbox/cuda/runner/runner_device.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAStream.h>

#include "sandbox/cuda/runner/install_gpu_arena.hpp"
#include "sandbox/cuda/runner/runner_kernels.hpp"

namespace cudal1 {
namespace {

constexpr unsigned threads = 256;
constexpr uint64_t wait_limit_ns = 200'000'000;

unsigned blocks_for(std::size_t items) {
  return static_cast<unsigned>(std::clamp<std::size_t>((items + threads - 1) / threads, 1, 132 * 16));
}

}  // namespace

expected<std::unique_ptr<runner_device>> runner_device::create(int device, int arena_fd, int64_t arena_bytes,
                                                               int64_t flush_bytes) {
  std::unique_ptr<runner_device> result(new runner_device(device));
  CUDAL1_CHECK(result->start(arena_fd, arena_bytes, flush_bytes));
  return result;
}

// Frees nothing: the process ends right after, and the driver frees everything.
runner_device::~runner_device() = default;

expected<void> runner_device::start(int arena_fd, int64_t arena_bytes, int64_t flush_bytes) {
  CUDAL1_CUDA(cudaInitDevice(device_, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
  CUDAL1_CUDA(cudaSetDevice(device_));
  CUDAL1_TRY(kernels_,
             service_library::compile(std::string(runner_kernels) + std::string(hash_kernel_text()), device_));
  CUDAL1_CUDA(cudaMalloc(&found_, findings * sizeof *found_));
  CUDAL1_CUDA(cudaHostAlloc(&seen_, findings * sizeof *seen_, cudaHostAllocDefault));
  CUDAL1_CUDA(cudaMalloc(&sink_, sizeof *sink_));
  CUDAL1_CUDA(cudaHostAlloc(&go_, sizeof *go_, cudaHostAllocMapped));
  CUDAL1_CUDA(cudaEventCreate(&begin_));
  CUDAL1_CUDA(cudaEventCreate(&end_));
  int l2_bytes = 0;
  CUDAL1_CUDA(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device_));
  flush_bytes_ = flush_bytes > 0 ? flush_bytes : std::max<int64_t>(int64_t{4} * l2_bytes, int64_t{256} << 20);
  CUDAL1_CUDA(cudaMalloc(&flush_buffer_, static_cast<std::size_t>(flush_bytes_)));
  CUDAL1_CUDA(cudaMemset(flush_buffer_, 0x5a, static_cast<std::size_t>(flush_bytes_)));
  CUDAL1_CHECK(make_arena(arena_fd, arena_bytes));
  CUDAL1_CHECK(install_arena(*arena_, device_));
  try {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    const auto stream = c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(device_));
    c10::cuda::setCurrentCUDAStream(stream);
    stream_ = stream.stream();
    return warm_up();
  } catch (const std::exception& e) {
    return fail(errc::infrastructure, "LibTorch on cuda:{}: {}", device_, e.what());
  }
}

expected<void> runner_device::make_arena(int arena_fd, int64_t bytes) {
  CUDAL1_TRY(memory_, map_device_memory(arena_fd, bytes, device_, memory_access::read_write));
  arena_ = std::make_unique<device_arena>(
      memory_.data(), static_cast<std::size_t>(memory_.size()),
      [this](std::span<const word_range> ranges, uint64_t seed) { return poison(ranges, seed); });
  return {};
}

namespace {

// Calls `launch(ranges, words)` with as many ranges as a kernel takes at once.
template <class F>
expected<void> in_parts(std::span<const word_range> ranges, F&& launch) {
  while (!ranges.empty()) {
    word_ranges part;
    std::size_t words = 0;
    for (const auto& r : ranges.first(std::min(ranges.size(), word_ranges::most))) {
      part.first[part.count] = r.first;
      part.words[part.count++] = r.words;
      words += r.words;
    }
    CUDAL1_CHECK(launch(part, words));
    ranges = ranges.subspan(part.count);
  }
  return {};
}

}  // namespace

expected<void> runner_device::poison(std::span<const word_range> ranges, uint64_t seed) {
  // On the current stream, so that it precedes the work that uses the memory.
  const auto stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_)).stream();
  return in_parts(ranges, [&](word_ranges& part, std::size_t words) {
    void* base = memory_.data();
    unsigned long long with = seed;
    void* arguments[] = {&base, &part, &with};
    return kernels_->launch("poison", blocks_for(words), threads, arguments, stream);
  });
}

expected<void> runner_device::note_call(std::span<const tensor_view> outputs, uint64_t key) {
  CUDAL1_CUDA(cudaMemsetAsync(found_, 0, findings * sizeof *found_, stream_));
  CUDAL1_CHECK(in_parts(arena_->guards(), [&](word_ranges& part, std::size_t words) {
    void *base = memory_.data(), *found = found_;
    unsigned long long with = arena_->poison_seed();
    void* arguments[] = {&base, &part, &with, &found};
    return kernels_->launch("verify", blocks_for(words), threads, arguments, stream_);
  }));
  base_ = {};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    hash_launch h = hash_of_output(outputs[i].type, outputs[i].data, key, i);
    base_ += h.base;
    if (h.blocks == 0) continue;
    void* sums = found_ + 2;
    void* arguments[] = {&h.tensor, &h.first_secret, &h.second_secret, &sums};
    CUDAL1_CHECK(kernels_->launch("hash_tensor", h.blocks, hash_threads, arguments, stream_));
  }
  CUDAL1_CUDA(cudaMemcpyAsync(seen_, found_, findings * sizeof *found_, cudaMemcpyDeviceToHost, stream_));
  return {};
}

runner_device::call_findings runner_device::found() const {
  call_findings f;
  if (seen_[0] != 0) f.guards = {static_cast<std::size_t>(seen_[0]), static_cast<std::size_t>(~seen_[1])};
  f.outputs = base_;
  f.outputs += fingerprint{seen_[2], seen_[3]};
  return f;
}

expected<void> runner_device::copy(void* to, const void* from, std::size_t bytes) {
  return cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
}

// Handles, workspaces and lazily loaded kernels of the libraries, before the process is confined.
expected<void> runner_device::warm_up() {
  const c10::InferenceMode no_autograd;
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto options = at::TensorOptions(type).device(c10::kCUDA, static_cast<c10::DeviceIndex>(device_));
    const auto a = at::ones({64, 64}, options);
    (void)at::sum(at::softmax(at::mm(a, a), 1));
    (void)at::addmm(at::ones({64}, options), a, a);
    (void)at::bmm(at::ones({2, 16, 16}, options), at::ones({2, 16, 16}, options));
    (void)at::conv2d(at::ones({1, 3, 16, 16}, options), at::ones({4, 3, 3, 3}, options));
  }
  return finish();
}

expected<void> runner_device::finish() const {
  const auto status = cudaStreamSynchronize(stream_);
  if (status == cudaSuccess) return {};
  return fail(errc::variant_fault, "{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

bool runner_device::is_broken() const {
  (void)cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess;
}

expected<void> runner_device::flush() {
  const void* buffer = flush_buffer_;
  unsigned long long count = static_cast<unsigned long long>(flush_bytes_) / 16;
  void* sink = sink_;
  void* arguments[] = {&buffer, &count, &sink};
  return kernels_->launch("flush", blocks_for(count), threads, arguments, stream_);
}

expected<void> runner_device::touch(const device_mapping& memory) {
  const void* data = memory.data();
  unsigned long long bytes = static_cast<unsigned long long>(memory.size());
  void* sink = sink_;
  void* arguments[] = {&data, &bytes, &sink};
  return kernels_->launch("touch", blocks_for(bytes / 4096), threads, arguments, stream_);
}

expected<double> runner_device::time_call(const std::function<expected<void>()>& enqueue) {
  const auto start = std::chrono::steady_clock::now();
  CUDAL1_CHECK(enqueue());
  const auto status = cudaStreamSynchronize(stream_);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  if (status != cudaSuccess)
    return fail(errc::variant_fault, "{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  return took.count();
}

expected<double> runner_device::time_on_device(const std::function<expected<void>()>& enqueue) {
  *static_cast<volatile int*>(go_) = 0;
  const int* flag = nullptr;
  CUDAL1_CUDA(cudaHostGetDevicePointer(const_cast<int**>(&flag), go_, 0));
  unsigned long long limit = wait_limit_ns;
  void* arguments[] = {&flag, &limit};
  CUDAL1_CHECK(kernels_->launch("wait_for_host", 1, 1, arguments, stream_));
  CUDAL1_CUDA(cudaEventRecord(begin_, stream_));
  const auto enqueued = enqueue();
  CUDAL1_CUDA(cudaEventRecord(end_, stream_));
  *static_cast<volatile int*>(go_) = 1;
  CUDAL1_CHECK(enqueued);
  CUDAL1_CHECK(finish());
  float milliseconds = 0;
  CUDAL1_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
  return static_cast<double>(milliseconds) * 1000;
}

}  // namespace cudal1
