// cudal1 evaluate: evaluates hand-written programs and schedules with the same checks, timing and store as a search.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/hand_variants.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/replay_choice.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/row_parts.hpp"
#include "tools/cli/report/verdict_text.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/cli/verdict_request.hpp"
#include "tools/kernelbench/kept_files.hpp"
#include "tools/kernelbench/submission_referee.hpp"

namespace cudal1::cli {

namespace {

struct evaluate_options {
  std::string task;
  std::vector<std::string> programs, schedules;
  std::string folder, device;
  node_flags node;
  bool json = false;
};

// Rejects other files early: program_limits allows a program 4 MiB.
constexpr std::uintmax_t largest_program = 8 << 20;

expected<std::string> read_text(const std::string& path) {
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  if (problem) return fail(errc::not_found, "cannot read the program {}: {}", path, problem.message());
  if (size > largest_program)
    return fail(errc::invalid_argument, "{} has {}; a program has at most 4 MiB", path,
                format_bytes(static_cast<double>(size)));
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) return fail(errc::io_error, "cannot read the program {}", path);
  return text;
}

// What is to be evaluated: a file's text, or what a schedule is lowered to.
struct candidate {
  std::string name, origin, text;
};

expected<std::vector<candidate>> read_programs(const std::vector<std::string>& paths) {
  std::vector<candidate> out;
  for (const auto& path : paths) {
    CUDAL1_TRY(auto text, read_text(path));
    out.push_back({path, "hand: " + std::filesystem::path(path).filename().string(), std::move(text)});
  }
  return out;
}

expected<std::vector<candidate>> lower_schedules(const std::vector<std::string>& texts, const task& what,
                                                 std::string_view target) {
  std::vector<candidate> out;
  for (const auto& text : texts) {
    CUDAL1_TRY(auto program, lower_schedule_text(text, what, target));
    out.push_back({text, "schedule by hand: " + text, std::move(program)});
  }
  return out;
}

struct evaluated {
  std::string file;
  verdict result;
};
BOOST_DESCRIBE_STRUCT(evaluated, (), (file, result))  // file: the program's, or the schedule's text

// The worst.
int code_of(const std::vector<evaluated>& results) {
  int code = exit_code::success;
  for (const auto& e : results) {
    if (e.result.result == outcome::unmeasurable) code = exit_code::unmeasurable;
    if (e.result.result != outcome::correct && e.result.result != outcome::unmeasurable) return exit_code::negative;
  }
  return code;
}

struct program_evaluator {
  const evaluate_options& options;
  const context& c;
  const task& what;
  std::string device;
  std::optional<roofline> roof;

