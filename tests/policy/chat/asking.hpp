// What the tests of the chat client share: a model with short times, and answers that are waited for.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "policy/chat/chat_client.hpp"

namespace cudal1 {

inline chat_model test_model(const std::string& url) {
  chat_model m;
  m.name = "tester";
  m.url = url;
  m.model = "test-model";
  m.max_answer_tokens = 1000;
  m.temperature = 0.5;
  m.top_p = 0.9;
  m.parallel = 32;
  m.tries = 4;
  m.retry_delay_s = 0.01;
  m.patience_s = 20;
  m.connect_timeout_s = 5;
  m.first_token_timeout_s = 5;
  m.token_timeout_s = 5;
  return m;
}

inline chat_request request_for(const std::string& prompt, int64_t sample = 0) {
  chat_request r;
  r.messages = {{"system", "You write kernels."}, {"user", prompt}};
  r.sample = sample;
  r.seed = 7;
  return r;
}

inline std::unique_ptr<chat_client> client_of(chat_model m, std::shared_ptr<answer_cache> cache = nullptr,
                                              std::shared_ptr<chat_budget> budget = chat_budget::make(0, 0)) {
  auto made = chat_client::start(std::move(m), std::move(budget), std::move(cache));
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

using answer_future = std::future<expected<chat_answer>>;

inline std::pair<uint64_t, answer_future> begin_asking(chat_client& c, chat_request r) {
  auto promise = std::make_shared<std::promise<expected<chat_answer>>>();
  auto future = promise->get_future();
  const uint64_t id = c.ask(std::move(r), [promise](expected<chat_answer> a) { promise->set_value(std::move(a)); });
  return {id, std::move(future)};
}

inline expected<chat_answer> ask_and_wait(chat_client& c, chat_request r) {
  auto future = begin_asking(c, std::move(r)).second;
  if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return fail(errc::timeout, "no callback");
  return future.get();
}

}  // namespace cudal1
