#include "actors/agent/verifier_actor.hpp"

#include <utility>

#include "sandbox/verify/verifier.hpp"

namespace cudal1 {

expected<check_plan> verifier_state::plan(const message::plan_verification& m) const {
  return plan_check(*m.what, options);
}

expected<message::judged> verifier_state::judge(const message::judge_report& m) const {
  judgement j = cudal1::judge(*m.what, m.plan, m.report, options);
  return message::judged{j.result, std::move(j.reason), std::move(j.gates), std::move(j.ill_conditioned), j.near_eager};
}

verifier_actor::behavior_type run_verifier(verifier_actor::stateful_pointer<verifier_state> self,
                                           verification_options options) {
  prepare(self);
  auto& s = self->state;
  s.options = std::move(options);
  return {
      [&s](const message::plan_verification& m) { return reply_or_error(s.name, [&] { return s.plan(m); }); },
      [&s](const message::judge_report& m) { return reply_or_error(s.name, [&] { return s.judge(m); }); },
  };
}

}  // namespace cudal1
