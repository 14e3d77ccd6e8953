// Lanes of a program as streams of a GPU. They become LibTorch's current stream, so its operators and our launches use
// them. Fork and join use events only, so that a capture of the first stream includes the others.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAStream.h>

#include "sandbox/cuda/runtime/cuda_calls.hpp"

namespace cudal1 {

// Lane 0 is the stream that is current when a call begins; it waits for all others at the end. Until then nothing that
// a step used may be given to another step, since another lane may still use it: the owner must ensure that. Errors are
// exceptions (cuda_failure). Not thread-safe.
class lane_streams {
 public:
  using stream = c10::cuda::CUDAStream;

  // `sides`: the streams of the lanes from 1 on. `events`: how many steps another lane waits for.
  lane_streams(c10::DeviceIndex device, std::vector<stream> sides, std::size_t events)
      : device_(device), sides_(std::move(sides)), entered_(sides_.size()), steps_(events), ends_(sides_.size()) {}

  // True if it is one of the sides.
  bool owns(cudaStream_t s) const {
    for (const auto& side : sides_)
      if (side.stream() == s) return true;
    return false;
  }

  void begin() {
    first_ = now_ = c10::cuda::getCurrentCUDAStream(device_);
    begin_.record(*first_);
    running_ = true;
  }
  // What is enqueued from now on belongs to that lane.
  void enter(std::size_t lane) {
    go_to(lane == 0 ? *first_ : sides_[lane - 1]);
    if (lane == 0 || entered_[lane - 1]) return;
    entered_[lane - 1] = true;
    begin_.hold_back(*now_);
  }
  void wait(std::size_t event) { steps_[event].hold_back(*now_); }
  void record(std::size_t event) { steps_[event].record(*now_); }

  // Ends every call that has begun, a failed one too. Every stream that was entered is joined, even after one has
  // failed: a capture cannot end with unjoined streams.
  void join() {
    if (!std::exchange(running_, false)) return;
    go_to(*first_);
    std::optional<cuda_failure> problem;
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      if (!entered_[side]) continue;
      entered_[side] = false;
      try {
        ends_[side].record(sides_[side]);
        ends_[side].hold_back(*first_);
      } catch (const cuda_failure& e) {
        if (!problem) problem = e;
      }
    }
    if (problem) throw cuda_failure(*problem);
  }

 private:
  void go_to(const stream& wanted) {
    if (now_ == wanted) return;
    now_ = wanted;
    c10::cuda::setCurrentCUDAStream(wanted);
  }

  c10::DeviceIndex device_;
  std::optional<stream> first_, now_;  // the caller's; the current one
  std::vector<stream> sides_;
  std::vector<bool> entered_;  // in this call
  std::vector<order_event> steps_;
  order_event begin_;
  std::vector<order_event> ends_;  // of each side
  bool running_ = false;
};

}  // namespace cudal1
