// The agent's membership of a cluster: joining, heartbeats, joining again, leaving.
#include <algorithm>
#include <random>

#include "actors/agent/agent_actor.hpp"
#include "actors/agent/machine_devices.hpp"
#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::milliseconds longest_pulse{1000}, first_delay{250}, longest_delay{15'000};

// Trying again does not fix these: another version, a name that is taken.
bool is_refusal(errc code) {
  return code == errc::unsupported || code == errc::invalid_argument || code == errc::refused;
}

}  // namespace

error agent_state::no_coordinator() const {
  return {errc::infrastructure, "this machine is not connected to its coordinator"};
}

void agent_state::tick() {
  self_->delayed_send(agent_actor(self_), std::min(longest_pulse, heartbeat_), message::tick{});
  const auto now = clock::now();
  if (!coordinator_ && !connecting_ && !ending_ && now >= next_attempt_) connect();
  if (coordinator_ && !is_local() && now >= next_beat_) beat();
  send_left_results();
  begin_ready_baselines();
  check_retired();
}

void agent_state::connect() {
  connecting_ = true;
  if (setup_.coordinator) return join(setup_.coordinator);
  connect_to_coordinator(self_, setup_.address, join_timeout, [this](expected<coordinator_actor> found) {
    if (found) return join(*found);
    if (attempts_ == 0)
      spdlog::warn("agent: the coordinator at {}:{} cannot be reached, trying again: {}", setup_.address.where.host,
                   setup_.address.where.port, found.error().message);
    try_again_later();
  });
}

void agent_state::join(const coordinator_actor& to) {
  message::join m;
  m.version = setup_.version;
  m.name = setup_.name;
  m.incarnation = incarnation_;
  for (const auto& d : setup_.options.devices)
    m.devices.push_back({d.name, d.architecture, d.model, d.problem, device_role::measure});
  for (const auto& d : setup_.options.policy_devices)
    m.devices.push_back({d.name, d.architecture, d.model, d.problem, device_role::policy});
  for (const auto& [target, compiler] : compilers_)
    m.compile_targets.push_back(target);
  // As many again wait here, so that no worker waits for a message.
  m.compile_slots = 2 * static_cast<int64_t>(setup_.options.compile_workers);
  for (const auto& [lease, device] : in_flight_)
    m.leases.push_back(lease);
  for (const auto& [lease, result] : left_)
    m.leases.push_back(lease);
  ask<message::joined>(
      self_, to, join_timeout, std::move(m), [this, to](const message::joined& answer) { joined(to, answer); },
      [this](const error& e) {
        if (is_refusal(e.code)) return setup_.fatal("the coordinator refuses this machine: " + e.message);
        spdlog::warn("agent: this machine could not join, trying again: {}", e.message);
        try_again_later();
      });
}

void agent_state::joined(const coordinator_actor& to, const message::joined& m) {
  connecting_ = false;
  attempts_ = 0;
  coordinator_ = to;
  self_->monitor(coordinator_);
  epoch_ = m.epoch;
  heartbeat_ = in_ms(m.heartbeat_s);
  failure_ = in_ms(m.failure_s);
  next_beat_ = clock::now() + heartbeat_;
  for (const uint64_t lease : m.dropped) {
    in_flight_.erase(lease);
    left_.erase(lease);
    if (spool_) spool_->remove(lease);
  }
  std::erase_if(waiting_, [&](const auto& item) { return !in_flight_.contains(item.lease); });
  if (!is_local()) spdlog::info("agent: joined as {}, membership {}", setup_.name, epoch_);
  fetcher_->connected(coordinator_);
  std::string settings;
  for (const auto& of_kind : m.settings)
    settings += of_kind.kind + to_text(of_kind.verification) + to_text(of_kind.timing) + to_text(of_kind.reward);
  if (settings != settings_) {
    if (!settings_.empty()) spdlog::info("agent: the coordinator has other settings: the devices start again");
    end_devices();
    settings_ = settings;
    spawn_devices(m.settings);
  } else {
    for (const auto& [device, entry] : devices_)
      if (entry.last) device_changed(message::device_state_changed(*entry.last));
  }
  if (retiring_) announce_leave();
}

void agent_state::parted(const std::string& why) {
  if (!coordinator_) return;
  spdlog::warn("agent: {}; this machine joins again, and its devices finish what they have", why);
  self_->demonitor(coordinator_.address());
  coordinator_ = nullptr;
  fetcher_->disconnected();
  for (const auto& [device, entry] : devices_)
    end_baselines(device);
  for (auto& [lease, promise] : std::exchange(reporting_, {}))
    promise.deliver(to_caf(no_coordinator()));
  if (is_local()) return setup_.fatal("the coordinator ended");
  try_again_later();
}

void agent_state::try_again_later() {
  connecting_ = false;
  static thread_local std::mt19937 random{std::random_device{}()};
  const auto delay = std::min(longest_delay, first_delay * (1 << std::min(attempts_++, 10)));
  next_attempt_ = clock::now() + delay * std::uniform_int_distribution<int>(50, 100)(random) / 100;
}

void agent_state::beat() {
  next_beat_ = clock::now() + heartbeat_;
  ask<message::done>(
      self_, coordinator_, failure_, message::heartbeat{setup_.name, epoch_}, [](const message::done&) {},
      [this, asked = epoch_](const error& e) {
        if (asked == epoch_) parted("the coordinator does not count this machine in: " + e.message);
      });
}

// ---- leaving ------------------------------------------------------------------------------------------------------

caf::result<message::done> agent_state::retire() {
  auto promise = self_->make_response_promise<message::done>();
  retired_.push_back(promise);
  if (!std::exchange(retiring_, true) && coordinator_) announce_leave();
  check_retired();
  return promise;
}

// From now on its devices get no more work.
void agent_state::announce_leave() {
  ask<message::done>(
      self_, coordinator_, join_timeout, message::leave{setup_.name, epoch_, false}, [](const message::done&) {},
      [](const error& e) {
        spdlog::warn("agent: the coordinator does not know that this machine leaves: {}", e.message);
      });
}

void agent_state::check_retired() {
  if (!retiring_ || retired_.empty() || !in_flight_.empty() || !left_.empty()) return;
  const auto answer = [this] {
    for (auto& promise : std::exchange(retired_, {}))
      promise.deliver(message::done{});
  };
  if (!coordinator_) return answer();
  ask<message::done>(
      self_, coordinator_, join_timeout, message::leave{setup_.name, epoch_, true},
      [answer](const message::done&) { answer(); }, [answer](const error&) { answer(); });
}

}  // namespace cudal1
