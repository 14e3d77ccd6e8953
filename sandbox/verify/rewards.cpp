#include "sandbox/verify/rewards.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/verify/compared_scores.hpp"
#include "sandbox/verify/scored_samples.hpp"

namespace cudal1 {

namespace {

enum class reward_rule { one_pace, score, cuda_l1 };

expected<reward_rule> rule_of(const std::string& name) {
  if (name == "one_pace") return reward_rule::one_pace;
  if (name == "score") return reward_rule::score;
  if (name == "cuda_l1") return reward_rule::cuda_l1;
  return fail(errc::invalid_argument,
              "there is no rule of rewards \"{}\"; reward.rule may be one_pace, score or cuda_l1", name);
}

bool says_nothing(outcome o) {
  return o == outcome::unmeasurable || o == outcome::unexplained || o == outcome::quarantined;
}

std::string samples_text(std::span<const timing_sample> used, std::size_t measured) {
  if (used.size() == measured) return fmt::format("all {} pairs", measured);
  return fmt::format("the {} pairs of forks {} to {} (of {} measured)", used.size(), used.front().fork,
                     used.back().fork, measured);
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double v : values)
    sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Squared differences from `center`, over `n`.
double spread_of(std::span<const double> values, double center, double n) {
  double squares = 0;
  for (const double v : values)
    squares += (v - center) * (v - center);
  return n > 0 ? squares / n : 0;
}

// One member on its way to its value.
class scoring {
 public:
  scoring(const reward_member& m, const reward_options& rules) : member_(m), rules_(rules), score_(m.score) {
    out_.variant = m.variant;
    out_.attempt = m.attempt;
    if (m.result == outcome::correct) doubt_ = doubt_about_claim();
  }

  // Whether it is paid for its score, unless the rule throws that away.
  bool has_score() const { return member_.result == outcome::correct && doubt_.empty(); }
  const measured_score& claim() const { return member_; }
  // Of the rules by medians: the score at the pace of the group.
  void move_to_pace(double score) { score_ = score; }

  paid_member run(reward_rule rule) {
    if (!member_.reused_from.empty())
      say("its verdict was reused from " + member_.reused_from + ", of the same class of environments");
    if (member_.repeated) say("it was proposed before: the verdict of then counts again");
    if (says_nothing(member_.result)) {
      doubt(enum_name(member_.result) + ": no score is known");
    } else if (member_.result != outcome::correct) {
      say("failed (" + enum_name(member_.result) + "): the score is 0");
      count(0);
    } else if (!doubt_.empty()) {
      doubt(doubt_);
    } else {
      if (!member_.cleared.empty()) say("suspicious, but a deeper check found no fault: " + member_.cleared);
      rule == reward_rule::cuda_l1 ? by_buckets() : by_median();
    }
    return std::move(out_);
  }

 private:
  void say(std::string step) { out_.steps.push_back(std::move(step)); }
  void doubt(const std::string& why) {
    out_.doubt = why;
    say("paid nothing, and not part of the mean: " + why);
  }

  std::string doubt_about_claim() {
    if (!member_.doubt.empty()) return member_.doubt;
    const auto& i = member_.score_interval;
    if (!(std::isfinite(member_.score) && member_.score > 0))
      return fmt::format("it is correct, but its score is {}", member_.score);
    if (!(0 < i.low && i.low <= member_.score && member_.score <= i.high && std::isfinite(i.high)))
      return fmt::format("the score {:.6g} is not within its interval, {:.6g} to {:.6g}", member_.score, i.low, i.high);
    used_ = samples_of_score(member_.samples, member_);
    if (!used_.empty()) return "";
    return member_.samples.empty()
               ? fmt::format("no samples are stored for the score {:.6g}", member_.score)
               : fmt::format("no part of its {} samples gives the score {:.6g}", member_.samples.size(), member_.score);
  }

  void by_median() {
    const auto& i = member_.score_interval;
    say(fmt::format("the median ratio of {} is {:.6g}, 95% {:.6g} to {:.6g}",
                    samples_text(used_, member_.samples.size()), member_.score, i.low, i.high));
    if (score_ != member_.score)
      say(fmt::format("the reference took {:.4g} us; at the middle pace of the group's members that is {:.6g}",
                      member_.reference_us, score_));
    count(score_);
  }

  void by_buckets() {
    const auto b = cuda_l1_score(member_.samples, rules_);
    if (b.means.empty())
      return doubt(
          fmt::format("CUDA-L1's rule needs {} pairs, and there are {}", rules_.buckets, member_.samples.size()));
    say(fmt::format("the means of {} buckets of {} pairs are {:.4f}", b.means.size(), member_.samples.size(),
                    fmt::join(b.means, ", ")));
    if (!b.score)
      return doubt(
          fmt::format("CUDA-L1's rule throws it away: the variance between the buckets is {:.4g}, above {:.4g}",
                      b.variance, rules_.bucket_variance));
    say(fmt::format("their variance is {:.4g} (at most {:.4g}), their median {:.6g}, rounded towards 1: {:.2f}",
                    b.variance, rules_.bucket_variance, b.median, *b.score));
    count(*b.score);
  }

  void count(double score) {
    out_.counts = true;
    out_.score = out_.value = score;
    const auto& i = member_.score_interval;
    if (score > 0) out_.half_width = (i.high - i.low) / 2 * (score_ / member_.score);
    if (!rules_.logarithm) return;
    const double at_least = std::max(score, rules_.failed_score);
    out_.value = std::log(at_least);
    if (score > 0) out_.half_width = std::log(i.high / i.low) / 2;
    say(at_least == score ? fmt::format("its logarithm is {:.6g}", out_.value)
                          : fmt::format("it counts as {:.4g}, whose logarithm is {:.6g}", at_least, out_.value));
  }

