#include "policy/prompt/head_pattern.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/prompt/number_patterns.hpp"
#include "sandbox/program/canonical.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/task_fit.hpp"

namespace cudal1 {

namespace {

using pattern = byte_pattern;

constexpr int most_temporaries = 4;

pattern blanks() {
  return pattern::repeated(pattern::any_of(" \n"));
}

// "first" or "first, second, ...".
pattern list_of(const pattern& item) {
  return pattern::sequence({item, pattern::repeated(pattern::sequence({json_pattern(","), item}))});
}

pattern string_of(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  quoted.reserve(texts.size());
  for (const auto& t : texts)
    quoted.push_back(json(t).text());
  return pattern::one_of(quoted);
}

// Threads of a block.
pattern block_extent() {
  std::vector<pattern> options;
  for (const auto& [x, y] : block_shapes())
    options.push_back(json_pattern(fmt::format("[{},{},1]", x, y)));
  return pattern::choice(std::move(options));
}

// What is bound when a step is written.
struct bound_names {
  std::vector<std::string> readable, writable;
};

pattern launch(const bound_names& bound, const std::vector<std::string>& kernels) {
  std::vector<pattern> arguments{
      pattern::sequence({json_pattern("{\"in\":"), string_of(bound.readable), json_pattern("}")}),
      pattern::sequence({json_pattern("{\"i32\":"), integer_number(), json_pattern("}")}),
      pattern::sequence({json_pattern("{\"i64\":"), integer_number(), json_pattern("}")}),
      pattern::sequence({json_pattern("{\"f32\":"), real_number(), json_pattern("}")})};
  if (!bound.writable.empty())
    arguments.push_back(pattern::sequence({json_pattern("{"), pattern::one_of({"\"out\"", "\"inout\""}),
                                           json_pattern(":"), string_of(bound.writable), json_pattern("}")}));
  const auto grid = pattern::sequence({json_pattern("["), positive_number(), json_pattern(","), short_extent(),
                                       json_pattern(","), short_extent(), json_pattern("]")});
  return pattern::sequence({json_pattern("{\"launch\":"), string_of(kernels), json_pattern(",\"grid\":"), grid,
                            json_pattern(",\"block\":"), block_extent(), json_pattern(",\"shared_bytes\":"),
                            shared_bytes(), json_pattern(",\"args\":["), list_of(pattern::choice(std::move(arguments))),
                            json_pattern("]}")});
}

pattern allocation(const std::string& name) {
  const auto more =
      pattern::times(pattern::sequence({json_pattern(","), positive_number()}), 0, most_written_dimensions - 1);
  return pattern::sequence({json_pattern("{\"alloc\":" + json(name).text() + ",\"dtype\":"), string_of(dtype_names()),
                            json_pattern(",\"shape\":["), positive_number(), more, json_pattern("]}")});
}

pattern allocated_output(const task& t, const std::string& name) {
  const auto& type = t.reference.types.at(name);
  json object = json::make_object({{"alloc", name}, {"dtype", enum_name(type.type)}});
  json::array shape(type.shape.begin(), type.shape.end());
  object.set("shape", json(std::move(shape)));
  return json_pattern(object.text());
}

// None for arguments of kinds that are left to their defaults.
std::optional<pattern> argument_value(const schema_argument& a, const bound_names& bound) {
  const auto list = [](const pattern& item) {
    return pattern::sequence({json_pattern("["), list_of(item), json_pattern("]")});
  };
  switch (a.type) {
    case schema_type::tensor:
      return string_of(bound.readable);
    case schema_type::tensor_list:
      return list(string_of(bound.readable));
    case schema_type::boolean:
      return pattern::one_of({"true", "false"});
    case schema_type::integer:
      return integer_number();
    case schema_type::real:
    case schema_type::scalar:
      return real_number();
    case schema_type::dtype:
      return string_of(dtype_names());
    case schema_type::integer_list:
      return list(integer_number());
    default:
      return std::nullopt;
  }
}

// A step with this operator whose result is `result`; none if it has no such form.
std::optional<pattern> operator_step(const operator_schema& op, const bound_names& bound, const std::string& result) {
  if (op.results.size() != 1 || op.list_result) return std::nullopt;
  std::vector<pattern> parts{json_pattern("{\"aten\":" + json(op.name).text() + ",\"args\":{")};
  bool first = true;
  for (const auto& a : op.arguments) {
    const auto value = argument_value(a, bound);
    const bool may_be_missing = a.default_value.has_value() || a.optional;
    if (!value && may_be_missing) continue;
    if (!value || (first && may_be_missing)) return std::nullopt;
    auto written = pattern::sequence({json_pattern((first ? "" : ",") + json(a.name).text() + ":"), *value});
    first = false;
    parts.push_back(may_be_missing ? pattern::choice({pattern::text(""), std::move(written)}) : std::move(written));
  }
  parts.push_back(json_pattern("},\"out\":[" + json(result).text() + "]}"));
  return pattern::sequence(std::move(parts));
}

// The task's own, and products.
std::vector<const operator_info*> operators_of(const task& t) {
  std::set<std::string> own;
  for (const auto& call : t.reference.calls)
    if (call.op != nullptr) own.insert(call.op->schema.name);
  std::vector<const operator_info*> out;
  for (const auto& [name, op] : operator_table())
    if (own.contains(op.schema.name) || (op.record != nullptr && op.record->kind == operator_kind::product))
      out.push_back(&op);
  return out;
}

class head_writer {
 public:
  explicit head_writer(const task& t) : task_(t), operators_(operators_of(t)) {
    for (const auto* list : {&t.reference.text.inputs, &t.reference.text.weights})
      for (const auto& d : *list)
        given_.push_back(d.name);
  }

