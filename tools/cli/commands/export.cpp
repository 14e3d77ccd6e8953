// cudal1 export: writes the best variant of each task to files.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/export_kernelbench.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

struct export_options {
  std::string folder, experiment, format = "programs";
  std::string gradients = "error";
  std::vector<std::string> tasks;  // by name; all if there are none
  bool all = false, force = false, json = false, no_check = false, for_cpu = false;
  double check_seconds = 180;
};

// A line of index.json.
struct exported_task {
  std::string task, id;
  std::string program, verdict;  // files in the folder; "" if the reference itself is the best
  best_row best;
};
BOOST_DESCRIBE_STRUCT(exported_task, (), (task, id, program, verdict, best))

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
    out += std::isalnum(static_cast<unsigned char>(ch)) != 0 || ch == '_' || ch == '-' ? ch : '_';
  return out.empty() ? "task" : out;
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
  if (const auto legend = print_legend(r); !legend.empty()) text += legend + "\n\n";
  text +=
      "Speedups are medians of paired ratios of call time against the task's own program, with their 95% "
      "interval, measured again with fresh pairs. `NAME.cu1` is the program: `cudal1 evaluate NAME NAME.cu1` checks "
      "and times it; `NAME.verdict.json` has the results of the gates and all raw samples.\n";
  std::string listing;
  for (const auto& t : tasks)
    if (!t.program.empty()) listing += fmt::format("- {}: `{}`, `{}`\n", t.task, t.program, t.verdict);
  return text + (listing.empty() ? "" : "\n" + listing);
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
      CUDAL1_TRY(const auto variant, s.get_variant(row.variant));
      CUDAL1_TRY(const auto best, s.best(row.task, looked_at_for_best, store::ranking::confirmed, r.experiment));
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

// Atomic: writes a temporary file in the same folder, then renames it.
expected<void> write_file(const fs::path& path, const std::string& text) {
  const fs::path beside = path.string() + ".new";
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  if (problem) return fail(errc::io_error, "cannot make {}: {}", path.parent_path().string(), problem.message());
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) return fail(errc::io_error, "cannot write {}: {}", beside.string(), std::strerror(errno));
  }
  fs::rename(beside, path, problem);
  if (problem) return fail(errc::io_error, "cannot write {}: {}", path.string(), problem.message());
  return {};
}

// What does not depend on the exported files, so that it can be checked before they are made.
expected<void> check_folder(const export_options& o) {
  std::error_code problem;
  if (fs::exists(o.folder, problem) && !fs::is_directory(o.folder, problem))
    return fail(errc::already_exists, "{} is a file; name a folder to export to", o.folder);
  if (fs::is_directory(o.folder, problem) && !fs::is_empty(o.folder, problem) && !o.force)
    return fail(errc::already_exists, "{} is not empty; name a new folder, or overwrite with --force", o.folder);
  return {};
}

expected<void> prepare_folder(const export_options& o) {
  CUDAL1_CHECK(check_folder(o));
  std::error_code problem;
  fs::create_directories(o.folder, problem);
  if (problem) return fail(errc::io_error, "cannot create the folder {}: {}", o.folder, problem.message());
  return {};
}

// Nothing of none, so that the same folder can be named again.
expected<json> write_files(const export_options& o, const std::vector<output_file>& files) {
  if (files.empty()) return json(json::array());
  CUDAL1_CHECK(prepare_folder(o));
  json::array names;
  names.reserve(files.size());
  for (const auto& file : files) {
    CUDAL1_CHECK(write_file(fs::path(o.folder) / file.name, file.text));
    names.emplace_back(file.name);
  }
  return json(std::move(names));
}

void print_tasks_without_variant(int64_t left, const context& c) {
  if (left > 0)
    c.out.print(fmt::format("{} without a variant: the reference itself is the best\n", format_count(left, "task")));
}

expected<int> export_programs(store& s, const search_report& report, const export_options& o, const context& c) {
  CUDAL1_TRY(const auto files, make_files(s, report));
  CUDAL1_TRY(auto names, write_files(o, files));
  const auto programs = static_cast<int64_t>(
      std::count_if(files.begin(), files.end(), [](const output_file& f) { return f.name.ends_with(".cu1"); }));
  if (o.json) {
    print_json(c, json::make_object({{"folder", o.folder}, {"programs", programs}, {"files", std::move(names)}}));
    return exit_code::success;
  }
  const auto tasks = static_cast<int64_t>(report.tasks.size());
  c.out.print(fmt::format("{} of {} exported to {} (index.json, README.md)\n", format_count(programs, "program"),
                          format_count(tasks, "task"), o.folder));
  print_tasks_without_variant(tasks - programs, c);
  return exit_code::success;
}

