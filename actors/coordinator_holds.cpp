// The node's handling of clients that hold a device, and of the baselines that they measure.
#include <algorithm>

#include "actors/coordinator_actor.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
constexpr duration store_timeout{std::chrono::minutes(1)};
}

// A hold is given only for a device that no experiment uses or is about to use, so it is exclusive.
expected<device_hold> coordinator_state::hold(const message::hold_device& m) {
  CUDAL1_CHECK(check_unused(m.device));
  const auto& settings = setup_.options.settings_of(m.device).device;
  device_hold h;
  h.number = holds_.hold(m.device);
  h.device = devices_.at(m.device).report;
  h.threads = static_cast<int>(settings.threads);
  h.flush_bytes = settings.flush_mb << 20;
  h.cores = setup_.options.cores.timing_of(m.device);
  h.seen = setup_.options.cores.seen_by(m.device);
  self_->send(agent_of(m.device), message::device_held{m.device, true});
  spdlog::info("device {} is held by a client", m.device);
  return h;
}

expected<void> coordinator_state::check_unused(const std::string& device) const {
  if (ending_) return fail(errc::cancelled, "the node is ending");
  if (!devices_.is_ready(device))
    return fail(errc::invalid_argument, "this node has no device \"{}\" that works", device);
  if (const auto machine = machine_of(device); !machine.empty())
    return fail(
        errc::unsupported,
        "device {} is on machine {}, where this client does not run: a baseline is measured on the device's own "
        "machine",
        device, machine);
  if (!traits_of(device).replays.empty())
    return fail(errc::refused, "device {} answers from stored verdicts: nothing can be measured on it", device);
  for (const auto& [id, e] : experiments_)
    if (e.actor && may_use(e, device))
      return fail(errc::refused,
                  "experiment {} runs on {}, so nothing else can be measured there; wait for its end, or `cudal1 stop "
                  "{}`",
                  id, device, id);
  if (starter_.starting() > 0)
    return fail(errc::refused, "an experiment is being started; try again when it has ended");
  return holds_.check_free(device, 0);
}

expected<message::done> coordinator_state::release(const message::release_device& m) {
  if (const auto device = holds_.release(m.hold)) {
    spdlog::info("device {} is free again", *device);
    self_->send(agent_of(*device), message::device_held{*device, false});
  }
  return message::done{};
}

expected<task> coordinator_state::task_of_baseline(const message::keep_baseline& m) const {
  const auto held = holds_.device_of(m.hold);
  if (!held) return fail(errc::refused, "only a client that holds the device can store a baseline");
  CUDAL1_TRY(const std::string kind, kind_of_devices(*held));
  CUDAL1_TRY(task t, read_task(m.task, traits_of(kind).profile));
  if (t.id != m.record.task)
    return fail(errc::invalid_argument, "the baseline's task id is not that of its task's text");
  return t;
}

caf::result<message::done> coordinator_state::keep_baseline(const message::keep_baseline& m) {
  auto promise = self_->make_response_promise<message::done>();
  auto refuse_it = [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); };
  const auto t = task_of_baseline(m);
  if (!t) {
    refuse_it(t.error());
    return promise;
  }
  const message::put_baseline question{m.record, devices_.at(*holds_.device_of(m.hold)).report.where};
  ask<message::done>(
      self_, store_, store_timeout, message::keep_task{record_of(*t)},
      [this, promise, refuse_it, question](const message::done&) mutable {
        ask<message::done>(
            self_, store_, store_timeout, question,
            [promise](const message::done&) mutable { promise.deliver(message::done{}); }, refuse_it);
      },
      refuse_it);
  return promise;
}

}  // namespace cudal1
