#include <algorithm>

#include <fmt/format.h>

#include "config/base/hash.hpp"
#include "tools/serve/route_sets.hpp"

namespace cudal1::serve {

namespace {

constexpr double most_wait_s = 600;
constexpr std::size_t most_key_characters = 200;

json one_of_texts() {
  json::array choices;
  for (const char* name : {"program", "schedule", "answer", "python"})
    choices.push_back(json::make_object({{"required", json::make_array({name})}}));
  return json(std::move(choices));
}

json::object variant_properties() {
  constexpr double most = 4 << 20;
  const auto text = [&](const char* about) {
    json s = schema_of("string", about);
    s.set("minLength", 1);
    s.set("maxLength", static_cast<int64_t>(most));
    return s;
  };
  json label = schema_of("string", "the client's own name for it");
  label.set("maxLength", 200);
  return {{"program", text("a JSON head, a line ---, CUDA C++ source: GET /v1/format")},
          {"schedule", text("moves on the task's program, as in row_kernel(steps=0)")},
          {"answer",
           text("a language model's whole answer, in which the one program, or code in the tile vocabulary, is found")},
          {"python", text("a Python file with ModelNew, as in KernelBench; its Model: GET /v1/tasks/{task}/python")},
          {"label", label}};
}

json variant_schema() {
  json s = object_schema(variant_properties(), {}, true);
  s.set("oneOf", one_of_texts());
  return s;
}

json evaluate_schema() {
  json variants = schema_of("array", "a batch");
  variants.set("items", variant_schema());
  variants.set("minItems", 1);
  variants.set("maxItems", 256);
  return object_schema(
      {{"task", pattern_schema(task_pattern, "a task's name")},
       {"device", pattern_schema(device_pattern, "cpu, cuda:0, ...; without: the first GPU, else cpu")},
       {"variants", variants},
       {"wait_s",
        number_schema("number", 0, most_wait_s,
                      "answer when all have ended, or after this time, and cancel if the client goes before; 0: "
                      "answer 202 at once")}},
      {"task", "variants"}, true);
}

json job_schema() {
  return object_schema({{"id", schema_of("string")},
                        {"state", choice_schema({"waiting", "running", "done", "failed", "cancelled"})},
                        {"evaluations", schema_of("integer")},
                        {"finished", schema_of("integer")},
                        {"results", schema_of("array")}},
                       {"id", "state", "task", "position", "expected_wait_s", "evaluations", "finished", "results"},
                       false);
}

std::string member_text(const json& object, std::string_view name) {
  const json* found = object.find(name);
  return found != nullptr ? found->as_string() : "";
}

job job_of(const api_call& call) {
  job j;
  j.client = call.client.name;
  j.key = call.header("idempotency-key");
  if (!j.key.empty()) j.request = sha256_hex(call.body.text());
  j.task = member_text(call.body, "task");
  j.device = member_text(call.body, "device");
  for (const auto& v : call.body.find("variants")->as_array()) {
    job_item item;
    item.program = member_text(v, "program");
    item.schedule = member_text(v, "schedule");
    item.answer = member_text(v, "answer");
    item.python = member_text(v, "python");
    item.label = member_text(v, "label");
    j.items.push_back(std::move(item));
  }
  return j;
}

api_result<void> check_job(const route_context& c, const job& j) {
  if (j.key.size() > most_key_characters)
    return refuse({400, "invalid_argument", "the Idempotency-Key is too long", "use a UUID"});
  return check_task_name(c, j.task, j.device);
}

void evaluate(const route_context& c, const api_call& call, const std::shared_ptr<http_reply>& reply) {
  job j = job_of(call);
  if (auto checked = check_job(c, j); !checked) return reply->answer(answer_of(checked.error()));
  const auto submitted = c.board->submit(std::move(j));
  if (!submitted) return reply->answer(answer_of(submitted.error()));
  const json* wait = call.body.find("wait_s");
  if (wait != nullptr && wait->as_number() > 0) return c.board->answer_at_end(submitted->id, wait->as_number(), reply);
  const auto document = c.board->document(call.client, submitted->id);
  if (!document) return reply->answer(answer_of(document.error()));
  http_answer a{202, document->text()};
  a.headers.emplace_back("Location", "/v1/jobs/" + submitted->id);
  reply->answer(std::move(a));
}

void follow(const route_context& c, const api_call& call, const std::shared_ptr<http_reply>& reply) {
  const auto document = c.board->document(call.client, call.text("job"));
  if (!document) return reply->answer(answer_of(document.error()));
  c.board->follow(call.text("job"), reply);
}

}  // namespace

void add_job_routes(route_table& table, const route_context& c) {
  const auto id = path_value("job", job_pattern, "its id");
  table.add({.method = "POST",
             .path = "/v1/evaluate",
             .id = "evaluate",
             .about = "check and time variants of a task, as `cudal1 evaluate` does",
             .permission = "evaluate",
             .where = route_thread::waiting,
             .parameters = {},
             .body = evaluate_schema(),
             .result = job_schema(),
             .success = 202,
             .more = {200},
             .handle = [c](const api_call& call, const auto& reply) { evaluate(c, call, reply); }});
  table.add(
      {.method = "GET",
       .path = "/v1/jobs",
       .id = "list_jobs",
       .about = "your jobs, the newest first",
       .where = route_thread::own,
       .parameters = {},
       .body = {},
       .result = object_schema({}, {"jobs"}, false),
       .handle = answer_with([c](const api_call& call) -> api_result<json> { return c.board->list(call.client); })});
  table.add(
      {.method = "GET",
       .path = "/v1/jobs/{job}",
       .id = "show_job",
       .about = "a job: its place in the queue, and the verdicts so far",
       .where = route_thread::own,
       .parameters = {id},
       .body = {},
       .result = job_schema(),
       .handle = answer_with([c](const api_call& call) { return c.board->document(call.client, call.text("job")); })});
  table.add(
      {.method = "DELETE",
       .path = "/v1/jobs/{job}",
       .id = "cancel_job",
       .about = "cancel what has not ended; its device is free at once",
       .where = route_thread::waiting,
       .parameters = {id},
       .body = {},
       .result = job_schema(),
       .handle = answer_with([c](const api_call& call) { return c.board->cancel(call.client, call.text("job")); })});
  table.add({.method = "GET",
             .path = "/v1/jobs/{job}/events",
             .id = "follow_job",
             .about = "events (SSE): `progress` with the job at each change, then `end`",
             .where = route_thread::own,
             .parameters = {id},
             .body = {},
             .result = schema_of("string"),
             .type = "text/event-stream",
             .handle = [c](const api_call& call, const auto& reply) { follow(c, call, reply); }});
}

}  // namespace cudal1::serve
