// Answers requests with a model that this process reads from files: a Hugging Face folder or a GGUF file.
#pragma once

#include <memory>

#include "policy/chat/answer_cache.hpp"
#include "policy/chat/chat_budget.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/chat/model_client.hpp"
#include "policy/model/local/local_checkpoint.hpp"
#include "sandbox/device/device_turns.hpp"

namespace cudal1 {

// Owns a thread, in which the model is loaded for the first request that the cache cannot answer, and generates for all
// requests together, as many as chat_model::parallel and cache_mb allow: one that comes later joins the others. Its
// trouble says while it loads.
//
// Errors of a request: errc::out_of_budget, errc::cancelled; errc::invalid_argument where prompt and answer do not fit
// the model's context or memory of keys and values; errc::timeout after chat_model::patience_s; those of
// language_model::open and generate.
class local_chat final : public model_client {
 public:
  // The model's url, device and precision are set. `cache` may be null. `turns`: of a device that measures, which it
  // uses in turns with that; else null.
  static std::unique_ptr<local_chat> start(chat_model model, std::shared_ptr<const local_checkpoint> files,
                                           std::shared_ptr<chat_budget> budget, std::shared_ptr<answer_cache> cache,
                                           std::shared_ptr<device_turns> turns, trouble notice = {});
  // Cancels what is under way and joins. A step of the model, or its loading, is not interrupted.
  ~local_chat() override;

  uint64_t ask(chat_request r, done then) override;
  void cancel(uint64_t id) override;

 private:
  class core;
  explicit local_chat(std::unique_ptr<core> c);
  std::unique_ptr<core> core_;
};

}  // namespace cudal1
