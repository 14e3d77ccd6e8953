// What a comparison of arms has made so far: lines of JSON that are only ever added, so that it goes on after a kill -9
// with nothing done twice but what was in flight.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"
#include "policy/prompt/prompt_document.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1::cli {

// One answer: of an arm, to a task, with a seed. The number is its place among these.
struct answer_key {
  answer_form form = answer_form::schedule;
  std::string arm, task;
  uint64_t seed = 0;
  int64_t number = 0;

  auto tied() const { return std::tie(form, arm, task, seed, number); }
  bool operator<(const answer_key& other) const { return tied() < other.tied(); }
};
BOOST_DESCRIBE_STRUCT(answer_key, (), (form, arm, task, seed, number))

struct arm_answer : answer_key {
  std::string text, finish_reason;
  std::string prompt;              // SHA-256 of its text
  std::vector<std::string> shown;  // programs' ids of the earlier variants that the prompt has
  int64_t left_out = 0;            // that should have been shown, and did not fit
  int64_t prompt_tokens = 0, answer_tokens = 0;
  int64_t run = 0;  // that wrote it
};
BOOST_DESCRIBE_STRUCT(arm_answer, (),
                      (form, arm, task, seed, number, text, finish_reason, prompt, shown, left_out, prompt_tokens,
                       answer_tokens, run))

struct arm_verdict : answer_key {
  std::string program;              // its id; "" if there is none
  std::string schedule;             // "" if it was written as a program
  std::optional<bool> is_readable;  // as a program's head or a schedule; none: by a search, or an earlier version
  outcome result = outcome::invalid;
  std::string reason;  // of a failure
  double score = 0;    // 0 if it failed, or its score is doubted
  interval score_interval;
  std::string hack;          // its class, in words; "" if it is none
  std::string doubt;         // why nothing is paid; "" if it is
  bool is_copy = false;      // of a variant that its prompt has
  bool is_measured = false;  // on the device, now; else it has the verdict of the same program in this comparison
  double device_ms = 0;
  std::string environment_class;
  int64_t run = 0;
};
BOOST_DESCRIBE_STRUCT(arm_verdict, (),
                      (form, arm, task, seed, number, program, schedule, is_readable, result, reason, score,
                       score_interval, hack, doubt, is_copy, is_measured, device_ms, environment_class, run))

// One start of the command.
struct arm_run {
  int64_t number = 0;  // from 1 on
  int64_t time_unix_ms = 0;
  std::string version, device, measured_on, environment_class, details;
  std::string model;                  // SHA-256 of its files (local_checkpoint::identity)
  std::vector<std::string> settings;  // beside those of the plan
};
BOOST_DESCRIBE_STRUCT(arm_run, (),
                      (number, time_unix_ms, version, device, measured_on, environment_class, details, model, settings))

// Time that a run has spent on one thing.
struct arm_phase {
  int64_t run = 0;
  std::string name;  // "generate", "evaluate", "train", "pool", "search", "load"
  double seconds = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0;  // of "generate"
  int64_t evaluations = 0;                       // of "evaluate": on the device
  double device_ms = 0;                          // of these
};
BOOST_DESCRIBE_STRUCT(arm_phase, (), (run, name, seconds, prompt_tokens, answer_tokens, evaluations, device_ms))

// A line of the file: one member is there.
struct arm_record {
  std::optional<arm_answer> answer = {};
  std::optional<arm_verdict> verdict = {};
  std::optional<arm_run> run = {};
  std::optional<arm_phase> phase = {};
};
BOOST_DESCRIBE_STRUCT(arm_record, (), (answer, verdict, run, phase))

class arm_records {
 public:
  // Of a folder; without a file it is empty. A last line that was cut off is dropped. errc::corrupt names a line that
  // cannot be read.
  static expected<arm_records> read(const std::string& folder);
  // The same, to add to. errc::io_error.
  static expected<arm_records> open(const std::string& folder);

  // On disk when this returns. Thread-safe beside known().
  expected<void> add(arm_record r);

  const std::map<answer_key, arm_answer>& answers() const { return answers_; }
  const std::map<answer_key, arm_verdict>& verdicts() const { return verdicts_; }
  const std::vector<arm_run>& runs() const { return runs_; }
  const std::vector<arm_phase>& phases() const { return phases_; }
  // A verdict on this program of the task, that another answer of a machine of that class got.
  const arm_verdict* known(const std::string& task, const std::string& program,
                           const std::string& environment_class) const;

 private:
  expected<std::size_t> take(const std::string& text);
  void keep(arm_record r);
  std::string path_;
  unique_fd fd_;
  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::map<answer_key, arm_answer> answers_;
  std::map<answer_key, arm_verdict> verdicts_;
  std::map<std::tuple<std::string, std::string, std::string>, answer_key> known_;
  std::vector<arm_run> runs_;
  std::vector<arm_phase> phases_;
};

}  // namespace cudal1::cli
