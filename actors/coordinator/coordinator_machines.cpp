// The machines of the cluster: they join, are heard from, are lost and come back with the leases that they still have.
#include <algorithm>

#include "actors/agent/agent_actor.hpp"
#include "actors/coordinator/coordinator_actor.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {

std::string shown(const std::string& machine) {
  return machine.empty() ? "this machine" : "machine " + machine;
}

}  // namespace

void coordinator_state::spawn_local_agent() {
  agent_setup a;
  a.options = setup_.options;
  a.compilers = setup_.compilers;
  a.make_baselines = setup_.make_baselines;
  a.version = setup_.options.version;
  a.coordinator = coordinator_actor(self_);
  a.fatal = setup_.fatal;
  machines_[""].agent = spawn_required_actor<caf::detached>(run_agent, std::make_shared<agent_setup>(std::move(a)));
}

const agent_actor& coordinator_state::agent_of(const std::string& device) const {
  return machines_.at(machine_of(device)).agent;
}

std::vector<message::judging_settings> coordinator_state::judging() const {
  std::vector<message::judging_settings> all;
  for (const auto& [kind, settings] : setup_.options.of_kind)
    all.push_back({kind, settings.verification, settings.timing, settings.reward});
  return all;
}

// ---- joining ------------------------------------------------------------------------------------------------------

expected<message::joined> coordinator_state::join(const message::join& m, const agent_actor& agent) {
  if (ending_) return fail(errc::cancelled, "the coordinator is ending");
  const bool is_own = agent && agent == machines_.at("").agent;
  if (m.protocol != cluster_protocol_version)
    return fail(errc::unsupported,
                "it speaks version {} of the protocol (cudal1 {}), and the coordinator version {} (cudal1 {}): install "
                "the same release on both",
                m.protocol, m.version, cluster_protocol_version, setup_.options.version);
  if (!agent || (is_own ? !m.name.empty() : !is_machine_name(m.name)))
    return fail(errc::invalid_argument, "\"{}\" is not the name of a machine", m.name);
  CUDAL1_TRY(const auto how, members_->join(m.name, m.incarnation, std::chrono::steady_clock::now()));
  message::joined answer;
  answer.dropped = take_over_leases(m);
  for (const auto& d : m.devices) {
    node_device device;
    device.name = device_on(m.name, d.name);
    device.architecture = d.architecture;
    device.model = d.model;
    device.problem = d.problem;
    if (d.role != device_role::measure && devices_.has(device.name))
      drop_leases(device.name, "it is reserved now", attempt_loss::elsewhere);
    devices_.add(device, d.role);
  }
  auto& here = machines_[m.name];
  if (!is_own && here.agent != agent) self_->monitor(agent);
  here = {agent, m.version, {}};
  // A release may have been sent while the machine was away.
  for (const auto& device : devices_.of_machine(m.name))
    self_->send(agent, message::device_held{device, holds_.is_held(device)});
  compilers_.add(m.name, agent, m.compile_slots, {m.compile_targets.begin(), m.compile_targets.end()});
  if (!is_own)
    spdlog::info("node: machine {} has joined with {} devices{}", m.name, m.devices.size(),
                 how == membership::admission::first ? "" : ", again");
  tell_experiments_of_devices();
  answer.epoch = members_->all().at(m.name).epoch;
  answer.heartbeat_s = setup_.options.settings.cluster.heartbeat_s;
  answer.failure_s = setup_.options.settings.cluster.failure_s;
  answer.settings = judging();
  return answer;
}

// The leases of a machine that joins go on if it still has them, or their results (also those that an earlier process
// of it left on disk). Returns those that it has and that have ended here.
std::vector<uint64_t> coordinator_state::take_over_leases(const message::join& m) {
  std::vector<uint64_t> known;
  take_from_idle(m.name);
  for (const auto& device : devices_.of_machine(m.name)) {
    for (const uint64_t lease : queue_->leases_of(device)) {
      const bool goes_on = std::ranges::count(m.leases, lease) > 0;
      if (goes_on)
        known.push_back(lease);
      else if (const auto ended = queue_->release(lease))
        lose(*ended, "machine " + m.name + " has lost it", attempt_loss::elsewhere);
    }
  }
  std::vector<uint64_t> dropped;
  for (const uint64_t lease : m.leases)
    if (std::ranges::count(known, lease) == 0) dropped.push_back(lease);
  return dropped;
}

