#include "store/replay/replay_session.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace cudal1 {
namespace {

class replay_session final : public device_session, public verdict_recording {
 public:
  replay_session(const std::string& device, std::shared_ptr<replay_source> source) : source_(std::move(source)) {
    report_.where = source_->replayed_on(device);
  }

  const device_report& report() const override { return report_; }
  verdict_recording* recording() override { return this; }

  expected<verdict> draw(const std::string& task, const std::string& variant) override {
    CUDAL1_TRY(verdict v, source_->draw(task, variant));
    v.stage_ms.erase("compile");  // the compiler took that time
    return v;
  }

  expected<void> wait(double ms) override {
    std::unique_lock lock(mutex_);
    cancelled_ = false;
    const auto time = std::chrono::duration<double, std::milli>(ms);
    if (wake_.wait_for(lock, time, [this] { return cancelled_; }))
      return fail(errc::cancelled, "a replayed evaluation was cancelled while its latency passed");
    return {};
  }

  void cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    wake_.notify_all();
  }

  expected<void> open_task(const task&, timing_pool) override { return refused(); }
  double reference_ms() const override { return 0; }
  expected<void> forget_tasks() override { return {}; }
  expected<check_report> check(const checked_program&, const compiled_code&, const check_plan&) override {
    return refused();
  }
  expected<check_report> check_timing_draws(const checked_program&, const compiled_code&, const timing_plan&,
                                            const check_plan&) override {
    return refused();
  }
  expected<timing_report> time(const checked_program&, const compiled_code&, const timing_plan&, int) override {
    return refused();
  }
  int zygote_pid() const override { return 0; }
  int referee_pid() const override { return 0; }
  std::vector<int> runner_pids() const override { return {}; }

 private:
  tl::unexpected<error> refused() const {
    return fail(errc::unsupported, "{} answers from stored verdicts and runs nothing", report_.where.device);
  }

  std::shared_ptr<replay_source> source_;
  device_report report_;
  std::mutex mutex_;  // guards cancelled_
  std::condition_variable wake_;
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<device_session> start_replay_session(const std::string& device, std::shared_ptr<replay_source> source) {
  return std::make_unique<replay_session>(device, std::move(source));
}

}  // namespace cudal1
