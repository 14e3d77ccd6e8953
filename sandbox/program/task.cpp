#include "sandbox/program/task.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/hash.hpp"
#include "config/base/utf8.hpp"
#include "sandbox/program/canonical.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/input_spec.hpp"
#include "sandbox/program/json_fields.hpp"
#include "sandbox/program/near_miss.hpp"
#include "sandbox/program/origin.hpp"

namespace cudal1 {

namespace {

// Control characters, spaces and marks beyond ASCII that change how a line is shown: U+0080 to U+00A0, U+2000 to
// U+206F.
bool has_invisible(std::string_view utf8) {
  const auto byte = [&](std::size_t i) { return i < utf8.size() ? static_cast<unsigned char>(utf8[i]) : 0; };
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    if (byte(i) == 0xC2 && byte(i + 1) <= 0xA0) return true;
    if (byte(i) == 0xE2 && (byte(i + 1) == 0x80 || (byte(i + 1) == 0x81 && byte(i + 2) <= 0xAF))) return true;
  }
  return utf8.find("\xEF\xBB\xBF") != std::string_view::npos;  // U+FEFF
}

// Names that are typed on command lines and become file names.
expected<void> check_word(std::string_view word, const std::string& where) {
  constexpr std::size_t longest = 100, most_bytes = 200;
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || static_cast<unsigned char>(c) >= 0x80;
  };
  const auto letters = std::ranges::count_if(word, [](unsigned char c) { return (c & 0xC0) != 0x80; });
  const bool is_short = letters <= static_cast<int64_t>(longest) && word.size() <= most_bytes;
  if (!word.empty() && is_short && std::all_of(word.begin(), word.end(), legal) && word.front() != '.' &&
      word.front() != '-' && is_valid_utf8(word) && !has_invisible(word))
    return {};
  return fail(errc::parse_error,
              "{}: should have 1 to {} letters, digits, \"_\", \"-\" and \".\", and not begin with the last two", where,
              longest);
}

expected<void> check_summary(std::string_view summary) {
  constexpr std::size_t longest = 500;
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (summary.size() <= longest && std::none_of(summary.begin(), summary.end(), control) && is_valid_utf8(summary))
    return {};
  return fail(errc::parse_error, "summary: should be one line of at most {} bytes", longest);
}

// The sizes of the profile; a text with a "profile" has numbers only.
expected<size_names> read_sizes(const json& document, const std::string& profile) {
  const auto* sizes = document.find("sizes");
  if (!sizes) return size_names{};
  if (document.find("profile"))
    return fail(errc::parse_error, "sizes: a text with a \"profile\" is for one profile and has numbers only");
  if (!sizes->is_object()) return wrong_json_kind("sizes", "an object of profiles", *sizes);
  const auto* chosen = sizes->find(profile);
  if (!chosen) {
    std::vector<std::string> names;
    for (const auto& [name, value] : sizes->as_object())
      names.push_back(printable(name));
    const std::vector<std::string_view> there(names.begin(), names.end());
    return fail(errc::not_found, "sizes: there is no profile \"{}\"{} (there are {})", profile,
                did_you_mean(profile, there), fmt::join(there, ", "));
  }
  const auto where = "sizes, " + profile;
  if (!chosen->is_object()) return wrong_json_kind(where, "an object of sizes", *chosen);
  size_names names;
  for (const auto& [name, value] : chosen->as_object()) {
    if (!is_identifier(name)) return fail(errc::parse_error, "{}: {} is not a valid name", where, json(name).text());
    CUDAL1_TRY(const int64_t size, read_integer(value, where + ", " + name));
    names.emplace(name, size);
  }
  return names;
}

expected<json> evaluated(const json& v, const size_names& sizes, const std::string& where) {
  if (!v.is_string()) return v;
  auto size = evaluate_size(v.as_string(), sizes);
  if (!size) return fail_in(where, size.error());
  return json(*size);
}

expected<json> evaluated_items(const json& v, const size_names& sizes, const std::string& where) {
  if (!v.is_array()) return evaluated(v, sizes, where);
  json::array items;
  for (const auto& item : v.as_array()) {
    CUDAL1_TRY(auto size, evaluated(item, sizes, fmt::format("{}[{}]", where, items.size())));
    items.push_back(std::move(size));
  }
  return json(std::move(items));
}

// The declarations as a program has them: sizes are numbers; draw, facts, content and quantiles are left out.
expected<json> plain_declarations(const json& list, std::string_view name, const size_names& sizes) {
  if (!list.is_array()) return wrong_json_kind(std::string(name), "an array of tensors", list);
  json::array plain;
  for (const auto& item : list.as_array()) {
    const auto where = declaration_label(
        name, plain.size(), item.find("name") && item.find("name")->is_string() ? item.find("name")->as_string() : "");
    CUDAL1_CHECK(
        known_keys(item, where, {"name", "dtype", "shape", "strides", "draw", "facts", "content", "quantiles"}));
    json declaration = json::make_object();
    for (const auto& [key, value] : item.as_object()) {
      if (key == "draw" || key == "facts" || key == "content" || key == "quantiles") continue;
      if (key == "shape" || key == "strides") {
        CUDAL1_TRY(auto numbers, evaluated_items(value, sizes, where + ", " + key));
        declaration.set(key, std::move(numbers));
      } else {
        declaration.set(key, value);
      }
    }
    plain.push_back(std::move(declaration));
  }
  return json(std::move(plain));
}

