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

constexpr limit experiment_patience{std::chrono::minutes(2)};
constexpr limit answer_patience{std::chrono::seconds(10)};
constexpr std::chrono::milliseconds pulse{1000};
constexpr int device_deaths_allowed = 3;

// A compilation may wait for those before it.
limit compile_patience(const configuration& c) {
  return std::chrono::milliseconds(static_cast<int64_t>(c.compiler.time_limit_s * 1000) + 10'000);
}

}  // namespace

void node_state::begin(node_actor::pointer self, node_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  queue_.emplace(setup_.options.lease_limit);
  self_->set_down_handler([this](caf::down_msg& m) { at_edge(name, [&] { down(m); }); });
  self_->set_exit_handler([this](caf::exit_msg& m) { at_edge(name, [&] { end(m.reason); }); });
  store_ = self_->spawn<caf::monitored + caf::detached>(run_store, setup_.db);
  for (const auto& [architecture, compiler] : setup_.compilers)
    compilers_[architecture] = self_->spawn<caf::monitored>(run_compiler, compiler, setup_.options.compile_workers,
                                                            compile_patience(setup_.options.settings));
  for (const auto& device : setup_.options.devices) {
    if (const auto& kind = traits_of(device.name).kind; !judges_.contains(kind))
      spawn_judges(kind, settings_of(device.name));
    spawn_device(device);
  }
  self_->send(node_actor(self_), message::tick{});
}

void node_state::spawn_judges(const std::string& kind, const configuration& settings) {
  auto& j = judges_[kind];
  j.verifier = self_->spawn<caf::monitored>(run_verifier, settings.verification);
  j.profiler = self_->spawn<caf::monitored>(run_profiler, settings.timing, store_);
  j.auditor = self_->spawn<caf::monitored>(run_auditor, settings.timing);
}

const configuration& node_state::settings_of(const std::string& device) const {
  return setup_.options.of_kind.at(traits_of(device).kind);
}

// ---- devices ------------------------------------------------------------------------------------------------------

void node_state::spawn_device(const node_device& device) {
  const auto& o = setup_.options;
  const auto& settings = settings_of(device.name);
  const auto& j = judges_.at(traits_of(device.name).kind);
  device_setup d;
  d.session.device = device.name;
  d.session.worker = o.worker;
  d.session.threads = static_cast<int>(settings.device.threads);
  d.session.timing_core = static_cast<int>(settings.device.timing_core);
  d.session.cores = o.cores.timing_of(device.name);
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
  auto& entry = devices_[device.name];
  entry.what = device;
  if (!device.problem.empty()) return device_failed(device.name, enum_name(errc::infrastructure), device.problem);
  entry.control = d.control;
  entry.ready = false;
  entry.actor = self_->spawn<caf::monitored + caf::detached>(run_device, std::move(d));
  const bool held = std::ranges::any_of(holds_, [&](const auto& h) { return h.second == device.name; });
  if (held) self_->send(entry.actor, message::device_held{true});
}

void node_state::device_changed(const message::device_state_changed& m) {
  auto& entry = devices_[m.device];
  entry.error_code = m.error_code;
  entry.problem = m.problem;
  if (m.problem.empty()) {
    entry.ready = true;
    entry.report = m.report;
    spdlog::info("device {} is ready: {} ({:.0f} ms)", m.device, m.report.where.model, m.report.start_ms);
  } else if (m.given_up) {
    device_failed(m.device, m.error_code, m.problem);
  }
  answer_awaiting();
}

void node_state::device_failed(const std::string& device, const std::string& code, const std::string& problem) {
  auto& entry = devices_[device];
  entry.given_up = true;
  entry.ready = false;
  entry.error_code = code;
  entry.problem = problem;
  spdlog::critical("device {} cannot be used: {}", device, problem);
  const auto told = fmt::format("device {} cannot be used: {}", device, problem);
  for (const auto& [id, e] : experiments_) {
    if (!e.actor || !names_device(e.device, device) || any_usable(e.device)) continue;
    queue_->withdraw(id);
    self_->send(e.actor, message::device_given_up{told});
  }
}

bool node_state::any_usable(const std::string& devices) const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const auto& d) { return names_device(devices, d.first) && !d.second.given_up; });
}

// Its actor died: what it held comes back, and it gets another.
void node_state::device_gone(const std::string& device) {
  auto& entry = devices_[device];
  entry.actor = nullptr;
  for (const auto& lost : queue_->drop_device(device)) {
    message::work_done m;
    m.attempt = lost.attempt;
    m.fault = fmt::format("the actor of device {} died", device);
    lease_lost(m);
  }
  if (ending_ || entry.given_up) return;
  if (++entry.deaths < device_deaths_allowed) return spawn_device(node_device(entry.what));
  device_failed(device, enum_name(errc::infrastructure), "its actor died again and again");
  answer_awaiting();
}

caf::result<node_status> node_state::await_devices() {
  auto promise = self_->make_response_promise<node_status>();
  awaiting_.push_back(promise);
  answer_awaiting();
  return promise;
}

void node_state::answer_awaiting() {
  const auto settled = [](const auto& d) { return d.second.ready || d.second.given_up; };
  if (!std::all_of(devices_.begin(), devices_.end(), settled)) return;
  for (auto& promise : awaiting_) {
    const auto usable = std::find_if(devices_.begin(), devices_.end(), [](const auto& d) { return d.second.ready; });
    if (usable == devices_.end()) {
      const auto& d = devices_.begin()->second;
      promise.deliver(to_caf({enum_value<errc>(d.error_code).value_or(errc::infrastructure), d.problem}));
    } else {
      promise.deliver(*status());
    }
  }
  awaiting_.clear();
}

