#include "tools/serve/routes.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/utf8.hpp"
#include "tools/serve/json_schema.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {

namespace {

bool is_variable(std::string_view part) {
  return part.starts_with('{');
}

bool matches(std::string_view pattern, std::string_view path) {
  const auto wanted = split(pattern, '/'), given = split(path, '/');
  if (wanted.size() != given.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (is_variable(wanted[i]) ? given[i].empty() : wanted[i] != given[i]) return false;
  return true;
}

api_problem bad_request(const std::string& message) {
  return {400, "invalid_argument", message, "GET /v1/openapi.json describes each request"};
}

api_result<void> put_value(const route& r, const std::string& name, std::string_view escaped, value_place where,
                           api_call& call) {
  const auto found =
      std::ranges::find_if(r.parameters, [&](const auto& p) { return p.name == name && p.where == where; });
  if (found == r.parameters.end()) {
    std::vector<std::string> known;
    for (const auto& p : r.parameters)
      if (p.where == value_place::query) known.push_back(p.name);
    return refuse(bad_request(fmt::format("there is no parameter \"{}\"; there is: {}", name, fmt::join(known, ", "))));
  }
  const auto text = url_unescaped(escaped, where == value_place::query);
  if (!text) return refuse(bad_request(fmt::format("{} is not text in UTF-8, escaped as in URLs", name)));
  auto value = value_of_text(*text, found->schema, name);
  // What a path names is not there, where no such thing can be.
  if (!value && where == value_place::path)
    return refuse({404, "not_found", value.error().message, "GET /v1/openapi.json describes names and ids"});
  if (!value) return refuse(bad_request(value.error().message));
  if (!call.values.emplace(name, std::move(*value)).second)
    return refuse(bad_request(fmt::format("{} is given twice", name)));
  return {};
}

api_result<json> read_body(const route& r, const http_call& call) {
  const auto type = call.header("content-type");
  if (path_of(type).substr(0, type.find(';')) != "application/json")
    return refuse({415, "unsupported_type", fmt::format("the body's type is \"{}\"", type),
                   "send JSON with Content-Type: application/json"});
  if (!is_valid_utf8(call.body)) return refuse(bad_request("the body is not UTF-8"));
  auto body = json::parse(call.body);
  if (!body) return refuse(bad_request("the body is not JSON: " + body.error().message));
  if (auto checked = check_schema(*body, r.body, "body"); !checked) return refuse(bad_request(checked.error().message));
  return std::move(*body);
}

json with_about(json schema, const std::string& about) {
  if (!about.empty()) schema.set("description", about);
  return schema;
}

json content_of(const std::string& type, json schema) {
  return json::make_object({{type, json::make_object({{"schema", std::move(schema)}})}});
}

json responses_of(const route& r) {
  json out = json::make_object();
  auto successes = r.more;
  successes.push_back(r.success);
  for (const int status : successes)
    out.set(std::to_string(status),
            json::make_object({{"description", "done"}, {"content", content_of(r.type, r.result)}}));
  std::set<int> problems = {400, 401, 403, 404, 429, 500, 503};
  if (!r.body.is_null()) problems.insert({409, 413, 415, 422});
  if (r.where != route_thread::own) problems.insert({409, 422, 504});
  for (const int status : problems)
    out.set(
        std::to_string(status),
        json::make_object({{"description", "refused"},
                           {"content", content_of("application/json",
                                                  json::make_object({{"$ref", "#/components/schemas/problem"}}))}}));
  return out;
}

json operation_of(const route& r) {
  json::array parameters;
  for (const auto& p : r.parameters)
    parameters.push_back(json::make_object({{"name", p.name},
                                            {"in", p.where == value_place::path ? "path" : "query"},
                                            {"required", p.where == value_place::path},
                                            {"description", p.about},
                                            {"schema", p.schema}}));
  json out = json::make_object({{"operationId", r.id},
                                {"summary", r.about},
                                {"parameters", json(std::move(parameters))},
                                {"responses", responses_of(r)}});
  if (!r.permission.empty()) out.set("x-cudal1-permission", r.permission);
  if (!r.body.is_null())
    out.set("requestBody",
            json::make_object({{"required", true}, {"content", content_of("application/json", r.body)}}));
  return out;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::string api_call::text(const std::string& name) const {
  const auto found = values.find(name);
  return found != values.end() && found->second.is_string() ? found->second.as_string() : "";
}

int64_t api_call::number(const std::string& name, int64_t otherwise) const {
  const auto found = values.find(name);
  return found != values.end() && found->second.is_number() ? static_cast<int64_t>(found->second.as_number())
                                                            : otherwise;
}

std::string api_call::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return "";
}

api_result<const route*> route_table::find(const std::string& method, const std::string& target) const {
  const auto path = path_of(target);
  std::vector<std::string> others;
  for (const auto& r : routes_) {
    if (!matches(r.path, path)) continue;
    if (r.method == method) return &r;
    others.push_back(r.method);
  }
  if (others.empty())
    return refuse({404, "not_found", fmt::format("nothing is served at {}", replace_invalid_utf8(std::string(path))),
                   "GET /v1/openapi.json lists what is"});
  const auto allowed = fmt::format("{}", fmt::join(others, ", "));
  api_problem problem{405, "method_not_allowed", fmt::format("{} is not served there; use {}", method, allowed),
                      "GET /v1/openapi.json describes each request"};
  problem.allow = allowed;
  return refuse(std::move(problem));
}

api_result<api_call> route_table::read(const route& r, const http_call& call, api_client client) const {
  api_call out;
  out.client = std::move(client);
  out.headers = call.headers;
  const std::string_view target(call.target);
  const auto wanted = split(r.path, '/'), given = split(path_of(target), '/');
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!is_variable(wanted[i])) continue;
    const std::string name(wanted[i].substr(1, wanted[i].size() - 2));
    if (auto put = put_value(r, name, given[i], value_place::path, out); !put) return refuse(put.error());
  }
  if (const auto at = target.find('?'); at != std::string_view::npos)
    for (const auto pair : split(target.substr(at + 1), '&')) {
      if (pair.empty()) continue;
      const auto name = url_unescaped(pair.substr(0, pair.find('=')), true);
      if (!name) return refuse(bad_request("the query is not text in UTF-8, escaped as in URLs"));
      const auto equals = pair.find('=');
      const auto value = equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
      if (auto put = put_value(r, *name, value, value_place::query, out); !put) return refuse(put.error());
    }
  if (r.body.is_null()) return out;
  auto body = read_body(r, call);
  if (!body) return refuse(body.error());
  out.body = std::move(*body);
  return out;
}

