#include "sandbox/program/origin.hpp"

#include <fmt/format.h>

#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "sandbox/program/json_fields.hpp"
#include "sandbox/program/quantiles.hpp"

namespace cudal1 {

namespace {

expected<std::optional<int64_t>> read_count(const json& object, std::string_view key) {
  const auto* value = object.find(key);
  if (!value) return std::nullopt;
  CUDAL1_TRY(const int64_t number, read_integer(*value, fmt::format("origin, {}", key)));
  if (number < 0) return fail(errc::parse_error, "origin, {}: {} is negative", key, number);
  return number;
}

expected<module_modes> read_modes(const json& v) {
  module_modes modes;
  CUDAL1_CHECK(known_keys(v, "origin, modes", {"training", "evaluation"}));
  for (const auto& [key, names] :
       {std::pair{"training", &modes.training}, std::pair{"evaluation", &modes.evaluation}}) {
    CUDAL1_TRY(const json* value, required_key(v, key, "origin, modes"));
    CUDAL1_TRY(*names, read_strings(*value, fmt::format("origin, modes, {}", key)));
  }
  return modes;
}

expected<std::vector<module_call>> read_modules(const json& v) {
  if (!v.is_array()) return wrong_json_kind("origin, modules", "an array", v);
  std::vector<module_call> modules;
  for (const auto& item : v.as_array()) {
    const std::string where = fmt::format("origin, modules, {}", modules.size());
    if (!item.is_object()) return wrong_json_kind(where, "an object", item);
    CUDAL1_CHECK(known_keys(item, where, {"path", "kind", "first", "count", "like"}));
    auto& call = modules.emplace_back();
    CUDAL1_CHECK(from_json(item, call, where));
    if (call.path.empty() || call.first < 0 || call.count < 1 || call.like < -1 ||
        call.like >= static_cast<int64_t>(modules.size()) - 1)
      return fail(errc::parse_error, "{}: should have a path, first from 0, count from 1 and an earlier place as like",
                  where);
  }
  return modules;
}

expected<std::map<std::string, std::vector<double>>> read_values(const json& v) {
  if (!v.is_object()) return wrong_json_kind("origin, values", "an object", v);
  std::map<std::string, std::vector<double>> values;
  for (const auto& [name, quantiles] : v.as_object()) {
    CUDAL1_TRY(values[name], read_quantiles(quantiles, "origin, values, " + json(name).text()));
  }
  return values;
}

json calls_json(const std::vector<module_call>& modules) {
  json calls = json::make_array();
  for (const auto& m : modules) {
    json call = json::make_object({{"path", m.path}, {"kind", m.kind}, {"first", m.first}, {"count", m.count}});
    if (m.like >= 0) call.set("like", m.like);
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace

expected<task_origin> read_origin(const json& v) {
  if (!v.is_object()) return wrong_json_kind("origin", "an object", v);
  CUDAL1_CHECK(known_keys(
      v, "origin", {"kind", "level", "problem", "source", "seed", "modes", "part", "uncompared", "modules", "values"}));
  task_origin origin;
  CUDAL1_TRY(const json* kind, required_key(v, "kind", "origin"));
  CUDAL1_TRY(origin.kind, read_enum<origin_kind>(*kind, "origin, kind"));
  CUDAL1_TRY(origin.level, read_count(v, "level"));
  CUDAL1_TRY(origin.problem, read_count(v, "problem"));
  const bool numbered = origin.level && origin.problem;
  if (origin.kind == origin_kind::kernelbench ? !numbered : origin.level || origin.problem)
    return fail(errc::parse_error, "origin: a task of kind kernelbench has level and problem, other tasks do not");
  CUDAL1_TRY(const json* source, required_key(v, "source", "origin"));
  CUDAL1_TRY(origin.source, read_string(*source, "origin, source"));
  if (!is_blob_name(origin.source, ".py"))
    return fail(errc::parse_error, "origin, source: {} should be 64 hexadecimal digits and \".py\"",
                json(origin.source).text());
  CUDAL1_TRY(const auto seed, read_count(v, "seed"));
  origin.seed = seed.value_or(0);
  if (const auto* modes = v.find("modes")) {
    CUDAL1_TRY(origin.modes, read_modes(*modes));
  }
  if (const auto* part = v.find("part")) {
    CUDAL1_TRY(origin.part, read_string(*part, "origin, part"));
  }
  if (const auto* why = v.find("uncompared")) {
    CUDAL1_TRY(origin.uncompared, read_string(*why, "origin, uncompared"));
  }
  if (const auto* modules = v.find("modules")) {
    CUDAL1_TRY(origin.modules, read_modules(*modules));
  }
  if (const auto* values = v.find("values")) {
    CUDAL1_TRY(origin.values, read_values(*values));
  }
  return origin;
}

json origin_json(const task_origin& origin) {
  json object = json::make_object();
  object.set("kind", enum_name(origin.kind));
  if (origin.level) object.set("level", *origin.level);
  if (origin.problem) object.set("problem", *origin.problem);
  object.set("source", origin.source);
  object.set("seed", origin.seed);
  if (origin.modes) object.set("modes", to_json(*origin.modes));
  if (!origin.part.empty()) object.set("part", origin.part);
  if (!origin.uncompared.empty()) object.set("uncompared", origin.uncompared);
  if (!origin.modules.empty()) object.set("modules", calls_json(origin.modules));
  if (!origin.values.empty()) object.set("values", to_json(origin.values));
  return object;
}

}  // namespace cudal1
