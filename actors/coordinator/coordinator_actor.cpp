#include "actors/coordinator/coordinator_actor.hpp"

#include <algorithm>

#include <unistd.h>

#include "actors/agent/auditor_actor.hpp"
#include "actors/agent/machine_devices.hpp"
#include "actors/coordinator/blob_reader.hpp"
#include "actors/coordinator/housekeeper_actor.hpp"
#include "actors/coordinator/store_actor.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {

constexpr duration experiment_timeout{std::chrono::minutes(2)};
constexpr duration answer_timeout{std::chrono::seconds(10)};
constexpr std::chrono::milliseconds coordinator_pulse{1000};

}  // namespace

void coordinator_state::begin(coordinator_actor::pointer self, node_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  const auto& o = setup_.options;
  const auto started = static_cast<uint64_t>(unix_ms());
  queue_.emplace(in_ms(o.settings.device.time_limit_s), started << 20);
  const auto& cluster = o.settings.cluster;
  members_.emplace(membership::limits{in_ms(cluster.failure_s), in_ms(cluster.rejoin_s), join_timeout}, started);
  self_->set_down_handler([this](caf::down_msg& m) { log_exceptions(name, [&] { down(m); }); });
  self_->set_exit_handler([this](caf::exit_msg& m) { log_exceptions(name, [&] { end(m.reason); }); });
  store_ = spawn_required_actor<caf::detached>(run_store, setup_.db, blobs(o.data));
  blob_reader_ = spawn_required_actor<caf::detached>(run_blob_reader, blobs(o.data));
  housekeeper_ = spawn_required_actor<caf::detached>(
      run_housekeeper, housekeeper_setup{o.data, o.settings.operation, store_, setup_.db, coordinator_actor(self_)});
  for (const auto& [kind, settings] : o.of_kind)
    auditors_[kind] = spawn_required_actor(
        run_auditor, auditor_setup{settings.timing, settings.reward, settings.verification.hack_similarity, store_});
  compilers_.begin(self_, o.compile_timeout(o.compile_workers));
  for (const auto& device : o.devices)
    devices_.add(device);
  for (const auto& device : o.policy_devices)
    devices_.add(device, device_role::policy);
  starter_.begin({self_, store_, &setup_.options, &devices_, &holds_, &compilers_, setup_.db,
                  [this](const std::string& device) { return auditors_.at(traits_of(device).kind); },
                  [this](uint64_t actor, const std::string& experiment) {
                    supervision_.watch(actor, {supervision::role::policy, experiment});
                  },
                  [this](experiment_setup ready) { return launch(std::move(ready)); }, [this] { check_drained(); },
                  std::make_shared<proposal_threads>(std::max<std::size_t>(o.cores.others.size(), 1))});
  spawn_local_agent();
  self_->send(coordinator_actor(self_), message::tick{});
}

// ---- devices ------------------------------------------------------------------------------------------------------

void coordinator_state::device_changed(const message::device_state_changed& m) {
  if (!devices_.has(m.device)) return;
  const error problem{m.code, m.problem};
  if (m.problem.empty()) {
    const bool was_away = devices_.at(m.device).now == device_roster::state::away;
    devices_.started(m.device, m.report);
    spdlog::info("device {} is ready: {} ({:.0f} ms)", m.device, m.report.where.model, m.report.start_ms);
    if (was_away) tell_experiments_of_devices();
    if (!ending_) starter_.device_ready();
  } else if (m.given_up) {
    device_failed(m.device, problem);
  } else if (m.away) {
    if (!devices_.at(m.device).usable()) return;
    spdlog::warn("device {} is away: {}", m.device, m.problem);
    devices_.away(m.device, problem);
    queue_->not_idle(m.device);
    tell_experiments_of_devices();
  } else {
    devices_.failed(m.device, problem);
  }
  answer_awaiting();
}

void coordinator_state::device_failed(const std::string& device, const error& problem) {
  devices_.give_up(device, problem);
  const auto text = fmt::format("device {} cannot be used: {}", device, problem.message);
  spdlog::critical("{}", text);
  for (const auto& [id, e] : experiments_) {
    if (!e.actor || !may_use(e, device) || devices_.any_usable(devices_.of_model(e.record.device, e.record.model)))
      continue;
    queue_->withdraw(id);
    self_->send(e.actor, message::device_given_up{text});
  }
}

