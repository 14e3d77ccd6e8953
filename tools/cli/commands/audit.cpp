// cudal1 audit: how scores follow from what was measured.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/score_audit.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct audit_command_options {
  std::string variant, experiment;
  bool json = false;
};

std::string samples_text(const score_audit& a) {
  return a.pairs == a.pairs_measured
             ? fmt::format("all {}", format_count(a.pairs, "pair"))
             : fmt::format("the {} of forks {} to {} (of {} measured)", format_count(a.pairs, "pair"), a.first_fork,
                           a.last_fork, a.pairs_measured);
}

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
  if (a.cuda_l1)
    return fmt::format("{:.2f} by CUDA-L1's rule (7 buckets, median of their means, rounded to one)", *a.cuda_l1);
  return "none by CUDA-L1's rule: fewer than 7 pairs, or the variance between its 7 buckets is above 0.005";
}

std::string gates_text(const verdict& v, const terminal& t) {
  std::string text;
  for (const auto& g : v.gates)
    text += fmt::format("  {}  {}: {}\n", g.passed ? t.good("pass") : t.bad("FAIL"), g.gate, g.reason);
  return text;
}

expected<int> audit_variant(store& s, const audit_command_options& o, const context& c) {
  CUDAL1_TRY(const auto variant, s.find_variant(o.variant));
  CUDAL1_TRY(const auto verdicts, s.verdicts_of_variant(variant.id));
  if (verdicts.empty())
    return fail(errc::not_found, "variant {} has no verdict yet: its evaluation is running, or was interrupted",
                short_id(variant.id));
  json::array all;
  bool right = true;
  for (const auto& v : verdicts) {
    const auto a = audit_score(v, variant.experiment);
    right &= a.finding != audit_finding::differs;
    all.push_back(to_json(a));
    if (o.json) continue;
    c.out.print(c.out.bold(fmt::format("Attempt {}, {}", v.attempt, format_date(v.time_unix_ms))) + "\n");
    c.out.print(gates_text(v, c.out));
    if (!v.suspicion.empty()) c.out.print("  suspicion: " + v.suspicion + "\n");
    c.out.print(fmt::format("  score: {}\n", finding_text(a)));
    if (a.finding != audit_finding::no_samples) c.out.print("  " + cuda_l1_text(a) + "\n");
  }
  if (o.json) print_json(c, json::make_object({{"audits", json(std::move(all))}}));
  return right ? exit_code::success : exit_code::negative;
}

// Verdicts are read one variant at a time, since their samples are many.
expected<std::vector<score_audit>> audits_of(store& s, const experiment_record& e) {
  std::vector<score_audit> all;
  for (const auto& task : e.tasks) {
    CUDAL1_TRY(const auto summaries, s.verdicts_of_task(task, e.id));
    for (const auto& summary : summaries) {
      if (!(summary.score > 0)) {
        all.push_back(audit_score(summary, e.id));
        continue;
      }
      CUDAL1_TRY(const auto whole, s.verdicts_of_variant(summary.variant));
      const auto own = std::ranges::find_if(whole, [&](const verdict& v) {
        return v.task == task && v.attempt == summary.attempt && v.time_unix_ms == summary.time_unix_ms;
      });
      if (own == whole.end())
        return fail(errc::corrupt, "the verdict of variant {} has no details", short_id(summary.variant));
      all.push_back(audit_score(*own, e.id));
    }
  }
  return all;
}

expected<int> recompute(store& s, const audit_command_options& o, const context& c) {
  CUDAL1_TRY(const auto e, s.get_experiment(o.experiment));
  CUDAL1_TRY(const auto all, audits_of(s, e));
  const auto count = [&](audit_finding f) { return std::ranges::count(all, f, &score_audit::finding); };
  const auto differing = count(audit_finding::differs);
  if (o.json) {
    print_json(c, json::make_object({{"experiment", json(e.id)}, {"audits", to_json(all)}}));
    return differing == 0 ? exit_code::success : exit_code::negative;
  }
  for (const auto& a : all)
    if (a.finding == audit_finding::differs) c.out.print(short_id(a.variant) + ": " + finding_text(a) + "\n");
  const auto by_rule = std::ranges::count_if(all, [](const score_audit& a) { return a.cuda_l1.has_value(); });
  c.out.print(fmt::format(
      "{} of {}: {} scores recomputed from their samples, {} differ, {} without a score.\nCUDA-L1's rule gives {} of "
      "them a score; it throws the others away as too noisy.\n",
      format_count(static_cast<int64_t>(all.size()), "verdict"), e.id, count(audit_finding::recomputed), differing,
      count(audit_finding::no_samples), by_rule));
  return differing == 0 ? exit_code::success : exit_code::negative;
}

expected<int> audit_command(const audit_command_options& o, const context& c) {
  if (o.variant.empty() == o.experiment.empty())
    return fail(errc::invalid_argument, "give a variant, or --recompute EXPERIMENT; see `cudal1 audit --help`");
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  return o.experiment.empty() ? audit_variant(*reader, o, c) : recompute(*reader, o, c);
}

void add_audit(CLI::App& app, context& c) {
  auto o = std::make_shared<audit_command_options>();
  auto* sub = app.add_subcommand("audit", "how a score follows from the samples and gates that the store keeps");
  sub->add_option("variant", o->variant, "its id, or the first digits of it")->type_name("VARIANT");
  sub->add_option("--recompute", o->experiment, "all scores of this experiment, again from their raw samples")
      ->type_name("EXPERIMENT");
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 audit 6f2d93a1\n"
             "  cudal1 audit --recompute e3",
             "  0    every stored score is what its samples give\n"
             "  1    a stored score is not\n"
             "  2    there is no such variant or experiment, or no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, audit_command(*o, c)); });
}

const command_registration registered_audit(86, add_audit);

}  // namespace

}  // namespace cudal1::cli
