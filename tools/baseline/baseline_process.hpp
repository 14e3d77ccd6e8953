// The Python process that measures PyTorch (tools/python/baseline.py): starts it, sends requests, enforces timeouts,
// and restarts it after a crash or a hang. To be used by one thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/baseline_times.hpp"
#include "config/base/error.hpp"
#include "tools/cli/line_process.hpp"

namespace cudal1::cli {

struct baseline_process_options {
  std::string python, script;
  baseline_place place;
  std::chrono::milliseconds start_limit{longest_baseline_start};
  std::chrono::milliseconds grace{baseline_grace};  // added to the timeouts of a request
};

class baseline_process final : public baseline_measurer {
 public:
  explicit baseline_process(baseline_process_options options);

  // A kind that crashed the process or timed out has that as its problem; a new process then measures the others.
  expected<std::vector<kind_times>> measure(const baseline_request& r) override;
  expected<task_comparison> compare(const task& t, const std::string& blobs) override;
  const std::string& torch() const override { return torch_; }
  int pid() const { return process_.pid(); }

 private:
  // Why a request ended early, the kinds that the process was measuring, and its current step.
  struct interruption {
    std::string problem;
    std::vector<std::string> kinds;
    std::string doing;
  };
  expected<void> start();
  // Sends one request and adds its results to `answers`; an interruption if it did not finish.
  expected<std::optional<interruption>> exchange(const baseline_request& r, std::vector<kind_times>& answers);

  const baseline_process_options options_;
  line_process process_;
  std::string torch_;
};

}  // namespace cudal1::cli
