// cudal1 export: writes the best variant of each task to files.
#include <algorithm>
#include <cctype>
#include <optional>
#include <regex>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/export_folder.hpp"
#include "tools/cli/commands/export_models.hpp"
#include "tools/cli/commands/export_package.hpp"
#include "tools/cli/commands/package_staging.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/precision_option.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct export_options {
  std::string folder, experiment, format = "programs";
  std::string gradients = "error", name, precision, batch;
  std::vector<std::string> tasks;  // by name; all if there are none
  std::vector<std::string> architectures;
  bool all = false, force = false, json = false, no_check = false, for_cpu = false, confined = false;
  double check_seconds = 180;
};

// A line of index.json.
struct exported_task {
  std::string task, id;
  // Files in the folder; "" if the reference itself is the best. `definition`: the task, in blobs/ its content.
  std::string program, verdict, definition;
  best_row best;
};
BOOST_DESCRIBE_STRUCT(exported_task, (), (task, id, program, verdict, definition, best))

struct export_index {
  int64_t format = 1;
  std::string device;
  std::vector<environment> environments;
  std::vector<exported_task> tasks;
};
BOOST_DESCRIBE_STRUCT(export_index, (), (format, device, environments, tasks))

// Task names come from users: replaces what is not safe in a file name.
std::string file_stem(const std::string& task) {
  std::string out;
  for (const char ch : task)
    out += std::isalnum(static_cast<unsigned char>(ch)) != 0 || static_cast<unsigned char>(ch) >= 0x80 || ch == '_' ||
                   ch == '-'
               ? ch
               : '_';
  return out.empty() ? "task" : out;
}

// Evaluates an exported program again. The task is named by its file: a built-in task may have the same name.
std::string evaluation_command(const exported_task& t, const environment& where) {
  const device_traits& traits = traits_of(where.device);
  const std::string measured = traits.replays.empty() ? traits.kind : traits.replays;
  // Else it would take the first GPU, where there is one.
  const std::string device = traits.is_accelerator ? "" : " --device " + measured;
  return fmt::format("cudal1 evaluate {} {}{}\n", t.definition, t.program, device);
}

std::string readme(const search_report& r, const std::vector<exported_task>& tasks) {
  std::string text = "# The fastest variants that cudal1 found\n\n";
  for (const auto& e : r.environments)
    text += describe_device(e) + "\n\n";
  for (const auto& e : r.environments) {
    const auto about = timing_remark(e.device);
    if (about.empty()) continue;
    text += about + "\n\n";
    break;
  }
  text += markdown_table(r) + "\n";
  for (const auto& remark :
       {print_legend(r), print_ill_conditioned(r), print_in_parts(r), print_in_half_precision(r), print_unconfirmed(r)})
    if (!remark.empty()) text += remark + "\n\n";
  text +=
      "Speedups are medians of paired ratios of call time against the task's own program, with their 95% "
      "interval, measured again with fresh pairs. `NAME.cu1` is the program, `NAME.task.json` its task (with the "
      "content of its weights in `blobs/`, if it has any), and `NAME.verdict.json` has the results of the gates and "
      "all raw samples.\n";
  std::string commands;
  for (const auto& t : tasks)
    if (!t.program.empty()) commands += evaluation_command(t, r.environments.front());
  if (commands.empty()) return text;
  return text + "\nTo check and time a program again, in this folder:\n\n```\n" + commands + "```\n";
}

expected<output_file> definition_of(const task_record& record, const std::string& name) {
  CUDAL1_TRY(const json text, json::parse(record.text));
  return output_file{name, text.text(2) + "\n"};
}

