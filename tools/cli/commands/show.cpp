// cudal1 show: prints everything that the store has of one variant.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/prompt/counter_text.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/program/task.hpp"
#include "store/counter_profile.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/found_variant.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/verdict_text.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct show_options {
  std::string variant;
  bool program = false, source = false, schedule = false, json = false;
};

void section(const terminal& out, const std::string& title, const std::string& text) {
  if (text.empty()) return;
  out.print("\n" + out.bold(title) + "\n" + text + (text.ends_with('\n') ? "" : "\n"));
}

std::string print_moves(const variant_record& v, const terminal& out) {
  std::string text;
  if (!v.schedule.empty()) text += wrap(v.schedule, out.width, 2) + "\n";
  for (std::size_t i = 0; i < v.explanation.size(); ++i) {
    const auto number = fmt::format("  {}. ", i + 1);
    std::string line = wrap(v.explanation[i], out.width, number.size());
    line.erase(0, number.size());
    text += number + line + "\n";
  }
  return text;
}

// The task's name and origin; its id if the store no longer has the task.
std::string name_of(const expected<task_record>& record, const std::string& id) {
  if (!record) return short_id(id);
  const auto t = read_task(record->text, record->profile);
  return t && t->origin ? fmt::format("{} ({})", record->name, origin_text(*t->origin)) : record->name;
}

// Each line by itself, so that lists and paragraphs stay what they are.
std::string print_analysis(const variant_record& v, const terminal& out) {
  std::string text;
  for (const auto& line : split_lines(v.analysis))
    text += line.empty() ? "\n" : wrap(line, out.width, 2) + "\n";
  return text;
}

std::string print_origin(const variant_record& v, const std::string& task) {
  std::string text = fmt::format("  task {}, by {}", task, v.origin);
  if (v.policy_version > 0) text += fmt::format(" (version {})", v.policy_version);
  if (!v.experiment.empty()) text += ", experiment " + v.experiment;
  text += ", " + format_date(v.time_unix_ms) + "\n";
  if (!v.model.empty()) text += "  written by the model " + v.model + "\n";
  if (!v.group.empty()) text += "  of the group " + v.group + "\n";
  if (!v.repairs.empty()) text += "  repairs " + short_id(v.repairs) + "\n";
  std::vector<std::string> parents;
  parents.reserve(v.parents.size());
  for (const auto& parent : v.parents)
    parents.push_back(short_id(parent));
  if (!parents.empty()) text += fmt::format("  made from {}\n", fmt::join(parents, ", "));
  return text;
}

// The head is the stored text if it can no longer be parsed.
struct program_parts {
  std::string head, source;
};

program_parts parts_of(const variant_record& v) {
  const auto read = read_program(v.program);
  if (!read) return {v.program, ""};
  return {print_program_head(*read), read->source};
}

std::string with_newline(std::string text) {
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  return text;
}

// The floor of the variant's task on the device of an environment; nullopt if either is unknown.
expected<std::optional<roofline>> roofline_of(const expected<task_record>& record, const environment& where,
                                              floor_finder& floors) {
  if (!record || !traits_of(where.device).is_accelerator) return std::nullopt;
  const auto t = read_task(record->text, record->profile);
  if (!t) return std::nullopt;
  return floors.of(*t, where.model);
}

expected<void> print_verdicts(store& s, const expected<task_record>& record, const std::string& variant,
                              const terminal& out) {
  floor_finder floors;
  CUDAL1_TRY(const auto verdicts, s.recorded_verdicts("", variant));
  for (const auto& [experiment, v] : verdicts) {
    environment where;
    if (!v.environment_id.empty()) {
      CUDAL1_TRY(where, s.get_environment(v.environment_id));
    }
    CUDAL1_TRY(const auto roof, roofline_of(record, where, floors));
    section(out, fmt::format("Attempt {} in {}, {}", v.attempt, experiment, format_date(v.time_unix_ms)),
            print_verdict(v, out, roof));
    if (!v.environment_id.empty()) {
      out.print(wrap(describe_device(where), out.width, 2) + "\n");
      if (const auto about = timing_remark(where.device); !about.empty()) out.print("  " + about + "\n");
    }
    if (!v.samples.empty()) out.print(print_samples(v, out));
  }
  if (verdicts.empty()) section(out, "Verdict", "  none yet: the evaluation is running, or was interrupted\n");
  return {};
}

// What Nsight Compute read of it, in each environment where `cudal1 profile` ran.
expected<std::vector<counter_profile>> profiles_of(const std::vector<verdict>& verdicts, const context& c) {
  std::map<std::string, counter_profile> found;
  for (const auto& v : verdicts) {
    CUDAL1_TRY(auto kept, kept_counters(profile_folder(c.data), v.variant, v.environment_id));
    if (kept) found.emplace(v.environment_id, std::move(*kept));
  }
  std::vector<counter_profile> all;
  for (auto& [environment, profile] : found)
    all.push_back(std::move(profile));
  return all;
}

