// cudal1 run: search for faster variants.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "config/base/stopwatch.hpp"
#include "config/configuration.hpp"
#include "policy/search/policy_registry.hpp"
#include "sandbox/device/device_names.hpp"
#include "tools/baseline/first_look.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/finished_search.hpp"
#include "tools/cli/commands/first_comparison.hpp"
#include "tools/cli/commands/followed_run.hpp"
#include "tools/cli/commands/model_endpoints.hpp"
#include "tools/cli/commands/part_search.hpp"
#include "tools/cli/commands/run_options.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/replay_choice.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/model_import.hpp"

namespace cudal1::cli {

namespace {

constexpr std::string_view whole_model = ".";  // as --module: a slow one too

// The policy and its models: as the flags say, as in the experiment whose prompts are replayed, or by default. The
// limits of that experiment become the defaults.
expected<void> choose_policy(const run_options& o, const context& c, search_options& defaults, client_request& r) {
  r.policy = o.policy;
  r.models = with_absolute_paths(o.models);
  r.replays = o.replays;
  r.priority = enum_value<search_priority>(o.priority).value_or(r.priority);
  if (!o.replays.empty()) {
    CUDAL1_TRY(const auto reader, open_for_reading(c));
    CUDAL1_TRY(const auto before, reader->get_experiment(o.replays));
    if (r.policy.empty()) r.policy = before.policy;
    if (r.models.empty()) r.models = before.models;
    defaults.evaluations_per_task = before.evaluations_per_task;
    defaults.time_limit_s = before.time_limit_s;
    if (!o.evaluations && o.time.empty()) r.device_s_per_task = before.device_s_per_task;
  }
  if (r.policy.empty()) r.policy = r.models.empty() ? defaults.policy : "llm";
  if (!r.models.empty() && r.policy != "llm")
    return fail(errc::invalid_argument, "--model names a language model, but the policy is {}; use --policy llm",
                r.policy);
  return {};
}

// The request that the flags describe, with defaults from the configuration's [search].
expected<client_request> make_request(const run_options& o, const context& c) {
  // A coordinator on another machine has a configuration of its own: 0 and "" leave the choice to it.
  search_options defaults{.policy = "", .evaluations_per_task = 0, .time_limit_s = 0};
  if (!c.coordinator) {
    CUDAL1_TRY(const configuration local, configuration_of(o.node, c.data));
    defaults = local.search;
  }
  client_request r;
  r.verb = client_verb::run;
  CUDAL1_CHECK(choose_policy(o, c, defaults, r));
  // Before a node is started.
  if (!r.policy.empty()) CUDAL1_CHECK(check_policy_name(r.policy));
  // A flag for one limit disables the default of the other.
  r.time_limit_s = o.evaluations || !o.device_time.empty() ? 0 : defaults.time_limit_s;
  r.evaluations_per_task = o.time.empty() && o.device_time.empty() ? defaults.evaluations_per_task : 0;
  if (o.evaluations) r.evaluations_per_task = *o.evaluations;
  if (!o.time.empty()) {
    CUDAL1_TRY(r.time_limit_s, parse_duration(o.time));
  }
  if (!o.device_time.empty()) {
    CUDAL1_TRY(r.device_s_per_task, parse_duration(o.device_time));
  }
  if (o.parts > 0 && r.policy == "llm")
    return fail(errc::invalid_argument,
                "--parts is for policies of moves (random, evolutionary, learned, contrastive, exhaustive), whose "
                "schedules can be "
                "put together; "
                "language models write whole programs");
  r.seed = o.seed;
  r.fresh_policy = o.fresh;
  r.stop_on_disconnect = true;  // so that a second Ctrl-C or a closed terminal ends the search
  return r;
}

// The tasks of the experiment whose prompts are given again; of these names, where --task has any.
expected<std::vector<task>> replayed_tasks(const run_options& o, const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto before, reader->get_experiment(o.replays));
  CUDAL1_TRY(auto tasks, tasks_of(*reader, before));
  if (o.names.empty()) return tasks;
  std::vector<task> chosen;
  for (const auto& name : o.names) {
    const auto found = std::ranges::find(tasks, name, &task::name);
    if (found == tasks.end()) {
      std::vector<std::string> names;
      std::ranges::transform(tasks, std::back_inserter(names), &task::name);
      return fail(errc::not_found, "--replay-prompts: experiment {} has no task \"{}\"; it has: {}", o.replays, name,
                  fmt::join(names, ", "));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// The tasks of a new experiment, with the files of their weights where the node finds them.
expected<std::vector<task>> new_tasks(const run_options& o, const std::string& device, const context& c) {
  if (!o.replays.empty()) return replayed_tasks(o, c);  // their files came with that experiment
  CUDAL1_TRY(const std::string profile, profile_of(device));
  CUDAL1_TRY(auto tasks, choose_tasks(o.folder, o.names, profile, c.data));
  CUDAL1_CHECK(copy_task_blobs(c, tasks));
  return tasks;
}

// What is searched, which depends on the node, or for --resume on the stored experiment.
struct chosen_work {
  run_limits limits;
  std::vector<task> tasks;  // of a new experiment
  environment where;
};

// Also fills in tasks, base and device of the request.
expected<chosen_work> complete(client_request& r, run_options& o, const context& c, const node_status& node) {
  if (!o.resume.empty()) {
    CUDAL1_TRY(const auto reader, open_for_reading(c));
    CUDAL1_TRY(const auto before, reader->get_experiment(o.resume));
    if (o.against.empty()) {
      CUDAL1_TRY(const auto tasks, tasks_of(*reader, before));
      o.against = base_of(tasks);
    }
    r.experiment = before.id;
    r.device = before.device;
    r.policy = before.policy;
    return chosen_work{{before.device, before.policy, before.time_limit_s}, {}, {}};
  }
  CUDAL1_TRY(const device_report device, choose_device(node, o.device));
  r.device = o.device.empty() ? device.where.device : o.device;
  CUDAL1_TRY(auto tasks, new_tasks(o, r.device, c));
  if (o.against.empty()) o.against = base_of(tasks);
  r.tasks.clear();
  for (const auto& t : tasks)
    r.tasks.push_back(canonical_text(t));
  return chosen_work{{r.device, r.policy, r.time_limit_s}, std::move(tasks), device.where};
}

// Notes the node's other experiments: they share the devices with this search, and continue after it.
void note_other_experiments(const run_options& o, const connected_node& node, run_view& view) {
  for (const auto& id : node.status.experiments) {
    if (id == o.resume) continue;
    view.note(fmt::format("also on this node: experiment {}{} (`cudal1 stop {}` ends it)", id,
                          node.started ? ", resumed from the last node" : "", id));
  }
}

// Imports the models. The options with the folder of the imported tasks in place of the models.
expected<run_options> with_imported_tasks(run_options o, const context& c, int wake_fd) {
  if (!is_model_source(o.model.source))
    return fail(
        errc::invalid_argument,
        "{} is not a PyTorch model (*.py, FILE.py:NAME, package.module:NAME), a folder of them or a *.jsonl file; "
        "--tasks takes a folder of task files, --task one of them",
        o.model.source);
  CUDAL1_CHECK(check_source(o.model.source));
  note(c, "importing " + o.model.source);
  warn_of_execution(c, o.model.execution);
  model_choice model = o.model;
  model.execution.wake_fd = wake_fd;
  if (model.module == whole_model) model.module.clear();
  const stopwatch watch;
  CUDAL1_TRY(const auto models, imported_once(c.data, model));
  detail(c, models.fresh ? fmt::format("imported in {:.1f} s into {}", watch.ms() / 1e3, models.folder)
                         : fmt::format("imported before, into {}", models.folder));
  if (model.execution.show_output && !models.fresh)
    note(c, "it was imported before, and its Python was not executed again: there is no output");
  for (const auto& r : models.report.refused)
    note(c, fmt::format("{} was refused: {}", r.name, r.reason));
  for (const auto& text : notes_of(models.report))
    note(c, text);
  if (models.report.imported.empty())
    return fail(errc::unsupported, "there is nothing to search in {}: every model was refused", o.model.source);
  o.folder = models.folder;
  return o;
}

// The tasks that are left are those of the request.
expected<void> compare_first(first_comparison& comparison, chosen_work& work, client_request& r, const context& c,
                             const node_status& node, run_view& view) {
  if (r.tasks.empty()) return {};  // resumed
  CUDAL1_TRY(const auto devices, choose_devices(node, r.device));
  CUDAL1_CHECK(comparison.compare(work.tasks, devices, c, view));
  r.tasks.clear();
  for (const auto& t : work.tasks)
    r.tasks.push_back(canonical_text(t));
  return {};
}

// For one model, if the devices are idle: shows where its time goes, and chooses a part of one that is too slow.
expected<void> look_first(chosen_work& work, client_request& r, run_options& o, const context& c,
                          const node_status& node, run_view& view, int wake_fd) {
  // It is measured where this command runs.
  if (is_replayed(work.where) || c.coordinator || !machine_of(work.where.device).empty()) return {};
  if (o.model.source.empty() || work.tasks.size() != 1 || !is_worth_a_look(work.tasks[0]) || !node.experiments.empty())
    return {};
  view.remark("measuring each step with PyTorch");
  const auto look = look_at(work.tasks[0], work.where, wake_fd);
  wait_for_device(c, work.where.device);
  if (!look && look.error().code == errc::cancelled) return tl::unexpected<error>(look.error());
  if (!look) {
    view.note("where the time goes was not measured: " + look.error().message);
    return {};
  }
  const terminal& out = o.json ? c.err : c.out;
  view.note(fmt::format("\n{}: {} on {}, step by step\n\n{}", work.tasks[0].name, format_time(look->times.total_us),
                        work.where.device, print_times(look->times, out)));
  if (look->part.empty() || !o.model.module.empty()) return {};
  view.note(wrap(look->reason, out.width, 0));
  o.model.module = look->part;
  CUDAL1_TRY(o, with_imported_tasks(std::move(o), c, wake_fd));
  CUDAL1_TRY(work, complete(r, o, c, node));
  return {};
}

// Searches the parts of the tasks that are not known yet; `request`, for the tasks, then uses them, with the time that
// is left. False if it was interrupted.
expected<bool> search_parts(client_request& request, const chosen_work& work, const run_options& o, const context& c,
                            connected_node& node, interrupt_watch& interrupt, run_view& view) {
  view.remark("cutting the tasks into parts");
  CUDAL1_TRY(const auto devices, choose_devices(node.status, work.limits.device));
  std::vector<environment> where;
  for (const auto& d : devices)
    if (std::ranges::none_of(where, [&](const auto& e) { return environment_class(e) == environment_class(d.where); }))
      where.push_back(d.where);
  CUDAL1_TRY(const auto parts, choose_parts(work.tasks, where, o.parts, c));
  view.note(fmt::format("parts of the tasks: {}, {} different; {} known, {} to be searched", parts.parts,
                        parts.distinct, parts.known, parts.wanted.size()));
  request.uses_parts = true;
  if (parts.wanted.empty()) return true;
  client_request first = request;
  first.uses_parts = false;
  first.tasks.clear();
  for (const auto& t : parts.wanted)
    first.tasks.push_back(canonical_text(t));
  first.evaluations_per_task = o.parts;
  first.time_limit_s = request.time_limit_s / 2;
  CUDAL1_CHECK(copy_task_blobs(c, parts.wanted));
  view.remark(fmt::format("searching {} on {}", format_count(std::ssize(parts.wanted), "part"), work.limits.device));
  const stopwatch watch;
  CUDAL1_CHECK(node.client.send(first));
  followed_run follower(interrupt, view);
  CUDAL1_TRY(const auto experiment, follower.follow(node.client));
  view.note(fmt::format("the parts were experiment {}: `cudal1 experiments {}`", experiment, experiment));
  if (request.time_limit_s > 0) request.time_limit_s = std::max(1.0, request.time_limit_s - watch.ms() / 1e3);
  return !follower.interrupted();
}

// Where the task of an imported model is, for commands that take a task file.
void name_task_files(const run_options& o, const chosen_work& work, const context& c) {
  if (o.model.source.empty() || work.tasks.empty()) return;
  if (work.tasks.size() > 1)
    note(c, fmt::format("Task files: {} in {}", format_count(std::ssize(work.tasks), "task"), o.folder));
  else
    note(c, fmt::format("Task file: {}/{}.json", o.folder, work.tasks.front().name));
}

// An experiment keeps its limits.
expected<void> check_resume(const run_options& o) {
  if (o.resume.empty() || (!o.evaluations && o.time.empty() && o.device_time.empty())) return {};
  return fail(errc::invalid_argument,
              "--resume continues {} to its own limits, which --time, --evaluations and --device-time cannot change. "
              "For more time start a new `cudal1 run`: it builds on what {} found",
              o.resume, o.resume);
}

// Its model was trained on the times of GPUs.
void warn_of_policy(const client_request& r, const environment& where, run_view& view) {
  if (r.policy != "contrastive" || traits_of(where.device).is_accelerator || is_replayed(where)) return;
  view.note(
      "the model that cudal1 comes with for the policy contrastive was trained on an H100: it does not know what is "
      "fast on cpu. Use the policy evolutionary there, or a model of your own (search.model)");
}

// Checks what needs no node before one is started.
expected<node_flags> checked_flags(const run_options& o, const context& c) {
  node_flags flags = o.node;
  flags.device = o.device;
  flags.sent_with_request = {"search.policy", "search.evaluations_per_task", "search.time_limit_s"};
  if (!o.replays.empty()) {
    CUDAL1_CHECK(replayed_tasks(o, c));
  } else if (o.resume.empty()) {
    CUDAL1_CHECK(check_tasks(o.folder, o.names, o.device, c.data));
    note_versions(c, o.folder, o.names);
  } else {
    CUDAL1_TRY(const auto reader, open_for_reading(c));
    CUDAL1_TRY(const auto before, reader->get_experiment(o.resume));
    flags.device = before.device;
  }
  return flags;
}

// What the user should know before the search begins.
void say_before_search(const client_request& r, const run_options& o, const chosen_work& work,
                       const connected_node& node, const context& c, run_view& view, int wake_fd) {
  note_other_experiments(o, node, view);
  if (const auto devices = choose_devices(node.status, work.limits.device))
    for (const auto& device : *devices)
      for (const auto& remark : device.remarks)
        view.note(remark);
  warn_of_policy(r, work.where, view);
  for (const auto& sentence : unreachable_models(r, o.node, c, wake_fd))
    view.note(sentence);
}

// Sends the request, follows the search, measures what it is compared with, and prints the table.
expected<int> search(const client_request& request, const run_options& o, const chosen_work& work, connected_node& node,
                     context& c, run_view& view, interrupt_watch& interrupt) {
  view.remark(o.resume.empty() ? fmt::format("searching {} on {}", format_count(std::ssize(request.tasks), "task"),
                                             work.limits.device)
                               : "resuming " + request.experiment);
  CUDAL1_CHECK(node.client.send(request));
  followed_run follower(interrupt, view);
  auto experiment = follower.follow(node.client);
  bool interrupted = follower.interrupted();
  const finished_search finished{experiment.value_or(""), o.against, o.json};
  if (experiment && o.against != against_program && !interrupted) {
    CUDAL1_TRY(const bool measured, measure_base(finished, node.status, c, view, interrupt.fd()));
    interrupted = !measured;
  }
  view.close();
  CUDAL1_CHECK(experiment);
  CUDAL1_CHECK(print_result(finished, node.status, c));
  name_task_files(o, work, c);
  if (follower.interrupted())
    note(c, fmt::format("`cudal1 run --resume {}` continues this search.", finished.experiment));
  if (interrupted) return exit_code::interrupted;
  CUDAL1_CHECK(check_answers(finished.experiment, follower.last_problem(), c));
  return exit_code::success;
}

expected<int> run(run_options o, context& c) {
  CUDAL1_CHECK(check_resume(o));
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  if (!o.model.source.empty()) {
    CUDAL1_TRY(o, with_imported_tasks(std::move(o), c, interrupt.fd()));
  }
  CUDAL1_TRY(client_request request, make_request(o, c));
  CUDAL1_TRY(o.device, full_device_names(o.device, o.node, c));
  CUDAL1_TRY(const node_flags flags, checked_flags(o, c));
  run_view view(o.json ? c.err : c.out, {}, c.quiet ? view_mode::silent : view_mode::shown);
  CUDAL1_TRY(connected_node node, connect_or_start(
                                      c, flags, [&](const std::string& what) { view.remark(what); }, interrupt.fd()));
  detail(c, fmt::format("node: process {} on {}, {}; its log is {}/node.log", node.status.pid, node.status.data,
                        node.started ? "started now" : "running already", node.status.data));
  CUDAL1_TRY(auto work, complete(request, o, c, node.status));
  view.set_limits(work.limits);
  say_before_search(request, o, work, node, c, view, interrupt.fd());
  first_comparison comparison(o.uncompared ? uncompared_tasks::searched : uncompared_tasks::left_out, interrupt.fd());
  CUDAL1_CHECK(compare_first(comparison, work, request, c, node.status, view));
  CUDAL1_CHECK(look_first(work, request, o, c, node.status, view, interrupt.fd()));
  // A part that was chosen in the place of the whole.
  CUDAL1_CHECK(compare_first(comparison, work, request, c, node.status, view));
  if (o.parts > 0) {
    CUDAL1_TRY(const bool searched, search_parts(request, work, o, c, node, interrupt, view));
    if (!searched) {
      view.close();
      note(c, "the parts that were searched are kept; the same command goes on with the others");
      return exit_code::interrupted;
    }
  }
  return search(request, o, work, node, c, view, interrupt);
}

void add_run(CLI::App& app, context& c) {
  auto o = std::make_shared<run_options>();
  auto* sub = app.add_subcommand("run", "search for faster variants of tasks, and print the table of the best");
  add_run_options(*sub, *o);
  add_against_option(*sub, o->against, "eager for imported tasks, else program");
  sub->get_option("--against")
      ->description(sub->get_option("--against")->get_description() +
                    "; a baseline is measured at the end of the search");
  sub->add_flag("--json", o->json, "print the report as one JSON document on stdout; progress goes to stderr");
  add_csv_flag(*sub, c, o->json, {"tasks"});
  add_node_flags(*sub, o->node);
  add_precision_flag(*sub, o->node);
  sub->footer(footer_of_run());
  sub->callback([o, &c] { finish(c, run(*o, c)); });
}

const command_registration registered_run(10, add_run);

}  // namespace

}  // namespace cudal1::cli
