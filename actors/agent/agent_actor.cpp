#include "actors/agent/agent_actor.hpp"

#include <algorithm>
#include <random>

#include "actors/agent/auditor_actor.hpp"
#include "actors/agent/compiler_actor.hpp"
#include "actors/agent/machine_devices.hpp"
#include "actors/agent/profiler_actor.hpp"
#include "actors/agent/verifier_actor.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {
constexpr duration report_timeout{std::chrono::minutes(2)};  // the store syncs
}  // namespace

void agent_state::begin(agent_actor::pointer self, agent_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  incarnation_ = std::random_device{}() * (uint64_t{1} << 32) + std::random_device{}();
  fetcher_.emplace(self_, setup_.options.data,
                   [this](const std::string& blob, const expected<void>& how) { blob_ended(blob, how); });
  self_->set_down_handler([this](caf::down_msg& m) { log_exceptions(name, [&] { down(m); }); });
  self_->set_exit_handler([this](caf::exit_msg& m) { log_exceptions(name, [&] { end(m.reason); }); });
  for (const auto& device : setup_.options.devices)
    devices_[device.name];
  if (!is_local()) spool_.emplace(setup_.options.data);
  if (spool_)
    for (auto& m : spool_->load())
      left_.emplace(m.lease, std::move(m));
  spawn_compilers();
  self_->send(agent_actor(self_), message::tick{});
}

// ---- parts --------------------------------------------------------------------------------------------------------

void agent_state::spawn_compilers() {
  const auto& o = setup_.options;
  const auto& compiling = o.settings.compiler;
  const double first_s = compiling.first_limit_s < compiling.time_limit_s ? compiling.first_limit_s : 0;
  for (const auto& device : o.devices) {
    const auto compiler = setup_.compilers.find(device.architecture);
    const std::string target = compile_target(device);
    if (compiler == setup_.compilers.end() || compilers_.contains(target)) continue;
    compilers_[target] = spawn_required_actor(run_compiler, compiler->second, o.compile_workers,
                                              compiler_limits{first_s, o.compile_timeout()});
  }
}

void agent_state::spawn_devices(const std::vector<message::judging_settings>& settings) {
  for (const auto& of_kind : settings)
    spawn_judges(of_kind);
  for (const auto& device : setup_.options.devices)
    spawn_device(device.name);
}

void agent_state::end_devices() {
  const auto stop = [this](const auto& actor) {
    if (!actor) return;
    supervision_.died(actor.id());  // its end is intended
    self_->send_exit(actor, caf::exit_reason::user_shutdown);
  };
  for (auto& [device, entry] : devices_) {
    stop(entry.actor);
    entry = {};
  }
  for (auto& [kind, j] : std::exchange(judges_, {})) {
    stop(j.verifier);
    stop(j.profiler);
    stop(j.auditor);
  }
  in_flight_.clear();
  waiting_.clear();
}

// Of the kinds of this machine's devices.
void agent_state::spawn_judges(const message::judging_settings& settings) {
  const bool is_here = std::ranges::any_of(
      setup_.options.devices, [&](const auto& device) { return traits_of(device.name).kind == settings.kind; });
  if (!is_here) return;
  auto& j = judges_[settings.kind];
  const records_actor records = agent_actor(self_);
  j.verification = settings.verification;
  j.verifier = spawn_required_actor(run_verifier, settings.verification);
  j.profiler = spawn_required_actor(run_profiler, settings.timing, records);
  j.auditor = spawn_required_actor(
      run_auditor, auditor_setup{settings.timing, settings.reward, settings.verification.hack_similarity, records});
}

