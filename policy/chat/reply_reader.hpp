// Puts an answer together from the body of a reply: a stream of events, or one JSON document from a server that does
// not stream. Accepts what the known servers send, beyond what they document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/base/json.hpp"
#include "policy/chat/chat_types.hpp"
#include "policy/chat/event_stream.hpp"
#include "policy/chat/server_error.hpp"

namespace cudal1 {

enum class reply_state {
  more,      // the answer goes on
  finished,  // its text has ended; the count of its tokens may follow
  complete,  // nothing that follows matters
  failed,    // problem() says why
};

class reply_reader {
 public:
  // What comes next of the body, cut anywhere.
  reply_state add(std::string_view bytes);
  // The body has ended, or was cut: complete if the answer was finished by then, else failed.
  reply_state end();

  const server_error& problem() const { return problem_; }
  // Nothing came of a reply but blanks and comments.
  bool is_empty() const {
    return form_ != form::document && !has_event_ && (begins_.empty() || begins_.starts_with(':'));
  }
  // Of an answer that is finished, or what there is of it: text, reasoning, model, finish_reason and, if the server
  // counted them, tokens.
  chat_answer take();
  // Of text and reasoning so far.
  int64_t answer_bytes() const { return static_cast<int64_t>(answer_.text.size() + answer_.reasoning.size()); }

 private:
  reply_state take_event(std::string event);
  reply_state take_reply(const json& reply);
  void take_choice(const json& choice);
  void take_content(const json* content);
  void take_usage(const json* usage);
  reply_state fail_with(std::string message);

  enum class form { unknown, events, document } form_ = form::unknown;
  event_stream events_;
  std::string document_, begins_;  // begins_: the first bytes of the reply
  bool has_event_ = false;
  chat_answer answer_;
  bool has_choice_ = false, has_usage_ = false, is_finished_ = false;
  std::size_t received_ = 0;
  server_error problem_;
};

}  // namespace cudal1
