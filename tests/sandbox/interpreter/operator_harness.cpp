#include "tests/sandbox/interpreter/operator_harness.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/interpreter/own_operators.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1::operator_tests {

namespace {

const std::map<char, dtype> letters{
    {'f', dtype::float32}, {'d', dtype::float64}, {'h', dtype::float16}, {'g', dtype::bfloat16}, {'i', dtype::int32},
    {'l', dtype::int64},   {'s', dtype::int16},   {'c', dtype::int8},    {'u', dtype::uint8},    {'b', dtype::bool_}};

std::vector<int64_t> numbers_of(const std::string& text) {
  std::vector<int64_t> numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t used = 0;
    numbers.push_back(std::stoll(text.substr(at), &used));
    at += used + 1;
  }
  return numbers;
}

operand parse_operand(const std::string& text) {
  operand o;
  const auto equals = text.find('='), open = text.find('['), close = text.find(']');
  o.name = text.substr(0, equals);
  o.type = contiguous(letters.at(text[equals + 1]), numbers_of(text.substr(open + 1, close - open - 1)));
  auto rest = text.substr(close + 1);
  if (const auto less = rest.find('<'); less != std::string::npos) {
    o.below = std::stoll(rest.substr(less + 1));
    rest = rest.substr(0, less);
  }
  o.positive = rest.find('+') != std::string::npos;
  if (rest.starts_with(":")) o.type.strides = numbers_of(rest.substr(1));
  return o;
}

operator_call bound(const operator_case& c) {
  const auto* op = find_operator(c.op);
  if (!op) throw std::runtime_error("no operator " + c.op);
  const auto lookup = [&](const std::string& name) -> const tensor_type* {
    for (const auto& o : c.operands)
      if (o.name == name) return &o.type;
    return nullptr;
  };
  auto call = bind_arguments(*op, json::parse(c.args).value().as_object(), lookup);
  if (!call) throw std::runtime_error(call.error().message);
  return std::move(*call);
}

json numbers(const std::vector<int64_t>& values) {
  return json(json::array(values.begin(), values.end()));
}

bool is_expanded(const tensor_type& t) {
  for (std::size_t d = 0; d < t.shape.size(); ++d)
    if (t.strides[d] == 0 && t.shape[d] > 1) return true;
  return false;
}

// The type of an expanded operand in memory: an input may not overlap itself.
tensor_type before_expansion(tensor_type t) {
  for (std::size_t d = 0; d < t.shape.size(); ++d)
    if (t.strides[d] == 0) t.shape[d] = 1;
  return t;
}

// The text of a program with the one step, and separate steps that expand operands and copy views.
std::string program_text(const operator_case& c, const std::vector<operator_result>& results) {
  auto head = json::make_object({{"format", 1}, {"name", "one_step"}});
  json::array inputs, outputs, names, steps, copies;
  auto args = json::parse(c.args).value();
  for (const auto& o : c.operands) {
    const auto type = before_expansion(o.type);
    const auto name = is_expanded(o.type) ? o.name + "_before" : o.name;
    auto input = json::make_object({{"name", name}, {"dtype", name_of(type.type)}});
    input.set("shape", numbers(type.shape));
    input.set("strides", numbers(type.strides));
    inputs.push_back(std::move(input));
    if (is_expanded(o.type))
      steps.push_back(json::make_object({{"aten", "aten::expand"},
                                         {"args", json::make_object({{"self", name}, {"size", numbers(o.type.shape)}})},
                                         {"out", json(json::array{o.name})}}));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_empty = results[i].type.numel() == 0;  // unused results, such as statistics
    names.push_back(is_empty ? "" : fmt::format("result{}", i));
    if (is_empty) continue;
    outputs.push_back(names.back());
    if (!results[i].view_of) continue;
    outputs.back() = fmt::format("copy{}", i);
    copies.push_back(json::make_object({{"aten", "aten::clone"},
                                        {"args", json::make_object({{"self", names.back()}})},
                                        {"out", json(json::array{outputs.back()})}}));
  }
  steps.push_back(json::make_object({{"aten", c.op}, {"args", args}, {"out", json(names)}}));
  steps.insert(steps.end(), copies.begin(), copies.end());
  head.set("inputs", json(inputs));
  head.set("steps", json(steps));
  head.set("outputs", json(outputs));
  return head.text();
}

c10::IValue boxed_list(const std::vector<tensor_argument>& items, bool optional_items,
                       const std::map<std::string, at::Tensor>& values) {
  c10::List<at::Tensor> all;
  c10::List<std::optional<at::Tensor>> some;
  for (const auto& item : items)
    if (optional_items) {
      some.push_back(item.name.empty() ? std::optional<at::Tensor>() : values.at(item.name));
    } else {
      all.push_back(values.at(item.name));
    }
  return optional_items ? c10::IValue(std::move(some)) : c10::IValue(std::move(all));
}

bool same_values(const at::Tensor& a, const at::Tensor& b) {
  if (!at::isFloatingType(a.scalar_type())) return at::equal(a, b);
  return at::equal(a.isnan(), b.isnan()) && at::equal(a.nan_to_num(0.5), b.nan_to_num(0.5));
}

