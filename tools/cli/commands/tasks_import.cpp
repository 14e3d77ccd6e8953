// cudal1 tasks import: imports PyTorch models as tasks.
#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/table.hpp"
#include "tools/kernelbench/model_import.hpp"

namespace cudal1::cli {

namespace {

struct import_options {
  import_request request;
  bool json = false;
};

std::string compared_text(const imported_task& t) {
  if (!t.verified) return "uncompared";
  return t.rounding > 0 ? fmt::format("to {:.1e}", t.rounding) : "same bits";
}

void print_report(const import_report& report, const std::string& folder, const terminal& out) {
  table list({{.title = "task", .least_width = 12},
              {.title = "family"},
              {.title = "steps", .right = true},
              {.title = "weights", .right = true},
              {.title = "weight bytes", .right = true},
              {.title = "compared"}});
  int64_t compared = 0, rewritings = 0;
  for (const auto& t : report.imported) {
    compared += t.verified ? 1 : 0;
    rewritings += t.rewritings;
    list.add({t.name, t.family, std::to_string(t.steps), std::to_string(t.weights),
              format_bytes(static_cast<double>(t.weight_bytes)), compared_text(t)});
  }
  if (!list.empty()) out.print(list.text(out) + "\n");
  for (const auto& note : notes_of(report))
    out.print(note + "\n");
  for (const auto& r : report.refused)
    out.print(fmt::format("{} was refused: {}\n", r.name, r.reason));
  out.print(
      fmt::format("{} in {}, {} of them compared with their models on the CPU; {} refused. Of the recorded steps {} "
                  "were run before "
                  "and after.\n",
                  format_count(static_cast<int64_t>(report.imported.size()), "task"), folder, compared,
                  report.refused.size(), format_count(rewritings, "rewriting")));
  if (compared < std::ssize(report.imported))
    out.print(
        wrap("uncompared: nothing has shown yet that the task computes what its model does; `cudal1 run` compares "
             "them first, on its device.",
             out.width, 0) +
        "\n");
  if (!report.imported.empty()) out.print(out.dim(fmt::format("Next: `cudal1 run --tasks {}`.", folder)) + "\n");
}

expected<int> import_tasks(const import_options& o, context& c) {
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  import_request request = o.request;
  request.execution.wake_fd = interrupt.fd();
  CUDAL1_TRY(const auto report, import_models(request));
  if (o.json) {
    print_json(c, to_json(report));
  } else {
    print_report(report, o.request.out, c.out);
  }
  return report.refused.empty() ? exit_code::success : exit_code::negative;
}

void add_tasks_import(CLI::App& tasks, context& c) {
  auto o = std::make_shared<import_options>();
  auto* sub = tasks.add_subcommand(
      "import", "import PyTorch models as tasks; executes their Python, unconfined unless with --confined");
  sub->add_option("source", o->request.sources,
                  "a KernelBench problem, any Python file with Model, get_inputs and get_init_inputs, a folder of such "
                  "files, JSON lines with level, problem_id and code, FILE.py:NAME or package.module:NAME, or a "
                  "definition (JSON) of FlashInfer-Bench or SOL-ExecBench, or a folder of those")
      ->required()
      ->type_name("SOURCE");
  add_model_options(*sub, o->request.inputs, o->request.weights, o->request.module);
  add_execution_options(*sub, o->request.execution);
  sub->add_option("--out", o->request.out,
                  "where to write NAME.json for each task, and blobs/ with weights and sources")
      ->required()
      ->type_name("DIR");
  sub->add_option("--only", o->request.only, "only these: names or prefixes of names, as in level1_023,level2_017")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub->add_option("--workloads", o->request.workloads,
                  "JSON lines with the workloads of a definition; else those beside it: workload.jsonl, or "
                  "workloads/OP/NAME.jsonl for definitions/OP/NAME.json")
      ->type_name("FILE");
  sub->add_option("--level", o->request.level, "only KernelBench's problems of this level")->type_name("N");
  sub->add_option("--jobs", o->request.jobs, "number of processes (default: half of the cores)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"imported"});
  sub->footer(footer(
      "  cudal1 tasks import KernelBench/KernelBench/level1 --out kb1\n"
      "  cudal1 tasks import my_model.py --out my_tasks\n"
      "  cudal1 tasks import blocks.py:SwiGLU --out my_tasks\n"
      "  cudal1 tasks import my_package.blocks:make_block --inputs examples.py:small --weights block.pt --out "
      "my_tasks\n"
      "  cudal1 tasks import problems.jsonl --level 2 --out kb2\n"
      "  cudal1 tasks import flashinfer-trace --only rmsnorm_h4096 --out rms      a task for each workload\n\n"
      "NAME is a torch.nn.Module's class (made without arguments, or with those that get_init_inputs() gives), a "
      "module, a\n"
      "function that makes one, or a function of tensors. What it is called with is the result, or the value, of "
      "--inputs,\n"
      "else of NAME.example_inputs, else of example_inputs or get_inputs beside it: a tensor, a tuple or a list by "
      "position,\n"
      "a dict by keyword; tuples, lists, dicts and dataclasses may be nested, and numbers, booleans and None are part "
      "of the\n"
      "task. If it yields, each example becomes a task of its own, and they share the file of weights.\n\n"
      "The files are executed, as you and (without --confined) without a sandbox: import only what you would run. "
      "Needs\n"
      "a Python with torch 2.11: $CUDAL1_PYTHON, else that of the environment that LibTorch is from, else python3.",
      "  0    all models were imported\n"
      "  1    some models were refused (the output says why), the others imported\n"
      "  2    a source does not exist, or there is no Python with torch 2.11"));
  sub->callback([o, &c] { finish(c, import_tasks(*o, c)); });
}

const command_registration registered_tasks_import(45, add_tasks_import, "tasks");

}  // namespace

}  // namespace cudal1::cli
