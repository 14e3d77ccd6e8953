// The referee's interface to the untrusted processes in which one request runs programs: on `cpu` a fresh process for
// each program, on a GPU one process for both.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/check.hpp"
#include "sandbox/referee/planned_call.hpp"

namespace cudal1 {

struct call_limits {
  double call_ms = 2000;
  int64_t memory_bytes = 0;  // of a runner's tensors; 0: limited by the device's memory only
  // Longer if the first call captures the program, or if libraries select or load their kernels in it.
  double first_call_ms = 2000;
};

// Its functions fail with errc::variant_fault if a program ended its process or exceeded its timeout: problem() or
// lost() say how, and faulty() which program it was. Other errors are not faults of a program.
class program_runners {
 public:
  virtual ~program_runners() = default;

  // Replaces the resident program of that kind; `object`: a descriptor, or -1 for a program without kernels. `p` must
  // outlive the runners' use of it. `key` identifies the program with its object.
  virtual expected<void> load(resident_program which, const checked_program& p, int object, const std::string& key) = 0;
  // Whether that variant was loaded last, without a fault since.
  virtual bool holds_variant(const std::string& key) const = 0;
  virtual const checked_program& running(resident_program which) const = 0;

  // The memory that the tensors of one program have beside those of the other one.
  virtual expected<int64_t> tensor_bytes_beside(const checked_program& other) = 0;

  // The most calls of the loaded variant with kept outputs that run() can take at a time; their draws may allow fewer.
  virtual std::size_t max_calls() const = 0;
  // Makes the calls one after the other, with no other messages to the runner in between; returns one record per call.
  // A call sets the draw's weights if the program has others. A timed call is prepared in this order: poison and
  // addresses, flush of the caches, waking the runner, the clock; its outputs are read after it.
  virtual expected<std::vector<call_record>> run(const std::vector<planned_call>& calls) = 0;
  // Call it after the outputs of the last run() were compared. A fault of the variant if memory outside its tensors was
  // written. Does nothing if run() itself checks after each call.
  virtual expected<void> check_guards() { return {}; }

  // Records a fault of the variant that the referee found.
  tl::unexpected<error> refuse(fault f) { return note_fault(resident_program::variant, std::move(f)); }

  const std::optional<fault>& problem() const { return problem_; }
  bool lost() const { return lost_; }    // a process ended without a record of its fault
  bool ended() const { return ended_; }  // the processes can no longer be used
  resident_program faulty() const { return faulty_; }
  double load_ms() const { return load_ms_; }  // of all loads of this request
  // The highest bandwidth at which this process read memory where calls are timed, of all threads of a call; 0:
  // unknown.
  virtual double read_gb_per_s() const { return 0; }
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
    return fail(errc::variant_fault, "the runner ended without a record of its fault");
  }

  std::optional<fault> problem_;
  resident_program faulty_ = resident_program::variant;
  bool lost_ = false, ended_ = false;
  double load_ms_ = 0, setup_ms_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace cudal1
