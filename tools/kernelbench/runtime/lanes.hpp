#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace {

void check_lane(cudaError_t status) {
  TORCH_CHECK(status == cudaSuccess, "a lane: ", cudaGetErrorString(status));
}

// Independent steps overlap on streams of the program's own; the caller's stream is lane 0, and waits for all at the
// end. Until then nothing that a step used is given back, since another lane may still use it.
class lane_streams {
 public:
  lane_streams(c10::DeviceIndex device, int lanes, int events) : device_(device), entered_(lanes - 1) {
    for (int i = 1; i < lanes; ++i) {
      cudaStream_t raw = nullptr;
      check_lane(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
      raw_.push_back(raw);
      sides_.push_back(c10::cuda::getStreamFromExternal(raw, device));
    }
    for (int i = 0; i < events + lanes; ++i) {
      cudaEvent_t event = nullptr;
      check_lane(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      events_.push_back(event);
    }
    edges_ = static_cast<std::size_t>(events);
  }
  // The streams stay: the allocator may still have memory of theirs.
  ~lane_streams() {
    for (const cudaEvent_t event : events_)
      (void)cudaEventDestroy(event);
  }
  lane_streams(const lane_streams&) = delete;
  lane_streams& operator=(const lane_streams&) = delete;

  bool owns(cudaStream_t stream) const { return std::find(raw_.begin(), raw_.end(), stream) != raw_.end(); }

  void begin() {
    first_ = c10::cuda::getCurrentCUDAStream(device_);
    check_lane(cudaEventRecord(events_[edges_], *first_));
    running_ = true;
  }
  void enter(std::size_t lane) {
    const auto& stream = lane == 0 ? *first_ : sides_[lane - 1];
    c10::cuda::setCurrentCUDAStream(stream);
    if (lane == 0 || entered_[lane - 1]) return;
    entered_[lane - 1] = true;
    check_lane(cudaStreamWaitEvent(stream, events_[edges_], 0));
  }
  void wait(std::size_t event) {
    check_lane(cudaStreamWaitEvent(c10::cuda::getCurrentCUDAStream(device_), events_[event], 0));
  }
  void record(std::size_t event) {
    check_lane(cudaEventRecord(events_[event], c10::cuda::getCurrentCUDAStream(device_)));
  }
  // Ends every call that has begun, a failed one too: a capture ends only without loose streams.
  void join() {
    if (!std::exchange(running_, false)) return;
    c10::cuda::setCurrentCUDAStream(*first_);
    cudaError_t worst = cudaSuccess;
    for (const auto side : c10::irange(sides_.size())) {
      if (!entered_[side]) continue;
      entered_[side] = false;
      const cudaEvent_t end = events_[edges_ + 1 + side];
      cudaError_t status = cudaEventRecord(end, sides_[side]);
      if (status == cudaSuccess) status = cudaStreamWaitEvent(*first_, end, 0);
      if (status != cudaSuccess) worst = status;
    }
    check_lane(worst);
  }

 private:
  c10::DeviceIndex device_;
  std::optional<c10::cuda::CUDAStream> first_;
  std::vector<cudaStream_t> raw_;
  std::vector<c10::cuda::CUDAStream> sides_;  // lanes from 1 on
  std::vector<bool> entered_;                 // in this call
  std::vector<cudaEvent_t> events_;           // of steps; the call's begin; each side's end
  std::size_t edges_ = 0;
  bool running_ = false;
};

}  // namespace
