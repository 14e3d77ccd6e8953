#include "actors/generator_actor.hpp"

#include "actors/machine_devices.hpp"
#include "config/base/hash.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/moves/lowering.hpp"

namespace cudal1 {

namespace {

constexpr duration store_timeout{std::chrono::seconds(30)};

std::vector<exemplar> read_exemplars(const std::vector<message::stored_exemplar>& stored) {
  std::vector<exemplar> result;
  for (const auto& e : stored) {
    if (e.schedule.empty()) continue;  // hand-written: there is no schedule to build on
    auto plan = parse_schedule(e.schedule);
    if (!plan) {
      spdlog::warn("generator: the schedule of variant {} cannot be read: {}", e.variant, plan.error().message);
      continue;
    }
    result.push_back({std::move(*plan), e.variant, outcome::correct, e.score});
  }
  return result;
}

}  // namespace

expected<message::proposed> propose_variant(policy& writer, proposal_context c) {
  prompt p;
  p.what = &*c.what;
  CUDAL1_TRY(p.target, lowering_target_of(c.device));
  p.exemplars = read_exemplars(c.exemplars);
  p.is_tried = std::move(c.is_tried);
  p.seed = c.seed;
  CUDAL1_TRY(proposal idea, writer.propose(p));

  message::proposed result;
  auto& v = result.variant;
  v.task = c.what->id;
  v.schedule = print_schedule(idea.plan);
  v.origin = "policy " + writer.name();
  v.policy_version = writer.version();
  v.parents = std::move(idea.parents);
  v.experiment = c.experiment;
  v.trace = std::move(idea.trace);
  v.time_unix_ms = unix_ms();

  auto code = lower(*c.what, idea.plan, *p.target);
  if (!code) {
    // No program, so no program id: the id is derived from the schedule.
    v.id = sha256_hex("schedule\n" + v.task + "\n" + v.schedule);
    result.problem = std::move(code).error().message;
    return result;
  }
  v.explanation = std::move(code->explanation);
  for (auto& line : code->certificates)
    v.explanation.push_back("proof: " + line);
  v.program = print_program(code->checked.text);
  v.id = code->checked.id;
  result.program = shared_program(std::move(code->checked));
  return result;
}

caf::result<message::proposed> generator_state::propose(const message::propose& m) {
  auto promise = self->make_response_promise<message::proposed>();
  ask<message::exemplars>(
      self, store, store_timeout, message::draw_exemplars{m.what->id, m.experiment, exemplars},
      [this, promise, m](message::exemplars& drawn) mutable {
        auto result = reply_or_error(name, [&] {
          return propose_variant(*writer, {m.what, m.experiment, m.device, std::move(drawn.items),
                                           [&](const std::string& id) { return is_tried(m, id); }, m.seed});
        });
        if (result.flag == caf::rt_value) {
          promise.deliver(std::move(result.value.get_mutable_as<message::proposed>(0)));
        } else {
          promise.deliver(std::move(result.err));
        }
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

bool generator_state::is_tried(const message::propose& m, const std::string& variant) const {
  const auto found = records->has_attempt(m.experiment, m.what->id, variant);
  // Reserving an attempt repeats the query, and returns the error.
  if (!found) spdlog::error("generator: {}", found.error().message);
  return found.value_or(false);
}

void generator_state::take_version(const message::policy_version& m) {
  if (m.version <= writer->version()) return;
  if (auto taken = writer->load(m.blob, m.version); !taken)
    spdlog::error("generator: version {} of policy {} cannot be loaded: {}", m.version, writer->name(),
                  taken.error().message);
}

generator_actor::behavior_type run_generator(generator_actor::stateful_pointer<generator_state> self,
                                             const std::shared_ptr<std::unique_ptr<policy>>& writer, store_actor store,
                                             std::shared_ptr<cudal1::store> records, int64_t exemplars) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.writer = std::move(*writer);
  s.store = std::move(store);
  s.records = std::move(records);
  s.exemplars = exemplars;
  return {
      [&s](const message::propose& m) { return s.propose(m); },
      [&s](const message::policy_version& m) { log_exceptions(s.name, [&] { s.take_version(m); }); },
  };
}

}  // namespace cudal1
