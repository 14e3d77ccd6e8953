// Parses PTX for the rules: statements and their operands, by function.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// One directive, instruction or head of a function. The views point into the text that was parsed.
struct ptx_statement {
  std::vector<std::string_view> words;  // without a guard (@%p1); each punctuation character is a word
  int function = -1;                    // index into ptx_module::functions, -1 outside
  std::string_view text;                // for messages

  // ".reg", "ld.global.f32"; "" for a statement of labels alone.
  std::string_view head() const { return words.empty() ? std::string_view() : words.front(); }
  bool is_directive() const { return head().starts_with('.'); }
  // The operands of an instruction: split at commas outside brackets.
  std::vector<std::vector<std::string_view>> operands() const;
};

struct ptx_function {
  std::string_view name;
  bool is_kernel = false;
  bool is_extern = false;
};

struct ptx_module {
  std::vector<ptx_function> functions;
  std::vector<ptx_statement> statements;  // in order; the head of a function is outside of it
};

// Inline assembly puts the program's text into the PTX, so whatever ptxas might parse differently is refused: comments
// of C, preprocessor lines, backslashes, strings over lines. Errors: refused, corrupt.
expected<ptx_module> parse_ptx(std::string_view text);

}  // namespace cudal1