expected<message::done> coordinator_state::heartbeat(const message::heartbeat& m) {
  if (!members_->heard(m.name, m.epoch, std::chrono::steady_clock::now()))
    return fail(errc::not_found, "its membership {} has ended", m.epoch);
  return message::done{};
}

// ---- leaving, and being lost --------------------------------------------------------------------------------------

expected<message::done> coordinator_state::leave(const message::leave& m) {
  CUDAL1_CHECK(heartbeat({m.name, m.epoch}));
  members_->leaves(m.name);
  take_from_idle(m.name);
  if (!m.left) return message::done{};
  machine_lost(m.name, "it has left");
  members_->left(m.name, std::chrono::steady_clock::now());
  for (const auto& device : devices_.of_machine(m.name))
    drop_leases(device, "its machine has left", attempt_loss::elsewhere);
  return message::done{};
}

void coordinator_state::machine_lost(const std::string& machine, const std::string& why) {
  if (!members_->lost(machine, std::chrono::steady_clock::now())) return;
  spdlog::warn("node: {} is away: {}", shown(machine), why);
  compilers_.remove(machine);
  lose_baselines(machine, why);
  take_from_idle(machine);
  for (const auto& device : devices_.of_machine(machine))
    if (devices_.at(device).usable())
      devices_.away(device, {errc::infrastructure, fmt::format("{} is away: {}", shown(machine), why)});
  tell_experiments_of_devices();
}

// Until they ask again, nothing is given to a machine's devices.
void coordinator_state::take_from_idle(const std::string& machine) {
  for (const auto& device : devices_.of_machine(machine))
    queue_->not_idle(device);
}

void coordinator_state::watch_machines() {
  const auto now = std::chrono::steady_clock::now();
  if (const auto own = members_->all().find(""); own != members_->all().end())
    members_->heard("", own->second.epoch, now);
  for (const auto& machine : members_->silent(now))
    machine_lost(machine, members_->all().at(machine).beating
                              ? fmt::format("it has been silent for {} s", setup_.options.settings.cluster.failure_s)
                              : "it has not been heard from since it joined");
  for (const auto& machine : members_->newly_absent(now)) {
    spdlog::warn("node: {} has not come back: others repeat its evaluations", shown(machine));
    for (const auto& device : devices_.of_machine(machine))
      drop_leases(device, fmt::format("{} is away and has not come back", shown(machine)), attempt_loss::elsewhere);
  }
}

void coordinator_state::tell_experiments_of_devices() {
  for (const auto& [id, e] : experiments_) {
    if (!e.actor) continue;
    const std::string devices = devices_.of_model(e.record.device, e.record.model);
    message::devices_changed m;
    m.count = static_cast<int64_t>(devices_.count_here(devices));
    m.credit = devices.empty() ? 0 : starter_.credit_for(devices);
    m.waits_for = devices.empty() ? "no device of the model " + e.record.model + " measures any more"
                                  : devices_.why_none_is_here(devices);
    self_->send(e.actor, std::move(m));
  }
}

expected<message::done> coordinator_state::drain_machine(const message::drain_machine& m) {
  if (!members_->all().contains(m.name)) return fail(errc::not_found, "this cluster has no machine \"{}\"", m.name);
  m.draining ? members_->drain(m.name) : members_->take_work_again(m.name);
  if (m.draining) take_from_idle(m.name);
  spdlog::info("node: {} {}", shown(m.name), m.draining ? "gets no more work" : "gets work again");
  return message::done{};
}

}  // namespace cudal1
