// Clients that hold a device: what they have measured there, and the baselines that they store.
#include <algorithm>

#include "actors/coordinator/coordinator_actor.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
constexpr duration hold_timeout{std::chrono::minutes(1)};
}

// One to measure is given only for a device that no experiment uses or is about to use, so it is exclusive. During one
// to compare the device gets no evaluations, whoever they are of.
expected<device_hold> coordinator_state::hold(const message::hold_device& m) {
  if (m.compares && holds_.is_held(m.device))
    return fail(errc::already_exists, "another client measures or compares on device {}; try again when it ends",
                m.device);
  CUDAL1_CHECK(m.compares ? check_ready(m.device) : check_unused(m.device));
  device_hold h;
  h.number = holds_.hold(m.device, m.compares ? hold_use::compare : hold_use::measure);
  h.device = devices_.at(m.device).report;
  h.device.where.device = m.device;
  if (m.compares) queue_->not_idle(m.device);
  self_->send(agent_of(m.device), message::device_held{m.device, true});
  spdlog::info("device {} is held by a client", m.device);
  return h;
}

expected<void> coordinator_state::check_ready(const std::string& device) const {
  if (ending_) return fail(errc::cancelled, "the node is ending");
  if (!devices_.is_ready(device))
    return fail(errc::invalid_argument, "this node has no device \"{}\" that works", device);
  if (!members_->takes_work(machine_of(device)))
    return fail(errc::refused, "device {} gets no work: its machine is drained, or leaves (`cudal1 nodes`)", device);
  if (!traits_of(device).replays.empty())
    return fail(errc::refused, "device {} answers from stored verdicts: nothing can be measured on it", device);
  return {};
}

expected<void> coordinator_state::check_unused(const std::string& device) const {
  CUDAL1_CHECK(check_ready(device));
  for (const auto& [id, e] : experiments_)
    if (e.actor && may_use(e, device))
      return fail(errc::refused,
                  "experiment {} runs on {}, so nothing else can be measured there; wait for its end, or `cudal1 stop "
                  "{}`",
                  id, device, id);
  if (starter_.starting() > 0)
    return fail(errc::refused, "an experiment is being started; try again when it has ended");
  if (holds_.is_held_for(device, hold_use::compare))
    return fail(errc::refused, "a task is being compared with its model on device {}; try again in some seconds",
                device);
  return holds_.check_free(device, 0);
}

expected<message::done> coordinator_state::release(const message::release_device& m) {
  if (const auto device = holds_.release(m.hold)) {
    spdlog::info("device {} is free again", *device);
    baselines_.erase(m.hold);
    self_->send(agent_of(*device), message::device_held{*device, false});
  }
  return message::done{};
}

expected<task> coordinator_state::task_of_baseline(uint64_t hold, const std::string& text) const {
  const auto held = holds_.device_of(hold);
  if (!held) return fail(errc::refused, "only a client that holds the device can measure or store a baseline");
  return task_on(*held, text);
}

expected<task> coordinator_state::task_on(const std::string& device, const std::string& text) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(device));
  return read_task(text, traits_of(kind).profile);
}

// ---- measuring ----------------------------------------------------------------------------------------------------

expected<message::done> coordinator_state::begin_baseline(const message::begin_baseline& m) {
  CUDAL1_TRY(task t, task_of_baseline(m.hold, m.task));
  const std::string device = *holds_.device_of(m.hold);
  if (!devices_.is_ready(device))
    return fail(errc::infrastructure, "device {} does not work any more: {}", device,
                devices_.at(device).problem.message);
  if (const auto before = baselines_.find(m.hold); before != baselines_.end() && !before->second.result)
    return fail(errc::already_exists, "this client has a task measured already");
  if (m.wanted.compares && !is_uncompared(t))
    return fail(errc::invalid_argument, "{} is not marked as uncompared with its model", t.name);
  const uint64_t number = ++last_baseline_;
  const shared_task what(std::move(t));
  baselines_[m.hold] = {device, number, what, m.wanted.compares, {}};
  ask<baseline_times>(
      self_, agent_of(device), longest_baseline(m.wanted), message::measure_baseline{device, what, m.wanted},
      [this, hold = m.hold, number](baseline_times& times) { baseline_came(hold, number, std::move(times)); },
      [this, hold = m.hold, number](error e) { baseline_ended(hold, number, tl::unexpected<error>(std::move(e))); });
  return message::done{};
}

