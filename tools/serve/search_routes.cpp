#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/hash.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/imported_tasks.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/precision_option.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/model_import.hpp"
#include "tools/serve/route_sets.hpp"

namespace cudal1::serve {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds start_limit = 2min, answer_limit = 30s;
constexpr double most_evaluations = 1e6, most_time_s = 86400;

cli::context reading_context(const route_context& c) {
  cli::context out;
  out.data = c.data;
  out.quiet = true;
  return out;
}

json progress_schema() {
  return object_schema({{"experiment", schema_of("string")}, {"state", schema_of("string")}}, {"experiment", "state"},
                       false);
}

double number_of(const json& body, std::string_view name) {
  const json* found = body.find(name);
  return found != nullptr ? found->as_number() : 0;
}

expected<client_request> search_request(const route_context& c, const json& body) {
  const auto reading = reading_context(c);
  CUDAL1_TRY(const auto node, cli::connect_to_node(reading));
  const json* device = body.find("device");
  CUDAL1_TRY(const auto devices, cli::choose_devices(node.status, device != nullptr ? device->as_string() : ""));
  CUDAL1_TRY(const std::string profile, cli::profile_of(devices.front().where.device));
  if (const json* precision = body.find("precision")) {
    const accuracy held = accuracy_of(devices.front().where);
    if (cli::accuracy_named(precision->as_string()) != held)
      return fail(errc::invalid_argument,
                  "the variants of this node are held to verification.tolerance = {}, and not to precision {}: it must "
                  "serve with --precision {}",
                  enum_name(held), precision->as_string(), precision->as_string());
  }
  std::vector<std::string> names;
  for (const auto& name : body.find("tasks")->as_array())
    names.push_back(name.as_string());
  CUDAL1_TRY(const auto tasks, cli::choose_tasks("", names, profile, c.data));
  CUDAL1_CHECK(cli::copy_task_blobs(reading, tasks));
  client_request r;
  r.verb = client_verb::run;
  r.device = fmt::format("{}", fmt::join(cli::names_of(devices), ","));
  for (const auto& t : tasks)
    r.tasks.push_back(canonical_text(t));
  if (const json* policy = body.find("policy")) r.policy = policy->as_string();
  r.evaluations_per_task = static_cast<int64_t>(number_of(body, "evaluations"));
  r.time_limit_s = number_of(body, "time_s");
  r.seed = static_cast<uint64_t>(number_of(body, "seed"));
  return r;
}

json document_of(const experiment_progress& p) {
  json out = to_json(p);
  json::array tasks;
  for (const auto& t : p.tasks)
    tasks.push_back(json::make_object({{"task", t.name},
                                       {"evaluations", t.evaluations},
                                       {"correct", t.correct},
                                       {"best", t.best},
                                       {"variant", t.best_variant}}));
  out.set("tasks", json(std::move(tasks)));
  return out;
}

// Of one that runs; else what the store says.
expected<json> progress_of(const route_context& c, const std::string& experiment) {
  CUDAL1_TRY(auto client, node_client::connect(c.data));
  client_request r;
  r.verb = client_verb::follow;
  r.experiment = experiment;
  CUDAL1_CHECK(client.send(r));
  CUDAL1_TRY(const auto answer, client.receive(answer_limit));
  if (answer.progress) return document_of(*answer.progress);
  const auto problem = error_of(answer);
  if (problem && problem->code != errc::not_found) return tl::unexpected<error>(*problem);
  CUDAL1_TRY(const auto store, cli::open_for_reading(reading_context(c)));
  CUDAL1_TRY(const auto record, store->get_experiment(experiment));
  return json::make_object(
      {{"experiment", record.id}, {"state", enum_name(record.state)}, {"active_s", record.active_s}});
}

// Whether the newest task of this name was imported from anything but this text.
bool is_of_other_source(const route_context& c, const std::string& name, const std::string& source) {
  const auto known = cli::imported_versions(c.data, name);
  if (known.empty()) return false;
  const auto t = load_task(known.front().file, cli::default_profile());
  return !t || !t->origin || t->origin->source != sha256_hex(source) + ".py";
}

// A model's source becomes a file, is executed confined, and what it computes becomes tasks.
expected<json> import_source(const route_context& c, const json& body) {
  const std::string name = body.find("name")->as_string();
  if (cli::choose_tasks("", {name}, cli::default_profile()))
    return fail(errc::already_exists, "{} is a built-in task: give the model another name", name);
  const std::string& source = body.find("source")->as_string();
  const auto folder = fmt::format("{}/serve/sources/{}", c.data, sha256_hex(source).substr(0, 16));
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  cli::model_choice model;
  model.source = fmt::format("{}/{}.py", folder, name);
  model.execution.confined = true;
  const json* replace = body.find("replace");
  if ((replace == nullptr || !replace->as_bool()) && is_of_other_source(c, name, source))
    return fail(errc::already_exists,
                "{} was imported from another source: give the model another name, or \"replace\": true", name);
  CUDAL1_CHECK(write_durably({.path = model.source}, source));
  CUDAL1_TRY(const auto imported, cli::imported_once(c.data, model));
  return json::make_object(
      {{"imported", to_json(imported.report.imported)}, {"refused", to_json(imported.report.refused)}});
}

json import_schema() {
  json source = schema_of("string", "Python with Model, get_inputs and get_init_inputs, as in KernelBench");
  source.set("minLength", 1);
  source.set("maxLength", 1 << 20);
  return object_schema({{"name", pattern_schema("^[a-z][a-z0-9_]{0,62}$", "of the task")},
                        {"source", source},
                        {"replace", schema_of("boolean", "the name may be that of a task from another source")}},
                       {"name", "source"}, true);
}

template <class Make>
api_handler handled(Make make) {
  return answer_with([make](const api_call& call) -> api_result<json> {
    auto made = make(call);
    if (!made) return refuse(problem_of(made.error()));
    return std::move(*made);
  });
}

}  // namespace

