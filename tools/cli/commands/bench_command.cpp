// cudal1 bench kernelbench, definitions: a whole benchmark in one command.
#include <filesystem>

#include <fmt/format.h>

#include "tools/cli/benchmark_run.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

namespace {

struct bench_options {
  benchmark_request request;
  evaluator_request evaluator;
  std::string folder = "bench";
  bool no_export = false;
};

expected<int> bench(bench_options o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 bench`, which executes models' files,"));
  std::error_code problem;
  for (auto& source : o.request.sources) {
    if (!std::filesystem::exists(source, problem))
      return fail(errc::not_found, "there is no file or folder {}", source);
    source = std::filesystem::absolute(source).lexically_normal().string();
  }
  o.request.exports = !o.no_export;
  auto& checkout = o.evaluator.kernelbench;
  if (!checkout.empty()) {
    if (!std::filesystem::is_directory(checkout, problem))
      return fail(errc::not_found,
                  "there is no folder {}; `git clone https://github.com/ScalingIntelligence/KernelBench`", checkout);
    checkout = std::filesystem::absolute(checkout).lexically_normal().string();
  }
  return run_benchmark(o.request, o.evaluator, std::filesystem::absolute(o.folder).lexically_normal().string(), c);
}

void add_bench(CLI::App& app, context&) {
  auto* sub = app.add_subcommand("bench", "a whole benchmark: import, search, PyTorch's times, checked files, tables");
  sub->require_subcommand(1);
}

constexpr const char* exit_codes =
    "  0    all steps were carried out\n"
    "  1    a step had nothing to show, or refused something; its output says what\n"
    "  2    the command line, a source, or the folder of another benchmark\n"
    "  3    no node, no Python with torch, or a disk\n"
    "  130  Ctrl-C; the same command goes on";

// What all benchmarks have.
void add_benchmark_options(CLI::App& sub, const std::shared_ptr<bench_options>& o) {
  auto& r = o->request;
  sub.add_option("--out", o->folder, "where tasks, files and tables go; the same folder again goes on")
      ->type_name("DIR")
      ->capture_default_str();
  sub.add_option("--only", r.only, "only these: names or prefixes, as in level1_023,level2_017")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES");
  sub.add_option("--device", r.device, "as for `cudal1 run`")->type_name("DEVICE");
  sub.add_option("--policy", r.policy, "as for `cudal1 run`")->type_name("NAME");
  sub.add_option("--evaluations", r.evaluations, "of each task")->type_name("N")->capture_default_str();
  sub.add_option("--time", r.time, "stop searching after this long, as in 10m")->type_name("DURATION");
  sub.add_option("--kinds", r.kinds,
                 "of PyTorch, as for `cudal1 baseline` (default: eager,compile,reduce-overhead,graph on a GPU, eager "
                 "on cpu)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KINDS");
  sub.add_flag("--confined", r.confined, "import the models' Python as `cudal1 tasks import --confined` does");
  sub.add_flag("--no-export", o->no_export, "no files with ModelNew");
  sub.add_option("--set", r.settings, "one setting of the node that is started; may be repeated")
      ->type_name("KEY=VALUE ...")
      ->allow_extra_args(false);
}

void add_bench_kernelbench(CLI::App& app, context& c) {
  auto o = std::make_shared<bench_options>();
  auto* sub = app.add_subcommand("kernelbench",
                                 "KernelBench's problems; their Python is executed, unconfined unless "
                                 "with --confined");
  auto& r = o->request;
  sub->add_option("source", r.sources,
                  "a checkout of KernelBench, folders of problems, problems, or *.jsonl (`cudal1 tasks import --help`)")
      ->type_name("SOURCE ...")
      ->required();
  add_benchmark_options(*sub, o);
  sub->add_option("--level", r.level, "only problems of this level, 1 to 3; 4 downloads its models, and is refused")
      ->type_name("N");
  sub->add_option("--kernelbench", o->evaluator.kernelbench,
                  "a checkout of KernelBench (main, v0.1 or v0), whose own evaluator is then run on the exported files "
                  "(`cudal1 bench evaluator --help`)")
      ->type_name("DIR");
  sub->add_option("--timeout", o->evaluator.timeout, "for that evaluator: of a file's build, and of its evaluation")
      ->type_name("DURATION");
  sub->footer(footer(
      "  cudal1 bench kernelbench KernelBench/KernelBench/level1 KernelBench/KernelBench/level2 --time 20m\n"
      "  cudal1 bench kernelbench problems.jsonl --level 2 --device cuda --out kb2\n"
      "  cudal1 bench kernelbench problems.jsonl --level 2 --device cuda --out kb2     after Ctrl-C: it goes on\n"
      "  cudal1 bench kernelbench KernelBench --level 3 --kernelbench KernelBench      and by its own evaluator\n"
      "Each step is a command that is shown, and may be typed by itself. What was searched and measured is in "
      "the data folder.",
      exit_codes));
  sub->callback([o, &c] { finish(c, bench(*o, c)); });
}

void add_bench_definitions(CLI::App& app, context& c) {
  auto o = std::make_shared<bench_options>();
  o->request.definitions = true;
  auto* sub = app.add_subcommand("definitions",
                                 "FlashInfer-Bench and SOL-ExecBench; their references are executed, unconfined unless "
                                 "with --confined");
  sub->add_option("source", o->request.sources,
                  "folders of definitions with their workloads, or definitions (`cudal1 tasks import --help`)")
      ->type_name("SOURCE ...")
      ->required();
  add_benchmark_options(*sub, o);
  sub->add_option("--timeout", o->evaluator.timeout, "of one solution on one workload, in the set's own runner")
      ->type_name("DURATION");
  sub->footer(footer(
      "  cudal1 bench definitions flashinfer-trace --only rmsnorm_h4096,gemm_n4096_k4096 --time 20m\n"
      "  cudal1 bench definitions SOL-ExecBench/benchmark/L1 --device cuda --out sol\n"
      "The steps are those of `cudal1 bench kernelbench`; after the export the files are written as solutions, which "
      "the\n"
      "set's own package checks and runs where it is installed (`cudal1 bench solutions --help`).",
      exit_codes));
  sub->callback([o, &c] { finish(c, bench(*o, c)); });
}

const command_registration registered_bench(95, add_bench);
const command_registration registered_bench_kernelbench(96, add_bench_kernelbench, "bench");
const command_registration registered_bench_definitions(98, add_bench_definitions, "bench");

}  // namespace

}  // namespace cudal1::cli