// Its agent starts another actor for it.
void coordinator_state::device_died(const message::device_died& m) {
  if (!devices_.has(m.device)) return;
  devices_.restarted(m.device);
  drop_leases(m.device, m.why, attempt_loss::on_device);
}

void coordinator_state::drop_leases(const std::string& device, const std::string& why, attempt_loss where) {
  for (const auto& lost : queue_->drop_device(device))
    lose(lost, why, where);
}

void coordinator_state::lose(const work_queue::lease& lost, const std::string& why, attempt_loss where) {
  message::work_done m;
  m.attempt = lost.attempt;
  m.fault = why;
  m.on_device = where == attempt_loss::on_device && !lost.measured;
  lease_lost(m);
}

caf::result<node_status> coordinator_state::await_devices() {
  auto promise = self_->make_response_promise<node_status>();
  awaiting_.push_back(promise);
  answer_awaiting();
  return promise;
}

void coordinator_state::answer_awaiting() {
  if (!devices_.settled()) return;
  for (auto& promise : std::exchange(awaiting_, {})) {
    auto ready = devices_.any_ready();
    if (!ready && !setup_.options.devices.empty())
      promise.deliver(to_caf(std::move(ready).error()));
    else
      promise.deliver(status_without_processes());
  }
}

// ---- leases -------------------------------------------------------------------------------------------------------

void coordinator_state::offer(const message::work_item& item) {
  auto offered = item;
  if (const auto e = experiments_.find(item.attempt.experiment); e != experiments_.end())
    offered.device = devices_.of_model(item.device, e->second.record.model);
  queue_->offer(std::move(offered), std::chrono::steady_clock::now());
  hand_out();
}

void coordinator_state::idle(const message::device_idle& m) {
  if (!devices_.is_ready(m.device)) return;  // it was given up while it did not answer
  if (!members_->takes_work(machine_of(m.device))) return;
  if (holds_.is_held_for(m.device, hold_use::compare)) return;  // it says so again when it is released
  queue_->idle(m.device);
  hand_out();
}

void coordinator_state::hand_out() {
  while (auto next = queue_->next(std::chrono::steady_clock::now())) {
    auto& machine = machines_.at(machine_of(next->device));
    auto& item = next->item;
    if (machine.known_tasks.insert(item.what->id).second) self_->send(machine.agent, message::know_task{item.what});
    item.what = {};
    item.device = next->device;
    self_->send(machine.agent, std::move(item));
  }
}

