// The node's side of experiments: start, go on, ask, stop, forget.
#include <algorithm>

#include <fmt/ranges.h>

#include "actors/generator_actor.hpp"
#include "actors/learner_actor.hpp"
#include "actors/node_actor.hpp"
#include "config/base/hash.hpp"
#include "config/base/wall_clock.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {

constexpr limit store_patience{std::chrono::minutes(1)};
constexpr limit answer_patience{std::chrono::seconds(10)};

// A program may stand for a task only if it takes what the task gives and gives what the task asks for.
expected<void> check_fits(const task& t, const checked_program& p) {
  const program& wanted = t.reference.text;
  if (p.text.inputs != wanted.inputs)
    return fail(errc::invalid_program, "inputs: they are not those of task {} (same names, order, dtypes and shapes)",
                t.name);
  if (p.text.weights != wanted.weights)
    return fail(errc::invalid_program, "weights: they are not those of task {} (same names, order, dtypes and shapes)",
                t.name);
  if (p.text.outputs.size() != wanted.outputs.size())
    return fail(errc::invalid_program, "outputs: there are {}, and task {} has {}", p.text.outputs.size(), t.name,
                wanted.outputs.size());
  for (std::size_t i = 0; i < wanted.outputs.size(); ++i) {
    const auto& got = p.types.at(p.text.outputs[i]);
    const auto& asked = t.reference.types.at(wanted.outputs[i]);
    if (got.type != asked.type || got.shape != asked.shape)
      return fail(errc::invalid_program, "outputs[{}] ({}): it is {}, and task {} wants {}", i, p.text.outputs[i],
                  got.text(), t.name, asked.text());
  }
  return {};
}

given_variant read_given(const task& t, variant_record v) {
  given_variant g;
  g.variant = std::move(v);
  auto checked = check_program_text(g.variant.program);
  auto fits = checked ? check_fits(t, *checked) : expected<void>(tl::unexpected<error>(checked.error()));
  if (g.variant.id.empty()) g.variant.id = checked ? checked->id : sha256_hex(g.variant.program);
  if (!fits) {
    g.problem = fits.error().message;
  } else {
    g.program = shared_program(std::move(*checked));
  }
  return g;
}

// The bytes are the device's to check.
expected<void> check_blobs(const task& t, const blobs& kept) {
  for (const auto& file : t.content_files())
    if (!kept.has(file))
      return fail(errc::not_found, "the weights of {}: there is no blob {} in {}; `cudal1 tasks import` makes it again",
                  t.name, file, kept.folder());
  return {};
}

}  // namespace

task_record record_of(const task& t) {
  return {t.id, t.name, t.summary, t.family, t.profile, canonical_text(t)};
}

caf::result<message::started> node_state::start(const message::start_experiment& m) {
  auto promise = self_->make_response_promise<message::started>();
  ++starting_;
  if (auto begun = begin_start(m, promise); !begun) refuse("", promise, std::move(begun).error());
  return promise;
}

expected<void> node_state::begin_start(message::start_experiment m, started_promise p) {
  auto& record = m.record;
  if (ending_) return fail(errc::cancelled, "the node is ending");
  CUDAL1_TRY(record.device, choose_devices(record.device));
  CUDAL1_CHECK(check_not_held(record.device, m.hold));
  if (!m.experiment.empty()) {
    const auto known = experiments_.find(m.experiment);
    if (known == experiments_.end() || !known->second.actor) {
      load(m.experiment, {}, p);
    } else {  // it runs already
      --starting_;
      p.deliver(message::started{m.experiment});
    }
    return {};
  }
  std::vector<task_record> tasks;
  for (const auto& text : m.tasks) {
    CUDAL1_TRY(const std::string kind, kind_of_devices(record.device));
    CUDAL1_TRY(const task t, read_task(text, kind));
    if (std::find(record.tasks.begin(), record.tasks.end(), t.id) != record.tasks.end()) continue;
    CUDAL1_CHECK(check_blobs(t, blobs(setup_.options.data)));
    record.tasks.push_back(t.id);
    tasks.push_back(record_of(t));
  }
  if (tasks.empty()) return fail(errc::invalid_argument, "an experiment needs a task");
  keep_tasks(std::move(m), std::move(tasks), p);
  return {};
}

