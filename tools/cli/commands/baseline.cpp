// cudal1 baseline: measures PyTorch's own times and stores them.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/search/task_parts.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/replay/replay_devices.hpp"
#include "tools/baseline/measure_baselines.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct baseline_options {
  std::string folder, experiment, kinds, device, time;
  std::vector<std::string> names;
  double seconds = 1, prepare_seconds = 120;
  bool again = false, no_variant = false, json = false;
  bool evaluated_only = false;  // of the experiment: leave out the tasks that it has not reached
  node_flags node;
};

expected<std::vector<std::string>> read_kinds(const std::string& text, const std::string& device) {
  const std::vector<std::string> all(baseline_kinds.begin(), baseline_kinds.end());
  if (text == "all") return all;
  if (text.empty())
    return traits_of(device).is_accelerator ? std::vector<std::string>{"eager", "cudnn", "graph"}
                                            : std::vector<std::string>{"eager"};
  std::vector<std::string> kinds;
  for (std::size_t at = 0; at <= text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    kinds.push_back(text.substr(at, comma - at));
    at = comma + 1;
    if (std::find(all.begin(), all.end(), kinds.back()) == all.end())
      return fail(errc::invalid_argument, "there is no kind of baseline \"{}\"; there is: {}, and all", kinds.back(),
                  fmt::join(all, ", "));
  }
  return kinds;
}

bool is_wanted(const task_record& t, const std::vector<std::string>& names) {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& n) {
           return n == t.name || n == t.id || (n.size() >= 4 && t.id.starts_with(n));
         });
}

// The tasks of the experiment, or all tasks in the store with that profile but for parts of others.
expected<std::vector<task>> stored_tasks(const baseline_options& o, const context& c, const std::string& profile) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  std::vector<task_record> records;
  if (o.experiment.empty()) {
    CUDAL1_TRY(records, reader->tasks());
    std::erase_if(records, [&](const task_record& t) { return t.profile != profile || t.family == part_family; });
  } else {
    CUDAL1_TRY(const auto e, reader->get_experiment(o.experiment));
    for (const auto& id : e.tasks) {
      if (o.evaluated_only) {
        CUDAL1_TRY(const auto verdicts, reader->verdicts_of_task(id, e.id));
        if (verdicts.empty()) continue;
      }
      CUDAL1_TRY(auto record, reader->get_task(id));
      records.push_back(std::move(record));
    }
  }
  for (const auto& name : o.names)
    if (std::none_of(records.begin(), records.end(), [&](const task_record& t) { return is_wanted(t, {name}); }))
      return fail(errc::not_found,
                  "there is no task \"{}\" among {} of the store; --tasks names a folder of task files", name,
                  format_count(static_cast<int64_t>(records.size()), "task"));
  std::vector<task> tasks;
  for (const auto& record : records) {
    if (!is_wanted(record, o.names)) continue;
    CUDAL1_TRY(task t, read_task(record.text, record.profile));
    tasks.push_back(std::move(t));
  }
  return tasks;
}

expected<std::string> device_of_experiment(const std::string& experiment, const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto e, reader->get_experiment(experiment));
  return e.device;
}

// The chosen devices, which must be of one model so that their times can be compared.
expected<std::vector<device_report>> devices_of_a_kind(const node_status& status, const std::string& wanted) {
  CUDAL1_TRY(auto devices, choose_devices(status, wanted));
  for (const auto& d : devices)
    if (d.where.model != devices.front().where.model)
      return fail(errc::invalid_argument, "{} is {} and {} is {}: name devices of one model with --device",
                  devices.front().where.device, devices.front().where.model, d.where.device, d.where.model);
  return devices;
}

std::string line_of(const measured_task& m) {
  if (!m.skipped.empty()) return fmt::format("{}: skipped: {}", m.name, m.skipped);
  if (m.fresh) return fmt::format("{}: already measured", m.name);
  std::vector<std::string> parts, remarks;
  for (const auto& b : m.records) {
    parts.push_back(b.kind + " " + format_time(b.call_us));
    if (!b.problem.empty()) remarks.push_back(fmt::format("{}: {}", b.kind, b.problem));
    if (!b.check.empty()) remarks.push_back(fmt::format("{}: {}", b.kind, b.check));
    for (const auto& note : b.notes)
      remarks.push_back(fmt::format("{}: {}", b.kind, note));
  }
  std::string text = fmt::format("{}: {}", m.name, fmt::join(parts, ", "));
  const auto with =
      std::find_if(m.records.begin(), m.records.end(), [](const auto& b) { return b.variant_us > 0 && b.call_us > 0; });
  if (with != m.records.end()) {
    const double from_python = call_time_from_python(with->variant_us, with->variant_device_us, with->python_us);
    text += fmt::format("; variant {} {}{}: {} over {}", short_id(with->variant), format_time(with->variant_us),
                        from_python > with->variant_us ? ", from Python " + format_time(from_python) : "",
                        format_speedup(with->call_us / from_python), with->kind);
  }
  if (!m.variant_problem.empty()) remarks.push_back("the best variant: " + m.variant_problem);
  for (const auto& remark : remarks)
    text += "\n  " + remark;
  return text;
}

