#include "sandbox/cuda/compiler/kernel_text.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "sandbox/cuda/compiler/dialect_functions.hpp"
#include "sandbox/cuda/compiler/prologue.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {
namespace {

constexpr std::string_view linkage = "extern \"C\" ";

// Replacements in a text, by the offset of the replaced bytes.
struct change {
  std::size_t bytes = 0;
  std::string by;
};
using changes = std::map<std::size_t, change>;

template <std::size_t N>
bool is_one_of(const token& t, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), t.text) != words.end();
}

constexpr std::array<std::string_view, 7> specifiers{"static",          "inline",       "extern", "\"C\"",
                                                     "__forceinline__", "__noinline__", "void"};
constexpr std::array<std::string_view, 5> with_arguments{"__launch_bounds__", "__cluster_dims__", "__maxnreg__",
                                                         "__block_size__", "__attribute__"};

// The token that opens what `tokens[close]` closes; `close` if there is none.
std::size_t opening(const std::vector<token>& tokens, std::size_t close) {
  int depth = 0;
  for (std::size_t i = close + 1; i-- > 0;) {
    if (tokens[i].is(")") || tokens[i].is("]")) ++depth;
    if ((tokens[i].is("(") || tokens[i].is("[")) && --depth == 0) return i;
  }
  return close;
}

// The first word of the declaration that contains `tokens[at]`, __global__. Only goes back over known specifiers, since
// a macro before the declaration need not end in ';'.
std::size_t declaration_begin(const std::vector<token>& tokens, std::size_t at) {
  while (at > 0) {
    const auto& before = tokens[at - 1];
    if (is_one_of(before, specifiers)) {
      --at;
    } else if (before.is("]")) {
      at = opening(tokens, at - 1);  // an attribute
    } else if (const auto open = before.is(")") ? opening(tokens, at - 1) : 0;
               open > 0 && is_one_of(tokens[open - 1], with_arguments)) {
      at = open - 1;
    } else {
      break;
    }
  }
  return at;
}

// `tokens[at]` is __global__.
void give_plain_name(const std::vector<token>& tokens, std::size_t at, changes& wanted) {
  const std::size_t first = declaration_begin(tokens, at);
  if (first > 0 && (tokens[first - 1].is(">") || tokens[first - 1].is("friend"))) return;  // a template
  bool has_linkage = false;
  const auto look_at = [&](const token& t) {
    has_linkage = has_linkage || t.is("extern");
    // These contradict external linkage.
    if (t.is("static") || t.is("inline") || t.is("__forceinline__")) wanted[t.begin] = {t.text.size(), ""};
  };
  for (std::size_t i = first; i < tokens.size() && !tokens[i].is("{") && !tokens[i].is(";"); ++i)
    look_at(tokens[i]);
  if (has_linkage) return;
  auto& here = wanted[tokens[first].begin];
  here.by = std::string(linkage) + here.by;
}

// In the body of a macro the declaration cannot be parsed, so the word itself becomes `extern "C" __global__`.
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
  const std::string joined = join_lines(source).text;
  CUDAL1_TRY(const auto tokens, tokens_of(joined));
  changes wanted;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].is("__global__")) give_plain_name(tokens, i, wanted);
    if (tokens[i].kind == token_kind::directive) give_plain_name_in_macro(tokens[i], wanted);
  }
  std::string text(prologue());
  // No program calls all of a part's functions.
  text += "#pragma nv_diag_suppress 177\n";
  if (source.find("atomic") != std::string_view::npos) text += prologue_part("atomics");
  text += dialect_functions(source);
  text += "#pragma nv_diag_default 177\n";
  text += "#line 1 \"program.cu\"\n";
  std::size_t at = 0;
  for (const auto& [place, c] : wanted) {
    text.append(joined, at, place - at).append(c.by);
    at = place + c.bytes;
  }
  return text.append(joined, at);
}

}  // namespace cudal1
