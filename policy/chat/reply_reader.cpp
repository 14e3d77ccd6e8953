#include "policy/chat/reply_reader.hpp"

#include <fmt/format.h>

#include "config/base/utf8.hpp"

namespace cudal1 {

namespace {

// Far more than the longest answer; a stream carries some hundred bytes for each token.
constexpr std::size_t largest_body = 256 << 20, largest_document = 32 << 20;
constexpr std::size_t largest_answer = 16 << 20;
constexpr std::size_t shown_bytes = 60;  // of a reply that is no answer

const std::string* string_member(const json& object, std::string_view name) {
  const json* member = object.find(name);
  return member != nullptr && member->is_string() ? &member->as_string() : nullptr;
}

int64_t count_member(const json& object, std::string_view name) {
  const json* member = object.find(name);
  return member != nullptr && member->is_int() && member->as_int() > 0 ? member->as_int() : 0;
}

// Some servers leave what a model thinks in its text, between these tags; the first may be part of their prompt.
void split_reasoning(chat_answer& a) {
  constexpr std::string_view begin = "<think>", end = "</think>";
  const auto closes = a.text.find(end);
  if (closes == std::string::npos) return;
  std::string thought = a.text.substr(0, closes);
  const auto opens = thought.find(begin);
  if (opens != std::string::npos && thought.find_first_not_of(" \t\r\n") != opens) return;
  if (opens != std::string::npos) thought.erase(0, opens + begin.size());
  a.reasoning += thought;
  a.text.erase(0, closes + end.size());
}

}  // namespace

reply_state reply_reader::fail_with(std::string message) {
  problem_ = {.status = 0, .message = std::move(message), .param = "", .code = ""};
  return reply_state::failed;
}

reply_state reply_reader::add(std::string_view bytes) {
  received_ += bytes.size();
  if (received_ > largest_body || document_.size() > largest_document)
    return fail_with(fmt::format("the reply is larger than {} MiB",
                                 (form_ == form::document ? largest_document : largest_body) >> 20));
  if (form_ == form::unknown) {
    const auto first = bytes.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return reply_state::more;
    form_ = bytes[first] == '{' ? form::document : form::events;
    begins_ = replace_invalid_utf8(std::string(bytes.substr(first, shown_bytes)));
  }
  if (form_ == form::document) {
    document_ += bytes;
    return reply_state::more;
  }
  auto events = events_.add(bytes);
  if (!events) return fail_with(events.error().message);
  for (auto& event : *events)
    if (const auto state = take_event(std::move(event)); state == reply_state::complete || state == reply_state::failed)
      return state;
  return is_finished_ ? reply_state::finished : reply_state::more;
}

reply_state reply_reader::end() {
  if (form_ == form::document) {
    const auto reply = json::parse(replace_invalid_utf8(std::move(document_)));
    if (!reply) return fail_with("the reply is not JSON: " + reply.error().message);
    if (take_reply(*reply) == reply_state::failed) return reply_state::failed;
    if (!has_choice_) return fail_with("the reply has no answer in it (\"choices\")");
    return reply_state::complete;
  }
  // What is cut off after the end of the text is not missed.
  if (!is_finished_)
    if (auto last = events_.end(); !last.empty())
      if (const auto state = take_event(std::move(last)); state == reply_state::complete) return state;
  if (is_finished_) return reply_state::complete;
  if (!problem_.message.empty()) return reply_state::failed;
  if (!has_event_ && !is_empty())
    return fail_with(
        fmt::format("the reply is neither JSON nor a stream of events: it begins with \"{}\". The URL "
                    "should be the base of an OpenAI-compatible API, which often ends in /v1",
                    begins_));
  return fail_with(fmt::format("the stream ended in the middle of the answer, after {} bytes of text", answer_bytes()));
}

reply_state reply_reader::take_event(std::string event) {
  const auto begins = event.find_first_not_of(" \t\r\n");
  if (begins == std::string::npos) return reply_state::more;
  has_event_ = true;
  if (event.compare(begins, 6, "[DONE]") == 0) {
    if (!has_choice_) return fail_with("the stream ended without an answer");
    // llama-cpp-python ends a stream so when another request comes.
    if (!is_finished_ && !has_usage_)
      return fail_with(fmt::format(
          "the stream ended after {} bytes of text without saying why (finish_reason): servers that answer one request "
          "at a time break it off for the next one; set llm.parallel=1, and --interrupt_requests False for "
          "llama-cpp-python's server",
          answer_bytes()));
    is_finished_ = true;
    return reply_state::complete;
  }
  const auto reply = json::parse(replace_invalid_utf8(std::move(event)));
  if (!reply || !reply->is_object())
    return is_finished_ ? reply_state::finished
                        : fail_with("an event of the stream is not a JSON object" +
                                    (reply ? std::string() : ": " + reply.error().message));
  return take_reply(*reply);
}

reply_state reply_reader::take_reply(const json& reply) {
  const json* error = reply.find("error");
  const auto* object = string_member(reply, "object");
  if ((error != nullptr && !error->is_null()) || (object != nullptr && *object == "error")) {
    if (is_finished_) return reply_state::finished;
    problem_ = read_server_error(0, reply);
    return reply_state::failed;
  }
  if (const auto* model = string_member(reply, "model"); model != nullptr && !model->empty()) answer_.model = *model;
  if (const json* choices = reply.find("choices"); choices != nullptr && choices->is_array())
    for (const auto& choice : choices->as_array())
      take_choice(choice);
  take_usage(reply.find("usage"));
  if (const json* groq = reply.find("x_groq")) take_usage(groq->find("usage"));
  if (answer_.finish_reason == "error") return fail_with("the server ended the answer with an error");
  if (answer_bytes() > static_cast<int64_t>(largest_answer))
    return fail_with(fmt::format("the answer is longer than {} MiB", largest_answer >> 20));
  return is_finished_ ? has_usage_ ? reply_state::complete : reply_state::finished : reply_state::more;
}

void reply_reader::take_choice(const json& choice) {
  if (const json* index = choice.find("index"); index != nullptr && index->is_int() && index->as_int() != 0) return;
  const json* part = choice.find("delta");
  const bool whole = part == nullptr || !part->is_object();
  if (whole) part = choice.find("message");
  if (part != nullptr && part->is_object()) {
    has_choice_ = true;
    take_content(part->find("content"));
    if (const auto* refusal = string_member(*part, "refusal")) answer_.text += *refusal;
    // Servers that name it both ways send the same text twice.
    const auto* thought = string_member(*part, "reasoning_content");
    if (thought == nullptr) thought = string_member(*part, "reasoning");
    if (thought != nullptr) answer_.reasoning += *thought;
  }
  if (const auto* reason = string_member(choice, "finish_reason"); reason != nullptr && !reason->empty()) {
    answer_.finish_reason = *reason;
    is_finished_ = has_choice_ = true;
  }
  take_usage(choice.find("usage"));
}

// A text, or a list of parts.
void reply_reader::take_content(const json* content) {
  if (content == nullptr) return;
  if (content->is_string()) answer_.text += content->as_string();
  if (!content->is_array()) return;
  for (const auto& part : content->as_array()) {
    if (const auto* text = string_member(part, "text")) answer_.text += *text;
    if (const json* thoughts = part.find("thinking"); thoughts != nullptr && thoughts->is_array())
      for (const auto& thought : thoughts->as_array())
        if (const auto* text = string_member(thought, "text")) answer_.reasoning += *text;
  }
}

// Streams that count as they go are overtaken by their last count.
void reply_reader::take_usage(const json* usage) {
  if (usage == nullptr || !usage->is_object()) return;
  const int64_t prompt = count_member(*usage, "prompt_tokens"), answer = count_member(*usage, "completion_tokens");
  if (prompt == 0 && answer == 0) return;
  answer_.prompt_tokens = prompt;
  answer_.answer_tokens = answer;
  has_usage_ = true;
}

chat_answer reply_reader::take() {
  split_reasoning(answer_);
  answer_.tokens_estimated = !has_usage_;
  return std::move(answer_);
}

}  // namespace cudal1
