#include "actors/coordinator/experiment_starter.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "actors/agent/machine_devices.hpp"
#include "actors/experiment/generator_actor.hpp"
#include "actors/experiment/learner_actor.hpp"
#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/device/accuracy.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
constexpr duration start_timeout{std::chrono::minutes(1)};

expected<void> check_not_pruned(const experiment_record& e, const char* consequence) {
  if (e.pruned_unix_ms == 0) return {};
  return fail(errc::invalid_argument, "the records of experiment {} were pruned: {}", e.id, consequence);
}

// Verdicts of two accuracies are not mixed in one experiment. Records of earlier versions do not say theirs.
expected<void> check_accuracy(const experiment_record& record, const environment& where) {
  const std::string here = enum_name(accuracy_of(where));
  if (record.accuracy.empty() || record.accuracy == here) return {};
  return fail(errc::invalid_argument,
              "its variants are held to verification.tolerance = {}, and those of this node to {}: `cudal1 stop "
              "--node`, then `cudal1 run --resume {} --set verification.tolerance={}`",
              record.accuracy, here, record.id, record.accuracy);
}

}  // namespace

void experiment_starter::start(const message::start_experiment& m, started_promise p) {
  ++starting_;
  auto begun = begin_start(m, p);
  if (begun) return;
  if (!m.may_wait || begun.error().code != errc::infrastructure) return refuse("", p, std::move(begun).error());
  waiting_[m.experiment] = {m, begun.error().message};
  --starting_;
  p.deliver(message::started{m.experiment});
  context_.start_ended();
}

expected<void> experiment_starter::begin_start(message::start_experiment m, const started_promise& p) {
  if (!m.experiment.empty()) return begin_resume(m.experiment, m.hold, p);
  auto& record = m.record;
  CUDAL1_TRY(record.device, context_.devices->choose(record.device));
  CUDAL1_TRY(const auto of_models, records_of(m));
  CUDAL1_CHECK(check_ready(of_models.front(), m.hold));
  // Before anything is created: an experiment that cannot start would be resumed by each later node.
  if (m.program.empty()) {
    CUDAL1_TRY(const policy_setup setup, policy_setup_of(record));
    CUDAL1_CHECK(make_policy(record.policy, setup));
    if (!record.replays.empty()) {
      CUDAL1_TRY(const auto replayed, context_.records->get_experiment(record.replays));
      CUDAL1_CHECK(check_not_pruned(replayed, "its prompts cannot be given again"));
    }
  }
  CUDAL1_TRY(const std::string kind, kind_of_devices(record.device));
  CUDAL1_TRY(const std::vector<task> tasks,
             read_tasks(m.tasks, traits_of(kind).profile, blobs(context_.options->data)));
  std::vector<task_record> records;
  for (const auto& t : tasks) {
    record.tasks.push_back(t.id);
    records.push_back(record_of(t));
  }
  keep_tasks(std::move(m), std::move(records), p);
  return {};
}

expected<void> experiment_starter::begin_resume(const std::string& experiment, uint64_t hold,
                                                const started_promise& p) {
  CUDAL1_TRY(experiment_record record, context_.records->get_experiment(experiment));
  CUDAL1_CHECK(check_not_pruned(record, "it cannot go on; start a new search"));
  CUDAL1_CHECK(context_.devices->choose(record.device));
  choose_model(record);
  CUDAL1_CHECK(check_ready(record, hold));
  load(experiment, {}, p);
  return {};
}

// Records that can start now come first: one of them leads.
expected<std::vector<experiment_record>> experiment_starter::records_of(const message::start_experiment& m) const {
  const auto models = context_.devices->models_of(m.record.device);
  if (models.size() > 1 && !m.program.empty())
    return fail(errc::invalid_argument,
                "{} names devices of several models ({}), and a program is measured on one: name one device",
                m.record.device, fmt::join(models, ", "));
  std::vector<experiment_record> records;
  for (const auto& model : models) {
    records.push_back(m.record);
    records.back().model = model;
  }
  std::stable_partition(records.begin(), records.end(),
                        [&](const auto& r) { return check_ready(r, m.hold).has_value(); });
  if (records.empty()) return fail(errc::infrastructure, "no device of {} can be used", m.record.device);
  return records;
}

