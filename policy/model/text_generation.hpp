// What text generation takes and gives: free of LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1 {

using token = int32_t;

struct generation_options {
  double temperature = 1;       // 0: the most probable token
  double top_p = 1;             // the fewest most probable tokens with at least this probability
  int64_t top_k = 0;            // of these most probable tokens only; 0: of all
  int64_t most_tokens = 256;    // of each answer
  std::vector<token> end = {};  // an answer ends after one of these
  uint64_t seed = 0;
};

// Called with each token of each answer, as it is chosen; false ends this answer.
using token_listener = std::function<bool(std::size_t answer, token chosen)>;

BOOST_DEFINE_ENUM_CLASS(generation_end,
                        end_token,  // the answer's last token is one of generation_options::end
                        length,     // most_tokens or the model's context was reached
                        stopped)    // the listener ended it

struct generated_tokens {
  std::vector<token> tokens;            // without the prompt's
  std::vector<double> log_probability;  // of each token among all, at temperature 1
  generation_end end = generation_end::length;
};

// Of all answers together, which are generated side by side.
struct generation_report {
  int64_t prompt_tokens = 0;  // read, each shared one once
  int64_t shared_tokens = 0;  // at the beginning of every prompt
  int64_t answer_tokens = 0;
  double prompt_seconds = 0;  // until the first token of every answer is chosen
  double answer_seconds = 0;  // from then on
  int64_t cache_bytes = 0;    // of keys and values, when they were most
};
BOOST_DESCRIBE_STRUCT(generation_report, (),
                      (prompt_tokens, shared_tokens, answer_tokens, prompt_seconds, answer_seconds, cache_bytes))

struct generation {
  std::vector<generated_tokens> answers;
  generation_report report;
};

}  // namespace cudal1