device_setup agent_state::setup_of_device(const std::string& device) const {
  const auto& o = setup_.options;
  const auto& settings = o.settings_of(device);
  const auto& kind = traits_of(device).kind;
  const auto& j = judges_.at(kind);
  device_setup d;
  d.session.device = device;
  d.session.worker = o.worker;
  d.session.threads = static_cast<int>(settings.device.threads);
  d.session.timing_core = static_cast<int>(settings.device.timing_core);
  d.session.cores = o.cores.timing_of(device);
  d.cores = o.cores;
  d.turns = o.turns;
  d.session.flush_bytes = settings.device.flush_mb << 20;
  d.session.memory_bytes = settings.device.memory_mb << 20;
  const auto what = std::ranges::find(o.devices, device, &node_device::name);
  if (what != o.devices.end()) d.tensor_bytes = find_device_type(device)->tensor_bytes(*what, settings);
  d.session.blobs = blobs(o.data).folder();
  d.verification = j.verification;
  d.session.allow_weak_confinement = settings.device.allow_weak_confinement;
  d.control = std::make_shared<device_control>();
  d.agent = agent_actor(self_);
  d.verifier = j.verifier;
  d.profiler = j.profiler;
  d.auditor = j.auditor;
  return d;
}

void agent_state::spawn_device(const std::string& device) {
  const auto& all = setup_.options.devices;
  const auto what = std::ranges::find(all, device, &node_device::name);
  if (!what->problem.empty()) return device_failed(device, {errc::infrastructure, what->problem});
  if (!judges_.contains(traits_of(device).kind))
    return device_failed(device, {errc::unsupported, "the coordinator has no settings for devices of this kind"});
  auto& entry = devices_.at(device);
  auto d = setup_of_device(device);
  entry.control = d.control;
  entry.actor = self_->spawn<caf::monitored + caf::detached>(run_device, std::move(d));
  supervision_.watch(entry.actor.id(), {supervision::role::device, device});
  if (entry.held) self_->send(entry.actor, message::device_held{device, true});
}

void agent_state::device_failed(const std::string& device, const error& problem) {
  message::device_state_changed m;
  m.device = device;
  m.code = problem.code;
  m.problem = problem.message;
  m.given_up = true;
  device_changed(std::move(m));
}

// Its leases end, and it gets another actor.
void agent_state::device_died(const std::string& device) {
  devices_.at(device).actor = nullptr;
  std::erase_if(in_flight_, [&](const auto& lease) { return lease.second == device; });
  std::erase_if(waiting_, [&](const auto& item) { return !in_flight_.contains(item.lease); });
  if (ending_) return;
  if (coordinator_)
    self_->send(coordinator_,
                message::device_died{full(device), fmt::format("the actor of device {} died", full(device))});
  if (supervision_.may_restart(device)) return spawn_device(device);
  device_failed(device, {errc::infrastructure, "its actor died repeatedly"});
}

void agent_state::down(const caf::down_msg& m) {
  if (coordinator_ && m.source == coordinator_.address()) return parted("the connection to the coordinator broke");
  if (m.source.node() != self_->node()) return;  // an earlier coordinator, whose actors' ids are not ours
  const auto child = supervision_.died(m.source.id());
  if (!child) return;
  if (child->what == supervision::role::device) return device_died(child->name);
  if (!ending_) setup_.fatal("one of the agent's own actors died: " + from_caf(m.reason).message);
}

void agent_state::end(const caf::error& reason) {
  ending_ = true;
  for (auto& [device, entry] : devices_)
    if (entry.actor) self_->send_exit(entry.actor, reason);
  for (const auto& [device, entry] : baselines_) {
    entry.cancel->set();
    self_->send_exit(entry.actor, reason);
  }
  for (const auto& [kind, j] : judges_) {
    self_->send_exit(j.auditor, reason);
    self_->send_exit(j.profiler, reason);
    self_->send_exit(j.verifier, reason);
  }
  for (const auto& [target, compiler] : compilers_)
    self_->send_exit(compiler, reason);
  self_->quit(reason);
}

// ---- from the coordinator -----------------------------------------------------------------------------------------