  pattern with_kernels(const std::vector<std::string>& kernels) const {
    std::vector<pattern> steps;
    for (const auto& name : task_.reference.text.outputs) {
      steps.push_back(allocated_output(task_, name));
      steps.push_back(json_pattern(","));
    }
    steps.push_back(kernels_after(0, kernels));
    return whole(pattern::sequence(std::move(steps)));
  }

  std::optional<pattern> of_operators() const {
    if (task_.reference.text.outputs.size() != 1) return std::nullopt;
    auto calls = calls_after(0);
    if (!calls) return std::nullopt;
    return whole(std::move(*calls));
  }

 private:
  static std::string temporary(int i) { return fmt::format("t{}", i); }

  bound_names bound(int temporaries, bool with_outputs) const {
    bound_names out{given_, {}};
    if (with_outputs)
      for (const auto& name : task_.reference.text.outputs)
        out.writable.push_back(name);
    for (int i = 0; i < temporaries; ++i)
      out.writable.push_back(temporary(i));
    out.readable.insert(out.readable.end(), out.writable.begin(), out.writable.end());
    return out;
  }

  // A choice of steps with one operator; none if there is none.
  std::optional<pattern> call(const bound_names& with, const std::string& result) const {
    std::vector<pattern> options;
    for (const auto* op : operators_)
      if (auto made = operator_step(op->schema, with, result)) options.push_back(std::move(*made));
    if (options.empty()) return std::nullopt;
    return pattern::choice(std::move(options));
  }

  // Launches, and then the last one, or a further temporary and so on.
  pattern kernels_after(int temporaries, const std::vector<std::string>& kernels) const {
    const auto here = bound(temporaries, true);
    const auto launched = launch(here, kernels);
    std::vector<pattern> rest{launched};
    if (temporaries < most_temporaries) {
      std::vector<pattern> made{allocation(temporary(temporaries))};
      if (auto computed = call(here, temporary(temporaries))) made.push_back(std::move(*computed));
      rest.push_back(pattern::sequence(
          {pattern::choice(std::move(made)), json_pattern(","), kernels_after(temporaries + 1, kernels)}));
    }
    return pattern::sequence(
        {pattern::repeated(pattern::sequence({launched, json_pattern(",")})), pattern::choice(std::move(rest))});
  }

  std::optional<pattern> calls_after(int temporaries) const {
    const auto here = bound(temporaries, false);
    auto last = call(here, task_.reference.text.outputs.front());
    if (!last) return std::nullopt;
    if (temporaries == most_temporaries) return last;
    return pattern::choice({std::move(*last), pattern::sequence({*call(here, temporary(temporaries)), json_pattern(","),
                                                                 *calls_after(temporaries + 1)})});
  }

  pattern whole(pattern steps) const {
    const auto& p = task_.reference.text;
    json::array outputs(p.outputs.begin(), p.outputs.end());
    return pattern::sequence(
        {json_pattern("{\"format\":1,\"name\":" + json(task_.name).text() +
                      ",\"inputs\":" + declarations_text(p.inputs) + ",\"weights\":" + declarations_text(p.weights) +
                      ",\"setup\":[]" + ",\"steps\":["),
         std::move(steps),
         json_pattern("],\"outputs\":" + json(std::move(outputs)).text() + ",\"execution\":{\"graph\":"),
         pattern::one_of({"true", "false"}), json_pattern(",\"lanes\":1}"), blanks(), pattern::text("}\n")});
  }

  const task& task_;
  std::vector<const operator_info*> operators_;
  std::vector<std::string> given_;
};

}  // namespace

byte_pattern json_pattern(std::string_view compact) {
  std::vector<pattern> parts;
  std::string plain;
  bool in_string = false;
  for (std::size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    if (c == '"' && (i == 0 || compact[i - 1] != '\\')) in_string = !in_string;
    const bool closes = !in_string && (c == '}' || c == ']'),
               opens = !in_string && std::string_view("{[,:").find(c) < 4;
    if (closes) {
      parts.push_back(pattern::text(std::exchange(plain, "")));
      parts.push_back(blanks());
    }
    plain += c;
    if (opens) {
      parts.push_back(pattern::text(std::exchange(plain, "")));
      parts.push_back(blanks());
    }
  }
  parts.push_back(pattern::text(plain));
  return pattern::sequence(std::move(parts));
}

byte_pattern head_with_kernels(const task& t, const std::vector<std::string>& kernels) {
  return head_writer(t).with_kernels(kernels);
}

std::optional<byte_pattern> head_of_operators(const task& t) {
  return head_writer(t).of_operators();
}

}  // namespace cudal1
