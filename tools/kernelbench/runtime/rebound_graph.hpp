#include <cstring>

#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace {

// ---- the graph ------------------------------------------------------------------------------------------------------
// Replayed as one CUDA graph whose pointers into the call's inputs and outputs are set anew before each launch, so that
// nothing is copied in or out. Where they are is found by comparing two captures of the same work at different
// addresses: the parameter bytes of every kernel node, library kernels included, and the operands of copies and fills.

void graph_check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  TORCH_CHECK(false, what, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

// Functions of the driver, asked of the runtime: nothing is linked against libcuda.
struct driver_functions {
  CUresult (*kernel_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*set_kernel)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*func_param)(CUfunction, std::size_t, std::size_t*, std::size_t*) = nullptr;
  CUresult (*kern_param)(CUkernel, std::size_t, std::size_t*, std::size_t*) = nullptr;
};

const driver_functions& driver() {
  static const driver_functions found = [] {
    driver_functions f;
    const auto find = [](const char* name, auto& function) {
      void* address = nullptr;
      cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
      graph_check(cudaGetDriverEntryPointByVersion(name, &address, 12040, cudaEnableDefault, &result), name);
#else
      graph_check(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &result), name);
#endif
      TORCH_CHECK(result == cudaDriverEntryPointSuccess && address != nullptr, "the NVIDIA driver offers no ", name,
                  "; it should be one for CUDA 12.4 or newer");
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    };
    find("cuGraphKernelNodeGetParams", f.kernel_params);
    find("cuGraphExecKernelNodeSetParams", f.set_kernel);
    find("cuFuncGetParamInfo", f.func_param);
    find("cuKernelGetParamInfo", f.kern_param);
    return f;
  }();
  return found;
}

void driver_check(CUresult status, const char* what) {
  TORCH_CHECK(status == CUDA_SUCCESS, what, " failed with CUresult ", static_cast<int>(status));
}

// Memory that is another one in each call: where it was in the first capture and in the second.
struct bound_range {
  uintptr_t first = 0, second = 0;
  uintptr_t bytes = 0;
  bool found = false;  // some node points to it
};

