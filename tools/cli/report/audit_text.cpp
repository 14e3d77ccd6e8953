#include "tools/cli/report/audit_text.hpp"

#include <fmt/ranges.h>

#include "tools/cli/format.hpp"
#include "tools/cli/report/verdict_text.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

std::string samples_text(const score_audit& a) {
  return a.pairs == a.pairs_measured
             ? fmt::format("all {}", format_count(a.pairs, "pair"))
             : fmt::format("the {} of forks {} to {} (of {} measured)", format_count(a.pairs, "pair"), a.first_fork,
                           a.last_fork, a.pairs_measured);
}

std::string status_text(reward_finding f) {
  switch (f) {
    case reward_finding::recomputed:
      return "recomputed from the samples: as they were paid";
    case reward_finding::differs:
      return "not what was paid";
    case reward_finding::not_paid:
      break;
  }
  return "not paid (the group is open, or its policy does not learn): by the defaults of [reward] they would be";
}

std::string members_table(const paid_group& g, const std::string& variant, const terminal& t) {
  table rows({{"variant"}, {"score", true}, {"reward", true}, {"", false, 10}});
  for (const auto& m : g.members)
    rows.add({short_id(m.variant), m.counts ? fmt::format("{:.4g}", m.score) : "-",
              m.counts ? fmt::format("{:+.3f}", m.reward) : "nothing",
              m.variant == variant ? "this one" + (m.doubt.empty() ? "" : ": " + m.doubt) : m.doubt});
  return rows.text(t);
}

}  // namespace

std::string finding_text(const score_audit& a) {
  switch (a.finding) {
    case audit_finding::recomputed:
      return fmt::format("the median ratio of {} is {:.6g}: the stored score", samples_text(a), a.recomputed);
    case audit_finding::differs:
      return fmt::format(
          "the stored score is {:.6g}, but the samples give {:.6g}, and no part of them gives it: the "
          "record was changed, or written by another version",
          a.stored, a.recomputed);
    case audit_finding::no_samples:
      break;
  }
  return a.stored > 0 ? "no samples are stored" : "no score: it is not correct";
}

std::string cuda_l1_text(const score_audit& a) {
  const auto& b = a.buckets;
  if (b.means.empty()) return "CUDA-L1's rule would give no score: there are fewer than 7 pairs";
  const std::string how = fmt::format("the means of {} buckets are {:.4f}, their variance is {:.3g}", b.means.size(),
                                      fmt::join(b.means, ", "), b.variance);
  if (!a.cuda_l1)
    return fmt::format("CUDA-L1's rule would give no score: {}, above {:.3g}", how, reward_options{}.bucket_variance);
  return fmt::format("CUDA-L1's rule would give {:.2f}: {}, and their median {:.6g} is rounded towards 1", *a.cuda_l1,
                     how, b.median);
}

std::string gates_text(const verdict& v, const terminal& t) {
  std::string text;
  for (const auto& g : v.gates)
    text += fmt::format("  {}  {}: {}\n", gate_mark(g, t), g.gate, g.reason);
  return text;
}

std::string group_text(const reward_audit& a, const std::string& variant, const terminal& t) {
  std::string text = t.bold(fmt::format("Group {}", a.group)) +
                     fmt::format(", rewards by the rule {}: {}\n", a.again.rules.rule, status_text(a.finding));
  for (const auto& d : a.differences)
    text += "  " + t.bad(d) + "\n";
  text += members_table(a.again, variant, t);
  for (const auto& m : a.again.members)
    if (m.variant == variant)
      for (const auto& step : m.steps)
        text += "  " + step + "\n";
  text += "  of the group: " + fmt::format("{}\n", fmt::join(a.again.steps, "; "));
  return text;
}

}  // namespace cudal1::cli
