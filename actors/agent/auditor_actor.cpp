#include "actors/agent/auditor_actor.hpp"

#include <spdlog/spdlog.h>

#include "config/base/describe.hpp"
#include "sandbox/verify/auditor.hpp"
#include "sandbox/verify/roofline.hpp"

namespace cudal1 {

namespace {

// A hack is compared with what is written after it was refused, which takes longer.
constexpr std::chrono::seconds refreshed_every{1};

reward_record record_of(const message::reward_group& m, const paid_group& paid) {
  reward_record r;
  r.group = m.group;
  r.experiment = m.experiment;
  r.task = m.task;
  for (const auto& p : paid.members) {
    r.variants.push_back(p.variant);
    r.attempts.push_back(p.attempt);
    r.scores.push_back(p.score);
    r.rewards.push_back(p.reward);
  }
  r.rule = to_text(paid.rules);
  r.mean = paid.mean;
  r.deviation = paid.deviation;
  r.floor = paid.floor;
  r.policy_version = m.policy_version;
  return r;
}

}  // namespace

const expected<std::optional<device_data>>& auditor_state::data_of(const std::string& model) {
  const auto known = devices.find(model);
  if (known != devices.end()) return known->second;
  auto found = find_device_data(model);
  if (!found) spdlog::error("the specifications of {} cannot be read: {}", model, found.error().message);
  return devices.emplace(model, std::move(found)).first->second;
}

expected<verdict> auditor_state::judge(const message::audit& m) {
  audit_options rules;
  rules.asked_pairs = static_cast<int>(m.asked_pairs);
  rules.confirmed = m.claim.confirmed;
  if (m.program) rules.variant_steps = static_cast<int64_t>(m.program->text.steps.size());
  rules.confirmed_limit = largest_confirmed_half_width(setup.timing);
  rules.screened_limit = setup.timing.screened_limit;
  if (const auto& data = data_of(m.model); !data)
    rules.unknown_device = data.error().message;
  else if (rules.device = *data; !rules.device)
    rules.unknown_device = "the specifications of " + m.model + " are not known";
  audit_report report = cudal1::audit(*m.what, m.checked, m.timed, m.estimate, rules);
  verdict v = m.claim;
  v.suspicion = report.suspicion;
  if (rules.device) v.floor_us = roofline_of(work_of(*m.what), *rules.device).call_us();
  for (auto& rule : report.evidence)
    v.gates.push_back(std::move(rule));
  if (report.accepted) return v;
  v.result = report.result;
  v.reason = std::move(report.reason);
  v.score = 0;
  v.confirmed = false;
  return v;
}

template <class Then, class Else>
void auditor_state::with_hack_cases(Then then, Else otherwise) {
  const auto now = std::chrono::steady_clock::now();
  if (refreshed && now - *refreshed < refreshed_every) return then();
  ask<message::hack_cases>(
      self, setup.records, store_timeout,
      message::load_hack_cases{hacks.last(), static_cast<int64_t>(hack_index::most_cases)},
      [this, now, then](const message::hack_cases& newer) mutable {
        refreshed = now;
        hacks.add(newer.items);
        then();
      },
      std::move(otherwise));
}

caf::result<verdict> auditor_state::audit(const message::audit& m) {
  auto promise = self->make_response_promise<verdict>();
  auto judged = exceptions_as_errors(name, [&] { return judge(m); });
  if (!judged) {
    promise.deliver(to_caf(std::move(judged).error()));
  } else if (judged->result != outcome::correct || !m.program || m.program->text.source.empty()) {
    promise.deliver(std::move(*judged));
  } else {
    with_hack_cases([this, promise, m, v = std::move(*judged)] { answer_with_likeness(v, m, promise); },
                    [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  }
  return promise;
}

void auditor_state::answer_with_likeness(verdict v, const message::audit& m,
                                         caf::typed_response_promise<verdict> promise) {
  const std::string likeness = hacks.likeness_of(m.program->text, setup.hack_similarity);
  if (likeness.empty()) {
    promise.deliver(std::move(v));
    return;
  }
  ask<variant_record>(
      self, setup.records, store_timeout, message::load_variant{v.variant},
      [promise, likeness, v](const variant_record& written) mutable {
        if (written.schedule.empty()) v.suspicion += (v.suspicion.empty() ? "" : "; ") + likeness;
        promise.deliver(std::move(v));
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
}

expected<message::rewards> auditor_state::pay(const message::reward_group& m) const {
  message::rewards out;
  CUDAL1_TRY(out.paid, pay_group(m.members, setup.reward));
  out.record = record_of(m, out.paid);
  return out;
}

auditor_actor::behavior_type run_auditor(auditor_actor::stateful_pointer<auditor_state> self, auditor_setup setup) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.setup = std::move(setup);
  return {
      [&s](const message::audit& m) { return s.audit(m); },
      [&s](const message::reward_group& m) { return reply_or_error(s.name, [&] { return s.pay(m); }); },
  };
}

}  // namespace cudal1
