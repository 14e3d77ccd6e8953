// The agent's measurements of PyTorch, on devices that a client of the coordinator holds.
#include <algorithm>

#include "actors/agent/agent_actor.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {
constexpr duration release_timeout{std::chrono::minutes(1)};  // killing a process takes as long as its driver
}

caf::result<baseline_times> agent_state::measure_baseline(message::measure_baseline m) {
  if (!is_local() && !setup_.options.settings.cluster.run_models)
    return to_caf({errc::refused, fmt::format("machine {} does not measure PyTorch, which executes the Python of "
                                              "models without a sandbox: its cluster.run_models is false",
                                              setup_.name)});
  m.device = name_on_machine(m.device);
  if (!devices_.contains(m.device))
    return to_caf({errc::not_found, fmt::format("there is no device {}", full(m.device))});
  baseline_job job{std::move(m), {}, self_->make_response_promise<baseline_times>()};
  auto promise = job.promise;
  const blobs kept(setup_.options.data);
  if (const auto& t = *job.what.what; t.is_whole_model() && !kept.has(t.origin->source)) {
    job.missing = t.origin->source;
    fetcher_->want(job.missing);
    baseline_jobs_.push_back(std::move(job));
  } else {
    begin_baseline(job);
  }
  return promise;
}

void agent_state::baseline_source_ended(const std::string& blob, const expected<void>& how) {
  for (auto& job : std::exchange(baseline_jobs_, {})) {
    if (job.missing != blob)
      baseline_jobs_.push_back(std::move(job));
    else if (how)
      begin_baseline(job);
    else
      job.promise.deliver(to_caf(how.error()));
  }
}

expected<void> agent_state::spawn_baseline(const std::string& device) {
  const auto& o = setup_.options;
  const auto& settings = o.settings_of(device).device;
  baseline_setup b;
  b.device = device;
  b.data = o.data;
  b.of_device.flush_bytes = settings.flush_mb << 20;
  b.of_device.threads = settings.threads;
  b.of_device.cores = o.cores.timing_of(device);
  b.seen = o.cores.seen_by(device);
  b.make = setup_.make_baselines;
  CUDAL1_TRY(b.cancel, baseline_cancel::make());
  auto& entry = baselines_[device];
  entry.cancel = b.cancel;
  entry.actor = spawn_required_actor<caf::detached>(run_baseline, std::make_shared<baseline_setup>(std::move(b)));
  return {};
}

void agent_state::begin_baseline(baseline_job job) {
  const std::string device = job.what.device;
  const auto ready = baselines_.contains(device) ? expected<void>() : spawn_baseline(device);
  if (!ready) {
    job.promise.deliver(to_caf(ready.error()));
    return;
  }
  auto& entry = baselines_.at(device);
  ++entry.asked;
  ask<baseline_times>(
      self_, entry.actor, longest_baseline(job.what.wanted), job.what,
      [this, device, promise = job.promise](baseline_times& times) mutable {
        promise.deliver(std::move(times));
        baseline_answered(device);
      },
      [this, device, promise = job.promise](const error& e) mutable {
        promise.deliver(to_caf(e.code == errc::cancelled
                                   ? ended_early(device)
                                   : error{e.code, fmt::format("{}: {}", full(device), e.message)}));
        baseline_answered(device);
      });
}

error agent_state::ended_early(const std::string& device) const {
  return {errc::infrastructure,
          fmt::format("the measurement on {} was ended, since it was released or its machine lost the coordinator; run "
                      "the same command again",
                      full(device))};
}

// Evaluations that came meanwhile have waited, so that none is timed beside a process that is being killed; nor is that
// process a stranger on the device.
void agent_state::baseline_answered(const std::string& device) {
  if (--baselines_.at(device).asked > 0) return;
  tell_of_hold(device);
  hand_out_waiting();
}

bool agent_state::measures_baseline(const std::string& device) const {
  const auto found = baselines_.find(device);
  return found != baselines_.end() && found->second.asked > 0;
}

void agent_state::end_baselines(const std::string& device) {
  for (auto& job : std::exchange(baseline_jobs_, {})) {
    if (job.what.device != device)
      baseline_jobs_.push_back(std::move(job));
    else
      job.promise.deliver(to_caf(ended_early(device)));
  }
  const auto found = baselines_.find(device);
  if (found == baselines_.end()) return;
  found->second.cancel->set();
  ++found->second.asked;
  ask<message::done>(
      self_, found->second.actor, release_timeout, message::device_held{device, false},
      [this, device](const message::done&) { baseline_answered(device); },
      [this, device](const error& e) {
        spdlog::error("agent: the measurement of PyTorch on {} does not end: {}", device, e.message);
        baseline_answered(device);
      });
}

}  // namespace cudal1
