// cudal1 history: how the best variant of a task came about.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/found_variant.hpp"
#include "tools/cli/report/lineage.hpp"

namespace cudal1::cli {

namespace {

struct history_options {
  std::string name;
  bool json = false;
};

std::string score_of(const lineage_step& step, const terminal& t) {
  if (step.outcome.empty()) return "not evaluated yet";
  if (!(step.score > 0)) return t.bad(step.outcome);
  const auto text = format_speedup(step.score, step.score_interval) + (step.confirmed ? "" : ", screened");
  return step.score > 1 ? t.good(text) : text;
}

std::string print_step(const lineage_step& step, std::size_t number, bool is_first, const terminal& t) {
  std::string text = fmt::format("{:>3}. {}  {}\n", number, t.bold(short_id(step.variant)), score_of(step, t));
  std::string about = fmt::format("by {}", step.origin);
  if (!step.model.empty()) about += ", model " + step.model;
  if (!step.experiment.empty()) about += ", experiment " + step.experiment;
  about += ", " + format_date(step.time_unix_ms);
  if (step.other_parents > 0) about += fmt::format("; {} more", format_count(step.other_parents, "parent"));
  text += t.dim(wrap(about, t.width, 5)) + "\n";
  if (!step.reason.empty()) text += wrap(step.reason, t.width, 5) + "\n";
  for (const auto& m : step.moves.removed)
    text += wrap("- " + m, t.width, 5) + "\n";
  for (const auto& m : step.moves.added)
    text += wrap((is_first ? "  " : "+ ") + m, t.width, 5) + "\n";
  if (step.schedule.empty()) text += "     a program without a schedule\n";
  if (!step.schedule.empty() && step.moves == move_changes()) text += "     the same moves\n";
  return text;
}

expected<int> history(const history_options& o, const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const variant_record v, find_shown(*reader, o.name));
  CUDAL1_TRY(const auto steps, lineage_of(*reader, v));
  const auto record = reader->get_task(v.task);
  const auto task = record ? record->name : short_id(v.task);
  if (o.json) {
    print_json(c, json::make_object({{"task", task}, {"variant", v.id}, {"steps", to_json(steps)}}));
    return exit_code::success;
  }
  c.out.print(c.out.bold(fmt::format("How variant {} of {} came about", short_id(v.id), task)) + "\n");
  for (std::size_t i = 0; i < steps.size(); ++i)
    c.out.print(print_step(steps[i], i + 1, i == 0, c.out));
  const bool is_cut = steps.size() == most_ancestors;
  if (is_cut) c.out.print(fmt::format("Older ancestors than these {} are left out.\n", most_ancestors));
  if (steps.size() == 1) c.out.print("It was made from no other variant.\n");
  return exit_code::success;
}

void add_history(CLI::App& app, context& c) {
  auto o = std::make_shared<history_options>();
  auto* sub =
      app.add_subcommand("history", "how the best variant of a task came about: its ancestors and their scores");
  sub->add_option("task", o->name, "the name of a task; or a variant's id, or its first digits")
      ->type_name("TASK")
      ->required();
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"steps"});
  sub->footer(
      footer("  cudal1 history softmax\n"
             "  cudal1 history 3f9a1c2b --json",
             "  0    printed\n"
             "  2    there is no such task or variant, no faster variant of the task, or no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, history(*o, c)); });
}

const command_registration registered_history(83, add_history);

}  // namespace

}  // namespace cudal1::cli
