#include "tools/kernelbench/argument_text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cudal1::kernelbench {

namespace {

// The shortest digits that read back as the same number, as a literal of a floating type.
template <class T>
std::string literal(T v, const char* type, const char* suffix) {
  if (std::isnan(v)) return fmt::format("std::numeric_limits<{}>::quiet_NaN()", type);
  if (std::isinf(v)) return fmt::format("{}std::numeric_limits<{}>::infinity()", v < 0 ? "-" : "", type);
  auto digits = fmt::format("{}", v);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + suffix;
}

std::string word_text(const std::string& word, schema_type type) {
  if (type == schema_type::layout) return "at::kStrided";
  if (type == schema_type::memory_format) {
    if (word == "channels_last") return "at::MemoryFormat::ChannelsLast";
    if (word == "channels_last_3d") return "at::MemoryFormat::ChannelsLast3d";
    return word == "preserve_format" ? "at::MemoryFormat::Preserve" : "at::MemoryFormat::Contiguous";
  }
  return string_text(word);
}

std::string scalar_text(const scalar_value& s) {
  if (const auto* b = std::get_if<bool>(&s)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&s)) return integer_text(*i);
  return real_text(std::get<double>(s));
}

// An array with a name, since ATen's lists refer to memory; `item` is what it holds.
template <class List, class Text>
argument_text array_text(const List& list, std::size_t index, const char* item, const Text& text_of) {
  std::vector<std::string> items;
  for (const auto& one : list)
    items.push_back(text_of(one));
  const auto name = fmt::format("a{}", index);
  return {{fmt::format("const {} {}[] = {{{}}};", item, name, fmt::join(items, ", "))}, name};
}

argument_text integers_text(const operator_call& call, std::size_t index, const std::vector<int64_t>& list) {
  const auto call_text = [&](const std::string& inner) {
    return fmt::format("ints<{}, {}>({})", operator_text(call.op->schema.name), index, inner);
  };
  if (list.empty()) return {{}, call_text("at::IntArrayRef()")};
  auto made = array_text(list, index, "int64_t", [](int64_t i) { return fmt::format("{}", i); });
  made.text = call_text(made.text);
  return made;
}

argument_text tensors_text(const schema_argument& a, std::size_t index, const std::vector<tensor_argument>& list) {
  if (a.optional_items) {
    std::vector<std::string> items;
    for (const auto& t : list)
      items.push_back(t.name.empty() ? "std::nullopt" : fmt::format("std::make_optional({})", value_text(t.name)));
    return {{}, fmt::format("c10::List<std::optional<at::Tensor>>({{{}}})", fmt::join(items, ", "))};
  }
  if (list.empty()) return {{}, "at::TensorList()"};
  auto made = array_text(list, index, "at::Tensor", [](const tensor_argument& t) { return value_text(t.name); });
  made.text = fmt::format("at::TensorList({})", made.text);
  return made;
}

}  // namespace

std::string scalar_type_text(dtype t) {
  switch (t) {
    case dtype::bool_:
      return "at::kBool";
    case dtype::uint8:
      return "at::kByte";
    case dtype::int8:
      return "at::kChar";
    case dtype::int16:
      return "at::kShort";
    case dtype::int32:
      return "at::kInt";
    case dtype::int64:
      return "at::kLong";
    case dtype::float16:
      return "at::kHalf";
    case dtype::bfloat16:
      return "at::kBFloat16";
    case dtype::float32:
      return "at::kFloat";
    case dtype::float64:
      return "at::kDouble";
  }
  return "at::ScalarType::Undefined";
}

std::string real_text(double v) {
  return literal(v, "double", "");
}

std::string float_text(double v) {
  return literal(static_cast<float>(v), "float", "f");
}

std::string integer_text(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "std::numeric_limits<int64_t>::min()";
  return fmt::format("int64_t{{{}}}", v);
}

std::string string_text(std::string_view v) {
  std::string text = "\"";
  for (const char c : v) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string value_text(const std::string& name) {
  return "v." + name + "_";
}

bool is_own_operator(std::string_view op) {
  return op.starts_with("cudal1::");
}

std::string operator_text(std::string_view op) {
  std::string name(op.substr(op.find("::") + 2));
  for (char& c : name)
    if (c == '.') c = '_';
  return (is_own_operator(op) ? "own_operators::" : "at::_ops::") + name;
}

std::vector<std::string> operator_headers(const operator_schema& schema) {
  const std::string_view op = schema.name;
  if (is_own_operator(op)) return {};
  const auto name = op.substr(op.find("::") + 2);
  std::vector<std::string> headers{fmt::format("ATen/ops/{}_ops.h", name.substr(0, name.find('.')))};
  if (std::ranges::any_of(schema.arguments, [](const auto& a) { return a.optional_items; }))
    headers.emplace_back("ATen/core/List.h");
  if (op == "aten::cat") headers.emplace_back("ATen/core/IListRef.h");  // alone in taking its tensors as one
  return headers;
}

argument_text argument_of(const operator_call& call, std::size_t index) {
  const auto& a = call.op->schema.arguments[index];
  const auto& value = call.arguments[index];
  if (value.index() == 0) return {{}, a.type == schema_type::device ? "v.device" : "std::nullopt"};
  if (const auto* t = std::get_if<tensor_argument>(&value)) return {{}, value_text(t->name)};
  if (const auto* many = std::get_if<std::vector<tensor_argument>>(&value)) return tensors_text(a, index, *many);
  if (const auto* s = std::get_if<scalar_value>(&value)) {
    const auto text = scalar_text(*s);
    return {{}, a.type == schema_type::scalar ? fmt::format("at::Scalar({})", text) : text};
  }
  if (const auto* word = std::get_if<std::string>(&value)) return {{}, word_text(*word, a.type)};
  if (const auto* t = std::get_if<dtype>(&value)) return {{}, scalar_type_text(*t)};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return integers_text(call, index, *list);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    if (list->empty()) return {{}, "at::ArrayRef<double>()"};
    auto made = array_text(*list, index, "double", real_text);
    made.text = fmt::format("at::ArrayRef<double>({})", made.text);
    return made;
  }
  const auto& flags = std::get<std::vector<bool>>(value);
  std::vector<std::string> items;
  for (const bool flag : flags)
    items.emplace_back(flag ? "true" : "false");
  return {{}, fmt::format("std::array<bool, {}>{{{}}}", flags.size(), fmt::join(items, ", "))};
}

}  // namespace cudal1::kernelbench
