#include "actors/node_actor.hpp"

#include <algorithm>

#include <unistd.h>

#include "actors/auditor_actor.hpp"
#include "actors/compiler_actor.hpp"
#include "actors/profiler_actor.hpp"
#include "actors/store_actor.hpp"
#include "actors/verifier_actor.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {

constexpr duration experiment_timeout{std::chrono::minutes(2)};
constexpr duration answer_timeout{std::chrono::seconds(10)};
constexpr std::chrono::milliseconds pulse{1000};

}  // namespace

void node_state::begin(node_actor::pointer self, node_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  const auto& o = setup_.options;
  queue_.emplace(in_ms(o.settings.device.time_limit_s));
  self_->set_down_handler([this](caf::down_msg& m) { log_exceptions(name, [&] { down(m); }); });
  self_->set_exit_handler([this](caf::exit_msg& m) { log_exceptions(name, [&] { end(m.reason); }); });
  store_ = spawn_required_actor<caf::detached>(run_store, setup_.db, blobs(o.data));
  const auto& compiling = o.settings.compiler;
  const double first_s = compiling.first_limit_s < compiling.time_limit_s ? compiling.first_limit_s : 0;
  for (const auto& [architecture, compiler] : setup_.compilers)
    compilers_[architecture] =
        spawn_required_actor(run_compiler, compiler, o.compile_workers, compiler_limits{first_s, o.compile_timeout()});
  for (const auto& device : o.devices) {
    devices_.add(device);
    spawn_judges(device.name);
    spawn_device(device.name);
  }
  starter_.begin({self_, store_, &setup_.options, &devices_, &holds_, setup_.db,
                  [this](const std::string& architecture) { return compilers_.at(architecture); },
                  [this](const std::string& device) { return judges_.at(traits_of(device).kind).auditor; },
                  [this](uint64_t actor, const std::string& experiment) {
                    supervision_.watch(actor, {supervision::role::policy, experiment});
                  },
                  [this](experiment_setup ready) { return launch(std::move(ready)); }, [this] { check_drained(); }});
  self_->send(node_actor(self_), message::tick{});
}

// Once for each kind of device.
void node_state::spawn_judges(const std::string& device) {
  if (judges_.contains(traits_of(device).kind)) return;
  const auto& settings = setup_.options.settings_of(device);
  auto& j = judges_[traits_of(device).kind];
  j.verifier = spawn_required_actor(run_verifier, settings.verification);
  j.profiler = spawn_required_actor(run_profiler, settings.timing, store_);
  j.auditor = spawn_required_actor(
      run_auditor, auditor_setup{settings.timing, settings.reward, settings.verification.hack_similarity, store_});
}

// ---- devices ------------------------------------------------------------------------------------------------------

device_setup node_state::setup_of_device(const std::string& device) const {
  const auto& o = setup_.options;
  const auto& settings = o.settings_of(device);
  const auto& j = judges_.at(traits_of(device).kind);
  device_setup d;
  d.session.device = device;
  d.session.worker = o.worker;
  d.session.threads = static_cast<int>(settings.device.threads);
  d.session.timing_core = static_cast<int>(settings.device.timing_core);
  d.session.cores = o.cores.timing_of(device);
  d.cores = o.cores;
  d.session.flush_bytes = settings.device.flush_mb << 20;
  d.session.blobs = blobs(o.data).folder();
  d.verification = settings.verification;
  d.session.allow_weak_confinement = settings.device.allow_weak_confinement;
  d.control = std::make_shared<device_control>();
  d.node = node_actor(self_);
  d.verifier = j.verifier;
  d.profiler = j.profiler;
  d.auditor = j.auditor;
  return d;
}

void node_state::spawn_device(const std::string& device) {
  if (const auto& problem = devices_.at(device).what.problem; !problem.empty())
    return device_failed(device, {errc::infrastructure, problem});
  devices_.restarted(device);
  auto& entry = device_actors_[device];
  auto d = setup_of_device(device);
  entry.control = d.control;
  entry.actor = self_->spawn<caf::monitored + caf::detached>(run_device, std::move(d));
  supervision_.watch(entry.actor.id(), {supervision::role::device, device});
  if (holds_.is_held(device)) self_->send(entry.actor, message::device_held{true});
}

