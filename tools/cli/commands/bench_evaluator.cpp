// cudal1 bench evaluator: KernelBench's own evaluator on exported files.
#include <filesystem>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/evaluator_results.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

namespace {

struct evaluator_options {
  std::string exported, kernelbench, device = "cuda:0", timeout = "10m";
  int64_t jobs = 0, trials = 100;
  bool json = false;
};

expected<int> evaluate_exports(const evaluator_options& o, const context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 bench evaluator`, which executes exported files,"));
  CUDAL1_TRY(const double limit_s, parse_duration(o.timeout));
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("evaluate_exports.py"));
  const auto results = (std::filesystem::path(o.exported) / "evaluator.json").string();
  std::vector<std::string> words{o.exported,
                                 "--kernelbench",
                                 o.kernelbench,
                                 "--out",
                                 results,
                                 "--device",
                                 o.device,
                                 "--timeout",
                                 fmt::format("{}", limit_s),
                                 "--trials",
                                 std::to_string(o.trials)};
  if (o.jobs > 0) words.insert(words.end(), {"--jobs", std::to_string(o.jobs)});
  CUDAL1_TRY(const auto ended, run_python(python, script, words));
  if (ended.code == exit_code::interrupted) note(c, "what is evaluated is kept; the same command goes on");
  if (ended.code != exit_code::success && ended.code != exit_code::negative) {
    if (ended.code == exit_code::usage || ended.code == exit_code::infrastructure ||
        ended.code == exit_code::interrupted)
      return ended.code;
    return fail(errc::infrastructure, "{} ended with exit code {}; what it printed says why", script, ended.code);
  }
  CUDAL1_TRY(const auto found, read_evaluator_results(results));
  if (o.json) {
    auto document = to_json(found);
    print_json(c, json::make_object({{"evaluator", std::move(document)}, {"summaries", to_json(summaries_of(found))}}));
  } else {
    c.out.print(evaluator_text(found, c.out));
  }
  return ended.code;
}

void add_bench_evaluator(CLI::App& app, context& c) {
  auto o = std::make_shared<evaluator_options>();
  auto* sub = app.add_subcommand("evaluator",
                                 "KernelBench's own evaluator, unchanged, on exported files, which it executes "
                                 "unconfined on a GPU");
  sub->add_option("exported", o->exported, "the folder that `cudal1 export --format kernelbench` wrote")
      ->type_name("DIR")
      ->required();
  sub->add_option("--kernelbench", o->kernelbench,
                  "a checkout of KernelBench: main, v0.1 or v0 (`git clone "
                  "https://github.com/ScalingIntelligence/KernelBench`)")
      ->type_name("DIR")
      ->required();
  sub->add_option("--device", o->device, "the GPU")->type_name("DEVICE")->capture_default_str();
  sub->add_option("--timeout", o->timeout, "of a file's build, and again of its evaluation")
      ->type_name("DURATION")
      ->capture_default_str();
  sub->add_option("--jobs", o->jobs, "builds at a time, before anything is timed (default: half of the cores)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  sub->add_option("--trials", o->trials, "timed calls of each file, and of eager")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->capture_default_str();
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(footer(
      "  cudal1 export submission --format kernelbench\n"
      "  cudal1 bench evaluator submission --kernelbench KernelBench\n"
      "  cudal1 report --html page.html --evaluator submission/evaluator.json\n"
      "A file is built and evaluated in processes of its own, one at a time on the GPU: five draws, compared at 1e-4 "
      "(main) or\n"
      "1e-2 (v0, v0.1), then the timed calls. What is accepted or refused is kept in DIR/evaluator, so that the same "
      "command\n"
      "goes on; crashes and time limits are tried again. DIR/evaluator.json has the results. The Python of `cudal1 "
      "doctor` runs\n"
      "it, and needs numpy and pydantic, too.",
      "  0    all files were accepted\n"
      "  1    a file was refused, or could not be judged\n"
      "  2    the command line, or a folder without exported files\n"
      "  3    no GPU, no checkout, no Python with torch 2.11, numpy and pydantic\n"
      "  130  Ctrl-C; the same command goes on"));
  sub->callback([o, &c] { finish(c, evaluate_exports(*o, c)); });
}

const command_registration registered_bench_evaluator(97, add_bench_evaluator, "bench");

}  // namespace

}  // namespace cudal1::cli