// Records of earlier versions do not say it.
void experiment_starter::choose_model(experiment_record& record) const {
  if (record.model.empty()) record.model = context_.devices->first_of(record.device).what.model;
}

expected<std::string> experiment_starter::devices_of(const experiment_record& record) const {
  auto devices = context_.devices->of_model(record.device, record.model);
  if (devices.empty())
    return fail(errc::infrastructure, "no device of {} is of the model {}: its machine has not joined", record.device,
                record.model);
  return devices;
}

expected<void> experiment_starter::check_ready(const experiment_record& record, uint64_t hold) const {
  CUDAL1_TRY(const std::string devices, devices_of(record));
  const auto& first = context_.devices->first_of(devices);
  if (first.now != device_roster::state::ready)
    return fail(errc::infrastructure, "no device of {} is ready{}", devices,
                first.problem.message.empty() ? "" : ": " + first.problem.message);
  return context_.holds->check_free(devices, hold);
}

void experiment_starter::refuse(const std::string& id, started_promise& p, error e) {
  --starting_;
  if (!id.empty()) e.message = "experiment " + id + ": " + e.message;
  p.deliver(to_caf(std::move(e)));
  context_.start_ended();
}

void experiment_starter::keep_tasks(message::start_experiment m, std::vector<task_record> tasks, started_promise p) {
  if (tasks.empty()) return create(m, p);
  const message::keep_task first{tasks.back()};
  tasks.pop_back();
  ask<message::done>(
      context_.node, context_.store, start_timeout, first,
      [this, m = std::move(m), tasks = std::move(tasks), p](const message::done&) mutable {
        keep_tasks(std::move(m), std::move(tasks), p);
      },
      [this, p](error e) mutable { refuse("", p, std::move(e)); });
}

void experiment_starter::create(const message::start_experiment& m, started_promise p) {
  auto records = records_of(m);
  if (!records) return refuse("", p, std::move(records).error());
  for (auto& r : *records) {
    r.created_unix_ms = unix_ms();
    r.state = experiment_state::running;
    if (const auto devices = devices_of(r))
      r.accuracy = enum_name(accuracy_of(context_.devices->first_of(*devices).report.where));
    if (!m.program.empty()) r.policy = hand_policy;
  }
  ask<message::created_experiments>(
      context_.node, context_.store, start_timeout, message::create_experiments{std::move(*records)},
      [this, m, p](const message::created_experiments& created) mutable {
        const auto& lead = created.records.front();
        given_variants given;
        if (!m.program.empty()) given.push_back(hand_written_variant(lead, m.program, m.origin));
        std::vector<message::start_experiment> others;
        for (std::size_t i = 1; i < created.records.size(); ++i)
          others.emplace_back().experiment = created.records[i].id;
        resume_next(std::move(others), [this, id = lead.id, given, p]() mutable { load(id, std::move(given), p); });
      },
      [this, p](error e) mutable { refuse("", p, std::move(e)); });
}

void experiment_starter::load(const std::string& id, given_variants given, started_promise p) {
  ask<message::loaded_experiment>(
      context_.node, context_.store, start_timeout, message::load_experiment{id},
      [this, id, given = std::move(given), p](message::loaded_experiment& all) mutable {
        auto setup = prepare(std::move(all), std::move(given));
        if (!setup) return refuse(id, p, std::move(setup).error());
        add_policy(std::move(*setup), p);
      },
      [this, id, p](error e) mutable { refuse(id, p, std::move(e)); });
}

expected<experiment_setup> experiment_starter::prepare(message::loaded_experiment all, given_variants given) const {
  CUDAL1_TRY(experiment_setup s, setup_of(std::move(all), std::move(given)));
  CUDAL1_CHECK(context_.devices->choose(s.record.device));
  choose_model(s.record);
  CUDAL1_TRY(const std::string devices, devices_of(s.record));
  const auto& device = context_.devices->first_of(devices);
  const auto& options = *context_.options;
  s.store = context_.store;
  s.node = coordinator_actor(context_.node);
  s.compiler = s.node;
  s.compile_target = compile_target(device.what);
  s.where = device.report.where;
  CUDAL1_CHECK(check_accuracy(s.record, s.where));
  s.tensor_bytes = device.report.tensor_bytes;
  s.devices = static_cast<int64_t>(context_.devices->count_here(devices));
  s.in_a_row = options.settings_of(device.what.name).search.in_a_row;
  s.second_looks = options.settings_of(device.what.name).timing.second_look_factor > 0;
  s.credit = credit_for(devices);
  s.unrecorded_allowed = options.settings.replay.unrecorded_in_a_row;
  s.compile_timeout = options.compile_timeout(static_cast<int>(s.credit));
  s.end_timeout = in_ms(options.settings.search.end_timeout_s);
  if (options.settings.search.reuse_verdicts && !is_replayed(s.where)) s.reuse_class = environment_class(s.where);
  return s;
}