expected<void> print_profiles(store& s, const std::string& variant, const context& c) {
  CUDAL1_TRY(const auto verdicts, s.verdicts_of_variant(variant));
  CUDAL1_TRY(const auto profiles, profiles_of(verdicts, c));
  for (const auto& p : profiles) {
    std::string text;
    for (const auto& k : p.kernels) {
      text += wrap(fmt::format("{}: {}, {:.0f}% of its kernels' time; {}", k.kernel, format_time(k.us), 100 * k.share,
                               usage_text(k)),
                   c.out.width, 2) +
              "\n";
      if (!k.stalls.empty()) text += wrap("waits for " + stalls_text(k), c.out.width, 6) + "\n";
      for (const auto& stall : k.stalls)
        text += wrap(stall.words + ": " + stall.advice, c.out.width, 6) + "\n";
    }
    section(c.out, fmt::format("Kernels on {}, by Nsight Compute {}, {}", p.model, p.tool, format_date(p.time_unix_ms)),
            text);
  }
  return {};
}

// `roofs`: one for each environment, null if its specifications are unknown.
expected<int> show_json(store& s, const variant_record& v, const std::vector<verdict>& verdicts, const context& c) {
  json::array environments, roofs;
  std::vector<std::string> seen;
  floor_finder floors;
  const auto record = s.get_task(v.task);
  for (const auto& one : verdicts) {
    if (one.environment_id.empty() || std::find(seen.begin(), seen.end(), one.environment_id) != seen.end()) continue;
    seen.push_back(one.environment_id);
    CUDAL1_TRY(const auto where, s.get_environment(one.environment_id));
    CUDAL1_TRY(const auto roof, roofline_of(record, where, floors));
    environments.push_back(to_json(where));
    roofs.push_back(to_json(roof));
  }
  CUDAL1_TRY(const auto profiles, profiles_of(verdicts, c));
  print_json(c, json::make_object({{"variant", to_json(v)},
                                   {"verdicts", to_json(verdicts)},
                                   {"environments", json(std::move(environments))},
                                   {"roofs", json(std::move(roofs))},
                                   {"profiles", to_json(profiles)}}));
  return exit_code::success;
}

expected<int> show(const show_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const variant_record v, find_shown(*reader, o.variant));
  // These three print only that part, for a file or another program.
  if (o.program) {
    c.out.print(with_newline(v.program));
    return exit_code::success;
  }
  if (o.source) {
    c.out.print(with_newline(parts_of(v).source));
    return exit_code::success;
  }
  if (o.schedule) {
    c.out.print(with_newline(v.schedule));
    return exit_code::success;
  }
  if (o.json) {
    CUDAL1_TRY(const auto verdicts, reader->verdicts_of_variant(v.id));
    return show_json(*reader, v, verdicts, c);
  }
  const auto task = reader->get_task(v.task);
  c.out.print(c.out.bold("Variant " + v.id) + "\n" + print_origin(v, name_of(task, v.task)));
  section(c.out, "Schedule", print_moves(v, c.out));
  section(c.out, "Performance analysis", print_analysis(v, c.out));
  CUDAL1_CHECK(print_verdicts(*reader, task, v.id, c.out));
  CUDAL1_CHECK(print_profiles(*reader, v.id, c));
  const auto parts = parts_of(v);
  section(c.out, "Program", parts.head);
  section(c.out, "CUDA source", parts.source);
  return exit_code::success;
}

void add_show(CLI::App& app, context& c) {
  auto o = std::make_shared<show_options>();
  auto* sub =
      app.add_subcommand("show", "everything about a variant: schedule, verdicts, timing, program, CUDA source");
  sub->add_option("variant", o->variant,
                  "the id, or its first digits (at least 4); or the name of a task, for its best variant")
      ->type_name("VARIANT")
      ->required();
  auto* json = sub->add_flag("--json", o->json, "one JSON document, with all raw samples");
  auto* program = sub->add_flag("--program", o->program, "only the program, as `cudal1 evaluate` takes it");
  auto* source = sub->add_flag("--source", o->source, "only the CUDA source");
  auto* schedule = sub->add_flag("--schedule", o->schedule, "only the schedule");
  for (auto* one : {json, program, source, schedule})
    for (auto* other : {json, program, source, schedule})
      if (one != other) one->excludes(other);
  sub->footer(
      footer("  cudal1 show 3f9a1c2b\n"
             "  cudal1 show softmax       its best variant\n"
             "  cudal1 show 3f9a1c2b --program > variant.cu1 && cudal1 evaluate softmax variant.cu1",
             "  0    printed\n"
             "  2    no id of a variant, or several, begin with these digits, and no evaluated task has that name; or "
             "there is\n"
             "       no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, show(*o, c)); });
}

const command_registration registered_show(80, add_show);

}  // namespace

}  // namespace cudal1::cli
