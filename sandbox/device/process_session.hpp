// The common part of the sessions of all kinds of device: zygote and referee, requests to them, replacing processes
// that ended, and the functions for other threads. The derived session manages the runners.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include "sandbox/device/session.hpp"
#include "sandbox/device/worker_process.hpp"
#include "sandbox/isolation/zygote_messages.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {

class process_session : public device_session {
 public:
  // Starts zygote and referee, and makes the report, whose environment `describe` returns. errc::refused if a required
  // confinement is not in force, unless the settings allow that.
  expected<void> start(const std::function<environment(const std::string& libraries)>& describe);

  const device_report& report() const override { return report_; }
  expected<void> open_task(const task& t, timing_pool pool) override;
  double reference_ms() const override { return reference_ms_; }
  expected<void> forget_tasks() override;
  expected<check_report> check(const checked_program& variant, const compiled_code& code,
                               const check_plan& plan) override;
  expected<check_report> check_timing_draws(const checked_program& variant, const compiled_code& code,
                                            const timing_plan& plan, const check_plan& gates) override;
  expected<timing_report> time(const checked_program& variant, const compiled_code& code, const timing_plan& plan,
                               int first_fork) override;
  int zygote_pid() const override;
  int referee_pid() const override;
  std::vector<int> runner_pids() const override;
  void cancel() override;

 protected:
  // `environment`: NAME=value, in addition to that of every worker.
  process_session(std::string worker, worker_settings settings, const session_options& options, unique_fd cancel,
                  std::vector<std::string> environment = {})
      : worker_(std::move(worker)),
        settings_(std::move(settings)),
        environment_(std::move(environment)),
        blobs_(options.blobs),
        cancel_(std::move(cancel)) {}

  // Implemented by the kind of device: one request that runs programs, and its reply. `unchecked`: the number of draws.
  virtual expected<check_report> ask_check(const variant_text& variant, const unique_fd& object,
                                           const check_plan& plan) = 0;
  virtual expected<check_report> ask_check_pool(const check_pool_request& request, const unique_fd& object,
                                                int unchecked) = 0;
  virtual expected<timing_report> ask_time(const time_fork_request& request, const unique_fd& object) = 0;
  // All forks of a plan, one after the other, up to the first with a fault or an inconsistency.
  virtual expected<timing_report> ask_time_all(const variant_text& variant, const unique_fd& object,
                                               const timing_plan& plan, int first_fork);
  virtual void end_call() = 0;  // called after each public call
  virtual void referee_replaced() {}
  virtual void request_sent() {}

  expected<referee_reply> ask(frame_type type, const json& body, std::span<const int> descriptors,
                              std::chrono::milliseconds limit);
  // The fault of a runner that ended without a record, from its exit status.
  expected<fault> fault_of_lost(const child_process& runner);
  expected<child_process> spawn_runner(std::span<const int> descriptors);
  void forget_runners();
  const worker_settings& settings() const { return settings_; }
  int cancel_event() const { return cancel_.get(); }

 private:
  expected<void> start_processes();
  expected<void> start_referee();
  // Runs one public call; on an error, replaces the processes that ended.
  template <class T>
  expected<T> guarded(auto&& work);
  tl::unexpected<error> recover(error e);
  expected<void> ensure_task();
  expected<void> send_task(timing_pool pool);
  expected<frame> wait_reply(deadline until);

  std::string worker_;
  worker_settings settings_;
  std::vector<std::string> environment_;
  std::string blobs_;
  unique_fd cancel_;
  device_report report_;
  std::optional<zygote_link> zygote_;
  child_process referee_;
  unique_fd referee_socket_;
  std::optional<task> task_;
  std::vector<unique_fd> task_files_;  // of its weights' content
  bool task_is_open_ = false;
  double reference_ms_ = 0;
  mutable std::mutex pids_mutex_;  // guards the process ids, which other threads read
  int zygote_pid_ = 0, referee_pid_ = 0;
  std::vector<int> runner_pids_;
};

// The time that so many calls may take, with a margin.
std::chrono::milliseconds time_of_calls(double call_limit_ms, std::size_t calls);
expected<unique_fd> make_cancel_event();

}  // namespace cudal1