expected<std::vector<output_file>> make_files(store& s, const search_report& r) {
  export_index index;
  index.device = r.device;
  index.environments = r.environments;
  std::vector<output_file> files;
  for (const auto& row : r.tasks) {
    exported_task t;
    t.task = row.name;
    t.id = row.task;
    t.best = row;
    if (!row.is_reference) {
      // Two versions of a task may share a name.
      std::string stem = file_stem(row.name);
      for (const auto& file : files)
        if (file.name == stem + ".cu1") stem += "-" + row.task.substr(0, 8);
      t.program = stem + ".cu1";
      t.verdict = stem + ".verdict.json";
      t.definition = stem + ".task.json";
      CUDAL1_TRY(const task_record record, s.get_task(row.task));
      CUDAL1_TRY(files.emplace_back(), definition_of(record, t.definition));
      CUDAL1_TRY(const auto variant, s.get_variant(row.variant));
      CUDAL1_TRY(const auto best, s.best(row.task, looked_at_for_best, store::ranking::confirmed, ranking_of(r)));
      files.push_back({t.program, variant.program + (variant.program.ends_with('\n') ? "" : "\n")});
      for (const auto& candidate : best)
        if (candidate.variant.id == row.variant) {
          CUDAL1_TRY(const auto result, with_details(s, candidate.result));
          files.push_back({t.verdict, to_json(result).text(2) + "\n"});
        }
    }
    index.tasks.push_back(std::move(t));
  }
  files.push_back({"index.json", to_json(index).text(2) + "\n"});
  files.push_back({"README.md", readme(r, index.tasks)});
  return files;
}

// Beside the task files, the content of their weights: linked where the file system allows it.
expected<void> export_blobs(store& s, const search_report& report, const export_folder& folder, const context& c) {
  std::vector<task> tasks;
  for (const auto& row : report.tasks) {
    if (row.is_reference) continue;
    CUDAL1_TRY(const task_record record, s.get_task(row.task));
    CUDAL1_TRY(tasks.emplace_back(), read_task(record.text, record.profile));
  }
  CUDAL1_CHECK(fetch_task_blobs(c, tasks));
  const blobs here(c.data), there(folder.path());
  for (const auto& t : tasks) {
    for (const auto& file : t.content_files())
      if (auto taken = there.take(here.folder(), file); !taken)
        return fail_in("the weights of " + t.name, taken.error());
    if (t.origin && here.has(t.origin->source)) CUDAL1_CHECK(there.take(here.folder(), t.origin->source));
  }
  return {};
}

expected<int> export_programs(store& s, const search_report& report, const export_folder& folder, shown_as form,
                              const context& c) {
  CUDAL1_CHECK(folder.check());
  CUDAL1_TRY(const auto files, make_files(s, report));
  json::array names;
  for (const auto& file : files) {
    CUDAL1_CHECK(folder.write(file));
    names.emplace_back(file.name);
  }
  CUDAL1_CHECK(export_blobs(s, report, folder, c));
  const auto programs = static_cast<int64_t>(
      std::count_if(files.begin(), files.end(), [](const output_file& f) { return f.name.ends_with(".cu1"); }));
  if (form == shown_as::json) {
    print_json(
        c, json::make_object({{"folder", folder.path()}, {"programs", programs}, {"files", json(std::move(names))}}));
    return exit_code::success;
  }
  const auto tasks = static_cast<int64_t>(report.tasks.size());
  c.out.print(fmt::format("{} of {} exported to {} (index.json, README.md)\n", format_count(programs, "program"),
                          format_count(tasks, "task"), folder.path()));
  print_tasks_without_variant(tasks - programs, c);
  return exit_code::success;
}

// "1..256".
expected<std::optional<batch_range>> batch_range_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  static const std::regex form("([1-9][0-9]{0,8})\\.\\.([1-9][0-9]{0,8})");
  std::smatch found;
  if (!std::regex_match(text, found, form) || std::stoll(found[1]) > std::stoll(found[2]))
    return fail(errc::invalid_argument, "--batch is LOW..HIGH, as in 1..256, and was {}", text);
  return batch_range{std::stoll(found[1]), std::stoll(found[2])};
}