expected<message::baseline_answer> coordinator_state::baseline(const message::baseline_query& m) const {
  const auto found = baselines_.find(m.hold);
  if (found == baselines_.end()) return fail(errc::not_found, "nothing is measured for this client");
  const auto& result = found->second.result;
  if (!result) return message::baseline_answer{};
  if (!*result) return tl::unexpected<error>(result->error());
  return message::baseline_answer{true, **result};
}

void coordinator_state::baseline_ended(uint64_t hold, uint64_t number, expected<baseline_times> result) {
  const auto found = baselines_.find(hold);
  if (found != baselines_.end() && found->second.number == number && !found->second.result)
    found->second.result = std::move(result);
}

void coordinator_state::baseline_came(uint64_t hold, uint64_t number, baseline_times times) {
  const auto found = baselines_.find(hold);
  if (found == baselines_.end() || found->second.number != number || found->second.result) return;
  const auto& b = found->second;
  if (!b.compares || !times.comparison || !times.comparison->agrees())
    return baseline_ended(hold, number, std::move(times));
  task compared = *b.what;
  compared.origin->uncompared.clear();
  ask<message::done>(
      self_, store_, hold_timeout, message::keep_task{record_of(compared)},
      [this, hold, number, times](const message::done&) { baseline_ended(hold, number, times); },
      [this, hold, number](error e) { baseline_ended(hold, number, tl::unexpected<error>(std::move(e))); });
}

void coordinator_state::lose_baselines(const std::string& machine, const std::string& why) {
  for (auto& [hold, b] : baselines_)
    if (machine_of(b.device) == machine && !b.result)
      b.result = fail(errc::infrastructure,
                      "machine {} was lost while it {} ({}); what was {} before is kept: once `cudal1 nodes` shows it "
                      "as present, run the same command again",
                      machine, b.compares ? "compared a task with its model" : "measured PyTorch", why,
                      b.compares ? "compared" : "measured");
}

// ---- storing ------------------------------------------------------------------------------------------------------

// `record`: a message to the store about that task, which is stored before it.
template <class M>
caf::result<message::done> coordinator_state::keep_with_task(const task& t, const std::string& its_task, M record) {
  if (t.id != its_task) return to_caf({errc::invalid_argument, "the record's task id is not that of its task's text"});
  auto promise = self_->make_response_promise<message::done>();
  auto refuse_it = [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); };
  ask<message::done>(
      self_, store_, hold_timeout, message::keep_task{record_of(t)},
      [this, promise, refuse_it, record = std::move(record)](const message::done&) mutable {
        ask<message::done>(
            self_, store_, hold_timeout, std::move(record),
            [promise](const message::done&) mutable { promise.deliver(message::done{}); }, refuse_it);
      },
      refuse_it);
  return promise;
}

caf::result<message::done> coordinator_state::keep_baseline(const message::keep_baseline& m) {
  const auto t = task_of_baseline(m.hold, m.task);
  if (!t) return to_caf(t.error());
  return keep_with_task(*t, m.record.task,
                        message::put_baseline{m.record, devices_.at(*holds_.device_of(m.hold)).report.where});
}

caf::result<message::done> coordinator_state::keep_judged_file(const message::keep_judged_file& m) {
  const auto t = task_on(m.record.device, m.task);
  if (!t) return to_caf(t.error());
  return keep_with_task(*t, m.record.task, message::put_judged_file{m.record});
}

}  // namespace cudal1