std::string summary_of(const measured_baselines& all) {
  int64_t measured = 0, fresh = 0, without = 0, times = 0, failed = 0;
  for (const auto& m : all.tasks) {
    if (m.fresh) ++fresh;
    if (!m.skipped.empty()) ++without;
    if (!m.records.empty()) ++measured;
    for (const auto& b : m.records)
      ++(b.problem.empty() ? times : failed);
  }
  auto text = fmt::format("{} measured ({}{})", format_count(measured, "task"), format_count(times, "duration"),
                          failed > 0 ? fmt::format(", {} failed", failed) : "");
  if (fresh > 0) text += fmt::format(", {} already measured", fresh);
  if (without > 0) text += fmt::format(", {} skipped", without);
  if (all.left > 0) text += fmt::format(", {} left: run the same command again", all.left);
  return text + ".";
}

expected<baseline_plan> plan_of(const baseline_options& o, std::vector<std::string> devices, double time_limit_s,
                                const context& c) {
  baseline_plan plan;
  plan.devices = std::move(devices);
  plan.experiment = o.experiment;
  plan.again = o.again;
  plan.variants = !o.no_variant;
  plan.time_limit_s = time_limit_s;
  plan.seconds = o.seconds;
  plan.prepare_seconds = o.prepare_seconds;
  CUDAL1_TRY(plan.kinds, read_kinds(o.kinds, plan.devices.front()));
  CUDAL1_TRY(const std::string profile, profile_of(plan.devices.front()));
  if (o.folder.empty()) {
    CUDAL1_TRY(plan.tasks, stored_tasks(o, c, profile));
  } else {
    CUDAL1_TRY(plan.tasks, choose_tasks(o.folder, o.names, profile));
    CUDAL1_CHECK(copy_task_blobs(c, plan.tasks));
  }
  return plan;
}

// Without a choice of tasks: the newest search, except those of hand-written variants and of replays.
expected<std::string> chosen_experiment(const baseline_options& o, const context& c) {
  if (!o.experiment.empty() || !o.folder.empty() || !o.names.empty() || !store_exists(c)) return o.experiment;
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto all, reader->experiments());
  for (auto e = all.rbegin(); e != all.rend(); ++e)
    if (e->policy != hand_policy && !names_replay(e->device)) return e->id;
  return std::string();
}

// The device that is wanted ("": the node's choice), and the flags of a node that is started for it. Checks what needs
// no node before one is started.
struct wanted_device {
  std::string name;
  node_flags node;
};
expected<wanted_device> checked_device(const baseline_options& o, const context& c) {
  wanted_device wanted{o.device, o.node};
  wanted.node.device = o.device;
  if (!o.experiment.empty()) {
    CUDAL1_TRY(const std::string of, device_of_experiment(o.experiment, c));
    if (wanted.name.empty()) wanted.name = of;
    // The node gets all GPUs of the experiment, so that other commands can measure on the rest of them.
    if (o.device.empty() || names_device(of, o.device)) wanted.node.device = of;
  }
  if (names_replay(wanted.name))
    return fail(errc::invalid_argument, "{} replays stored verdicts, and PyTorch is measured on real devices only",
                wanted.name);
  CUDAL1_CHECK(read_kinds(o.kinds, wanted.name));
  if (!o.folder.empty()) CUDAL1_CHECK(check_tasks(o.folder, o.names, wanted.name));
  if (o.folder.empty() && !store_exists(c)) CUDAL1_CHECK(open_for_reading(c));
  return wanted;
}

void print_title(const baseline_options& o, const baseline_plan& plan, const std::string& model, const context& c) {
  c.out.print(c.out.bold(fmt::format(
                  "{} of {}{} on {}: {}", fmt::join(plan.kinds, ", "), format_count(std::ssize(plan.tasks), "task"),
                  o.experiment.empty() ? "" : " of " + o.experiment, fmt::join(plan.devices, ", "), model)) +
              "\n");
}

