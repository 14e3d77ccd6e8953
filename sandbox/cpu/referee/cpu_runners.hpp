// The runners of one request of `cpu`: a fresh process for each program. Calls go one at a time, because after every
// call the runner's process is stopped and its outputs are read in its own memory.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "sandbox/cpu/referee/core_control.hpp"
#include "sandbox/cpu/referee/cpu_runner_link.hpp"

namespace cudal1 {

class cpu_runners final : public program_runners {
 public:
  // One for the reference, and one for the variant.
  using input_windows = std::array<input_window, 2>;

  cpu_runners(core_control& cores, input_windows& windows) : cores_(cores), windows_(windows) {}
  // `descriptors`: of that program's runner.
  expected<void> attach(resident_program which, std::span<unique_fd> descriptors, const call_limits& limits);

  expected<void> load(resident_program which, const checked_program& p, int object, const std::string& key) override;
  bool holds_variant(const std::string&) const override { return false; }
  const checked_program& running(resident_program which) const override { return link(which).running(); }
  // Each has a process of its own.
  expected<int64_t> tensor_bytes_beside(const checked_program&) override { return tensor_bytes_; }
  double read_gb_per_s() const override { return cores_.read_gb_per_s(); }
  std::size_t max_calls() const override { return 1; }
  // The data of a record's outputs is flat and row-major.
  expected<std::vector<call_record>> run(const std::vector<planned_call>& calls) override;
  expected<void> check_guards() override;

 private:
  expected<call_record> call(const planned_call& planned);
  expected<void> read(const planned_call& planned, call_record& record);
  expected<void> check_preparation(resident_program which);
  // The error after a failure of that program's link: its fault, its loss, or `e`.
  tl::unexpected<error> failed(resident_program which, const error& e);
  cpu_runner_link& link(resident_program which) { return *links_[which == resident_program::variant ? 1 : 0]; }
  const cpu_runner_link& link(resident_program which) const {
    return *links_[which == resident_program::variant ? 1 : 0];
  }

  // Sums over timed calls.
  struct preparation {
    int calls = 0;
    double us = 0, bytes = 0;
  };

  int64_t tensor_bytes_ = 0;
  core_control& cores_;
  input_windows& windows_;
  std::optional<cpu_runner_link> links_[2];
  preparation preparations_[2];
  std::vector<std::vector<std::byte>> copies_;  // of the last call's outputs, those that had to be gathered
};

}  // namespace cudal1
