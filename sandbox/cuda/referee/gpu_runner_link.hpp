// The referee's end of a GPU's runner: frames with deadlines. Only the device code in the runner is untrusted; still,
// no number that the runner reports is used unchecked.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/cuda/referee/tensor_memory.hpp"
#include "sandbox/cuda/runner/gpu_messages.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/referee/program_runners.hpp"

namespace cudal1 {

class gpu_runner_link final : public program_runners {
 public:
  gpu_runner_link(referee_device& device, unique_fd channel, unique_fd pidfd)
      : device_(device), channel_(std::move(channel)), pidfd_(std::move(pidfd)) {}

  // Makes the runner unmap tensors that are no longer used, so that their memory becomes free.
  void drop_unused_tensors();
  // Clears the last request's fault. The first request's memory limit fixes the arena's size.
  void begin_request(const call_limits& limits);

  // If the runner already has the program's text, it is not sent again.
  expected<void> load(resident_program which, const checked_program& p, int object, const std::string& key) override;
  bool holds_variant(const std::string& key) const override {
    const auto& variant = side(resident_program::variant);
    return !ended_ && !key.empty() && variant.program && variant.key == key;
  }
  const checked_program& running(resident_program which) const override { return *side(which).program; }

  expected<int64_t> tensor_bytes_beside(const checked_program& other) override;
  std::size_t max_calls() const override;
  // How many bytes of outputs may be kept at the same time.
  int64_t keepable_bytes() const { return arena_bytes() / share_of_kept; }
  // No work of this process is on the device meanwhile. The outputs in a record have the program's strides.
  expected<std::vector<call_record>> run(const std::vector<planned_call>& calls) override;

 private:
  struct resident_side {
    std::optional<checked_program> program;  // whose text the runner has
    bool called = false;
    std::string key;                            // the caller's key for it
    std::pair<int64_t, int64_t> weights{0, 0};  // id and generation in its last call
  };
  expected<frame> exchange(frame_type type, const json& body, std::span<const int> descriptors, double limit_ms);
  // For messages that concern no program.
  expected<void> tell(frame_type type, const json& body, std::span<const int> descriptors, double limit_ms);
  // For messages that run a program: its faults become problem().
  expected<gpu_reply> ask(resident_program which, frame_type type, const json& body, std::span<const int> descriptors,
                          double limit_ms);
  expected<gpu_reply> answer_of(resident_program which, const expected<frame>& answer, double limit_ms);
  // Sends calls and waits for them; `in_progress` is the last that began, and each has its own limit.
  expected<frame> exchange_calls(const gpu_calls_message& message, const std::vector<double>& limits_ms,
                                 std::size_t& in_progress);
  uint32_t calls_begun() const;
  expected<void> give_all(const std::vector<planned_call>& calls);
  gpu_call message_of(const planned_call& planned) const;
  double limit_of(const planned_call& planned);
  expected<call_record> result_of(const planned_call& planned, const gpu_call_record& record);
  void note(const std::vector<std::string>& notes);
  tl::unexpected<error> unanswered(resident_program which, const error& e, double limit_ms);
  tl::unexpected<error> note_fault(resident_program which, fault f) override;
  expected<void> give_arena();
  int64_t arena_bytes() const;
  // The bytes of one part that begin so far behind the start of the first; null where there are none.
  std::byte* in_arena(int64_t offset, int64_t bytes) const;
  expected<void> give(const std::shared_ptr<const shared_tensors>& tensors);
  expected<void> drop_unused();
  expected<std::vector<output_memory>> outputs_of(resident_program which, const gpu_call_record& record, const draw& d);
  // After a fault: unloads the program, and ends the runner if it no longer responds.
  void settle(resident_program which);
  void end();
  bool wait_for_end(std::chrono::milliseconds limit) const;
  resident_side& side(resident_program which) { return sides_[which == resident_program::variant ? 1 : 0]; }
  const resident_side& side(resident_program which) const { return sides_[which == resident_program::variant ? 1 : 0]; }

  referee_device& device_;
  unique_fd channel_, pidfd_;
  static constexpr int64_t share_of_kept = 8;
  std::vector<device_memory> arena_;  // its parts
  mapping progress_;
  call_limits limits_;
  resident_side sides_[2];
  std::map<int64_t, std::weak_ptr<const shared_tensors>> given_;
};

}  // namespace cudal1
