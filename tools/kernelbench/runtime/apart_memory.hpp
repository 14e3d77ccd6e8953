#include <functional>
#include <memory>

#include <c10/cuda/CUDACachingAllocator.h>

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11  // as in torch_python
namespace at::cuda {
c10::MempoolId_t graph_pool_handle();
}
#else
#include <ATen/cuda/CUDAGraph.h>
#endif

namespace {

// The memory of one captured graph, in private pools. Memory that may hold outputs is apart: while `active`, each
// allocation has its own pool, so that no temporary value ever shares an address with an output, and an address within
// an output identifies that output.
class apart_memory {
 public:
  using stream_filter = std::function<bool(cudaStream_t)>;

  apart_memory(c10::DeviceIndex device, stream_filter is_ours) : device_(device), is_ours_(std::move(is_ours)) {}
  ~apart_memory() {
    end();
    for (const auto& pool : begun_) {
      try {
        c10::cuda::CUDACachingAllocator::releasePool(device_, pool);
      } catch (const std::exception&) {  // the process ends
      }
    }
  }
  apart_memory(const apart_memory&) = delete;
  apart_memory& operator=(const apart_memory&) = delete;

  // Only counts allocations and does not redirect them.
  void begin_counting() {
    open([state = state_, ours = is_ours_](cudaStream_t s) {
      if (state->active && ours(s)) ++state->next;
      return false;
    });
  }
  // Until end(): `apart` allocations have pools of their own, the others share one. Exactly one filter accepts each
  // allocation, in whatever order the allocator calls them.
  void begin(std::size_t apart) {
    for (std::size_t i = 0; i < apart; ++i)
      open([state = state_, ours = is_ours_, i](cudaStream_t s) {
        if (!state->active || state->next != i || !ours(s)) return false;
        ++state->next;
        return true;
      });
    open([state = state_, ours = is_ours_, apart](cudaStream_t s) {
      if (!ours(s) || (state->active && state->next < apart)) return false;
      if (state->active) state->overflown = true;
      return true;
    });
  }
  void end() {
    for (; ended_ < begun_.size(); ++ended_) {
      try {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(device_, begun_[ended_]);
      } catch (const std::exception&) {  // the process ends
      }
    }
  }

  std::size_t count() const { return state_->next; }
  bool overflown() const { return state_->overflown; }

 private:
  friend class apart_scope;
  struct counters {
    bool active = false, overflown = false;
    std::size_t next = 0;
  };
  void open(stream_filter filter) {
    const auto pool = at::cuda::graph_pool_handle();
    c10::cuda::CUDACachingAllocator::beginAllocateToPool(device_, pool, std::move(filter));
    begun_.push_back(pool);
  }

  c10::DeviceIndex device_;
  stream_filter is_ours_;
  std::shared_ptr<counters> state_ = std::make_shared<counters>();
  std::vector<decltype(at::cuda::graph_pool_handle())> begun_;
  std::size_t ended_ = 0;
};

// The scope of a step that allocates the memory of an output. Null: nothing is being captured.
class apart_scope {
 public:
  explicit apart_scope(apart_memory* memory) : memory_(memory) {
    if (memory_ != nullptr) memory_->state_->active = true;
  }
  ~apart_scope() {
    if (memory_ != nullptr) memory_->state_->active = false;
  }
  apart_scope(const apart_scope&) = delete;
  apart_scope& operator=(const apart_scope&) = delete;

 private:
  apart_memory* memory_;
};

}  // namespace
