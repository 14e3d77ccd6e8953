// Runs a checked program on the CPU or on a GPU: ATen steps as boxed calls through the dispatcher, kernels through a
// kernel library. load() resolves everything in advance; call() only runs. This header uses no LibTorch type.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sandbox/interpreter/kernel_library.hpp"
#include "sandbox/program/check.hpp"

namespace cudal1 {

// Memory that holds a tensor; not owned.
struct tensor_view {
  tensor_type type;
  void* data = nullptr;
};

class lane_driver;

// Hears when a step that makes the memory of an output begins and ends, so that an allocator can keep that memory
// apart. What such a step allocates beside it is in there, too.
class output_memory_listener {
 public:
  virtual ~output_memory_listener() = default;
  virtual void begin_output() = 0;
  virtual void end_output() = 0;
};

struct interpreter_options {
  int threads = 1;
  int cuda_device = -1;  // -1: the CPU; else tensors are on that GPU, and operators run on LibTorch's current stream
  // Null: one stream, even if the program's head requests lanes. Else steps are assigned to as many lanes as the head
  // and the data flow allow; the driver must outlive the interpreter.
  lane_driver* lanes = nullptr;
  output_memory_listener* output_memory = nullptr;  // may be null; it must outlive the interpreter
};

class interpreter {
 public:
  // `kernels` may be null for a program without launches, and must outlive the interpreter.
  static expected<std::unique_ptr<interpreter>> load(checked_program p, const kernel_library* kernels,
                                                     interpreter_options options = {});
  virtual ~interpreter() = default;

  // Runs the ATen steps once on zeros, without launches: libraries that generate machine code for a shape (oneDNN) do
  // it now, because a locked-down process may not. Does nothing on a GPU. Ignores errors; call() reports them.
  virtual void rehearse() = 0;

  // Binds the weights (in the program's order) and runs the setup steps. Call it again when a weight changes.
  virtual expected<void> set_weights(std::span<const tensor_view> weights) = 0;

  // Runs the steps. `inputs`: in the program's order, of the declared types. The outputs stay valid until the next call
  // or release(). An ATen exception is errc::variant_fault with the step, or errc::out_of_memory; a result whose type
  // differs from our rules' is errc::invalid_program; an engine that the device's library lacks is errc::unsupported.
  // On a GPU the work is enqueued on LibTorch's current stream (which lanes have joined), and may still be running when
  // this returns.
  virtual expected<void> call(std::span<const tensor_view> inputs) = 0;
  virtual std::span<const tensor_view> outputs() const = 0;
  // The memory that setup steps made, which calls only read: bytes, each of them once. Valid until set_weights().
  virtual std::vector<tensor_view> constants() const = 0;
  // Frees the outputs' memory.
  virtual void release() = 0;

  // The step being run, for a fault handler: "step 2 (launch row_scale)". Async-signal-safe to read.
  virtual const char* current_step() const = 0;
};

// ---- the tensor allocator of a worker -------------------------------------------------------------------------------
// All tensors of ATen and of alloc steps are in one arena of limited size, in memory that referee and runner share,
// with guards on both sides, poisoned when allocated, and at addresses that change from call to call.

struct arena_options {
  void* base = nullptr;      // mapped memory, page-aligned
  int64_t bytes = 0;         // its size: the memory limit
  uint64_t poison_seed = 0;  // selects addresses and poison
  bool poison = true;        // false: no poison, for a process that runs only ATen's operators
};

// Installs the arena as c10's CPU allocator, once per process, before any tensor is made. An allocation above the limit
// throws c10's out-of-memory error, which call() reports as errc::out_of_memory.
expected<void> install_arena(const arena_options& options);
// Call it before each call: changes poison and addresses, and poisons all free memory that the next call will use.
void arena_begin_call(uint64_t poison_seed);
// Around what makes tensors that calls only read (setup steps): those that are left at the end are read-only memory
// until they are released, so that no call can keep anything in them.
void arena_begin_lasting();
expected<void> arena_end_lasting();
struct guard_report {
  bool intact = true;
  std::string problem;  // "12 bytes after the end of y (alloc) were overwritten"
};
guard_report arena_check_guards();
int64_t arena_bytes_in_use();
int64_t arena_peak_bytes();

// Warm-up for a zygote: loads everything that a first call would load, without starting a thread.
void warm_up();

// Compares every schema of operator_table() with ATen's. Returns the mismatches (a test requires none).
std::vector<std::string> schema_mismatches();

}  // namespace cudal1
