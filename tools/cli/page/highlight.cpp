#include "tools/cli/page/highlight.hpp"

#include <set>

#include "sandbox/program/scanner.hpp"
#include "tools/charts/escape.hpp"

namespace cudal1::cli {

namespace {

const std::set<std::string_view>& keywords() {
  static const std::set<std::string_view> words = {
      "alignas",   "asm",           "auto",        "break",   "case",      "class",    "const",     "const_cast",
      "constexpr", "continue",      "default",     "delete",  "do",        "else",     "enum",      "explicit",
      "extern",    "false",         "for",         "goto",    "if",        "inline",   "namespace", "new",
      "noexcept",  "nullptr",       "operator",    "private", "protected", "public",   "return",    "sizeof",
      "static",    "static_assert", "static_cast", "struct",  "switch",    "template", "this",      "true",
      "typedef",   "typename",      "union",       "using",   "virtual",   "volatile", "while",     "reinterpret_cast"};
  return words;
}

const std::set<std::string_view>& types() {
  static const std::set<std::string_view> words = {"void",
                                                   "bool",
                                                   "char",
                                                   "short",
                                                   "int",
                                                   "long",
                                                   "float",
                                                   "double",
                                                   "unsigned",
                                                   "signed",
                                                   "size_t",
                                                   "int8_t",
                                                   "int16_t",
                                                   "int32_t",
                                                   "int64_t",
                                                   "uint8_t",
                                                   "uint16_t",
                                                   "uint32_t",
                                                   "uint64_t",
                                                   "half",
                                                   "half2",
                                                   "bfloat16",
                                                   "float2",
                                                   "float4",
                                                   "int2",
                                                   "int4",
                                                   "uint2",
                                                   "uint4",
                                                   "__half",
                                                   "__half2",
                                                   "__nv_bfloat16",
                                                   "__global__",
                                                   "__device__",
                                                   "__shared__",
                                                   "__host__",
                                                   "__restrict__",
                                                   "__launch_bounds__",
                                                   "__forceinline__",
                                                   "__constant__",
                                                   "__grid_constant__",
                                                   "threadIdx",
                                                   "blockIdx",
                                                   "blockDim",
                                                   "gridDim",
                                                   "tensor_map"};
  return words;
}

// The class of a token; null for one that is not marked.
const char* class_of(const token& t, const token* next) {
  switch (t.kind) {
    case token_kind::comment:
    case token_kind::unclosed_comment:
      return "c";
    case token_kind::directive:
    case token_kind::line_marker:
      return "p";
    case token_kind::text:
    case token_kind::unclosed_text:
      return "s";
    case token_kind::number:
      return "n";
    case token_kind::punctuation:
      return nullptr;
    case token_kind::identifier:
      break;
  }
  if (keywords().contains(t.text)) return "k";
  if (types().contains(t.text)) return "t";
  return next != nullptr && next->is("(") ? "f" : nullptr;
}

}  // namespace

std::string highlighted(std::string_view source) {
  const auto tokens = scan(source, directive_form::line);
  std::string out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto& t = tokens[i];
    // What an unclosed token left over follows behind the loop.
    if (t.begin < at || t.end > source.size() || t.end < t.begin) continue;
    out += charts::escaped(source.substr(at, t.begin - at));
    const auto text = charts::escaped(source.substr(t.begin, t.end - t.begin));
    const char* css_class = class_of(t, i + 1 < tokens.size() ? &tokens[i + 1] : nullptr);
    out += css_class == nullptr ? text : std::string("<span class=\"") + css_class + "\">" + text + "</span>";
    at = t.end;
  }
  return out + charts::escaped(source.substr(at));
}

}  // namespace cudal1::cli
