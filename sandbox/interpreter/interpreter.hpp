// Runs a checked program on the CPU or on a GPU: ATen steps boxed through the dispatcher, kernels through a kernel
// library. Everything that can be is resolved by load(); call() only runs. No LibTorch type shows here.
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

struct interpreter_options {
  int threads = 1;
  int cuda_device = -1;  // -1: the CPU; else tensors live on that GPU, and operators run on LibTorch's current stream
  // Null: one stream, whatever the program's head says. Else steps go to lanes as far as the head allows and the data
  // flow gives any; it must outlive the interpreter.
  lane_driver* lanes = nullptr;
};

class interpreter {
 public:
  // `kernels` may be null for a program without launches, and must outlive the interpreter.
  static expected<std::unique_ptr<interpreter>> load(checked_program p, const kernel_library* kernels,
                                                     interpreter_options options = {});
  virtual ~interpreter() = default;

  // Runs the ATen steps once on zeros, launches left out: libraries that make machine code for a shape (oneDNN) make it
  // now, which a locked-down process no longer may. Nothing on a GPU. What the steps say of the zeros does not matter;
  // call() will tell.
  virtual void rehearse() = 0;

  // Binds the weights (in the program's order) and runs the setup steps. To be called again when a weight changes.
  virtual expected<void> set_weights(std::span<const tensor_view> weights) = 0;

  // Runs the steps. `inputs` in the program's order, of the declared types. The outputs stay valid until the next call
  // or release(). An ATen exception is errc::variant_fault with the step, or errc::out_of_memory; a result whose type
  // is not what our rules said is errc::invalid_program. On a GPU the work is on LibTorch's current stream (lanes have
  // joined it), and not done when it returns.
  virtual expected<void> call(std::span<const tensor_view> inputs) = 0;
  virtual std::span<const tensor_view> outputs() const = 0;
  // Gives the outputs' memory back.
  virtual void release() = 0;

  // The step being run, for a fault handler: "step 2 (launch row_scale)". Async-signal-safe to read.
  virtual const char* current_step() const = 0;
};

// ---- the tensor allocator of a worker -------------------------------------------------------------------------------
// Every tensor of ATen and of alloc steps comes from one arena, in memory that referee and runner share, under a limit,
// with guards on both sides, poisoned when handed out and at addresses that rotate.

struct arena_options {
  void* base = nullptr;      // mapped memory, page-aligned
  int64_t bytes = 0;         // its size: the memory limit
  uint64_t poison_seed = 0;  // rotates addresses and chooses the poison of each block
  bool poison = true;        // false: guards and rotation alone, for a process that runs nothing but ATen's operators
};

// Installs the arena as c10's CPU allocator, once a process, before any tensor is made in it. Above the limit an
// allocation throws c10's out-of-memory error, which call() reports as errc::out_of_memory.
expected<void> install_arena(const arena_options& options);
// Before each call: new poison, other addresses, all of the free memory that the next call will use touched.
void arena_begin_call(uint64_t poison_seed);
struct guard_report {
  bool intact = true;
  std::string problem;  // "12 bytes after the end of y (alloc) were overwritten"
};
guard_report arena_check_guards();
int64_t arena_bytes_in_use();
int64_t arena_peak_bytes();

// Single-threaded warm-up for a zygote: loads what a first call would load, starts no thread.
void warm_up();

// Registers our rules' view of the operators with the dispatcher's: every schema string of operator_table() must be
// what ATen has. Returns the mismatches (a test wants none).
std::vector<std::string> schema_mismatches();

}  // namespace cudal1
