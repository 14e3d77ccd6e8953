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
constexpr unsigned flush_content = 0x5a5a5a5a;
constexpr unsigned wiping_threads = 1024;

unsigned blocks_for(std::size_t items) {
  return static_cast<unsigned>(std::clamp<std::size_t>((items + threads - 1) / threads, 1, 132 * 16));
}

}  // namespace

expected<std::unique_ptr<runner_device>> runner_device::create(int device, std::vector<unique_fd> arena,
                                                               std::vector<int64_t> arena_bytes, int64_t flush_bytes) {
  std::unique_ptr<runner_device> result(new runner_device(device));
  CUDAL1_CHECK(result->start(std::move(arena), std::move(arena_bytes), flush_bytes));
  return result;
}

// Frees nothing: the process ends right after, and the driver frees everything.
runner_device::~runner_device() = default;

expected<void> runner_device::start(std::vector<unique_fd> arena, std::vector<int64_t> arena_bytes,
                                    int64_t flush_bytes) {
  CUDAL1_CUDA(cudaInitDevice(device_, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
  CUDAL1_CUDA(cudaSetDevice(device_));
  CUDAL1_TRY(kernels_, service_library::compile(std::string(runner_functions) + std::string(runner_kernels) +
                                                    std::string(hash_kernel_text()),
                                                device_));
  for (const int64_t bytes : {1 << 10, 8 << 10, int{most_frame_bytes}}) {
    CUDAL1_TRY(auto cubin, service_library::compiled(wipe_local_kernel(bytes), device_));
    frames_.push_back({bytes, std::move(cubin), nullptr});
  }
  CUDAL1_CUDA(cudaHostAlloc(&seen_, findings * sizeof *seen_, cudaHostAllocDefault));
  std::fill_n(seen_, findings, 0);
  CUDAL1_CUDA(cudaHostAlloc(&go_, sizeof *go_, cudaHostAllocMapped));
  CUDAL1_CUDA(cudaEventCreate(&begin_));
  CUDAL1_CUDA(cudaEventCreate(&end_));
  CUDAL1_CHECK(make_own_memory(flush_bytes));
  CUDAL1_CHECK(make_arena(std::move(arena), std::move(arena_bytes)));
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

expected<void> runner_device::make_own_memory(int64_t flush_bytes) {
  int l2_bytes = 0;
  CUDAL1_CUDA(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device_));
  const int64_t wanted = flush_bytes > 0 ? flush_bytes : std::max<int64_t>(int64_t{4} * l2_bytes, int64_t{256} << 20);
  flush_bytes_ = (wanted + own_words_bytes - 1) / own_words_bytes * own_words_bytes;
  void* memory = nullptr;
  CUDAL1_CUDA(cudaMalloc(&memory, static_cast<std::size_t>(flush_bytes_ + own_words_bytes)));
  own_ = static_cast<std::byte*>(memory);
  found_ = reinterpret_cast<unsigned long long*>(own_ + flush_bytes_);
  sink_ = reinterpret_cast<unsigned*>(found_ + findings);
  begun_ = sink_ + 1;
  CUDAL1_CHECK(wipe_own_memory());
  return cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

expected<void> runner_device::wipe_own_memory() {
  CUDAL1_CUDA(cudaMemsetAsync(own_, flush_content & 0xff, static_cast<std::size_t>(flush_bytes_), stream_));
  CUDAL1_CUDA(cudaMemsetAsync(own_ + flush_bytes_, 0, static_cast<std::size_t>(own_words_bytes), stream_));
  return {};
}

expected<void> runner_device::make_arena(std::vector<unique_fd> files, std::vector<int64_t> bytes) {
  CUDAL1_TRY(memory_, mapping_in_parts::reserve(std::move(files), std::move(bytes), device_));
  CUDAL1_CHECK(memory_.map_first(1));
  const std::vector<std::size_t> parts(memory_.bytes().begin(), memory_.bytes().end());
  arena_ = std::make_unique<device_arena>(
      memory_.data(), parts, [this](std::span<const word_range> ranges, uint64_t seed) { return poison(ranges, seed); },
      [this](std::size_t accessible) { return memory_.map_first(accessible); });
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

expected<void> runner_device::verify(std::span<const word_range> ranges, uint64_t seed, std::size_t into) {
  return in_parts(ranges, [&](word_ranges& part, std::size_t words) {
    void *base = memory_.data(), *found = found_ + into;
    unsigned long long with = seed;
    void* arguments[] = {&base, &part, &with, &found};
    return kernels_->launch("verify", blocks_for(words), threads, arguments, stream_);
  });
}

// Adds the sums up at that place; what they begin at.
expected<fingerprint> runner_device::hash(std::span<const tensor_view> tensors, uint64_t key, std::size_t into) {
  fingerprint base{};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    hash_launch h = hash_of_output(tensors[i].type, tensors[i].data, key, i);
    base += h.base;
    if (h.blocks == 0) continue;
    void* sums = found_ + into;
    void* arguments[] = {&h.tensor, &h.first_secret, &h.second_secret, &sums};
    CUDAL1_CHECK(kernels_->launch("hash_tensor", h.blocks, hash_threads, arguments, stream_));
  }
  return base;
}

expected<void> runner_device::look_at(std::size_t first, std::size_t count) {
  return cuda_check(
      cudaMemcpyAsync(seen_ + first, found_ + first, count * sizeof *found_, cudaMemcpyDeviceToHost, stream_),
      "cudaMemcpyAsync");
}

guard_damage runner_device::damage_at(std::size_t first) const {
  if (seen_[first] == 0) return {};
  return {static_cast<std::size_t>(seen_[first]), static_cast<std::size_t>(~seen_[first + 1])};
}

expected<void> runner_device::note_call(std::span<const tensor_view> outputs, uint64_t key,
                                        constant_tensors constants) {
  CUDAL1_CUDA(cudaMemsetAsync(found_, 0, of_call * sizeof *found_, stream_));
  CUDAL1_CHECK(verify(arena_->guards(), arena_->poison_seed(), guards_at));
  CUDAL1_TRY(base_, hash(outputs, key, outputs_at));
  CUDAL1_TRY(constants_base_, hash(constants.tensors, constants.key, constants_at));
  return look_at(0, of_call);
}

runner_device::call_findings runner_device::found() const {
  call_findings f{damage_at(guards_at), base_, constants_base_};
  f.outputs += fingerprint{seen_[outputs_at], seen_[outputs_at + 1]};
  f.constants += fingerprint{seen_[constants_at], seen_[constants_at + 1]};
  return f;
}

expected<fingerprint> runner_device::fingerprint_of(constant_tensors constants) {
  CUDAL1_CHECK(note_call({}, 0, constants));
  CUDAL1_CHECK(finish());
  return found().constants;
}

expected<void> runner_device::wipe(uint64_t seed, int64_t frame_bytes) {
  CUDAL1_CHECK(arena_->wipe(seed));
  CUDAL1_CHECK(wipe_own_memory());
  seen_[flush_at] = 0;
  return wipe_multiprocessors(seed, frame_bytes);
}

expected<void> runner_device::wipe_multiprocessors(uint64_t seed, int64_t frame_bytes) {
  int processors = 0, resident_threads = 0, shared_bytes = 0;
  CUDAL1_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device_));
  CUDAL1_CUDA(cudaDeviceGetAttribute(&resident_threads, cudaDevAttrMaxThreadsPerMultiProcessor, device_));
  CUDAL1_CUDA(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
  unsigned long long with = seed;
  unsigned words = static_cast<unsigned>(shared_bytes) / 8;
  unsigned* begun = begun_;
  void *of_shared[] = {&words, &with, &begun}, *of_local[] = {&with, &begun};
  CUDAL1_CHECK(kernels_->launch("wipe_shared", static_cast<unsigned>(processors), wiping_threads, of_shared, stream_,
                                shared_bytes));
  CUDAL1_CUDA(cudaMemsetAsync(begun_, 0, sizeof *begun_, stream_));
  const auto blocks = static_cast<unsigned>(processors * std::max(1, resident_threads / int{wiping_threads}));
  const auto fits = std::find_if(frames_.begin(), frames_.end(), [&](const auto& f) { return frame_bytes <= f.bytes; });
  if (fits == frames_.end()) return fail(errc::infrastructure, "nothing wipes frames of {} bytes", frame_bytes);
  if (!fits->kernel) {
    CUDAL1_TRY(fits->kernel, service_library::load(fits->cubin));
  }
  return fits->kernel->launch("wipe_local", blocks, wiping_threads, of_local, stream_);
}

expected<std::string> runner_device::untouched_problem() {
  const auto ranges = arena_->untouched();
  if (ranges.empty()) return "";
  CUDAL1_CUDA(cudaMemsetAsync(found_ + untouched_at, 0, 2 * sizeof *found_, stream_));
  CUDAL1_CHECK(verify(ranges, arena_->wipe_seed(), untouched_at));
  CUDAL1_CHECK(look_at(untouched_at, 2));
  CUDAL1_CHECK(finish());
  return damage_at(untouched_at).text();
}

std::string runner_device::flush_problem() const {
  return seen_[flush_at] == 0 ? "" : "the buffer that flushes the cache was overwritten, which belongs to no program";
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
  const void* buffer = own_;
  unsigned long long count = static_cast<unsigned long long>(flush_bytes_) / 16;
  unsigned content = flush_content;
  unsigned long long* found = found_ + flush_at;
  void* arguments[] = {&buffer, &count, &content, &found};
  CUDAL1_CHECK(kernels_->launch("flush", blocks_for(count), threads, arguments, stream_));
  return look_at(flush_at, 1);
}

expected<void> runner_device::touch(const device_mapping& memory) {
  const void* data = memory.data();
  unsigned long long bytes = static_cast<unsigned long long>(memory.size());
  void* sink = sink_;
  void* arguments[] = {&data, &bytes, &sink};
  return kernels_->launch("touch", blocks_for(bytes / 4096), threads, arguments, stream_);
}

expected<void> runner_device::read(const device_mapping& memory) {
  const void* data = memory.data();
  unsigned long long count = static_cast<unsigned long long>(memory.size()) / 16;
  void* sink = sink_;
  void* arguments[] = {&data, &count, &sink};
  return kernels_->launch("read_all", blocks_for(count), threads, arguments, stream_);
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