void node_state::device_changed(const message::device_state_changed& m) {
  const error problem{m.code, m.problem};
  if (m.problem.empty()) {
    devices_.started(m.device, m.report);
    spdlog::info("device {} is ready: {} ({:.0f} ms)", m.device, m.report.where.model, m.report.start_ms);
  } else if (m.given_up) {
    device_failed(m.device, problem);
  } else {
    devices_.failed(m.device, problem);
  }
  answer_awaiting();
}

void node_state::device_failed(const std::string& device, const error& problem) {
  devices_.give_up(device, problem);
  const auto text = fmt::format("device {} cannot be used: {}", device, problem.message);
  spdlog::critical("{}", text);
  for (const auto& [id, e] : experiments_) {
    if (!e.actor || !names_device(e.record.device, device) || devices_.any_usable(e.record.device)) continue;
    queue_->withdraw(id);
    self_->send(e.actor, message::device_given_up{text});
  }
}

// Its leases end, and it gets another actor.
void node_state::device_died(const std::string& device) {
  device_actors_[device].actor = nullptr;
  drop_leases(device, fmt::format("the actor of device {} died", device));
  if (ending_ || !devices_.at(device).usable()) return;
  if (supervision_.may_restart(device)) return spawn_device(device);
  device_failed(device, {errc::infrastructure, "its actor died repeatedly"});
  answer_awaiting();
}

void node_state::drop_leases(const std::string& device, const std::string& why) {
  for (const auto& lost : queue_->drop_device(device)) {
    message::work_done m;
    m.attempt = lost.attempt;
    m.fault = why;
    m.on_device = !lost.measured;
    lease_lost(m);
  }
}

caf::result<node_status> node_state::await_devices() {
  auto promise = self_->make_response_promise<node_status>();
  awaiting_.push_back(promise);
  answer_awaiting();
  return promise;
}

void node_state::answer_awaiting() {
  if (!devices_.settled()) return;
  for (auto& promise : std::exchange(awaiting_, {})) {
    if (auto ready = devices_.any_ready(); !ready) {
      promise.deliver(to_caf(std::move(ready).error()));
    } else {
      promise.deliver(*status());
    }
  }
}

// ---- leases -------------------------------------------------------------------------------------------------------

void node_state::offer(const message::work_item& item) {
  queue_->offer(item);
  hand_out();
}

void node_state::idle(const message::device_idle& m) {
  if (!devices_.at(m.device).usable()) return;  // it was given up while it did not answer
  queue_->idle(m.device);
  hand_out();
}

void node_state::hand_out() {
  while (auto next = queue_->next(std::chrono::steady_clock::now()))
    self_->send(device_actors_.at(next->device).actor, std::move(next->item));
}