// Includes strides, except for operators whose results the interpreter lays out.
std::string different_type(const operator_case& c, const std::vector<at::Tensor>& direct,
                           const std::vector<operator_result>& results) {
  if (direct.size() != results.size())
    return fmt::format("ATen gives {} results, but the rule {}", direct.size(), results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto type = type_of(direct[i]);
    // Of an operator on images the layout depends on the device only where it is not contiguous.
    const bool is_attention = find_operator(c.op)->record->kind == operator_kind::attention;
    if (find_operator(c.op)->needs_relayout && (is_attention || !results[i].type.is_contiguous()))
      type.strides = results[i].type.strides;
    if (!(type == results[i].type))
      return fmt::format("result {} is {} in ATen and {}[{}] with strides [{}] by the rule", i, type_text(direct[i]),
                         name_of(results[i].type.type), fmt::join(results[i].type.shape, ", "),
                         fmt::join(results[i].type.strides, ", "));
  }
  return {};
}

}  // namespace

operator_case parse_case(const std::string& line) {
  const auto trimmed = [](std::string s) {
    s.erase(0, s.find_first_not_of(' '));
    s.erase(s.find_last_not_of(' ') + 1);
    return s;
  };
  const auto first = line.find('|'), second = line.find('|', first + 1);
  operator_case c{trimmed(line.substr(0, first)), {}, trimmed(line.substr(second + 1))};
  auto operands = trimmed(line.substr(first + 1, second - first - 1));
  while (!operands.empty()) {
    const auto blank = operands.find(' ');
    c.operands.push_back(parse_operand(operands.substr(0, blank)));
    operands = blank == std::string::npos ? "" : trimmed(operands.substr(blank));
  }
  return c;
}

std::string case_text(const operator_case& c) {
  std::string text = c.op + " | ";
  for (const auto& o : c.operands)
    text += fmt::format("{}={}[{}]:{} ", o.name, name_of(o.type.type), fmt::join(o.type.shape, ","),
                        fmt::join(o.type.strides, ","));
  return text + "| " + c.args;
}

at::Tensor draw(const operand& o, std::mt19937_64& random) {
  const int64_t count = std::max<int64_t>(o.type.storage_bytes() / size_of(o.type.type), 1);
  auto memory = at::empty({count}, at::TensorOptions(scalar_type_of(o.type.type)));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0.01, 0.99);
  std::uniform_int_distribution<int64_t> integer(0, o.below - 1);
  for (int64_t i = 0; i < count; ++i) {
    const double v = is_floating(o.type.type) ? (o.positive ? uniform(random) : normal(random))
                                              : static_cast<double>(integer(random));
    memory[i].fill_(v);
  }
  return memory.as_strided(o.type.shape, o.type.strides);
}

tensor_type type_of(const at::Tensor& t) {
  for (const auto& [letter, type] : letters)
    if (scalar_type_of(type) == t.scalar_type()) return {type, t.sizes().vec(), t.strides().vec()};
  throw std::runtime_error("a type that programs do not support");
}

expected<std::vector<operator_result>> typed_by_rule(const operator_case& c) {
  const auto call = bound(c);
  return call.op->rule(call);
}

expected<checked_program> program_of(const operator_case& c) {
  CUDAL1_TRY(const auto results, typed_by_rule(c));
  return check_program_text(program_text(c, results));
}

std::vector<at::Tensor> called_directly(const operator_case& c, const std::map<std::string, at::Tensor>& values) {
  const c10::InferenceMode no_autograd;
  const auto call = bound(c);
  const auto dot = c.op.find('.');
  define_own_operators();
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      c.op.substr(0, dot).c_str(), dot == std::string::npos ? "" : c.op.substr(dot + 1).c_str());
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    if (const auto* t = std::get_if<tensor_argument>(&call.arguments[i])) {
      stack.emplace_back(values.at(t->name));
    } else if (const auto* many = std::get_if<std::vector<tensor_argument>>(&call.arguments[i])) {
      stack.push_back(boxed_list(*many, call.op->schema.arguments[i].optional_items, values));
    } else {
      stack.push_back(boxed(call.arguments[i], call.op->schema.arguments[i].type).value());
    }
  }
  handle.callBoxed(&stack);
  std::vector<at::Tensor> results;
  for (const auto& v : stack) {
    if (!v.isTensorList()) {
      results.push_back(v.toTensor());
      continue;
    }
    for (const auto& item : v.toTensorVector())
      results.push_back(item);
  }
  return results;
}

std::string compare_with_direct_call(const operator_case& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::map<std::string, at::Tensor> values;
  std::vector<tensor_view> inputs;
  for (const auto& o : c.operands) {
    values.emplace(o.name, draw(o, random));
    inputs.push_back({before_expansion(o.type), values.at(o.name).data_ptr()});
  }
  const auto predicted = typed_by_rule(c);
  if (!predicted) return "refused: " + predicted.error().message;
  const auto direct = called_directly(c, values);
  if (auto wrong = different_type(c, direct, *predicted); !wrong.empty()) return wrong;
  auto checked = check_program_text(program_text(c, *predicted));
  if (!checked) return "not checked: " + checked.error().message;
  auto loaded = interpreter::load(std::move(*checked), nullptr);
  if (!loaded) return "not loaded: " + loaded.error().message;
  for (int call = 0; call < 2; ++call)
    if (auto ran = (*loaded)->call(inputs); !ran) return "not run: " + ran.error().message;
  std::size_t next = 0;
  for (std::size_t i = 0; i < direct.size(); ++i) {
    if (direct[i].numel() == 0) continue;
    const auto& output = (*loaded)->outputs()[next++];
    if (!same_values(wrap(output), direct[i])) return fmt::format("result {} has different values", i);
  }
  return {};
}

}  // namespace cudal1::operator_tests
