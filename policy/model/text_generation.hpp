// What text generation takes and gives: free of LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1 {

using token = int32_t;

// Which tokens may come next in an answer, after these of it: sets the bits of the allowed ones (token t is bit t % 32
// of word t / 32; all bits are 0 before). false: all are allowed, and the bits are not looked at. Called once before
// each token, from the thread that generates; an answer for which no bit is set ends with errc::invalid_argument.
using token_constraint =
    std::function<bool(std::size_t answer, std::span<const token> so_far, std::span<uint32_t> allowed)>;

struct generation_options {
  double temperature = 1;       // 0: the most probable token
  double top_p = 1;             // the fewest most probable tokens with at least this probability
  int64_t top_k = 0;            // of these most probable tokens only; 0: of all
  int64_t most_tokens = 256;    // of each answer
  std::vector<token> end = {};  // an answer ends after one of these
  uint64_t seed = 0;
  std::vector<uint64_t> seeds = {};  // of each answer of generate(), in place of those that are made of `seed`
  token_constraint constraint = {};  // none: all tokens are allowed
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
  int64_t reused_tokens = 0;  // of prompts, whose keys and values were there already
  int64_t answer_tokens = 0;
  double prompt_seconds = 0;  // until the first token of every answer is chosen
  double answer_seconds = 0;  // from then on
  int64_t steps = 0;          // of one further token of each answer that goes on
  int64_t graph_steps = 0;    // of these, replayed as a CUDA graph
  int64_t cache_bytes = 0;    // of keys and values, when they were most
  int64_t cache_limit = 0;    // bytes reserved for them
  int64_t pages = 0;          // of these, in use when they were most
  int64_t model_bytes = 0;    // of weights
};
BOOST_DESCRIBE_STRUCT(generation_report, (),
                      (prompt_tokens, shared_tokens, reused_tokens, answer_tokens, prompt_seconds, answer_seconds,
                       steps, graph_steps, cache_bytes, cache_limit, pages, model_bytes))

struct generation {
  std::vector<generated_tokens> answers;
  generation_report report;
};

}  // namespace cudal1