// What people must know of the files beside their number.
void say_about_models(const kernelbench_files& made, const context& c) {
  for (const auto& warning : warnings_of(made.index))
    note(c, "warning: " + warning);
  int64_t library_only = 0;
  for (const auto& m : made.index.tasks) {
    if (m.file.empty()) continue;
    if (m.library_only) ++library_only;
    for (const auto& f : m.failed)
      c.out.print(fmt::format("{}: variant {} failed the check: {}\n", m.task, f.variant.substr(0, 12), f.problem));
    for (const auto& text : {conditioning_note(m), call_time_note(m)})
      if (!text.empty()) c.out.print(fmt::format("{}: {}\n", m.task, text));
    for (const auto& words : m.refused_words)
      c.out.print(fmt::format("{}: KernelBench's static checker refuses it: {}\n", m.task, words));
  }
  if (library_only > 0)
    c.out.print(fmt::format("{} library-only: no `__global__`, which KernelBench's static checker asks for\n",
                            format_count(library_only, "model")));
}

// The sources and weights that the files are made of.
expected<void> fetch_reported_blobs(store& s, const search_report& report, const context& c) {
  if (!c.coordinator) return {};
  std::vector<task> tasks;
  for (const auto& row : report.tasks) {
    CUDAL1_TRY(const task_record record, s.get_task(row.task));
    CUDAL1_TRY(tasks.emplace_back(), read_task(record.text, record.profile));
  }
  return fetch_task_blobs(c, tasks);
}

void print_exported(const kernelbench_files& made, const search_report& report, const export_options& o,
                    const context& c) {
  const auto tasks = format_count(static_cast<int64_t>(report.tasks.size()), "task");
  if (made.models == 0) {
    c.out.print(fmt::format("0 models of {}: nothing was written to {}\n", tasks, o.folder));
    return;
  }
  c.out.print(fmt::format("{} of {} exported to {}, {} (check.py, index.json, README.md)\n",
                          format_count(made.models, "model"), tasks, o.folder,
                          o.no_check ? "UNCHECKED" : "checked as KernelBench does"));
  if (const auto python = find_python())
    c.out.print(c.out.dim(fmt::format("Next: `{} {}/check.py`, or another Python with torch.", *python, o.folder)) +
                "\n");
}

expected<int> export_models(store& s, const search_report& report, const export_options& o, const context& c) {
  CUDAL1_CHECK(check_folder(o));  // before minutes of checks
  CUDAL1_CHECK(fetch_reported_blobs(s, report, c));
  kernelbench_request request{.data = c.data,
                              .which = o.all ? exported_tasks::all : exported_tasks::improved,
                              .check = !o.no_check,
                              .for_cpu = o.for_cpu,
                              .needed_gradients = *enum_value<kernelbench::gradients>(o.gradients),
                              .check_limit_s = o.check_seconds,
                              .progress = [&](const std::string& line) { note(c, line); }};
  CUDAL1_TRY(auto made, make_kernelbench_files(s, report, request));
  if (made.models == 0) made.files.clear();
  CUDAL1_TRY(auto names, write_files(o, made.files));
  const int code = made.models > 0 || made.refusals.empty() ? exit_code::success : exit_code::negative;
  if (o.json) {
    json::array refusals(made.refusals.begin(), made.refusals.end());
    print_json(c, json::make_object({{"folder", o.folder},
                                     {"models", made.models},
                                     {"checked", request.check},
                                     {"files", std::move(names)},
                                     {"refusals", json(std::move(refusals))}}));
    return code;
  }
  print_exported(made, report, o, c);
  print_tasks_without_variant(made.without, c);
  say_about_models(made, c);
  for (const auto& refusal : made.refusals)
    c.out.print(fmt::format("not exported: {}\n", refusal));
  return code;
}

// Leaves the tasks that were asked for.
expected<void> select_tasks(search_report& report, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  for (const auto& name : names)
    if (std::ranges::none_of(report.tasks, [&](const best_row& row) { return row.name == name; }))
      return fail(errc::not_found, "no evaluated task is named {}; `cudal1 report` lists them", name);
  std::erase_if(report.tasks, [&](const best_row& row) { return std::ranges::find(names, row.name) == names.end(); });
  return {};
}

