#include "tools/cli/commands/export_models.hpp"

#include <utility>

#include <fmt/format.h>

#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

// How far the export is: one line that is redrawn on a terminal, a line for each task elsewhere.
class export_view {
 public:
  explicit export_view(const context& c) : c_(c), area_(c.err.stream) {}

  void show(const export_progress& p) {
    const auto line = fmt::format("{}: {}", p.task, p.outcome);
    if (!c_.err.live) return note(c_, fmt::format("{}; {}", line, progress_text(p)));
    if (p.outcome != "checked") area_.print_above(c_.err.dim(line) + "\n");
    area_.draw({fmt::format("checking files: {}; Ctrl-C keeps what is done", progress_text(p))});
  }
  void close() { area_.erase(); }

 private:
  const context& c_;
  live_area area_;
};

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

void print_exported(const kernelbench_files& made, const search_report& report, const kernelbench_request& request,
                    const std::string& folder, const context& c) {
  const auto tasks = format_count(static_cast<int64_t>(report.tasks.size()), "task");
  if (made.models == 0) {
    c.out.print(fmt::format("0 models of {}: nothing was written to {}\n", tasks, folder));
    return;
  }
  c.out.print(fmt::format("{} of {} exported to {}, {} (check.py, index.json, README.md)\n",
                          format_count(made.models, "model"), tasks, folder,
                          request.check ? "checked as KernelBench does" : "UNCHECKED"));
  if (const auto python = find_python())
    c.out.print(c.out.dim(fmt::format("Next: `{} {}/check.py`, or another Python with torch.", *python, folder)) +
                "\n");
}

json document_of(const kernelbench_files& made, const kernelbench_request& request, const std::string& folder) {
  json::array refusals(made.refusals.begin(), made.refusals.end()), names(made.names.begin(), made.names.end());
  return json::make_object({{"folder", folder},
                            {"models", made.models},
                            {"checked", request.check},
                            {"complete", made.index.complete},
                            {"files", json(std::move(names))},
                            {"refusals", json(std::move(refusals))}});
}

int code_of(const kernelbench_files& made) {
  if (!made.index.complete) return exit_code::interrupted;
  return made.models > 0 || made.refusals.empty() ? exit_code::success : exit_code::negative;
}

}  // namespace

void print_tasks_without_variant(int64_t left, const context& c) {
  if (left > 0)
    c.out.print(fmt::format("{} without a variant: the reference itself is the best\n", format_count(left, "task")));
}

expected<int> export_models(store& s, const search_report& report, kernelbench_request request,
                            const export_folder& folder, shown_as form, const context& c) {
  CUDAL1_CHECK(folder.check());  // before minutes of checks
  CUDAL1_CHECK(fetch_reported_blobs(s, report, c));
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  export_view view(c);
  request.data = c.data;
  request.stop_fd = interrupt.fd();
  request.write = [&](const output_file& file) { return folder.write(file); };
  request.progress = [&](const export_progress& p) { view.show(p); };
  const auto made = make_kernelbench_files(s, report, request);
  view.close();
  if (!made) return tl::unexpected(made.error());
  if (form == shown_as::json) {
    print_json(c, document_of(*made, request, folder.path()));
    return code_of(*made);
  }
  print_exported(*made, report, request, folder.path(), c);
  print_tasks_without_variant(made->without, c);
  say_about_models(*made, c);
  for (const auto& refusal : made->refusals)
    c.out.print(fmt::format("not exported: {}\n", refusal));
  return code_of(*made);
}

}  // namespace cudal1::cli
