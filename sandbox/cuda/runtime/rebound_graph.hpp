// A CUDA graph whose pointers into a call's tensors are set before each launch, so that nothing is copied in or out.
// The pointers are found by comparing two captures of the same work at different addresses.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/cuda/runtime/captured_graph.hpp"
#include "sandbox/cuda/runtime/graph_node.hpp"

namespace cudal1 {

// Memory that changes with each call: its address in the first capture and in the second. An empty range stays where it
// was captured.
struct bound_range {
  uintptr_t first = 0, second = 0;
  uintptr_t bytes = 0;
};

// Errors are exceptions: cannot_rebind and cuda_failure. Not thread-safe.
class rebound_graph {
 public:
  // `first` is what will run; `second` is only compared with it. Without a second one there is nothing to set.
  explicit rebound_graph(captured_graph first, const captured_graph* second = nullptr,
                         std::vector<bound_range> ranges = {})
      : graph_(std::move(first)), ranges_(std::move(ranges)), found_(ranges_.size()), last_(ranges_.size()) {
    if (second != nullptr) compare(*second);
    check_runtime(cudaGraphInstantiate(&executable_, graph_.get(), 0), "cudaGraphInstantiate");
  }
  ~rebound_graph() {
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
  }
  rebound_graph(const rebound_graph&) = delete;
  rebound_graph& operator=(const rebound_graph&) = delete;

  // True if some node points to the range. Otherwise its content must be copied to its address in the first capture.
  bool found(std::size_t range) const { return found_[range]; }

  // Sets the pointers, with range i at `now[i]`, and launches. Launches of one graph never overlap, on any streams.
  void launch(const std::vector<uintptr_t>& now, cudaStream_t stream) {
    if (!all_set_ || now != last_) set_all(now);
    check_runtime(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  // A pointer among a node's operands.
  struct place {
    std::size_t range = 0;
    uintptr_t offset = 0;  // from the range's first byte
    std::size_t at = 0;    // among the node's bytes
  };
  struct bound_node {
    graph_node node;
    std::vector<place> places;
  };

  void compare(const captured_graph& second) {
    const auto mine = graph_.nodes(), theirs = second.nodes();
    if (mine.size() != theirs.size())
      throw cannot_rebind("two captures of the same steps have " + std::to_string(mine.size()) + " and " +
                          std::to_string(theirs.size()) + " nodes");
    for (std::size_t i = 0; i < mine.size(); ++i) {
      graph_node node(mine[i]);
      const graph_node other(theirs[i]);
      node.check_same_work(other);
      if (auto places = places_in(node, other); !places.empty()) nodes_.push_back({std::move(node), std::move(places)});
    }
  }

  // A word that points into a range in the first capture must point to the same place of it in the second. One past
  // the end is ignored: it is the start of the next one.
  std::vector<place> places_in(const graph_node& node, const graph_node& other) {
    std::vector<place> places;
    for (std::size_t at = 0; at + sizeof(uintptr_t) <= node.bytes(); at += sizeof(uintptr_t)) {
      const uintptr_t a = node.word_at(at), b = other.word_at(at);
      for (std::size_t r = 0; r < ranges_.size(); ++r) {
        const auto& range = ranges_[r];
        if (a - range.first >= range.bytes || b - range.second != a - range.first) continue;
        places.push_back({r, a - range.first, at});
        found_[r] = true;
        break;
      }
    }
    return places;
  }

  // If a call fails, some nodes are set and some are not: the next call sets all of them.
  void set_all(const std::vector<uintptr_t>& now) {
    const bool known = std::exchange(all_set_, false);
    for (auto& [node, places] : nodes_) {
      bool same = known;
      for (const auto& p : places)
        same = same && last_[p.range] == now[p.range];
      if (same) continue;
      for (const auto& p : places)
        node.put(p.at, now[p.range] + p.offset);
      node.set_in(executable_);
    }
    last_ = now;
    all_set_ = true;
  }

  captured_graph graph_;  // the nodes' handles are its own
  cudaGraphExec_t executable_ = nullptr;
  std::vector<bound_range> ranges_;
  std::vector<bool> found_;
  std::vector<bound_node> nodes_;  // those that have pointers to set
  std::vector<uintptr_t> last_;
  bool all_set_ = false;  // all pointers are set to `last_`
};

}  // namespace cudal1
