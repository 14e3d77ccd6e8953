// Chats as texts to learn from: JSON lines with `messages`, as TRL and verl read them.
#pragma once

#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/chat/chat_types.hpp"
#include "policy/model/chat_template/pretrained_chat.hpp"
#include "policy/model/training/text_trainer.hpp"

namespace cudal1 {

// A line of a file. Other members of the object (provenance) are ignored.
struct training_chat {
  std::vector<chat_message> messages;
};
BOOST_DESCRIBE_STRUCT(training_chat, (), (messages))

// errc::corrupt names file and line: where it is no JSON, or no message is an assistant's.
expected<std::vector<training_chat>> read_chat_lines(const std::string& path);

// The answers of a chat, each a text of its own with what was said before as its prompt, as it would be generated; only
// the answer is written, with the token that ends it.
expected<std::vector<text_episode>> texts_of(const training_chat& line, const pretrained_chat& chat);

}  // namespace cudal1
