#include "tools/serve/json_schema.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cudal1::serve {

namespace {

std::string text_member(const json& schema, std::string_view name) {
  const json* found = schema.find(name);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  if (type == "integer")
    return value.is_int() || (value.is_double() && std::trunc(value.as_double()) == value.as_double());
  if (type == "number") return value.is_number();
  return true;
}

int64_t characters_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

tl::unexpected<error> wrong(const std::string& where, const std::string& what) {
  return fail(errc::invalid_argument, "{}: {}", where, what);
}

// A length, a number of items or a number against two bounds.
expected<void> check_bounds(double value, const json& schema, const char* least, const char* most, const char* what,
                            const std::string& where) {
  if (const json* low = schema.find(least); low != nullptr && value < low->as_number())
    return wrong(where, fmt::format("{} is less than {}", what, low->as_number()));
  if (const json* high = schema.find(most); high != nullptr && value > high->as_number())
    return wrong(where, fmt::format("{} is more than {}", what, high->as_number()));
  return {};
}

expected<void> check_object(const json& value, const json& schema, const std::string& where) {
  const json* properties = schema.find("properties");
  if (const json* required = schema.find("required"))
    for (const auto& name : required->as_array())
      if (value.find(name.as_string()) == nullptr)
        return wrong(where, fmt::format("\"{}\" is missing", name.as_string()));
  const json* more = schema.find("additionalProperties");
  const bool is_closed = more != nullptr && more->is_bool() && !more->as_bool();
  for (const auto& [name, member] : value.as_object()) {
    const json* its = properties != nullptr ? properties->find(name) : nullptr;
    if (its != nullptr) {
      CUDAL1_CHECK(check_schema(member, *its, where + "." + name));
    } else if (is_closed) {
      std::vector<std::string> known;
      if (properties != nullptr)
        for (const auto& p : properties->as_object())
          known.push_back(p.first);
      return wrong(where, fmt::format("\"{}\" is not known; there is: {}", name, fmt::join(known, ", ")));
    }
  }
  return {};
}

expected<void> check_one_of(const json& value, const json::array& choices, const std::string& where) {
  std::vector<std::string> names;
  int64_t matches = 0;
  for (const auto& choice : choices) {
    if (check_schema(value, choice, where)) ++matches;
    if (const json* required = choice.find("required"))
      for (const auto& name : required->as_array())
        names.push_back("\"" + name.as_string() + "\"");
  }
  if (matches == 1) return {};
  return wrong(where, fmt::format("give exactly one of {}", fmt::join(names, ", ")));
}

expected<void> check_text(const std::string& text, const json& schema, const std::string& where) {
  CUDAL1_CHECK(check_bounds(static_cast<double>(characters_of(text)), schema, "minLength", "maxLength",
                            "the number of characters", where));
  const auto pattern = text_member(schema, "pattern");
  // std::regex recurses once a character; patterns are for names.
  if (!pattern.empty() && (text.size() > 1000 || !std::regex_search(text, std::regex(pattern))))
    return wrong(where, fmt::format("it has not the form {}", pattern));
  return {};
}

}  // namespace

expected<void> check_schema(const json& value, const json& schema, const std::string& where) {
  if (schema.find("not") != nullptr) return wrong(where, text_member(schema, "description"));
  const auto type = text_member(schema, "type");
  if (!has_type(value, type)) return wrong(where, fmt::format("it is {}, not of type {}", value.kind_name(), type));
  if (const json* choices = schema.find("enum");
      choices != nullptr && std::ranges::count(choices->as_array(), value) == 0)
    return wrong(where, fmt::format("it is none of {}", choices->text()));
  if (value.is_string()) CUDAL1_CHECK(check_text(value.as_string(), schema, where));
  if (value.is_number()) CUDAL1_CHECK(check_bounds(value.as_number(), schema, "minimum", "maximum", "it", where));
  if (value.is_object()) CUDAL1_CHECK(check_object(value, schema, where));
  if (value.is_array()) {
    CUDAL1_CHECK(check_bounds(static_cast<double>(value.as_array().size()), schema, "minItems", "maxItems",
                              "the number of items", where));
    if (const json* items = schema.find("items"))
      for (std::size_t i = 0; i < value.as_array().size(); ++i)
        CUDAL1_CHECK(check_schema(value.as_array()[i], *items, fmt::format("{}[{}]", where, i)));
  }
  if (const json* choices = schema.find("oneOf")) return check_one_of(value, choices->as_array(), where);
  return {};
}

expected<json> value_of_text(const std::string& text, const json& schema, const std::string& where) {
  const auto type = text_member(schema, "type");
  json value(text);
  if (type == "integer") {
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc() || end != text.data() + text.size())
      return wrong(where, fmt::format("\"{}\" is not an integer", text));
    value = json(number);
  } else if (type == "number") {
    double number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
      return wrong(where, fmt::format("\"{}\" is not a number", text));
    value = json(number);
  } else if (type == "boolean") {
    if (text != "true" && text != "false") return wrong(where, fmt::format("\"{}\" is neither true nor false", text));
    value = json(text == "true");
  }
  CUDAL1_CHECK(check_schema(value, schema, where));
  return value;
}

}  // namespace cudal1::serve
