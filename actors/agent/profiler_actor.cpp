#include "actors/agent/profiler_actor.hpp"

namespace cudal1 {

namespace {

error forgotten(uint64_t lease) {
  return {errc::infrastructure, fmt::format("the profiler has no lease {}: it has ended or was never begun", lease)};
}
}  // namespace

message::timing_step profiler_state::step_of(const timing_decider& d) {
  message::timing_step step;
  if (d.next() != timing_decider::action::stop) {
    step.measure = true;
    step.renew = d.next() == timing_decider::action::confirm;
    step.plan = d.plan();
    step.first_fork = d.next_fork();
    return step;
  }
  step.confirmed = d.confirmed();
  const auto estimate = d.result();
  step.estimated = estimate.has_value();
  step.estimate = estimate.value_or(timing_estimate{});
  return step;
}

caf::result<message::timing_step> profiler_state::begin(const message::begin_timing& m) {
  auto promise = self->make_response_promise<message::timing_step>();
  leases.insert_or_assign(m.lease, std::nullopt);
  ask<message::best_result>(
      self, records, store_timeout, message::best_score{m.task, m.experiment, m.near_eager},
      [this, promise, lease = m.lease, by = m.scored_by,
       rules = m.second_look ? options.of_second_look() : options](const message::best_result& best) mutable {
        const auto found = leases.find(lease);
        if (found == leases.end()) {
          promise.deliver(to_caf(forgotten(lease)));
        } else {
          promise.deliver(step_of(found->second.emplace(rules, best.value, by)));
        }
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

expected<message::timing_step> profiler_state::add(const message::add_timing& m) {
  const auto found = leases.find(m.lease);
  if (found == leases.end() || !found->second) return tl::unexpected<error>(forgotten(m.lease));
  found->second->add(m.report);
  return step_of(*found->second);
}

profiler_actor::behavior_type run_profiler(profiler_actor::stateful_pointer<profiler_state> self,
                                           profiling_options options, records_actor records) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.options = options;
  s.records = std::move(records);
  return {
      [&s](const message::begin_timing& m) { return s.begin(m); },
      [&s](const message::add_timing& m) { return reply_or_error(s.name, [&] { return s.add(m); }); },
      [&s](const message::forget_timing& m) { s.leases.erase(m.lease); },
  };
}

}  // namespace cudal1
