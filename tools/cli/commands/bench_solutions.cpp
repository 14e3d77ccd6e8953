// cudal1 bench solutions: exported files as solutions of FlashInfer-Bench and SOL-ExecBench.
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct solution_options {
  std::string exported, timeout = "5m";
  std::vector<std::string> definitions;
  bool json = false;
};

// What a set's own runner says of a solution on one workload.
struct workload_result {
  std::string set, definition, workload;
  std::map<std::string, int64_t> axes;
  std::string status;  // PASSED, INCORRECT_NUMERICAL, ...
  double ms = 0, reference_ms = 0, speedup = 0;
  std::string log;
};
BOOST_DESCRIBE_STRUCT(workload_result, (), (set, definition, workload, axes, status, ms, reference_ms, speedup, log))

struct written_solution {
  std::string set, definition, file;
  std::string schema;  // valid, unchecked, or what the set's package refuses
  std::string note;    // why its runner was not used
  std::vector<workload_result> results;
};
BOOST_DESCRIBE_STRUCT(written_solution, (), (set, definition, file, schema, note, results))

struct written_solutions {
  std::vector<written_solution> solutions;
};
BOOST_DESCRIBE_STRUCT(written_solutions, (), (solutions))

std::string axes_text(const std::map<std::string, int64_t>& axes) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : axes)
    parts.push_back(fmt::format("{} {}", name, size));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_solutions(const written_solutions& all, const context& c) {
  table files({{.title = "definition", .least_width = 16}, {.title = "set"}, {.title = "schema"}, {.title = "file"}});
  table results({{.title = "definition", .least_width = 16},
                 {.title = "axes", .least_width = 12},
                 {.title = "its runner"},
                 {.title = "reference", .right = true},
                 {.title = "ours", .right = true},
                 {.title = "speedup", .right = true}});
  for (const auto& s : all.solutions) {
    files.add({s.definition, s.set, s.schema, s.file});
    for (const auto& r : s.results)
      results.add({r.definition, axes_text(r.axes), r.status, format_time(1000 * r.reference_ms),
                   format_time(1000 * r.ms), r.speedup > 0 ? format_speedup(r.speedup) : "-"});
  }
  c.out.print(files.text(c.out));
  if (!results.empty()) c.out.print("\n" + results.text(c.out));
}

expected<int> write_solutions(const solution_options& o, const context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 bench solutions`, which executes exported files,"));
  CUDAL1_TRY(const double limit_s, parse_duration(o.timeout));
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("write_solutions.py"));
  const auto report = (std::filesystem::path(o.exported) / "solutions.json").string();
  std::vector<std::string> words{o.exported, "--timeout", fmt::format("{}", limit_s), "--report", report};
  for (const auto& place : o.definitions)
    words.insert(words.end(), {"--definitions", place});
  CUDAL1_TRY(const auto ended, run_python(python, script, words));
  if (ended.code == exit_code::usage) return ended.code;
  if (ended.code != exit_code::success && ended.code != exit_code::negative)
    return fail(errc::infrastructure, "{} ended with exit code {}; what it printed says why", script, ended.code);
  CUDAL1_TRY(const std::string text, read_text_file(report));
  CUDAL1_TRY(const auto all, from_text<written_solutions>(text));
  if (o.json) {
    print_json(c, to_json(all));
  } else {
    print_solutions(all, c);
  }
  return ended.code;
}

void add_bench_solutions(CLI::App& app, context& c) {
  auto o = std::make_shared<solution_options>();
  auto* sub = app.add_subcommand("solutions",
                                 "exported files as solutions of FlashInfer-Bench and SOL-ExecBench, checked by their "
                                 "own packages where these are installed");
  sub->add_option("exported", o->exported,
                  "the folder that `cudal1 export --format kernelbench` wrote, of tasks that were imported from "
                  "definitions")
      ->type_name("DIR")
      ->required();
  sub->add_option("--definitions", o->definitions,
                  "definitions, or folders of them with their workloads: with them the set's own runner evaluates each "
                  "solution, unconfined on a GPU")
      ->type_name("PATH")
      ->allow_extra_args(false);
  sub->add_option("--timeout", o->timeout, "of one solution on one workload, in that runner")
      ->type_name("DURATION")
      ->capture_default_str();
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(footer(
      "  cudal1 tasks import flashinfer-trace --only rmsnorm_h4096 --out rms\n"
      "  cudal1 run --tasks rms --device cuda:0 --time 5m\n"
      "  cudal1 export submission --format kernelbench\n"
      "  cudal1 bench solutions submission --definitions flashinfer-trace\n"
      "A solution has a program for each workload that was exported, chosen by shapes, types and numbers of the "
      "inputs; "
      "others\n"
      "run the definition's reference. It is DIR/solutions/SET/DEFINITION.json, and needs PyTorch and nvcc. The "
      "schemas "
      "and\n"
      "runners are those of flashinfer-bench (`pip install flashinfer-bench`) and sol-execbench (from its repository).",
      "  0    written; nothing was refused\n"
      "  1    a set's schema or its runner refuses one\n"
      "  2    the folder has no file of a definition's task\n"
      "  3    no Python with torch 2.11"));
  sub->callback([o, &c] { finish(c, write_solutions(*o, c)); });
}

const command_registration registered_bench_solutions(99, add_bench_solutions, "bench");

}  // namespace

}  // namespace cudal1::cli
