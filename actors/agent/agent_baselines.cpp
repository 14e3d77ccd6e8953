// The agent's measurements of PyTorch, and its comparisons of tasks with their models, on devices that a client of the
// coordinator holds.
#include <algorithm>

#include "actors/agent/agent_actor.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {
constexpr duration release_timeout{std::chrono::minutes(1)};  // killing a process takes as long as its driver
}

expected<void> agent_state::may_execute(const baseline_request& wanted) const {
  const auto& allowed = setup_.options.settings.cluster;
  const auto doing = wanted.compares ? "compare models with their tasks" : "measure PyTorch";
  const auto who = is_local() ? std::string("the coordinator's machine") : "machine " + setup_.name;
  if (!is_local() && !allowed.run_models)
    return fail(
        errc::refused,
        "{} does not {}, which executes the Python of models without a sandbox: its cluster.run_models is false", who,
        doing);
  if (wanted.of_remote_client && !allowed.run_client_models)
    return fail(errc::refused,
                "{} does not {} for clients on other machines, which executes their Python without a sandbox: its "
                "cluster.run_client_models is false",
                who, doing);
  return {};
}

std::set<std::string> agent_state::missing_blobs(const message::measure_baseline& m) const {
  std::vector<std::string> needed;
  if (m.wanted.compares) needed = m.what->content_files();
  if (m.what->is_whole_model()) needed.push_back(m.what->origin->source);
  const blobs kept(setup_.options.data);
  std::erase_if(needed, [&](const std::string& blob) { return kept.has(blob); });
  return {needed.begin(), needed.end()};
}

caf::result<baseline_times> agent_state::measure_baseline(message::measure_baseline m) {
  if (const auto allowed = may_execute(m.wanted); !allowed) return to_caf(allowed.error());
  m.device = name_on_machine(m.device);
  if (!devices_.contains(m.device))
    return to_caf({errc::not_found, fmt::format("there is no device {}", full(m.device))});
  baseline_job job{std::move(m), {}, self_->make_response_promise<baseline_times>()};
  auto promise = job.promise;
  job.missing = missing_blobs(job.what);
  for (const auto& blob : job.missing)
    fetcher_->want(blob);
  baseline_jobs_.push_back(std::move(job));
  begin_ready_baselines();
  return promise;
}

void agent_state::begin_ready_baselines() {
  const auto evaluates = [&](const std::string& device) {
    return std::ranges::any_of(in_flight_, [&](const auto& lease) { return lease.second == device; });
  };
  for (auto& job : std::exchange(baseline_jobs_, {})) {
    if (job.missing.empty() && !evaluates(job.what.device))
      begin_baseline(std::move(job));
    else
      baseline_jobs_.push_back(std::move(job));
  }
}

void agent_state::baseline_blob_ended(const std::string& blob, const expected<void>& how) {
  for (auto& job : std::exchange(baseline_jobs_, {})) {
    if (job.missing.erase(blob) > 0 && !how)
      job.promise.deliver(to_caf(
          {how.error().code, fmt::format("a file of {} cannot be had: {}", job.what.what->name, how.error().message)}));
    else
      baseline_jobs_.push_back(std::move(job));
  }
  begin_ready_baselines();
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
      [this, device, promise = job.promise, what = job.what](const error& e) mutable {
        promise.deliver(to_caf(e.code == errc::cancelled
                                   ? ended_early(what)
                                   : error{e.code, fmt::format("{}: {}", full(device), e.message)}));
        baseline_answered(device);
      });
}

error agent_state::ended_early(const message::measure_baseline& m) const {
  return {errc::infrastructure,
          fmt::format("the {} on {} was ended, since it was released or its machine lost the coordinator; run "
                      "the same command again",
                      m.wanted.compares ? "comparison" : "measurement", full(m.device))};
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
      job.promise.deliver(to_caf(ended_early(job.what)));
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
