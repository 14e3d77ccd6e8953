#include "sandbox/cuda/compiler/kernel_text.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "sandbox/cpu/tokens.hpp"

namespace cudal1 {
namespace {

constexpr std::string_view linkage = "extern \"C\" ";

// The changes of a text: at a place, so many bytes are replaced.
struct change {
  std::size_t bytes = 0;
  std::string by;
};
using changes = std::map<std::size_t, change>;

bool ends_declaration(const token& t) {
  return t.is(";") || t.is("{") || t.is("}") || t.kind == token_kind::directive;
}

// `tokens[at]` is __global__: from the first word of its declaration on, up to its name's parenthesis.
void give_plain_name(const std::vector<token>& tokens, std::size_t at, changes& wanted) {
  std::size_t first = at;
  while (first > 0 && !ends_declaration(tokens[first - 1]))
    --first;
  std::size_t last = at;
  while (last < tokens.size() && !ends_declaration(tokens[last]) &&
         !(tokens[last].is("(") && !tokens[last - 1].is("__launch_bounds__")))
    ++last;
  for (std::size_t i = first; i < at; ++i)
    if (tokens[i].is("template") || tokens[i].is("friend")) return;
  // `static` and `inline` contradict a name that others find.
  for (std::size_t i = first; i < last; ++i)
    if (tokens[i].is("static") || tokens[i].is("inline")) wanted[tokens[i].begin] = {tokens[i].text.size(), ""};
  const bool has_linkage = tokens[first].is("extern");
  if (!has_linkage) {
    auto& here = wanted[tokens[first].begin];
    here.by = std::string(linkage) + here.by;
  }
}

// In the body of a macro the declaration cannot be told; the word itself becomes `extern "C" __global__`.
void give_plain_name_in_macro(const token& directive, changes& wanted) {
  constexpr std::string_view word = "__global__";
  const auto at = directive.text.find(word);
  if (at == std::string_view::npos) return;
  for (const std::string_view other : {"template", "extern", "static"})
    if (directive.text.substr(0, at).find(other) != std::string_view::npos) return;
  wanted[directive.begin + at] = {0, std::string(linkage)};
}

}  // namespace

expected<std::string> cuda_kernel_text(std::string_view source) {
  const std::string joined = join_lines(source);
  CUDAL1_TRY(const auto tokens, tokens_of(joined));
  changes wanted;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].is("__global__")) give_plain_name(tokens, i, wanted);
    if (tokens[i].kind == token_kind::directive) give_plain_name_in_macro(tokens[i], wanted);
  }
  std::string text(cuda_prologue());
  text += "#line 1 \"program.cu\"\n";
  std::size_t at = 0;
  for (const auto& [place, c] : wanted) {
    text.append(joined, at, place - at).append(c.by);
    at = place + c.bytes;
  }
  return text.append(joined, at);
}

}  // namespace cudal1
