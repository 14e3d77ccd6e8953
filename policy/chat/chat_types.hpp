// What a model is asked and what it answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1 {

struct chat_message {
  std::string role;     // system, user or assistant
  std::string content;  // bytes that are not UTF-8 are sent as U+FFFD
};
BOOST_DESCRIBE_STRUCT(chat_message, (), (role, content))

class byte_automaton;

struct chat_request {
  std::vector<chat_message> messages;
  int64_t max_tokens = 0;             // of the answer; 0: as many as the model's settings allow
  std::optional<double> temperature;  // none: that of the model's settings
  std::optional<double> top_p;        // none: that of the model's settings
  int64_t sample = 0;                 // which of several answers to the same messages
  uint64_t seed = 0;                  // sent to the server mixed with `sample`; few servers promise anything for it
  // What the answer may be; null: anything. Only for local models, and not part of the answer's name in the cache: the
  // model's URL says whether its answers are constrained.
  std::shared_ptr<const byte_automaton> shape = nullptr;
};
BOOST_DESCRIBE_STRUCT(chat_request, (), (messages, max_tokens, temperature, top_p, sample, seed))

struct chat_answer {
  std::string text;
  std::string reasoning;      // what the model thought before it answered, where the server tells
  std::string model;          // as the server names it
  std::string finish_reason;  // stop, length (max_tokens was reached), ...; "" if the server gave none
  int64_t prompt_tokens = 0, answer_tokens = 0;  // of this answer; `answer_tokens` include those of the reasoning
  int64_t lost_tokens = 0;                       // estimate for the tries whose stream was cut: they are paid for, too
  bool tokens_estimated = false;                 // the server did not count them
  double cost = 0;                               // of all tries, in the currency of the prices; 0 if cached
  // From the first try to the end; of a local model its share of the time of all answers that were generated with it.
  // Of a cached answer: when it was asked for.
  double seconds = 0;
  double prompt_seconds = 0;  // of a local model: the part of `seconds` until the first token
  int64_t tries = 0;
  int64_t cache_bytes = 0, model_bytes = 0;  // of a local model: keys and values of all answers beside it, weights
  bool cached = false;                       // read from the cache of answers, not asked for
};
BOOST_DESCRIBE_STRUCT(chat_answer, (),
                      (text, reasoning, model, finish_reason, prompt_tokens, answer_tokens, lost_tokens,
                       tokens_estimated, cost, seconds, prompt_seconds, tries, cache_bytes, model_bytes, cached))

}  // namespace cudal1