// The devices that an experiment means, by name: each is there, they are of one model, and one may be used. "" is the
// first that may.
expected<std::string> node_state::choose_devices(const std::string& wanted) const {
  if (!wanted.empty()) CUDAL1_CHECK(kind_of_devices(wanted));
  std::vector<std::string> here, chosen;
  std::string problems;
  const device_entry* first = nullptr;
  for (const auto& [name, device] : devices_) {
    here.push_back(name);
    if (wanted.empty() ? !chosen.empty() || device.given_up : !names_device(wanted, name)) continue;
    chosen.push_back(name);
    if (first == nullptr) first = &device;
    if (device.what.architecture != first->what.architecture || device.what.model != first->what.model)
      return fail(errc::invalid_argument,
                  "{} and {} are of two models ({} and {}), and their times cannot be compared: name one kind",
                  chosen.front(), name, first->what.model, device.what.model);
    if (device.given_up)
      problems += fmt::format("{}device {} cannot be used: {}", problems.empty() ? "" : "; ", name, device.problem);
  }
  if (!wanted.empty()) {
    CUDAL1_TRY(const auto names, read_device_list(wanted));
    for (const auto& name : names)
      if (std::none_of(chosen.begin(), chosen.end(), [&](const auto& c) { return names_device(name, c); }))
        return fail(errc::invalid_argument, "this node has no device {}; it has {}", name, fmt::join(here, ", "));
  }
  const auto list = fmt::format("{}", fmt::join(chosen, ","));
  if (chosen.empty())
    return fail(errc::infrastructure, "this node has no device that can be used; `cudal1 doctor` says why");
  if (!any_usable(list)) return fail(errc::infrastructure, "{}", problems);
  return list;
}

void node_state::refuse(const std::string& id, started_promise& p, error e) {
  --starting_;
  if (!id.empty()) e.message = "experiment " + id + ": " + e.message;
  p.deliver(to_caf(std::move(e)));
  check_drained();
}

void node_state::keep_tasks(message::start_experiment m, std::vector<task_record> tasks, started_promise p) {
  if (tasks.empty()) return create(std::move(m), p);
  const message::keep_task first{tasks.back()};
  tasks.pop_back();
  ask<message::done>(
      self_, store_, store_patience, first,
      [this, m = std::move(m), tasks = std::move(tasks), p](const message::done&) mutable {
        keep_tasks(std::move(m), std::move(tasks), p);
      },
      [this, p](error e) mutable { refuse("", p, std::move(e)); });
}

void node_state::create(message::start_experiment m, started_promise p) {
  m.record.created_unix_ms = unix_ms();
  m.record.state = experiment_state::running;
  if (!m.program.empty()) m.record.policy = hand_policy;
  ask<experiment_record>(
      self_, store_, store_patience, message::create_experiment{m.record},
      [this, m, p](const experiment_record& created) mutable {
        given_variants given;
        if (!m.program.empty()) {
          variant_record v;
          v.task = created.tasks.front();
          v.program = m.program;
          v.origin = m.origin.empty() ? "hand" : m.origin;
          v.experiment = created.id;
          v.time_unix_ms = created.created_unix_ms;
          given.push_back({std::move(v), {}, ""});
        }
        load(created.id, std::move(given), p);
      },
      [this, p](error e) mutable { refuse("", p, std::move(e)); });
}

void node_state::load(const std::string& id, given_variants given, started_promise p) {
  ask<message::loaded_experiment>(
      self_, store_, store_patience, message::load_experiment{id},
      [this, id, given = std::move(given), p](message::loaded_experiment& all) mutable {
        auto setup = prepare_setup(std::move(all), std::move(given));
        if (!setup) return refuse(id, p, std::move(setup).error());
        add_policy(std::move(*setup), p);
      },
      [this, id, p](error e) mutable { refuse(id, p, std::move(e)); });
}

