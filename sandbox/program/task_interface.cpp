#include "sandbox/program/task_interface.hpp"

#include <algorithm>
#include <set>

#include <boost/algorithm/string.hpp>
#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/utf8.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/json_fields.hpp"

namespace cudal1 {

namespace {

expected<std::string> required_string(const json& object, std::string_view key, const std::string& where) {
  CUDAL1_TRY(const json* value, required_key(object, key, where));
  return read_string(*value, fmt::format("{}, {}", where, key));
}

expected<void> check_name(const std::string& name, const std::string& where) {
  constexpr std::size_t longest = 500;
  if (!name.empty() && name.size() <= longest && is_valid_utf8(name)) return {};
  return fail(errc::parse_error, "{}: should be a name of 1 to {} bytes", where, longest);
}

expected<void> check_pair(const task_state& s, const checked_program& p, const std::string& where) {
  const auto& inputs = p.text.inputs;
  const auto& outputs = p.text.outputs;
  const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == s.input; });
  if (input == inputs.end())
    return fail(errc::parse_error, "{}, input: {} is none of the program's inputs", where, json(s.input).text());
  if (std::find(outputs.begin(), outputs.end(), s.output) == outputs.end())
    return fail(errc::parse_error, "{}, output: {} is none of the program's outputs", where, json(s.output).text());
  const auto& type = p.types.at(s.output);
  if (type.type != input->type.type || type.shape != input->type.shape)
    return fail(errc::parse_error, "{}: the input is {}, and the output {}", where, input->type.text(), type.text());
  return {};
}

// What is kept comes after what forward is given, in the order of the states.
expected<void> check_order(const std::vector<task_state>& states, const checked_program& p) {
  const auto& inputs = p.text.inputs;
  auto place = static_cast<std::size_t>(
      std::count_if(states.begin(), states.end(), [](const auto& s) { return s.kind != state_kind::argument; }));
  for (const auto& s : states) {
    if (s.kind == state_kind::argument) continue;
    if (inputs[inputs.size() - place--].name == s.input) continue;
    return fail(errc::parse_error,
                "states: {} should come after the inputs that forward is given, in the order of the states",
                json(s.input).text());
  }
  return {};
}

// "Out", "package.module:Out.Inner": parts of it become Python.
expected<void> check_class(const json& v, const std::string& where) {
  std::vector<std::string> parts;
  if (v.is_string()) boost::split(parts, v.as_string(), boost::is_any_of(".:"));
  const bool colons = v.is_string() && std::count(v.as_string().begin(), v.as_string().end(), ':') > 1;
  if (!parts.empty() && !colons && std::all_of(parts.begin(), parts.end(), is_identifier)) return {};
  return fail(errc::parse_error, "{}: {} should be a class, as in \"Out\" or \"package.module:Out\"", where, v.text());
}

expected<void> check_returned(const json& v, std::size_t outputs, const std::string& where, int depth) {
  constexpr int deepest = 16;
  if (depth > deepest) return fail(errc::parse_error, "{}: nested more than {} deep", where, deepest);
  if (v.is_null()) return {};
  if (v.is_int()) {
    if (v.as_int() >= 0 && v.as_int() < static_cast<int64_t>(outputs)) return {};
    return fail(errc::parse_error, "{}: there is no output {}; there are {}", where, v.as_int(), outputs);
  }
  if (!v.is_object() || v.as_object().size() != 1 || !v.as_object().front().second.is_array())
    return fail(errc::parse_error,
                "{}: should be the number of an output, null, or an object tuple, list, dict or object", where);
  const auto& [kind, items] = v.as_object().front();
  CUDAL1_CHECK(known_keys(v, where, {"tuple", "list", "dict", "object"}));
  if (kind == "object") CUDAL1_CHECK(check_class(items.as_array().empty() ? json() : items.as_array()[0], where));
  for (const auto& item : items.as_array()) {
    if (kind == "tuple" || kind == "list") {
      CUDAL1_CHECK(check_returned(item, outputs, where, depth + 1));
      continue;
    }
    if (kind == "object" && &item == &items.as_array()[0]) continue;
    if (!item.is_array() || item.as_array().size() != 2 || !item.as_array()[0].is_string())
      return fail(errc::parse_error, "{}: an item of a dict should be [key, what it is]", where);
    CUDAL1_CHECK(check_name(item.as_array()[0].as_string(), where + ", a key"));
    if (kind == "object" && !is_identifier(item.as_array()[0].as_string()))
      return fail(errc::parse_error, "{}: {} is not a valid name of a field", where, item.as_array()[0].text());
    CUDAL1_CHECK(check_returned(item.as_array()[1], outputs, where, depth + 1));
  }
  return {};
}

}  // namespace

expected<std::vector<task_state>> read_states(const json& v, const checked_program& p) {
  if (!v.is_array()) return wrong_json_kind("states", "an array of states", v);
  std::vector<task_state> states;
  std::set<std::string> names, inputs;
  for (const auto& item : v.as_array()) {
    const auto where = fmt::format("states[{}]", states.size());
    CUDAL1_CHECK(known_keys(item, where, {"name", "kind", "input", "output"}));
    task_state s;
    CUDAL1_TRY(s.name, required_string(item, "name", where));
    CUDAL1_CHECK(check_name(s.name, where + ", name"));
    CUDAL1_TRY(const json* kind, required_key(item, "kind", where));
    CUDAL1_TRY(s.kind, read_enum<state_kind>(*kind, where + ", kind"));
    CUDAL1_TRY(s.input, required_string(item, "input", where));
    CUDAL1_TRY(s.output, required_string(item, "output", where));
    CUDAL1_CHECK(check_pair(s, p, where));
    if (!names.insert(s.name).second || !inputs.insert(s.input).second)
      return fail(errc::parse_error, "{}: an earlier state has its name or its input", where);
    states.push_back(std::move(s));
  }
  CUDAL1_CHECK(check_order(states, p));
  return states;
}

json states_json(const std::vector<task_state>& states) {
  json::array items;
  for (const auto& s : states)
    items.push_back(to_json(s));
  return items;
}

expected<void> check_returns(const json& v, std::size_t outputs) {
  return check_returned(v, outputs, "returns", 0);
}

}  // namespace cudal1
