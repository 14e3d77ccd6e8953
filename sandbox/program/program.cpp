// Reads the text of a program: keys and their kinds. form.cpp checks ranges, check.cpp what the steps mean together.
#include "sandbox/program/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/program/canonical.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/json_fields.hpp"
#include "sandbox/program/near_miss.hpp"

namespace cudal1 {

namespace {

// "dtype" and "shape" of an object: a contiguous tensor.
expected<tensor_type> read_type(const json& object, const std::string& where) {
  CUDAL1_TRY(const json* dtype_value, required_key(object, "dtype", where));
  CUDAL1_TRY(const auto dtype_name, read_string(*dtype_value, where + ", dtype"));
  const auto element = dtype_of(dtype_name);
  if (!element) return fail(errc::parse_error, "{}, dtype: {}", where, no_such_dtype(dtype_name));
  CUDAL1_TRY(const json* shape_value, required_key(object, "shape", where));
  CUDAL1_TRY(auto shape, read_integers(*shape_value, where + ", shape"));
  return contiguous(*element, std::move(shape));
}

// The type that a declaration gives, with its "strides" if it has any.
expected<tensor_type> read_declared_type(const json& declaration, const std::string& where) {
  CUDAL1_TRY(auto type, read_type(declaration, where));
  if (const auto* strides = declaration.find("strides")) {
    CUDAL1_TRY(type.strides, read_integers(*strides, where + ", strides"));
  }
  return type;
}

expected<std::vector<tensor_declaration>> read_declarations(const json& v, std::string_view list) {
  if (!v.is_array()) return wrong_json_kind(std::string(list), "an array of tensors", v);
  std::vector<tensor_declaration> declarations;
  for (const auto& item : v.as_array()) {
    auto where = declaration_label(list, declarations.size(), "");
    if (!item.is_object()) return wrong_json_kind(where, "an object", item);
    CUDAL1_TRY(const json* name_value, required_key(item, "name", where));
    CUDAL1_TRY(auto name, read_string(*name_value, where + ", name"));
    where = declaration_label(list, declarations.size(), name);
    CUDAL1_CHECK(known_keys(item, where, {"name", "dtype", "shape", "strides"}));
    CUDAL1_TRY(auto type, read_declared_type(item, where));
    declarations.push_back({std::move(name), std::move(type)});
  }
  return declarations;
}

// What the kinds of arguments are called elsewhere.
std::string kind_meant_by(std::string_view word, const std::vector<std::string_view>& kinds) {
  static constexpr std::pair<std::string_view, std::string_view> elsewhere[] = {
      {"int", "i32"},    {"int32", "i32"},   {"long", "i64"}, {"int64", "i64"}, {"float", "f32"}, {"float32", "f32"},
      {"double", "f64"}, {"float64", "f64"}, {"input", "in"}, {"tensor", "in"}, {"weight", "in"}, {"output", "out"}};
  for (const auto& [theirs, ours] : elsewhere)
    if (theirs == word) return fmt::format("; did you mean \"{}\"?", ours);
  return did_you_mean(word, kinds);
}

// What to write for an argument without a tag.
std::string tagged(const json& v) {
  if (v.is_string()) return fmt::format("{{\"in\": {0}}}, {{\"out\": {0}}} or {{\"inout\": {0}}}", v.text());
  if (v.is_int()) return fmt::format("{{\"i32\": {}}} for an int", v.text());
  if (v.is_double()) return fmt::format("{{\"f32\": {}}} for a float", v.text());
  return R"({"in": "x"} or {"i32": 4})";
}

expected<tensor_map> read_tensor_map(const json& v, const std::string& where) {
  if (!v.is_object()) return wrong_json_kind(where, R"(an object, such as {"box": [64, 32], "swizzle": 128})", v);
  CUDAL1_CHECK(known_keys(v, where, {"box", "swizzle"}));
  tensor_map map;
  CUDAL1_TRY(const json* box, required_key(v, "box", where));
  CUDAL1_TRY(map.box, read_integers(*box, where + ", box"));
  if (const auto* swizzle = v.find("swizzle")) {
    CUDAL1_TRY(map.swizzle, read_integer(*swizzle, where + ", swizzle"));
  }
  return map;
}

expected<launch_argument> read_launch_argument(const json& v, const std::string& where) {
  static constexpr std::string_view kinds[] = {"in", "out", "inout", "i32", "i64", "f32", "f64"};
  const auto* const map = v.is_object() ? v.find("map") : nullptr;
  if (!v.is_object() || v.as_object().size() != (map == nullptr ? 1 : 2))
    return fail(errc::parse_error, "{}: should be an object with one key, {} (and \"map\", for a tensor map); write {}",
                where, fmt::join(kinds, " or "), tagged(v));
  const auto& [key, value] =
      *std::ranges::find_if(v.as_object(), [](const auto& entry) { return entry.first != "map"; });
  const auto* found = std::find(std::begin(kinds), std::end(kinds), key);
  if (found == std::end(kinds))
    return fail(errc::parse_error, "{}: unknown kind {}{} (known: {})", where, json(key).text(),
                kind_meant_by(key, {std::begin(kinds), std::end(kinds)}), fmt::join(kinds, ", "));
  launch_argument a;
  a.kind = static_cast<argument_kind>(found - std::begin(kinds));
  const auto field = fmt::format("{}.{}", where, key);
  if (map != nullptr && !a.is_tensor())
    return fail(errc::parse_error, "{}: only a tensor may have a map, and this is a scalar", where);
  if (a.is_tensor()) {
    CUDAL1_TRY(a.tensor, read_string(value, field));
    if (map != nullptr) {
      CUDAL1_TRY(a.map, read_tensor_map(*map, where + ", map"));
    }
  } else if (a.kind == argument_kind::i32 || a.kind == argument_kind::i64) {
    CUDAL1_TRY(a.integer, read_integer(value, field));
  } else {
    CUDAL1_TRY(a.real, read_real(value, field));
    if (a.kind == argument_kind::f32 && std::isfinite(a.real)) {
      if (!fits_float(a.real))
        return fail(errc::parse_error, "{}: {} does not fit a float (write \"inf\" if that is meant)", field, a.real);
      a.real = static_cast<double>(static_cast<float>(a.real));
    }
  }
  return a;
}

// One to three sizes; the others are 1.
expected<std::array<int64_t, 3>> read_extent(const json& v, const std::string& where) {
  if (v.is_array())
    for (const auto& item : v.as_array())
      if (item.is_string())
        return fail(errc::parse_error, "{}: {} is a string; write the number itself, since all shapes are known", where,
                    item.text());
  if (!v.is_array())
    return fail(errc::parse_error, "{}: should be an array of integers, such as [{}, 1, 1], but is {}", where,
                v.is_int() ? v.as_int() : 64, v.kind_name());
  CUDAL1_TRY(const auto sizes, read_integers(v, where));
  if (sizes.empty() || sizes.size() > 3)
    return fail(errc::parse_error, "{}: should have one to three sizes, but has {}", where, sizes.size());
  std::array<int64_t, 3> extent{1, 1, 1};
  std::copy(sizes.begin(), sizes.end(), extent.begin());
  return extent;
}

// A boolean that is false where it is left out.
expected<bool> read_flag(const json& object, const char* key, const std::string& where) {
  const auto* const found = object.find(key);
  if (found == nullptr) return false;
  if (!found->is_bool()) return wrong_json_kind(fmt::format("{}, {}", where, key), "a boolean", *found);
  return found->as_bool();
}

expected<step> read_launch(const json& v, launch_step launch, const std::string& where) {
  CUDAL1_CHECK(
      known_keys(v, where, {"launch", "grid", "block", "shared_bytes", "cooperative", "programmatic", "args"}));
  CUDAL1_TRY(const json* grid, required_key(v, "grid", where));
  CUDAL1_TRY(launch.grid, read_extent(*grid, where + ", grid"));
  CUDAL1_TRY(const json* block, required_key(v, "block", where));
  CUDAL1_TRY(launch.block, read_extent(*block, where + ", block"));
  if (const auto* shared = v.find("shared_bytes")) {
    CUDAL1_TRY(launch.shared_bytes, read_integer(*shared, where + ", shared_bytes"));
  }
  CUDAL1_TRY(launch.cooperative, read_flag(v, "cooperative", where));
  CUDAL1_TRY(launch.programmatic, read_flag(v, "programmatic", where));
  CUDAL1_TRY(const json* args, required_key(v, "args", where));
  if (!args->is_array()) return wrong_json_kind(where + ", args", "an array", *args);
  for (const auto& item : args->as_array()) {
    CUDAL1_TRY(auto a, read_launch_argument(item, fmt::format("{}, args[{}]", where, launch.args.size())));
    launch.args.push_back(std::move(a));
  }
  return launch;
}

expected<step> read_aten(const json& v, aten_step call, const std::string& where) {
  CUDAL1_CHECK(known_keys(v, where, {"aten", "args", "out", "precision"}));
  CUDAL1_TRY(const json* args, required_key(v, "args", where));
  if (!args->is_object())
    return wrong_json_kind(where + ", args", "an object with the arguments by name, such as {\"self\": \"x\"}", *args);
  call.args = args->as_object();
  CUDAL1_TRY(const json* out, required_key(v, "out", where));
  if (!out->is_array())
    return wrong_json_kind(where + ", out",
                           fmt::format("an array of strings, such as [{}]", out->is_string() ? out->text() : R"("y")"),
                           *out);
  CUDAL1_TRY(call.results, read_strings(*out, where + ", out"));
  if (const auto* precision = v.find("precision")) {
    CUDAL1_TRY(call.precision, read_string(*precision, where + ", precision"));
    if (call.precision.empty())
      return fail(errc::parse_error, "{}, precision: \"\" is not a precision; leave the key out for the default",
                  where);
  }
  sort_arguments(call);
  return call;
}

std::string_view prefix_of(program_section section) {
  return section == program_section::setup ? "setup " : "";
}

expected<step> read_step(const json& v, std::size_t index, program_section section) {
  const auto where = fmt::format("{}step {}", prefix_of(section), index + 1);
  if (!v.is_object()) return wrong_json_kind(where, "an object", v);
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : {"alloc", "launch", "aten"})
    if (v.find(kind)) kinds.push_back(kind);
  if (kinds.size() != 1)
    return fail(errc::parse_error,
                "{}: should have one of the keys alloc, launch and aten, but has {}; write {{\"alloc\": NAME, "
                "\"dtype\": ..., \"shape\": ...}}, {{\"launch\": KERNEL, \"grid\": ..., \"block\": ..., \"args\": "
                "...}} or {{\"aten\": OPERATOR, \"args\": ..., \"out\": ...}}",
                where, kinds.empty() ? "none of them" : fmt::format("{}", fmt::join(kinds, " and ")));
  CUDAL1_TRY(auto name, read_string(*v.find(kinds.front()), fmt::format("{}, {}", where, kinds.front())));
  if (kinds.front() == "launch") {
    launch_step launch;
    launch.kernel = std::move(name);
    const auto label = step_label(index, launch, section);
    return read_launch(v, std::move(launch), label);
  }
  if (kinds.front() == "aten") {
    aten_step call;
    call.op = std::move(name);
    const auto label = step_label(index, call, section);
    return read_aten(v, std::move(call), label);
  }
  alloc_step alloc;
  alloc.name = std::move(name);
  const auto label = step_label(index, alloc, section);
  if (v.find("strides"))
    return fail(errc::parse_error, "{}, strides: an allocation is contiguous; leave the strides out", label);
  CUDAL1_CHECK(known_keys(v, label, {"alloc", "dtype", "shape"}));
  CUDAL1_TRY(alloc.type, read_type(v, label));
  return alloc;
}

expected<std::vector<step>> read_steps(const json& v, program_section section) {
  if (!v.is_array())
    return wrong_json_kind(section == program_section::setup ? "setup" : "steps", "an array of steps", v);
  std::vector<step> steps;
  for (const auto& item : v.as_array()) {
    CUDAL1_TRY(auto s, read_step(item, steps.size(), section));
    steps.push_back(std::move(s));
  }
  return steps;
}

expected<execution> read_execution(const json& v) {
  if (!v.is_object()) return wrong_json_kind("execution", "an object, such as {\"graph\": true, \"lanes\": 1}", v);
  CUDAL1_CHECK(known_keys(v, "execution", {"graph", "lanes"}));
  execution how;
  CUDAL1_TRY(how.graph, read_flag(v, "graph", "execution"));
  if (const auto* lanes = v.find("lanes")) {
    CUDAL1_TRY(how.lanes, read_integer(*lanes, "execution, lanes"));
  }
  return how;
}

// The line that consists of the separator: {start of it, start of the source}; {npos, npos} where there is none.
std::pair<std::size_t, std::size_t> find_separator(std::string_view text) {
  for (std::size_t start = 0; start < text.size();) {
    const auto newline = text.find('\n', start);
    const auto end = newline == std::string_view::npos ? text.size() : newline;
    if (text.substr(start, end - start) == program_separator)
      return {start, newline == std::string_view::npos ? text.size() : newline + 1};
    start = newline == std::string_view::npos ? text.size() : newline + 1;
  }
  return {std::string_view::npos, std::string_view::npos};
}

std::string with_plain_line_ends(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') plain += text[i];
  return plain;
}

}  // namespace

