// Which memory of a graph changes with each call (its inputs and the memory of its outputs), and where in it the
// outputs are. Computed from the addresses in two captures; nothing here calls CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/cuda/runtime/rebound_graph.hpp"

namespace cudal1 {

// Where a tensor was in a capture: its first element, and the memory that holds it.
struct captured_place {
  uintptr_t at = 0;
  uintptr_t memory = 0, bytes = 0;
};

class graph_bindings {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct output {
    std::size_t input = none;   // the input whose memory it is in, or:
    std::size_t memory = none;  // index into memories()
    uintptr_t offset = 0;       // bytes from that memory's first one
  };
  // Memory of outputs; several may share one.
  struct memory {
    std::size_t output = 0;       // the first one in it
    uintptr_t at = 0, bytes = 0;  // in the first capture
    std::size_t range = none;     // index into ranges(); none if both captures have it at one address
    bool bound = false;           // it changes with each call; else it stays where it was captured
  };

  graph_bindings() = default;
  // For a graph that is not re-bound: inputs and outputs must be copied in and out.
  graph_bindings(const std::vector<captured_place>& inputs, const std::vector<captured_place>& outputs)
      : graph_bindings(inputs, outputs, inputs, outputs) {
    ranges_.clear();
  }
  // Inputs are in ranges() first, in their order.
  graph_bindings(const std::vector<captured_place>& inputs, const std::vector<captured_place>& outputs,
                 const std::vector<captured_place>& second_inputs, const std::vector<captured_place>& second_outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ranges_.push_back({inputs[i].memory, second_inputs[i].memory, inputs[i].bytes});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outputs_.push_back(placed(i, outputs[i], second_outputs[i], inputs));
  }

  const std::vector<output>& outputs() const { return outputs_; }
  const std::vector<memory>& memories() const { return memories_; }
  const std::vector<bound_range>& ranges() const { return ranges_; }

  // Call it once the graph is made from ranges().
  void note_found(const rebound_graph& graph) {
    for (auto& m : memories_)
      m.bound = m.range != none && graph.found(m.range);
  }

 private:
  output placed(std::size_t i, const captured_place& first, const captured_place& second,
                const std::vector<captured_place>& inputs) {
    for (std::size_t in = 0; in < inputs.size(); ++in)
      if (first.memory < inputs[in].memory + inputs[in].bytes && inputs[in].memory < first.memory + first.bytes)
        return {in, none, first.at - inputs[in].memory};
    for (std::size_t m = 0; m < memories_.size(); ++m)
      if (memories_[m].at == first.memory) return {none, m, first.at - first.memory};
    memory made{i, first.memory, first.bytes};
    if (first.memory != second.memory && first.bytes == second.bytes) {
      made.range = ranges_.size();
      ranges_.push_back({first.memory, second.memory, first.bytes});
    }
    memories_.push_back(made);
    return {none, memories_.size() - 1, first.at - first.memory};
  }

  std::vector<bound_range> ranges_;
  std::vector<output> outputs_;
  std::vector<memory> memories_;
};

}  // namespace cudal1