expected<int> baseline(baseline_options o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 baseline` executes the Python of models"));
  double time_limit_s = 0;
  if (!o.time.empty()) {
    CUDAL1_TRY(time_limit_s, parse_duration(o.time));
  }
  o.evaluated_only = o.experiment.empty();
  CUDAL1_TRY(o.experiment, chosen_experiment(o, c));
  CUDAL1_TRY(const wanted_device wanted, checked_device(o, c));
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  CUDAL1_TRY(connected_node node, connect_or_start(
                                      c, wanted.node, [&](const std::string& what) { note(c, what); }, interrupt.fd()));
  CUDAL1_TRY(const auto devices, devices_of_a_kind(node.status, wanted.name));
  CUDAL1_TRY(const auto plan, plan_of(o, names_of(devices), time_limit_s, c));
  if (!o.json) print_title(o, plan, devices.front().where.model, c);
  baseline_observer observer;
  live_area now(c.err.stream);
  observer.doing = [&](const std::string& what) {
    if (c.err.live && !c.quiet) now.draw({what});
  };
  std::set<std::string> finished;  // a task is reported again after its other kinds
  observer.finished = [&](const measured_task& m) {
    finished.insert(m.name);
    now.erase();
    if (!o.json) c.out.print_wrapped(fmt::format("{} of {}  {}\n", finished.size(), plan.tasks.size(), line_of(m)));
  };
  CUDAL1_TRY(const auto all, measure_baselines(c.data, plan, observer, interrupt.fd()));
  now.erase();
  if (o.json)
    print_json(c, to_json(all));
  else
    c.out.print((all.torch.empty() ? "" : c.out.dim(all.torch) + "\n") + summary_of(all) + "\n");
  if (all.fault) return tl::unexpected<error>(*all.fault);
  return all.interrupted ? exit_code::interrupted : exit_code::success;
}

void add_baseline(CLI::App& app, context& c) {
  auto o = std::make_shared<baseline_options>();
  auto* sub = app.add_subcommand("baseline", "measure PyTorch itself, for --against");
  sub->add_option("--tasks", o->folder,
                  "folder of imported task files (default: the tasks that the newest search has evaluated)")
      ->type_name("DIR");
  sub->add_option("--task", o->names, "only these tasks; may be repeated")->type_name("TASK");
  sub->add_option("--experiment", o->experiment, "the tasks of this experiment, with its best variants, as in e3")
      ->type_name("EXPERIMENT");
  sub->add_option("--kinds", o->kinds,
                  fmt::format("some of {}, or all (default: eager,cudnn,graph on a GPU, eager on cpu)",
                              fmt::join(baseline_kinds, ",")))
      ->type_name("KINDS");
  sub->add_option("--device", o->device,
                  "cpu, cuda:0, cuda:0,cuda:1, cuda (every GPU), gpu7/cuda:0 (of machine gpu7); default: the "
                  "experiment's, else the first GPU, else cpu")
      ->type_name("DEVICE");
  sub->add_option("--time", o->time, "start no task after this much time, as in 8m; the same command continues later")
      ->type_name("DURATION");
  sub->add_option("--seconds", o->seconds,
                  "measuring time of a kind, less if its median is known to 1%; up to 20 times as long on a slow host")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  sub->add_option("--prepare", o->prepare_seconds, "timeout in seconds for a kind to compile or capture")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  sub->add_flag("--again", o->again, "also measure what is already stored");
  sub->add_flag("--no-variant", o->no_variant, "do not measure each task's best variant again");
  sub->add_flag("--json", o->json, "what was measured, with all raw samples, as one JSON document");
  sub->get_option("--tasks")->excludes(sub->get_option("--experiment"));
  add_node_flags(*sub, o->node);
  sub->footer(
      footer("  cudal1 baseline                                    the tasks of the newest search\n"
             "  cudal1 baseline --experiment e1 --kinds eager      what `best --against eager` needs\n"
             "  cudal1 baseline --experiment e1 --kinds all --time 8m   in parts: repeat the command\n"
             "  cudal1 baseline --tasks imported --task level1_023\n"
             "A GPU's kinds: eager; cudnn (torch.backends.cudnn.benchmark); compile; reduce-overhead and max-autotune "
             "(torch.compile's modes);\ngraph (a CUDA graph whose inputs are copied in). Several GPUs share the tasks; "
             "nothing else uses them meanwhile.\nThe machine that has the device measures, with its own Python: "
             "CUDAL1_PYTHON in the "
             "environment of its cudal1-node.",
             "  0    measured; for a kind that cannot be measured, the output says why\n"
             "  1    an experiment runs on one of the devices, or another `baseline` measures there\n"
             "  2    the command line, or a task or experiment on it, is invalid, or there is no Python with torch\n"
             "  3    no node could be reached or started, or the node or a machine was lost\n"
             "  130  Ctrl-C: what was measured is kept"));
  sub->callback([o, &c] { finish(c, baseline(*o, c)); });
}

const command_registration registered_baseline(70, add_baseline);

}  // namespace

}  // namespace cudal1::cli
