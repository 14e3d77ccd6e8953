// The runner's GPU: one stream, LibTorch's allocator on the arena, poison, guards, fingerprints, flush and clocks.
#pragma once

#include <functional>
#include <memory>

#include "sandbox/cuda/runtime/device_memory.hpp"
#include "sandbox/cuda/runtime/fingerprints.hpp"
#include "sandbox/cuda/runtime/gpu_arena.hpp"
#include "sandbox/cuda/runtime/service_kernels.hpp"
#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

class runner_device {
 public:
  // Creates the context, compiles our own kernels, installs the arena as LibTorch's allocator and warms up its
  // libraries. Once per process. `flush_bytes`: 0 for the larger of four times the L2 cache and 256 MiB.
  static expected<std::unique_ptr<runner_device>> create(int device, int arena_fd, int64_t arena_bytes,
                                                         int64_t flush_bytes);
  ~runner_device();
  runner_device(const runner_device&) = delete;
  runner_device& operator=(const runner_device&) = delete;

  int index() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  device_arena& arena() { return *arena_; }

  // note_call() enqueues, behind a call, the check for writes outside its tensors and its outputs' fingerprint. found()
  // returns the results after finish(); call it before other device code runs, which could overwrite them.
  struct call_findings {
    guard_damage guards;
    fingerprint outputs;
  };
  expected<void> note_call(std::span<const tensor_view> outputs, uint64_t key);
  call_findings found() const;
  expected<void> copy(void* to, const void* from, std::size_t bytes);

  // Waits until all work is done. An error of device code (an illegal address, say) is errc::variant_fault.
  expected<void> finish() const;
  // True if the context is unusable: every further call fails.
  bool is_broken() const;
  // Reads a little of every page, since one side may have used the memory before the other. Call it before a flush.
  expected<void> touch(const device_mapping& memory);
  expected<void> flush();
  // Microseconds of the work that `enqueue` puts on the stream: by the host's clock, with the synchronisation; or by
  // the device's, between two events, with all of the work enqueued before the first begins.
  expected<double> time_call(const std::function<expected<void>()>& enqueue);
  expected<double> time_on_device(const std::function<expected<void>()>& enqueue);

 private:
  explicit runner_device(int device) : device_(device) {}
  expected<void> start(int arena_fd, int64_t arena_bytes, int64_t flush_bytes);
  expected<void> make_arena(int arena_fd, int64_t bytes);
  expected<void> poison(std::span<const word_range> ranges, uint64_t seed);
  expected<void> warm_up();

  int device_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<service_library> kernels_;
  device_mapping memory_;
  std::unique_ptr<device_arena> arena_;
  void* flush_buffer_ = nullptr;
  int64_t flush_bytes_ = 0;
  // What note_call() finds: damaged words and where, the two sums of the fingerprint. On the device; on the host.
  static constexpr std::size_t findings = 4;
  unsigned long long *found_ = nullptr, *seen_ = nullptr;
  unsigned* sink_ = nullptr;  // device memory that nothing is written to
  fingerprint base_;
  int* go_ = nullptr;  // host memory that the device sees
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace cudal1
