#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/report/stored_tasks.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/serve/package_answer.hpp"
#include "tools/serve/route_sets.hpp"
#include "tools/serve/verdict_document.hpp"

namespace cudal1::serve {

namespace {

using words = std::vector<std::string>;

json document_schema(std::vector<std::string> members) {
  return object_schema({}, std::move(members), false);
}

// A command that prints a document. `named`: a usage error means that what the path names is not there.
api_handler by_command(const route_context& c, std::function<words(const api_call&)> words_of, bool named) {
  return answer_with([c, words_of = std::move(words_of), named](const api_call& call) -> api_result<json> {
    auto made = c.commands->document(words_of(call), named ? errc::not_found : errc::invalid_argument);
    if (!made) return refuse(problem_of(made.error()));
    return std::move(*made);
  });
}

words with_device(words w, const api_call& call) {
  if (const auto device = call.text("device"); !device.empty()) w.insert(w.end(), {"--device", device});
  return w;
}

route_parameter task_value() {
  return path_value("task", task_pattern, "a task's name");
}
route_parameter device_value() {
  return query_value("device", pattern_schema(device_pattern), "cpu, cuda:0, ...; without: the first GPU, else cpu");
}

words prompt_words(const api_call& call) {
  words w = with_device({"prompt", call.text("task"), "--json"}, call);
  const auto add = [&](const char* name, const char* flag) {
    if (const auto text = call.text(name); !text.empty()) w.insert(w.end(), {flag, text});
  };
  add("form", "--form");
  add("experiment", "--experiment");
  add("detail", "--detail");
  if (call.values.contains("tokens")) w.insert(w.end(), {"--tokens", std::to_string(call.number("tokens", 0))});
  if (call.values.contains("seed")) w.insert(w.end(), {"--seed", std::to_string(call.number("seed", 0))});
  return w;
}

std::vector<route_parameter> prompt_parameters() {
  return {task_value(),
          device_value(),
          query_value("form", choice_schema({"program", "schedule", "tile"}), "of the answer"),
          query_value("experiment", pattern_schema(experiment_pattern), "show the variants of this search"),
          query_value("tokens", number_schema("integer", 1000, 1e6), "the budget"),
          query_value("detail", choice_schema({"auto", "full", "compact"}), "how much is explained"),
          query_value("seed", number_schema("integer", 0, 1e9), "of the drawing of earlier variants")};
}

// The named task's prompt, as JSON; 404 for the name.
api_result<json> prompt_of(const route_context& c, const api_call& call) {
  if (auto known = check_task_name(c, call.text("task"), call.text("device")); !known) return refuse(known.error());
  auto made = c.commands->document(prompt_words(call), errc::invalid_argument);
  if (!made) return refuse(problem_of(made.error()));
  return std::move(*made);
}

json member_of(const json& document, std::string_view name) {
  const json* found = document.find(name);
  return found != nullptr ? *found : json();
}

api_result<json> exemplars_of(const route_context& c, const api_call& call) {
  auto made = prompt_of(c, call);
  if (!made) return made;
  const json document = member_of(*made, "document");
  json out = json::make_object();
  for (const char* name : {"exemplars", "failed", "analysis", "bounds"})
    out.set(name, member_of(document, name));
  return out;
}

expected<json> baselines_of(const route_context& c, const std::string& task) {
  cli::context reading;
  reading.data = c.data;
  CUDAL1_TRY(const auto store, cli::open_for_reading(reading));
  CUDAL1_TRY(const auto record, cli::find_task(*store, task));
  CUDAL1_TRY(auto records, store->baselines_of_task(record.id));
  for (auto& b : records)
    b.call_samples = b.device_samples = {};
  return json::make_object({{"task", record.name}, {"id", record.id}, {"baselines", to_json(records)}});
}

// The newest verdict on a variant, with what to write instead.
expected<json> verdict_on(const route_context& c, const std::string& prefix) {
  cli::context reading;
  reading.data = c.data;
  CUDAL1_TRY(const auto store, cli::open_for_reading(reading));
  CUDAL1_TRY(const auto variant, store->find_variant(prefix));
  CUDAL1_TRY(const auto verdicts, store->verdicts_of_variant(variant.id));
  if (verdicts.empty()) return fail(errc::not_found, "variant {} has no verdict yet", variant.id);
  const auto newest = std::ranges::max_element(verdicts, {}, &verdict::time_unix_ms);
  std::string device;
  if (const auto where = store->get_environment(newest->environment_id)) device = where->device;
  return verdict_document(*newest, variant.experiment, device);
}

// A profile needs its device for itself. On `cpu` it takes turns on the core of all measurements; a GPU is the node's.
api_result<void> check_profile(const route_context& c, const std::string& variant) {
  const auto newest = verdict_on(c, variant);
  if (!newest) return refuse(problem_of(newest.error()));
  const auto* const device = newest->find("device");
  const std::string name = device != nullptr && device->is_string() ? std::string(device->as_string()) : "";
  if (!traits_of(name).is_accelerator) return {};
  return refuse({409, "device_in_use",
                 fmt::format("{} is measured on by the node, which a profile would disturb", name),
                 fmt::format("`cudal1 profile {}` on the node's machine, while nothing is measured", variant)});
}

// The files that `cudal1 export` writes.
expected<json> export_of(const route_context& c, const std::string& task) {
  namespace fs = std::filesystem;
  std::error_code problem;
  fs::create_directories(c.data + "/serve", problem);
  std::string folder = c.data + "/serve/export_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return fail(errc::io_error, "cannot make the folder {}", folder);
  const auto made = c.commands->text({"export", folder, "--task", task, "--json", "--force"}, errc::not_found);
  json files = json::make_object();
  expected<void> read;
  for (fs::directory_iterator entry(folder, problem), end; made && !problem && entry != end; entry.increment(problem)) {
    if (!entry->is_regular_file(problem)) continue;
    auto text = read_text_file(entry->path().string());
    if (!text) {
      read = tl::unexpected<error>(text.error());
      break;
    }
    files.set(entry->path().filename().string(), std::move(*text));
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!made) return tl::unexpected<error>(made.error());
  CUDAL1_CHECK(read);
  return json::make_object({{"task", task}, {"files", std::move(files)}});
}

api_result<json> exported(const route_context& c, const api_call& call) {
  const bool is_package = call.text("format") == "torch";
  if (is_package)
    if (const auto allowed = require(call.client, "import"); !allowed) return tl::unexpected(allowed.error());
  auto made = is_package ? package_answer(*c.commands, {call.text("task"), call.text("name"), call.text("precision")})
                         : export_of(c, call.text("task"));
  if (!made) return refuse(problem_of(made.error()));
  return std::move(*made);
}

template <class Make>
api_handler by_task(const route_context& c, Make make) {
  return answer_with([c, make](const api_call& call) -> api_result<json> {
    auto made = make(c, call.text("task"));
    if (!made) return refuse(problem_of(made.error()));
    return std::move(*made);
  });
}

void add_task_routes(route_table& table, const route_context& c) {
  table.add({.method = "GET",
             .path = "/v1/tasks",
             .id = "list_tasks",
             .about = "the built-in tasks with their sizes; GET /v1/imported has those that were imported",
             .parameters = {device_value()},
             .body = {},
             .result = document_schema({"tasks"}),
             .handle = by_command(
                 c,
                 [](const auto& call) {
                   return with_device({"tasks", "--json"}, call);
                 },
                 true)});
  table.add({.method = "GET",
             .path = "/v1/tasks/{task}",
             .id = "describe_task",
             .about = "one task: its program, inputs, least work and, of a known GPU, its floor",
             .parameters = {task_value(), device_value()},
             .body = {},
             .result = document_schema({"tasks"}),
             .handle = answer_with([c](const api_call& call) -> api_result<json> {
               const auto task = call.text("task");
               if (auto known = check_task_name(c, task, call.text("device")); !known) return refuse(known.error());
               auto made = c.commands->document(with_device({"tasks", task, "--json"}, call), errc::invalid_argument);
               if (!made) return refuse(problem_of(made.error()));
               return std::move(*made);
             })});
  table.add(
      {.method = "GET",
       .path = "/v1/tasks/{task}/bounds",
       .id = "bounds_of_task",
       .about = "what limits the task on a GPU before anything is measured: as one kernel, as its parts, by steps",
       .parameters = {task_value(), query_value("gpu", pattern_schema("^[A-Za-z0-9][A-Za-z0-9 _-]{0,99}$"),
                                                "the GPU's model, as in H200")},
       .body = {},
       .result = document_schema({}),
       .handle = answer_with([c](const api_call& call) -> api_result<json> {
         const auto gpu = call.text("gpu");
         const std::string model = gpu.empty() ? "H200" : gpu;
         if (auto known = check_task_name(c, call.text("task"), ""); !known) return refuse(known.error());
         auto made = c.commands->document({"tasks", call.text("task"), "--gpu", model, "--bound", "--json"},
                                          errc::invalid_argument);
         if (!made) return refuse(problem_of(made.error()));
         return std::move(*made);
       })});
  table.add({.method = "GET",
             .path = "/v1/tasks/{task}/best",
             .id = "best_of_task",
             .about = "the best correct variants, with their intervals",
             .parameters = {task_value(), query_value("count", number_schema("integer", 1, 1000), "how many (10)"),
                            query_value("experiment", pattern_schema(experiment_pattern), "of this search only")},
             .body = {},
             .result = document_schema({"task", "variants"}),
             .handle = by_command(
                 c,
                 [](const api_call& call) {
                   words w = {"best", call.text("task"), "--json", "-n", std::to_string(call.number("count", 10))};
                   if (const auto e = call.text("experiment"); !e.empty()) w.insert(w.end(), {"--experiment", e});
                   return w;
                 },
                 true)});
  table.add(
      {.method = "GET",
       .path = "/v1/tasks/{task}/prompt",
       .id = "prompt_of_task",
       .about = "what a language model is shown now: the task, the device, the format, earlier variants with scores",
       .parameters = prompt_parameters(),
       .body = {},
       .result = document_schema({"sha256", "text"}),
       .handle = answer_with([c](const api_call& call) { return prompt_of(c, call); })});
  table.add({.method = "GET",
             .path = "/v1/tasks/{task}/exemplars",
             .id = "exemplars_of_task",
             .about = "earlier variants, correct and failed, as a prompt shows them",
             .parameters = prompt_parameters(),
             .body = {},
             .result = document_schema({"exemplars", "failed"}),
             .handle = answer_with([c](const api_call& call) { return exemplars_of(c, call); })});
  table.add({.method = "GET",
             .path = "/v1/tasks/{task}/baselines",
             .id = "baselines_of_task",
             .about = "PyTorch's own times that were measured",
             .parameters = {task_value()},
             .body = {},
             .result = document_schema({"baselines"}),
             .handle = by_task(c, baselines_of)});
  table.add(
      {.method = "GET",
       .path = "/v1/tasks/{task}/python",
       .id = "python_problem",
       .about = "the task as a PyTorch model: what a Python file with ModelNew is compared with",
       .parameters = {task_value(), device_value()},
       .body = {},
       .result = document_schema({"source"}),
       .handle = answer_with([c](const api_call& call) -> api_result<json> {
         auto source = c.commands->text(with_device({"tasks", call.text("task"), "--python"}, call), errc::not_found);
         if (!source) return refuse(problem_of(source.error()));
         return json::make_object({{"source", std::move(*source)}});
       })});
  table.add(
      {.method = "GET",
       .path = "/v1/tasks/{task}/export",
       .id = "export_task",
       .about = "the best confirmed variant as files, with its task and verdict; format=torch: as a package for "
                "PyTorch, whose files are base64, for clients that may import",
       .parameters = {task_value(),
                      query_value("format", choice_schema({"programs", "torch"}), "programs: texts; torch: a package"),
                      query_value("name", pattern_schema("^[a-z_][a-z0-9_]{0,99}$"), "of the package"),
                      query_value("precision", choice_schema({"strict", "eager", "half"}),
                                  "of the package: half has what was accepted in half precision")},
       .body = {},
       .result = document_schema({"files"}),
       .handle = answer_with([c](const api_call& call) { return exported(c, call); })});
}

void add_variant_routes(route_table& table, const route_context& c) {
  const auto variant = path_value("variant", variant_pattern, "its id, or the first digits");
  table.add({.method = "GET",
             .path = "/v1/variants/{variant}",
             .id = "show_variant",
             .about = "everything about a variant: schedule, verdicts with raw samples, program, source",
             .parameters = {variant},
             .body = {},
             .result = document_schema({}),
             .handle = by_command(
                 c,
                 [](const auto& call) {
                   return words{"show", call.text("variant"), "--json"};
                 },
                 true)});
  table.add({.method = "GET",
             .path = "/v1/variants/{variant}/verdict",
             .id = "explain_variant",
             .about = "the newest verdict on a variant: score, gate by gate, what to write instead",
             .parameters = {variant},
             .body = {},
             .result = document_schema({"outcome", "gates", "hint"}),
             .handle = answer_with([c](const api_call& call) -> api_result<json> {
               auto made = verdict_on(c, call.text("variant"));
               if (!made) return refuse(problem_of(made.error()));
               return std::move(*made);
             })});
  table.add({.method = "GET",
             .path = "/v1/variants/{variant}/audit",
             .id = "audit_variant",
             .about = "how its score follows from its samples",
             .parameters = {variant},
             .body = {},
             .result = document_schema({}),
             .handle = by_command(
                 c,
                 [](const auto& call) {
                   return words{"audit", call.text("variant"), "--json"};
                 },
                 true)});
  table.add({.method = "GET",
             .path = "/v1/variants/{variant}/profile",
             .id = "profile_variant",
             .about = "where its time goes, step by step; of variants that were measured on `cpu`",
             .parameters = {variant},
             .body = {},
             .result = document_schema({"steps"}),
             .handle = answer_with([c](const api_call& call) -> api_result<json> {
               if (auto may = check_profile(c, call.text("variant")); !may) return refuse(std::move(may.error()));
               auto made = c.commands->document({"profile", call.text("variant"), "--json"}, errc::not_found);
               if (!made) return refuse(problem_of(made.error()));
               return std::move(*made);
             })});
  const auto plain = [&](const char* path, const char* id, const char* about, words w,
                         std::vector<std::string> members) {
    table.add({.method = "GET",
               .path = path,
               .id = id,
               .about = about,
               .parameters = {},
               .body = {},
               .result = document_schema(std::move(members)),
               .handle = by_command(
                   c, [w](const auto&) { return w; }, false)});
  };
  plain("/v1/devices", "list_devices", "the devices, with what is known of them", {"devices", "--json"}, {"devices"});
  plain("/v1/moves", "list_moves", "the kinds of moves that schedules are made of", {"moves", "--json"}, {"moves"});
  plain("/v1/vocabulary", "vocabulary", "the operators that programs may call", {"operators", "--json"}, {"operators"});
  plain("/v1/experiments", "list_experiments", "all searches and evaluations", {"experiments", "--json"}, {});
}

}  // namespace

api_result<void> check_task_name(const route_context& c, const std::string& task, const std::string& device) {
  if (task.find('/') != std::string::npos || task.ends_with(".json"))
    return refuse({404, "not_found", task + " is a file, not a task's name", "GET /v1/tasks lists tasks"});
  auto known = cli::check_tasks("", {task}, device, c.data);
  if (known) return {};
  auto problem = problem_of(known.error());
  if (known.error().code == errc::invalid_argument) problem.status = 404;  // the device, or one of two tasks
  return refuse(std::move(problem));
}

void add_reading_routes(route_table& table, const route_context& c) {
  add_task_routes(table, c);
  add_variant_routes(table, c);
}

}  // namespace cudal1::serve
