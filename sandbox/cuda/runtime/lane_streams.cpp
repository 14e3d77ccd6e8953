#include "sandbox/cuda/runtime/lane_streams.hpp"

#include <map>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAStream.h>

#include "sandbox/cuda/runtime/api.hpp"

namespace cudal1 {
namespace {

using c10::cuda::CUDAStream;

expected<void> check(cudaError_t status) {
  if (status == cudaSuccess) return {};
  return fail(errc::variant_fault, "{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

class event {
 public:
  static expected<event> create() {
    event e;
    CUDAL1_CUDA(cudaEventCreateWithFlags(&e.event_, cudaEventDisableTiming));
    return e;
  }
  event(event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~event() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  event() = default;
  cudaEvent_t event_ = nullptr;
};

expected<std::vector<event>> make_events(int count) {
  std::vector<event> events;
  for (int i = 0; i < count; ++i) {
    CUDAL1_TRY(auto made, event::create());
    events.push_back(std::move(made));
  }
  return events;
}

// The same ones for every program: libraries keep a workspace for each stream that they meet, and never give it back.
// LibTorch's streams live as long as the process. One thread.
std::vector<CUDAStream> side_streams(c10::DeviceIndex device, std::size_t count) {
  static std::map<c10::DeviceIndex, std::vector<CUDAStream>> all;
  auto& streams = all[device];
  while (streams.size() < count)
    streams.push_back(c10::cuda::getStreamFromPool(false, device));
  return {streams.begin(), streams.begin() + static_cast<std::ptrdiff_t>(count)};
}

class cuda_lanes final : public lane_driver {
 public:
  cuda_lanes(int device, device_arena& arena)
      : device_(static_cast<c10::DeviceIndex>(device)),
        arena_(arena),
        first_(c10::cuda::getCurrentCUDAStream(device_)) {}

  expected<void> prepare(int lanes, int events) override {
    sides_ = side_streams(device_, static_cast<std::size_t>(lanes) - 1);
    entered_.assign(sides_.size(), false);
    CUDAL1_TRY(steps_, make_events(events));
    CUDAL1_TRY(edges_, make_events(lanes));
    return {};
  }

  expected<void> begin() override {
    first_ = now_ = c10::cuda::getCurrentCUDAStream(device_);
    CUDAL1_CHECK(check(cudaEventRecord(edges_[0].get(), first_)));
    arena_.keep_released();
    return {};
  }

  expected<void> enter(int lane) override {
    const auto side = static_cast<std::size_t>(lane) - 1;
    const CUDAStream& wanted = lane == 0 ? first_ : sides_[side];
    if (wanted != now_) go_to(wanted);
    if (lane == 0 || entered_[side]) return {};
    entered_[side] = true;
    return check(cudaStreamWaitEvent(now_, edges_[0].get(), 0));
  }

  expected<void> wait(int event) override { return check(cudaStreamWaitEvent(now_, of_step(event), 0)); }
  expected<void> record(int event) override { return check(cudaEventRecord(of_step(event), now_)); }

  // Every stream that was entered is joined, also behind one that fails: a capture ends only without loose ones.
  expected<void> join() override {
    go_to(first_);
    expected<void> result;
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      if (!entered_[side]) continue;
      entered_[side] = false;
      const cudaEvent_t end = edges_[side + 1].get();
      auto joined = check(cudaEventRecord(end, sides_[side]));
      if (joined) joined = check(cudaStreamWaitEvent(first_, end, 0));
      if (!joined && result) result = std::move(joined);
    }
    arena_.let_released_go();
    return result;
  }

 private:
  void go_to(const CUDAStream& stream) {
    now_ = stream;
    c10::cuda::setCurrentCUDAStream(stream);
  }
  cudaEvent_t of_step(int event) const { return steps_[static_cast<std::size_t>(event)].get(); }

  c10::DeviceIndex device_;
  device_arena& arena_;
  CUDAStream first_, now_ = first_;  // of the caller; where work goes
  std::vector<CUDAStream> sides_;    // lanes from 1 on
  std::vector<bool> entered_;        // in this call
  std::vector<event> steps_;
  std::vector<event> edges_;  // the call's begin on the first stream, then each side's end
};

}  // namespace

std::unique_ptr<lane_driver> make_cuda_lanes(int device, device_arena& arena) {
  return std::make_unique<cuda_lanes>(device, arena);
}

}  // namespace cudal1