// The steps with their sizes evaluated: strings in arguments that the schema says are integers.
expected<json> plain_steps(const json& list, const size_names& sizes) {
  if (!list.is_array()) return wrong_json_kind("steps", "an array of steps", list);
  json::array plain;
  for (const auto& item : list.as_array()) {
    const auto number = fmt::format("step {}", plain.size() + 1);
    const auto* name = item.find("aten");
    if (!name || !name->is_string())
      return fail(errc::parse_error,
                  "{}: should have the key aten; a task has ATen steps only (alloc and launch are for variants)",
                  number);
    json step = item;
    const auto* op = find_operator(name->as_string());
    auto* args = step.find("args");
    if (op && args && args->is_object())
      for (auto& [key, value] : args->as_object()) {
        const auto& known = op->schema.arguments;
        const auto found =
            std::find_if(known.begin(), known.end(), [&wanted = key](const auto& a) { return a.name == wanted; });
        if (found == known.end() || (found->type != schema_type::integer && found->type != schema_type::integer_list))
          continue;
        CUDAL1_TRY(value,
                   evaluated_items(value, sizes, fmt::format("{} ({}), args.{}", number, name->as_string(), key)));
      }
    plain.push_back(std::move(step));
  }
  return json(std::move(plain));
}

expected<program> read_reference(const json& document, const size_names& sizes, const std::string& name) {
  json head = json::make_object();
  head.set("format", program_format);
  head.set("name", name);
  for (const std::string key : {"inputs", "weights"})
    if (const auto* list = document.find(key)) {
      CUDAL1_TRY(auto plain, plain_declarations(*list, key, sizes));
      head.set(key, std::move(plain));
    }
  CUDAL1_TRY(const json* steps, required_key(document, "steps", "the task"));
  CUDAL1_TRY(auto plain, plain_steps(*steps, sizes));
  head.set("steps", std::move(plain));
  if (const auto* outputs = document.find("outputs")) head.set("outputs", *outputs);
  return read_program(head, "");
}

expected<std::vector<input_spec>> read_specs(const json& document, std::string_view list,
                                             const std::vector<tensor_declaration>& declarations,
                                             const size_names& sizes) {
  std::vector<input_spec> specs;
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    const auto where = declaration_label(list, i, declarations[i].name);
    CUDAL1_TRY(auto spec, read_input_spec(document.find(list)->as_array()[i], declarations[i].type, sizes, where));
    if (spec.content && (spec.content->draws > 0) != (list == "inputs"))
      return fail(errc::parse_error, "{}, content: \"draws\" is required for an input and not allowed for a weight",
                  where);
    if (!spec.quantiles.empty() && list != "inputs")
      return fail(errc::parse_error, "{}, quantiles: only inputs have them", where);
    specs.push_back(std::move(spec));
  }
  return specs;
}

expected<void> check_content_files(const task& t) {
  const auto files = t.content_files();
  if (files.size() > task::most_content_files)
    return fail(errc::parse_error, "the contents of weights and inputs are in {} files; at most {} are taken",
                files.size(), task::most_content_files);
  return {};
}

