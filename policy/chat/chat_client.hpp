// Asks one model at one OpenAI-compatible endpoint (chat completions), many requests at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "config/base/error.hpp"
#include "policy/chat/answer_cache.hpp"
#include "policy/chat/chat_budget.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/chat/chat_types.hpp"

namespace cudal1 {

// Owns its network thread. Thread-safe, but for the destructor.
class chat_client {
 public:
  // Called once for each request, on the network thread, which it must not hold up: it should only pass the answer on.
  // It must not destroy the client.
  //
  // Errors: errc::out_of_budget if the request cannot be afforded, errc::cancelled, errc::invalid_argument if the
  // server refuses the request, its key or its model, errc::timeout and errc::infrastructure after the last try.
  using done = std::function<void(expected<chat_answer>)>;
  // Called on the network thread with what went wrong with a try, and with "" when an answer came.
  using trouble = std::function<void(const std::string& what)>;

  // `cache` may be null. errc::invalid_argument if the URL or the file of certificates cannot be used. Nothing is sent.
  static expected<std::unique_ptr<chat_client>> start(chat_model model, std::shared_ptr<chat_budget> budget,
                                                      std::shared_ptr<answer_cache> cache, trouble notice = {});
  // Cancels what is under way and joins: every callback has been called when it returns. That may take as long as the
  // system's resolver takes to look up a host name.
  ~chat_client();
  chat_client(const chat_client&) = delete;
  chat_client& operator=(const chat_client&) = delete;

  // Returns at once. The request waits for its turn (chat_model::parallel, rate limits, the budget); its patience
  // begins when it is first sent.
  uint64_t ask(chat_request r, done then);
  // Its callback gets errc::cancelled, unless it has been called.
  void cancel(uint64_t id);

 private:
  class core;
  explicit chat_client(std::shared_ptr<core> c);
  std::shared_ptr<core> core_;
};

}  // namespace cudal1
