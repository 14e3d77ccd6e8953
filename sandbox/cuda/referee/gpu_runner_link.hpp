// The referee's end of a GPU's runner: frames with deadlines. Only the device code that it runs is untrusted there;
// still, no number that it says is used unchecked.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/cuda/referee/gpu_pool.hpp"
#include "sandbox/cuda/runner/gpu_messages.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {

// Where an output lies, in this process's mapping of it.
struct gpu_output_memory {
  std::byte* data = nullptr;  // type.storage_bytes() of them may be read
  output_home home = output_home::arena;
  uint32_t index = 0;
};

// The draw must live until the calls have come back.
struct planned_call {
  resident_program which = resident_program::variant;
  std::shared_ptr<const gpu_draw> draw;
  call_mode mode = call_mode::untimed;
  uint64_t key = 0;        // of its outputs' fingerprint
  bool keep = false;       // its outputs
  bool elsewhere = false;  // on the draw's inputs at other addresses
};

struct gpu_call_result {
  double microseconds = 0, flush_ms = 0;
  fingerprint bits;                        // of its outputs, taken by the runner right behind the call
  std::vector<gpu_output_memory> outputs;  // that were kept, in the program's order; valid until the next frame
};

struct gpu_call_limits {
  double call_ms = 2000;
  int64_t memory_bytes = 0;  // 0: by the device's memory
  // More for a program's first call: captures, and libraries that choose or load their kernels then.
  double first_call_ms = 2000;
};

class gpu_runner_link {
 public:
  gpu_runner_link(referee_device& device, unique_fd channel, unique_fd pidfd)
      : device_(device), channel_(std::move(channel)), pidfd_(std::move(pidfd)) {}

  // The runner unmaps what nobody holds any more, so that its memory is free.
  void let_go();
  // Forgets the last request's fault. The first request's memory limit is the arena's for good.
  void begin_request(const gpu_call_limits& limits);

  // Each of these fails with errc::variant_fault where the resident program came to an end or overran its time:
  // problem() or lost() say how, and faulty() of which program. Other errors are ours; ended() says whether the runner
  // can go on after either.
  expected<void> load(resident_program which, const checked_program& p, int object, const std::string& key);
  // One after the other, with nothing said in between; nothing of this process is on the device meanwhile. As many
  // results as calls.
  expected<std::vector<gpu_call_result>> run(const std::vector<planned_call>& calls);
  // How many bytes of outputs may be kept at a time.
  int64_t keepable_bytes() const { return arena_ ? arena_->bytes / share_of_kept : 0; }

  // The variant cannot even be loaded: its fault, said by the referee.
  tl::unexpected<error> refuse(fault f) { return say(resident_program::variant, std::move(f)); }
  // Whether that variant was loaded last, and nothing has come of it.
  bool holds_variant(const std::string& key) const {
    const auto& variant = side(resident_program::variant);
    return !ended_ && !key.empty() && variant.program && variant.key == key;
  }

  const std::optional<fault>& problem() const { return problem_; }
  bool lost() const { return lost_; }    // the process ended without a word
  bool ended() const { return ended_; }  // it is of no use any more, and has been killed where it still was there
  resident_program faulty() const { return faulty_; }
  const checked_program& running(resident_program which) const { return *side(which).program; }
  double load_ms() const { return load_ms_; }
  double setup_ms() const { return setup_ms_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct resident_side {
    std::optional<checked_program> program;  // whose text the runner has
    bool called = false;
    std::string key;                            // what the caller knows it by
    std::pair<int64_t, int64_t> weights{0, 0};  // id and generation of its last call's
  };
  expected<frame> exchange(frame_type type, const json& body, std::span<const int> descriptors, double limit_ms);
  // What concerns no program.
  expected<void> tell(frame_type type, const json& body, std::span<const int> descriptors, double limit_ms);
  // What runs a program: its faults become problem().
  expected<gpu_reply> ask(resident_program which, frame_type type, const json& body, std::span<const int> descriptors,
                          double limit_ms);
  expected<gpu_reply> answer_of(resident_program which, const expected<frame>& answer, double limit_ms);
  // Sends calls and waits for them; `in_progress` is the last that was begun, and each has its own limit.
  expected<frame> exchange_calls(const gpu_calls_message& message, const std::vector<double>& limits_ms,
                                 std::size_t& in_progress);
  uint32_t calls_begun() const;
  expected<void> give_all(const std::vector<planned_call>& calls);
  gpu_call message_of(const planned_call& planned) const;
  double limit_of(const planned_call& planned);
  expected<gpu_call_result> result_of(const planned_call& planned, const gpu_call_record& record);
  void note(const std::vector<std::string>& notes);
  tl::unexpected<error> unanswered(resident_program which, const error& e, double limit_ms);
  tl::unexpected<error> say(resident_program which, fault f);
  expected<void> give_arena();
  expected<void> give(const std::shared_ptr<const shared_tensors>& tensors);
  expected<void> drop_unused();
  expected<std::vector<gpu_output_memory>> outputs_of(resident_program which, const gpu_call_record& record,
                                                      const gpu_draw& d);
  // After a fault: whether the runner still answers. It is ended where it does not.
  void settle(resident_program which);
  void end();
  bool wait_for_end(std::chrono::milliseconds limit) const;
  resident_side& side(resident_program which) { return sides_[which == resident_program::variant ? 1 : 0]; }
  const resident_side& side(resident_program which) const { return sides_[which == resident_program::variant ? 1 : 0]; }

  referee_device& device_;
  unique_fd channel_, pidfd_;
  static constexpr int64_t share_of_kept = 8;
  std::optional<device_memory> arena_;
  mapping progress_;
  gpu_call_limits limits_;
  resident_side sides_[2];
  std::map<int64_t, std::weak_ptr<const shared_tensors>> given_;
  std::optional<fault> problem_;
  resident_program faulty_ = resident_program::variant;
  bool lost_ = false, ended_ = false;
  double load_ms_ = 0, setup_ms_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace cudal1
