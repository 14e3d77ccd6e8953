#include "sandbox/cuda/runtime/cuda_graph.hpp"

#include <algorithm>
#include <cstring>

namespace cudal1 {
namespace {

constexpr std::size_t pointer_bytes = sizeof(void*);

expected<std::vector<cudaGraphNode_t>> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  CUDAL1_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) CUDAL1_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

uintptr_t pointer_at(const std::vector<std::byte>& bytes, std::size_t at) {
  uintptr_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
  const auto* first = static_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), first, first + count);
}

// Offset in the range, or -1. One past the end counts for nothing: it is the next one's start.
int64_t offset_in(const std::byte* base, int64_t bytes, uintptr_t value) {
  const auto first = reinterpret_cast<uintptr_t>(base);
  return value >= first && value < first + static_cast<uintptr_t>(bytes) ? static_cast<int64_t>(value - first) : -1;
}

}  // namespace

expected<rebound_graph::operands> rebound_graph::operands_of_kernel(node& into) {
  CUDAL1_TRY(const auto* const api, driver_api());
  CUDAL1_DRIVER(api->graph_kernel_params(into.handle, &into.kernel));
  operands result;
  if (into.kernel.kernelParams == nullptr) {
    if (into.kernel.extra == nullptr) return result;
    return fail(errc::unsupported, "a kernel of a library hands its parameters over as one buffer");
  }
  for (std::size_t i = 0;; ++i) {
    std::size_t offset = 0, size = 0;
    const CUresult r = into.kernel.func != nullptr ? api->func_param_info(into.kernel.func, i, &offset, &size)
                                                   : api->kernel_param_info(into.kernel.kern, i, &offset, &size);
    if (r != CUDA_SUCCESS) break;  // behind the last one
    // Aligned, so that every pointer of the kernel lies at a multiple of its size.
    result.bytes.resize((result.bytes.size() + 15) / 16 * 16);
    result.offsets.push_back(result.bytes.size());
    append(result.bytes, into.kernel.kernelParams[i], size);
  }
  return result;
}

expected<rebound_graph::operands> rebound_graph::operands_of(cudaGraphNode_t handle, cudaGraphNodeType type,
                                                             node& into) {
  into.handle = handle;
  operands result;
  switch (type) {
    case cudaGraphNodeTypeKernel:
      into.kind = node_kind::kernel;
      return operands_of_kernel(into);
    case cudaGraphNodeTypeMemcpy:
      into.kind = node_kind::copy;
      CUDAL1_CUDA(cudaGraphMemcpyNodeGetParams(handle, &into.copy));
      append(result.bytes, &into.copy.srcPtr.ptr, pointer_bytes);
      append(result.bytes, &into.copy.dstPtr.ptr, pointer_bytes);
      return result;
    case cudaGraphNodeTypeMemset:
      into.kind = node_kind::fill;
      CUDAL1_CUDA(cudaGraphMemsetNodeGetParams(handle, &into.fill));
      append(result.bytes, &into.fill.dst, pointer_bytes);
      return result;
    default:
      return result;  // events and empty nodes have no operands
  }
}

// A word that points into a range in the first capture must point to the same place of it in the second.
expected<void> rebound_graph::find_places(node& n, const operands& first, const operands& second) {
  if (first.bytes.size() != second.bytes.size()) return fail(errc::unsupported, "two captures differ in a kernel");
  for (std::size_t at = 0; at + pointer_bytes <= first.bytes.size(); at += pointer_bytes) {
    const uintptr_t a = pointer_at(first.bytes, at), b = pointer_at(second.bytes, at);
    for (std::size_t r = 0; r < ranges_.size(); ++r) {
      const int64_t offset = offset_in(ranges_[r].first, ranges_[r].bytes, a);
      if (offset < 0 || offset_in(ranges_[r].second, ranges_[r].bytes, b) != offset) continue;
      n.places.push_back({r, offset, at});
      found_[r] = true;
      break;
    }
  }
  return {};
}