// Leaves the tasks that were asked for, by their names, or by how names begin, before a `*`.
expected<void> select_tasks(search_report& report, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const auto is_named = [](const best_row& row, const std::string& name) {
    if (name.ends_with('*')) return row.name.starts_with(std::string_view(name).substr(0, name.size() - 1));
    return row.name == name;
  };
  for (const auto& name : names)
    if (std::ranges::none_of(report.tasks, [&](const best_row& row) { return is_named(row, name); }))
      return fail(errc::not_found, "no evaluated task is named {}; `cudal1 report` lists them", name);
  std::erase_if(report.tasks, [&](const best_row& row) {
    return std::ranges::none_of(names, [&](const std::string& name) { return is_named(row, name); });
  });
  return {};
}

expected<int> export_best(const export_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (o.all && o.format != "kernelbench")
    return fail(errc::invalid_argument, "--all needs --format kernelbench: a reference is the task's own program");
  if (o.no_check && o.format == "programs")
    return fail(errc::invalid_argument,
                "--no-check goes with --format kernelbench, torch or cpp: programs are not checked");
  const bool is_package = o.format == "torch" || o.format == "cpp";
  if (!o.name.empty() && !is_package)
    return fail(errc::invalid_argument, "--name goes with --format torch or cpp: it is the name that Python imports");
  if (o.confined && !is_package) return fail(errc::invalid_argument, "--confined goes with --format torch or cpp");
  if ((o.for_cpu || o.gradients != "error") && o.format != "kernelbench")
    return fail(errc::invalid_argument, "--for-cpu and --gradients go with --format kernelbench");
  if (!o.architectures.empty() && !is_package)
    return fail(errc::invalid_argument,
                "--arch goes with --format torch or cpp: other files are compiled where they run");
  if (!o.batch.empty() && o.format != "torch")
    return fail(errc::invalid_argument, "--batch goes with --format torch: other files are for the tuned shapes alone");
  CUDAL1_TRY(const auto batch, batch_range_of(o.batch));
  std::vector<std::string> architectures;
  for (const auto& name : o.architectures) {
    CUDAL1_TRY(architectures.emplace_back(), architecture_named(name));
  }
  CUDAL1_TRY(auto report, o.experiment.empty() ? report_everything(*reader, "", accuracy_named(o.precision))
                                               : report_experiment(*reader, o.experiment));
  if (report.tasks.empty())
    return fail(errc::not_found, "the store in {} has {}", place_of(c), no_evaluations(o.precision));
  CUDAL1_CHECK(select_tasks(report, o.tasks));
  const auto form = o.json ? shown_as::json : shown_as::text;
  using existing_files = export_folder::existing_files;
  const export_folder folder(o.folder, o.force ? existing_files::overwritten : existing_files::refused);
  if (o.format == "programs") return export_programs(*reader, report, folder, form, c);
  if (is_package)
    return export_package(*reader, report, {o.name, !o.no_check, o.format == "cpp", o.confined, architectures, batch},
                          folder, form, c);
  kernelbench_request request;
  request.which = o.all ? exported_tasks::all : exported_tasks::improved;
  request.check = !o.no_check;
  request.for_cpu = o.for_cpu;
  request.needed_gradients = *enum_value<kernelbench::gradients>(o.gradients);
  request.check_limit_s = o.check_seconds;
  return export_models(*reader, report, std::move(request), folder, form, c);
}