bool launch_argument::operator==(const launch_argument& other) const {
  const bool same_real =
      std::isnan(real) ? std::isnan(other.real) : std::bit_cast<uint64_t>(real) == std::bit_cast<uint64_t>(other.real);
  return kind == other.kind && tensor == other.tensor && map == other.map && integer == other.integer && same_real;
}

std::vector<tensor_type> types_of(const std::vector<tensor_declaration>& declarations) {
  std::vector<tensor_type> types;
  types.reserve(declarations.size());
  for (const auto& d : declarations)
    types.push_back(d.type);
  return types;
}

std::string step_label(std::size_t index, const step& s, program_section section) {
  const auto what = std::visit(
      [](const auto& v) -> std::string {
        using kind = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<kind, alloc_step>) return "alloc " + printable(v.name);
        if constexpr (std::is_same_v<kind, launch_step>) return "launch " + printable(v.kernel);
        if constexpr (std::is_same_v<kind, aten_step>) return printable(v.op);
      },
      s);
  return fmt::format("{}step {} ({})", prefix_of(section), index + 1, what);
}

expected<program> read_program(const json& head, std::string source) {
  const std::string where = "the head";
  if (!head.is_object()) return wrong_json_kind(where, "an object", head);
  CUDAL1_TRY(const json* format, required_key(head, "format", where));
  CUDAL1_TRY(const int64_t version, read_integer(*format, "format"));
  if (version != program_format)
    return fail(errc::parse_error, "format: {} is not {}, the only one that this version reads", version,
                program_format);
  CUDAL1_CHECK(known_keys(
      head, where, {"format", "name", "inputs", "weights", "setup", "steps", "outputs", "execution", "headers"}));
  program p;
  CUDAL1_TRY(const json* name, required_key(head, "name", where));
  CUDAL1_TRY(p.name, read_string(*name, "name"));
  CUDAL1_TRY(const json* inputs, required_key(head, "inputs", where));
  CUDAL1_TRY(p.inputs, read_declarations(*inputs, "inputs"));
  if (const auto* weights = head.find("weights")) {
    CUDAL1_TRY(p.weights, read_declarations(*weights, "weights"));
  }
  if (const auto* setup = head.find("setup")) {
    CUDAL1_TRY(p.setup, read_steps(*setup, program_section::setup));
  }
  CUDAL1_TRY(const json* steps, required_key(head, "steps", where));
  CUDAL1_TRY(p.steps, read_steps(*steps, program_section::steps));
  CUDAL1_TRY(const json* outputs, required_key(head, "outputs", where));
  CUDAL1_TRY(p.outputs, read_strings(*outputs, "outputs"));
  if (const auto* how = head.find("execution")) {
    CUDAL1_TRY(p.how, read_execution(*how));
  }
  if (const auto* headers = head.find("headers")) {
    CUDAL1_TRY(p.headers, read_strings(*headers, "headers"));
    sort_headers(p.headers);
  }
  p.source = source.find('\r') == std::string::npos ? std::move(source) : with_plain_line_ends(source);
  CUDAL1_CHECK(check_form(p));
  return p;
}

expected<program> read_program(std::string_view text) {
  std::string plain;
  if (text.find('\r') != std::string_view::npos) {
    plain = with_plain_line_ends(text);
    text = plain;
  }
  const auto [separator, source] = find_separator(text);
  const auto head_text = text.substr(0, separator);
  if (head_text.find_first_not_of(" \t\n") == std::string_view::npos)
    return fail(errc::parse_error,
                "there is no head: a program starts with a JSON object, then a line \"{}\" and the "
                "source",
                program_separator);
  auto head = json::parse(head_text);
  if (!head && separator == std::string_view::npos && text.find("__global__") != std::string_view::npos)
    return fail(
        errc::parse_error,
        "the program has no line that is exactly {0} before the source; write the JSON head, then a line that is "
        "exactly {0}, then the CUDA source",
        program_separator);
  if (!head) {
    head.error().message += fmt::format(
        "; a program is one JSON object (without comments, and without a comma before ] or }}), a line \"{}\" and the "
        "source, with nothing around them",
        program_separator);
    return tl::unexpected<error>(std::move(head.error()));
  }
  return read_program(*head, source == std::string_view::npos ? std::string() : std::string(text.substr(source)));
}

}  // namespace cudal1