json route_table::openapi(const std::string& version) const {
  json paths = json::make_object();
  for (const auto& r : routes_) {
    if (paths.find(r.path) == nullptr) paths.set(r.path, json::make_object());
    paths.find(r.path)->set(lower(r.method), operation_of(r));
  }
  const json problem = object_schema({{"error", object_schema({{"code", schema_of("string", "for programs")},
                                                               {"message", schema_of("string", "what is wrong")},
                                                               {"hint", schema_of("string", "what to do")}},
                                                              {"code", "message", "hint"}, false)}},
                                     {"error"}, false);
  return json::make_object(
      {{"openapi", "3.0.3"},
       {"info", json::make_object({{"title", "cudal1 serve"},
                                   {"version", version},
                                   {"description",
                                    "Evaluates CUDA kernels and programs for tasks: checked, timed in pairs "
                                    "with the task's own program, kept."}})},
       {"paths", paths},
       {"components",
        json::make_object(
            {{"schemas", json::make_object({{"problem", problem}})},
             {"securitySchemes",
              json::make_object({{"token", json::make_object({{"type", "http"}, {"scheme", "bearer"}})}})}})},
       {"security", json::make_array({json::make_object(), json::make_object({{"token", json(json::array())}})})}});
}

api_handler answer_with(std::function<api_result<json>(const api_call&)> make) {
  return [make = std::move(make)](const api_call& call, const std::shared_ptr<http_reply>& reply) {
    auto made = make(call);
    reply->answer(made ? http_answer{200, made->text()} : answer_of(made.error()));
  };
}

json schema_of(const std::string& type, const std::string& about) {
  return with_about(json::make_object({{"type", type}}), about);
}

json object_schema(json::object properties, std::vector<std::string> required, bool closed) {
  json out = json::make_object({{"type", "object"}, {"properties", json(std::move(properties))}});
  if (!required.empty()) out.set("required", json(json::array(required.begin(), required.end())));
  if (closed) out.set("additionalProperties", false);
  return out;
}

json pattern_schema(const std::string& pattern, const std::string& about) {
  return with_about(json::make_object({{"type", "string"}, {"pattern", pattern}}), about);
}

json number_schema(const std::string& type, double least, double most, const std::string& about) {
  const auto bound = [&](double b) { return type == "integer" ? json(static_cast<int64_t>(b)) : json(b); };
  return with_about(json::make_object({{"type", type}, {"minimum", bound(least)}, {"maximum", bound(most)}}), about);
}

json choice_schema(const std::vector<std::string>& choices, const std::string& about) {
  return with_about(
      json::make_object({{"type", "string"}, {"enum", json(json::array(choices.begin(), choices.end()))}}), about);
}

route_parameter path_value(const std::string& name, const std::string& pattern, const std::string& about) {
  return {name, value_place::path, pattern_schema(pattern), about};
}

route_parameter query_value(const std::string& name, json schema, const std::string& about) {
  return {name, value_place::query, std::move(schema), about};
}

}  // namespace cudal1::serve
