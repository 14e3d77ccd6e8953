// A program in a GPU's runner: loaded, given weights, called; launched step by step or as one re-bound graph, as its
// head requests. LibTorch's allocator must be the arena.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/cuda/runtime/api.hpp"
#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "sandbox/cuda/runtime/gpu_arena.hpp"
#include "sandbox/cuda/runtime/graph_bindings.hpp"
#include "sandbox/cuda/runtime/rebound_graph.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/interpreter/lane_plan.hpp"

namespace cudal1 {

// A program, and what its runs in this process have shown about it, independent of addresses.
struct known_program {
  explicit known_program(checked_program p) : program(std::move(p)) {}
  checked_program program;
  bool has_run = false;  // outside of a capture
};

class resident {
 public:
  // `object`: the cubin, "" for a program without kernels.
  static expected<std::unique_ptr<resident>> load(std::shared_ptr<known_program> known, std::string_view object,
                                                  int device, device_arena& arena, cudaStream_t stream);
  ~resident();
  resident(const resident&) = delete;
  resident& operator=(const resident&) = delete;

  const std::shared_ptr<known_program>& known() const { return known_; }
  const std::vector<tensor_type>& input_types() const { return input_types_; }
  const std::vector<tensor_type>& weight_types() const { return weight_types_; }

  // True if it has weights or setup steps.
  bool needs_weights() const { return !weight_types_.empty() || !known_->program.text.setup.empty(); }
  // Runs the setup steps and drops a captured graph, in which weights are constants.
  expected<void> set_weights(std::span<const tensor_view> weights);

  // Captures the graph if the program wants one and there is none yet. With several lanes, or where a library
  // compiles kernels for it, runs the program at least once: libraries make a workspace for each stream. `first` and
  // `second`: the same inputs at two addresses. Not timed; call the arena's begin_call() before.
  bool needs_capture() const { return (wants_graph_ && !graph_) || ((lanes_ || compiles_) && !known_->has_run); }
  expected<void> capture(std::span<const tensor_view> first, std::span<const tensor_view> second);

  // Call it before a call, after the arena's begin_call(): marks the graph's memory as used by this call.
  void prepare();
  // Enqueues the work. Errors: errc::variant_fault with the step.
  expected<void> call(std::span<const tensor_view> inputs);
  // Where the outputs of the last call are.
  const std::vector<tensor_view>& outputs() const { return outputs_; }
  // What a call may only read: what the setup steps made, since set_weights(), and its kernels' variables.
  std::vector<tensor_view> constants() const;
  // The largest frame of its kernels in local memory, in bytes a thread.
  int64_t frame_bytes() const { return kernels_ ? frame_bytes_of(*kernels_) : 0; }
  void release();

  // How it runs if not as requested: inputs that are copied.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  resident(std::shared_ptr<known_program> known, device_arena& arena, cudaStream_t stream)
      : known_(std::move(known)), arena_(arena), stream_(stream) {}
  struct capture_result {
    captured_graph graph;
    std::vector<tensor_view> outputs;
    std::vector<captured_place> places;  // of the outputs
    device_arena::held_memory held;
  };
  captured_place place_of(const tensor_view& t) const;
  expected<capture_result> capture_once(std::span<const tensor_view> inputs);
  expected<void> bind(std::span<const tensor_view> first, std::span<const tensor_view> second);
  expected<void> run_before(std::span<const tensor_view> inputs);
  expected<void> capture_copying(std::span<const tensor_view> inputs, const std::string& why);
  expected<void> call_graph(std::span<const tensor_view> inputs);
  void drop_graph();
  void drop_outputs();

  std::shared_ptr<known_program> known_;
  device_arena& arena_;
  cudaStream_t stream_;
  std::unique_ptr<kernel_library> kernels_;
  std::unique_ptr<lane_driver> lanes_;  // null for a program with one lane
  std::unique_ptr<output_memory_listener> apart_;
  std::unique_ptr<interpreter> program_;
  std::vector<tensor_type> input_types_, weight_types_;
  std::vector<std::string> input_names_;
  std::vector<tensor_view> outputs_;
  std::vector<std::string> notes_;

  // Of the graph.
  bool wants_graph_ = false, compiles_ = false;  // a library compiles kernels for it at the first call
  std::unique_ptr<rebound_graph> graph_;
  device_arena::held_memory held_;
  std::vector<tensor_view> captured_outputs_;
  graph_bindings bindings_;
  std::vector<void*> blocks_;  // of the last call, by memory of its outputs; null for one that is not bound
  std::vector<void*> copies_;  // by input: where it is copied to, or null
  std::vector<uintptr_t> now_;
};

}  // namespace cudal1