  const reward_member& member_;
  const reward_options& rules_;
  double score_;
  std::string doubt_;  // why its score is not paid; "" if it is, or it has none
  std::span<const timing_sample> used_;
  paid_member out_;
};

// To the middle pace of the members that are paid for their scores.
void move_to_one_pace(std::vector<scoring>& members) {
  std::vector<scoring*> paid;
  std::vector<measured_score> claims;
  for (auto& m : members) {
    if (!m.has_score()) continue;
    paid.push_back(&m);
    claims.push_back(m.claim());
  }
  const auto scores = scores_at_one_pace(claims);
  for (std::size_t i = 0; i < paid.size(); ++i)
    paid[i]->move_to_pace(scores[i]);
}

void find_deviation(paid_group& g) {
  std::vector<double> values, half_widths;
  for (const auto& m : g.members) {
    if (m.counts) values.push_back(m.value);
    if (m.counts && m.score > 0) half_widths.push_back(m.half_width);
  }
  const char* what = g.rules.logarithm ? "logarithms" : "scores";
  g.mean = mean_of(values);
  g.deviation = std::sqrt(spread_of(values, g.mean, static_cast<double>(values.size())));
  const double noise = std::sqrt(spread_of(half_widths, 0, static_cast<double>(half_widths.size())));
  g.floor = std::max(g.rules.least_deviation, g.rules.noise_floor * noise);
  g.steps.push_back(fmt::format("{} of {} members count; the mean of their {} is {:.6g}, the deviation {:.6g}",
                                values.size(), g.members.size(), what, g.mean, g.deviation));
  g.steps.push_back(
      fmt::format("the floor under the deviation is {:.6g}: the larger of {:.4g} and {:.4g} times the root mean square "
                  "of the half widths, {:.6g}; {:.6g} counts",
                  g.floor, g.rules.least_deviation, g.rules.noise_floor, noise, std::max(g.deviation, g.floor)));
}

// Equal values differ by their rounding only.
constexpr double rounding = 1e-12;

void pay(paid_group& g) {
  const double by = std::max(g.deviation, g.floor);
  const bool all_equal = !(by > rounding * std::max(1.0, std::abs(g.mean)));
  for (auto& m : g.members) {
    if (!m.counts) continue;
    if (all_equal) {
      m.steps.emplace_back("the values of the group are equal: the reward is 0");
      continue;
    }
    m.normalised = (m.value - g.mean) / by;
    m.reward = std::clamp(m.normalised, -g.rules.clip, g.rules.clip);
    m.steps.push_back(fmt::format("({:.6g} - {:.6g}) / {:.6g} = {:.6g}", m.value, g.mean, by, m.normalised));
    m.steps.push_back(m.reward == m.normalised
                          ? fmt::format("within +-{:.4g}: the reward is {:.6g}", g.rules.clip, m.reward)
                          : fmt::format("clipped to +-{:.4g}: the reward is {:.6g}", g.rules.clip, m.reward));
  }
}

}  // namespace

reward_member reward_member_of(const verdict& v) {
  reward_member m{v, v.variant, v.attempt, v.result, v.samples, "", "", v.reused_from, false};
  if (v.result != outcome::correct) return m;
  bool deeply_checked = false;
  for (const auto& g : v.gates) {
    if (!g.passed && m.doubt.empty()) m.doubt = fmt::format("gate {} failed: {}", g.gate, g.reason);
    if (g.passed && g.gate == deep_check_gate) deeply_checked = true;
  }
  if (v.suspicion.empty() || !m.doubt.empty()) return m;
  (deeply_checked ? m.cleared : m.doubt) = v.suspicion;
  if (!deeply_checked) m.doubt = "suspicious, and not checked more deeply: " + m.doubt;
  return m;
}

void pay_values(paid_group& g) {
  find_deviation(g);
  pay(g);
}

expected<paid_group> pay_group(std::span<const reward_member> members, const reward_options& rules) {
  CUDAL1_TRY(const reward_rule rule, rule_of(rules.rule));
  paid_group g;
  g.rules = rules;
  std::vector<scoring> scored;
  for (const auto& m : members)
    scored.emplace_back(m, rules);
  if (rule == reward_rule::one_pace) move_to_one_pace(scored);
  for (auto& m : scored)
    g.members.push_back(m.run(rule));
  pay_values(g);
  return g;
}

bucketed_score cuda_l1_score(std::span<const timing_sample> samples, const reward_options& rules) {
  bucketed_score out;
  const auto buckets = static_cast<std::size_t>(rules.buckets);
  if (samples.size() < buckets) return out;
  for (std::size_t b = 0; b < buckets; ++b) {
    const std::size_t begin = b * samples.size() / buckets, end = (b + 1) * samples.size() / buckets;
    double sum = 0;
    for (const auto& s : samples.subspan(begin, end - begin))
      sum += s.reference_us / s.variant_us;
    out.means.push_back(sum / static_cast<double>(end - begin));
  }
  out.variance = spread_of(out.means, mean_of(out.means), static_cast<double>(buckets - 1));
  auto sorted = out.means;
  std::ranges::sort(sorted);
  out.median = (sorted[(buckets - 1) / 2] + sorted[buckets / 2]) / 2;
  // Written so that a NaN is thrown away.
  if (!(out.variance <= rules.bucket_variance)) return out;
  constexpr double hundredths_rounding = 1e-9;  // 1.12 is stored a little below or above 112 hundredths
  out.score = (out.median > 1 ? std::floor(out.median * 100 + hundredths_rounding)
                              : std::ceil(out.median * 100 - hundredths_rounding)) /
              100;
  return out;
}

}  // namespace cudal1
