// Asks one model at one OpenAI-compatible endpoint (chat completions), many requests at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "config/base/error.hpp"
#include "policy/chat/answer_cache.hpp"
#include "policy/chat/chat_budget.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/chat/model_client.hpp"

namespace cudal1 {

// Owns its network thread. Thread-safe, but for the destructor.
//
// Errors of a request: errc::out_of_budget if it cannot be afforded, errc::cancelled, errc::invalid_argument if the
// server refuses the request, its key or its model, errc::timeout and errc::infrastructure after the last try. Its
// trouble is what went wrong with a try.
class chat_client final : public model_client {
 public:
  // `cache` may be null. errc::invalid_argument if the URL or the file of certificates cannot be used. Nothing is sent.
  static expected<std::unique_ptr<chat_client>> start(chat_model model, std::shared_ptr<chat_budget> budget,
                                                      std::shared_ptr<answer_cache> cache, trouble notice = {});
  // Cancels what is under way and joins: every callback has been called when it returns. That may take as long as the
  // system's resolver takes to look up a host name.
  ~chat_client() override;

  // The request waits for its turn (chat_model::parallel, rate limits, the budget); its patience begins when it is
  // first sent.
  uint64_t ask(chat_request r, done then) override;
  void cancel(uint64_t id) override;

 private:
  class core;
  explicit chat_client(std::shared_ptr<core> c);
  std::shared_ptr<core> core_;
};

}  // namespace cudal1
