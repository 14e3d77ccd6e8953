// cudal1 tasks: lists tasks, or prints one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/program/input_spec.hpp"
#include "sandbox/program/quantiles.hpp"
#include "sandbox/verify/roofline.hpp"
#include "store/blobs.hpp"
#include "tools/baseline/step_times.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/task_bound.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/imported_tasks.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/time_table.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/submission_referee.hpp"

namespace cudal1::cli {

namespace {

struct tasks_options {
  std::string name, folder;
  std::string device, model;
  bool times = false, bound = false, python = false;
  bool json = false;
};

struct tensor_summary {
  std::string name;
  tensor_type type;
  input_spec how;
};
BOOST_DESCRIBE_STRUCT(tensor_summary, (), (name, type, how))

struct task_summary {
  std::string name, summary, family, profile, id;
  std::vector<tensor_summary> inputs, weights;
  std::vector<std::string> outputs;
  std::vector<task_state> states;
  std::optional<task_origin> origin;
  int64_t steps = 0;
  int64_t bytes = 0;  // of all inputs, weights and outputs
  task_work work;     // the least work of a call
  std::optional<roofline> floor;
};
BOOST_DESCRIBE_STRUCT(task_summary, (),
                      (name, summary, family, profile, id, inputs, weights, outputs, states, origin, steps, bytes, work,
                       floor))

std::vector<tensor_summary> summarize(const std::vector<tensor_declaration>& declared,
                                      const std::vector<input_spec>& specs, int64_t& bytes) {
  std::vector<tensor_summary> out;
  out.reserve(declared.size());
  for (std::size_t i = 0; i < declared.size(); ++i) {
    out.push_back({declared[i].name, declared[i].type, specs[i]});
    bytes += declared[i].type.bytes();
  }
  return out;
}

task_summary summarize(const task& t, const std::optional<device_data>& device) {
  const program& p = t.reference.text;
  task_summary s;
  s.name = t.name;
  s.summary = t.summary;
  s.family = t.family;
  s.profile = t.profile;
  s.id = t.id;
  s.origin = t.origin;
  s.states = t.states;
  s.inputs = summarize(p.inputs, t.inputs, s.bytes);
  s.weights = summarize(p.weights, t.weights, s.bytes);
  s.outputs.reserve(p.outputs.size());
  for (const auto& name : p.outputs) {
    const auto& type = t.reference.types.at(name);
    s.outputs.push_back(fmt::format("{} {}", name, type.text()));
    s.bytes += type.bytes();
  }
  s.steps = static_cast<int64_t>(p.steps.size());
  s.work = work_of(t);
  if (device) s.floor = roofline_of(s.work, *device);
  return s;
}

std::string facts_of(const input_spec& spec) {
  std::string text;
  for (const fact f : spec.facts)
    text += (text.empty() ? "" : ", ") + enum_name(f);
  return text;
}

// "uniform on [0, 1); always upper_triangular", "conv.weight of 3f9a1c2b4d5e; otherwise normal, ...".
std::string values_text(const input_spec& spec) {
  const auto facts = facts_of(spec);
  std::string text;
  if (spec.content) text = fmt::format("{} of {}", spec.content->tensor, short_id(spec.content->file));
  if (spec.content && spec.content->draws > 0) text = fmt::format("{} recorded draws, ", spec.content->draws) + text;
  if (!spec.quantiles.empty()) text = quantiles_text(spec.quantiles);
  if (!spec.content || !spec.content->fixed) text += (text.empty() ? "" : "; otherwise ") + draw_text(spec.draw);
  return text + (facts.empty() ? "" : "; always " + facts);
}

// "1.23 GFLOP", in steps of a thousand.
std::string format_flops(double flops) {
  if (!(flops > 0)) return "-";
  constexpr std::pair<double, const char*> units[] = {{1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {1e3, "kFLOP"}};
  for (const auto& [size, name] : units)
    if (flops >= size) return format_number(flops / size) + " " + name;
  return format_number(flops) + " FLOP";
}

std::string print_work(const task_summary& s) {
  std::string text = fmt::format(
      "  {} of inputs, weights and outputs; a call touches {} and does {}\n",
      format_bytes(static_cast<double>(s.bytes)), format_bytes(static_cast<double>(s.work.bytes())),
      s.work.flops.total() > 0 ? format_flops(s.work.flops.total()) + " of products" : std::string("no products"));
  if (s.floor)
    text += fmt::format("  floor on {}: {} a call, of which {} on the device, limited by {}{}\n", s.floor->device,
                        format_time(s.floor->call_us()), format_time(s.floor->device_us()), s.floor->limit(),
                        s.floor->measured ? "" : " (from its datasheet)");
  return text;
}

void print_one(const task& t, const std::optional<device_data>& device, const terminal& out) {
  const auto s = summarize(t, device);
  out.print(out.bold(s.name) + (s.summary.empty() ? "" : ": " + s.summary) + "\n");
  out.print(fmt::format("  family {}, sizes for {}, id {}\n", s.family, s.profile, s.id));
  if (s.origin) out.print(fmt::format("  from {}, seed {}\n", origin_text(*s.origin), s.origin->seed));
  if (is_uncompared(t)) out.print(fmt::format("  uncompared with its model: {}\n", s.origin->uncompared));
  const auto tensors = [&](const char* kind, const std::vector<tensor_summary>& list) {
    for (const auto& tensor : list) {
      out.print(fmt::format("  {} {} {}: {}\n", kind, tensor.name, tensor.type.text(), values_text(tensor.how)));
    }
  };
  tensors("input", s.inputs);
  tensors("weight", s.weights);
  for (const auto& output : s.outputs)
    out.print("  output " + output + "\n");
  for (const auto& state : s.states)
    out.print(fmt::format("  state {} ({}): given as {}, left as {}\n", state.name, enum_name(state.kind), state.input,
                          state.output));
  out.print(print_work(s) + "\n");
  out.print(print_program_head(t.reference.text));
  if (!print_program_head(t.reference.text).ends_with('\n')) out.print("\n");
}

void print_list(const std::vector<task>& tasks, const std::optional<device_data>& device, const terminal& out) {
  std::vector<column> columns = {{.title = "task"},
                                 {.title = "family", .drop = 2},
                                 {.title = "steps", .right = true, .drop = 1},
                                 {.title = "bytes", .right = true},
                                 {.title = "products", .right = true, .drop = 1}};
  if (device) columns.push_back({.title = "floor, " + device->name, .right = true});
  columns.push_back({.title = "inputs", .least_width = 16});
  columns.push_back({.title = "what it computes", .least_width = 20, .drop = 3});
  table list(std::move(columns));
  for (const auto& t : tasks) {
    const auto s = summarize(t, device);
    std::vector<std::string> inputs;
    inputs.reserve(s.inputs.size());
    for (const auto& input : s.inputs)
      inputs.push_back(input.type.text());
    std::vector<std::string> cells = {marked_name(t), s.family, std::to_string(s.steps),
                                      format_bytes(static_cast<double>(s.work.bytes())),
                                      format_flops(s.work.flops.total())};
    if (s.floor) cells.push_back(format_time(s.floor->call_us()));
    cells.push_back(fmt::format("{}", fmt::join(inputs, ", ")));
    cells.push_back(s.summary);
    list.add(std::move(cells));
  }
  out.print(list.text(out));
}

void print_imported(const std::vector<imported_version>& versions, const terminal& out) {
  if (versions.empty()) return;
  table list({{.title = "imported task", .least_width = 12},
              {.title = "of"},
              {.title = "", .drop = 1},
              {.title = "file", .least_width = 20, .drop = 2}});
  for (const auto& v : versions)
    list.add({v.name, format_date(v.time_unix_ms), v.is_newest ? "" : "older", v.file});
  out.print("\n" + list.text(out));
}

// `known`: what --gpu names.
expected<int> show_times(const task& t, const tasks_options& o, std::optional<device_data> known, const context& c) {
  CUDAL1_TRY(const auto devices, find_devices(o.device.empty() ? "auto" : o.device));
  const found_device& where = devices.front();
  if (!known) {
    CUDAL1_TRY(known, find_device_data(where.model));
  }
  CUDAL1_TRY(const auto measured, measure_steps(t, where.name, 1));
  const auto times = time_table_of(t, measured.step_us, known);
  if (o.json) {
    print_json(c, to_json(times));
  } else {
    c.out.print(c.out.bold(fmt::format("{}: {} on {}, step by step", t.name, format_time(times.total_us), where.name)) +
                "\n\n" + print_times(times, c.out));
  }
  return exit_code::success;
}

expected<int> tasks(const tasks_options& o, context& c) {
  CUDAL1_TRY(const auto device, gpu_named(o.model));
  CUDAL1_TRY(const std::string profile, device             ? accelerator().profile
                                        : o.device.empty() ? default_profile()
                                                           : profile_of(o.device));
  const std::vector<std::string> names = o.name.empty() ? std::vector<std::string>{} : std::vector{o.name};
  CUDAL1_TRY(auto found, choose_tasks(o.folder, names, profile, c.data));
  CUDAL1_CHECK(clear_known_marks(c, found));
  note_versions(c, o.folder, names);
  if (o.python) {
    CUDAL1_CHECK(copy_task_blobs(c, found));
    CUDAL1_TRY(const auto source, kernelbench::python_problem(found.front(), blobs(c.data).folder()));
    c.out.print(source);
    return exit_code::success;
  }
  if (o.bound) return show_bound(found.front(), *device, o.json ? shown_as::json : shown_as::text, c);
  if (o.times) return show_times(found.front(), o, device, c);
  if (o.json) {
    json::array items;
    items.reserve(found.size());
    for (const auto& t : found) {
      json item = to_json(summarize(t, device));
      if (!o.name.empty()) {
        CUDAL1_TRY(auto text, json::parse(canonical_text(t)));
        item.set("task", std::move(text));
      }
      items.push_back(std::move(item));
    }
    json document = json::make_object({{"tasks", json(std::move(items))}});
    if (o.name.empty() && o.folder.empty()) document.set("imported", to_json(imported_versions(c.data)));
    print_json(c, document);
  } else if (o.name.empty()) {
    print_list(found, device, c.out);
    if (o.folder.empty()) print_imported(imported_versions(c.data), c.out);
  } else {
    print_one(found.front(), device, c.out);
  }
  return exit_code::success;
}

void add_tasks(CLI::App& app, context& c) {
  auto o = std::make_shared<tasks_options>();
  auto* sub = app.add_subcommand("tasks", "the tasks with their sizes, or one in full");
  sub->add_option("name", o->name,
                  "the name of a built-in task or of one that `cudal1 run MODEL` imported, or a task file")
      ->type_name("TASK");
  sub->add_option("--tasks", o->folder, "folder of task files (default: the built-in tasks)")->type_name("DIR");
  sub->add_option("--device", o->device,
                  "show the sizes for this device: cpu, cuda:0, ... (default: the first GPU, else cpu)")
      ->type_name("DEVICE");
  sub->add_option("--gpu", o->model, "show the sizes and floors for this GPU, as in H200 or \"NVIDIA L4\"")
      ->type_name("MODEL");
  sub->add_flag(
         "--times", o->times,
         "measure each step of the task with PyTorch on the device, and show where the time goes: by module of the "
         "model and by operator")
      ->needs("name");
  auto* gpu = sub->get_option("--gpu");
  sub->add_flag("--bound", o->bound,
                "say what limits the task on that GPU before anything is measured: as one kernel, as its parts, step "
                "by step")
      ->needs("name")
      ->needs(gpu)
      ->excludes("--times");
  auto* json_flag = sub->add_flag("--json", o->json, "one JSON document");
  sub->add_flag("--python", o->python,
                "print it as a PyTorch model with Model and get_inputs, which a Python file with ModelNew is compared "
                "with (`cudal1 evaluate`)")
      ->needs("name")
      ->excludes("--times")
      ->excludes("--bound")
      ->excludes(json_flag);
  add_csv_flag(*sub, c, o->json, {"ways", "operators", "tasks"});
  sub->footer(
      footer("  cudal1 tasks\n"
             "  cudal1 tasks softmax\n"
             "  cudal1 tasks vit.json --times --device cuda:0\n"
             "  cudal1 tasks softmax --python > problem.py\n"
             "  cudal1 tasks --gpu H200           with the floor of each there\n"
             "  cudal1 tasks mlp --gpu H200 --bound\n"
             "  cudal1 tasks --tasks my_tasks     also checks them\n"
             "  cudal1 tasks import model.py --out my_tasks",
             "  0    printed\n"
             "  2    there is no such task or GPU, or a file breaks a rule (the message says which and where)"));
  sub->callback([o, sub, &c] {
    if (sub->get_subcommands().empty()) finish(c, tasks(*o, c));
  });
}

const command_registration registered_tasks(40, add_tasks);

}  // namespace

}  // namespace cudal1::cli
