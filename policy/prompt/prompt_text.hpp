// A document as text for a language model: a system message, which is the same for all prompts of a form and a kind of
// device as far as the gates are, and a user message with the task. A token budget is kept by leaving out the least
// useful parts first:
//
//   1. failed variants, the oldest first        7. exemplars but the best, the slowest first
//   2. the second example of the library        8. schemas of operators other than the task's own
//   3. names of operators                       9. earlier rounds of a repair
//   4. kernels by others                       10. the best exemplar, if an example shows the format
//   5. the PyTorch source: the task's program  11. legal examples of moves
//      says the same
//   6. the analyses of earlier variants
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

// Bytes of English and code for one token, for estimates: tokenizers of current models take 3 to 4.
inline constexpr double bytes_per_token = 3.5;
int64_t estimated_tokens(std::size_t bytes);

struct prompt_text {
  std::string system, user;
  int64_t tokens = 0;                // of both: estimated, or counted by the model's tokenizer
  bool compact = false;              // compact_text's words
  std::vector<std::string> dropped;  // what was left out, in that order: "the failed variant 3f9a1c2b4d5e"

  std::string id() const;  // SHA-256 of both: the same for the same document and budget
};
BOOST_DESCRIBE_STRUCT(prompt_text, (), (system, user, tokens, compact, dropped))

// How much a prompt explains. `fitting`: all if that is within the budget with nothing left out, else little.
BOOST_DEFINE_ENUM_CLASS(prompt_detail, full, compact, fitting)

// The tokens of both messages; empty: an estimate from their bytes.
using token_counter = std::function<expected<int64_t>(const prompt_text&)>;

// errc::invalid_argument if the parts that cannot be left out need more than `most_tokens`; it names the least budget.
// Errors of the counter.
expected<prompt_text> render(prompt_document d, int64_t most_tokens, prompt_detail detail = prompt_detail::full,
                             const token_counter& count = {});

}  // namespace cudal1