// One on each device, and enough in preparation that no device waits for a compiler.
int64_t experiment_starter::credit_for(const std::string& devices) const {
  const auto& device = context_.devices->first_of(devices);
  const auto& replay = context_.options->settings.replay;
  if (!traits_of(device.what.name).replays.empty() && replay.in_flight > 0) return replay.in_flight;
  const auto here = static_cast<int64_t>(context_.devices->count_here(devices));
  const int64_t compiled_ahead = traits_of(device.what.name).compiled_ahead * here;
  return here + std::clamp<int64_t>(context_.compilers->workers(), 2, std::max<int64_t>(2, compiled_ahead));
}

void experiment_starter::add_policy(experiment_setup setup, started_promise p) {
  if (setup.record.policy == hand_policy) return launch(std::move(setup), p);
  const experiment_record record = setup.record;
  start_policy(record, [this, setup = std::move(setup), p](expected<policy_handles::pair> actors) mutable {
    if (!actors) return refuse(setup.record.id, p, std::move(actors).error());
    setup.policy = std::make_shared<policy_handles>();
    setup.policy->set(std::move(*actors));
    launch(std::move(setup), p);
  });
}

void experiment_starter::start_policy(const experiment_record& record,
                                      const std::function<void(expected<policy_handles::pair>)>& started) {
  ask<message::policy_version>(
      context_.node, context_.store, start_timeout, message::load_policy{record.policy, record.id, record.fresh_policy},
      [this, record, started](const message::policy_version& state) { started(spawn_policy(record, state)); },
      [started](error e) { started(tl::unexpected<error>(std::move(e))); });
}

expected<policy_setup> experiment_starter::policy_setup_of(const experiment_record& record) const {
  policy_setup s;
  s.seed = record.seed;
  const auto& options = *context_.options;
  const auto& settings = options.settings_of(context_.devices->first_of(record.device).what.name);
  s.search = settings.search;
  s.llm = settings.llm;
  s.gates = settings.verification;
  s.models = record.models;
  s.only_kept_answers = !record.replays.empty();
  s.data = options.data;
  s.environment = options.environment;
  s.turns = options.turns;
  for (const auto& device : options.devices)
    s.measuring_devices.push_back(device.name);
  for (const auto& device : options.policy_devices)
    s.policy_devices.push_back(device.name);
  if (record.id.empty() || record.models.empty()) return s;
  CUDAL1_TRY(const auto groups, context_.records->groups_of_experiment(record.id));
  for (const auto& g : groups)
    s.spent.add(g.cost);
  return s;
}

// One policy for the generator and one for the learner, both in the stored state.
expected<policy_handles::pair> experiment_starter::spawn_policy(const experiment_record& record,
                                                                const message::policy_version& state) const {
  CUDAL1_TRY(const policy_setup setup, policy_setup_of(record));
  std::array<std::shared_ptr<std::unique_ptr<policy>>, 2> policies;
  for (auto& one : policies) {
    CUDAL1_TRY(std::unique_ptr<policy> made, make_policy(record.policy, setup));
    if (state.version > 0) CUDAL1_CHECK(made->load(state.blob, state.version));
    one = std::make_shared<std::unique_ptr<policy>>(std::move(made));
  }
  const auto& options = *context_.options;
  CUDAL1_TRY(const std::string devices, devices_of(record));
  const auto& device = context_.devices->first_of(devices);
  policy_handles::pair actors;
  actors.traits = (*policies[0])->traits();
  actors.trouble = setup.trouble;
  if (!record.replays.empty()) actors.traits.repair_rounds = 0;  // they are among the prompts that are given again
  constexpr auto spawning = caf::monitored + caf::detached;
  actors.generator = context_.node->spawn<spawning>(
      run_generator, policies[0],
      generator_setup{context_.store,
                      prompt_source(context_.records, blobs(options.data), device.report.where, record.replays,
                                    record.uses_parts ? prompt_source::parts::assembled : prompt_source::parts::unused,
                                    device.report.tensor_bytes),
                      record.policy + "/" + record.id, context_.workers});
  actors.learner = context_.node->spawn<spawning>(
      run_learner, policies[1],
      learner_setup{context_.store, actors.generator, context_.auditor_for(device.what.name), record.id,
                    state.saved_version});
  context_.watch_policy(actors.generator.id(), record.id);
  context_.watch_policy(actors.learner.id(), record.id);
  return actors;
}

