// What the sessions of all kinds of device share: zygote and referee, asking them, replacing what died, and what other
// threads may ask. The runners are the kind's own business.
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
  // Starts zygote and referee, and puts the report together; `where` is completed with the zygote's libraries by
  // `describe`. errc::refused where a required confinement is not in force and the settings do not insist.
  expected<void> start(const std::function<environment(const std::string& libraries)>& describe);

  const device_report& report() const override { return report_; }
  expected<void> open_task(const task& t, timing_pool pool) override;
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
  // `environment`: NAME=value, beside what every worker gets.
  process_session(std::string worker, worker_settings settings, const session_options& options, unique_fd cancel,
                  std::vector<std::string> environment = {})
      : worker_(std::move(worker)),
        settings_(std::move(settings)),
        environment_(std::move(environment)),
        blobs_(options.blobs),
        cancel_(std::move(cancel)) {}

  // The kind's own: one request that runs something, answered; `unchecked`, of check_pool, says how many draws.
  virtual expected<check_report> ask_check(const variant_text& variant, const unique_fd& object,
                                           const check_plan& plan) = 0;
  virtual expected<check_report> ask_check_pool(const check_pool_request& request, const unique_fd& object,
                                                int unchecked) = 0;
  virtual expected<timing_report> ask_time(const time_fork_request& request, const unique_fd& object) = 0;
  // All forks of a plan, one after the other, up to the first that is not right.
  virtual expected<timing_report> ask_time_all(const variant_text& variant, const unique_fd& object,
                                               const timing_plan& plan, int first_fork);
  // After each call of the contract, and where the referee was replaced.
  virtual void end_call() = 0;
  virtual void referee_replaced() {}
  // Right after a request was sent.
  virtual void request_sent() {}

  expected<referee_reply> ask(frame_type type, const json& body, std::span<const int> descriptors,
                              std::chrono::milliseconds limit);
  // The fault of a runner that left no record, from how its process ended.
  expected<fault> fault_of_lost(const child_process& runner);
  expected<child_process> spawn_runner(std::span<const int> descriptors);
  void forget_runners();
  const worker_settings& settings() const { return settings_; }

 private:
  expected<void> start_processes();
  expected<void> start_referee();
  // Runs one call of the contract: afterwards what died has been replaced.
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
  mutable std::mutex pids_mutex_;  // of what other threads may ask
  int zygote_pid_ = 0, referee_pid_ = 0;
  std::vector<int> runner_pids_;
};

// How long so many calls may take, with some to spare.
std::chrono::milliseconds time_of_calls(double call_limit_ms, std::size_t calls);
expected<unique_fd> make_cancel_event();

}  // namespace cudal1
