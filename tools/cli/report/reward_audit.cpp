#include "tools/cli/report/reward_audit.hpp"

#include <algorithm>
#include <cmath>

#include "config/base/describe.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

// An experiment has at most one verdict of a variant. Without one, the variant is a member without a score: its
// evaluation was lost, or is still in flight.
expected<reward_member> member_of(store& s, const std::string& experiment, const std::string& task,
                                  const std::string& variant) {
  CUDAL1_TRY(const auto verdicts, s.verdicts_in_experiment(experiment, task, variant));
  if (!verdicts.empty()) return reward_member_of(verdicts.back());
  reward_member m;
  m.variant = variant;
  m.attempt = 0;
  m.doubt = "it has no verdict in " + experiment;
  return m;
}

expected<paid_group> pay_again(store& s, const reward_record& which, const reward_options& rules) {
  std::vector<reward_member> members;
  for (const auto& variant : which.variants) {
    CUDAL1_TRY(auto m, member_of(s, which.experiment, which.task, variant));
    members.push_back(std::move(m));
  }
  return pay_group(members, rules);
}

bool are_equal(double a, double b) {
  constexpr double same = 1e-9;  // the same functions of the same numbers
  return std::abs(a - b) <= same * std::max(1.0, std::abs(a));
}

std::vector<std::string> differences_of(const reward_record& stored, const paid_group& again) {
  std::vector<std::string> out;
  const auto compare = [&](const std::string& what, const char* which, double was, double is) {
    if (!are_equal(was, is))
      out.push_back(fmt::format("{}: the {} was {:.6g}, but its samples give {:.6g}", what, which, was, is));
  };
  for (std::size_t i = 0; i < again.members.size(); ++i) {
    const std::string who = "variant " + short_id(stored.variants[i]);
    compare(who, "score", stored.scores[i], again.members[i].score);
    compare(who, "reward", stored.rewards[i], again.members[i].reward);
  }
  compare("the group", "mean", stored.mean, again.mean);
  compare("the group", "deviation", stored.deviation, again.deviation);
  compare("the group", "floor", stored.floor, again.floor);
  return out;
}

expected<reward_audit> audit_record(store& s, const reward_record& stored) {
  reward_audit a{stored.group, stored.experiment, stored.task, reward_finding::recomputed, {}, {}};
  const auto rules = from_text<reward_options>(stored.rule);
  if (!rules)
    return fail(errc::corrupt, "the rules of the rewards of group {} cannot be read: {}", stored.group,
                rules.error().message);
  CUDAL1_TRY(a.again, pay_again(s, stored, *rules));
  a.differences = differences_of(stored, a.again);
  if (!a.differences.empty()) a.finding = reward_finding::differs;
  return a;
}

}  // namespace

expected<reward_audit> audit_group(store& s, const std::string& group) {
  const auto stored = s.get_rewards(group);
  if (stored) return audit_record(s, *stored);
  if (stored.error().code != errc::not_found) return tl::unexpected(stored.error());
  CUDAL1_TRY(const auto g, s.get_group(group));
  reward_record members;
  members.experiment = g.experiment;
  members.task = g.task;
  CUDAL1_TRY(members.variants, s.variants_of_group(group));
  reward_audit a{group, g.experiment, g.task, reward_finding::not_paid, {}, {}};
  CUDAL1_TRY(a.again, pay_again(s, members, {}));
  return a;
}

expected<std::vector<reward_audit>> audit_groups(store& s, const std::string& experiment) {
  CUDAL1_TRY(const auto paid, s.rewards_of_experiment(experiment));
  std::vector<reward_audit> out;
  for (const auto& r : paid) {
    CUDAL1_TRY(auto a, audit_record(s, r));
    out.push_back(std::move(a));
  }
  return out;
}

}  // namespace cudal1::cli
