// cudal1 tasks parts: into which parts a task can be cut.
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/durable_file.hpp"
#include "policy/search/schedule_space.hpp"
#include "policy/search/task_parts.hpp"
#include "sandbox/device/device_names.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

struct parts_options {
  std::string task, folder, device, out;
  bool candidates = false, json = false;
};

std::string operators_of(const task& t) {
  std::vector<std::string> names;
  for (const auto& s : t.reference.text.steps) {
    const auto& step = std::get<aten_step>(s);
    const bool is_view = !step.results.empty() && t.reference.view_of.contains(step.results.front());
    if (!is_view) names.push_back(step.op.starts_with("aten::") ? step.op.substr(6) : step.op);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string tensors_of(const task& t) {
  std::vector<std::string> out;
  for (const auto* list : {&t.reference.text.inputs, &t.reference.text.weights})
    for (const auto& tensor : *list)
      out.push_back(tensor.type.text());
  return fmt::format("{}", fmt::join(out, ", "));
}

// The candidates of each part by its id; empty if they are not asked for.
using part_spaces = std::map<std::string, schedule_space>;

part_spaces spaces_of(const task_partitions& all, const lowering_target& target) {
  part_spaces out;
  for (const task* part : distinct_tasks(all))
    out.emplace(part->id, space_of(*part, target, most_schedules_of_a_space));
  return out;
}

std::string count_of(const schedule_space& space) {
  return fmt::format("{}{}", space.is_complete ? "" : "over ", space.schedules.size());
}

void print_way(const partition& way, const part_spaces& spaces, const context& c) {
  c.out.print(c.out.bold(fmt::format("{}: {}", way.name, format_count(std::ssize(way.parts), "part"))) + "\n");
  std::vector<column> columns = {{.title = "steps"}, {.title = "operators", .least_width = 24}, {.title = "part"}};
  if (!spaces.empty()) columns.push_back({.title = "candidates", .right = true});
  columns.push_back({.title = "inputs and weights", .least_width = 16, .drop = 1});
  table list(std::move(columns));
  for (const auto& part : way.parts) {
    std::vector<std::string> cells = {print_steps(part.covers), operators_of(part.what), short_id(part.what.id)};
    if (!spaces.empty()) cells.push_back(count_of(spaces.at(part.what.id)));
    cells.push_back(tensors_of(part.what));
    list.add(std::move(cells));
  }
  c.out.print(list.text(c.out));
  for (const auto& [step, why] : way.apart)
    c.out.print(fmt::format("step {} is in no part: {}\n", step, why));
}

json document_of(const task_partitions& all, const part_spaces& spaces) {
  json::array ways;
  for (const auto& way : all.ways) {
    json::array parts, apart;
    for (const auto& part : way.parts)
      parts.push_back(json::make_object({{"steps", print_steps(part.covers)},
                                         {"id", part.what.id},
                                         {"name", part.what.name},
                                         {"operators", operators_of(part.what)}}));
    for (const auto& [step, why] : way.apart)
      apart.push_back(json::make_object({{"step", step}, {"reason", why}}));
    ways.push_back(
        json::make_object({{"name", way.name}, {"parts", json(std::move(parts))}, {"apart", json(std::move(apart))}}));
  }
  json document = json::make_object({{"proofs", print_schedule(all.proofs)}, {"partitions", json(std::move(ways))}});
  if (spaces.empty()) return document;
  json candidates = json::make_object();
  for (const auto& [id, space] : spaces) {
    json::array schedules;
    for (const auto& s : space.schedules)
      schedules.push_back(print_schedule(s));
    candidates.set(id, json::make_object({{"complete", space.is_complete}, {"schedules", json(std::move(schedules))}}));
  }
  document.set("candidates", std::move(candidates));
  return document;
}

expected<void> write_parts(const task_partitions& all, const std::string& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
  for (const task* part : distinct_tasks(all)) {
    for (const auto& file : part->content_files()) {
      const fs::path to = fs::path(folder) / "blobs" / file;
      fs::create_directories(to.parent_path(), problem);
      fs::copy_file(fs::path(part->folder) / "blobs" / file, to, fs::copy_options::skip_existing, problem);
      if (problem) return fail(errc::io_error, "{}: {}", to.string(), problem.message());
    }
    const std::string path = (fs::path(folder) / (part->name + ".json")).string();
    CUDAL1_CHECK(write_durably({path, 0644}, canonical_text(*part) + "\n"));
  }
  return {};
}

expected<int> show_parts(const parts_options& o, context& c) {
  if (!o.device.empty()) CUDAL1_CHECK(kind_of_devices(o.device));
  const auto& traits = o.device.empty() ? preferred_device_type().traits() : traits_of(o.device);
  CUDAL1_TRY(const auto found, choose_tasks(o.folder, {o.task}, traits.profile, c.data));
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(traits.target));
  const auto all = partitions_of(found.front(), *target);
  if (!o.out.empty()) CUDAL1_CHECK(write_parts(all, o.out));
  const auto spaces = o.candidates ? spaces_of(all, *target) : part_spaces();
  if (o.json) {
    print_json(c, document_of(all, spaces));
    return exit_code::success;
  }
  c.out.print(fmt::format("{} can be cut in {} on {}; {} in all\n", found.front().name,
                          format_count(std::ssize(all.ways), "way"), traits.kind,
                          format_count(std::ssize(distinct_tasks(all)), "different part")));
  if (!all.proofs.moves.empty()) c.out.print("first: " + print_schedule(all.proofs) + "\n");
  for (const auto& way : all.ways) {
    c.out.print("\n");
    print_way(way, spaces, c);
  }
  return exit_code::success;
}

void add_tasks_parts(CLI::App& tasks, context& c) {
  auto o = std::make_shared<parts_options>();
  auto* sub =
      tasks.add_subcommand("parts", "the parts that a task can be cut into, which `cudal1 run --parts` searches");
  sub->add_option("task", o->task, "a task's name, or a task file")->type_name("TASK")->required();
  sub->add_option("--tasks", o->folder, "folder of task files (default: the built-in tasks)")->type_name("DIR");
  sub->add_option("--device", o->device, "for this device: cpu, cuda:0, ... (default: the first GPU, else cpu)")
      ->type_name("DEVICE");
  sub->add_option("--out", o->out, "also write each part as a task file into this folder")->type_name("DIR");
  sub->add_flag(
      "--candidates", o->candidates,
      fmt::format("count the schedules of each part: every implementation with all values of its tuning moves, "
                  "up to {}; with --json, list them",
                  most_schedules_of_a_space));
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 tasks parts mlp\n"
             "  cudal1 tasks parts vit.json --device cuda:0 --out vit_parts\n"
             "  cudal1 run --tasks vit_parts",
             "  0    printed\n"
             "  2    there is no such task, or its file breaks a rule"));
  sub->callback([o, &c] { finish(c, show_parts(*o, c)); });
}

const command_registration registered_tasks_parts(46, add_tasks_parts, "tasks");

}  // namespace

}  // namespace cudal1::cli
