// Requests that a local model answers side by side.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "policy/chat/chat_models.hpp"
#include "policy/chat/chat_types.hpp"
#include "policy/model/constraint/token_masks.hpp"
#include "policy/model/language_model.hpp"
#include "policy/model/local/local_checkpoint.hpp"

namespace cudal1 {

struct batched_request {
  chat_request request;  // max_tokens, temperature and top_p are set; the last two are alike in a batch
  std::vector<token> prompt;
  std::shared_ptr<const token_masks> masks;  // null: unconstrained
};

// Generates an answer to each. `goes_on` is asked before each further token of a request, by its place; where it says
// no, the answer is as far as it came. The answers have no cost and no number of tries. errc::invalid_argument from
// constraint_of, and the errors of language_model::generate.
expected<std::vector<chat_answer>> answer_together(const language_model& with, const local_checkpoint& files,
                                                   const std::vector<batched_request>& batch,
                                                   const std::function<bool(std::size_t request)>& goes_on);

// Bytes of the keys and values of one token.
int64_t cache_bytes_of_token(const model_shape& s, const std::string& precision);

}  // namespace cudal1
