// A captured CUDA graph whose pointers into a call's tensors can be set anew before each launch. Where they are is
// found by comparing two captures of the same work at different addresses: the parameter bytes of every kernel node,
// library kernels included, and the operands of copies and fills.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/cuda/runtime/api.hpp"

namespace cudal1 {

// Memory that is another one in each call: where it was in the first capture and in the second.
struct bound_range {
  std::string name;
  const std::byte* first = nullptr;
  const std::byte* second = nullptr;
  int64_t bytes = 0;
};

// A captured, not yet instantiated graph, owned.
class captured_graph {
 public:
  explicit captured_graph(cudaGraph_t graph) : graph_(graph) {}
  captured_graph(captured_graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  captured_graph& operator=(captured_graph&&) = delete;
  ~captured_graph() {
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  cudaGraph_t get() const { return graph_; }
  cudaGraph_t release() { return std::exchange(graph_, nullptr); }

 private:
  cudaGraph_t graph_ = nullptr;
};

class rebound_graph {
 public:
  // `first` is what will run. Fails with errc::unsupported where the two captures are not the same work. Without a
  // second capture (null) there is nothing to set, and no range.
  static expected<std::unique_ptr<rebound_graph>> create(captured_graph first, const captured_graph* second,
                                                         std::vector<bound_range> ranges);
  ~rebound_graph();
  rebound_graph(const rebound_graph&) = delete;
  rebound_graph& operator=(const rebound_graph&) = delete;

  // Ranges that no node points to: what reads them must be given a copy at the address of the first capture.
  const std::vector<std::size_t>& unbound() const { return unbound_; }
  // How many nodes have pointers to set, and how many there are.
  std::size_t bound_nodes() const { return nodes_.size(); }
  std::size_t all_nodes() const { return all_nodes_; }

  // Sets the pointers, `now[i]` being where range i is, and launches.
  expected<void> launch(std::span<std::byte* const> now, cudaStream_t stream);

 private:
  // A pointer among a node's operands.
  struct place {
    std::size_t range = 0;
    int64_t offset = 0;  // from the range's first byte
    std::size_t at = 0;  // of the pointer in `bytes`
  };
  enum class node_kind { kernel, copy, fill };
  struct node {
    node_kind kind = node_kind::kernel;
    cudaGraphNode_t handle = nullptr;
    CUDA_KERNEL_NODE_PARAMS kernel{};
    cudaMemcpy3DParms copy{};
    cudaMemsetParams fill{};
    std::vector<std::byte> bytes;   // all parameters of a kernel; source and target of a copy; target of a fill
    std::vector<void*> parameters;  // into `bytes`
    std::vector<place> places;
    bool is_set = false;
  };
  // Where a node's parameters lie in `bytes`.
  struct operands {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> offsets;  // of each parameter of a kernel
  };

  rebound_graph() = default;
  static expected<operands> operands_of(cudaGraphNode_t handle, cudaGraphNodeType type, node& into);
  static expected<operands> operands_of_kernel(node& into);
  expected<void> add_node(cudaGraphNode_t first, cudaGraphNode_t second);
  expected<void> find_places(node& n, const operands& first, const operands& second);
  expected<void> set(node& n, std::span<std::byte* const> now);

  std::vector<bound_range> ranges_;
  std::vector<std::size_t> unbound_;
  std::vector<node> nodes_;
  std::size_t all_nodes_ = 0;
  std::vector<bool> found_;
  std::vector<std::byte*> last_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace cudal1
