// cudal1 audit: how scores and rewards follow from what was measured, and what was refused as a hack; other people's
// kernels, judged.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/submission_audit.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/audit_text.hpp"
#include "tools/cli/report/hack_report.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

namespace {

struct audit_command_options {
  std::string variant, experiment;
  bool hacks = false, json = false;
  std::size_t limit = 10;
  submission_audit_options foreign;
};

// One verdict of a variant, and the group in which it was paid.
struct audited_verdict {
  verdict judged;
  score_audit score;
  std::optional<reward_audit> group;
};

expected<std::vector<audited_verdict>> audits_of_variant(store& s, const std::string& id) {
  std::vector<audited_verdict> all;
  CUDAL1_TRY(const auto uses, s.uses_of_variant(id));
  for (const auto& use : uses) {
    CUDAL1_TRY(auto verdicts, s.verdicts_in_experiment(use.experiment, use.task, id));
    for (auto& v : verdicts) {
      audited_verdict a{std::move(v), {}, std::nullopt};
      a.score = audit_score(a.judged, use.experiment);
      if (!use.group.empty()) {
        CUDAL1_TRY(a.group, audit_group(s, use.group));
      }
      all.push_back(std::move(a));
    }
  }
  std::ranges::stable_sort(all, {}, [](const audited_verdict& a) { return a.judged.time_unix_ms; });
  return all;
}

void print_audit(const audited_verdict& a, const std::string& variant, const context& c) {
  const auto& v = a.judged;
  c.out.print_wrapped(
      c.out.bold(fmt::format("Attempt {} in {}, {}", v.attempt, a.score.experiment, format_date(v.time_unix_ms))) +
      "\n");
  c.out.print_wrapped(gates_text(v, c.out));
  if (!v.suspicion.empty()) c.out.print_wrapped("  suspicion: " + v.suspicion + "\n");
  if (!v.reused_from.empty()) c.out.print_wrapped("  reused from " + v.reused_from + "\n");
  c.out.print_wrapped(fmt::format("  score: {}\n", finding_text(a.score)));
  if (a.score.finding != audit_finding::no_samples) c.out.print_wrapped("  " + cuda_l1_text(a.score) + "\n");
  if (a.group) c.out.print_wrapped(group_text(*a.group, variant, c.out));
}

void print_opinions(const std::vector<opinion_record>& opinions, const context& c) {
  if (!opinions.empty())
    c.out.print_wrapped(c.out.bold("Opinions of language models (evidence, not a verdict)") + "\n");
  for (const auto& o : opinions)
    c.out.print_wrapped(wrap(fmt::format("{}, of attempt {} in {}: {}. {}", o.model, o.attempt, o.experiment,
                                         enum_name(o.rating), o.reasons),
                             c.out.width, 2) +
                        "\n");
}

expected<int> audit_variant(store& s, const audit_command_options& o, const context& c) {
  CUDAL1_TRY(const auto variant, s.find_variant(o.variant));
  CUDAL1_TRY(const auto audits, audits_of_variant(s, variant.id));
  CUDAL1_TRY(const auto hacks, hacks_like(s, variant));
  CUDAL1_TRY(const auto opinions, s.opinions_of_variant(variant.id));
  if (audits.empty())
    return fail(errc::not_found, "variant {} has no verdict yet: its evaluation is running, or was interrupted",
                short_id(variant.id));
  json::array scores, groups;
  bool right = true;
  for (const auto& a : audits) {
    right &= a.score.finding != audit_finding::differs && (!a.group || a.group->finding != reward_finding::differs);
    scores.push_back(to_json(a.score));
    if (a.group) groups.push_back(to_json(*a.group));
    if (!o.json) print_audit(a, variant.id, c);
  }
  if (o.json) {
    print_json(c, json::make_object({{"audits", json(std::move(scores))},
                                     {"groups", json(std::move(groups))},
                                     {"opinions", to_json(opinions)},
                                     {"hacks", likeness_json(hacks)}}));
  } else {
    print_opinions(opinions, c);
    if (!hacks.empty()) c.out.print_wrapped(c.out.bold("Hack cases") + "\n" + likeness_text(hacks));
  }
  return right ? exit_code::success : exit_code::negative;
}

// Details are read one variant at a time, since their samples are many.
expected<std::vector<score_audit>> audits_of(store& s, const experiment_record& e) {
  std::vector<score_audit> all;
  for (const auto& task : e.tasks) {
    CUDAL1_TRY(const auto summaries, s.verdicts_of_task(task, e.id));
    for (const auto& summary : summaries) {
      if (!(summary.score > 0)) {
        all.push_back(audit_score(summary, e.id));
        continue;
      }
      CUDAL1_TRY(const auto whole, s.verdicts_in_experiment(e.id, task, summary.variant));
      const auto own = std::ranges::find(whole, summary.attempt, &verdict::attempt);
      if (own == whole.end())
        return fail(errc::corrupt, "the verdict of variant {} has no details", short_id(summary.variant));
      all.push_back(audit_score(*own, e.id));
    }
  }
  return all;
}

void print_scores(const std::vector<score_audit>& all, const std::string& experiment, const context& c) {
  const auto count = [&](audit_finding f) { return std::ranges::count(all, f, &score_audit::finding); };
  for (const auto& a : all)
    if (a.finding == audit_finding::differs) c.out.print_wrapped(short_id(a.variant) + ": " + finding_text(a) + "\n");
  const auto by_rule = std::ranges::count_if(all, [](const score_audit& a) { return a.cuda_l1.has_value(); });
  c.out.print_wrapped(fmt::format(
      "{} of {}: {} scores recomputed from their samples, {} differ, {} without a score.\nCUDA-L1's rule gives {} of "
      "them a score; it throws the others away as too noisy.\n",
      format_count(static_cast<int64_t>(all.size()), "verdict"), experiment, count(audit_finding::recomputed),
      count(audit_finding::differs), count(audit_finding::no_samples), by_rule));
}

void print_rewards(const std::vector<reward_audit>& all, const context& c) {
  if (all.empty()) return c.out.print_wrapped("No rewards were paid: its policy does not learn from groups.\n");
  for (const auto& a : all)
    for (const auto& d : a.differences)
      c.out.print_wrapped(fmt::format("{}: {}\n", a.group, d));
  const auto differing = std::ranges::count(all, reward_finding::differs, &reward_audit::finding);
  const auto groups = static_cast<int64_t>(all.size());
  c.out.print_wrapped(fmt::format("The rewards of {}: {} recomputed from their samples, {} differ.\n",
                                  format_count(groups, "group"), groups - differing, differing));
}

expected<int> recompute(store& s, const audit_command_options& o, const context& c) {
  CUDAL1_TRY(const auto e, s.get_experiment(o.experiment));
  CUDAL1_TRY(const auto scores, audits_of(s, e));
  CUDAL1_TRY(const auto rewards, audit_groups(s, e.id));
  const bool right = std::ranges::count(scores, audit_finding::differs, &score_audit::finding) == 0 &&
                     std::ranges::count(rewards, reward_finding::differs, &reward_audit::finding) == 0;
  if (o.json) {
    print_json(
        c, json::make_object({{"experiment", json(e.id)}, {"audits", to_json(scores)}, {"groups", to_json(rewards)}}));
  } else {
    print_scores(scores, e.id, c);
    print_rewards(rewards, c);
  }
  return right ? exit_code::success : exit_code::negative;
}

expected<int> list_hacks(store& s, const audit_command_options& o, const context& c) {
  CUDAL1_TRY(const auto all, hacks_by_class(s, o.limit));
  CUDAL1_TRY(const auto files, hacks_in_files(s, o.limit));
  if (o.json) {
    print_json(c, hacks_json(all, files));
  } else {
    c.out.print_wrapped(hacks_text(all, files, c.out));
  }
  return exit_code::success;
}

expected<int> audit_command(const audit_command_options& o, const context& c) {
  const bool is_foreign = !o.foreign.submissions.empty();
  if ((o.variant.empty() ? 0 : 1) + (o.experiment.empty() ? 0 : 1) + (o.hacks ? 1 : 0) + (is_foreign ? 1 : 0) != 1)
    return fail(errc::invalid_argument,
                "give one of a variant, --recompute EXPERIMENT, --hacks and --kernelbench; see `cudal1 audit --help`");
  if (is_foreign) {
    auto foreign = o.foreign;
    foreign.json = o.json;
    return audit_submissions(foreign, c);
  }
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (o.hacks) return list_hacks(*reader, o, c);
  return o.experiment.empty() ? audit_variant(*reader, o, c) : recompute(*reader, o, c);
}

void add_audit(CLI::App& app, context& c) {
  auto o = std::make_shared<audit_command_options>();
  auto* sub = app.add_subcommand(
      "audit", "how scores and rewards follow from what the store keeps; hack cases; other people's kernels");
  sub->add_option("variant", o->variant, "its id, or the first digits of it")->type_name("VARIANT");
  sub->add_option("--recompute", o->experiment, "all scores and rewards of this experiment, again from their samples")
      ->type_name("EXPERIMENT");
  sub->add_flag("--hacks", o->hacks, "refused variants and Python files that are evidence of a way to cheat");
  sub->add_option("-n", o->limit, "the newest cases of each class, and files, with --hacks")->type_name("COUNT");
  auto* foreign =
      sub->add_option("--kernelbench", o->foreign.submissions,
                      "other people's kernels: a file with ModelNew, a folder, a run folder, JSON lines, or solutions "
                      "of FlashInfer-Bench and SOL-ExecBench")
          ->type_name("PATH");
  sub->add_option("--problems", o->foreign.problems, "their problems (or definitions), where those are elsewhere")
      ->type_name("PATH")
      ->needs(foreign);
  sub->add_option("--device", o->foreign.device, "where they run: cpu (the default), or a GPU such as cuda:0")
      ->needs(foreign);
  sub->add_option("--out", o->foreign.out, "a folder that keeps verdicts: the same command goes on there")
      ->type_name("DIR")
      ->needs(foreign);
  sub->add_option("--eval-results", o->foreign.eval_results,
                  "also write the verdicts as KernelBench's own scripts read them, as in runs/mine/eval_results.json")
      ->type_name("FILE")
      ->needs(foreign);
  sub->add_option("--pools", o->foreign.pools, "rounds with fresh processes, draws and weights")
      ->check(CLI::Range(1, 100))
      ->needs(foreign);
  sub->add_flag("--unconfined", o->foreign.unconfined,
                "without confinement, for files that you trust; every row is marked")
      ->needs(foreign);
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 audit 6f2d93a1\n"
             "  cudal1 audit --recompute e3\n"
             "  cudal1 audit --hacks\n"
             "  cudal1 audit --kernelbench runs/mine --problems KernelBench/KernelBench/level1 --out verdicts",
             "  0    every stored score and reward is what its samples give; every submission is accepted\n"
             "  1    a stored score or reward is not; a submission is refused, or could not be judged\n"
             "  2    there is no such variant, experiment or submission, or no store yet\n"
             "  3    the store cannot be read; this machine cannot confine a submission"));
  sub->callback([o, &c] { finish(c, audit_command(*o, c)); });
}

const command_registration registered_audit(86, add_audit);

}  // namespace

}  // namespace cudal1::cli