caf::result<message::done> coordinator_state::work_done(message::work_done&& m) {
  auto promise = self_->make_response_promise<message::done>();
  queue_->measured(m.lease, std::chrono::steady_clock::now());
  const auto found = experiments_.find(m.attempt.experiment);
  if (found == experiments_.end() || !found->second.actor) {
    queue_->release(m.lease);
    promise.deliver(message::done{});
    return promise;
  }
  const auto lease = m.lease;
  ask<message::done>(
      self_, found->second.actor, experiment_timeout, std::move(m),
      [this, lease, promise](const message::done&) mutable {
        queue_->release(lease);
        promise.deliver(message::done{});
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

void coordinator_state::lease_lost(const message::work_done& m) {
  const auto found = experiments_.find(m.attempt.experiment);
  if (found == experiments_.end() || !found->second.actor) return;
  ask<message::done>(
      self_, found->second.actor, experiment_timeout, m, [](const message::done&) {},
      [this, m](const error& e) {
        spdlog::warn("node: the loss of {} is not acknowledged yet: {}", attempt_name(m.attempt), e.message);
        lost_.push_back(m);
      });
}

void coordinator_state::tick() {
  self_->delayed_send(coordinator_actor(self_), coordinator_pulse, message::tick{});
  watch_machines();
  for (const auto& m : std::exchange(lost_, {}))
    lease_lost(m);
  for (const auto& [id, held] : queue_->overdue(std::chrono::steady_clock::now())) {
    if (held.reports == 1) {
      spdlog::error("node: {} on device {} took longer than its lease: the call is cancelled",
                    attempt_name(held.attempt), held.device);
      self_->send(agent_of(held.device), message::cancel_call{held.device});
    } else if (devices_.at(held.device).usable()) {
      const error problem{errc::timeout, "it does not answer, even after its call was cancelled"};
      // Its experiments go on with their other devices.
      drop_leases(held.device, fmt::format("device {}: {}", held.device, problem.message), attempt_loss::on_device);
      device_failed(held.device, problem);
    }
  }
}

// ---- supervision --------------------------------------------------------------------------------------------------

void coordinator_state::down(const caf::down_msg& m) {
  for (const auto& [machine, entry] : machines_)
    if (!machine.empty() && entry.agent && m.source == entry.agent.address())
      return machine_lost(machine, "the connection broke");
  // An earlier process of a machine that has joined again: its actors' ids are not ours.
  if (m.source.node() != self_->node()) return;
  const auto child = supervision_.died(m.source.id());
  if (!child) return;
  const error why = from_caf(m.reason);
  switch (child->what) {
    case supervision::role::device:
      return;  // the agent's
    case supervision::role::experiment:
      return experiment_died(child->name, m.source.id(), why);
    case supervision::role::policy:
      spdlog::error("node: an actor of the policy of experiment {} died: {}", child->name, why.message);
      return policy_died(child->name, m.source.id());
    case supervision::role::required_actor:
      if (!ending_) setup_.fatal("one of the node's own actors died: " + why.message);
  }
}

caf::result<node_status> coordinator_state::status() {
  auto promise = self_->make_response_promise<node_status>();
  ask<message::machine_processes>(
      self_, machines_.at("").agent, answer_timeout, message::processes_query{},
      [this, promise](message::machine_processes& here) mutable {
        node_status s = status_without_processes();
        s.processes = std::move(here.ids);
        promise.deliver(std::move(s));
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

node_status coordinator_state::status_without_processes() const {
  node_status s;
  s.pid = ::getpid();
  s.data = setup_.options.data;
  s.listens = setup_.options.settings.cluster.listen;
  for (const auto& [device, entry] : devices_.all()) {
    if (entry.now == device_roster::state::ready) {
      s.devices.push_back(entry.report);
      s.devices.back().where.device = device;
    } else if (!entry.problem.message.empty()) {
      s.troubled.push_back({device, entry.problem.message, !entry.usable()});
    }
  }
  for (const auto& [device, reserved] : devices_.reserved())
    s.reserved.push_back(reserved);
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [machine, member] : members_->all())
    s.machines.push_back({machine, enum_name(member.now), member.draining, machines_.at(machine).version,
                          std::chrono::duration<double>(now - member.since).count(),
                          static_cast<int64_t>(devices_.of_machine(machine).size())});
  for (const auto& [id, entry] : experiments_)
    if (entry.actor) s.experiments.push_back(id);
  return s;
}

caf::result<message::node_metrics> coordinator_state::metrics() {
  auto promise = self_->make_response_promise<message::node_metrics>();
  message::node_metrics m;
  for (const auto& [device, entry] : devices_.all())
    m.devices.push_back({device, entry.what.model, entry.now == device_roster::state::ready, queue_->measures(device),
                         holds_.is_held(device), false});
  for (const auto& [device, reserved] : devices_.reserved())
    m.devices.push_back({device, reserved.model, false, false, false, true});
  for (const auto& [machine, member] : members_->all())
    m.machines.push_back({machine, enum_name(member.now), member.draining});
  m.waiting = static_cast<int64_t>(queue_->waiting());
  m.leased = static_cast<int64_t>(queue_->leased());
  m.experiments = std::ranges::count_if(experiments_, [](const auto& e) { return !!e.second.actor; });
  ask<message::store_metrics>(
      self_, store_, answer_timeout, message::store_metrics_query{},
      [promise, m](message::store_metrics& of_store) mutable {
        m.store = std::move(of_store);
        promise.deliver(std::move(m));
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

caf::result<message::done> coordinator_state::drain() {
  ending_ = true;
  auto promise = self_->make_response_promise<message::done>();
  draining_.push_back(promise);
  for (const auto& [id, entry] : experiments_) {
    if (!entry.actor) continue;
    ask<message::done>(
        self_, entry.actor, answer_timeout, message::stop_experiment{id, true}, [](const message::done&) {},
        [id = id](const error& e) { spdlog::warn("node: experiment {} does not end: {}", id, e.message); });
  }
  check_drained();
  return promise;
}

void coordinator_state::check_drained() {
  const bool running =
      std::any_of(experiments_.begin(), experiments_.end(), [](const auto& e) { return !!e.second.actor; });
  if (!ending_ || running || starter_.starting() > 0) return;
  for (auto& promise : draining_)
    promise.deliver(message::done{});
  draining_.clear();
}

// Ends the other actors too; the store last, so that what was sent to it before is written.
void coordinator_state::end(const caf::error& reason) {
  ending_ = true;
  for (auto& [id, e] : experiments_) {
    if (e.actor) self_->send_exit(e.actor, reason);
    if (e.policy) end_policy(*e.policy);
  }
  self_->send_exit(machines_.at("").agent, reason);
  for (const auto& [kind, auditor] : auditors_)
    self_->send_exit(auditor, reason);
  self_->send_exit(blob_reader_, reason);
  self_->send_exit(housekeeper_, reason);
  self_->send_exit(store_, reason);
  self_->quit(reason);
}

coordinator_actor::behavior_type run_coordinator(coordinator_actor::stateful_pointer<coordinator_state> self,
                                                 const std::shared_ptr<node_setup>& setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(self, std::move(*setup));
  return {
      [&s](const message::join& m) {
        return reply_or_error(s.name,
                              [&] { return s.join(m, caf::actor_cast<agent_actor>(s.self()->current_sender())); });
      },
      [&s](const message::heartbeat& m) { return reply_or_error(s.name, [&] { return s.heartbeat(m); }); },
      [&s](const message::leave& m) { return reply_or_error(s.name, [&] { return s.leave(m); }); },
      [&s](const message::drain_machine& m) { return reply_or_error(s.name, [&] { return s.drain_machine(m); }); },
      [&s](const message::read_blob& m) { return s.read_blob(m); },
      [&s](const message::best_score& m) { return s.ask_store<message::best_result>(m); },
      [&s](const message::load_variant& m) { return s.ask_store<variant_record>(m); },
      [&s](const message::load_hack_cases& m) { return s.ask_store<message::hack_cases>(m); },
      [&s](const message::device_died& m) { log_exceptions(s.name, [&] { s.device_died(m); }); },
      [&s](const message::compile& m) { return s.compile(m); },
      [&s](const message::work_item& m) { log_exceptions(s.name, [&] { s.offer(m); }); },
      [&s](const message::device_idle& m) { log_exceptions(s.name, [&] { s.idle(m); }); },
      [&s](const message::long_evaluation& m) { log_exceptions(s.name, [&] { s.extend(m); }); },
      [&s](const message::device_state_changed& m) { log_exceptions(s.name, [&] { s.device_changed(m); }); },
      [&s](message::work_done& m) { return s.work_done(std::move(m)); },
      [&s](const message::prune_store& m) { return s.prune(m); },
      [&s](const message::node_metrics_query&) { return s.metrics(); },
      [&s](const message::withdraw& m) -> caf::result<message::withdrawn> {
        return message::withdrawn{s.withdraw(m.experiment)};
      },
      [&s](const message::experiment_ended& m) { log_exceptions(s.name, [&] { s.experiment_ended(m); }); },
      [&s](const message::start_experiment& m) { return s.start(m); },
      [&s](const message::progress_query& m) { return s.progress(m); },
      [&s](const message::stop_experiment& m) { return s.stop(m); },
      [&s](const message::hold_device& m) { return reply_or_error(s.name, [&] { return s.hold(m); }); },
      [&s](const message::release_device& m) { return reply_or_error(s.name, [&] { return s.release(m); }); },
      [&s](const message::begin_baseline& m) { return reply_or_error(s.name, [&] { return s.begin_baseline(m); }); },
      [&s](const message::baseline_query& m) { return reply_or_error(s.name, [&] { return s.baseline(m); }); },
      [&s](const message::keep_baseline& m) { return s.keep_baseline(m); },
      [&s](const message::keep_judged_file& m) { return s.keep_judged_file(m); },
      [&s](const message::status_query&) { return s.status(); },
      [&s](const message::await_devices&) { return s.await_devices(); },
      [&s](const message::resume_experiments&) { return s.resume(); },
      [&s](const message::drain&) { return s.drain(); },
      [&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
