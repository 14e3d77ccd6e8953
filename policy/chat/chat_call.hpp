// One request to a model, with its tries, until there is an answer or no hope of one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "config/base/deadline.hpp"
#include "policy/chat/answer_cache.hpp"
#include "policy/chat/chat_budget.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/chat/chat_types.hpp"
#include "policy/chat/endpoint.hpp"
#include "policy/chat/http_exchange.hpp"
#include "policy/chat/reply_reader.hpp"
#include "policy/chat/request_text.hpp"

namespace cudal1 {

// What all requests of a client share. To be used in the thread of `io`.
struct chat_line {
  boost::asio::io_context io{1};
  chat_model model;
  endpoint to;
  std::shared_ptr<tls_settings> tls;    // null for http
  std::shared_ptr<answer_cache> cache;  // null: no cache
  server_dialect dialect;
  deadline not_before{};                           // the server's rate limit: no request should begin earlier
  std::function<void(const std::string&)> notice;  // chat_client::trouble, or empty

  // `text` without the keys of the model and of its proxy.
  std::string masked(std::string text) const;
};

// Exists in the thread of the line's io_context only, and as long as anything is under way.
class chat_call : public std::enable_shared_from_this<chat_call> {
 public:
  using done = std::function<void(expected<chat_answer>)>;

  // All fields of `request` are set; `key` is the name of the answer in the cache.
  chat_call(chat_line& line, chat_request request, std::string key, chat_budget::reservation room, done then);
  void start();
  // Ends it with this error.
  void stop(error why);

 private:
  struct failure {
    errc code = errc::infrastructure;
    std::string what;
    bool is_temporary = false;
    std::optional<double> wait_s = {};  // that the server asked for
  };

  void attempt();
  http_listener::wish take_body(std::string_view part);
  void end_try(http_end end, const std::string& why);
  failure failure_of_answer(http_end end, const std::string& why) const;
  failure failure_of_status();
  failure refusal_of(const server_error& e) const;
  bool adapt(const server_error& refusal);
  void try_again_after(const failure& f);
  void succeed();
  expected<void> charge_lost();
  double cost_of(int64_t prompt_tokens, int64_t answer_tokens) const;
  void finish(expected<chat_answer> result);
  // With the name of the model, and without keys.
  std::string described(const std::string& what) const;
  void note_trouble(const std::string& what) const;

  chat_line& line_;
  chat_request request_;
  std::string key_;
  std::optional<chat_budget::reservation> room_;
  done then_;  // empty once it has been called
  boost::asio::steady_timer patience_, pause_;
  std::shared_ptr<http_exchange> exchange_;  // null between tries

  // false: a stream has ended before it began. llama-cpp-python does so where it would refuse the request, and says why
  // to those that ask for no stream.
  bool streams_ = true;
  deadline began_, gives_up_;
  int64_t tries_ = 0;
  chat_spending lost_;
  std::string last_problem_;

  // Of the current try.
  server_dialect sent_;
  int status_ = 0;
  http_headers headers_;
  std::optional<reply_reader> reader_;
  reply_state state_ = reply_state::more;
  std::string refusal_;  // the body of a reply that is no answer
};

}  // namespace cudal1
