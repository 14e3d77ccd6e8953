// A request as the server gets it, and the name of its answer in the cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/chat/chat_types.hpp"
#include "policy/chat/server_error.hpp"

namespace cudal1 {

// What a server does not take, learned from its refusals: OpenAI's reasoning models want max_completion_tokens and no
// temperature, and strict gateways refuse fields that they do not know.
struct server_dialect {
  bool completion_tokens = false;  // the limit is named max_completion_tokens
  bool temperature = true, top_p = true, seed = true, stream_options = true;  // may be sent
  bool stream = true;  // the answer comes as a stream; of one request
  bool operator==(const server_dialect&) const = default;
};

// The dialect that avoids this refusal of a request in the dialect `sent`; the same one if it is about something else.
server_dialect adapted(server_dialect sent, const server_error& refusal);
// Every deviation of either, but `stream`.
server_dialect both(const server_dialect& a, const server_dialect& b);

// Of an answer: from the request's seed and which of its answers it is. 31 bits fit all servers.
int64_t seed_of(const chat_request& r);

// The body of a request. max_tokens, temperature and top_p must be set.
std::string request_body(const chat_request& r, const std::string& model, const server_dialect& d);

// SHA-256 over all that an answer depends on. The dialect is not part of it: it follows from the server.
std::string answer_key(const std::string& url, const std::string& model, const chat_request& r);

// Estimates of tokens where nobody counted them. Three bytes a token is below what tokenizers reach on code and English
// prose, so that an estimated prompt is rather too long.
int64_t estimated_tokens(int64_t bytes);
int64_t estimated_prompt_tokens(const chat_request& r);

}  // namespace cudal1
