// The node's side of clients that measure on a device by themselves: one holds it, and what it measured is kept.
#include <algorithm>

#include "actors/node_actor.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
constexpr limit store_patience{std::chrono::minutes(1)};
}

// A hold is given only for a device that no experiment uses or is about to use, so whoever has it has it alone.
expected<device_hold> node_state::hold(const message::hold_device& m) {
  if (ending_) return fail(errc::cancelled, "the node is ending");
  const auto found = devices_.find(m.device);
  if (found == devices_.end() || !found->second.ready)
    return fail(errc::invalid_argument, "this node has no device \"{}\" that works", m.device);
  for (const auto& [id, e] : experiments_)
    if (e.actor && names_device(e.device, m.device))
      return fail(errc::refused,
                  "experiment {} runs on {}, so nothing else can be measured there; wait for its end, or `cudal1 stop "
                  "{}`",
                  id, m.device, id);
  if (starting_ > 0) return fail(errc::refused, "an experiment is being started; try again when it has ended");
  CUDAL1_CHECK(check_not_held(m.device, 0));
  const auto& settings = settings_of(m.device).device;
  device_hold h;
  h.number = ++last_hold_;
  h.device = found->second.report;
  h.threads = static_cast<int>(settings.threads);
  h.flush_bytes = settings.flush_mb << 20;
  h.cores = setup_.options.cores.timing_of(m.device);
  h.seen = setup_.options.cores.seen_by(m.device);
  holds_[h.number] = m.device;
  self_->send(found->second.actor, message::device_held{true});
  spdlog::info("device {} is held by a client", m.device);
  return h;
}

expected<message::done> node_state::release(const message::release_device& m) {
  if (const auto held = holds_.find(m.hold); held != holds_.end()) {
    spdlog::info("device {} is free again", held->second);
    if (const auto device = devices_.find(held->second); device != devices_.end() && device->second.actor)
      self_->send(device->second.actor, message::device_held{false});
    holds_.erase(held);
  }
  return message::done{};
}

expected<void> node_state::check_not_held(const std::string& devices, uint64_t own) const {
  for (const auto& [number, device] : holds_)
    if (number != own && names_device(devices, device))
      return fail(errc::refused, "device {} is held by `cudal1 baseline`, which measures on it; try again when it ends",
                  device);
  return {};
}

expected<task> node_state::task_of_baseline(const message::keep_baseline& m) const {
  const auto held = holds_.find(m.hold);
  if (held == holds_.end()) return fail(errc::refused, "a baseline comes from a client that holds its device");
  CUDAL1_TRY(const std::string kind, kind_of_devices(held->second));
  CUDAL1_TRY(task t, read_task(m.task, kind));
  if (t.id != m.record.task) return fail(errc::invalid_argument, "the baseline is of another task than its text");
  return t;
}

caf::result<message::done> node_state::keep_baseline(const message::keep_baseline& m) {
  auto promise = self_->make_response_promise<message::done>();
  auto refuse_it = [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); };
  const auto t = task_of_baseline(m);
  if (!t) {
    refuse_it(t.error());
    return promise;
  }
  const message::put_baseline question{m.record, devices_[holds_.at(m.hold)].report.where};
  ask<message::done>(
      self_, store_, store_patience, message::keep_task{record_of(*t)},
      [this, promise, refuse_it, question](const message::done&) mutable {
        ask<message::done>(
            self_, store_, store_patience, question,
            [promise](const message::done&) mutable { promise.deliver(message::done{}); }, refuse_it);
      },
      refuse_it);
  return promise;
}

}  // namespace cudal1