  // Prints the verdict, except with --json.
  expected<evaluated> evaluate(const candidate& program, node_client& client, int wake_fd) const {
    client_request r;
    r.verb = client_verb::evaluate;
    r.device = device;
    r.task = canonical_text(what);
    r.program = program.text;
    r.origin = program.origin;
    CUDAL1_TRY(auto v, ask_for_verdict(client, r, wake_fd));
    if (!options.json) {
      const auto id = v.variant.empty() ? "" : ", variant " + short_id(v.variant);
      c.out.print(fmt::format("\n{}{}\n{}", program.name, id, print_verdict(v, c.out, roof)));
    }
    return evaluated{program.name, std::move(v)};
  }
};

bool is_python(const std::string& path) {
  return path.ends_with(".py");
}

void print_about(const task& what, const std::string& device, const std::string& model, const context& c) {
  c.out.print(c.out.bold(fmt::format("{} on {}: {}", what.name, device, model)) + "\n");
  if (const auto about = timing_remark(device); !about.empty()) c.out.print(c.out.dim(about) + "\n");
}

int print_results(const evaluate_options& o, const task& what, const json& device, const json& roof,
                  const std::vector<evaluated>& results, const context& c) {
  const int code = code_of(results);
  if (o.json)
    print_json(c, json::make_object({{"task", what.name},
                                     {"device", device},
                                     {"roof", roof},
                                     {"correct", code == exit_code::success},
                                     {"programs", to_json(results)}}));
  return code;
}

std::string submission_text(const kernelbench::submission_verdict& v) {
  std::string text;
  if (v.correct && v.interval.size() == 2)
    text = fmt::format(
        "  correct: {} over eager mode, {} in place of {} a call; {} pairs in {} pools of fresh processes\n",
        format_speedup(v.speedup, {v.interval[0], v.interval[1]}), format_time(v.own_us), format_time(v.eager_us),
        v.pairs, v.pools);
  else
    text = fmt::format("  {}: {}\n", v.kind, v.why);
  for (const auto* lines : {&v.evidence, &v.notes})
    for (const auto& line : *lines)
      text += fmt::format("  {}\n", line);
  if (const auto hint = kernelbench::hint_of_refusal(v.kind); !hint.empty()) text += fmt::format("  {}\n", hint);
  return text;
}

// Needs no node: the referee is a process of its own, which takes turns with nodes on the cores that are timed.
expected<int> evaluate_python(const evaluate_options& o, const context& c) {
  if (!std::ranges::all_of(o.programs, is_python) || !o.schedules.empty())
    return fail(errc::invalid_argument, "give Python files, or programs and schedules, in a command of its own each");
  CUDAL1_TRY(const auto candidates, read_programs(o.programs));
  CUDAL1_TRY(const auto devices, find_devices(o.device.empty() ? "auto" : o.device));
  const auto& where = devices.front();
  CUDAL1_TRY(const std::string profile, profile_of(where.name));
  CUDAL1_TRY(const auto tasks, choose_tasks(o.folder, {o.task}, profile, c.data));
  CUDAL1_CHECK(copy_task_blobs(c, tasks));
  const task& what = tasks.front();
  if (!o.json) print_about(what, where.name, where.model, c);
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  kernelbench::submission_referee referee("");
  std::vector<evaluated> results;
  for (const auto& one : candidates) {
    CUDAL1_TRY(const auto judged,
               referee.judge(one.name, one.text, what, blobs(c.data).folder(), where.name, interrupt.fd()));
    results.push_back({one.name, kernelbench::as_verdict(judged, what.id)});
    const auto record = kernelbench::as_judged_file(judged, one.text, what, where.name, where.model);
    if (const auto kept = kernelbench::keep_file(c, record, what); !kept)
      note(c, fmt::format("the verdict on {} is not kept in the store: {}", one.name, kept.error().message));
    if (o.json) continue;
    c.out.print(fmt::format("\n{}, {}\n{}", one.name, judged.language, submission_text(judged)));
  }
  return print_results(o, what, json::make_object({{"device", where.name}, {"model", where.model}}), {}, results, c);
}

expected<int> evaluate(evaluate_options o, context& c) {
  if (o.programs.empty() && o.schedules.empty())
    return fail(errc::invalid_argument,
                "nothing to evaluate: name program files or Python files, or moves with --schedule");
  if (std::ranges::any_of(o.programs, is_python)) return evaluate_python(o, c);
  CUDAL1_TRY(o.device, full_device_names(o.device, o.node, c));
  CUDAL1_TRY(auto candidates, read_programs(o.programs));
  CUDAL1_CHECK(check_tasks(o.folder, {o.task}, o.device, c.data));
  note_versions(c, o.folder, {o.task});
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  node_flags flags = o.node;
  flags.device = o.device;
  CUDAL1_TRY(connected_node node, connect_or_start(
                                      c, flags, [&](const std::string& what) { note(c, what); }, interrupt.fd()));
  CUDAL1_TRY(const device_report device, choose_device(node.status, o.device));
  CUDAL1_TRY(const std::string profile, profile_of(device.where.device));
  CUDAL1_TRY(const auto tasks, choose_tasks(o.folder, {o.task}, profile, c.data));
  CUDAL1_CHECK(copy_task_blobs(c, tasks));
  const task& what = tasks.front();
  CUDAL1_TRY(auto lowered, lower_schedules(o.schedules, what, traits_of(device.where.device).target));
  std::ranges::move(lowered, std::back_inserter(candidates));

  if (!o.json) print_about(what, device.where.device, device.where.model, c);
  if (const auto precision = precision_of(device.where); !precision.empty() && !o.json)
    c.out.print(fmt::format("Held to precision {}.\n", precision));
  for (const auto& remark : device.remarks)
    note(c, remark);
  std::optional<roofline> roof;
  if (traits_of(device.where.device).is_accelerator) {
    CUDAL1_TRY(roof, floor_finder().of(what, device.where.model));
  }
  const program_evaluator evaluator{o, c, what, device.where.device, roof};
  std::vector<evaluated> results;
  results.reserve(candidates.size());
  for (const auto& one : candidates) {
    CUDAL1_TRY(results.emplace_back(), evaluator.evaluate(one, node.client, interrupt.fd()));
  }
  return print_results(o, what, to_json(device.where), to_json(roof), results, c);
}

void add_evaluate(CLI::App& app, context& c) {
  auto o = std::make_shared<evaluate_options>();
  auto* sub = app.add_subcommand(
      "evaluate", "check and time hand-written programs, schedules or Python files; the exit code gives the verdict");
  sub->add_option("task", o->task, "the name of a built-in or imported task, or a task file")
      ->type_name("TASK")
      ->required();
  sub->add_option("program", o->programs,
                  "program files (a JSON head, a line ---, CUDA C++ source), or Python files *.py with ModelNew")
      ->type_name("PROGRAM");
  sub->add_option("--schedule", o->schedules,
                  "moves on the task's program, as `cudal1 show` prints them; may be repeated")
      ->type_name("MOVES")
      ->allow_extra_args(false);
  sub->add_option("--tasks", o->folder, "folder where TASK is looked up by name (default: the built-in tasks)")
      ->type_name("DIR");
  sub->add_option("--device", o->device, "cpu, cuda:0, ... (default: the first GPU, else cpu)")->type_name("DEVICE");
  sub->add_flag("--json", o->json, "print the verdicts, with all raw samples, as one JSON document");
  add_node_flags(*sub, o->node);
  add_precision_flag(*sub, o->node);
  sub->footer(
      footer("  cudal1 evaluate diagonal_matmul row_scale.cu1\n"
             "  cudal1 evaluate my_tasks/attention.json a.cu1 b.cu1 --json\n"
             "  cudal1 evaluate softmax --schedule 'row_kernel(steps=0); graph()'   moves (`cudal1 moves`)\n"
             "  cudal1 evaluate softmax mine.py --device cpu   against the model of `cudal1 tasks softmax --python`\n"
             "  cudal1 show softmax-variant-id --program > softmax.cu1   a program to start from",
             "  0    every program is correct, and was timed\n"
             "  1    at least one is not correct: wrong answer, refused by the compiler, crash, hang, ...\n"
             "  2    the command line, or the task or a file on it, is invalid\n"
             "  3    no node could be reached or started, or the node was lost\n"
             "  4    none is wrong, but the time of at least one could not be measured: what disturbed it is said\n"
             "  130  Ctrl-C"));
  sub->callback([o, &c] { finish(c, evaluate(*o, c)); });
}

const command_registration registered_evaluate(20, add_evaluate);

}  // namespace

}  // namespace cudal1::cli