// Reads everything but the name, which prefixes the errors of the rest.
expected<void> read_parts(const json& document, std::string_view profile, task& t) {
  CUDAL1_CHECK(known_keys(document, "the task",
                          {"format", "name", "summary", "family", "explanation", "profile", "origin", "sizes", "inputs",
                           "weights", "steps", "outputs", "states", "returns"}));
  CUDAL1_TRY(const json* format, required_key(document, "format", "the task"));
  CUDAL1_TRY(const int64_t version, read_integer(*format, "format"));
  if (version != program_format)
    return fail(errc::parse_error, "format: {} is not {}, the only one that this version reads", version,
                program_format);
  if (const auto* summary = document.find("summary")) {
    CUDAL1_TRY(t.summary, read_string(*summary, "summary"));
    CUDAL1_CHECK(check_summary(t.summary));
  }
  if (const auto* explanation = document.find("explanation")) {
    CUDAL1_TRY(t.explanation, read_string(*explanation, "explanation"));
  }
  t.family = "other";
  if (const auto* family = document.find("family")) {
    CUDAL1_TRY(t.family, read_string(*family, "family"));
    CUDAL1_CHECK(check_word(t.family, "family"));
  }
  if (const auto* origin = document.find("origin")) {
    CUDAL1_TRY(t.origin, read_origin(*origin));
  }
  t.profile = profile;
  if (const auto* own = document.find("profile")) {
    CUDAL1_TRY(t.profile, read_string(*own, "profile"));
  }
  CUDAL1_CHECK(check_word(t.profile, "profile"));
  CUDAL1_TRY(const auto sizes, read_sizes(document, t.profile));
  CUDAL1_TRY(auto reference, read_reference(document, sizes, t.name));
  CUDAL1_TRY(t.reference, check_program(std::move(reference)));
  if (t.origin)
    for (const auto& call : t.origin->modules)
      if (call.first + call.count > static_cast<int64_t>(t.reference.text.steps.size()))
        return fail(errc::parse_error, "origin, modules: {} has steps {} to {}, and there are {}", call.path,
                    call.first, call.first + call.count - 1, t.reference.text.steps.size());
  if (t.origin)
    for (const auto& [name, values] : t.origin->values)
      if (!t.reference.types.contains(name))
        return fail(errc::parse_error, "origin, values: no step produces {}", json(name).text());
  CUDAL1_TRY(t.inputs, read_specs(document, "inputs", t.reference.text.inputs, sizes));
  CUDAL1_TRY(t.weights, read_specs(document, "weights", t.reference.text.weights, sizes));
  if (const auto* states = document.find("states")) {
    CUDAL1_TRY(t.states, read_states(*states, t.reference));
  }
  if (const auto* returns = document.find("returns")) {
    CUDAL1_CHECK(check_returns(*returns, t.reference.text.outputs.size()));
    t.returns = *returns;
  } else if (!t.states.empty()) {
    return fail(errc::parse_error, "returns: a task with states says what forward returns");
  }
  return check_content_files(t);
}

json specified_json(const std::vector<tensor_declaration>& declarations, const std::vector<input_spec>& specs) {
  json::array items;
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    auto item = declaration_json(declarations[i]);
    item.set("draw", draw_json(specs[i].draw));
    item.set("facts", facts_json(specs[i].facts));
    if (specs[i].content) item.set("content", content_json(*specs[i].content));
    if (!specs[i].quantiles.empty()) item.set("quantiles", to_json(specs[i].quantiles));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

bool task::has_fact(std::string_view tensor, fact f) const {
  const auto among = [&](const std::vector<tensor_declaration>& declarations, const std::vector<input_spec>& specs) {
    for (std::size_t i = 0; i < declarations.size() && i < specs.size(); ++i)
      if (declarations[i].name == tensor)
        return std::find(specs[i].facts.begin(), specs[i].facts.end(), f) != specs[i].facts.end();
    return false;
  };
  return among(reference.text.inputs, inputs) || among(reference.text.weights, weights);
}

std::vector<std::string> task::content_files() const {
  std::vector<std::string> files;
  for (const auto* specs : {&weights, &inputs})
    for (const auto& spec : *specs)
      if (spec.content && std::find(files.begin(), files.end(), spec.content->file) == files.end())
        files.push_back(spec.content->file);
  return files;
}

std::string canonical_text(const task& t) {
  const auto& p = t.reference.text;
  json document = json::make_object();
  document.set("format", program_format);
  document.set("name", t.name);
  document.set("summary", t.summary);
  document.set("family", t.family);
  if (!t.explanation.empty()) document.set("explanation", t.explanation);
  document.set("profile", t.profile);
  if (t.origin) document.set("origin", origin_json(*t.origin));
  document.set("inputs", specified_json(p.inputs, t.inputs));
  document.set("weights", specified_json(p.weights, t.weights));
  json::array steps, outputs;
  for (const auto& s : p.steps)
    steps.push_back(step_json(s));
  for (const auto& name : p.outputs)
    outputs.emplace_back(name);
  document.set("steps", std::move(steps));
  document.set("outputs", std::move(outputs));
  // Only where there are some: the text of a task without them is what it was before there were any.
  if (!t.states.empty()) document.set("states", states_json(t.states));
  if (t.returns) document.set("returns", *t.returns);
  return document.text();
}

expected<task> read_task(std::string_view text, std::string_view profile) {
  const program_limits limits;
  if (static_cast<int64_t>(text.size()) > limits.max_text_bytes)
    return fail(errc::parse_error, "the task: {} bytes are above the limit of {}", text.size(), limits.max_text_bytes);
  CUDAL1_TRY(const json document, json::parse(text));
  if (!document.is_object()) return wrong_json_kind("the task", "an object", document);
  task t;
  CUDAL1_TRY(const json* name, required_key(document, "name", "the task"));
  CUDAL1_TRY(t.name, read_string(*name, "name"));
  CUDAL1_CHECK(check_word(t.name, "name"));
  if (auto parts = read_parts(document, profile, t); !parts) return fail_in("task " + t.name, parts.error());
  task identity = t;  // descriptions do not affect the id
  identity.summary.clear();
  identity.family.clear();
  identity.explanation.clear();
  identity.origin.reset();
  for (auto& spec : identity.inputs)
    spec.quantiles.clear();
  t.id = sha256_hex(canonical_text(identity));
  return t;
}

}  // namespace cudal1
