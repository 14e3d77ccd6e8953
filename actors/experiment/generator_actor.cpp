#include "actors/experiment/generator_actor.hpp"

#include "actors/agent/machine_devices.hpp"
#include "config/base/hash.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/moves/lowering.hpp"
#include "policy/search/second_opinion.hpp"

namespace cudal1 {

namespace {

// An answer that is no program has no program id: its id is derived from its text.
std::string id_of_answer(const proposal& idea, const std::string& task) {
  const json* text = idea.trace.find("text");
  return sha256_hex(fmt::format("answer\n{}\n{}\n{}\n{}", task, idea.problem, idea.program,
                                text != nullptr && text->is_string() ? text->as_string() : ""));
}

// A schedule without a program has no program id: its id is derived from the schedule.
std::string id_of_schedule(const variant_record& v) {
  return sha256_hex("schedule\n" + v.task + "\n" + v.schedule);
}

expected<void> read_program(const std::string& text, message::proposed& into) {
  CUDAL1_TRY(auto checked, check_program_text(text));
  into.variant.id = checked.id;
  into.variant.program = print_program(checked.text);
  into.program = shared_program(std::move(checked), into.variant.program);
  return {};
}

expected<void> read_schedule(proposal& idea, const proposal_context& c, message::proposed& into) {
  auto& v = into.variant;
  v.schedule = print_schedule(idea.plan);
  CUDAL1_TRY(const lowering_target* target, lowering_target_of(c.device));
  auto code = idea.lowering ? check_lowered(std::move(*idea.lowering)) : lower(*c.what, idea.plan, *target);
  if (!code) {
    v.id = id_of_schedule(v);
    into.problem = std::move(code).error().message;
    return {};
  }
  v.explanation = std::move(code->explanation);
  for (const auto& line : code->certificates)
    v.explanation.push_back("proof: " + line);
  const auto checked = c.proofs->of(*c.what, idea.plan, *target, code->certificates);
  if (auto right = refuse_wrong_proofs(checked); !right) {
    v.id = id_of_schedule(v);
    into.problem = std::move(right).error().message;
    return {};
  }
  if (!checked.empty()) v.explanation.push_back("proof check: " + print_checked(checked));
  v.program = print_program(code->checked.text);
  v.id = code->checked.id;
  into.program = shared_program(std::move(code->checked), v.program);
  return {};
}

}  // namespace

expected<message::proposed> read_proposal(proposal idea, const proposal_context& c) {
  message::proposed result;
  auto& v = result.variant;
  v.task = c.what->id;
  v.origin = "policy " + c.policy;
  v.policy_version = c.policy_version;
  v.experiment = c.group.experiment;
  v.island = c.group.island;
  v.group = c.group.id;
  v.model = c.group.model;
  v.repairs = c.group.repairs;
  v.time_unix_ms = unix_ms();
  result.cost = idea.cost.value_or(answer_cost{});
  if (!idea.problem.empty()) {
    v.id = id_of_answer(idea, v.task);
    v.program = std::move(idea.program);
    result.problem = std::move(idea.problem);
  } else if (!idea.program.empty()) {
    CUDAL1_CHECK(read_program(idea.program, result));
  } else {
    CUDAL1_CHECK(read_schedule(idea, c, result));
  }
  v.parents = std::move(idea.parents);
  v.analysis = std::move(idea.analysis);
  if (v.analysis.empty()) v.analysis = c.analysis;
  v.log_probability = idea.log_probability;
  v.trace = std::move(idea.trace);
  return result;
}

void proposal_replies::expect_more() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

void proposal_replies::send(message::proposed m) {
  const std::lock_guard lock(mutex_);
  m.last = --open_ == 0;
  if (!*ended_) caf::anon_send(asker_, std::move(m));
}

caf::result<message::ticket> generator_state::propose(const message::propose& m) {
  // First, since a promise takes the sender over.
  const auto asker = caf::actor_cast<experiment_actor>(self->current_sender());
  auto promise = self->make_response_promise<message::ticket>();
  auto p = exceptions_as_errors(name, [&] { return prompts->make(m, *writer); });
  if (!p) {
    promise.deliver(to_caf(std::move(p).error()));
    return promise;
  }
  p->group.lineage = lineage;
  const bool is_stored = !p->group.id.empty();
  asked a{std::make_shared<proposal_replies>(asker, ended),
          m.count,
          {m.what, m.device, writer->name(), writer->version(), std::move(p->group), proofs, std::move(p->analysis)}};
  if (is_stored || !writer->traits().keeps_groups)
    ask_policy(std::move(p->what), std::move(a), promise);
  else
    store_group(std::move(p->what), std::move(a), promise);
  return promise;
}

void generator_state::store_group(prompt p, asked a, ticket_promise promise) {
  const message::put_group question{a.context.group};
  ask<group_record>(
      self, store, store_timeout, question,
      [this, p = std::move(p), a = std::move(a), promise](const group_record& stored) mutable {
        a.context.group = stored;
        ask_policy(std::move(p), std::move(a), promise);
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
}

// The experiment gets the ticket before its proposals: those that are delivered now wait in the queue.
void generator_state::ask_policy(prompt p, asked a, ticket_promise& promise) {
  const ticket t = writer->propose(std::move(p), a.count);
  promise.deliver(message::ticket{t, a.context.group});
  open.emplace(t, std::move(a));
}

void generator_state::cancel(const message::cancel_ticket& m) {
  if (open.erase(m.number) > 0) writer->cancel(m.number);
}

void generator_state::send_delivered() {
  for (const auto& d : delivered->take()) {
    if (const auto found = opinions.find(d.to); found != opinions.end()) {
      asked_opinion a = std::move(found->second);
      opinions.erase(found);
      keep_opinion(std::move(a), d);
    } else {
      pass_on(d.to, d);
    }
  }
}

void generator_state::pass_on(ticket number, delivery d) {
  const auto found = open.find(number);
  if (found == open.end()) return;  // it was cancelled
  const auto replies = found->second.replies;
  if (!d.last) replies->expect_more();
  // The policy must live until the proposal has been read.
  workers->post([number, read = std::move(d.read), kept = writer, context = found->second.context, replies] {
    message::proposed m;
    auto made = exceptions_as_errors(name, [&]() -> expected<message::proposed> {
      CUDAL1_TRY(auto idea, read());
      return read_proposal(std::move(idea), context);
    });
    if (made) {
      m = std::move(*made);
    } else {
      m.none = std::move(made.error().message);
      m.code = made.error().code;
    }
    m.ticket = number;
    replies->send(std::move(m));
  });
  if (d.last) open.erase(found);
}

caf::result<answer_cost> generator_state::give_opinion(const message::give_opinion& m) {
  auto promise = self->make_response_promise<answer_cost>();
  if (!writer->traits().gives_opinions) {
    promise.deliver(to_caf({errc::unsupported, "policy " + writer->name() + " gives no opinions"}));
    return promise;
  }
  opinion_record o;
  o.variant = m.variant.id;
  o.task = m.what->id;
  o.experiment = m.variant.experiment;
  o.attempt = m.result.attempt;
  o.suspicion = m.result.suspicion;
  o.model = writer->traits().models.front();
  opinions.emplace(writer->give_opinion(m.what.value, {m.variant, m.result, 1}), asked_opinion{std::move(o), promise});
  return promise;
}

void generator_state::keep_opinion(asked_opinion a, const delivery& d) {
  auto given = exceptions_as_errors(name, [&] { return d.read(); });
  if (!given) return static_cast<void>(a.promise.deliver(to_caf(std::move(given).error())));
  auto read = read_opinion(given->analysis);
  a.opinion.rating = read.rating;
  a.opinion.reasons = std::move(read.reasons);
  a.opinion.cost = given->cost.value_or(answer_cost{});
  a.opinion.time_unix_ms = unix_ms();
  ask<message::done>(
      self, store, store_timeout, message::put_opinion{a.opinion},
      [promise = a.promise, cost = a.opinion.cost](const message::done&) mutable { promise.deliver(cost); },
      [promise = a.promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
}

void generator_state::take_version(const message::policy_version& m) {
  if (m.version <= writer->version()) return;
  if (auto taken = writer->load(m.blob, m.version); !taken)
    spdlog::error("generator: version {} of policy {} cannot be loaded: {}", m.version, writer->name(),
                  taken.error().message);
}

generator_actor::behavior_type run_generator(generator_actor::stateful_pointer<generator_state> self,
                                             const std::shared_ptr<std::unique_ptr<policy>>& writer,
                                             generator_setup setup) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  static_cast<generator_setup&>(s) = std::move(setup);
  s.writer = std::move(*writer);
  // A policy's threads may deliver while this actor ends: the message then has no receiver.
  s.delivered = std::make_shared<delivery_queue>([to = caf::actor_cast<caf::weak_actor_ptr>(generator_actor(self))] {
    if (const auto alive = caf::actor_cast<generator_actor>(to)) caf::anon_send(alive, message::policy_delivered{});
  });
  s.writer->connect([queue = s.delivered](delivery d) { queue->add(std::move(d)); });
  return {
      [&s](const message::propose& m) { return s.propose(m); },
      [&s](const message::give_opinion& m) { return s.give_opinion(m); },
      [&s](const message::cancel_ticket& m) { log_exceptions(s.name, [&] { s.cancel(m); }); },
      [&s](const message::policy_delivered&) { log_exceptions(s.name, [&] { s.send_delivered(); }); },
      [&s](const message::policy_version& m) { log_exceptions(s.name, [&] { s.take_version(m); }); },
  };
}

}  // namespace cudal1