void experiment_starter::launch(experiment_setup setup, started_promise p) {
  const std::string id = setup.record.id;
  if (auto launched = context_.launch(std::move(setup)); !launched) return refuse(id, p, std::move(launched).error());
  --starting_;
  p.deliver(message::started{id});
}

// ---- experiments that ran when the last node ended ----------------------------------------------------------------

// Its client was connected to the last node.
void experiment_starter::cancel_hand_written(experiment_record record) {
  record.state = experiment_state::cancelled;
  ask<message::done>(
      context_.node, context_.store, start_timeout, message::save_experiment{record}, [](const message::done&) {},
      [](const error& e) { spdlog::error("node: an experiment's end was not stored: {}", e.message); });
}

void experiment_starter::resume(done_promise p) {
  ask<message::running_experiments>(
      context_.node, context_.store, start_timeout, message::list_running{},
      [this, p](const message::running_experiments& running) mutable {
        std::vector<message::start_experiment> all;
        for (const auto& record : running.records) {
          if (record.policy == hand_policy) {
            cancel_hand_written(record);
            continue;
          }
          all.emplace_back().experiment = record.id;
        }
        resume_next(std::move(all), [p]() mutable { p.deliver(message::done{}); });
      },
      [p](error e) mutable { p.deliver(to_caf(std::move(e))); });
}

error not_running(const std::string& experiment) {
  return {
      errc::not_found,
      fmt::format("no experiment \"{}\" runs on this node; `cudal1 experiments` lists those that ended", experiment)};
}

void experiment_starter::cancel(const std::string& experiment, done_promise p) {
  waiting_.erase(experiment);
  auto refuse_it = [p](error e) mutable { p.deliver(to_caf(std::move(e))); };
  ask<message::running_experiments>(
      context_.node, context_.store, start_timeout, message::list_running{},
      [this, experiment, p, refuse_it](const message::running_experiments& running) mutable {
        const auto found = std::ranges::find(running.records, experiment, &experiment_record::id);
        if (found == running.records.end()) return refuse_it(not_running(experiment));
        experiment_record record = *found;
        record.state = experiment_state::cancelled;
        record.finished_unix_ms = unix_ms();
        ask<message::done>(
            context_.node, context_.store, start_timeout, message::save_experiment{std::move(record)},
            [p](const message::done&) mutable { p.deliver(message::done{}); }, refuse_it);
      },
      refuse_it);
}

void experiment_starter::device_ready() {
  std::vector<message::start_experiment> all;
  for (auto& [id, waiting] : std::exchange(waiting_, {}))
    all.push_back(std::move(waiting.what));
  resume_next(std::move(all), [] {});
}

std::string experiment_starter::why_waiting(const std::string& experiment) const {
  const auto found = waiting_.find(experiment);
  return found == waiting_.end() ? "" : found->second.why;
}

// One after the other. `ended` is called when all are known to this node, so that no client asks for one too early.
void experiment_starter::resume_next(std::vector<message::start_experiment> left, const std::function<void()>& ended) {
  if (left.empty()) return ended();
  const message::start_experiment m = std::move(left.back());
  left.pop_back();
  spdlog::info("node: resuming experiment {}", m.experiment);
  ask<message::started>(
      context_.node, coordinator_actor(context_.node), start_timeout, m,
      [this, left, ended](const message::started&) mutable { resume_next(std::move(left), ended); },
      [this, m, left, ended](const error& e) mutable {
        spdlog::error("node: experiment {} is not resumed yet: {}", m.experiment, e.message);
        waiting_[m.experiment] = {m, e.message};
        resume_next(std::move(left), ended);
      });
}

}  // namespace cudal1
