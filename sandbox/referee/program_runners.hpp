// The referee's ends of the untrusted processes that one request runs programs in: on `cpu` a fresh process for each
// program, on a GPU one that holds both.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/program/check.hpp"
#include "sandbox/referee/planned_call.hpp"

namespace cudal1 {

struct call_limits {
  double call_ms = 2000;
  int64_t memory_bytes = 0;  // of a runner's tensors; 0: by the device's memory
  // More for a program's first call where that captures it, or where libraries choose or load their kernels then.
  double first_call_ms = 2000;
};

// Its functions fail with errc::variant_fault where the program that they ran came to an end or overran its time:
// problem() or lost() say how, and faulty() which program it was. Other errors are ours.
class program_runners {
 public:
  virtual ~program_runners() = default;

  // Replaces the resident program of that kind; `object`: a descriptor, or -1 for a program without kernels. `p` must
  // outlive the runners' use of it. `key` is what the caller knows the program and its object by.
  virtual expected<void> load(resident_program which, const checked_program& p, int object, const std::string& key) = 0;
  // Whether that variant was loaded last, and nothing has come of it.
  virtual bool holds_variant(const std::string& key) const = 0;
  virtual const checked_program& running(resident_program which) const = 0;

  // How many calls of the loaded variant whose outputs are kept run() takes at a time, beside what their draws allow.
  virtual std::size_t most_calls() const = 0;
  // One after the other, with nothing said to the runner in between beyond what each call itself needs. As many records
  // as calls. A call sets the draw's weights where the program has others. A timed call is prepared in this order:
  // poison and addresses, flush of the caches, a runner that is awake, the clock; its outputs are read after it.
  virtual expected<std::vector<call_record>> run(const std::vector<planned_call>& calls) = 0;
  // After the outputs of the last run() were compared: a fault of the variant where memory beside its tensors was
  // written. Does nothing where run() itself looks after each call.
  virtual expected<void> check_guards() { return {}; }

  // A fault of the variant that the referee itself found.
  tl::unexpected<error> refuse(fault f) { return note_fault(resident_program::variant, std::move(f)); }

  const std::optional<fault>& problem() const { return problem_; }
  bool lost() const { return lost_; }    // a process ended without a record of its fault
  bool ended() const { return ended_; }  // they are of no use any more
  resident_program faulty() const { return faulty_; }
  double load_ms() const { return load_ms_; }    // of all loads of this request
  double setup_ms() const { return setup_ms_; }  // of the longest setup
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  virtual tl::unexpected<error> note_fault(resident_program which, fault f) {
    problem_ = std::move(f);
    faulty_ = which;
    return fail(errc::variant_fault, "{}", problem_->reason);
  }
  tl::unexpected<error> note_loss(resident_program which) {
    lost_ = true;
    faulty_ = which;
    return fail(errc::variant_fault, "the runner ended and left no record");
  }

  std::optional<fault> problem_;
  resident_program faulty_ = resident_program::variant;
  bool lost_ = false, ended_ = false;
  double load_ms_ = 0, setup_ms_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace cudal1