expected<experiment_setup> node_state::prepare_setup(message::loaded_experiment all, given_variants given) const {
  experiment_setup s;
  s.record = std::move(all.record);
  CUDAL1_CHECK(choose_devices(s.record.device));
  s.record.state = experiment_state::running;
  s.record.finished_unix_ms = 0;
  s.verdicts = std::move(all.verdicts);
  for (const auto& a : all.attempts)
    s.faults += a.state == attempt_state::lost ? 1 : 0;
  for (const auto& t : all.tasks) {
    CUDAL1_TRY(task read, read_task(t.text, t.profile));
    s.tasks.emplace_back(std::move(read));
  }
  for (auto& v : all.unfinished)
    given.push_back({std::move(v), {}, ""});
  for (auto& g : given) {
    const auto t = std::find_if(s.tasks.begin(), s.tasks.end(), [&](const auto& x) { return x->id == g.variant.task; });
    if (t != s.tasks.end()) s.given.push_back(read_given(**t, std::move(g.variant)));
  }
  s.store = store_;
  s.node = node_actor(self_);
  s.devices = 0;
  int compiled_ahead = 0;
  for (const auto& [name, device] : devices_) {
    if (!names_device(s.record.device, name)) continue;
    ++s.devices;
    compiled_ahead += traits_of(name).compiled_ahead;
    s.in_a_row = settings_of(name).search.in_a_row;
    s.compiler = compilers_.at(device.what.architecture);
    if (s.where.id.empty()) s.where = device.report.where;
  }
  // One on each device, and as many that get ready as keep the devices from waiting for a compiler.
  const int ready = std::clamp(setup_.options.compile_workers, 2, std::max(2, compiled_ahead));
  s.credit = static_cast<int>(s.devices) + ready;
  const auto& c = setup_.options.settings.compiler;
  s.compile_patience = std::chrono::milliseconds(static_cast<int64_t>(c.time_limit_s * 1000) + 10'000) * (s.credit + 1);
  return s;
}

void node_state::add_policy(experiment_setup setup, started_promise p) {
  if (setup.record.policy == hand_policy) return launch(std::move(setup), p);
  const std::string name = setup.record.policy;
  auto go_on = [this, setup = std::move(setup), p](const message::policy_version& state) mutable {
    const std::string id = setup.record.id;
    auto ready = spawn_policy(setup, state);
    return ready ? launch(std::move(setup), p) : refuse(id, p, std::move(ready).error());
  };
  ask<message::policy_version>(self_, store_, store_patience, message::load_policy{name}, go_on,
                               [this, go_on, p](error e) mutable {
                                 if (e.code == errc::not_found) return go_on({});  // it has learned nothing yet
                                 refuse("", p, std::move(e));
                               });
}

// A mind for the generator and one for the learner, both as the store has it.
expected<void> node_state::spawn_policy(experiment_setup& setup, const message::policy_version& state) {
  std::shared_ptr<std::unique_ptr<policy>> minds[2];
  for (auto& mind : minds) {
    CUDAL1_TRY(std::unique_ptr<policy> made, make_policy(setup.record.policy, setup.record.seed));
    if (state.version > 0) CUDAL1_CHECK(made->load(state.blob, state.version));
    mind = std::make_shared<std::unique_ptr<policy>>(std::move(made));
  }
  const auto& search = setup_.options.settings.search;
  setup.generator = self_->spawn<caf::detached>(run_generator, minds[0], store_, search.exemplars);
  setup.learner = self_->spawn<caf::detached>(run_learner, minds[1], store_, setup.generator,
                                              static_cast<std::size_t>(search.group_size));
  return {};
}

void node_state::launch(experiment_setup setup, started_promise p) {
  const std::string id = setup.record.id;
  if (ending_) return refuse(id, p, {errc::cancelled, "the node is ending"});
  auto& entry = experiments_[id];
  entry.last.reset();
  entry.generator = setup.generator;
  entry.learner = setup.learner;
  entry.device = setup.record.device;
  spdlog::info("experiment {}: {} tasks, policy {}, {} verdicts so far, {} to do again", id, setup.tasks.size(),
               setup.record.policy, setup.verdicts.size(), setup.given.size());
  entry.actor = self_->spawn<caf::monitored>(run_experiment, std::make_shared<experiment_setup>(std::move(setup)));
  --starting_;
  p.deliver(message::started{id});
}

// Its client has gone with the last node.
void node_state::cancel_by_hand(experiment_record record) {
  record.state = experiment_state::cancelled;
  ask<message::done>(
      self_, store_, store_patience, message::save_experiment{record}, [](const message::done&) {},
      [](const error& e) { spdlog::error("node: an experiment's end was not kept: {}", e.message); });
}

caf::result<message::done> node_state::resume() {
  auto promise = self_->make_response_promise<message::done>();
  ask<message::running_experiments>(
      self_, store_, store_patience, message::list_running{},
      [this, promise](const message::running_experiments& running) mutable {
        std::vector<message::start_experiment> all;
        for (const auto& record : running.records) {
          if (record.policy == hand_policy) {
            cancel_by_hand(record);
            continue;
          }
          all.push_back({});
          all.back().experiment = record.id;
          all.back().record.device = record.device;
        }
        resume_next(std::move(all), promise);
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

// One after the other; the answer is given when all are known to this node, so that no client asks for one too early.
void node_state::resume_next(std::vector<message::start_experiment> left, done_promise p) {
  if (left.empty()) return p.deliver(message::done{}), void();
  const message::start_experiment m = std::move(left.back());
  left.pop_back();
  spdlog::info("node: going on with experiment {}", m.experiment);
  ask<message::started>(
      self_, node_actor(self_), store_patience, m,
      [this, left, p](const message::started&) mutable { resume_next(std::move(left), p); },
      [this, left, p](const error& e) mutable {
        spdlog::error("node: an experiment cannot go on: {}", e.message);
        resume_next(std::move(left), p);
      });
}

caf::result<message::progress_answer> node_state::progress(const message::progress_query& m) {
  auto promise = self_->make_response_promise<message::progress_answer>();
  const auto found = experiments_.find(m.experiment);
  if (found == experiments_.end()) {
    promise.deliver(to_caf({errc::not_found, fmt::format("no experiment \"{}\" runs on this node", m.experiment)}));
  } else if (const auto& last = found->second.last) {
    promise.deliver(message::progress_answer{last->last, true, last->problem});
  } else {
    ask<experiment_progress>(
        self_, found->second.actor, answer_patience, m,
        [promise](experiment_progress& now) mutable {
          promise.deliver(message::progress_answer{std::move(now), false, ""});
        },
        [this, id = m.experiment, promise](error e) mutable {
          // It may have ended meanwhile: what it said last came before this answer.
          if (const auto& end = experiments_[id].last) {
            promise.deliver(message::progress_answer{end->last, true, end->problem});
          } else {
            promise.deliver(to_caf(std::move(e)));
          }
        });
  }
  return promise;
}

caf::result<message::done> node_state::stop(const message::stop_experiment& m) {
  auto promise = self_->make_response_promise<message::done>();
  const auto found = experiments_.find(m.experiment);
  if (found == experiments_.end()) {
    promise.deliver(to_caf({errc::not_found, fmt::format("no experiment \"{}\" runs on this node", m.experiment)}));
  } else if (!found->second.actor) {
    promise.deliver(message::done{});
  } else {
    ask<message::done>(
        self_, found->second.actor, answer_patience, m,
        [promise](const message::done&) mutable { promise.deliver(message::done{}); },
        [this, id = m.experiment, promise](error e) mutable {
          if (experiments_[id].last) {
            promise.deliver(message::done{});
          } else {
            promise.deliver(to_caf(std::move(e)));
          }
        });
  }
  return promise;
}

void node_state::experiment_ended(const message::experiment_ended& m) {
  spdlog::info("experiment {}: {}, {} evaluations in {:.1f} s{}{}", m.last.experiment, m.last.state, m.last.evaluations,
               m.last.active_s, m.problem.empty() ? "" : ": ", m.problem);
  forget_experiment(m.last.experiment, m);
}

void node_state::forget_experiment(const std::string& id, message::experiment_ended last) {
  auto& entry = experiments_[id];
  entry.last = std::move(last);
  entry.actor = nullptr;
  if (entry.generator) self_->send_exit(entry.generator, caf::exit_reason::user_shutdown);
  if (entry.learner) self_->send_exit(entry.learner, caf::exit_reason::user_shutdown);
  entry.generator = nullptr;
  entry.learner = nullptr;
  queue_->withdraw(id);
  check_drained();
}

}  // namespace cudal1