void add_export(CLI::App& app, context& c) {
  auto o = std::make_shared<export_options>();
  auto* sub = app.add_subcommand("export", "write the best confirmed variant of each task to a folder");
  sub->add_option("folder", o->folder, "the folder; created if it does not exist")->type_name("DIR")->required();
  sub->add_option("--experiment", o->experiment, "of this experiment only, as in e3")->type_name("EXPERIMENT");
  add_precision_option(*sub, o->precision,
                       "half: what was accepted in half precision; strict: what was held to strict float32 (default: "
                       "all but half)")
      ->excludes(sub->get_option("--experiment"));
  sub->add_option("--task", o->tasks, "only these tasks, or those whose names begin so, as in net_*; may be repeated")
      ->type_name("TASK");
  sub->add_option("--format", o->format,
                  "programs (the default); kernelbench: Python files with ModelNew that need PyTorch and nvcc alone; "
                  "torch: a package for pip whose modules are the models', with gradients, which needs no compiler; "
                  "cpp: the same with a library and a header, for programs without Python")
      ->check(CLI::IsMember({"programs", "kernelbench", "torch", "cpp"}))
      ->type_name("FORMAT");
  sub->add_flag("--all", o->all, "with --format kernelbench: also tasks whose best is the reference itself");
  sub->add_flag(
      "--no-check", o->no_check,
      "with --format kernelbench, torch or cpp: do not run and compare what is written; its index says unchecked");
  sub->add_flag(
         "--confined", o->confined,
         "with --format torch and --no-check: the models' sources, which are executed, have no network and write "
         "to the folder alone")
      ->needs("--no-check");
  sub->add_option("--name", o->name, "with --format torch or cpp: the name that Python imports; default: the folder's")
      ->type_name("NAME");
  sub->add_option("--arch", o->architectures,
                  "with --format torch or cpp: compile the kernels of GPUs for these architectures, too, as in "
                  "sm_80,sm_90; others are compiled once where they run, which C++ cannot")
      ->delimiter(',')
      ->type_name("ARCH");
  sub->add_option(
         "--batch", o->batch,
         "with --format torch: beside each variant one for every batch size of this range, as in 1..256, where "
         "its moves allow it; it is checked at several sizes, and the range is cut where it is slower than eager")
      ->type_name("LOW..HIGH");
  sub->add_option("--gradients", o->gradients,
                  "with --format kernelbench, where gradients are needed: error (the default), which backward() "
                  "raises, or eager, which runs Model's own forward")
      ->check(CLI::IsMember({"error", "eager"}))
      ->type_name("HOW");
  sub->add_flag(
      "--for-cpu", o->for_cpu,
      "with --format kernelbench: modules for a CPU, of what was searched on cpu: of variants without kernels "
      "of their own, since a file has these for CUDA");
  sub->add_option("--check-seconds", o->check_seconds, "for the check of one file, without its build (180)")
      ->check(CLI::Range(1.0, 86400.0))
      ->type_name("SECONDS");
  sub->add_flag("--force", o->force, "overwrite files in a folder that is not empty; others stay");
  sub->add_flag("--json", o->json, "print what was written as one JSON document");
  sub->footer(footer(
      "  cudal1 export fast_kernels\n"
      "  cudal1 export --experiment e3 fast_kernels --force\n"
      "  cudal1 export --format kernelbench submission && python submission/check.py\n"
      "  cudal1 export --format torch fast_model && pip install ./fast_model\n"
      "  cudal1 export --format cpp fast_model\n"
      "Written are TASK.cu1 (the program), TASK.task.json (the task), TASK.verdict.json (gates, raw samples), "
      "index.json\n"
      "and README.md. Each such file is first built, run and compared as KernelBench does, on the device that it was\n"
      "searched on, in a process of its own: confined on cpu, not on a GPU, where CUDA does not start confined. Where\n"
      "the best variant fails, the next best confirmed one is taken, of each arithmetic (TF32, halves, ...) at most\n"
      "four; and one that is within KernelBench's tolerance before a faster one that is right only because eager "
      "itself\n"
      "is as far off under another algorithm.\n"
      "A file is written when it is checked, and what a check has found is kept in DATA/checks: after Ctrl-C the same\n"
      "command goes on. Delete DATA/checks to have files checked and timed again.",
      "  0    exported\n"
      "  1    no task could be exported, or no file passed its check; the output says why for each\n"
      "  2    the folder is not empty, or there is nothing to export yet\n"
      "  3    the store cannot be read, the folder cannot be written, or files cannot be checked here (no GPU, nvcc "
      "or\n"
      "       PyTorch)\n"
      "  130  interrupted (Ctrl-C): the files that were checked until then are there"));
  sub->callback([o, &c] { finish(c, export_best(*o, c)); });
}

const command_registration registered_export(90, add_export);

}  // namespace

}  // namespace cudal1::cli