// ---- leases -------------------------------------------------------------------------------------------------------

void node_state::offer(const message::work_item& item) {
  queue_->offer(item);
  hand_out();
}

void node_state::idle(const message::device_idle& m) {
  queue_->idle(m.device);
  hand_out();
}

void node_state::hand_out() {
  while (auto next = queue_->next(std::chrono::steady_clock::now()))
    self_->send(devices_[next->device].actor, std::move(next->item));
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
      self_, found->second.actor, experiment_patience, m,
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
      self_, found->second.actor, experiment_patience, m, [](const message::done&) {},
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
    auto& d = devices_[held.device];
    if (held.reports == 1) {
      spdlog::error("node: {} on device {} took longer than its lease: the call is cancelled",
                    attempt_key(held.attempt), held.device);
      d.control->cancel();
    } else if (!d.given_up) {
      device_failed(held.device, enum_name(errc::timeout), "it does not answer, nor does cancelling its call help");
    }
  }
}

// ---- supervision --------------------------------------------------------------------------------------------------

void node_state::down(const caf::down_msg& m) {
  for (const auto& [device, entry] : devices_)
    if (entry.actor && entry.actor.address() == m.source) return device_gone(std::string(device));
  for (const auto& [id, entry] : experiments_) {
    if (!entry.actor || entry.actor.address() != m.source) continue;
    spdlog::error("node: the actor of experiment {} died: {}", id, from_caf(m.reason).message);
    message::experiment_ended last;
    last.last.experiment = id;
    last.last.state = enum_name(experiment_state::running);
    last.problem = "its actor died; the node's log says why, and the next start of the node goes on with it";
    return forget_experiment(std::string(id), std::move(last));
  }
  const bool thinks = std::any_of(judges_.begin(), judges_.end(), [&](const auto& j) {
    const auto& [verifier, profiler, auditor] = j.second;
    return verifier.address() == m.source || profiler.address() == m.source || auditor.address() == m.source;
  });
  const bool compiles =
      std::any_of(compilers_.begin(), compilers_.end(), [&](const auto& c) { return c.second.address() == m.source; });
  if ((store_.address() == m.source || thinks || compiles) && !ending_)
    setup_.fatal("one of the node's own actors died: " + from_caf(m.reason).message);
}

expected<node_status> node_state::status() const {
  node_status s;
  s.pid = ::getpid();
  s.data = setup_.options.data;
  for (const auto& [device, entry] : devices_) {
    if (entry.ready) s.devices.push_back(entry.report);
    if (!entry.ready && !entry.problem.empty()) s.troubled.push_back({device, entry.problem, entry.given_up});
    for (const auto& [kind, pids] : entry.control->processes()) {
      auto& all = s.processes[kind];
      all.insert(all.end(), pids.begin(), pids.end());
    }
  }
  for (const auto& [id, entry] : experiments_)
    if (entry.actor) s.experiments.push_back(id);
  return s;
}

caf::result<message::done> node_state::drain() {
  ending_ = true;
  auto promise = self_->make_response_promise<message::done>();
  draining_.push_back(promise);
  for (const auto& [id, entry] : experiments_) {
    if (!entry.actor) continue;
    ask<message::done>(
        self_, entry.actor, answer_patience, message::stop_experiment{id, true}, [](const message::done&) {},
        [id = id](const error& e) { spdlog::warn("node: experiment {} does not end: {}", id, e.message); });
  }
  check_drained();
  return promise;
}

void node_state::check_drained() {
  const bool running =
      std::any_of(experiments_.begin(), experiments_.end(), [](const auto& e) { return !!e.second.actor; });
  if (!ending_ || running || starting_ > 0) return;
  for (auto& promise : draining_)
    promise.deliver(message::done{});
  draining_.clear();
}

// Takes the others along; the store last, so that what was said to it before is written.
void node_state::end(const caf::error& reason) {
  ending_ = true;
  for (auto& [id, e] : experiments_) {
    if (e.actor) self_->send_exit(e.actor, reason);
    if (e.generator) self_->send_exit(e.generator, reason);
    if (e.learner) self_->send_exit(e.learner, reason);
  }
  for (auto& [device, d] : devices_)
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
      [&s](const message::work_item& m) { at_edge(s.name, [&] { s.offer(m); }); },
      [&s](const message::device_idle& m) { at_edge(s.name, [&] { s.idle(m); }); },
      [&s](const message::device_state_changed& m) { at_edge(s.name, [&] { s.device_changed(m); }); },
      [&s](const message::work_done& m) { return s.work_done(m); },
      [&s](const message::experiment_ended& m) { at_edge(s.name, [&] { s.experiment_ended(m); }); },
      [&s](const message::start_experiment& m) { return s.start(m); },
      [&s](const message::progress_query& m) { return s.progress(m); },
      [&s](const message::stop_experiment& m) { return s.stop(m); },
      [&s](const message::hold_device& m) { return answer_at_edge(s.name, [&] { return s.hold(m); }); },
      [&s](const message::release_device& m) { return answer_at_edge(s.name, [&] { return s.release(m); }); },
      [&s](const message::keep_baseline& m) { return s.keep_baseline(m); },
      [&s](const message::status_query&) { return answer_at_edge(s.name, [&] { return s.status(); }); },
      [&s](const message::await_devices&) { return s.await_devices(); },
      [&s](const message::resume_experiments&) { return s.resume(); },
      [&s](const message::drain&) { return s.drain(); },
      [&s](const message::tick&) { at_edge(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