caf::result<message::done> node_state::work_done(const message::work_done& m) {
  auto promise = self_->make_response_promise<message::done>();
  queue_->measured(m.lease);
  const auto found = experiments_.find(m.attempt.experiment);
  if (found == experiments_.end() || !found->second.actor) {
    queue_->release(m.lease);
    promise.deliver(message::done{});
    return promise;
  }
  ask<message::done>(
      self_, found->second.actor, experiment_timeout, m,
      [this, lease = m.lease, promise](const message::done&) mutable {
        queue_->release(lease);
        promise.deliver(message::done{});
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

void node_state::lease_lost(const message::work_done& m) {
  const auto found = experiments_.find(m.attempt.experiment);
  if (found == experiments_.end() || !found->second.actor) return;
  ask<message::done>(
      self_, found->second.actor, experiment_timeout, m, [](const message::done&) {},
      [this, m](const error& e) {
        spdlog::warn("node: the loss of {} is not acknowledged yet: {}", attempt_key(m.attempt), e.message);
        lost_.push_back(m);
      });
}

void node_state::tick() {
  self_->delayed_send(node_actor(self_), pulse, message::tick{});
  for (const auto& m : std::exchange(lost_, {}))
    lease_lost(m);
  for (const auto& [id, held] : queue_->overdue(std::chrono::steady_clock::now())) {
    if (held.reports == 1) {
      spdlog::error("node: {} on device {} took longer than its lease: the call is cancelled",
                    attempt_key(held.attempt), held.device);
      device_actors_.at(held.device).control->cancel();
    } else if (devices_.at(held.device).usable()) {
      const error problem{errc::timeout, "it does not answer, even after its call was cancelled"};
      // Its experiments go on with their other devices.
      drop_leases(held.device, fmt::format("device {}: {}", held.device, problem.message));
      device_failed(held.device, problem);
    }
  }
}

// ---- supervision --------------------------------------------------------------------------------------------------

void node_state::down(const caf::down_msg& m) {
  const auto child = supervision_.died(m.source.id());
  if (!child) return;
  const error why = from_caf(m.reason);
  switch (child->what) {
    case supervision::role::device:
      return device_died(child->name);
    case supervision::role::experiment:
      return experiment_died(child->name, m.source.id(), why);
    case supervision::role::policy:
      spdlog::error("node: an actor of the policy of experiment {} died: {}", child->name, why.message);
      return policy_died(child->name, m.source.id());
    case supervision::role::required_actor:
      if (!ending_) setup_.fatal("one of the node's own actors died: " + why.message);
  }
}

expected<node_status> node_state::status() const {
  node_status s;
  s.pid = ::getpid();
  s.data = setup_.options.data;
  for (const auto& [device, entry] : devices_.all()) {
    if (entry.now == device_roster::state::ready) {
      s.devices.push_back(entry.report);
    } else if (!entry.problem.message.empty()) {
      s.troubled.push_back({device, entry.problem.message, !entry.usable()});
    }
  }
  for (const auto& [device, entry] : device_actors_)
    for (const auto& [kind, pids] : entry.control->processes()) {
      auto& all = s.processes[kind];
      all.insert(all.end(), pids.begin(), pids.end());
    }
  for (const auto& [id, entry] : experiments_)
    if (entry.actor) s.experiments.push_back(id);
  return s;
}

caf::result<message::node_metrics> node_state::metrics() {
  auto promise = self_->make_response_promise<message::node_metrics>();
  message::node_metrics m;
  for (const auto& [device, entry] : devices_.all())
    m.devices.push_back({device, entry.what.model, entry.now == device_roster::state::ready, queue_->measures(device),
                         holds_.is_held(device)});
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

caf::result<message::done> node_state::drain() {
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

void node_state::check_drained() {
  const bool running =
      std::any_of(experiments_.begin(), experiments_.end(), [](const auto& e) { return !!e.second.actor; });
  if (!ending_ || running || starter_.starting() > 0) return;
  for (auto& promise : draining_)
    promise.deliver(message::done{});
  draining_.clear();
}

// Ends the other actors too; the store last, so that what was sent to it before is written.
void node_state::end(const caf::error& reason) {
  ending_ = true;
  for (auto& [id, e] : experiments_) {
    if (e.actor) self_->send_exit(e.actor, reason);
    if (e.policy) end_policy(*e.policy);
  }
  for (auto& [device, d] : device_actors_)
    if (d.actor) self_->send_exit(d.actor, reason);
  for (const auto& [kind, j] : judges_) {
    self_->send_exit(j.auditor, reason);
    self_->send_exit(j.profiler, reason);
    self_->send_exit(j.verifier, reason);
  }
  for (const auto& [architecture, compiler] : compilers_)
    self_->send_exit(compiler, reason);
  self_->send_exit(store_, reason);
  self_->quit(reason);
}

node_actor::behavior_type run_node(node_actor::stateful_pointer<node_state> self,
                                   const std::shared_ptr<node_setup>& setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(self, std::move(*setup));
  return {
      [&s](const message::work_item& m) { log_exceptions(s.name, [&] { s.offer(m); }); },
      [&s](const message::device_idle& m) { log_exceptions(s.name, [&] { s.idle(m); }); },
      [&s](const message::long_evaluation& m) { log_exceptions(s.name, [&] { s.extend(m); }); },
      [&s](const message::device_state_changed& m) { log_exceptions(s.name, [&] { s.device_changed(m); }); },
      [&s](const message::work_done& m) { return s.work_done(m); },
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
      [&s](const message::keep_baseline& m) { return s.keep_baseline(m); },
      [&s](const message::status_query&) { return reply_or_error(s.name, [&] { return s.status(); }); },
      [&s](const message::await_devices&) { return s.await_devices(); },
      [&s](const message::resume_experiments&) { return s.resume(); },
      [&s](const message::drain&) { return s.drain(); },
      [&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
