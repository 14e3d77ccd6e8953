#include "tools/cli/commands/run_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/search/policy_registry.hpp"

namespace cudal1::cli {

namespace {

// What is searched.
void add_source_options(CLI::App& command, run_options& o) {
  command
      .add_option(
          "source", o.model.source,
          "PyTorch models to search: a *.py with Model, get_inputs and get_init_inputs, a folder of such files, "
          "a *.jsonl, FILE.py:NAME, package.module:NAME (`cudal1 tasks import --help`); their Python is executed, "
          "unconfined unless with --confined")
      ->type_name("MODEL");
  add_model_options(command, o.model.inputs, o.model.weights, o.model.module);
  add_execution_options(command, o.model.execution);
  command.add_option("--tasks", o.folder, "folder of task files (default: the built-in tasks)")->type_name("DIR");
  command.add_option("--task", o.names, "only these tasks: names, or task files; may be repeated")->type_name("TASK");
  command
      .add_option("--policy", o.policy,
                  fmt::format("what writes variants: {} (default: the configuration's, evolutionary)",
                              fmt::join(policy_names(), ", ")))
      ->type_name("NAME")
      ->check(CLI::IsMember(policy_names()));
}

// When the search ends.
void add_limit_options(CLI::App& command, run_options& o) {
  command.add_option("--evaluations", o.evaluations, "stop after this many evaluations of each task")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      .add_option("--parts", o.parts,
                  "first search each part of the tasks (`cudal1 tasks parts`) by itself, for N evaluations; parts that "
                  "are alike, or known from earlier searches, are measured once. The task then begins with schedules "
                  "put together from the best of its parts. Of --time, the parts get at most half")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      .add_option(
          "--time", o.time,
          "stop searching after this long, as in 90s, 4m, 1h30m. Importing a model, looking where its time goes, the "
          "evaluations in flight at the end and measuring PyTorch take more time than this. After four evaluations "
          "each, tasks get equal shares of the devices' time")
      ->type_name("DURATION");
  command
      .add_option("--device-time", o.device_time,
                  "stop searching a task (and each of its --parts) once its evaluations have held devices for this "
                  "long, as in 6s")
      ->type_name("DURATION");
}

// How it is searched.
void add_search_options(CLI::App& command, run_options& o) {
  command.add_flag("--fresh", o.fresh, "start the policy without what it learned in earlier searches");
  command.add_flag("--uncompared", o.uncompared,
                   "also search imported tasks that could be compared with their models neither at import nor on the "
                   "device; without it they are left out");
  command.add_option("--seed", o.seed, "seed of all random choices; the same seed gives the same proposals")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 62));
  command
      .add_option("--device", o.device,
                  "cpu, cuda:0, ..., a list as in cuda:0,cuda:1, or cuda: every GPU (default: the first GPU, else "
                  "cpu); devices of "
                  "several models are searched by an experiment each, with a table each; "
                  "replay answers from the verdicts of --set replay.source=DIR instead of measuring")
      ->type_name("DEVICE");
  command
      .add_option(
          "--model", o.models,
          "a language model of the policy llm: a Hugging Face folder or a .gguf file, which the node loads itself; "
          "or as its endpoint (llm.url) names it, or a table of models.toml; if repeated, the models take turns "
          "on each task")
      ->type_name("NAME");
  command
      .add_option("--replay-prompts", o.replays,
                  "give the policy the prompts of this experiment again, in their order, with its tasks (or those of "
                  "--task) and limits; a language model is not asked, and needs no endpoint: its kept answers are read")
      ->type_name("EXPERIMENT");
  command
      .add_option("--priority", o.priority,
                  "low, normal or high: its part of the devices' time beside other searches, a quarter or four times "
                  "that of a normal one")
      ->type_name("PRIORITY")
      ->check(CLI::IsMember({"low", "normal", "high"}))
      ->capture_default_str();
}

// Continuing an experiment, and which options go with which.
void add_resume_option(CLI::App& command, run_options& o) {
  auto* resume = command.add_option("--resume", o.resume,
                                    "continue an experiment that was stopped, as in --resume e3, with its own limits");
  resume->type_name("EXPERIMENT");
  for (const auto* flag : {"source", "--inputs", "--weights", "--module", "--tasks", "--task", "--policy", "--parts",
                           "--device", "--model", "--replay-prompts", "--priority"})
    resume->excludes(command.get_option(flag));
  for (const auto* flag : {"source", "--inputs", "--weights", "--module"})
    command.get_option(flag)->excludes(command.get_option("--tasks"));
  for (const auto* flag : {"--inputs", "--weights", "--module", "--confined", "--show-output"})
    command.get_option(flag)->needs(command.get_option("source"));
  for (const auto* flag : {"--parts", "source", "--tasks"})
    command.get_option("--replay-prompts")->excludes(command.get_option(flag));
}

}  // namespace

void add_run_options(CLI::App& command, run_options& o) {
  add_source_options(command, o);
  add_limit_options(command, o);
  add_search_options(command, o);
  add_resume_option(command, o);
}

std::string footer_of_run() {
  return footer(
      "  cudal1 run                                    all built-in tasks\n"
      "  cudal1 run --time 4m                          ... for four minutes\n"
      "  cudal1 run --task softmax --task layer_norm   two of them\n"
      "  cudal1 run model.py                           your own PyTorch model\n"
      "  cudal1 run model.py --module encoder.layers.0 ... one module of it (.: the whole, even if it is slow)\n"
      "  cudal1 run model.py:Block                     ... a class, an object, a factory or a function in it\n"
      "  cudal1 run --tasks my_tasks --evaluations 50  your own tasks\n"
      "  cudal1 run network.py --parts 16              a large one: each of its parts first\n"
      "  cudal1 run --device cuda                      every GPU of every machine; each model has its own table\n"
      "  cudal1 run --resume e3                        after Ctrl-C or a power cut\n"
      "  cudal1 run --model model.gguf                 a language model from a file writes the variants\n"
      "  cudal1 run --device replay --set replay.source=OTHER   what OTHER measured, replayed in seconds\n"
      "  cudal1 run --replay-prompts e1 --device replay         prompts and answers of e1, neither asked nor measured",
      "  0    the search reached its limit; the table was printed\n"
      "  2    the command line, or a task file or name on it, is invalid\n"
      "  3    no node could be reached or started, or the node was lost; or no language model answered\n"
      "  130  Ctrl-C: finished evaluations were kept, and the table so far printed");
}

}  // namespace cudal1::cli
