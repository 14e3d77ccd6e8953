#include "policy/model/training/chat_texts.hpp"

#include <algorithm>
#include <span>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view of_assistant = "assistant";

}  // namespace

expected<std::vector<training_chat>> read_chat_lines(const std::string& path) {
  CUDAL1_TRY(const std::string text, read_text_file(path));
  std::vector<training_chat> out;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto read = from_text<training_chat>(line);
    if (!read) return fail(errc::corrupt, "{}, line {}: {}", path, number, read.error().message);
    if (std::ranges::count(read->messages, of_assistant, &chat_message::role) == 0)
      return fail(errc::corrupt, "{}, line {}: none of its messages has the role assistant: there is nothing to learn",
                  path, number);
    out.push_back(std::move(*read));
  }
  if (out.empty()) return fail(errc::corrupt, "{} has no chats", path);
  return out;
}

expected<std::vector<text_episode>> texts_of(const training_chat& line, const pretrained_chat& chat) {
  std::vector<text_episode> out;
  for (std::size_t i = 0; i < line.messages.size(); ++i) {
    if (line.messages[i].role != of_assistant) continue;
    text_episode e;
    CUDAL1_TRY(e.tokens, chat.prompt_of(std::span(line.messages).first(i)));
    CUDAL1_TRY(auto answer, chat.words().encode(line.messages[i].content, special_texts::are_text));
    if (!chat.ends().empty()) answer.push_back(chat.ends().front());
    for (const token t : answer) {
      e.written.push_back(std::ssize(e.tokens));
      e.tokens.push_back(t);
    }
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace cudal1
