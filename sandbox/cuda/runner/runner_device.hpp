// The runner's GPU: one stream, LibTorch's allocator on the arena, poison, guards, fingerprints, flush and clocks.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sandbox/cuda/runtime/device_memory.hpp"
#include "sandbox/cuda/runtime/fingerprints.hpp"
#include "sandbox/cuda/runtime/gpu_arena.hpp"
#include "sandbox/cuda/runtime/service_kernels.hpp"
#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

// Tensors that no call may write, and the key of their fingerprint.
struct constant_tensors {
  std::span<const tensor_view> tensors;
  uint64_t key = 0;
};

class runner_device {
 public:
  // Creates the context, compiles our own kernels, installs the arena as LibTorch's allocator and warms up its
  // libraries. Once per process. `arena`: memory in parts. `flush_bytes`: 0 for the larger of four times the L2 cache
  // and 256 MiB.
  static expected<std::unique_ptr<runner_device>> create(int device, std::vector<unique_fd> arena,
                                                         std::vector<int64_t> arena_bytes, int64_t flush_bytes);
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
    fingerprint outputs, constants;
  };
  expected<void> note_call(std::span<const tensor_view> outputs, uint64_t key, constant_tensors constants = {});
  call_findings found() const;
  expected<fingerprint> fingerprint_of(constant_tensors constants);

  // When nothing is at work, before another program runs: overwrites all memory of this process that device code could
  // have left something in for a later call: the arena, the flush buffer and what lies beside it, shared memory, and
  // the local memory of kernels with frames of up to `frame_bytes`.
  static constexpr int64_t most_frame_bytes = 64 << 10;
  expected<void> wipe(uint64_t seed, int64_t frame_bytes);
  // After calls: what of the arena no call has taken since wipe(). Waits. "" or what was written there.
  expected<std::string> untouched_problem();
  // "", or that the buffer of the last flush() that finish() has waited for was written since wipe().
  std::string flush_problem() const;
  // The flush buffer, and beside it what the runner's own kernels write to.
  std::span<std::byte> own_memory() const { return {own_, static_cast<std::size_t>(flush_bytes_) + own_words_bytes}; }

  expected<void> copy(void* to, const void* from, std::size_t bytes);

  // Waits until all work is done. An error of device code (an illegal address, say) is errc::variant_fault.
  expected<void> finish() const;
  // True if the context is unusable: every further call fails.
  bool is_broken() const;
  // Reads a little of every page, since one side may have used the memory before the other. Call it before a flush.
  expected<void> touch(const device_mapping& memory);
  expected<void> flush();
  // Reads all of it, so that it is in the cache as far as it fits.
  expected<void> read(const device_mapping& memory);
  // Microseconds of the work that `enqueue` puts on the stream: by the host's clock, with the synchronisation; or by
  // the device's, between two events, with all of the work enqueued before the first begins.
  expected<double> time_call(const std::function<expected<void>()>& enqueue);
  expected<double> time_on_device(const std::function<expected<void>()>& enqueue);

 private:
  explicit runner_device(int device) : device_(device) {}
  expected<void> start(std::vector<unique_fd> arena, std::vector<int64_t> arena_bytes, int64_t flush_bytes);
  expected<void> make_arena(std::vector<unique_fd> files, std::vector<int64_t> bytes);
  expected<void> make_own_memory(int64_t flush_bytes);
  expected<void> wipe_own_memory();
  expected<void> wipe_multiprocessors(uint64_t seed, int64_t frame_bytes);
  expected<void> verify(std::span<const word_range> ranges, uint64_t seed, std::size_t into);
  expected<fingerprint> hash(std::span<const tensor_view> tensors, uint64_t key, std::size_t into);
  expected<void> look_at(std::size_t first, std::size_t count);
  guard_damage damage_at(std::size_t first) const;
  expected<void> poison(std::span<const word_range> ranges, uint64_t seed);
  expected<void> warm_up();

  int device_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<service_library> kernels_;
  // Overwrites the local memory of frames of up to so many bytes.
  struct frame_wiper {
    int64_t bytes = 0;
    std::string cubin;
    std::unique_ptr<service_library> kernel;  // null until it is needed
  };
  std::vector<frame_wiper> frames_;
  mapping_in_parts memory_;
  std::unique_ptr<device_arena> arena_;
  // One allocation, so that it shares its pages with nothing: the flush buffer, then a page of words.
  static constexpr int64_t own_words_bytes = int64_t{2} << 20;
  std::byte* own_ = nullptr;
  int64_t flush_bytes_ = 0;
  // What kernels find, as words on the device and on the host, at these places: damaged words and where the first is,
  // or the two sums of a fingerprint.
  static constexpr std::size_t guards_at = 0, outputs_at = 2, constants_at = 4, of_call = 6, flush_at = 6,
                               untouched_at = 7, findings = 9;
  unsigned long long *found_ = nullptr, *seen_ = nullptr;
  unsigned *sink_ = nullptr, *begun_ = nullptr;  // on the device: what nothing is written to; blocks that have begun
  fingerprint base_, constants_base_;
  int* go_ = nullptr;  // host memory that the device sees
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace cudal1
