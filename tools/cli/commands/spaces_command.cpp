// cudal1 spaces: recorded spaces, small tasks with every candidate measured.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/contrastive/recorded_space.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct spaces_options {
  std::string file;
  std::size_t least = 16;
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
  sub->callback([o, &c] { finish(c, show(*o, c)); });
}

const command_registration registered_spaces(48, add_spaces);

}  // namespace

}  // namespace cudal1::cli