expected<int> export_best(const export_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (o.all && o.format != "kernelbench")
    return fail(errc::invalid_argument, "--all needs --format kernelbench: a reference is the task's own program");
  if (o.no_check && o.format != "kernelbench")
    return fail(errc::invalid_argument, "--no-check goes with --format kernelbench: programs are not checked again");
  if ((o.for_cpu || o.gradients != "error") && o.format != "kernelbench")
    return fail(errc::invalid_argument, "--for-cpu and --gradients go with --format kernelbench");
  CUDAL1_TRY(auto report, o.experiment.empty() ? report_everything(*reader) : report_experiment(*reader, o.experiment));
  if (report.tasks.empty())
    return fail(errc::not_found, "the store in {} has no evaluations yet; `cudal1 run` starts a search", place_of(c));
  CUDAL1_CHECK(select_tasks(report, o.tasks));
  return o.format == "kernelbench" ? export_models(*reader, report, o, c) : export_programs(*reader, report, o, c);
}

void add_export(CLI::App& app, context& c) {
  auto o = std::make_shared<export_options>();
  auto* sub = app.add_subcommand("export", "write the best confirmed variant of each task to a folder");
  sub->add_option("folder", o->folder, "the folder; created if it does not exist")->type_name("DIR")->required();
  sub->add_option("--experiment", o->experiment, "of this experiment only, as in e3")->type_name("EXPERIMENT");
  sub->add_option("--task", o->tasks, "only these tasks; may be repeated")->type_name("NAME");
  sub->add_option("--format", o->format,
                  "programs (the default), or kernelbench: Python files with ModelNew that need PyTorch and nvcc alone")
      ->check(CLI::IsMember({"programs", "kernelbench"}))
      ->type_name("FORMAT");
  sub->add_flag("--all", o->all, "with --format kernelbench: also tasks whose best is the reference itself");
  sub->add_flag("--no-check", o->no_check,
                "with --format kernelbench: do not build, run and compare the files; the index says unchecked");
  sub->add_option("--gradients", o->gradients,
                  "with --format kernelbench, where gradients are needed: error (the default), which backward() "
                  "raises, or eager, which runs Model's own forward")
      ->check(CLI::IsMember({"error", "eager"}))
      ->type_name("HOW");
  sub->add_flag("--for-cpu", o->for_cpu,
                "with --format kernelbench: what was searched on cpu is for a CPU, so do not warn of that");
  sub->add_option("--check-seconds", o->check_seconds, "for the check of one file, without its build (180)")
      ->check(CLI::Range(1.0, 86400.0))
      ->type_name("SECONDS");
  sub->add_flag("--force", o->force, "overwrite files in a folder that is not empty; others stay");
  sub->add_flag("--json", o->json, "print what was written as one JSON document");
  sub->footer(footer(
      "  cudal1 export fast_kernels\n"
      "  cudal1 export --experiment e3 fast_kernels --force\n"
      "  cudal1 export --format kernelbench submission && python submission/check.py\n"
      "Written are TASK.cu1 (the program), TASK.verdict.json (gates, raw samples), index.json and README.md; for\n"
      "KernelBench runs/cudal1_levelL/level_L_problem_P_sample_0_kernel.py of each imported task, check.py, "
      "index.json\n"
      "and README.md. Each such file is first built, run and compared as KernelBench does, on the device that it was\n"
      "searched on, in a process of its own: confined on cpu, not on a GPU, where CUDA does not start confined. Where\n"
      "the best variant fails, the next best confirmed one is taken; and one that is within KernelBench's tolerance\n"
      "before a faster one that is right only because eager itself is as far off under another algorithm.",
      "  0    exported\n"
      "  1    no task could be exported, or no file passed its check; the output says why for each\n"
      "  2    the folder is not empty, or there is nothing to export yet\n"
      "  3    the store cannot be read, the folder cannot be written, or files cannot be checked here (no GPU, nvcc "
      "or\n"
      "       PyTorch)"));
  sub->callback([o, &c] { finish(c, export_best(*o, c)); });
}

const command_registration registered_export(90, add_export);

}  // namespace

}  // namespace cudal1::cli
