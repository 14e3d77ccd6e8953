#include "sandbox/cuda/runtime/cuda_lanes.hpp"

#include <map>
#include <optional>
#include <vector>

#include "sandbox/cuda/runtime/api.hpp"
#include "sandbox/cuda/runtime/lane_streams.hpp"

namespace cudal1 {
namespace {

using c10::cuda::CUDAStream;

// The same streams for every program, because libraries keep a workspace for each stream that they use and never free
// it. LibTorch's streams live as long as the process. Not thread-safe.
std::vector<CUDAStream> side_streams(c10::DeviceIndex device, std::size_t count) {
  static std::map<c10::DeviceIndex, std::vector<CUDAStream>> all;
  auto& streams = all[device];
  while (streams.size() < count)
    streams.push_back(c10::cuda::getStreamFromPool(false, device));
  return {streams.begin(), streams.begin() + static_cast<std::ptrdiff_t>(count)};
}

template <class F>
expected<void> checked(const F& work) {
  try {
    work();
    return {};
  } catch (const cuda_failure& e) {
    return fail(errc::variant_fault, "{}", e.reason());
  }
}

class cuda_lanes final : public lane_driver {
 public:
  cuda_lanes(int device, device_arena& arena) : device_(static_cast<c10::DeviceIndex>(device)), arena_(arena) {}

  expected<void> prepare(int lanes, int events) override {
    return as_value([&] {
      streams_.emplace(device_, side_streams(device_, static_cast<std::size_t>(lanes) - 1),
                       static_cast<std::size_t>(events));
    });
  }
  expected<void> begin() override {
    CUDAL1_CHECK(checked([&] { streams_->begin(); }));
    arena_.keep_released();
    return {};
  }
  expected<void> enter(int lane) override {
    return checked([&] { streams_->enter(static_cast<std::size_t>(lane)); });
  }
  expected<void> wait(int event) override {
    return checked([&] { streams_->wait(static_cast<std::size_t>(event)); });
  }
  expected<void> record(int event) override {
    return checked([&] { streams_->record(static_cast<std::size_t>(event)); });
  }
  expected<void> join() override {
    auto joined = checked([&] { streams_->join(); });
    arena_.reuse_released();
    return joined;
  }

 private:
  c10::DeviceIndex device_;
  device_arena& arena_;
  std::optional<lane_streams> streams_;
};

}  // namespace

std::unique_ptr<lane_driver> make_cuda_lanes(int device, device_arena& arena) {
  return std::make_unique<cuda_lanes>(device, arena);
}

}  // namespace cudal1
