// cudal1 spaces: recorded spaces, small tasks with every candidate measured.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/search/recorded_estimates.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/space_folds.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct spaces_options {
  std::string file;
  std::size_t least = 16;
  fold_options part;
  bool json = false;
};

std::string headline(const recorded_space& s) {
  return fmt::format("{} of {} on {} ({}), SHA-256 {}", format_count(s.head.candidates, "candidate"),
                     format_count(s.head.tasks, "task"), s.head.where.model, s.head.where.libraries, s.sha256);
}

expected<int> record(const spaces_options& o, context& c) {
  CUDAL1_TRY(const auto records, open_for_reading(c));
  CUDAL1_TRY(auto space, space_in_store(*records, o.least, "cudal1 spaces record"));
  CUDAL1_CHECK(write_space(space, o.file));
  c.out.print(headline(space) + "\n");
  return exit_code::success;
}

double best_of(const recorded_task& t) {
  double best = 0;
  for (const auto& each : t.candidates)
    best = std::max(best, each.score);
  return best;
}

expected<int> show(const spaces_options& o, context& c) {
  CUDAL1_TRY(const auto space, read_space(o.file));
  if (o.json) {
    json::array tasks;
    for (const auto& t : space.tasks)
      tasks.push_back(json::make_object({{"name", t.name},
                                         {"operators", t.operators},
                                         {"candidates", std::ssize(t.candidates)},
                                         {"best", best_of(t)}}));
    print_json(c, json::make_object(
                      {{"head", to_json(space.head)}, {"sha256", space.sha256}, {"tasks", json(std::move(tasks))}}));
    return exit_code::success;
  }
  c.out.print(headline(space) + "\n\n");
  table list({{.title = "task"},
              {.title = "operators", .least_width = 24},
              {.title = "candidates", .right = true},
              {.title = "within 5% of best", .right = true},
              {.title = "best", .right = true}});
  for (const auto& t : space.tasks) {
    const double best = best_of(t);
    const auto near = std::ranges::count_if(t.candidates, [&](const auto& each) { return each.score >= 0.95 * best; });
    list.add(
        {t.name, t.operators, std::to_string(t.candidates.size()), std::to_string(near), fmt::format("{:.2f}x", best)});
  }
  c.out.print(list.text(c.out));
  return exit_code::success;
}

expected<device_data> device_of(const recorded_space& s) {
  CUDAL1_TRY(auto known, find_device_data(recorded_model(s.head.where.model)));
  if (!known)
    return fail(errc::unsupported,
                "the space was measured on {}, of which there are no specifications in config/devices",
                s.head.where.model);
  return std::move(*known);
}

std::string share_text(double by_estimate, double by_chance) {
  return fmt::format("{:.1f}% ({:.1f}%)", 100 * by_estimate, 100 * by_chance);
}

std::string estimates_table(const std::vector<estimated_task>& tasks, const context& c) {
  std::vector<column> columns = {
      {.title = "task"}, {.title = "candidates", .right = true}, {.title = "rank correlation", .right = true}};
  for (const std::size_t first : estimated_firsts)
    columns.push_back({.title = fmt::format("best of {} (random)", first), .right = true});
  table list(std::move(columns));
  const auto add = [&](const estimated_task& t) {
    std::vector<std::string> cells = {t.name, std::to_string(t.candidates), fmt::format("{:.2f}", t.rank_correlation)};
    for (std::size_t i = 0; i < estimated_firsts.size(); ++i)
      cells.push_back(share_text(t.by_estimate[i], t.by_chance[i]));
    list.add(std::move(cells));
  };
  for (const auto& t : tasks)
    add(t);
  estimated_task all = mean_of(tasks);
  all.name = fmt::format("mean of {}", format_count(std::ssize(tasks), "task"));
  add(all);
  return list.text(c.out);
}

expected<int> estimate(const spaces_options& o, context& c) {
  CUDAL1_TRY(const auto space, read_space(o.file));
  CUDAL1_CHECK(check_fold(o.part));
  CUDAL1_TRY(const device_data gpu, device_of(space));
  std::vector<estimated_task> tasks;
  for (const auto& t : space.tasks) {
    if (o.part.folds > 1 && !is_held_out(t.operators, o.part.fold, o.part.folds)) continue;
    CUDAL1_TRY(const auto one, estimated(t, gpu));
    if (one) tasks.push_back(*one);
  }
  if (tasks.empty())
    return fail(errc::not_found, "no task has two correct candidates of which the device time was measured");
  if (o.json) {
    print_json(c, json::make_object({{"head", to_json(space.head)},
                                     {"sha256", space.sha256},
                                     {"device", gpu.name},
                                     {"first", to_json(estimated_firsts)},
                                     {"all", to_json(mean_of(tasks))},
                                     {"tasks", to_json(tasks)}}));
    return exit_code::success;
  }
  c.out.print(headline(space) + "\n\n");
  c.out.print(estimates_table(tasks, c));
  c.out.print(
      "\nThe rank correlation (Spearman's) is that of estimated and measured device times. \"best of 4\": the shortest "
      "device time of all, as a share of the shortest of the four with the shortest estimates; in brackets of four in "
      "a "
      "random order.\n");
  return exit_code::success;
}

void add_spaces(CLI::App& app, context& c) {
  auto* all =
      app.add_subcommand("spaces", "record small tasks with all their candidates, to train and compare policies");
  all->require_subcommand(1);
  all->footer(
      footer("  tools/python/space_models.py models\n"
             "  cudal1 tasks import models --out tasks\n"
             "  cudal1 tasks parts tasks/softmax_64_1024.json --device cuda:0 --out parts\n"
             "  cudal1 run --tasks parts --policy exhaustive --evaluations 256 --against program\n"
             "  cudal1 spaces record space.jsonl\n"
             "  cudal1 train space.jsonl --out model.json",
             "  0    done\n"
             "  2    the store has no task with so many candidates\n"
             "  3    the store or the file cannot be read or written"));
  auto o = std::make_shared<spaces_options>();
  auto* sub = all->add_subcommand("record",
                                  "write the tasks of the store and all their variants, with the scores that were "
                                  "measured on the class of devices of the newest one");
  sub->add_option("file", o->file, "the file: JSON lines")->type_name("FILE")->required();
  sub->add_option("--least", o->least, "leave out tasks with fewer candidates")->capture_default_str();
  sub->callback([o, &c] { finish(c, record(*o, c)); });
  sub = all->add_subcommand("show", "the tasks of such a file");
  sub->add_option("file", o->file, "the file")->type_name("FILE")->required();
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"tasks"});
  sub->callback([o, &c] { finish(c, show(*o, c)); });
  sub =
      all->add_subcommand("estimate", "how well the estimate of a program's time orders the candidates of such a file");
  sub->add_option("file", o->file, "the file")->type_name("FILE")->required();
  add_folds(sub, o->part.folds);
  sub->add_option("--fold", o->part.fold, "the part that is looked at, from 0 on, if there are several")
      ->capture_default_str();
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"tasks"});
  sub->callback([o, &c] { finish(c, estimate(*o, c)); });
}

const command_registration registered_spaces(48, add_spaces);

}  // namespace

}  // namespace cudal1::cli