class rebound_graph {
 public:
  // Owns `first`, which is what will run; `second` is only looked at. Null: nothing to set.
  rebound_graph(cudaGraph_t first, cudaGraph_t second, std::vector<bound_range> ranges)
      : graph_(first), ranges_(std::move(ranges)), last_(ranges_.size()) {
    try {
      if (second != nullptr) compare(second);
      graph_check(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
    } catch (...) {
      (void)cudaGraphDestroy(graph_);
      throw;
    }
  }
  ~rebound_graph() {
    (void)cudaGraphExecDestroy(executable_);
    (void)cudaGraphDestroy(graph_);
  }
  rebound_graph(const rebound_graph&) = delete;
  rebound_graph& operator=(const rebound_graph&) = delete;

  bool found(std::size_t range) const { return ranges_[range].found; }

  // `now[i]` is where range i is. Launches of one graph never overlap, on whatever streams.
  void launch(const std::vector<uintptr_t>& now, cudaStream_t stream) {
    if (!is_set_ || now != last_) set_all(now);
    graph_check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  struct place {
    std::size_t range = 0;
    uintptr_t offset = 0;  // from the range's first byte
    std::size_t at = 0;    // of the pointer in `bytes`
  };
  struct node {
    cudaGraphNodeType type{};
    cudaGraphNode_t handle = nullptr;
    CUDA_KERNEL_NODE_PARAMS kernel{};
    cudaMemcpy3DParms copy{};
    cudaMemsetParams fill{};
    std::vector<char> bytes;           // all parameters of a kernel; source and target of a copy; target of a fill
    std::vector<std::size_t> offsets;  // of each parameter of a kernel in `bytes`
    std::vector<void*> parameters;     // into `bytes`
    std::vector<place> places;
    bool is_set = false;
  };

  static std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
    std::size_t count = 0;
    graph_check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    if (count > 0) graph_check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
    return nodes;
  }

  static void append(std::vector<char>& bytes, const void* from, std::size_t count) {
    const auto* first = static_cast<const char*>(from);
    bytes.insert(bytes.end(), first, first + count);
  }

  static node read(cudaGraphNode_t handle) {
    node n;
    n.handle = handle;
    graph_check(cudaGraphNodeGetType(handle, &n.type), "cudaGraphNodeGetType");
    if (n.type == cudaGraphNodeTypeKernel) {
      read_kernel(n);
    } else if (n.type == cudaGraphNodeTypeMemcpy) {
      graph_check(cudaGraphMemcpyNodeGetParams(handle, &n.copy), "cudaGraphMemcpyNodeGetParams");
      append(n.bytes, &n.copy.srcPtr.ptr, sizeof(void*));
      append(n.bytes, &n.copy.dstPtr.ptr, sizeof(void*));
    } else if (n.type == cudaGraphNodeTypeMemset) {
      graph_check(cudaGraphMemsetNodeGetParams(handle, &n.fill), "cudaGraphMemsetNodeGetParams");
      append(n.bytes, &n.fill.dst, sizeof(void*));
    }
    return n;  // events and empty nodes have no operands
  }

  static void read_kernel(node& n) {
    driver_check(driver().kernel_params(n.handle, &n.kernel), "cuGraphKernelNodeGetParams");
    TORCH_CHECK(n.kernel.kernelParams != nullptr || n.kernel.extra == nullptr,
                "a kernel of a library hands its parameters over as one buffer");
    for (std::size_t i = 0; n.kernel.kernelParams != nullptr; ++i) {
      std::size_t offset = 0, size = 0;
      const CUresult more = n.kernel.func != nullptr ? driver().func_param(n.kernel.func, i, &offset, &size)
                                                     : driver().kern_param(n.kernel.kern, i, &offset, &size);
      if (more != CUDA_SUCCESS) break;  // behind the last one
      // Aligned, so that every pointer of the kernel lies at a multiple of its size.
      n.bytes.resize((n.bytes.size() + 15) / 16 * 16);
      n.offsets.push_back(n.bytes.size());
      append(n.bytes, n.kernel.kernelParams[i], size);
    }
  }

  void compare(cudaGraph_t second) {
    const auto mine = nodes_of(graph_), theirs = nodes_of(second);
    TORCH_CHECK(mine.size() == theirs.size(), "two captures of the same steps have ", mine.size(), " and ",
                theirs.size(), " nodes");
    for (std::size_t i = 0; i < mine.size(); ++i) {
      node n = read(mine[i]);
      const node other = read(theirs[i]);
      TORCH_CHECK(n.type == other.type && n.bytes.size() == other.bytes.size() && n.kernel.func == other.kernel.func &&
                      n.kernel.kern == other.kernel.kern,
                  "two captures of the same steps differ");
      find_places(n, other);
      if (n.places.empty()) continue;
      nodes_.push_back(std::move(n));  // moving a vector keeps its elements where they are
      auto& kept = nodes_.back();
      for (const std::size_t offset : kept.offsets)
        kept.parameters.push_back(kept.bytes.data() + offset);
    }
    for (auto& n : nodes_) {
      n.kernel.kernelParams = n.parameters.data();
      n.kernel.extra = nullptr;
    }
  }

  // A word that points into a range in the first capture points to the same place of it in the second, or is none.
  void find_places(node& n, const node& other) {
    for (std::size_t at = 0; at + sizeof(uintptr_t) <= n.bytes.size(); at += sizeof(uintptr_t)) {
      uintptr_t a = 0, b = 0;
      std::memcpy(&a, n.bytes.data() + at, sizeof a);
      std::memcpy(&b, other.bytes.data() + at, sizeof b);
      for (std::size_t r = 0; r < ranges_.size(); ++r) {
        auto& range = ranges_[r];
        if (a - range.first >= range.bytes || b - range.second != a - range.first) continue;
        n.places.push_back({r, a - range.first, at});
        range.found = true;
        break;
      }
    }
  }

  void set_all(const std::vector<uintptr_t>& now) {
    is_set_ = false;
    try {
      for (auto& n : nodes_)
        set(n, now);
    } catch (...) {  // some are set and some are not
      for (auto& n : nodes_)
        n.is_set = false;
      throw;
    }
    last_ = now;
    is_set_ = true;
  }

  void set(node& n, const std::vector<uintptr_t>& now) {
    bool same = n.is_set;
    for (const auto& p : n.places) {
      same = same && last_[p.range] == now[p.range];
      const uintptr_t pointer = now[p.range] + p.offset;
      std::memcpy(n.bytes.data() + p.at, &pointer, sizeof pointer);
    }
    if (same) return;
    n.is_set = true;
    if (n.type == cudaGraphNodeTypeKernel) {
      driver_check(driver().set_kernel(executable_, n.handle, &n.kernel), "cuGraphExecKernelNodeSetParams");
    } else if (n.type == cudaGraphNodeTypeMemcpy) {
      std::memcpy(&n.copy.srcPtr.ptr, n.bytes.data(), sizeof(void*));
      std::memcpy(&n.copy.dstPtr.ptr, n.bytes.data() + sizeof(void*), sizeof(void*));
      graph_check(cudaGraphExecMemcpyNodeSetParams(executable_, n.handle, &n.copy), "cudaGraphExecMemcpyNodeSetParams");
    } else {
      std::memcpy(&n.fill.dst, n.bytes.data(), sizeof(void*));
      graph_check(cudaGraphExecMemsetNodeSetParams(executable_, n.handle, &n.fill), "cudaGraphExecMemsetNodeSetParams");
    }
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<bound_range> ranges_;
  std::vector<node> nodes_;  // those that have pointers to set
  std::vector<uintptr_t> last_;
  bool is_set_ = false;  // all nodes are, to `last_`
};

}  // namespace
