// A request to a local model as tokens, and what it generated as an answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policy/chat/chat_types.hpp"
#include "policy/model/constraint/token_masks.hpp"
#include "policy/model/local/local_checkpoint.hpp"
#include "policy/model/text_engine.hpp"

namespace cudal1 {

// max_tokens, temperature and top_p of the request are set; `masks`: null if it is unconstrained. What is drawn for it
// depends on nothing else that is generated. errc::invalid_argument from constraint_of.
expected<text_request> generation_of(const chat_request& r, std::vector<token> prompt,
                                     const std::shared_ptr<const token_masks>& masks, std::vector<token> ends);

// Without cost, times and number of tries.
chat_answer answer_of(const generated_tokens& made, int64_t prompt_tokens, const local_checkpoint& files);

// Bytes of the keys and values of one token.
int64_t cache_bytes_of_token(const model_shape& s, const std::string& precision);

}  // namespace cudal1
