#include "tools/serve/mcp/tools.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/serve/mcp/json_rpc.hpp"
#include "tools/serve/mcp/task_text.hpp"
#include "tools/serve/mcp/told_verdict.hpp"

namespace cudal1::serve::mcp {

namespace {

const json none;

json argument(const json& arguments, std::string_view name) {
  const json* found = arguments.find(name);
  return found != nullptr ? *found : json();
}

const json& member(const json& document, std::string_view name) {
  const json* found = document.find(name);
  return found != nullptr ? *found : none;
}

json task_schema() {
  return schema_of("string", "a task's name, as list_tasks gives it");
}
json device_schema() {
  return schema_of("string", "cpu, cuda:0, ...; without: the first GPU, else cpu");
}

std::map<std::string, json> task_and_device(const json& a) {
  return {{"task", argument(a, "task")}, {"device", argument(a, "device")}};
}

// "name: about" of each item, a line each.
std::string lines_of(const json::array& all, std::string_view about) {
  std::vector<std::string> lines;
  for (const auto& one : all)
    lines.push_back(fmt::format("{}: {}", text_member(one, "name"), text_member(one, about)));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

api_result<json> list_tasks(const own_requests& own, const json& a) {
  const auto built_in = own.ask("list_tasks", {{"device", argument(a, "device")}});
  if (!built_in) return refuse(built_in.error());
  const auto imported = own.ask("list_imported");
  if (!imported) return refuse(imported.error());
  json::array rows;
  const auto add = [&](const json& t, const std::string& summary, const std::string& family) {
    rows.push_back(json::make_object({{"name", text_member(t, "name")}, {"summary", summary}, {"family", family}}));
  };
  for (const auto& t : list_member(*built_in, "tasks"))
    add(t, text_member(t, "summary"), text_member(t, "family"));
  for (const auto& t : list_member(*imported, "tasks"))
    add(t, "imported", "");
  auto text = lines_of(rows, "summary");
  return tool_result(std::move(text), json::make_object({{"tasks", json(std::move(rows))}}));
}

api_result<json> described(const own_requests& own, const json& a) {
  auto made = own.ask("describe_task", task_and_device(a));
  if (!made) return refuse(made.error());
  const auto& all = list_member(*made, "tasks");
  return all.empty() ? json() : all.front();
}

api_result<json> describe_task(const own_requests& own, const json& a) {
  auto task = described(own, a);
  if (!task) return refuse(task.error());
  auto text = description_of(*task);
  json out = json::make_object({{"task", short_document(*task)}});
  if (const auto gpu = text_member(a, "gpu"); !gpu.empty()) {
    auto bounds = own.ask("bounds_of_task", {{"task", argument(a, "task")}, {"gpu", gpu}});
    if (!bounds) return refuse(bounds.error());
    text += fmt::format("\nWhat bounds it on {}:\n{}\n", gpu, bounds->text(1));
    out.set("bounds", std::move(*bounds));
  } else {
    const auto shown = own.ask("exemplars_of_task", task_and_device(a));
    if (!shown) return refuse(shown.error());
    out.set("bounds", member(*shown, "bounds"));
    out.set("analysis", member(*shown, "analysis"));
    if (const json& reference = member(member(*shown, "bounds"), "reference_us"); reference.is_number())
      text += fmt::format("Its own program takes {:.4g} us here.\n", reference.as_number());
    if (member(member(*shown, "bounds"), "roof").is_null())
      text +=
          "The bandwidth and rates of this device are not known, so there is no floor: `gpu` gives those of a GPU.\n";
  }
  return tool_result(std::move(text), std::move(out));
}

api_result<json> python_problem(const own_requests& own, const json& a) {
  const auto made = own.ask("python_problem", task_and_device(a));
  if (!made) return refuse(made.error());
  return tool_result(text_member(*made, "source"));
}

api_result<json> explain(const own_requests& own, const json& a) {
  const auto made = own.ask("explain_variant", {{"variant", argument(a, "variant")}});
  if (!made) return refuse(made.error());
  return tool_result(verdict_text(*made), *made);
}

api_result<json> best(const own_requests& own, const json& a) {
  if (const auto known = described(own, a); !known) return refuse(known.error());
  const json count = argument(a, "count");
  const auto found =
      own.ask("best_of_task", {{"task", argument(a, "task")}, {"count", count.is_null() ? json(5) : count}});
  if (!found && found.error().status != 404) return refuse(found.error());
  if (!found || list_member(*found, "variants").empty())
    return tool_result("There is no correct variant yet: the reference itself is the best.",
                       json::make_object({{"variants", json(json::array())}}));
  json::array rows;
  std::string text;
  for (const auto& v : list_member(*found, "variants")) {
    const json& interval = member(v, "speedup_interval");
    const double speedup = member(v, "speedup").as_number(), low = member(interval, "low").as_number(),
                 high = member(interval, "high").as_number();
    text += fmt::format("{:.4g}x [{:.4g}, {:.4g}] {} {}\n", speedup, low, high, text_member(v, "variant"),
                        text_member(v, "schedule"));
    rows.push_back(json::make_object({{"variant", member(v, "variant")},
                                      {"speedup", speedup},
                                      {"interval", json::make_array({low, high})},
                                      {"confirmed", member(v, "confirmed")},
                                      {"schedule", member(v, "schedule")}}));
  }
  const auto shown = own.ask("show_variant", {{"variant", member(rows.front(), "variant")}});
  if (!shown) return refuse(shown.error());
  const json* record = shown->find("variant");
  const auto program = text_member(record != nullptr && record->is_object() ? *record : *shown, "program");
  return tool_result(text + "\nThe program of the first:\n" + program,
                     json::make_object({{"variants", json(std::move(rows))}, {"program", program}}));
}

api_result<json> prompt(const own_requests& own, const json& a) {
  auto values = task_and_device(a);
  values["form"] = argument(a, "form");
  values["tokens"] = argument(a, "tokens");
  const auto made = own.ask("prompt_of_task", std::move(values));
  if (!made) return refuse(made.error());
  const json& text = member(*made, "text");
  return tool_result(text_member(text, "system") + text_member(text, "user"));
}

api_result<json> import_model(const own_requests& own, const json& a) {
  const auto made = own.ask("import_model", {}, a);
  if (!made) return refuse(made.error());
  std::vector<std::string> names, refused;
  for (const auto& r : list_member(*made, "refused"))
    refused.push_back(fmt::format("{} was refused: {}", text_member(r, "name"), text_member(r, "reason")));
  if (!refused.empty()) return tool_error(fmt::format("{}", fmt::join(refused, "; ")));
  for (const auto& t : list_member(*made, "imported"))
    names.push_back(text_member(t, "name"));
  return tool_result(fmt::format("Imported: {}", fmt::join(names, ", ")),
                     json::make_object({{"tasks", json(json::array(names.begin(), names.end()))}}));
}

api_result<json> export_files(const own_requests& own, const json& a) {
  if (const auto known = described(own, a); !known) return refuse(known.error());
  const auto made = own.ask("export_task", {{"task", argument(a, "task")}});
  if (!made) return refuse(made.error());
  const json& files = member(*made, "files");
  std::string text;
  for (const auto& [name, content] : files.as_object())
    if (name.ends_with(".json"))  // raw samples
      text += fmt::format("===== {}: {} characters, in the structured content\n", name, content.as_string().size());
    else
      text += fmt::format("===== {}\n{}\n", name, content.as_string());
  return tool_result(std::move(text), json::make_object({{"files", files}}));
}

api_result<json> moves(const own_requests& own, const json& a) {
  if (a.find("task") != nullptr) {
    auto values = task_and_device(a);
    values["form"] = "schedule";
    const auto made = own.ask("prompt_of_task", std::move(values));
    if (!made) return refuse(made.error());
    const json& document = member(*made, "document");
    return tool_result(legal_moves(document), json::make_object({{"moves", member(document, "moves")},
                                                                 {"first_moves", member(document, "first_moves")}}));
  }
  auto made = own.ask("list_moves");
  if (!made) return refuse(made.error());
  return tool_result(lines_of(list_member(*made, "moves"), "about"),
                     json::make_object({{"moves", member(*made, "moves")}}));
}

api_result<json> profile(const own_requests& own, const json& a) {
  const auto made = own.ask("profile_variant", {{"variant", argument(a, "variant")}});
  if (!made) return refuse(made.error());
  double all = 0;
  for (const auto& s : list_member(*made, "steps"))
    all += member(s, "us").as_number();
  std::string text = fmt::format("{} on {}, {:.4g} us in all its steps:\n", text_member(*made, "task"),
                                 text_member(*made, "device"), all);
  for (const auto& s : list_member(*made, "steps")) {
    const double us = member(s, "us").as_number();
    if (us > 0 && !member(s, "is_alloc").as_bool())
      text += fmt::format("{:.4g} us, {:.0f}%, {:.4g} MB: {}\n", us, 100 * us / all,
                          member(s, "bytes").as_number() / 1e6, text_member(s, "step"));
  }
  return tool_result(std::move(text), json::make_object({{"steps", member(*made, "steps")}}));
}

json evaluate_arguments() {
  return object_schema(
      {{"task", task_schema()},
       {"program", schema_of("string", "the program's text: cudal1://format")},
       {"schedule", schema_of("string", "moves, as in row_kernel(steps=0)")},
       {"python", schema_of("string", "a Python file with ModelNew, for what python_problem gives")},
       {"device", device_schema()},
       {"limit_s", number_schema("number", 1, 86400, "give up, and cancel, after so many seconds (600)")}},
      {"task"}, true);
}

std::vector<tool> make_tools() {
  const json task = object_schema({{"task", task_schema()}, {"device", device_schema()}}, {"task"}, true);
  return {
      {"list_tasks", "The tasks that can be made faster.", object_schema({{"device", device_schema()}}, {}, true), true,
       list_tasks},
      {"describe_task", "A task: its program, inputs, least work, and what bounds its time.",
       object_schema({{"task", task_schema()},
                      {"device", device_schema()},
                      {"gpu", schema_of("string", "the bounds on this GPU, as in H200")}},
                     {"task"}, true),
       true, describe_task},
      {"python_problem",
       "The task as a PyTorch model with Model and get_inputs: what a Python file with ModelNew has to compute.", task,
       true, python_problem},
      {"evaluate",
       "Check and time one variant: a program (JSON head, a line ---, CUDA C++), a schedule of moves, or a Python file "
       "with ModelNew. Says the speedup with its 95% interval, or the failing gate and what to write instead.",
       evaluate_arguments(), false},
      {"explain", "The newest verdict on a variant, gate by gate, with what to write instead.",
       object_schema({{"variant", schema_of("string", "its id, or the first digits")}}, {"variant"}, true), true,
       explain},
      {"profile", "Where a variant's time goes, step by step. For variants that were measured on `cpu`.",
       object_schema({{"variant", schema_of("string", "its id, or the first digits")}}, {"variant"}, true), true,
       profile},
      {"best", "The best correct variants of a task, and the program of the first.",
       object_schema({{"task", task_schema()},
                      {"device", device_schema()},
                      {"count", number_schema("integer", 1, 1000, "how many (5)")}},
                     {"task"}, true),
       true, best},
      {"prompt", "All that is known for a writer of variants: the task, device, format, earlier variants with scores.",
       object_schema({{"task", task_schema()},
                      {"device", device_schema()},
                      {"form", choice_schema({"program", "schedule"}, "of the answer")},
                      {"tokens", number_schema("integer", 1000, 1e6, "the budget")}},
                     {"task"}, true),
       true, prompt},
      {"import_model",
       "Make tasks of a PyTorch model's source (Model, get_inputs, get_init_inputs). The node executes it, and must "
       "allow that.",
       object_schema({{"name", schema_of("string", "of the task: lower-case letters, digits, _")},
                      {"source", schema_of("string", "Python")},
                      {"replace", schema_of("boolean", "the name of a task that was imported from another source")}},
                     {"name", "source"}, true),
       false, import_model},
      {"export", "The best confirmed variant of a task as files.", task, true, export_files},
      {"moves",
       "The moves that schedules are made of. With a task: which of them are legal, their parameters and values, and a "
       "legal beginning.",
       object_schema({{"task", task_schema()}, {"device", device_schema()}}, {}, true), true, moves},
  };
}

}  // namespace

json tool::document() const {
  return json::make_object({{"name", name},
                            {"description", about},
                            {"inputSchema", arguments},
                            {"annotations", json::make_object({{"readOnlyHint", only_reads}})}});
}

const std::vector<tool>& tools() {
  static const std::vector<tool> all = make_tools();
  return all;
}

const tool* find_tool(const std::string& name) {
  const auto found = std::ranges::find(tools(), name, &tool::name);
  return found == tools().end() ? nullptr : &*found;
}

json evaluation_body(const json& arguments) {
  json variant = json::make_object();
  for (const char* form : {"program", "schedule", "python"})
    if (const json* text = arguments.find(form)) variant.set(form, *text);
  variant.set("label", "mcp");
  json body = json::make_object({{"task", argument(arguments, "task")}});
  if (const json* device = arguments.find("device")) body.set("device", *device);
  body.set("variants", json::make_array({std::move(variant)}));
  return body;
}

double evaluation_limit_s(const json& arguments) {
  const json* limit = arguments.find("limit_s");
  return limit != nullptr ? limit->as_number() : default_limit_s;
}

std::string progress_text(const json& job) {
  const json& position = member(job, "position");
  if (position.is_null())
    return fmt::format("{} of {} evaluated", member(job, "finished").as_int(), member(job, "evaluations").as_int());
  return fmt::format("waits: {} before it, about {:.0f} s", position.as_int(),
                     member(job, "expected_wait_s").as_number());
}

json evaluation_result(const json& job) {
  const auto& results = list_member(job, "results");
  const json& first = results.empty() ? none : results.front();
  if (const json& verdict = member(first, "verdict"); verdict.is_object())
    return tool_result(verdict_text(verdict), verdict);
  const json& fault = member(first, "error");
  if (fault.is_object())
    return tool_error(fmt::format("{} ({})", text_member(fault, "message"), text_member(fault, "hint")));
  return tool_error(fmt::format("job {} is {}, without a verdict", text_member(job, "id"), text_member(job, "state")));
}

std::string text_of(const api_problem& p) {
  return p.hint.empty() ? p.message : fmt::format("{} ({})", p.message, p.hint);
}

}  // namespace cudal1::serve::mcp
