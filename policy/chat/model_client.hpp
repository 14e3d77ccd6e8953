// Who answers the requests to one language model: an endpoint (chat_client), or a model that this process has read from
// files (policy/model/local_chat).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "config/base/error.hpp"
#include "policy/chat/chat_types.hpp"

namespace cudal1 {

// Thread-safe, but for the destructor, after which no callback is called.
class model_client {
 public:
  // Called once for each request, on a thread of the client, which it must not hold up: it should only pass the answer
  // on. It must not destroy the client.
  using done = std::function<void(expected<chat_answer>)>;
  // Called on a thread of the client with what goes wrong, or takes long, and with "" when an answer came.
  using trouble = std::function<void(const std::string& what)>;

  model_client() = default;
  virtual ~model_client() = default;
  model_client(const model_client&) = delete;
  model_client& operator=(const model_client&) = delete;

  // Returns at once. The request waits for its turn.
  virtual uint64_t ask(chat_request r, done then) = 0;
  // Its callback gets errc::cancelled, unless it has been called.
  virtual void cancel(uint64_t id) = 0;
};

}  // namespace cudal1