expected<void> rebound_graph::add_node(cudaGraphNode_t first, cudaGraphNode_t second) {
  cudaGraphNodeType type{}, other{};
  CUDAL1_CUDA(cudaGraphNodeGetType(first, &type));
  CUDAL1_CUDA(cudaGraphNodeGetType(second, &other));
  if (type != other) return fail(errc::unsupported, "two captures of the same steps differ");
  node n, ignored;
  CUDAL1_TRY(operands mine, operands_of(first, type, n));
  CUDAL1_TRY(const operands theirs, operands_of(second, type, ignored));
  if (n.kind == node_kind::kernel && (n.kernel.func != ignored.kernel.func || n.kernel.kern != ignored.kernel.kern))
    return fail(errc::unsupported, "two captures of the same steps launch different kernels");
  CUDAL1_CHECK(find_places(n, mine, theirs));
  if (n.places.empty()) return {};
  n.bytes = std::move(mine.bytes);
  for (const std::size_t offset : mine.offsets)
    n.parameters.push_back(n.bytes.data() + offset);
  n.kernel.kernelParams = n.parameters.data();
  n.kernel.extra = nullptr;
  nodes_.push_back(std::move(n));  // moving a vector keeps its elements where they are
  return {};
}

expected<std::unique_ptr<rebound_graph>> rebound_graph::create(captured_graph first, const captured_graph* second,
                                                               std::vector<bound_range> ranges) {
  std::unique_ptr<rebound_graph> result(new rebound_graph());
  result->ranges_ = std::move(ranges);
  result->found_.assign(result->ranges_.size(), false);
  result->last_.assign(result->ranges_.size(), nullptr);
  CUDAL1_TRY(const auto mine, nodes_of(first.get()));
  CUDAL1_TRY(const auto theirs, nodes_of(second != nullptr ? second->get() : first.get()));
  if (mine.size() != theirs.size())
    return fail(errc::unsupported, "two captures of the same steps have {} and {} nodes", mine.size(), theirs.size());
  result->all_nodes_ = mine.size();
  for (std::size_t i = 0; i < mine.size() && second != nullptr; ++i)
    CUDAL1_CHECK(result->add_node(mine[i], theirs[i]));
  for (std::size_t r = 0; r < result->ranges_.size(); ++r)
    if (!result->found_[r]) result->unbound_.push_back(r);
  // The nodes' handles are those of the first graph, which stays for as long as they are used.
  CUDAL1_CUDA(cudaGraphInstantiate(&result->executable_, first.get(), 0));
  result->graph_ = first.release();
  return result;
}

rebound_graph::~rebound_graph() {
  if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
  if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
}

expected<void> rebound_graph::set(node& n, std::span<std::byte* const> now) {
  const bool same =
      n.is_set && std::ranges::all_of(n.places, [&](const place& p) { return last_[p.range] == now[p.range]; });
  if (same) return {};
  for (const auto& p : n.places) {
    const std::byte* const pointer = now[p.range] + p.offset;
    std::memcpy(n.bytes.data() + p.at, &pointer, sizeof pointer);
  }
  n.is_set = true;
  switch (n.kind) {
    case node_kind::kernel: {
      CUDAL1_TRY(const auto* const api, driver_api());
      return driver_check(api->graph_exec_set_kernel(executable_, n.handle, &n.kernel),
                          "cuGraphExecKernelNodeSetParams");
    }
    case node_kind::copy:
      std::memcpy(&n.copy.srcPtr.ptr, n.bytes.data(), pointer_bytes);
      std::memcpy(&n.copy.dstPtr.ptr, n.bytes.data() + pointer_bytes, pointer_bytes);
      return cuda_check(cudaGraphExecMemcpyNodeSetParams(executable_, n.handle, &n.copy),
                        "cudaGraphExecMemcpyNodeSetParams");
    case node_kind::fill:
      std::memcpy(&n.fill.dst, n.bytes.data(), pointer_bytes);
      return cuda_check(cudaGraphExecMemsetNodeSetParams(executable_, n.handle, &n.fill),
                        "cudaGraphExecMemsetNodeSetParams");
  }
  return {};
}

expected<void> rebound_graph::launch(std::span<std::byte* const> now, cudaStream_t stream) {
  for (auto& n : nodes_)
    CUDAL1_CHECK(set(n, now));
  std::ranges::copy(now, last_.begin());
  return cuda_check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

}  // namespace cudal1