void agent_state::know(const message::know_task& m) {
  known_task known;
  known.what = m.what;
  const blobs kept(setup_.options.data);
  for (const auto& file : m.what->content_files())
    if (!kept.has(file)) known.missing.insert(file);
  const auto missing = known.missing;
  tasks_[m.what->id] = std::move(known);
  for (const auto& file : missing)
    fetcher_->want(file);
}

void agent_state::take(const message::work_item& item) {
  const auto known = tasks_.find(item.attempt.task);
  const std::string device = name_on_machine(item.device);
  if (!devices_.contains(device) || !devices_.at(device).actor)
    return refuse_work(item, fmt::format("device {} is not ready", item.device));
  if (known == tasks_.end()) return refuse_work(item, "the machine has not been told of its task");
  in_flight_[item.lease] = device;
  if (!known->second.problem.empty()) return refuse_work(item, known->second.problem);
  if (!is_ready(known->second, device)) return waiting_.push_back(item);
  hand_to_device(item, known->second);
}

void agent_state::hand_to_device(message::work_item item, const known_task& of) {
  item.what = of.what;
  self_->send(devices_.at(in_flight_.at(item.lease)).actor, std::move(item));
}

void agent_state::refuse_work(const message::work_item& item, const std::string& why) {
  message::work_done m;
  m.lease = item.lease;
  m.attempt = item.attempt;
  m.fault = why;
  in_flight_.erase(item.lease);
  if (coordinator_)
    ask<message::done>(
        self_, coordinator_, report_timeout, m, [](const message::done&) {},
        [](const error& e) { spdlog::warn("agent: the coordinator did not take an evaluation back: {}", e.message); });
}

void agent_state::blob_ended(const std::string& blob, const expected<void>& how) {
  for (auto& [id, t] : tasks_) {
    if (t.missing.erase(blob) == 0 || how) continue;
    t.problem = fmt::format("the weights of {}: {}", t.what->name, how.error().message);
  }
  hand_out_waiting();
  baseline_blob_ended(blob, how);
}

void agent_state::hand_out_waiting() {
  for (auto& item : std::exchange(waiting_, {})) {
    const auto& known = tasks_.at(item.attempt.task);
    if (!known.problem.empty())
      refuse_work(item, known.problem);
    else if (!is_ready(known, in_flight_.at(item.lease)))
      waiting_.push_back(std::move(item));
    else
      hand_to_device(std::move(item), known);
  }
}

void agent_state::cancel(const message::cancel_call& m) {
  if (const auto found = devices_.find(name_on_machine(m.device)); found != devices_.end() && found->second.control)
    found->second.control->cancel();
}

void agent_state::hold(const message::device_held& m) {
  const auto found = devices_.find(name_on_machine(m.device));
  if (found == devices_.end()) return;
  found->second.held = m.held;
  if (!m.held) end_baselines(found->first);
  if (!measures_baseline(found->first)) tell_of_hold(found->first);
}

void agent_state::tell_of_hold(const std::string& device) {
  const auto& entry = devices_.at(device);
  if (entry.actor) self_->send(entry.actor, message::device_held{device, entry.held});
}

caf::result<shared_code> agent_state::compile(const message::compile& m) {
  const auto found = compilers_.find(m.target);
  if (found == compilers_.end())
    return to_caf({errc::not_found, fmt::format("this machine has no compiler for {}", m.target)});
  return self_->delegate(found->second, m);
}

message::machine_processes agent_state::processes() const {
  message::machine_processes all;
  for (const auto& [device, entry] : devices_) {
    if (!entry.control) continue;
    for (const auto& [kind, ids] : entry.control->processes()) {
      auto& of_kind = all.ids[kind];
      of_kind.insert(of_kind.end(), ids.begin(), ids.end());
    }
  }
  return all;
}

// ---- from the devices ---------------------------------------------------------------------------------------------

void agent_state::idle(const message::device_idle& m) {
  if (coordinator_ && !retiring_) self_->send(coordinator_, message::device_idle{full(m.device)});
}

