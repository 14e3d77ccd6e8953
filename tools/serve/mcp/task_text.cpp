#include "tools/serve/mcp/task_text.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/serve/mcp/json_rpc.hpp"

namespace cudal1::serve::mcp {

namespace {

std::string declared(const char* role, const json& t) {
  std::string text = fmt::format("- {} `{}`: {}{}", role, text_member(t, "name"), text_member(t, "dtype"),
                                 t.find("shape") != nullptr ? t.find("shape")->text() : "");
  if (const json* strides = t.find("strides")) text += " with strides " + strides->text();
  if (const json* draw = t.find("draw")) text += ", drawn " + draw->text();
  for (const auto& fact : list_member(t, "facts"))
    text += fmt::format(", always {}", fact.as_string());
  return text + "\n";
}

std::vector<std::string> texts(const json& object, std::string_view name) {
  std::vector<std::string> out;
  for (const auto& one : list_member(object, name))
    out.push_back(one.as_string());
  return out;
}

}  // namespace

std::string description_of(const json& task) {
  const json* program = task.find("task");
  if (program == nullptr || !program->is_object()) return task.text(1);
  std::string text =
      fmt::format("{}: {}\n{}, with the sizes for {}\n\n", text_member(task, "name"), text_member(task, "summary"),
                  text_member(task, "family"), text_member(task, "profile"));
  for (const auto& t : list_member(*program, "inputs"))
    text += declared("input", t);
  for (const auto& t : list_member(*program, "weights"))
    text += declared("weight", t);
  for (const auto& output : texts(task, "outputs"))
    text += fmt::format("- output {}\n", output);
  text += "\nIts own program, which is the reference:\n";
  for (const auto& step : list_member(*program, "steps"))
    text += step.text() + "\n";
  double bytes = 0, products = 0;
  if (const json* work = task.find("work"); work != nullptr) {
    for (const char* part : {"input_bytes", "weight_bytes", "output_bytes"})
      bytes += number_member(*work, part);
    if (const json* flops = work->find("flops"); flops != nullptr)
      for (const char* type : {"float64", "float32", "tf32", "half"})
        products += number_member(*flops, type);
  }
  text += fmt::format("\nA call reads and writes at least {:.4g} kB, and does {:.4g} kFLOP in products.\n", bytes / 1e3,
                      products / 1e3);
  return text;
}

json short_document(const json& task) {
  json out = json::make_object();
  for (const auto& [name, value] : task.as_object())
    if (name != "origin" && name != "inputs" && name != "weights" && name != "task") out.set(name, value);
  const json* program = task.find("task");
  if (program == nullptr || !program->is_object()) return out;
  for (const char* name : {"inputs", "weights", "steps", "outputs"})
    if (const json* member = program->find(name)) out.set(name, *member);
  return out;
}

std::string legal_moves(const json& document) {
  std::string text =
      "Legal now, in the order in which a schedule has them; the values are those that this task allows:\n";
  std::vector<std::string> others;
  for (const auto& move : list_member(document, "moves")) {
    const auto name = text_member(move, "name");
    const auto examples = texts(move, "examples");
    if (examples.empty())
      others.push_back(name);
    else
      text += fmt::format("- {}({}): {}; here: {}\n", name, fmt::join(texts(move, "parameters"), ", "),
                          text_member(move, "summary"), fmt::join(examples, ", "));
  }
  text += fmt::format("Not legal here: {}.\n", fmt::join(others, ", "));
  if (const auto first = text_member(document, "first_moves"); !first.empty())
    text += fmt::format(
        "A legal beginning, after which the values of later moves hold (their groups are those that it makes): {}\n",
        first);
  return text;
}

}  // namespace cudal1::serve::mcp