json search_schema() {
  json tasks = schema_of("array", "names of tasks");
  tasks.set("items", pattern_schema(task_pattern));
  tasks.set("minItems", 1);
  tasks.set("maxItems", 256);
  json body =
      object_schema({{"tasks", tasks},
                     {"device", pattern_schema(device_pattern, "cpu, cuda:0, cuda (every GPU), ...")},
                     {"policy", choice_schema({"evolutionary", "random", "learned"})},
                     {"evaluations", number_schema("integer", 1, most_evaluations, "of each task")},
                     {"time_s", number_schema("number", 0.1, most_time_s, "of the search")},
                     {"precision", choice_schema({"strict", "eager", "half"}, "refused unless it is the node's")},
                     {"seed", number_schema("integer", 0, 1e9)}},
                    {"tasks"}, true);
  return body;
}

// The node goes on with it when this connection is closed.
expected<json> start_search(const route_context& c, const json& body) {
  CUDAL1_TRY(const client_request r, search_request(c, body));
  CUDAL1_TRY(auto client, node_client::connect(c.data));
  CUDAL1_CHECK(client.send(r));
  CUDAL1_TRY(const auto answer, client.receive(start_limit));
  if (const auto problem = error_of(answer)) return tl::unexpected<error>(*problem);
  if (!answer.progress) return fail(errc::infrastructure, "the node did not say which experiment it started");
  return document_of(*answer.progress);
}

expected<json> stop_search(const route_context& c, const std::string& experiment) {
  CUDAL1_TRY(auto client, node_client::connect(c.data));
  client_request r;
  r.verb = client_verb::stop;
  r.experiment = experiment;
  CUDAL1_CHECK(client.ask(r, answer_limit));
  return progress_of(c, experiment);
}

void add_search_routes(route_table& table, const route_context& c) {
  const auto experiment = path_value("experiment", experiment_pattern, "its id, as in e3");
  table.add({.method = "POST",
             .path = "/v1/searches",
             .id = "start_search",
             .about = "search for faster variants; it goes on by itself until a limit",
             .permission = "search",
             .where = route_thread::waiting,
             .parameters = {},
             .body = search_schema(),
             .result = progress_schema(),
             .success = 202,
             .handle = [c](const api_call& call, const std::shared_ptr<http_reply>& reply) {
               if (call.body.find("evaluations") == nullptr && call.body.find("time_s") == nullptr)
                 return reply->answer(answer_of(
                     api_problem{400, "invalid_argument", "the search has no limit", "give evaluations or time_s"}));
               const auto started = start_search(c, call.body);
               reply->answer(started ? http_answer{202, started->text()} : answer_of(problem_of(started.error())));
             }});
  table.add({.method = "GET",
             .path = "/v1/searches/{experiment}",
             .id = "show_search",
             .about = "the progress of a search",
             .where = route_thread::waiting,
             .parameters = {experiment},
             .body = {},
             .result = progress_schema(),
             .handle = handled([c](const api_call& call) { return progress_of(c, call.text("experiment")); })});
  table.add({.method = "DELETE",
             .path = "/v1/searches/{experiment}",
             .id = "stop_search",
             .about = "stop it; what it found is kept",
             .permission = "stop",
             .where = route_thread::waiting,
             .parameters = {experiment},
             .body = {},
             .result = progress_schema(),
             .handle = handled([c](const api_call& call) { return stop_search(c, call.text("experiment")); })});
  table.add({.method = "POST",
             .path = "/v1/tasks",
             .id = "import_model",
             .about = "import a PyTorch model as tasks: its Python is executed, confined, as the node's user",
             .permission = "import",
             .where = route_thread::waiting,
             .parameters = {},
             .body = import_schema(),
             .result = object_schema({}, {"imported", "refused"}, false),
             .handle = handled([c](const api_call& call) { return import_source(c, call.body); })});
}

}  // namespace cudal1::serve
