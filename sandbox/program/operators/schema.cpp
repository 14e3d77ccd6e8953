// Operator schemas: parsing them, and typing a step's arguments by them.
#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/program/canonical.hpp"
#include "sandbox/program/near_miss.hpp"
#include "sandbox/program/operators/operators.hpp"

namespace cudal1 {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\n");
  if (start == std::string_view::npos) return "";
  return text.substr(start, text.find_last_not_of(" \t\n") - start + 1);
}

// Splits at commas outside of brackets and quotes.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> items;
  int depth = 0;
  char quote = '\0';
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      items.push_back(trimmed(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (const auto last = trimmed(text.substr(start)); !last.empty() || !items.empty()) items.push_back(last);
  return items;
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct base_type {
  std::string_view name;
  schema_type one;
  std::optional<schema_type> many;  // of a list of them
};

const base_type* find_base_type(std::string_view name) {
  static const base_type types[] = {{"Tensor", schema_type::tensor, schema_type::tensor_list},
                                    {"int", schema_type::integer, schema_type::integer_list},
                                    {"SymInt", schema_type::integer, schema_type::integer_list},
                                    {"float", schema_type::real, schema_type::real_list},
                                    {"bool", schema_type::boolean, schema_type::boolean_list},
                                    {"Scalar", schema_type::scalar, {}},
                                    {"str", schema_type::string, {}},
                                    {"ScalarType", schema_type::dtype, {}},
                                    {"MemoryFormat", schema_type::memory_format, {}},
                                    {"Layout", schema_type::layout, {}},
                                    {"Device", schema_type::device, {}}};
  const auto* const found = std::ranges::find(types, name, &base_type::name);
  return found == std::end(types) ? nullptr : found;
}

// "Tensor(a!)?", "int[2]?", "Tensor?[]" into `a`.
expected<void> parse_type(std::string_view text, schema_argument& a) {
  const auto whole = text;
  const auto take = [&](std::string_view end) {
    if (!text.ends_with(end)) return false;
    text.remove_suffix(end.size());
    return true;
  };
  a.optional = take("?");
  const bool is_list = take("]");
  if (is_list) {
    const auto open = text.rfind('[');
    if (open == std::string_view::npos) return fail(errc::parse_error, "the type {} has no [", whole);
    if (const auto size = text.substr(open + 1); !size.empty()) {
      a.fixed_size = parse_number<int64_t>(size);
      if (!a.fixed_size || *a.fixed_size < 1) return fail(errc::parse_error, "the type {} has no valid size", whole);
    }
    text = text.substr(0, open);
    a.optional_items = take("?");
  }
  if (take(")")) text = text.substr(0, text.rfind('('));  // the rule defines what it aliases
  const auto* const base = find_base_type(text);
  const auto type = base == nullptr ? std::nullopt : is_list ? base->many : std::optional(base->one);
  if (!type || (a.optional_items && *type != schema_type::tensor_list))
    return fail(errc::parse_error, "arguments of type {} are not supported", whole);
  a.type = *type;
  return {};
}

expected<json> parse_default(std::string_view text, const schema_argument& a) {
  if (text == "None") return json();
  if (text == "True" || text == "False") return json(text == "True");
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    return json(text.substr(1, text.size() - 2));
  if (text.starts_with('[') && text.ends_with(']')) {
    json::array items;
    for (const auto item : split_list(text.substr(1, text.size() - 2))) {
      CUDAL1_TRY(auto v, parse_default(item, a));
      items.push_back(std::move(v));
    }
    return json(std::move(items));
  }
  if (a.type == schema_type::memory_format && text == "0") return json("contiguous_format");  // at::MemoryFormat
  if (const auto i = parse_number<int64_t>(text)) {
    if (a.type == schema_type::real) return json(static_cast<double>(*i));
    return json(*i);
  }
  if (const auto d = parse_number<double>(text)) return json(*d);
  if (text == "Mean") return json(int64_t{1});  // at::Reduction
  if (text == "Sum") return json(int64_t{2});
  if (a.type == schema_type::memory_format || a.type == schema_type::dtype || a.type == schema_type::layout)
    return json(text == "long" ? "int64" : text);
  return fail(errc::parse_error, "the default {} of {} is not understood", text, a.name);
}

expected<schema_argument> parse_argument(std::string_view text) {
  schema_argument a;
  // The blank after the type; "Tensor(a -> *) self" has blanks inside the type.
  const auto equals = text.find('=');
  const auto declaration = trimmed(text.substr(0, equals));
  const auto blank = declaration.rfind(' ');
  if (blank == std::string_view::npos) return fail(errc::parse_error, "\"{}\" has no name", text);
  a.name = declaration.substr(blank + 1);
  CUDAL1_CHECK(parse_type(trimmed(declaration.substr(0, blank)), a));
  if (equals != std::string_view::npos) {
    CUDAL1_TRY(a.default_value, parse_default(trimmed(text.substr(equals + 1)), a));
  }
  return a;
}

// "(Tensor values, Tensor indices)", "Tensor(a)", "Tensor[]", "()" -> the results' names.
std::vector<std::string> parse_results(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> names;
  for (const auto item : split_list(text)) {
    const auto blank = item.rfind(' ');
    const bool unnamed = blank == std::string_view::npos || item.ends_with(')') || item.ends_with(']');
    names.emplace_back(unnamed ? "" : item.substr(blank + 1));
  }
  return names;
}

// ---- binding --------------------------------------------------------------------------------------------------------

using value_lookup = std::function<const tensor_type*(const std::string&)>;

tl::unexpected<error> wrong_kind(const std::string& where, std::string_view wanted, const json& got) {
  return fail(errc::invalid_program, "{}: should be {}, but is {}", where, wanted, got.kind_name());
}

expected<tensor_argument> bind_tensor(const json& v, const value_lookup& lookup, const std::string& where) {
  if (!v.is_string()) return wrong_kind(where, "the name of a value", v);
  const auto* type = lookup(v.as_string());
  if (!type) return fail(errc::invalid_program, "{}: there is no value {}", where, json(v.as_string()).text());
  return tensor_argument{v.as_string(), *type};
}

expected<double> bind_real(const json& v, const std::string& where) {
  if (v.is_number()) return v.as_number();
  if (v.is_string() && v.as_string() == "inf") return std::numeric_limits<double>::infinity();
  if (v.is_string() && v.as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  if (v.is_string() && v.as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  return wrong_kind(where, "a number, \"inf\", \"-inf\" or \"nan\"", v);
}

expected<argument_value> bind_word(const json& v, const std::vector<std::string_view>& known,
                                   const std::string& where) {
  if (!v.is_string()) return wrong_kind(where, "a string", v);
  if (std::find(known.begin(), known.end(), v.as_string()) == known.end())
    return fail(errc::invalid_program, "{}: there is no {}{} (there are {})", where, json(v.as_string()).text(),
                did_you_mean(v.as_string(), known), fmt::join(known, ", "));
  return v.as_string();
}

expected<argument_value> bind_one(const schema_argument& a, const json& v, const value_lookup& lookup,
                                  const std::string& where) {
  switch (a.type) {
    case schema_type::tensor:
      return bind_tensor(v, lookup, where);
    case schema_type::boolean:
      if (!v.is_bool()) return wrong_kind(where, "a boolean", v);
      return scalar_value(v.as_bool());
    case schema_type::integer:
      if (!v.is_int()) return wrong_kind(where, "an integer", v);
      return scalar_value(v.as_int());
    case schema_type::real: {
      CUDAL1_TRY(const double real, bind_real(v, where));
      return scalar_value(real);
    }
    case schema_type::scalar: {
      if (v.is_bool()) return scalar_value(v.as_bool());
      if (v.is_int()) return scalar_value(v.as_int());
      CUDAL1_TRY(const double real, bind_real(v, where));
      return scalar_value(real);
    }
    case schema_type::string:
      if (!v.is_string()) return wrong_kind(where, "a string", v);
      return v.as_string();
    case schema_type::dtype:
      if (!v.is_string()) return wrong_kind(where, "a string", v);
      if (const auto type = dtype_of(v.as_string())) return *type;
      return fail(errc::invalid_program, "{}: {}", where, no_such_dtype(v.as_string()));
    case schema_type::memory_format:
      return bind_word(v, {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"}, where);
    case schema_type::layout:
      return bind_word(v, {"strided"}, where);
    case schema_type::device:
      return fail(errc::invalid_program, "{}: leave it out or null; a program runs on the device that it is given to",
                  where);
    default:
      return fail(errc::infrastructure, "{}: a list where one value was wanted", where);
  }
}

// Fixed sizes: one value is repeated n times, a longer list has n items.
template <class T>
expected<void> fit_size(std::vector<T>& items, const schema_argument& a, const std::string& where) {
  if (!a.fixed_size || *a.fixed_size == 1) return {};
  const auto wanted = static_cast<std::size_t>(*a.fixed_size);
  const bool may_be_empty = a.default_value && a.default_value->is_array() && a.default_value->as_array().empty();
  if (items.size() == 1) items.resize(wanted, items.front());
  if (items.size() == wanted || (items.empty() && may_be_empty)) return {};
  return fail(errc::invalid_program, "{}: should have {} items, but has {}", where, wanted, items.size());
}

template <class T>
expected<argument_value> bind_scalars(const schema_argument& a, schema_type item_type, const json& v,
                                      const std::string& where) {
  schema_argument item = a;
  item.type = item_type;
  const auto no_values = [](const std::string&) -> const tensor_type* { return nullptr; };
  std::vector<T> items;
  const auto add = [&](const json& one, const std::string& at) -> expected<void> {
    CUDAL1_TRY(const auto bound, bind_one(item, one, no_values, at));
    items.push_back(std::get<T>(std::get<scalar_value>(bound)));
    return {};
  };
  if (v.is_array()) {
    for (const auto& one : v.as_array())
      CUDAL1_CHECK(add(one, fmt::format("{}[{}]", where, items.size())));
  } else if (a.fixed_size) {
    CUDAL1_CHECK(add(v, where));
  } else {
    return wrong_kind(where, "an array", v);
  }
  CUDAL1_CHECK(fit_size(items, a, where));
  return argument_value(std::move(items));
}

expected<argument_value> bind_tensors(const schema_argument& a, const json& v, const value_lookup& lookup,
                                      const std::string& where) {
  if (!v.is_array()) return wrong_kind(where, "an array of names of values", v);
  std::vector<tensor_argument> items;
  for (const auto& one : v.as_array()) {
    if (a.optional_items && one.is_null()) {
      items.emplace_back();
      continue;
    }
    CUDAL1_TRY(auto item, bind_tensor(one, lookup, fmt::format("{}[{}]", where, items.size())));
    items.push_back(std::move(item));
  }
  return argument_value(std::move(items));
}

expected<argument_value> bind_value(const schema_argument& a, const json& v, const value_lookup& lookup,
                                    const std::string& where) {
  if (v.is_null()) {
    if (a.optional) return argument_value(std::monostate());
    return fail(errc::invalid_program, "{}: may not be null", where);
  }
  switch (a.type) {
    case schema_type::tensor_list:
      return bind_tensors(a, v, lookup, where);
    case schema_type::integer_list:
      return bind_scalars<int64_t>(a, schema_type::integer, v, where);
    case schema_type::real_list:
      return bind_scalars<double>(a, schema_type::real, v, where);
    case schema_type::boolean_list:
      return bind_scalars<bool>(a, schema_type::boolean, v, where);
    default:
      return bind_one(a, v, lookup, where);
  }
}

}  // namespace

expected<operator_schema> parse_schema(std::string_view text) {
  const auto whole = text;
  const auto wrong = [&](std::string_view why) { return fail(errc::parse_error, "the schema {}: {}", whole, why); };
  const auto arrow = text.rfind("->");
  const auto open = text.find('(');
  if (arrow == std::string_view::npos || open == std::string_view::npos || open > arrow) {
    // "Tensor(a -> *)" contains an arrow too, but never after the last result.
    return wrong("should look like NAME(ARGUMENTS) -> RESULTS");
  }
  // The closing parenthesis of the arguments: the one that matches the first.
  int depth = 0;
  std::size_t close = open;
  for (; close < text.size(); ++close) {
    if (text[close] == '(') ++depth;
    if (text[close] == ')' && --depth == 0) break;
  }
  const auto rest = close < text.size() ? trimmed(text.substr(close + 1)) : std::string_view();
  if (!rest.starts_with("->")) return wrong("has no \"->\" after its arguments");
  operator_schema schema;
  schema.name = trimmed(text.substr(0, open));
  for (const auto item : split_list(text.substr(open + 1, close - open - 1))) {
    if (item == "*") continue;
    auto a = parse_argument(item);
    if (!a) return wrong(a.error().message);
    schema.arguments.push_back(std::move(*a));
  }
  schema.results = parse_results(rest.substr(2));
  schema.list_result = schema.results.size() == 1 && rest.ends_with("[]");
  return schema;
}

expected<operator_call> bind_arguments(const operator_info& op, std::span<const std::pair<std::string, json>> args,
                                       const std::function<const tensor_type*(const std::string&)>& lookup) {
  const auto& arguments = op.schema.arguments;
  std::vector<const json*> given(arguments.size());
  for (const auto& [name, value] : args) {
    const auto found =
        std::find_if(arguments.begin(), arguments.end(), [&wanted = name](const auto& a) { return a.name == wanted; });
    if (found == arguments.end()) {
      std::vector<std::string_view> names;
      for (const auto& a : arguments)
        names.emplace_back(a.name);
      return fail(errc::invalid_program, "args: {} has no argument \"{}\"{} (it has {})", op.schema.name, name,
                  did_you_mean(name, names), fmt::join(names, ", "));
    }
    auto& place = given[static_cast<std::size_t>(found - arguments.begin())];
    if (place) return fail(errc::invalid_program, "args.{}: appears twice", name);
    place = &value;
  }
  operator_call call;
  call.op = &op;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& a = arguments[i];
    const auto where = "args." + a.name;
    const json* value = given[i] ? given[i] : a.default_value ? &*a.default_value : nullptr;
    if (!value) return fail(errc::invalid_program, "{}: is missing, and has no default", where);
    CUDAL1_TRY(auto bound, bind_value(a, *value, lookup, where));
    call.arguments.push_back(std::move(bound));
  }
  return call;
}

}  // namespace cudal1
