// The top-level declarations of a program's source: which are kernels, which functions use the state of their thread,
// and which kernels cooperate with other threads.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {

enum class item_kind {
  function,     // with its body
  prototype,    // a function's declaration alone
  type,         // struct, class, union, enum
  shared,       // a `__shared__` variable outside functions
  declaration,  // anything else: constants, aliases, static_assert, unroll pragmas
};

struct source_item {
  item_kind kind = item_kind::declaration;
  std::size_t begin = 0, end = 0;  // tokens, half open
  std::string_view name;           // of a function
  std::size_t name_at = 0;         // its token
  std::size_t parameters = 0;      // the token '(' of a function's parameters
  std::size_t body = 0;            // the token '{' of a function's body
  bool is_kernel = false;          // __global__, not a template
  bool uses_thread_state = false;  // uses threadIdx and similar, or a function that does
  bool cooperates = false;         // uses barriers, shuffles, votes or __shared__, or a function that does
  std::unordered_set<std::string_view> words;
};

// Splits the tokens and follows the calls, by name: functions of the same name count as one. Errors: unsupported,
// compile_failed (braces that do not match).
expected<std::vector<source_item>> items_of(const std::vector<token>& tokens);

// The token after the bracket that closes the one at `open`; more than tokens.size() if there is none.
std::size_t after_closing(const std::vector<token>& tokens, std::size_t open);

}  // namespace cudal1