void agent_state::extend(const message::long_evaluation& m) {
  if (coordinator_) self_->send(coordinator_, m);
}

void agent_state::device_changed(message::device_state_changed m) {
  devices_.at(m.device).last = m;
  m.device = full(m.device);
  if (coordinator_) self_->send(coordinator_, std::move(m));
}

void agent_state::acknowledged(uint64_t lease) {
  in_flight_.erase(lease);
  if (spool_) spool_->remove(lease);
  begin_ready_baselines();
  check_retired();
}

// One at a time; after an error with the next tick.
void agent_state::send_left_results() {
  if (!coordinator_ || sending_left_ || left_.empty()) return;
  sending_left_ = true;
  const uint64_t lease = left_.begin()->first;
  ask<message::done>(
      self_, coordinator_, report_timeout, left_.begin()->second,
      [this, lease](const message::done&) {
        sending_left_ = false;
        left_.erase(lease);
        acknowledged(lease);
        send_left_results();
      },
      [this](const error& e) {
        sending_left_ = false;
        spdlog::warn("agent: an earlier result is not acknowledged yet: {}", e.message);
      });
}

// A device keeps its result, and sends it again after an error.
caf::result<message::done> agent_state::work_done(const message::work_done& m) {
  auto promise = self_->make_response_promise<message::done>();
  if (spool_ && m.has_verdict && in_flight_.contains(m.lease))
    if (const auto kept = spool_->put(m); !kept) spdlog::warn("agent: {}", kept.error().message);
  if (!coordinator_) {
    promise.deliver(to_caf(no_coordinator()));
    return promise;
  }
  reporting_[m.lease] = promise;
  const auto answer = [this, lease = m.lease, asked = epoch_](auto what) {
    const auto found = reporting_.find(lease);
    if (asked != epoch_ || found == reporting_.end()) return;
    auto waiting = std::move(found->second);
    reporting_.erase(found);
    waiting.deliver(std::move(what));
  };
  ask<message::done>(
      self_, coordinator_, report_timeout, m,
      [this, lease = m.lease, answer](const message::done&) {
        acknowledged(lease);
        answer(message::done{});
      },
      [answer](error e) { answer(to_caf(std::move(e))); });
  return promise;
}

agent_actor::behavior_type run_agent(agent_actor::stateful_pointer<agent_state> self,
                                     const std::shared_ptr<agent_setup>& setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(self, std::move(*setup));
  return {
      [&s](const message::know_task& m) { log_exceptions(s.name, [&] { s.know(m); }); },
      [&s](const message::work_item& m) { log_exceptions(s.name, [&] { s.take(m); }); },
      [&s](const message::cancel_call& m) { log_exceptions(s.name, [&] { s.cancel(m); }); },
      [&s](const message::device_held& m) { log_exceptions(s.name, [&] { s.hold(m); }); },
      [&s](const message::measure_baseline& m) { return s.measure_baseline(m); },
      [&s](const message::compile& m) { return s.compile(m); },
      [&s](const message::processes_query&) -> caf::result<message::machine_processes> { return s.processes(); },
      [&s](const message::device_idle& m) { log_exceptions(s.name, [&] { s.idle(m); }); },
      [&s](const message::long_evaluation& m) { log_exceptions(s.name, [&] { s.extend(m); }); },
      [&s](const message::device_state_changed& m) { log_exceptions(s.name, [&] { s.device_changed(m); }); },
      [&s](const message::work_done& m) { return s.work_done(m); },
      [&s](const message::best_score& m) { return s.pass_on<message::best_result>(m); },
      [&s](const message::load_variant& m) { return s.pass_on<variant_record>(m); },
      [&s](const message::load_hack_cases& m) { return s.pass_on<message::hack_cases>(m); },
      [&s](const message::retire&) { return s.retire(); },
      [&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
