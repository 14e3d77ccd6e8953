// cudal1 tasks: what can be searched.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct tasks_options {
  std::string name, folder;
  std::string device = "cpu";
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
  int64_t steps = 0;
  int64_t bytes = 0;  // of inputs, weights and outputs: what a call must at least move
};
BOOST_DESCRIBE_STRUCT(task_summary, (), (name, summary, family, profile, id, inputs, weights, outputs, steps, bytes))

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

task_summary summarize(const task& t) {
  const program& p = t.reference.text;
  task_summary s;
  s.name = t.name;
  s.summary = t.summary;
  s.family = t.family;
  s.profile = t.profile;
  s.id = t.id;
  s.inputs = summarize(p.inputs, t.inputs, s.bytes);
  s.weights = summarize(p.weights, t.weights, s.bytes);
  s.outputs.reserve(p.outputs.size());
  for (const auto& name : p.outputs) {
    const auto& type = t.reference.types.at(name);
    s.outputs.push_back(fmt::format("{} {}", name, type.text()));
    s.bytes += type.bytes();
  }
  s.steps = static_cast<int64_t>(p.steps.size());
  return s;
}

std::string facts_of(const input_spec& spec) {
  std::string text;
  for (const fact f : spec.facts)
    text += (text.empty() ? "" : ", ") + enum_name(f);
  return text;
}

std::string draw_text(const draw_spec& d) {
  switch (d.kind) {
    case distribution::uniform:
      return fmt::format("uniform on [{}, {})", d.low, d.high);
    case distribution::integer:
      return fmt::format("integers {} to {}", d.low, d.high - 1);
    case distribution::bernoulli:
      return fmt::format("1 with probability {}", d.probability);
    case distribution::normal:
      return fmt::format("normal, mean {}, deviation {}", d.mean, d.std);
  }
  return "";
}

void print_one(const task& t, const terminal& out) {
  const auto s = summarize(t);
  out.print(out.bold(s.name) + (s.summary.empty() ? "" : ": " + s.summary) + "\n");
  out.print(fmt::format("  family {}, sizes for {}, id {}\n", s.family, s.profile, s.id));
  const auto tensors = [&](const char* kind, const std::vector<tensor_summary>& list) {
    for (const auto& tensor : list) {
      const auto facts = facts_of(tensor.how);
      out.print(fmt::format("  {} {} {}: {}{}\n", kind, tensor.name, tensor.type.text(), draw_text(tensor.how.draw),
                            facts.empty() ? "" : "; always " + facts));
    }
  };
  tensors("input", s.inputs);
  tensors("weight", s.weights);
  for (const auto& output : s.outputs)
    out.print("  output " + output + "\n");
  out.print(fmt::format("  {} of inputs, weights and outputs\n\n", format_bytes(static_cast<double>(s.bytes))));
  out.print(print_program_head(t.reference.text));
  if (!print_program_head(t.reference.text).ends_with('\n')) out.print("\n");
}

void print_list(const std::vector<task>& tasks, const terminal& out) {
  table list({{.title = "task"},
              {.title = "family", .drop = 2},
              {.title = "steps", .right = true, .drop = 1},
              {.title = "bytes", .right = true},
              {.title = "inputs", .least_width = 16},
              {.title = "what it computes", .least_width = 20, .drop = 3}});
  for (const auto& t : tasks) {
    const auto s = summarize(t);
    std::vector<std::string> inputs;
    inputs.reserve(s.inputs.size());
    for (const auto& input : s.inputs)
      inputs.push_back(input.type.text());
    list.add({s.name, s.family, std::to_string(s.steps), format_bytes(static_cast<double>(s.bytes)),
              fmt::format("{}", fmt::join(inputs, ", ")), s.summary});
  }
  out.print(list.text(out.width, out.color));
}

expected<int> tasks(const tasks_options& o, context& c) {
  CUDAL1_TRY(const std::string profile, profile_of(o.device));
  const std::vector<std::string> names = o.name.empty() ? std::vector<std::string>{} : std::vector{o.name};
  CUDAL1_TRY(const auto found, choose_tasks(o.folder, names, profile));
  if (o.json) {
    json::array items;
    items.reserve(found.size());
    for (const auto& t : found) {
      json item = to_json(summarize(t));
      if (!o.name.empty()) {
        CUDAL1_TRY(auto text, json::parse(canonical_text(t)));
        item.set("task", std::move(text));
      }
      items.push_back(std::move(item));
    }
    print_json(c, json::make_object({{"tasks", json(std::move(items))}}));
  } else if (o.name.empty()) {
    print_list(found, c.out);
  } else {
    print_one(found.front(), c.out);
  }
  return exit_code::success;
}

}  // namespace

void add_tasks(CLI::App& app, context& c) {
  auto o = std::make_shared<tasks_options>();
  auto* sub = app.add_subcommand("tasks", "the tasks with their sizes, or one in full");
  sub->add_option("name", o->name, "a task's name, or a task file")->type_name("NAME");
  sub->add_option("--tasks", o->folder, "folder of task files (default: the built-in tasks)")->type_name("DIR");
  sub->add_option("--device", o->device, "whose sizes: cpu, cuda:0, ...")->type_name("DEVICE")->capture_default_str();
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 tasks\n"
             "  cudal1 tasks softmax\n"
             "  cudal1 tasks --tasks my_tasks     also checks them",
             "  0    printed\n"
             "  2    there is no such task, or a file breaks a rule (which one, and where, is said)"));
  sub->callback([o, &c] { finish(c, tasks(*o, c)); });
}

}  // namespace cudal1::cli
